"""Workload files: what is read, and that every error names the file, the place and the rule."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from folders import EXAMPLES

from ocs_codesign.circuits.legs.options import recipe_option
from ocs_codesign.circuits.legs.trace import Job
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.files.workload import load_workload, parse_workload, workload_json_schema
from ocs_codesign.fabric.selection.steps import AllowedChanges, Workload
from ocs_codesign.graphs.text import parse

EXAMPLE = EXAMPLES / "moe_workload.yaml"
GOOD = """\
name: mix
reconfiguration: inside
repeat: 2
collectives:
- name: swap
  collective: all-to-all
  message: 64MiB
  count: 2
  gap: 200us
- {collective: allreduce, message: 1GB, gap_after: 3ms}
"""


def test_everything_is_read():
    read = parse_workload(GOOD.encode(), "w.yaml")
    swap = Job("alltoall", 2**26, gap_before_s=Fraction(1, 5000), count=2, name="swap")
    reduce = Job("allreduce", 10**9, gap_after_s=Fraction(3, 1000), name="allreduce 2")
    assert read == Workload("mix", (swap, reduce), 2, AllowedChanges.INSIDE)
    assert read.trace.legs().job.tolist() == [0, 0, 1, 0, 0, 1]
    assert read.trace.num_jobs == 6


def test_json_and_defaults(tmp_path):
    path = tmp_path / "w.json"
    value = {"name": "w", "collectives": [{"collective": "allgather", "message": "1kB"}]}
    path.write_text(json.dumps(value), encoding="utf-8")
    read = load_workload(path)
    assert (read.repeat, read.allowed) == (1, AllowedChanges.NONE)
    assert read.jobs[0] == Job(Collective.ALLGATHER, 1000, name="allgather 1")


def test_the_example_is_dominated_by_alltoall():
    jobs = load_workload(EXAMPLE).jobs
    asked = dict.fromkeys((job.collective for job in jobs), 0)
    for job in jobs:
        asked[job.collective] += int(job.message_bytes) * job.count
    assert asked[Collective.ALLTOALL] > 10 * asked[Collective.ALLREDUCE]


@pytest.mark.parametrize(
    ("collective", "sent"),
    [("allgather", 0.5), ("reduce-scatter", 0.5), ("alltoall", 0.5), ("allreduce", 1)],
)
def test_the_message_is_the_buffer_of_a_rank(collective, sent):
    """Of two hosts on one cable each sends half of its M, and in an allreduce twice that."""
    text = f"name: w\ncollectives: [{{collective: {collective}, message: 8MB}}]"
    (part,) = parse_workload(text.encode(), "w.yaml").jobs
    cost = recipe_option(parse("UniRing(1, 2)"), [part.collective]).cost(part.collective)
    assert cost.time_s(CostModel(0, 10**6), part.message_bytes) == 8 * Fraction(sent)
    description = json.dumps(workload_json_schema())
    assert "M, the buffer of a rank" in description
    assert "all that one host sends in an all-to-all" in description


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("64MiB", "64", "w.yaml, line 7: collectives[0].message is 64: write a size as text"),
        ("64MiB", "9999999999GB", "collectives[0].message is 9999999999GB: it must be 0 or from"),
        ("200us", "-1s", "line 9: collectives[0].gap: '-1s' is not a time"),
        ("3ms", "9999999s", "line 10: collectives[1].gap_after is 9999999s: it must be 0s or"),
        ("all-to-all", "swap", "line 6: collectives[0].collective is 'swap': it is one of"),
        ("count: 2", "counts: 2", "collectives[0].counts is no known key: did you mean count?"),
        ("repeat: 2", "repeat: 900000", "line 4: collectives: the trace has 2700000 jobs"),
        ("inside", "always", "line 2: reconfiguration is 'always': it is one of none, between-"),
        ("name: swap", "name: allreduce 2", "collectives: two collectives have the name"),
        ("name: swap", "name: ''", "line 5: collectives[0].name is empty: it needs a character"),
    ],
)
def test_errors_name_file_line_place_and_rule(old, new, error):
    assert old in GOOD
    with pytest.raises(ValueError, match=r"^w\.yaml") as raised:
        parse_workload(GOOD.replace(old, new, 1).encode(), "w.yaml")
    assert error in str(raised.value)


@pytest.mark.parametrize("text", ["", "- 1", "7", "collectives: []\nname: w", "name: w"])
def test_what_is_no_workload(text):
    with pytest.raises(ValueError, match=r"w\.yaml"):
        parse_workload(text.encode(), "w.yaml")


def test_empty_names_and_no_parts():
    part = Job("allreduce", 1, name="a")
    for name, parts in ((" ", (part,)), ("w", (Job("allreduce", 1),)), ("w", ())):
        with pytest.raises(ValueError, match="empty"):
            Workload(name, parts)
