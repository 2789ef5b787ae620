"""Step-matched collectives: what nodes end with, hops on reused circuits, where to reconfigure."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.circuits.step_matched import MatchedCollective, matched, reuse_plan
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.registry import CLASSIC


def shifts(nodes, offsets, fractions):
    every = np.arange(nodes)
    made = tuple(Topology(nodes, every, (every + offset) % nodes) for offset in offsets)
    sent = tuple(map(Fraction, fractions))
    return MatchedCollective("shifts", Collective.ALLTOALL, made, tuple(range(len(sent))), sent)


def test_hop_units_of_bruck_for_64_nodes():
    bruck = matched("bruck", "alltoall", 64)
    plans = [reuse_plan(bruck, changes) for changes in range(8)]
    costs = [bruck.cost(plan.choice) for plan in plans]
    assert [cost.steps for cost in costs] == [63, 14, 9, 8, 7, 6, 6, 6]
    assert [plan.num_switches for plan in plans] == [0, 1, 2, 3, 4, 5, 5, 5]
    assert [cost.t_b for cost in costs[:6]] == [Fraction(n, 2) for n in (63, 14, 9, 8, 7, 6)]
    assert plans[1].choice.tolist() == [0, 0, 0, 3, 3, 3]
    assert [cost.num_configurations for cost in costs] == [1, 2, 3, 4, 5, 6, 6, 6]


def test_a_shift_serves_later_steps_in_powers_of_two_hops():
    hops = matched("bruck", "alltoall", 32).hops()
    assert hops.tolist() == [[2 ** (k - a) if k >= a else 0 for a in range(5)] for k in range(5)]


def test_exchanges_serve_only_themselves():
    hops = matched("recursive-doubling", "allreduce", 8, first="near").hops()
    assert hops.tolist() == [[int(a == b) for a in range(3)] for b in (0, 1, 2, 2, 1, 0)]
    with pytest.raises(ValueError, match="cannot be served with 3 reconfigurations"):
        reuse_plan(matched("recursive-doubling", "allreduce", 8, first="near"), 3)
    plan = reuse_plan(matched("recursive-doubling", "allreduce", 8, first="near"), 4)
    assert plan.choice.tolist() == [0, 1, 2, 2, 1, 0]


def test_steps_are_what_planners_of_planes_take():
    """Configurations 1, 2, 3, 3, 2, 1 with 4, 2, 1, 1, 2, 4 MB for M = 8 MB."""
    exchanges = matched("recursive-doubling", "allreduce", 8, first="near")
    assert exchanges.needed == (0, 1, 2, 2, 1, 0)
    assert exchanges.bytes_per_node(8e6) == tuple(n * 10**6 for n in (4, 2, 1, 1, 2, 4))
    cost = Change(200e-6)
    problem = PlaneProblem(exchanges.needed, exchanges.bytes_per_node(8e6), 2, 50e9, cost)
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
    collective = shifts(
        nodes, offsets, [f"{size}/9" for (_, size), _ in zip(drawn, offsets, strict=False)]
    )

    def hops(step, held):
        reached = [
            h for h in range(1, nodes + 1) if (h * offsets[held] - offsets[step]) % nodes == 0
        ]
        return reached[0] if reached else None

    best = None
    for held in product(range(len(offsets)), repeat=len(collective.needed)):
        used = [hops(step, one) for step, one in enumerate(held)]
        if None in used or sum(a != b for a, b in pairwise(held)) > changes:
            continue
        t_b = sum(h * sent for h, sent in zip(used, collective.fractions, strict=True))
        best = min(best or (t_b, sum(used)), (t_b, sum(used)))
    if best is None:
        with pytest.raises(ValueError, match="cannot be served"):
            reuse_plan(collective, changes)
        return
    plan = reuse_plan(collective, changes)
    cost = collective.cost(plan.choice)
    assert (cost.t_b, cost.steps) == best
    assert plan.num_switches == cost.num_configurations - 1 <= changes
    assert cost.steps == sum(hops(step, held) for step, held in enumerate(plan.choice.tolist()))


@pytest.mark.parametrize("micros", [0, 1, 20, 100, 1000])
@pytest.mark.parametrize("nodes", [16, 24, 64])
def test_keep_or_switch_finds_the_best_number_of_changes(nodes, micros):
    """The planner of blocking changes takes the same steps, and both agree on the least time."""
    bruck, model, delta = (
        matched("bruck", "alltoall", nodes),
        CostModel(1e-6, 12.5e9),
        Fraction(micros, 10**6),
    )
    hop_s = [Fraction(1, 10**6) + size / (125 * 10**8) for size in bruck.bytes_per_node(2**20)]
    rows = zip(bruck.hops().tolist(), hop_s, strict=True)
    costs = [[hops * step_s if hops else float("inf") for hops in row] for row, step_s in rows]
    plans = [reuse_plan(bruck, changes) for changes in range(len(bruck.needed))]
    least = min(bruck.cost(plan.choice).time_s(model, 2**20, delta) for plan in plans)
    held = plan_legs(LegProblem(costs, delta, first=0)).total
    assert held <= least
    if nodes & (nodes - 1) == 0:  # all steps move as much, so t_b alone decides the placement
        assert held == least


MATCHED = {
    "allgather": ("shift", "ring", "neighbour-exchange", "recursive-doubling", "bruck", "swing"),
    "allreduce": ("ring", "recursive-doubling-full", "swing-full", "rabenseifner"),
    "alltoall": ("shift", "xor", "bruck", "ring-relay"),
}


@pytest.mark.parametrize(
    ("collective", "name"), [(kind, name) for kind, names in MATCHED.items() for name in names]
)
def test_every_collective_is_permutations_of_degree_1(collective, name):
    made = matched(name, collective, 8)
    heads = [topology.head.tolist() for topology in made.configurations]
    assert all(sorted(head) == list(range(8)) for head in heads)
    assert len(set(map(tuple, heads))) == len(heads)
    hops = made.hops()[range(len(made.needed)), list(made.needed)]
    assert (hops == 1).all()
    messages = CLASSIC[name].messages(collective, 8)
    assert [8 * fraction for fraction in made.fractions] == list(messages.one_port_loads())
    for number, needed in enumerate(made.needed, 1):
        here = messages.step == number
        head = made.configurations[needed].head
        assert (messages.target[here] == head[messages.source[here]]).all()


def test_refusals():
    with pytest.raises(ValueError, match="6 ranks: halving-doubling takes a power of two"):
        matched("recursive-doubling", "allreduce", 6)
    with pytest.raises(ValueError, match="step 1 of linear is no permutation of the nodes"):
        matched("linear", "broadcast", 6)
    with pytest.raises(ValueError, match="step 1 of rabenseifner is no permutation of the nodes"):
        matched("rabenseifner", "allreduce", 6)
    with pytest.raises(ValueError, match="1 nodes: step-matched collectives have 2 to 2048"):
        matched("bruck", "alltoall", 1)
    with pytest.raises(ValueError, match="-1 reconfigurations: it cannot be negative"):
        reuse_plan(matched("bruck", "alltoall", 8), -1)
