"""Embeddings: what is claimed is what the light does, in every port model and partition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from embed_samples import fabric, pairs_of, random_directed, random_undirected, undirected
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.cables import Partition
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.planes.models import most_survivable, planes_of
from ocs_codesign.fabric.wiring import Configuration
from ocs_codesign.graphs.text import parse


def followed(configuration):
    """The links that single light rays make, one host strand after the other."""
    cabling = configuration.cabling
    switches = cabling.fabric.switches
    node = {int(host): v for v, host in enumerate(configuration.host)}
    rows = (configuration.switch, configuration.a_port, configuration.b_port, configuration.circuit)
    cross, circuit_at = {}, {}
    for switch, a, b, circuit in zip(*(row.tolist() for row in rows), strict=True):
        assert min(a, b) >= 1
        assert max(a, b) <= switches[switch].num_usable
        assert (switch, a) not in cross
        cross[switch, a], circuit_at[switch, a] = b, circuit
        if not switches[switch].profile.port_model.has_b_side:
            assert (switch, b) not in cross
            cross[switch, b], circuit_at[switch, b] = a, circuit
    trunk = {(s, b): (t, a) for s, b, t, a in cabling.trunks.tolist()}
    links = []
    for plane in range(cabling.fabric.num_planes):
        model = cabling.fabric.port_model
        sided = model.has_b_side
        arrives = (
            (cabling.b_switch, cabling.b_port) if sided else (cabling.a_switch, cabling.a_port)
        )
        host_at = {
            (int(s), int(p)): h
            for h, (s, p) in enumerate(zip(arrives[0][:, plane], arrives[1][:, plane], strict=True))
        }
        for host in range(len(cabling.fabric.hosts)):
            here = int(cabling.a_switch[host, plane]), int(cabling.a_port[host, plane])
            if here not in cross:
                continue
            both = configuration.link[circuit_at[here], 1] >= 0
            while (here[0], cross[here]) not in host_at:
                here = trunk[here[0], cross[here]]
            there = node[host_at[here[0], cross[here]]]
            links.append((node[host], there))
            if sided and both:
                links.append((there, node[host]))
    return sorted(links)


def check(embedding, topology):
    """The light makes the topology, cables are in ports of their own plane, each in its own."""
    configuration = embedding.configuration
    assert isinstance(configuration, Configuration)
    assert followed(configuration) == pairs_of(topology)
    assert pairs_of(topology_of(configuration)) == pairs_of(topology)
    cabling = embedding.cabling
    plane_of = np.array([switch.plane for switch in cabling.fabric.switches])
    ports = []
    for side, (switch, port) in enumerate(
        [(cabling.a_switch, cabling.a_port), (cabling.b_switch, cabling.b_port)]
    ):
        host, plane = np.nonzero(switch >= 0)
        assert (plane_of[switch[host, plane]] == plane).all()
        numbers = zip(switch[host, plane].tolist(), port[host, plane].tolist(), strict=True)
        ports += [(side, *number) for number in numbers]
    for one, b, other, a in cabling.trunks.tolist():
        assert plane_of[one] == plane_of[other]
        ports += [(1, one, b), (0, other, a)]
    assert len(ports) == len(set(ports))
    switches = cabling.fabric.switches
    assert all(1 <= port <= switches[switch].num_usable for _, switch, port in ports)


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
def test_one_switch_a_plane(model):
    topology = parse("Torus((4, 4))").topology()
    embedding = embed(fabric(18, [[20]] * 5, model, spares=2, spare_hosts=2), topology)
    check(embedding, topology)
    assert embedding.partition == (Partition.ONE_SWITCH,) * 5
    # Spare hosts have cables, too, and a host's ports have its number.
    assert (embedding.cabling.a_port == np.arange(1, 19)[:, None]).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 12),
    st.integers(1, 4),
    st.integers(0, 10**6),
    st.sampled_from([PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING]),
    st.sampled_from(["one", "circuits", "stages"]),
    st.booleans(),
)
def test_random_multigraphs(nodes, degree, seed, model, how, irregular):
    degree += nodes * degree % 2
    topology = (
        random_directed(nodes, degree, seed)
        if model is PortModel.SIMPLEX
        else random_undirected(max(nodes, 4), degree, seed, loops=model is PortModel.TWO_SIDED)
    )
    random = np.random.default_rng(seed)
    if irregular and model is PortModel.SIMPLEX:
        kept = random.random(topology.num_links) < 0.6
        topology = Topology(nodes, topology.tail[kept], topology.head[kept])
    num_planes = 3 * degree + 1
    hosts = topology.num_nodes + 2
    sizes = {"one": [hosts], "circuits": [2] * hosts, "stages": [4] * 3 * hosts}[how]
    made = fabric(hosts, [sizes] * num_planes, model)
    if how == "stages" and model is PortModel.MATCHING:
        return
    host = random.permutation(hosts)[: topology.num_nodes]
    embedding = embed(made, topology, host=host, split_blocks=how == "circuits")
    check(embedding, topology)
    again = embed(made, topology, host=host, cabling=embedding.cabling)
    check(again, topology)


@pytest.mark.parametrize("text", ["Line(Complete(4))", "Kautz(3, 1)", "Line(Torus((3, 3)))"])
def test_line_digraphs_need_switches_of_their_degree_only(text):
    topology = parse(text).topology()
    degree, nodes = topology.degree, topology.num_nodes
    made = fabric(nodes, [[degree] * (nodes // degree)] * degree)
    embedding = embed(made, topology)
    check(embedding, topology)
    assert embedding.partition == (Partition.BLOCKS,) * degree


def test_1024_nodes_of_degree_4_in_switches_of_4_ports():
    topology = parse("Line(DirectedCirculant(256, (1, 3, 7, 90)))").topology()
    assert (topology.num_nodes, topology.degree) == (1024, 4)
    embedding = embed(fabric(1024, [[4] * 256] * 4), topology)
    check(embedding, topology)
    assert set(embedding.partition) == {Partition.BLOCKS}


def test_blocks_serve_every_factorisation():
    topology = parse("DirectedCirculant(8, (1, 3))").topology()
    made = fabric(8, [[4, 4]] * 2)
    first = embed(made, topology)
    other = 1 - first.planes.plane_of_link()
    second = embed(made, topology, cabling=first.cabling, plane=other)
    check(second, topology)
    assert np.array_equal(second.planes.plane_of_link(), other)


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED])
def test_three_stages(model):
    topology = parse("Circulant(16, (1, 2))").topology()
    made = fabric(16, [[4] * 12] * 4, model)
    embedding = embed(made, topology)
    check(embedding, topology)
    planes = embedding.planes.num_planes
    assert set(embedding.partition[:planes]) == {Partition.CLOS}
    assert set(np.bincount(embedding.configuration.circuit).tolist()) == {3}
    rows = np.bincount(embedding.configuration.circuit)
    assert (rows == 3).all()
    # Three stages serve any other topology on the same cables.
    other = random_undirected(16, 4, 3)
    check(embed(made, other, cabling=embedding.cabling), other)


def test_a_second_configuration_moves_links_to_planes_that_carry_them():
    # Hosts 0, 1 and hosts 2, 3 share a switch in plane 0; 0, 3 and 1, 2 do in plane 1.
    ring = undirected(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    made = fabric(4, [[2, 2]] * 2, PortModel.MATCHING)
    plane = [0, 0, 1, 1, 0, 0, 1, 1]
    first = embed(made, ring, plane=plane, split_blocks=True)
    check(first, ring)
    pair = undirected(4, [(1, 2), (0, 1)])
    second = embed(made, pair, cabling=first.cabling)
    check(second, pair)
    assert second.planes.plane_of_link().tolist() == [1, 1, 0, 0]


def test_a_two_sided_circuit_is_turned_if_the_cables_ask_for_it():
    made = fabric(4, [[2, 2]], PortModel.TWO_SIDED)
    ring = undirected(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    first = embed(made, ring, split_blocks=True)
    check(first, ring)
    for edges in ([(1, 0)], [(0, 1)], [(3, 0), (2, 1)]):
        part = undirected(4, edges)
        check(embed(made, part, cabling=first.cabling), part)


def test_a_host_may_be_a_spare():
    topology = parse("UniRing(1, 4)").topology()
    made = fabric(5, [[5]], spare_hosts=1)
    embedding = embed(made, topology, host=[0, 4, 2, 3])
    check(embedding, topology)
    assert embedding.configuration.host.tolist() == [0, 4, 2, 3]


def test_planes_whose_switches_do_not_fit_are_left_out():
    topology = parse("DirectedCirculant(8, (1, 2))").topology()
    embedding = embed(fabric(8, [[4, 4], [8], [8]]), topology)
    check(embedding, topology)
    assert embedding.partition == (None, Partition.ONE_SWITCH, Partition.ONE_SWITCH)
    assert set(embedding.planes.plane.tolist()) == {1, 2}


def test_loop_backs():
    topology = parse("GeneralizedKautz(2, 8)").topology()
    embedding = embed(fabric(8, [[2] * 4] * 2), topology)
    check(embedding, topology)
    assert set(embedding.partition) == {Partition.BLOCKS}


def test_an_odd_loop_uses_one_direction():
    topology = Topology(2, [0, 0, 1], [0, 1, 0])
    check(embed(fabric(2, [[2]] * 2, PortModel.TWO_SIDED), topology), topology)


def test_no_links():
    topology = Topology(3, [], [])
    check(embed(fabric(3, [[3]]), topology), topology)


def test_the_same_bytes_every_time():
    topology = random_undirected(20, 4, 7)
    made = fabric(20, [[20]] * 5, PortModel.MATCHING)
    one, other = (embed(made, topology).configuration for _ in range(2))
    for name in ("plane", "link", "circuit", "switch", "a_port", "b_port"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
def test_planes_with_the_sides_of_their_circuits(model):
    topology = parse("Torus((3, 4))").topology()
    planes, _ = most_survivable(planes_of(topology, model))
    made = fabric(12, [[12]] * 6, model)
    turned = replace(planes, link=planes.link[:, ::-1]) if model.is_bidirectional else planes
    for chosen in (planes, turned):
        embedding = embed(made, topology, plane=chosen)
        check(embedding, topology)
        assert embedding.planes is chosen
    with pytest.raises(ValueError, match="the planes are of Topology"):
        embed(made, parse("BiRing(4, 12)").topology(), plane=planes)
    with pytest.raises(ValueError, match="do not carry every link once"):
        embed(made, topology, plane=replace(planes, link=np.zeros_like(planes.link)))
