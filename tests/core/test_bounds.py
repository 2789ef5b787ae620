"""Bounds at a number of steps: never above what exhaustion proves, and what counting shows."""

from __future__ import annotations

import json
from fractions import Fraction

import networkx as nx
import pytest
from folders import DATA

from ocs_codesign.core.bounds import bound, fewest_steps, least_t_b, moore_steps
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.search.frontiers import frontier

EXHAUSTIVE = json.loads((DATA / "exhaustive_small.json").read_text())


@pytest.mark.parametrize("row", EXHAUSTIVE["rows"], ids=lambda row: str(list(row.values())[:4]))
def test_no_bound_is_above_a_proven_optimum(row):
    sizes = row["nodes"], row["degree"]
    least = least_t_b(*sizes, row["steps"], bidirectional=row["two_way"])
    assert least is not None
    assert least <= Fraction(row["t_b"])


def test_exhaustion_finds_nothing_in_fewer_steps():
    """Of every size the fewest steps are met, or more are needed than counting shows."""
    for row in EXHAUSTIVE["rows"]:
        sizes, both = (row["nodes"], row["degree"]), row["two_way"]
        fewest = fewest_steps(*sizes, bidirectional=both)
        assert least_t_b(*sizes, fewest - 1, bidirectional=both) is None
        assert row["steps"] >= fewest >= moore_steps(*sizes)


@pytest.mark.parametrize(("degree", "steps"), [(2, 2), (2, 3), (3, 2), (4, 5)])
def test_full_digraphs_need_a_step_more(degree, steps):
    full = sum(degree**hops for hops in range(steps + 1))
    assert moore_steps(full, degree) == steps
    assert fewest_steps(full, degree) == steps + 1
    assert fewest_steps(full - 1, degree) == steps
    assert fewest_steps(degree + 1, degree) == 1  # the complete graph is full
    assert fewest_steps(full, 1) == full - 1


@pytest.mark.parametrize(
    ("graph", "degree", "steps"),
    [(nx.petersen_graph(), 3, 2), (nx.hoffman_singleton_graph(), 7, 2), (nx.cycle_graph(9), 2, 4)],
)
def test_two_way_bounds_are_met_by_moore_graphs(graph, degree, steps):
    nodes = len(graph)
    assert nx.diameter(graph) == fewest_steps(nodes, degree, bidirectional=True) == steps
    assert fewest_steps(nodes + 1, degree, bidirectional=True) == steps + 1


@pytest.mark.parametrize("collective", GATHERING)
def test_halves_count_twice(collective):
    halves = len(collective.halves())
    assert least_t_b(64, 4, 3 * halves - 1, collective) is None
    assert least_t_b(64, 4, 3 * halves, collective) == bound(64, 4, collective).t_b


@pytest.mark.parametrize(("sizes", "both"), [((36, 4), False), ((12, 2), False), ((20, 3), True)])
def test_no_candidate_is_below(sizes, both):
    for collective in GATHERING:
        for one in frontier(*sizes, collective, bidirectional=both).candidates:
            least = least_t_b(*sizes, one.cost.steps, collective, bidirectional=both)
            assert least is not None
            assert one.cost.t_b >= least
