"""Topology: what it stores, what it refuses, and what it knows of its links."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_bfb import slow_distances
from strategies import multigraphs, regular_multigraphs

from ocs_codesign.core import topology as topology_module
from ocs_codesign.core.topology import Symmetry, Topology, in_neighbours
from ocs_codesign.graphs.expansions.reverse import bidirected

RING = Topology(3, [0, 1, 2], [1, 2, 0])
MIXED = Topology(4, [0, 0, 0, 1, 2, 3, 3], [1, 1, 0, 2, 3, 0, 1], [2, 2, 5, 1, 3, 1, 4])


def test_counts():
    assert (MIXED.num_nodes, MIXED.num_links, MIXED.degree) == (4, 7, 3)
    assert MIXED.out_degrees().tolist() == [3, 1, 1, 2]
    assert MIXED.in_degrees().tolist() == [2, 3, 1, 1]
    assert not MIXED.is_regular
    assert RING.is_regular
    assert MIXED.has_self_loops()
    assert not RING.has_self_loops()
    assert repr(RING) == "Topology(3 nodes, 3 links, degree 1)"


def test_speeds():
    assert RING.speeds().tolist() == [1, 1, 1]
    assert MIXED.speeds().tolist() == [2, 2, 5, 1, 3, 1, 4]
    assert MIXED.node_speed() == 9
    assert MIXED.ingress_speed() == 1
    assert MIXED.egress_speed() == 1
    assert MIXED.t_b(Fraction(3)) == Fraction(27, 4)


def test_speeds_of_one_are_no_speeds():
    assert Topology(3, [0, 1, 2], [1, 2, 0], [1, 1, 1]).link_speed is None
    assert Topology(3, [0, 1, 2], [1, 2, 0], [2, 2, 2]) != RING


def test_arrays_are_copies_and_read_only():
    tail, speed = np.array([0, 1, 2]), np.array([1, 2, 3])
    topology = Topology(3, tail, [1, 2, 0], speed)
    tail[0] = speed[0] = 9
    assert topology.tail.tolist() == [0, 1, 2]
    assert topology.speeds().tolist() == [1, 2, 3]
    for array in (topology.tail, topology.head, topology.link_speed):
        assert not array.flags.writeable
    with pytest.raises(AttributeError):
        topology.num_nodes = 4


def test_int32_whatever_comes_in():
    for kind in (np.int8, np.uint64, np.int64):
        topology = Topology(3, np.array([0, 1, 2], kind), np.array([1, 2, 0], kind))
        assert topology.tail.dtype == topology.head.dtype == np.int32
        assert topology == RING


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((0, [], []), "num_nodes is 0: it must be an integer of at least 1"),
        ((-2, [], []), "num_nodes is -2"),
        ((2.5, [0, 2], [2, 0]), "num_nodes"),
        ((2, [0, 2], [1, 0]), "tail names node 2: nodes are 0 to 1"),
        ((2, [0, 1], [1, -1]), "head names node -1"),
        ((2, [0, 1], [1]), "2 tails but 1 heads"),
        ((2, [0.0, 1.0], [1, 0]), "tail must be a one-dimensional array of integers"),
        ((2, [[0, 1]], [1, 0]), "tail must be a one-dimensional"),
        ((2, ["a"], [0]), "tail must be a one-dimensional"),
        ((2, [True, False], [1, 0]), "tail must be a one-dimensional"),
        ((2, [0, 1], [1, 0], [1]), "link_speed must be 2 integers"),
        ((2, [0, 1], [1, 0], [1, 0]), "link_speed must be positive"),
        ((2, [0, 1], [1, 0], [1, -1]), "link_speed must be positive"),
        ((2, [0, 1], [1, 0], [1, 2**31]), "link_speed must be positive integers below"),
        ((2, [0, 1], [1, 0], [1.5, 1]), "link_speed must be 2 integers"),
        (
            (2, [0, 1], [1, 0], None, Symmetry(np.zeros(3, np.int32), np.zeros(2, np.int32))),
            "does not number",
        ),
        (
            (2, [0, 1], [1, 0], None, Symmetry(np.zeros(2, np.int32), np.zeros(1, np.int32))),
            "does not number",
        ),
    ],
)
def test_bad_input(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        Topology(*arguments)


def test_too_many_links(monkeypatch):
    monkeypatch.setattr(topology_module, "MAX_LINKS", 2)
    with pytest.raises(ValueError, match="3 links: at most 2"):
        Topology(3, [0, 1, 2], [1, 2, 0])


def test_no_links_at_all():
    lonely = Topology(1, [], [])
    assert (lonely.degree, lonely.num_links, lonely.diameter()) == (0, 0, 0)
    assert Topology(2, [], []).distances().tolist() == [[0, -1], [-1, 0]]


def test_equality_is_of_nodes_links_in_order_and_speeds():
    assert Topology(3, [0, 1, 2], [1, 2, 0]) == RING
    assert hash(Topology(3, [0, 1, 2], [1, 2, 0])) == hash(RING)
    for other in (
        Topology(4, [0, 1, 2], [1, 2, 0]),
        Topology(3, [1, 0, 2], [2, 1, 0]),
        Topology(3, [0, 1, 2], [1, 2, 0], [1, 1, 2]),
        "ring",
    ):
        assert other != RING
    orbits = Symmetry(np.zeros(3, np.int32), np.zeros(3, np.int32))
    assert Topology(3, [0, 1, 2], [1, 2, 0], None, orbits) == RING


def test_diameter_of_a_disconnected_topology_names_a_pair():
    with pytest.raises(ValueError, match="not strongly connected: node 0 is out of node 1's reach"):
        Topology(3, [0, 1], [1, 2]).diameter()


@given(multigraphs())
def test_distances_are_those_of_networkx(topology):
    slow = slow_distances(topology)
    distances = topology.distances()
    nodes = range(topology.num_nodes)
    assert all(distances[v, u] == slow[v][u] for v in nodes for u in nodes)
    assert topology.diameter() == distances.max()


@given(multigraphs())
def test_link_indices_group_every_link_once(topology):
    for index, ends in (
        (topology.links_by_tail(), topology.tail),
        (topology.links_by_head(), topology.head),
    ):
        for node in range(topology.num_nodes):
            links = index.order[index.start[node] : index.start[node + 1]]
            assert links.tolist() == np.flatnonzero(ends == node).tolist()


@given(multigraphs())
def test_transpose(topology):
    transpose = topology.transpose()
    assert transpose.transpose() == topology
    assert (transpose.distances() == topology.distances().T).all()
    assert transpose.is_undirected() == topology.is_undirected()
    assert transpose.ingress_speed() == topology.egress_speed()


@given(multigraphs(speeds=False))
def test_undirected_when_united_with_the_transpose(topology):
    both = bidirected(topology)
    assert both.is_undirected()
    assert both.num_links == 2 * topology.num_links
    links = sorted(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    assert topology.is_undirected() == (links == sorted((head, tail) for tail, head in links))


@given(st.data())
def test_undirected_by_definition(data):
    one = data.draw(multigraphs(max_nodes=3, max_extra=6))
    tail, head = np.append(one.tail, one.head), np.append(one.head, one.tail)
    order = data.draw(st.permutations(range(2 * one.num_links)))
    both = Topology(one.num_nodes, tail[order], head[order], np.tile(one.speeds(), 2)[order])
    assert both.is_undirected()
    rows = zip(one.tail.tolist(), one.head.tolist(), one.speeds().tolist(), strict=True)
    forward = sorted(rows)
    backward = sorted((head, tail, speed) for tail, head, speed in forward)
    assert one.is_undirected() == (forward == backward)


def test_undirected_looks_at_speeds():
    assert Topology(2, [0, 1], [1, 0], [2, 2]).is_undirected()
    assert not Topology(2, [0, 1], [1, 0], [2, 3]).is_undirected()
    assert Topology(2, [0, 0, 1, 1], [1, 1, 0, 0], [2, 3, 3, 2]).is_undirected()


@given(st.data())
def test_relabelled(data):
    topology = data.draw(multigraphs())
    new = data.draw(st.permutations(range(topology.num_nodes)))
    renamed = topology.relabelled(new)
    assert (renamed.distances()[np.ix_(new, new)] == topology.distances()).all()
    assert renamed.relabelled(np.argsort(new)) == topology


@pytest.mark.parametrize("new", [[0, 0, 1], [0, 1], [1, 2, 3], [[0, 1, 2]]])
def test_relabelled_by_something_else(new):
    with pytest.raises(ValueError, match="not a permutation"):
        RING.relabelled(new)


@given(multigraphs())
def test_in_neighbours(topology):
    table = in_neighbours(topology)
    for node in range(topology.num_nodes):
        into = (topology.head == node) & (topology.tail != node)
        expected = {
            int(v): int(topology.speeds()[into & (topology.tail == v)].sum())
            for v in topology.tail[into]
        }
        used = table.capacity[node] > 0
        found = zip(
            table.node[node][used].tolist(), table.capacity[node][used].tolist(), strict=True
        )
        assert list(found) == sorted(expected.items())
        assert (table.node[node][~used] == node).all()


@given(regular_multigraphs())
def test_regular_multigraphs_are_regular(topology):
    assert topology.is_regular
    assert topology.distances().min() == 0


def test_representatives_are_the_first_of_every_orbit():
    orbits = Symmetry(np.array([1, 0, 1, 0], np.int32), np.zeros(0, np.int32))
    assert orbits.representatives().tolist() == [1, 0]
    assert orbits.relabelled(np.array([3, 2, 1, 0])).node_orbit.tolist() == [0, 1, 0, 1]


def test_symmetry_survives_transpose_and_union_with_it():
    orbits = Symmetry(np.zeros(3, np.int32), np.zeros(3, np.int32))
    ring = Topology(3, [0, 1, 2], [1, 2, 0], None, orbits)
    both = bidirected(ring)
    assert both.symmetry.link_orbit.tolist() == [0, 0, 0, 1, 1, 1]
    assert bidirected(RING).symmetry is None
