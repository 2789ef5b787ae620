"""Heuristic plans of any size serve the demand, never beat the bound and come close to it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from ocs_codesign.reconfigure.demand.durations import (
    Timed,
    long_enough,
    with_best_times,
    without_waste,
)
from ocs_codesign.reconfigure.demand.effort import DemandEffort
from ocs_codesign.reconfigure.demand.greedy import greedy_plans, improved
from ocs_codesign.reconfigure.demand.kernels import cover, decompose, match, shorten, stuff
from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
from ocs_codesign.reconfigure.demand.nested_kernels import nest
from ocs_codesign.reconfigure.demand.plan import check_demand_plan
from ocs_codesign.reconfigure.demand.planner import plan_demand
from ocs_codesign.reconfigure.demand.switches import on_switches, packed
from ocs_codesign.reconfigure.demand.ticks import DemandTicks

HEURISTIC = DemandEffort(rounds=40, search_nodes=0, programs=5)


def ticks_of(entries, setup=1):
    return DemandTicks(np.array(entries, dtype=np.int64), setup, Fraction(1), True)


def go_on(*_):
    return True


def stop(*_):
    return False


def is_served(ticks, permutations, times):
    """Whether the demand is served, entry by entry."""
    total = np.zeros_like(ticks.demand, dtype=object)
    for columns, time in zip(permutations, times, strict=True):
        assert sorted(columns.tolist()) == list(range(ticks.num_nodes))
        total[np.arange(ticks.num_nodes), columns] += Fraction(time)
    return bool((total >= ticks.demand).all())


@st.composite
def demands(draw, max_nodes=9):
    """Demands of all kinds: dense, sparse, mixes of permutations, with large and small entries."""
    nodes = draw(st.integers(1, max_nodes))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    most = draw(st.sampled_from([1, 5, 1000]))
    kind = draw(st.sampled_from(["dense", "sparse", "mix", "skewed"]))
    if kind == "mix":
        entries = np.zeros((nodes, nodes), dtype=np.int64)
        for _ in range(draw(st.integers(1, 2 * nodes))):
            entries[np.arange(nodes), random.permutation(nodes)] += random.integers(1, most + 1)
        return entries
    entries = random.integers(0, most + 1, (nodes, nodes))
    if kind == "sparse":
        entries *= random.random((nodes, nodes)) < 0.3
    if kind == "skewed":
        entries = np.floor(entries * random.pareto(1.2, (nodes, 1))).astype(np.int64)
    return entries


@settings(max_examples=60)
@given(demands(), st.sampled_from([0, 1, 7, 300]), st.integers(1, 5))
def test_plans_serve_and_never_beat_the_bound(entries, delta, switches):
    demand = DemandMatrix(entries)
    plan = plan_demand(demand, delta, switches, effort=HEURISTIC)
    total = (
        check_demand_plan(
            demand,
            Fraction(1),
            Fraction(delta),
            switches,
            plan.permutations,
            plan.durations_s,
            plan.switch,
        )
        if plan.num_configurations
        else 0
    )
    assert plan.total_s == total >= plan.bound_s
    least = (demand.max_line_bytes + delta * demand.max_peers) / switches
    assert plan.bound_s >= least


@settings(max_examples=40)
@given(demands(7), st.integers(0, 20))
def test_every_way_serves_the_demand(entries, setup):
    ticks = ticks_of(entries, setup)
    if not entries.any():
        return
    plans = greedy_plans(ticks, 1)
    assert len({plan.method for plan in plans}) == len(plans) >= 3
    for plan in plans:
        assert is_served(ticks, plan.permutations, plan.times)
        assert plan.cost == plan.times.sum() + setup * len(plan.times)
    assert [plan.cost for plan in plans] == sorted(plan.cost for plan in plans)


@settings(max_examples=20)
@given(demands(7), st.integers(1, 3))
def test_local_search_only_improves(entries, switches):
    ticks = ticks_of(entries, 3)
    if not entries.any():
        return
    start = greedy_plans(ticks, switches)[-1]
    better = improved(ticks, switches, start, DemandEffort(rounds=60), 0.0, go_on)
    assert better.cost <= start.cost
    assert is_served(ticks, better.permutations, better.times)
    same = improved(ticks, switches, start, DemandEffort(rounds=60), 0.0, stop)
    assert (same.times == start.times).all()


def test_local_search_finds_an_optimum_of_six_nodes():
    """A mix of twelve permutations whose optimum, proven by a search of 8 million nodes, is 78."""
    random = np.random.default_rng(1)
    entries = np.zeros((6, 6), dtype=np.int64)
    for _ in range(12):
        entries[np.arange(6), random.permutation(6)] += random.integers(1, 10)
    plan = plan_demand(DemandMatrix(entries), 2, effort=DemandEffort(search_nodes=0))
    assert plan.total_s == 78
    assert 73 < plan.bound_s <= 78


def test_mixes_of_few_permutations_are_recovered():
    """What was put together from eight permutations is served about as fast as they would."""
    random = np.random.default_rng(2)
    entries = np.zeros((24, 24), dtype=np.int64)
    times = random.integers(50, 100, 8)
    for time in times:
        entries[np.arange(24), random.permutation(24)] += time
    plan = plan_demand(DemandMatrix(entries), 10, effort=DemandEffort(rounds=200, programs=0))
    assert plan.total_s <= Fraction(102, 100) * int(times.sum() + 80)


@pytest.mark.parametrize(("nodes", "most_gap"), [(16, 0.025), (64, 0.045)])
def test_dense_demands_come_close_to_the_bound(nodes, most_gap):
    entries = np.random.default_rng(nodes).integers(1, 100, (nodes, nodes))
    plan = plan_demand(DemandMatrix(entries), 10, effort=DemandEffort(rounds=20, programs=0))
    assert 0 <= plan.gap < most_gap


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_matchings_are_the_heaviest(nodes, seed):
    random = np.random.default_rng(seed)
    weight = random.integers(0, (3, 1000)[seed % 2], (nodes, nodes)).astype(float)
    columns, potential = np.empty(nodes, dtype=np.int64), np.empty(nodes)
    match(weight, columns, potential)
    assert sorted(columns.tolist()) == list(range(nodes))
    mine = weight[np.arange(nodes), columns].sum()
    assert mine == weight[linear_sum_assignment(weight, maximize=True)].sum()
    # The potentials prove it.
    assert (weight + potential).max(axis=1).sum() - potential.sum() == mine


@settings(max_examples=60)
@given(demands())
def test_birkhoff_takes_the_busiest_line_and_no_more(entries):
    if not entries.any():
        return
    nodes, stuffed = len(entries), entries.copy()
    stuff(stuffed)
    most = max(entries.sum(0).max(), entries.sum(1).max())
    assert (stuffed >= entries).all()
    assert (stuffed.sum(0) == most).all()
    assert (stuffed.sum(1) == most).all()
    for shrink in (8, 15):
        permutations = np.zeros((nodes * nodes, nodes), dtype=np.int64)
        times = np.zeros(nodes * nodes, dtype=np.int64)
        made = decompose(stuffed.copy(), shrink, permutations, times)
        assert times[:made].sum() == most
        assert made <= (nodes - 1) ** 2 + 1
        assert is_served(ticks_of(stuffed), permutations[:made], times[:made])


def test_no_room_is_said():
    permutations, times = np.zeros((1, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)
    both = np.array([[2, 1], [1, 2]])
    assert decompose(both.copy(), 8, permutations, times) == -1
    rng = np.random.default_rng(0)
    arguments = (1, 4.0, 1.0, 8, 8, 0.0, rng, permutations, times, 0)
    assert cover(both.copy(), *arguments) == -1
    assert nest(both.copy(), 0, 4.0, 0.0, rng, permutations, times, 0) == -1


def test_large_entries_are_together():
    """A hidden Latin square: entries of a size are a permutation, the optimum has no others."""
    for seed, nodes in enumerate((2, 5, 8, 13, 20)):
        random = np.random.default_rng(seed)
        sizes = random.choice(np.arange(1, 10 * nodes), nodes, replace=False)
        latin = sizes[np.add.outer(np.arange(nodes), np.arange(nodes)) % nodes]
        entries = latin[random.permutation(nodes)][:, random.permutation(nodes)]
        permutations = np.zeros((nodes, nodes), dtype=np.int64)
        times = np.zeros(nodes, dtype=np.int64)
        made = nest(entries.copy(), 0, 4.0, 0.0, random, permutations, times, 0)
        assert made == nodes
        assert times.tolist() == sorted(sizes.tolist(), reverse=True)
        assert is_served(ticks_of(entries), permutations, times)


@settings(max_examples=80)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(0, 12), st.integers(1, 6))
def test_pieces_fit_and_add_up(times, setup, switches):
    pieces = packed(times, setup, switches)
    for at, time in enumerate(times):
        assert sum(piece.time for piece in pieces if piece.configuration == at) == time
    busy = [0] * switches
    for piece in pieces:
        assert piece.time > 0
        busy[piece.switch] += piece.time + setup
    # No worse than whole times, longest first, each on the least busy switch.
    whole = [0] * switches
    for time in sorted(times, reverse=True):
        whole[whole.index(min(whole))] += time + setup
    assert max(busy) <= max(whole)
    assert max(busy) * switches >= sum(times) + setup * len(times)


def test_parts_of_ticks_are_shared_evenly():
    plan = on_switches(np.array([[1, 0]]), [7], 0, 3)
    assert plan.makespan(0) == Fraction(7, 3)


def test_best_times_may_be_fractions():
    """Three permutations of which every two share an entry of demand 1: each lasts 1/2."""
    # Entry (0, 0) by the first two, (1, 1) by the first and third, (2, 2) by the others.
    permutations = np.array([[0, 1, 3, 2], [0, 3, 2, 1], [3, 1, 2, 0]])
    entries = np.zeros((4, 4), dtype=np.int64)
    entries[0, 0] = entries[1, 1] = entries[2, 2] = 1
    plan = Timed(permutations, (Fraction(1),) * 3, np.zeros(3, dtype=np.int64))
    timed = with_best_times(ticks_of(entries, 0), plan)
    assert timed.times == (Fraction(1, 2),) * 3


def test_waste_is_cut_and_what_is_short_is_raised():
    ticks = ticks_of([[0, 3], [5, 0]], 1)
    swap, stay = [1, 0], [0, 1]
    plan = Timed(
        np.array([swap, stay, swap]),
        (Fraction(9), Fraction(1), Fraction(2)),
        np.zeros(3, dtype=np.int64),
    )
    cut = without_waste(ticks, plan)
    assert cut.times == (Fraction(5),)
    short = Timed(np.array([swap]), (Fraction(1, 2),), np.zeros(1, dtype=np.int64))
    assert long_enough(ticks, short).times == (Fraction(5),)


def test_shorten_keeps_the_switch_of_each():
    permutations, times = np.array([[0, 1], [1, 0]]), np.array([4, 6])
    switch = np.array([2, 5])
    kept = shorten(np.array([[0, 3], [5, 0]]), permutations, times, switch, 2)
    assert (kept, times[0], switch[0], permutations[0].tolist()) == (1, 5, 5, [1, 0])
