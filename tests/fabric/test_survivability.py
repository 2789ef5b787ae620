"""Survivability: known facts, an oracle that counts by hand, and symmetry that saves work."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from embed_samples import fabric, random_directed

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.survival import LossKind, survivability
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure_topology

GRID = "Product(UniRing(1, 4), UniRing(1, 4))"


def by_dimension(topology):
    """Plane 0 for links inside a row of four nodes, 1 for those between rows."""
    return (topology.tail // 4 != topology.head // 4).astype(int).tolist()


def test_planes_that_are_dimensions_fall_into_rings():
    topology = parse(GRID).topology()
    embedding = embed(fabric(16, [[16]] * 2), topology, plane=by_dimension(topology))
    found = survivability(embedding.configuration, ["plane", "switch"])
    assert [loss.left.num_components for loss in found.losses] == [4] * 4
    assert {loss.left.largest_component for loss in found.losses} == {4}
    assert {(loss.left.cost, loss.left.alltoall) for loss in found.losses} == {(None, None)}
    assert found.num_measured == 2  # a plane is its only switch


def test_a_hamiltonian_factorisation_leaves_a_ring():
    topology = parse(GRID).topology()
    embedding = embed(fabric(16, [[16]] * 2), topology, prefer="survivability")
    (worst,) = survivability(embedding.configuration, ["plane"]).worst()
    assert (worst.num_losses, worst.num_connected, worst.num_alike) == (2, 2, 2)
    left = worst.loss.left
    assert (left.diameter, left.num_links) == (15, 16)
    assert left.cost is not None
    # Fifteen shards of M/16 over one of two ports: each has B/2.
    assert (left.cost.steps, left.cost.t_b) == (15, Fraction(15, 8))
    assert left.alltoall is not None
    # 120 pieces over every link of B/2 with M/16 each.
    assert left.alltoall.time == left.alltoall.bound == Fraction(120, 8)


def oracle(found):
    """Every loss again: links counted by name of host and plane, components by networkx."""
    made, topology = found.configuration, found.configuration.topology
    names = made.cabling.fabric.hosts
    plane_of = {
        link: made.plane[circuit]
        for circuit, pair in enumerate(made.link.tolist())
        for link in pair
        if link >= 0
    }
    for loss in found.losses:
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(range(topology.num_nodes))
        ends = list(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
        words = loss.name.split()
        for link, (tail, head) in enumerate(ends):
            if loss.kind is LossKind.PLANE and plane_of[link] == int(words[1]):
                continue
            if loss.kind is LossKind.LINK and plane_of[link] == int(words[5]):
                pair = (names[made.host[tail]], names[made.host[head]])
                two_way = made.link[:, 1].max() >= 0
                if pair == (words[0], words[2]) or (two_way and pair[::-1] == (words[0], words[2])):
                    continue
            graph.add_edge(tail, head)
        if loss.kind is LossKind.HOST:
            graph.remove_node(made.host.tolist().index(names.index(loss.name)))
        parts = [len(part) for part in nx.strongly_connected_components(graph)]
        left = loss.left
        assert (left.num_components, left.largest_component) == (len(parts), max(parts))
        assert left.num_links == graph.number_of_edges()
        if len(parts) > 1:
            assert left.diameter is None
            continue
        assert left.diameter == nx.diameter(graph)
        order = {node: place for place, node in enumerate(graph)}
        rest = [(order[tail], order[head]) for tail, head in graph.edges()]
        again = measure_topology(Topology(len(order), *map(list, zip(*rest, strict=True)))).cost
        ratio = Fraction(topology.degree, max(d for _, d in graph.out_degree()))
        assert left.cost is not None
        assert (left.cost.steps, left.cost.t_b) == (again.steps, again.t_b * ratio)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Circulant(8, (1, 3))", PortModel.TWO_SIDED),
        ("Circulant(6, (1, 2))", PortModel.MATCHING),
        ("BiRing(2, 5)", PortModel.TWO_SIDED),
        ("UniRing(1, 5)", PortModel.SIMPLEX),
        ("Kautz(2, 1)", PortModel.SIMPLEX),
    ],
)
def test_symmetry_only_saves_work(text, model):
    topology = parse(text).topology()
    bare = Topology(topology.num_nodes, topology.tail, topology.head)
    there = fabric(topology.num_nodes, [[topology.num_nodes]] * 6, model)
    kinds = ("plane", "link", "host")
    configuration = embed(there, topology).configuration
    found = survivability(configuration, kinds)
    plain = survivability(replace(configuration, topology=bare), kinds)
    oracle(found)
    for one, other in zip(found.losses, plain.losses, strict=True):
        assert (one.name, one.left.cost) == (other.name, other.left.cost)
        assert one.left == other.left
    assert found.num_measured <= plain.num_measured
    if topology.symmetry is not None and topology.num_nodes > 3:
        assert found.num_measured < plain.num_measured


def test_planes_that_are_generators_keep_the_symmetry():
    topology = parse("Circulant(16, (1, 3, 6))").topology()
    assert topology.symmetry is not None
    bare = Topology(topology.num_nodes, topology.tail, topology.head)
    orbit, there = topology.symmetry.link_orbit, fabric(16, [[16]] * 6)
    found, plain = (
        survivability(embed(there, one, plane=orbit).configuration, ["plane"])
        for one in (topology, bare)
    )
    assert len(found.losses) == 6
    assert [loss.left for loss in found.losses] == [loss.left for loss in plain.losses]
    assert all(loss.left.is_connected for loss in found.losses)


@pytest.mark.parametrize("seed", range(4))
def test_random_multigraphs(seed):
    topology = random_directed(6, 2, seed)
    made = embed(fabric(6, [[6]] * 2), topology).configuration
    found = survivability(made, ["plane", "host"], max_columns=-1)
    oracle(found)
    for loss in found.losses:
        if loss.left.alltoall is not None:
            assert loss.left.alltoall.time is None
    solved = survivability(made, ["plane", "host"])
    for loss, exact in zip(found.losses, solved.losses, strict=True):
        if loss.left.alltoall is not None:
            assert exact.left.alltoall is not None
            assert exact.left.alltoall.time is not None
            assert loss.left.alltoall.bound <= exact.left.alltoall.time


def test_switches_of_blocks_and_stages():
    topology = parse("UniRing(1, 8)").topology()
    made = embed(fabric(8, [[4, 4]]), topology).configuration
    switches = survivability(made, ["switch"]).losses
    assert [loss.num_lost_links for loss in switches] == [4, 4]
    staged = embed(fabric(8, [[4] * 8] * 4), parse("Circulant(8, (1, 2))").topology())
    losses = survivability(staged.configuration, ["switch"], max_columns=0).losses
    crossing = [
        len(np.unique(staged.configuration.circuit[staged.configuration.switch == number]))
        for number in range(32)
    ]
    assert [loss.num_lost_links for loss in losses] == crossing


def test_one_of_two_nodes_left_has_nothing_to_do():
    made = embed(fabric(2, [[2]]), Topology(2, [0, 1], [1, 0])).configuration
    for loss in survivability(made, ["host"]).losses:
        assert loss.left.cost is not None
        assert (loss.left.num_nodes, loss.left.cost.steps, loss.left.cost.t_b) == (1, 0, 0)


def test_bad_input():
    made = embed(fabric(2, [[2]]), Topology(2, [0, 1], [1, 0])).configuration
    with pytest.raises(ValueError, match=r"kind of loss is 'port': it must be one of plane"):
        survivability(made, ["port"])
    with pytest.raises(ValueError, match="no kind of loss is given"):
        survivability(made, [])
    alone = embed(fabric(2, [[2]]), Topology(1, [0], [0])).configuration
    with pytest.raises(ValueError, match="one node"):
        survivability(alone)
