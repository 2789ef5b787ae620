"""Virtual channels: the assignment, its proof and an independent check by networkx."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.lp import Options
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.channels import _fewest, _on_two, with_channels
from ocs_codesign.schedules.paths.kernels import insert_links
from ocs_codesign.schedules.paths.ordered import dimension_ordered, with_fewest_channels
from ocs_codesign.schedules.paths.tables import disjoint_path_table, path_table
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.verification.messages import check_channels

FEWEST = {
    "UniRing(1, 7)": 2,
    "BiRing(2, 4)": 2,
    "GeneralizedKautz(2, 8)": 2,
    "Torus((4, 4))": 2,
    "Complete(5)": 1,
}

SMALL = with_channels(disjoint_path_table(parse("GeneralizedKautz(2, 6)").topology())).table


def is_free(table) -> bool:
    """Whether the channels ascend along paths and no dependencies on (link, channel) are cyclic."""
    waits = nx.DiGraph()
    for first, last in zip(table.start[:-1], table.start[1:], strict=True):
        lanes = table.channel[first:last].tolist()
        if lanes != sorted(lanes):
            return False
        nx.add_path(waits, zip(table.link[first:last].tolist(), lanes, strict=True))
    return nx.is_directed_acyclic_graph(waits)


@pytest.mark.parametrize("text", FEWEST)
@pytest.mark.parametrize("make", [path_table, disjoint_path_table])
def test_the_fewest_channels(text, make):
    found = with_channels(make(parse(text).topology()))
    assert (found.num_channels, found.least) == (FEWEST[text],) * 2
    assert is_free(found.table)
    assert len(set(found.table.channel.tolist())) == found.num_channels


@pytest.mark.parametrize(
    "text", ["Torus((3, 5))", "Torus((4, 4))", "Torus((3, 3, 3))", "BiRing(2, 7)"]
)
def test_paths_in_the_order_of_dimensions_are_as_fast_as_any(text):
    topology = parse(text).topology()
    best = throughput(topology).time
    ordered = dimension_ordered(topology, best)
    assert ordered is not None
    assert ordered.time == best
    pairs = ((0, node) for node in range(1, topology.num_nodes))
    for one, other in pairs:
        paths = ordered.paths(one, other)
        assert sum(share for share, _ in paths) == 1
        for _, links in paths:
            ends = [one, *topology.head[links].tolist()]
            assert topology.tail[links].tolist() == ends[:-1]
            assert ends[-1] == other
    found = with_fewest_channels(path_table(topology))
    assert found.num_channels <= with_channels(path_table(topology)).num_channels
    assert found.table.time == best
    assert is_free(found.table)


@pytest.mark.parametrize(
    "text", ["Hypercube(3)", "GeneralizedKautz(4, 12)", "Circulant(12, (1, 4))"]
)
def test_what_is_no_torus_has_no_order_of_dimensions(text):
    assert dimension_ordered(parse(text).topology(), Fraction(1)) is None


@pytest.mark.parametrize("text", ["Kautz(2, 3)", "Torus((5, 5))"])
def test_orders_of_links_free_any_paths(text):
    table = disjoint_path_table(parse(text).topology())
    channel = _fewest(table)
    assert is_free(replace(table, channel=channel))
    assert channel.max() <= 2


@pytest.mark.parametrize(
    ("text", "make", "most"),
    [
        ("Torus((8, 8))", path_table, 3),
        ("Torus((8, 8))", disjoint_path_table, 3),
        ("GeneralizedKautz(4, 64)", path_table, 2),
    ],
)
def test_rounds_find_few_channels_on_large_graphs(text, make, most):
    table = make(parse(text).topology())
    channel = _fewest(table)
    assert channel.max() < most
    assert is_free(replace(table, channel=channel))


def test_moving_links_leaves_no_better_move_of_one():
    rng = np.random.default_rng(3)
    links = 9
    weights = rng.integers(0, 4, (links, links)) * (1 - np.eye(links, dtype=np.int64))
    tail, head = np.nonzero(weights)
    back = np.argsort(head, kind="stable")
    ends, weight = np.arange(links + 1), weights[tail, head]
    order = rng.permutation(links)
    insert_links(
        *(np.searchsorted(tail, ends), head, weight),
        *(np.searchsorted(head[back], ends), tail[back], weight[back], order),
    )
    assert sorted(order.tolist()) == list(range(links))

    def falling(places):
        return int(weight[places[tail] > places[head]].sum())

    by_place = np.argsort(order).tolist()
    for link in range(links):
        rest = [one for one in by_place if one != link]
        for place in range(links):
            moved = np.argsort([*rest[:place], link, *rest[place:]])
            assert falling(order) <= falling(moved)


def test_a_program_that_is_not_over_leaves_the_least_open():
    table = path_table(parse("Kautz(2, 3)").topology())
    assert _on_two(table, Options(time_limit_s=0.0)) == (None, True)
    found = with_channels(table, Options(time_limit_s=0.0))
    assert (found.least, found.is_fewest) == (2, found.num_channels == 2)


@settings(max_examples=40)
@given(st.data())
def test_the_checker_agrees_with_networkx(data):
    table = SMALL
    channel = table.channel.copy()
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(channel) - 1))
        channel[at] = data.draw(st.integers(0, 2))
    changed = replace(table, channel=channel)
    witness = check_channels(table.topology, table.start, table.link, channel)
    assert (witness is None) == is_free(changed)


def test_a_path_that_is_none_is_a_witness():
    table = with_channels(path_table(parse("UniRing(1, 4)").topology())).table
    link = table.link.copy()
    link[table.start[2] - 1] = (link[table.start[2] - 1] + 1) % 4
    rule = check_channels(table.topology, table.start, link, table.channel).rule
    assert rule == "a path is not connected"


def test_directed_designs_have_an_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ring = "UniRing(1, 5)"
    assert main(["paths", ring, "--routing", "deadlock-free"]) == 1
    assert "--virtual-channels frees other paths of deadlock" in capsys.readouterr().out
    for name in ("t.csv", "t.json"):
        command = ["paths", ring, "--virtual-channels", "--out", name, "--json", "a.json"]
        assert main(command) == 0
        assert "none on 2 virtual channels: fewer do not do" in " ".join(
            capsys.readouterr().out.split()
        )
    answer = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert answer["deadlock_free"]
    assert answer["virtual_channels"]["num_channels"] == answer["virtual_channels"]["least"] == 2
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()))
    lanes = [list(map(int, row["channels"].split())) for row in rows]
    assert sum(map(len, lanes)) == sum(answer["virtual_channels"]["num_hops"])
    assert all(len(lane) == int(row["hops"]) for lane, row in zip(lanes, rows, strict=True))
    paths = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["paths"]
    assert [path[3] for path in paths] == lanes


def test_up_down_paths_need_none(capsys):
    assert main(["paths", "BiRing(2, 5)", "--routing", "deadlock-free", "--virtual-channels"]) == 2
    assert "need no --virtual-channels" in capsys.readouterr().err


def test_ordered_paths_keep_to_what_was_asked_and_to_what_is_kept(capsys):
    """Disjoint paths stay what was asked for, parts are no more, a table is counted first."""
    torus = ["paths", "Torus((5, 5))", "--virtual-channels", "--json", "-"]
    assert main([*torus, "--routing", "disjoint", "--paths", "2"]) == 0
    disjoint = disjoint_path_table(parse("Torus((5, 5))").topology(), 2)
    assert json.loads(capsys.readouterr().out)["num_paths"] == disjoint.num_paths
    few = path_table(parse("Torus((4, 4, 4))").topology(), max_parts=4)
    assert with_fewest_channels(few).table.num_parts <= 4
    large = parse("Torus((16, 16, 32))").topology()
    with pytest.raises(ValueError, match=r"links: at most 100,000,000 are made$"):
        dimension_ordered(large, Fraction(1))
