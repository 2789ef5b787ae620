"""All-to-all schedules: known costs, a plain program as oracle, the verifier's word on all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_samples import program
from samples import loaded_topologies
from strategies import multigraphs, recipes

from ocs_codesign.core.compute.symmetry import images, quotient, quotient_and_images
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.lp import Options, solve
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.schedules.stepped.alltoall import (
    alltoall_frontier,
    alltoall_schedule,
    stepped_plan,
)
from ocs_codesign.schedules.stepped.time_network import (
    chunk_flow,
    common_denominator,
    conserved,
    num_arcs,
    soft_optimum,
    stepped_bound,
    stepped_program,
    time_network,
    walks_of,
)
from ocs_codesign.verification.schedules import verify

KNOWN = {
    ("Complete(2)", 1): "1/2",
    ("Complete(5)", 1): "4/5",
    ("Complete(5)", 3): "4/5",
    ("CompleteBipartite(4)", 2): "5/4",
    ("UniRing(1, 6)", 5): "5/2",
    ("UniRing(2, 5)", 4): "2",
    ("BiRing(2, 12)", 6): "3",
    ("BiRing(2, 12)", 7): "3",
    ("Torus((4, 4))", 4): "2",
    ("Torus((3, 2))", 2): "3/2",
    ("Hypercube(3)", 3): "3/2",
    ("Hypercube(4)", 4): "2",
    ('Named("petersen")', 2): "3/2",
    ("Hamming(2, 3)", 2): "4/3",
    ("Circulant(7, (2, 3))", 2): "8/7",
    ("Circulant(12, (2, 3))", 3): "14/9",
    ("Circulant(16, (3, 4))", 3): "2",
    ("DirectedCirculant(8, (1, 3))", 3): "7/4",
    ("Line(CompleteBipartite(4))", 3): "35/16",
    ("GeneralizedKautz(4, 9)", 2): "16/9",
    ("GeneralizedKautz(4, 9)", 3): "5/3",
    ("GeneralizedKautz(4, 16)", 2): "2",
    ("GeneralizedKautz(4, 16)", 3): "53/28",
    ("GeneralizedKautz(4, 32)", 3): "3",
}
"""Recipe and steps: t_b. All but the first of a pair of GeneralizedKautz meet the throughput."""


def plain(topology):
    """The same graph with no symmetry declared."""
    return Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)


def network_of(topology, num_steps):
    whole = quotient(topology)
    return time_network(whole, topology.distances()[whole.sources], num_steps)


def checked(plan):
    """The plan after everything that it claims has been checked."""
    topology = plan.schedule.topology
    verdict = verify(plan.schedule, plan.cost)
    assert verdict.ok, verdict.witness
    assert plan.cost.steps <= plan.num_steps
    assert throughput(topology).bound * (1 - Fraction(1, 10**8)) <= plan.bound <= plan.cost.t_b
    return plan


def textbook_total(topology, num_steps):
    """Least sum of largest loads, a commodity a pair, no state or arc left out of the program."""
    nodes, links = topology.num_nodes, topology.num_links
    ends = np.concatenate([[topology.tail, topology.head], np.tile(np.arange(nodes), (2, 1))], 1)
    each = ends.shape[1]
    pairs = [(s, t) for s in range(nodes) for t in range(nodes) if s != t]
    columns = len(pairs) * num_steps * each + num_steps
    rows, lower, upper = [], [], []
    for number, (s, t) in enumerate(pairs):
        for step in range(num_steps + 1):
            for v in range(nodes):
                row = np.zeros((len(pairs), num_steps, each))
                if step:
                    row[number, step - 1] += ends[1] == v
                if step < num_steps:
                    row[number, step] -= ends[0] == v
                rows.append(np.append(row.ravel(), np.zeros(num_steps)))
                lower.append((step == num_steps and v == t) - (step == 0 and v == s))
                upper.append(lower[-1])
    for step in range(num_steps):
        for link in range(links):
            row = np.zeros((len(pairs), num_steps, each))
            row[:, step, link] = 1
            rows.append(np.append(row.ravel(), np.zeros(num_steps)))
            rows[-1][len(pairs) * num_steps * each + step] = -topology.speeds()[link]
            lower.append(-np.inf)
            upper.append(0)
    cost = np.zeros(columns)
    cost[-num_steps:] = 1
    return solve(program(cost, rows, lower, upper)).objective


@pytest.mark.parametrize(("text", "steps"), KNOWN)
def test_known_values_exactly(text, steps):
    plan = checked(stepped_plan(parse(text).topology(), steps))
    assert plan.cost.t_b == plan.bound == Fraction(KNOWN[text, steps])
    assert plan.is_optimal
    assert plan.gap == 0


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("UniRing(1, 3)", 2),
        ("UniRing(1, 3)", 3),
        ("Complete(3)", 2),
        ("BiRing(2, 4)", 2),
        ("BiRing(2, 4)", 3),
        ("GeneralizedKautz(2, 5)", 3),
        ("Kautz(2, 1)", 2),
    ],
)
def test_against_the_textbook(text, steps):
    topology = parse(text).topology()
    total = textbook_total(topology, steps)
    for same in (topology, plain(topology)):
        plan = checked(stepped_plan(same, steps))
        assert float(plan.bound) == pytest.approx(float(topology.t_b(Fraction(total))), rel=1e-7)
        assert float(plan.gap) < 1e-3


@pytest.mark.parametrize("number", range(len(loaded_topologies())))
@pytest.mark.parametrize("more", [0, 1])
def test_loops_parallel_links_and_speeds(number, more):
    topology = loaded_topologies()[number]
    steps = topology.diameter() + more
    plan = checked(stepped_plan(topology, steps))
    assert float(plan.gap) < 1e-2
    if topology.num_nodes < 6:
        total = textbook_total(topology, steps)
        assert float(plan.bound) == pytest.approx(float(topology.t_b(Fraction(total))), rel=1e-7)


@settings(max_examples=40, deadline=None)
@given(recipes(max_nodes=16, max_depth=2), st.integers(0, 2), st.integers(1, 60))
def test_every_plan_is_verified(recipe, more, max_chunks):
    topology = recipe.topology()
    plan = checked(stepped_plan(topology, topology.diameter() + more, max_chunks))
    assert plan.schedule.chunks_per_unit <= max_chunks


@settings(max_examples=40, deadline=None)
@given(multigraphs(max_nodes=7, max_extra=8), st.integers(0, 2))
def test_multigraphs(topology, more):
    plan = checked(stepped_plan(topology, topology.diameter() + more))
    assert float(plan.gap) < 1e-2


@settings(max_examples=25, deadline=None)
@given(recipes(max_nodes=12, max_depth=2))
def test_symmetry_changes_nothing(recipe):
    topology = recipe.topology()
    with_group, without = stepped_plan(topology), stepped_plan(plain(topology))
    assert float(with_group.bound) == pytest.approx(float(without.bound), rel=1e-7)


@pytest.mark.parametrize(
    ("text", "steps"), [("GeneralizedKautz(4, 32)", 4), ("Line(CompleteBipartite(4))", 4)]
)
def test_more_chunks_come_closer(text, steps):
    topology = parse(text).topology()
    gaps = [checked(stepped_plan(topology, steps, chunks)).gap for chunks in (1, 4, 24, 144)]
    assert gaps == sorted(gaps, reverse=True)
    assert float(gaps[-1]) < 0.005


def test_schedules_of_equal_input_are_equal():
    topology = parse("GeneralizedKautz(3, 14)").topology()
    assert alltoall_schedule(topology, 4) == alltoall_schedule(topology, 4)


def test_frontier():
    topology = parse("GeneralizedKautz(4, 16)").topology()
    costs = [checked(plan).cost for plan in alltoall_frontier(topology, 5)]
    assert costs == [Cost(2, Fraction(2)), Cost(3, Fraction(53, 28))]
    assert [plan.cost for plan in alltoall_frontier(parse("Torus((4, 4))").topology(), 6)] == [
        Cost(4, Fraction(2))
    ]
    with pytest.raises(ValueError, match="max_steps is 1: it must be at least the diameter, 2"):
        alltoall_frontier(topology, 1)


@pytest.mark.parametrize("text", ["Torus((4, 4))", "GeneralizedKautz(3, 20)", "Hypercube(4)"])
def test_soft_optimum_is_close_to_the_program(text):
    topology = parse(text).topology()
    network = network_of(topology, topology.diameter() + 1)
    least = solve(stepped_program(network)).objective
    flow, bound = soft_optimum(network)
    reached = sum(chunk_flow(network, flow, 720).loads)
    assert 0.995 * least < float(bound) <= least * (1 + 1e-9)
    assert least * (1 - 1e-9) <= float(reached) < 1.01 * least


def test_without_time_the_plan_still_holds():
    at_once = Options(time_limit_s=0.0)
    plan = stepped_plan(parse("GeneralizedKautz(3, 40)").topology(), 5, options=at_once)
    assert verify(plan.schedule, plan.cost).ok
    assert 0 < float(plan.gap) < 0.5


@settings(max_examples=30, deadline=None)
@given(recipes(max_nodes=16, max_depth=1), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_whatever_the_hint_flows_and_bounds_hold(recipe, more, seed):
    """Wishes and prices may be garbage: the flow serves every pair, the bound is one."""
    rng = np.random.default_rng(seed)
    topology = recipe.topology()
    network = network_of(topology, topology.diameter() + more)
    wish = rng.random(network.num_arcs) * rng.integers(0, 2, network.num_arcs)
    flow = chunk_flow(network, conserved(network, wish), 5)
    walks = walks_of(network, flow)
    served = np.zeros((network.quotient.num_sources, topology.num_nodes), dtype=np.int64)
    np.add.at(served, (walks.source, walks.node), walks.hi - walks.lo)
    served[np.arange(len(served)), network.quotient.sources] += flow.chunks
    assert (served == flow.chunks).all()
    prices = rng.integers(0, 100, network.num_rows)
    prices[rng.integers(network.num_rows)] += 1
    assert float(stepped_bound(network, prices)) <= float(sum(flow.loads)) + 1e-9


@settings(max_examples=40, deadline=None)
@given(recipes(max_nodes=32, max_depth=2))
def test_images_are_the_group_behind_the_orbits(recipe):
    topology = recipe.topology()
    whole = quotient(topology)
    group = images(whole)
    assert group is not None
    every = np.arange(topology.num_links)
    for source, one in zip(whole.sources, group, strict=True):
        assert (one.nodes[0] == np.arange(topology.num_nodes)).all()
        assert len(np.unique(one.nodes[:, source])) == len(one.nodes)
        moved = one.links(every)
        assert (np.sort(moved, axis=1) == every).all()
        assert (topology.tail[moved] == one.nodes[:, topology.tail]).all()
        assert (topology.head[moved] == one.nodes[:, topology.head]).all()


@pytest.mark.parametrize("orbits", [[0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]])
def test_orbits_of_no_group_are_not_used(orbits):
    # Links 0-3 go round a ring, links 4-7 round it in another order: no rotation keeps both.
    topology = Topology(
        4,
        [0, 1, 2, 3, 0, 2, 1, 3],
        [1, 2, 3, 0, 2, 1, 3, 0],
        symmetry=Symmetry(np.zeros(4, dtype=np.int32), np.array(orbits, dtype=np.int32)),
    )
    whole, group = quotient_and_images(topology)
    assert (whole.num_sources, group) == (4, ())
    assert stepped_plan(topology).cost == checked(stepped_plan(plain(topology))).cost


def test_network_of_a_ring():
    ring = parse("UniRing(1, 4)").topology()
    network = network_of(ring, 3)
    # One way only: a link more is reached at every step, and data may wait where it has come.
    assert network.num_arcs == 1 + 3 + 5
    assert num_arcs(network.quotient, ring.distances()[:1], 3) >= network.num_arcs
    assert stepped_bound(network, np.ones(3, dtype=np.int64)) == 6


def test_bad_prices():
    network = network_of(parse("UniRing(1, 4)").topology(), 3)
    for prices in ([1, 1], [0, 0, 0], [1, -1, 1]):
        with pytest.raises(ValueError, match="prices are non-negative integers"):
            stepped_bound(network, np.array(prices))
    with pytest.raises(ValueError, match="too large to add up"):
        stepped_bound(network, np.full(3, 2**58))


def test_common_denominator():
    assert common_denominator(np.array([0.0, 2.0]), 3) == 1
    assert common_denominator(np.array([0.25, 1 / 3]), 20) == 12
    assert common_denominator(np.array([0.25, 1 / 3]), 11) is None


def test_bad_input():
    ring = parse("UniRing(1, 5)").topology()
    with pytest.raises(ValueError, match="num_steps is 3: it must be at least the diameter, 4"):
        stepped_plan(ring, 3)
    with pytest.raises(ValueError, match="0 parts: a piece is at least one"):
        stepped_plan(ring, max_chunks=0)
    with pytest.raises(ValueError, match="at least two nodes"):
        stepped_plan(Topology(1, [0], [0]))
    with pytest.raises(ValueError, match="not strongly connected"):
        stepped_plan(Topology(2, [0], [1]))
    with pytest.raises(ValueError, match="at most 8000000 are supported"):
        stepped_plan(ring, 2_000_000)


@pytest.mark.parametrize(
    ("recipe", "steps", "used"), [('Named("petersen")', 3, 2), ("BiRing(2, 7)", 4, 3)]
)
def test_no_step_is_idle(recipe, steps, used):
    """Where another step does not help, it is not counted: it would cost alpha for nothing."""
    plan = stepped_plan(recipe, steps)
    assert plan.schedule.num_steps == plan.cost.steps == used
    assert (np.diff(np.unique(plan.schedule.step)) == 1).all()
    assert verify(plan.schedule, plan.cost).ok


@pytest.mark.parametrize("seed", range(4))
def test_more_steps_are_never_worse(seed):
    """Of irregular graphs too, on which whole chunks may fit fewer steps better."""
    random = np.random.default_rng(seed)
    ring = [(node, (node + 1) % 6) for node in range(6)]
    chords = [(int(a), int(b)) for a, b in random.integers(0, 6, (5, 2)) if a != b]
    topology = Topology(6, *zip(*ring, *chords, strict=True))
    diameter = topology.diameter()
    plans = [stepped_plan(topology, diameter + more, 4) for more in range(3)]
    times = [plan.cost.t_b for plan in plans]
    assert times == sorted(times, reverse=True)
    for plan in plans:
        assert verify(plan.schedule, plan.cost).ok
        assert plan.bound <= plan.cost.t_b
