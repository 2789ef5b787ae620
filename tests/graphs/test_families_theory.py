"""What theory says of the families of base graphs, over sweeps of sizes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from math import ceil, gcd, sqrt

import networkx as nx
import numpy as np
import pytest
from slow_bfb import slow_distances

from ocs_codesign.core.bounds import moore_steps
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.named import Named, named_graphs
from ocs_codesign.graphs.families.rings import Circulant, DirectedCirculant, Torus
from ocs_codesign.graphs.families.shifts import DeBruijn, GeneralizedKautz, Kautz
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import measure_topology

DISTANCE_REGULAR = sorted(
    entry.name for entry in named_graphs().values() if entry.distance_regular and entry.nodes <= 130
)


def cost(topology: Topology) -> tuple[int, Fraction]:
    score = measure_topology(topology)
    return score.cost.steps, score.cost.t_b


def is_bw_optimal(topology: Topology) -> bool:
    return cost(topology)[1] == Fraction(topology.num_nodes - 1, topology.num_nodes)


@pytest.mark.parametrize(("d", "k"), [(2, 0), (2, 1), (2, 4), (3, 0), (3, 2), (4, 1), (5, 2)])
def test_kautz(d, k):
    published = Fraction(d, d + 1) + sum(Fraction(1, d**i * (d + 1)) for i in range(k))
    for topology in (Kautz(d, k).topology(), Kautz(d, k).topology().transpose()):
        assert topology.num_nodes == d**k * (d + 1)
        assert cost(topology) == (k + 1, published)


@pytest.mark.parametrize(("d", "k"), [(2, 1), (2, 5), (3, 3), (4, 2), (5, 2)])
def test_de_bruijn(d, k):
    published = Fraction(d, d**k) * Fraction(d**k - 1, d - 1)
    for topology in (DeBruijn(d, k).topology(), DeBruijn(d, k).topology().transpose()):
        assert int((topology.tail == topology.head).sum()) == d
        assert cost(topology) == (k, published)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_generalized_kautz_has_few_steps_and_less_than_twice_the_least_t_b(d):
    for m in range(2, 121):
        steps, t_b = cost(GeneralizedKautz(d, m).topology())
        assert steps <= moore_steps(m, d) + 1
        assert t_b <= 2 * Fraction(m - 1, m)


def test_kautz_graph_is_a_line_graph_of_the_complete_graph():
    built = nx.line_graph(nx.complete_graph(4, nx.DiGraph))
    ours = nx.DiGraph()
    kautz = Kautz(3, 1).topology()
    ours.add_edges_from(zip(kautz.tail.tolist(), kautz.head.tolist(), strict=True))
    assert nx.is_isomorphic(built, ours)


@pytest.mark.parametrize(
    "sides",
    [(2,), (7,), (3, 2), (5, 4), (2, 2, 2), (6, 5), (3, 3, 2), (9, 2, 2), (4, 4, 3), (11, 10)],
)
def test_torus_of_any_sides_is_bandwidth_optimal(sides):
    torus = Torus(sides).topology()
    assert is_bw_optimal(torus)
    assert torus.is_undirected()
    assert torus.diameter() == sum(side // 2 for side in sides)


def test_circulants_of_two_neighbouring_offsets_have_the_least_diameter():
    for n in range(7, 121):
        k = ceil((-1 + sqrt(2 * n - 1)) / 2)
        assert Circulant(n, (k, k + 1)).topology().diameter() == k


def test_undirected_circulants_of_degree_4_are_bandwidth_optimal():
    swept = 0
    for n in range(5, 31):
        for a, b in combinations(range(1, (n + 1) // 2), 2):
            if gcd(a, b, n) == 1:
                assert is_bw_optimal(Circulant(n, (a, b)).topology())
                swept += 1
    assert swept > 700


@pytest.mark.slow
def test_directed_circulants_of_degree_2_are_bandwidth_optimal():
    swept = 0
    for n in range(3, 31):
        for a, b in combinations(range(1, n), 2):
            if gcd(a, b, n) == 1:
                assert is_bw_optimal(DirectedCirculant(n, (a, b)).topology())
                swept += 1
    assert swept > 3000


def test_directed_circulants_of_degree_3_are_not_always_bandwidth_optimal():
    found = [
        offsets
        for offsets in combinations(range(1, 12), 3)
        if gcd(12, *offsets) == 1 and not is_bw_optimal(DirectedCirculant(12, offsets).topology())
    ]
    assert found


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_directed_circulant_of_all_but_one_offset_has_two_steps(d):
    topology = DirectedCirculant(d + 2, tuple(range(1, d + 1))).topology()
    assert cost(topology) == (2, Fraction(d + 1, d + 2))


def test_a_directed_circulant_is_a_cayley_graph_of_a_cyclic_group():
    assert DirectedCirculant(16, (1, 4, 5)).topology() == Cayley(Cyclic(16), (1, 4, 5)).topology()


@pytest.mark.parametrize("name", DISTANCE_REGULAR)
def test_distance_regular_graphs_spread_every_sphere_evenly(name):
    topology = Named(name).topology()
    graph = nx.Graph(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    assert nx.is_distance_regular(graph)
    row = list(slow_distances(topology)[0].values())
    spheres = [row.count(step) for step in range(1, max(row) + 1)]
    assert bfb_loads(topology) == tuple(Fraction(n, topology.degree) for n in spheres)
    assert is_bw_optimal(topology)


def test_symmetry_of_generalized_kautz_digraphs():
    """Orbits are those of the automorphisms named, which map link a as claimed and fix no node."""
    for d, m in product(range(1, 6), range(2, 31)):
        topology = GeneralizedKautz(d, m).topology()
        turns = [t for t in range(m) if (d + 1) * t % m == 0]
        maps = [(1, t) for t in turns]
        if m // len(turns) % 2 == 0:
            maps += [(-1, t - 1) for t in turns]
        x, a = topology.tail, np.tile(np.arange(1, d + 1), m)
        for sign, t in maps:
            link = ((sign * x + t) % m) * d + (a if sign > 0 else d + 1 - a) - 1
            assert topology.head[link].tolist() == ((sign * topology.head + t) % m).tolist()
            assert (sign, t) == (1, 0) or all((sign * np.arange(m) + t) % m != np.arange(m))
            if topology.symmetry is not None:
                orbits = topology.symmetry.link_orbit
                assert orbits[link].tolist() == orbits.tolist()
        if len(maps) == 1:
            assert topology.symmetry is None
        else:
            assert set(np.bincount(topology.symmetry.node_orbit)) == {len(maps)}
            assert set(np.bincount(topology.symmetry.link_orbit)) == {len(maps)}
