"""All-to-all throughput: known values, a plain formulation as oracle, proofs for any hint."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lp_samples import program
from samples import loaded_topologies
from strategies import recipes

from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.lp import solve
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.certificates import (
    UNIT,
    as_prices,
    certified,
    integer_prices,
    price_bound,
    routed_loads,
)
from ocs_codesign.schedules.paths.kernels import cancel_cycles
from ocs_codesign.schedules.paths.throughput import (
    master_program,
    master_throughput,
    orbit_throughput,
    soft_throughput,
    throughput,
)

KNOWN = {
    "CompleteBipartite(4)": "5/4",
    "Hypercube(3)": "3/2",
    'Named("twisted_3_cube")': "3/2",
    "Complete(5)": "4/5",
    'Named("petersen")': "3/2",
    "Hamming(2, 3)": "4/3",
    "Circulant(7, (2, 3))": "8/7",
    "Circulant(10, (2, 3))": "7/5",
    'Named("k55_minus_matching")': "3/2",
    "Circulant(12, (2, 3))": "14/9",
    "Circulant(16, (3, 4))": "2",
    "DirectedCirculant(8, (1, 3))": "7/4",
    "Torus((4, 4))": "2",
    "Torus((3, 2))": "3/2",
    "Torus((3, 3, 2))": "5/2",
    "Torus((3, 3, 3))": "2",
    "BiRing(2, 12)": "3",
    "Line(CompleteBipartite(4))": "35/16",
    "GeneralizedKautz(4, 8)": "7/4",
    "GeneralizedKautz(4, 9)": "5/3",
    "GeneralizedKautz(4, 10)": "7/5",
    "GeneralizedKautz(4, 16)": "53/28",
    "GeneralizedKautz(4, 27)": "3044/1377",
    "GeneralizedKautz(4, 32)": "85/32",
    "GeneralizedKautz(4, 100)": "1133/350",
}


def plain(topology):
    """The same graph with no symmetry declared."""
    return Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)


def multicommodity_time(topology):
    """The textbook program: a commodity a pair, one rate for all, as large as links allow."""
    nodes, links = topology.num_nodes, topology.num_links
    pairs = [(s, t) for s in range(nodes) for t in range(nodes) if s != t]
    columns = len(pairs) * links + 1
    rows, lower, upper = [], [], []
    for number, (s, t) in enumerate(pairs):
        for v in range(nodes):
            if v == s:
                continue
            row = np.zeros(columns)
            flow = row[number * links : (number + 1) * links]
            np.add.at(flow, np.flatnonzero(topology.head == v), 1)
            np.add.at(flow, np.flatnonzero(topology.tail == v), -1)
            row[-1] = -1 if v == t else 0
            rows.append(row)
            lower.append(0)
            upper.append(0)
    for link in range(links):
        row = np.zeros(columns)
        row[link:-1:links] = 1
        rows.append(row)
        lower.append(-np.inf)
        upper.append(topology.speeds()[link])
    cost = np.zeros(columns)
    cost[-1] = -1
    solution = solve(program(cost, rows, lower, upper))
    return topology.node_speed() / nodes / -solution.objective


@pytest.mark.parametrize("text", KNOWN)
def test_known_values_exactly(text):
    found = throughput(parse(text).topology())
    assert found.time == found.bound == Fraction(KNOWN[text])
    assert found.is_optimal
    assert found.gap == 0


@pytest.mark.slow
def test_generalized_kautz_with_50_nodes():
    found = throughput(parse("GeneralizedKautz(4, 50)").topology())
    assert found.time == Fraction(3048, 1175)
    assert float(found.time) == pytest.approx(2.594, abs=1e-3)


@pytest.mark.parametrize(
    "text",
    [
        "Circulant(9, (1, 2))",
        "DirectedCirculant(10, (1, 3))",
        "Line(Complete(3))",
        "Torus((3, 2))",
        "UniRing(2, 4)",
        "Hypercube(3)",
    ],
)
def test_symmetry_changes_nothing(text):
    topology = parse(text).topology()
    with_group, without = throughput(topology), master_throughput(quotient(plain(topology)))
    assert with_group.time == with_group.bound == without.time == without.bound
    assert master_throughput(quotient(topology)).time == with_group.time
    assert orbit_throughput(quotient(plain(topology))).time == with_group.time


@pytest.mark.parametrize("number", range(len(loaded_topologies())))
def test_loops_parallel_links_and_speeds_against_the_textbook(number):
    topology = loaded_topologies()[number]
    found = throughput(topology)
    assert found.is_optimal
    assert float(found.time) == pytest.approx(multicommodity_time(topology), rel=1e-7)


@settings(max_examples=15, deadline=None)
@given(recipes(max_nodes=10, max_depth=1))
def test_recipes_against_the_textbook(recipe):
    topology = recipe.topology()
    found = throughput(topology)
    assert found.bound <= found.time
    assert float(found.gap) < 1e-8
    assert float(found.time) == pytest.approx(multicommodity_time(topology), rel=1e-7)


@settings(max_examples=30, deadline=None)
@given(recipes(max_nodes=24, max_depth=1), st.integers(0, 2**32 - 1))
def test_whatever_the_hint_the_bounds_hold(recipe, seed):
    """Prices and flows may be garbage: the bound is one, and the loads are those of a routing."""
    rng = np.random.default_rng(seed)
    whole = quotient(recipe.topology())
    prices = rng.integers(0, 1000, whole.num_orbits) + (rng.random(whole.num_orbits) < 0.5)
    prices[rng.integers(whole.num_orbits)] += 1
    flow = rng.random((whole.num_sources, whole.topology.num_links)) * rng.integers(0, 2)
    found = certified(whole, flow, prices, "garbage")
    assert found.bound <= throughput(whole.topology).time <= found.time


def test_price_bound_against_networkx():
    topology = parse("GeneralizedKautz(3, 17)").topology()
    rng = np.random.default_rng(4)
    prices = rng.integers(0, 50, topology.num_links)
    graph = nx.MultiDiGraph()
    graph.add_weighted_edges_from(
        zip(topology.tail.tolist(), topology.head.tolist(), prices.tolist(), strict=True)
    )
    total = sum(sum(d.values()) for _, d in nx.all_pairs_dijkstra_path_length(graph))
    bound, hops = price_bound(quotient(topology), prices)
    assert bound == Fraction(total, int(prices.sum())) * Fraction(3, 17)
    assert int(hops @ prices) == total


def test_loads_of_a_routing_that_is_known():
    # One-way ring: the only routing, whatever is wished for.
    ring = Topology(5, [0, 1, 2, 3, 4], [1, 2, 3, 4, 0])
    whole = quotient(ring)
    for flow in (np.zeros((5, 5)), np.ones((5, 5)), np.random.default_rng(1).random((5, 5))):
        loads = routed_loads(whole, flow, np.ones(5, dtype=np.int64), 1e-9)
        assert loads == (Fraction(1 + 2 + 3 + 4),) * 5


def test_whole_parts_of_a_message_are_exact():
    assert UNIT % 720 == UNIT % 1001 == 0
    # K3: each message split one third over the detour.
    whole = quotient(plain(parse("Complete(3)").topology()))
    links = list(zip(whole.topology.tail.tolist(), whole.topology.head.tolist(), strict=True))
    flow = np.array(
        [[4 / 3 if s == t else 1 / 3 if s not in (t, h) else 0 for t, h in links] for s in range(3)]
    )
    # In a cycle of wishes between the two receivers nothing flows: it is cancelled.
    loads = routed_loads(whole, flow, np.ones(6, dtype=np.int64), 1e-9)
    assert loads == (Fraction(1),) * 6


@settings(max_examples=60, deadline=None)
@given(recipes(max_nodes=16, max_depth=1), st.integers(0, 2**32 - 1))
def test_cancelling_leaves_balances_and_no_cycle(recipe, seed):
    topology = recipe.topology()
    rng = np.random.default_rng(seed)
    flow = rng.integers(0, 4, topology.num_links).astype(float)
    before = flow.copy()
    index = topology.links_by_tail()
    cancel_cycles(topology.head, index.start, index.order, flow)
    change = before - flow
    assert (change >= 0).all()
    assert (flow >= 0).all()
    net = np.zeros(topology.num_nodes)
    np.add.at(net, topology.head, change)
    np.add.at(net, topology.tail, -change)
    assert not net.any()
    left = np.flatnonzero(flow)
    graph = nx.MultiDiGraph(
        zip(topology.tail[left].tolist(), topology.head[left].tolist(), strict=True)
    )
    assert nx.is_directed_acyclic_graph(graph)


def test_a_symmetry_that_moves_links_of_other_speed_is_not_used():
    symmetry = Symmetry(np.zeros(3, dtype=np.int32), np.array([0, 0, 0, 1, 1, 1], dtype=np.int32))
    tail, head = [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]
    even = Topology(3, tail, head, [2, 2, 2, 1, 1, 1], symmetry)
    assert quotient(even).num_orbits == 2
    uneven = Topology(3, tail, head, [2, 1, 2, 1, 1, 1], symmetry)
    assert quotient(uneven).num_orbits == 6
    assert float(throughput(uneven).time) == pytest.approx(multicommodity_time(uneven))


def test_link_loads_are_within_the_time():
    for text in ("GeneralizedKautz(3, 14)", "Circulant(12, (2, 3))", "Line(Complete(4))"):
        found = throughput(parse(text).topology())
        whole = found.quotient
        loads = found.link_loads()
        assert len(loads) == whole.topology.num_links
        assert max(loads) * whole.scale == found.time
        assert price_bound(whole, found.prices)[0] == found.bound


def test_not_strongly_connected():
    with pytest.raises(ValueError, match="strongly connected"):
        throughput(Topology(3, [0, 1, 0], [1, 0, 2]))
    with pytest.raises(ValueError, match="strongly connected"):
        throughput(parse("DirectedCirculant(6, (2, 4))").topology())


def test_bad_prices():
    whole = quotient(parse("Complete(4)").topology())
    for prices in ([0, 0, 0], [1, 1], [-1, 2, 2]):
        with pytest.raises(ValueError, match="non-negative integers"):
            price_bound(whole, np.array(prices))
    with pytest.raises(ValueError, match="too large"):
        price_bound(whole, np.array([2**60, 1, 1]))


def test_prices_of_weights():
    assert as_prices(np.array([0.0, -1.0])).tolist() == [1, 1]
    assert as_prices(np.array([0.5, 1.0])).tolist() == [2**29, 2**30]
    assert integer_prices([Fraction(1, 2), Fraction(1, 3)]).tolist() == [3, 2]
    assert integer_prices([Fraction(1, 2**40), Fraction(1)]) is None


def test_the_program_has_a_row_a_balance_and_a_capacity():
    whole = quotient(plain(parse("GeneralizedKautz(2, 5)").topology()))
    program = master_program(whole)
    assert len(program.cost) == 5 * 10 + 1
    assert len(program.row_lower) == 5 * 4 + 10
    grouped = master_program(quotient(parse("Line(Complete(3))").topology()))
    assert len(grouped.row_lower) < len(program.row_lower) + 10


@pytest.mark.parametrize("text", ["GeneralizedKautz(4, 27)", "GeneralizedKautz(3, 20)"])
def test_mirror_descent_brackets_the_exact_time(text):
    topology = parse(text).topology()
    exact, soft = throughput(topology), soft_throughput(quotient(topology))
    assert soft.bound <= exact.time <= soft.time
    assert float(soft.gap) < 0.01
