"""The cut that bounds an allgather, against known optima and all cuts there are."""

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from folders import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.compute import cuts as module
from ocs_codesign.core.compute.cuts import bottleneck, dissemination
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.stepped.exact import fractional_bound

KNOWN = json.loads((DATA / "forests.json").read_text(encoding="utf-8"))


def known_problem(name, weights=None):
    facts = KNOWN[name]
    rank = np.arange(facts["num_vertices"]) < facts["num_ranks"]
    weight = rank.astype(np.int64)
    if weights is not None:
        weight[: facts["num_ranks"]] = weights
    return dissemination(rank, weight, *np.array(facts["links"]).T)


def every_cut(problem):
    """The largest weight / capacity over all sets that lack a rank, by trying them."""
    nodes = problem.num_nodes
    worst = Fraction(0)
    for size in range(1, nodes):
        for inside in combinations(range(nodes), size):
            side = np.isin(np.arange(nodes), inside)
            if problem.is_rank[~side].any() and problem.weight[side].any():
                leaves = side[problem.tail] & ~side[problem.head]
                capacity = int(problem.capacity[leaves].sum())
                if not capacity:
                    return None
                worst = max(worst, Fraction(int(problem.weight[side].sum()), capacity))
    return worst


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_optima(name):
    problem, facts = known_problem(name), KNOWN[name]
    for way, key in ((problem, "allgather"), (problem.reversed(), "reduce_scatter")):
        cut = bottleneck(way)
        assert cut.inv_rate == Fraction(facts[key]["inv_rate"])
        claimed = way.cut(np.isin(np.arange(way.num_nodes), facts[key]["cut_side"]))
        assert claimed.inv_rate == cut.inv_rate == way.cut(cut.side).inv_rate
    for found in filter(None, [facts.get("weighted_allgather")]):
        cut = bottleneck(known_problem(name, found["weights"]))
        assert cut.inv_rate == Fraction(found["inv_rate_per_unit_weight"])


@st.composite
def problems(draw):
    nodes = draw(st.integers(2, 7))
    ranks = draw(st.integers(2, nodes))
    node = st.integers(0, nodes - 1)
    link = st.tuples(node, node, st.integers(1, 9))
    links = np.array(draw(st.lists(link, min_size=1, max_size=24))).T
    weight = np.zeros(nodes, dtype=np.int64)
    weight[:ranks] = draw(st.lists(st.integers(0, 4), min_size=ranks, max_size=ranks))
    return dissemination(np.arange(nodes) < ranks, weight, *links)


@settings(max_examples=150, deadline=None)
@given(problem=problems(), scale=st.integers(2, 5), seed=st.integers(0, 99))
def test_no_cut_is_narrower(problem, scale, seed):
    if not problem.weight.any():
        with pytest.raises(ValueError, match="nothing is to be sent"):
            bottleneck(problem)
        return
    least = every_cut(problem)
    if least is None:
        with pytest.raises(ValueError, match="cannot be reached"):
            bottleneck(problem)
        return
    cut = bottleneck(problem)
    assert cut.inv_rate == least == problem.cut(cut.side).inv_rate
    assert not cut.side[problem.is_rank].all()
    ends, capacity = (problem.tail, problem.head), problem.capacity
    scaled = dissemination(problem.is_rank, problem.weight, *ends, scale * capacity)
    assert bottleneck(scaled).inv_rate == least / scale
    new = np.random.default_rng(seed).permutation(problem.num_nodes)
    old = np.argsort(new)
    moved = dissemination(problem.is_rank[old], problem.weight[old], *new[np.array(ends)], capacity)
    assert bottleneck(moved).inv_rate == least


def test_huge_capacities_are_exact(monkeypatch):
    """Near 2^40 a link, products pass 64 bits; compiled and plain loops agree below that."""
    big = 2**40 - 87
    every, one = np.arange(5), np.ones(5, dtype=np.int64)
    speeds = np.array([big, big - 3, big, big - 11, big])
    ring = dissemination(one > 0, one, every, (every + 1) % 5, speeds)
    assert bottleneck(ring).inv_rate == Fraction(4, big - 11)
    problem = known_problem("mi250-2")
    plain = bottleneck(problem)
    monkeypatch.setattr(module, "_ROUNDS_A_LINK", 10**9)
    assert bottleneck(problem).side.tolist() == plain.side.tolist()


def test_bounds_of_boxes_and_damage():
    """The ingress bound of an MI250 box is 15/16; a cut of eight hosts says 49/48."""
    links = np.array(KNOWN["mi250-1"]["links"]).T
    box = Topology(16, *links)
    assert topology_bound(box).t_b == Fraction(49, 48)
    assert topology_bound(box, "allreduce").t_b == Fraction(49, 24)
    assert measure_topology(box).cost.t_b == Fraction(79, 32)
    torus = as_recipe("Torus((4, 4))").build()
    lost = np.arange(torus.num_links) != 0
    damaged = Topology(16, torus.tail[lost], torus.head[lost])
    assert topology_bound(damaged).t_b == Fraction(15, 16) * Fraction(4, 3)


def test_cuts_are_never_above_what_schedules_reach():
    """What any number of steps and chunks can do tends to the bound from above."""
    mesh = Topology(6, *np.array([(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (4, 5), (5, 4),
                                  (0, 3), (3, 0), (2, 5), (5, 2)]).T)  # fmt: skip
    least = topology_bound(mesh).t_b
    reached = [fractional_bound(mesh, steps) for steps in (3, 4, 5)]
    assert least <= reached[2] <= reached[1] <= reached[0]
    assert topology_bound(mesh, reached_t_b=least) == topology_bound(mesh)
