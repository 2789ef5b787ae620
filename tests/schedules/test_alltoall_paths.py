"""Path tables: valid paths, known times, bounds; deadlock against networkx."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import loaded_topologies
from strategies import multigraphs, recipes

from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.lp import Options
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.channels import (
    depth_first_order,
    has_up_down_order,
    up_down_order,
    up_down_table,
)
from ocs_codesign.schedules.paths.tables import (
    balanced_table,
    dependency_cycle,
    disjoint_choices,
    disjoint_path_table,
    path_table,
    soft_shares,
)
from ocs_codesign.schedules.paths.throughput import throughput

KNOWN = {
    "Complete(5)": "4/5",
    "CompleteBipartite(4)": "5/4",
    "UniRing(1, 6)": "5/2",
    "BiRing(2, 12)": "3",
    "Torus((4, 4))": "2",
    "Hypercube(3)": "3/2",
    'Named("petersen")': "3/2",
    "Circulant(12, (2, 3))": "14/9",
    "DirectedCirculant(8, (1, 3))": "7/4",
    "GeneralizedKautz(4, 9)": "5/3",
    "GeneralizedKautz(4, 16)": "53/28",
}


def checked(table):
    """The table after its paths have been walked and its claims recomputed."""
    topology, hops = table.topology, table.hops()
    assert (hops > 0).all()
    assert (table.part > 0).all()
    first, last = table.link[table.start[:-1]], table.link[table.start[1:] - 1]
    assert (topology.tail[first] == table.source).all()
    assert (topology.head[last] == table.node).all()
    inner = np.ones(len(table.link), dtype=bool)
    inner[table.start[1:] - 1] = False
    at = np.flatnonzero(inner)
    assert (topology.head[table.link[at]] == topology.tail[table.link[at + 1]]).all()
    path = np.repeat(np.arange(table.num_paths), hops)
    heads = path * topology.num_nodes + topology.head[table.link]
    assert len(np.unique(heads)) == len(heads), "a path comes twice to a node"
    assert not (topology.head[table.link] == table.source[path]).any()
    served = np.zeros((topology.num_nodes, topology.num_nodes), dtype=np.int64)
    np.add.at(served, (table.source, table.node), table.part)
    assert (served + np.eye(len(served), dtype=int) * table.num_parts == table.num_parts).all()
    assert (np.lexsort((table.node, table.source)) == np.arange(table.num_paths)).all()
    assert throughput(topology).bound * (1 - Fraction(1, 10**8)) <= table.bound <= table.time
    return table


def dependencies(table):
    """The channel dependency graph, pair by pair."""
    graph = nx.DiGraph()
    for at in range(table.num_paths):
        nx.add_path(graph, table.link[table.start[at] : table.start[at + 1]].tolist())
    return graph


@pytest.mark.parametrize("text", KNOWN)
def test_known_times_exactly(text):
    table = checked(path_table(parse(text).topology()))
    assert table.time == table.bound == Fraction(KNOWN[text])


@settings(max_examples=25, deadline=None)
@given(recipes(max_nodes=16, max_depth=2), st.integers(1, 60))
def test_tables_of_recipes(recipe, parts):
    topology = recipe.topology()
    table = checked(path_table(topology, max_parts=parts))
    assert table.num_parts <= parts
    assert table.hops().max() <= topology.diameter() + 1
    checked(disjoint_path_table(topology, 3, parts))


@settings(max_examples=25, deadline=None)
@given(multigraphs(max_nodes=7, max_extra=8))
def test_tables_of_multigraphs(topology):
    assert float(checked(path_table(topology)).bound) <= float(
        checked(path_table(topology, topology.diameter())).bound
    ) * (1 + 1e-8)
    checked(disjoint_path_table(topology))


@pytest.mark.parametrize("number", range(len(loaded_topologies())))
def test_loops_parallel_links_and_speeds(number):
    topology = loaded_topologies()[number]
    long = checked(path_table(topology, topology.num_nodes))
    assert float(long.bound) == pytest.approx(float(throughput(topology).time), rel=1e-7)
    assert float(long.time) < 1.01 * float(long.bound)
    checked(disjoint_path_table(topology, 2))


@pytest.mark.parametrize("text", ["Torus((3, 2))", "GeneralizedKautz(3, 12)", "Hypercube(3)"])
def test_disjoint_paths_are_disjoint_and_come_shortest_first(text):
    topology = parse(text).topology()
    table = checked(disjoint_path_table(topology, 3, 5040))
    distance = topology.distances()
    assert float(table.time) < float(table.bound) * 1.001
    for source, node in [(0, 1), (1, 0), (0, 5), (5, 2)]:
        paths = table.paths(source, node)
        links = [link for _, path in paths for link in path]
        assert len(set(links)) == len(links)
        assert sum(share for share, _ in paths) == 1
    one = checked(disjoint_path_table(topology, 1))
    assert (one.hops() == distance[one.source, one.node]).all()
    assert one.time >= table.bound


def test_one_way_rings_have_a_cycle():
    assert dependency_cycle(path_table(parse("UniRing(1, 2)").topology())) is None
    for nodes in (3, 4, 9):
        assert dependency_cycle(path_table(parse(f"UniRing(1, {nodes})").topology())) == list(
            range(nodes)
        )


@pytest.mark.parametrize("text", ["BiRing(2, 5)", "BiRing(2, 6)", "Torus((4, 4))", "Torus((5, 3))"])
def test_shortest_paths_on_rings_and_tori_have_a_cycle_but_up_down_has_none(text):
    topology = parse(text).topology()
    shortest = checked(path_table(topology, topology.diameter()))
    assert dependency_cycle(shortest) is not None
    table = checked(up_down_table(topology))
    assert dependency_cycle(table) is None
    assert nx.is_directed_acyclic_graph(dependencies(table))
    assert table.time >= shortest.bound


def test_direct_paths_have_no_cycle():
    assert dependency_cycle(path_table(parse("Complete(5)").topology(), 1)) is None
    assert dependency_cycle(disjoint_path_table(parse("Complete(5)").topology(), 1)) is None


@settings(max_examples=40, deadline=None)
@given(multigraphs(max_nodes=7, max_extra=8))
def test_cycles_against_networkx(topology):
    for table in (path_table(topology), disjoint_path_table(topology, 1)):
        graph, cycle = dependencies(table), dependency_cycle(table)
        if cycle is None:
            assert nx.is_directed_acyclic_graph(graph)
        else:
            assert len(set(cycle)) == len(cycle)
            assert nx.is_simple_path(graph, cycle)
            assert graph.has_edge(cycle[-1], cycle[0])


@settings(max_examples=40, deadline=None)
@given(multigraphs(max_nodes=7, max_extra=10), st.integers(0, 9))
def test_up_down_wherever_there_is_an_order(topology, seed):
    orders = [up_down_order(topology, root) for root in range(topology.num_nodes)]
    random = np.random.default_rng(seed)
    deep = [depth_first_order(topology, root, random) for root in range(topology.num_nodes)]
    assert [one is None for one in orders] == [one is None for one in deep]
    assert has_up_down_order(topology) == any(one is not None for one in orders)
    for at, rank in enumerate(orders + deep):
        root = at % topology.num_nodes
        if rank is None:
            continue
        assert rank[root] == 0
        assert sorted(rank) == list(range(topology.num_nodes))
        lower = rank[topology.head] < rank[topology.tail]
        others = set(range(topology.num_nodes)) - {root}
        assert set(topology.tail[lower].tolist()) == others
        higher = rank[topology.head] > rank[topology.tail]
        assert set(topology.head[higher].tolist()) == others
    if all(rank is None for rank in orders):
        with pytest.raises(ValueError, match="no order of the nodes"):
            up_down_table(topology)
    else:
        assert dependency_cycle(checked(up_down_table(topology, 3))) is None


def test_undirected_graphs_always_have_an_order():
    for text in ("Hypercube(4)", 'Named("petersen")', "Circulant(16, (3, 4))"):
        topology = parse(text).topology()
        assert all(up_down_order(topology, root) is not None for root in range(5))
        assert dependency_cycle(checked(up_down_table(topology))) is None


def test_the_best_of_several_orders_is_taken():
    topology = parse("Torus((4, 4))").topology()
    plain = Topology(topology.num_nodes, topology.tail, topology.head)
    rank = up_down_order(topology)
    is_down = rank[topology.head] > rank[topology.tail]
    breadth_first = balanced_table(topology, quotient(plain), (), is_down, 4, 720, Options())
    table = checked(up_down_table(topology))
    assert table.time < Fraction(3) < breadth_first.time
    for other in (up_down_table(topology, num_orders=1), up_down_table(topology, num_orders=2)):
        assert dependency_cycle(checked(other)) is None
    assert (up_down_table(topology).link == table.link).all()
    with pytest.raises(ValueError, match="0 orders: at least one"):
        up_down_table(topology, num_orders=0)


def test_even_shares_are_no_better_than_the_best():
    topology = parse("Torus((3, 4))").topology()
    is_down = np.zeros(topology.num_links, dtype=bool)
    choices = disjoint_choices(quotient(topology), is_down, 4)
    even = choices.busy(choices.even_shares()).max()
    soft = choices.busy(soft_shares(choices, Options()).share).max()
    best = disjoint_path_table(topology).worst_load
    assert float(best) - 1e-9 <= soft <= float(best) * 1.001 <= even


def test_paths_of_a_pair():
    table = path_table(parse("CompleteBipartite(2)").topology())
    topology = table.topology
    for source in range(4):
        for node in set(range(4)) - {source}:
            for share, links in table.paths(source, node):
                assert 0 < share <= 1
                assert topology.tail[links[0]] == source
                assert topology.head[links[-1]] == node


def test_bad_input():
    ring = parse("UniRing(1, 5)").topology()
    with pytest.raises(ValueError, match="max_hops is 3: it must be at least the diameter, 4"):
        path_table(ring, 3)
    with pytest.raises(ValueError, match="0 paths in 720 parts"):
        disjoint_path_table(ring, 0)
    with pytest.raises(ValueError, match="no order of the nodes"):
        up_down_table(ring)
    for make in (path_table, disjoint_path_table, up_down_table):
        with pytest.raises(ValueError, match="not strongly connected"):
            make(Topology(2, [0], [1]))
        with pytest.raises(ValueError, match="at least two nodes"):
            make(Topology(1, [0], [0]))
