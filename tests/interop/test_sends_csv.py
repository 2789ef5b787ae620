"""Sends as CSV: both ways, by hand, and what is refused with its line."""

from __future__ import annotations

import pytest
from plan_samples import CARRIED_BY_CSV, plans, same
from program_by_hand import gathering_program, ring_schedule

from ocs_codesign.core.network import Network
from ocs_codesign.interop.registry import Export
from ocs_codesign.interop.sends_csv import LAYOUT, parse_sends, read_sends, write_sends
from ocs_codesign.verification.schedules import verify


def export(name: str) -> Export:
    program = gathering_program(ring_schedule(2))
    return Export("it", plans()[name], program, Network(1, 1, [], [], []))


@pytest.mark.parametrize("name", CARRIED_BY_CSV)
def test_both_ways(name, tmp_path):
    contents = write_sends(export(name))
    for file, content in contents.items():
        (tmp_path / file).write_bytes(content)
    assert same(read_sends(tmp_path / "it.sends.csv"), plans()[name])


@pytest.mark.parametrize("name", ["allgather", "allreduce", "allgather over parallel links"])
def test_without_links_beside_it_links_are_those_used(name):
    contents = write_sends(export(name))
    plan = parse_sends(contents["it.sends.csv"], "x")
    assert verify(plan).ok
    assert plan.synchronous_cost() == plans()[name].synchronous_cost()


@pytest.mark.parametrize("name", ["weighted", "custom", "groups"])
def test_what_a_table_does_not_say(name):
    with pytest.raises(ValueError, match="CSV carries equal shards of one group"):
        write_sends(export(name))


HEAD = '# {"collective": "allgather", "num_nodes": 3, "num_chunks": 1}\n'
RING = "1,0,1,0\n1,1,2,1\n1,2,0,2\n2,0,1,2\n2,1,2,0\n2,2,0,1\n"


def test_by_hand_with_semicolons_comments_and_few_columns():
    rows = RING.replace(",", " ; ")
    text = HEAD + "step; source; target; item\n# the ring\n\n" + rows
    assert parse_sends(text.encode(), "x") == ring_schedule(3)


def test_links_beside_it_give_speeds_and_links_that_are_not_used():
    links = b"link,source,target,speed\n0,0,1,2\n1,1,2,1\n2,2,0,1\n3,0,2,5\n"
    text = (HEAD + "step,source,target,item\n" + RING).encode()
    plan = parse_sends(text, "x", ("l", links))
    assert plan.topology.speeds().tolist() == [2, 1, 1, 5]
    assert plan.link.tolist() == [0, 1, 2] * 2


HEADING = "step,source,target,item\n"
BAD = {
    "nothing": ("", "x, line 1: a file of sends begins with #"),
    "no head": (HEADING + RING, "x, line 1: a file of sends begins with #"),
    "no JSON": ("# allgather\n" + HEADING, "x, line 1.*this is not JSON"),
    "a list": ("# [1]\n" + HEADING, r"\[1\] is no JSON object"),
    "unknown": ('# {"nodes": 3}\n', "'nodes' is not known: known are collective"),
    "a text as number": ('# {"num_nodes": "3"}\n', "num_nodes is '3'"),
    "true as number": ('# {"num_nodes": true}\n', "num_nodes is True"),
    "no collective": ('# {"num_nodes": 3, "num_chunks": 1}\n', "collective is missing"),
    "no chunks": ('# {"collective": "allgather", "num_nodes": 3}\n', "num_chunks is of schedules"),
    "a root": (HEAD.replace("}", ', "root": 1}') + HEADING + RING, "allgather has no root"),
    "no item": (HEAD + "step,source,target\n1,0,1\n", "x, line 2: there is no item"),
    "a column twice": (HEAD + "step,step\n", "x, line 2: both step and step are given"),
    "a column of others": (HEAD + "step,size\n", "x, line 2: the heading names 'size'"),
    "a step 0": (HEAD + HEADING + "0,0,1,0\n", "x, line 3: step is 0: it must be from 1"),
    "a word": (HEAD + HEADING + "1,a,1,0\n", "x, line 3: source is 'a': it must be a whole"),
    "a negative": (HEAD + HEADING + "1,-1,1,0\n", "x, line 3: source is -1"),
    "a fraction": (HEAD + HEADING + "1,0.5,1,0\n", "x, line 3: source is '0.5'"),
    "too few cells": (HEAD + HEADING + "1,0\n", "x, line 3: 2 cells, but the heading has 4"),
    "an empty cell": (HEAD + HEADING + "1,,1,0\n", "x, line 3: source is empty"),
    "no sends": (HEAD.replace("3", "9") + HEADING, "9 nodes, but only 0 sends"),
    "a node too far": (HEAD + HEADING + "1,0,7,0\n" * 3, "names node 7: nodes are 0 to 2"),
    "an item too far": (HEAD + HEADING + "1,0,1,5\n" * 3, "item is 5, but items are 0 to 2"),
    "some links": (HEAD + "step,source,target,item,link\n1,0,1,0,0\n1,1,2,1,\n", "or none"),
    "a link of two ends": (
        HEAD + "step,source,target,item,link\n1,0,1,0,0\n1,1,2,1,0\n",
        "link 0 has other ends in another send",
    ),
    "adds in an allgather": (
        HEAD + "step,source,target,item,adds\n1,0,1,0,1\n1,1,2,1,1\n",
        "in allgather everybody keeps what comes",
    ),
    "messages with links": (
        HEAD.replace("num_chunks", "num_items").replace("1}", "3}")
        + "step,source,target,item,link\n1,0,1,0,0\n1,1,2,1,0\n",
        "messages are of whole items",
    ),
    "an all-to-all of very many": (
        '# {"collective": "alltoall", "num_nodes": 20000, "num_chunks": 20000}\n'
        + HEADING
        + "".join(f"1,{at},{at + 1},0\n" for at in range(10_000)),
        "20000 hosts: an all-to-all of so many is not read",
    ),
    "no text": (b"\xff\xfe" + HEAD.encode(), "begins with #|not UTF-8"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(case):
    text, rule = BAD[case]
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(ValueError, match=rule) as caught:
        parse_sends(data, "x")
    assert str(caught.value).startswith("x")


LINKS = "link,source,target\n"


@pytest.mark.parametrize(
    ("links", "rule"),
    [
        (LINKS, "l: there are no links"),
        (LINKS + "1,0,1\n", "l, line 2: link 1 is in the place of link 0"),
        (LINKS + "0,0,1\n1,1,2\n", "send 2: there is no one link from 2 to 0"),
        (LINKS + "0,0,1\n1,1,2\n2,2,0\n3,0,1\n", "send 0: there is no one link from 0 to 1"),
        ("link,source,target,speed\n0,0,1,0\n", "l, line 2: speed is 0"),
    ],
)
def test_bad_links(links, rule):
    text = (HEAD + HEADING + RING).encode()
    with pytest.raises(ValueError, match=rule):
        parse_sends(text, "x", ("l", links.encode()))


def test_too_many_are_not_read():
    with pytest.raises(ValueError, match="no more are planned"):
        LAYOUT.check_number(LAYOUT.most + 1)
