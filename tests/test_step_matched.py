"""Step-matched collectives: what nodes end with, hops on reused circuits, where to reconfigure."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, CostModel
from ocs_codesign.reconfigure import ReconfigurationCost
from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan
from ocs_codesign.reconfigure.hold.problem import SwitchProblem
from ocs_codesign.reconfigure.planes.problem import PlaneProblem
from ocs_codesign.reconfigure.step_matched.collectives import (
    MATCHED,
    MatchedCollective,
    MatchedStep,
    bruck,
    direct_exchange,
    halving_doubling,
    recursive_doubling,
    ring,
)
from ocs_codesign.reconfigure.step_matched.reuse import reuse_plan
from ocs_codesign.topology import Topology


def partner(matched, step, node):
    topology = matched.configurations[matched.steps[step].configuration]
    return int(topology.head[topology.tail == node][0])


def shifts(nodes, offsets, fractions):
    every = np.arange(nodes)
    made = tuple(Topology(nodes, every, (every + offset) % nodes) for offset in offsets)
    steps = tuple(MatchedStep(at, Fraction(one)) for at, one in enumerate(fractions))
    return MatchedCollective("shifts", Collective.ALLTOALL, made, steps)


@pytest.mark.parametrize("nodes", [2, 3, 6, 8, 13, 16])
def test_bruck_delivers_every_piece(nodes):
    matched = bruck(nodes)
    held = [[(v, (v + away) % nodes) for away in range(nodes)] for v in range(nodes)]
    for step in range(len(matched.steps)):
        shift = 2**step
        sent = [
            [piece for piece in held[v] if (piece[1] - v) % nodes & shift] for v in range(nodes)
        ]
        # What still has to go a distance with this bit; distances shrink by it on the way.
        assert all(len(pieces) == matched.steps[step].fraction * nodes for pieces in sent)
        for v in range(nodes):
            held[v] = [piece for piece in held[v] if piece not in sent[v]]
        for v in range(nodes):
            held[partner(matched, step, v)] += sent[v]
    assert all(sorted(held[v]) == [(u, v) for u in range(nodes)] for v in range(nodes))


@pytest.mark.parametrize("nodes", [2, 5, 8])
def test_direct_exchange_delivers_every_piece(nodes):
    matched = direct_exchange(nodes)
    reached = {
        (v, partner(matched, step, v)) for step in range(len(matched.steps)) for v in range(nodes)
    }
    assert len(reached) == len(matched.steps) * nodes == nodes * (nodes - 1)
    assert sum(step.fraction for step in matched.steps) == Fraction(nodes - 1, nodes)


@pytest.mark.parametrize("nodes", [2, 4, 8, 16])
def test_halving_and_doubling_sum_everything(nodes):
    """A node owns ever smaller runs of the sums, then collects the runs of its partners."""
    matched = halving_doubling(nodes)
    axes = len(matched.steps) // 2
    sums = [{piece: {v} for piece in range(nodes)} for v in range(nodes)]
    for step, one in enumerate(matched.steps):
        before = [dict(mine) for mine in sums]
        for v in range(nodes):
            other = partner(matched, step, v)
            if step < axes:
                bit = nodes >> (step + 1)
                kept = {piece for piece in before[v] if piece & bit == v & bit}
                assert len(before[v]) - len(kept) == one.fraction * nodes
                sums[v] = {piece: before[v][piece] | before[other][piece] for piece in kept}
            else:
                assert len(before[v]) == one.fraction * nodes
                sums[v] = before[v] | before[other]
    everyone = set(range(nodes))
    assert all(mine == dict.fromkeys(range(nodes), everyone) for mine in sums)


@pytest.mark.parametrize("nodes", [2, 8, 32])
def test_recursive_doubling_sums_everything(nodes):
    matched = recursive_doubling(nodes)
    sums = [{v} for v in range(nodes)]
    for step, one in enumerate(matched.steps):
        assert one.fraction == 1
        others = [sums[partner(matched, step, v)] for v in range(nodes)]
        assert all(mine.isdisjoint(theirs) for mine, theirs in zip(sums, others, strict=True))
        sums = [mine | theirs for mine, theirs in zip(sums, others, strict=True)]
    assert all(mine == set(range(nodes)) for mine in sums)


def test_rings():
    assert len(ring(7).steps) == 12
    assert sum(step.fraction for step in ring(7).steps) == Fraction(12, 7)
    assert ring(7, "allgather").collective == Collective.ALLGATHER
    assert [reuse_plan(ring(7), changes).cost for changes in (0, 3)] == [
        Cost(12, Fraction(12, 7))
    ] * 2


def test_hop_units_of_bruck_for_64_nodes():
    plans = [reuse_plan(bruck(64), changes) for changes in range(8)]
    assert [plan.hop_units for plan in plans] == [63, 14, 9, 8, 7, 6, 6, 6]
    assert [plan.num_reconfigurations for plan in plans] == [0, 1, 2, 3, 4, 5, 5, 5]
    assert [plan.cost.t_b for plan in plans[:6]] == [Fraction(n, 2) for n in (63, 14, 9, 8, 7, 6)]
    assert plans[1].held == (0, 0, 0, 3, 3, 3)
    assert plans[2].switched.num_configurations == 3


def test_a_shift_serves_later_steps_in_powers_of_two_hops():
    hops = bruck(32).hops()
    assert hops.tolist() == [[2 ** (k - a) if k >= a else 0 for a in range(5)] for k in range(5)]


def test_exchanges_serve_only_themselves():
    hops = halving_doubling(8).hops()
    assert hops.tolist() == [[int(a == b) for a in range(3)] for b in (0, 1, 2, 2, 1, 0)]
    with pytest.raises(ValueError, match="cannot be served with 3 reconfigurations"):
        reuse_plan(halving_doubling(8), 3)
    assert reuse_plan(halving_doubling(8), 4).held == (0, 1, 2, 2, 1, 0)


def test_steps_are_what_planners_of_planes_take():
    """Configurations 1, 2, 3, 3, 2, 1 with 4, 2, 1, 1, 2, 4 MB for M = 8 MB."""
    matched = halving_doubling(8)
    assert matched.order() == (0, 1, 2, 2, 1, 0)
    assert matched.bytes_per_node(8e6) == tuple(n * 10**6 for n in (4, 2, 1, 1, 2, 4))
    assert halving_doubling(4).bytes_per_node(16e6) == tuple(n * 10**6 for n in (8, 4, 4, 8))
    cost = ReconfigurationCost(200e-6)
    problem = PlaneProblem(matched.order(), matched.bytes_per_node(8e6), 2, 50e9, cost)
    assert (problem.num_steps, problem.num_configurations) == (6, 3)
    assert problem.send_s[0] == Fraction(4 * 10**6, 50 * 10**9)


@settings(max_examples=80)
@given(
    st.integers(3, 12),
    st.lists(st.tuples(st.integers(1, 11), st.integers(1, 5)), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_placement_is_the_best_of_all(nodes, drawn, changes):
    offsets = list(dict.fromkeys(1 + offset % (nodes - 1) for offset, _ in drawn))
    matched = shifts(
        nodes, offsets, [f"{size}/9" for (_, size), _ in zip(drawn, offsets, strict=False)]
    )

    def hops(step, held):
        reached = [
            h for h in range(1, nodes + 1) if (h * offsets[held] - offsets[step]) % nodes == 0
        ]
        return reached[0] if reached else None

    best = None
    for held in product(range(len(offsets)), repeat=len(matched.steps)):
        used = [hops(step, one) for step, one in enumerate(held)]
        if None in used or sum(a != b for a, b in pairwise(held)) > changes:
            continue
        t_b = sum(h * step.fraction for h, step in zip(used, matched.steps, strict=True))
        best = min(best or (t_b, sum(used)), (t_b, sum(used)))
    if best is None:
        with pytest.raises(ValueError, match="cannot be served"):
            reuse_plan(matched, changes)
        return
    plan = reuse_plan(matched, changes)
    assert (plan.cost.t_b, plan.cost.steps) == best
    assert plan.num_reconfigurations <= changes
    assert plan.hops == tuple(hops(step, held) for step, held in enumerate(plan.held))


@pytest.mark.parametrize("micros", [0, 1, 20, 100, 1000])
@pytest.mark.parametrize("nodes", [16, 24, 64])
def test_keep_or_switch_finds_the_best_number_of_changes(nodes, micros):
    """The planner of blocking changes takes the same steps, and both agree on the least time."""
    matched, model, delta = bruck(nodes), CostModel(1e-6, 12.5e9), Fraction(micros, 10**6)
    problem = SwitchProblem(matched.step_costs_s(model, 2**20), delta, first=0)
    plans = [reuse_plan(matched, changes) for changes in range(len(matched.steps))]
    least = min(plan.switched.time_s(model, 2**20, delta) for plan in plans)
    assert switch_plan(problem).total <= least
    if nodes & (nodes - 1) == 0:  # all steps move as much, so t_b alone decides the placement
        assert switch_plan(problem).total == least


@pytest.mark.parametrize("name", MATCHED)
def test_every_collective_is_permutations_of_degree_1(name):
    matched = MATCHED[name](8)
    assert matched.num_nodes == 8
    for topology in matched.configurations:
        assert sorted(topology.head.tolist()) == sorted(topology.tail.tolist()) == list(range(8))
    assert len({topology.head.tobytes() for topology in matched.configurations}) == len(
        matched.configurations
    )
    assert (matched.hops()[range(len(matched.steps)), list(matched.order())] == 1).all()


def test_refusals():
    for name in ("halving-doubling", "recursive-doubling"):
        with pytest.raises(ValueError, match="of 6 nodes: their number must be a power of 2"):
            MATCHED[name](6)
    with pytest.raises(ValueError, match="1 nodes: step-matched collectives have 2 to 2048"):
        bruck(1)
    with pytest.raises(ValueError, match="-1 reconfigurations: it cannot be negative"):
        reuse_plan(bruck(8), -1)
    with pytest.raises(ValueError, match="not all-to-all"):
        ring(8, "alltoall")
