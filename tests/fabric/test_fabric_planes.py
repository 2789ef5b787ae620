"""Planes by port model: the contract of all models, known numbers of planes, and certificates."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from embed_samples import random_directed, random_undirected, undirected

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.models import PORT_MODELS, planes_of
from ocs_codesign.fabric.planes.planes import Proof, given_planes
from ocs_codesign.graphs.text import parse

PLANES_NEEDED = {
    "BiRing(2, 5)": (3, 1, 2),
    "BiRing(2, 8)": (2, 1, 2),
    "Complete(4)": (3, 2, 3),
    "Complete(5)": (5, 2, 4),
    "Complete(6)": (5, 3, 5),
    "Complete(7)": (7, 3, 6),
    'Named("petersen")': (4, 2, 3),
    "Hypercube(3)": (3, 2, 3),
    "Torus((3, 3))": (5, 2, 4),
    "Torus((4, 4))": (4, 2, 4),
    "Circulant(6, (1, 2))": (4, 2, 4),
    "Circulant(13, (1, 3, 4))": (7, 3, 6),
}
"""Planes of matchings, of two-sided and of simplex circuits; the last two are the octahedron and
the Paley graph of 13 nodes."""


def check(planes):
    """The circuits are the links, each once, and no port of a plane has two circuits."""
    topology = planes.topology
    carried = planes.link[planes.link >= 0]
    assert sorted(carried.tolist()) == list(range(topology.num_links))
    assert len(planes.plane) == len(planes.link) == planes.num_circuits
    if planes.num_circuits:
        assert planes.plane.min() >= 0
        assert planes.plane.max() < planes.num_planes
    used = Counter()
    for (forward, backward), plane in zip(planes.link.tolist(), planes.plane.tolist(), strict=True):
        one, other = int(topology.tail[forward]), int(topology.head[forward])
        if backward >= 0:
            assert (topology.tail[backward], topology.head[backward]) == (other, one)
        sides = ("a", "b") if planes.port_model.has_b_side else ("a", "a")
        used[plane, sides[0], one] += 1
        used[plane, sides[1], other] += 1
        if not planes.port_model.is_bidirectional:
            assert backward == -1
    assert max(used.values(), default=1) == 1
    assert planes.at_least.num_planes <= planes.num_planes


def check_certificate(planes):
    """The proof that fewer planes are too few, counted anew."""
    certificate, topology = planes.at_least, planes.topology
    pairs = planes.link[:, 1] >= -1
    one, other = planes.a_node[pairs], planes.b_node[pairs]
    if certificate.proof is Proof.DEGREE:
        (node,) = certificate.nodes
        if planes.port_model.is_bidirectional:
            ends = int((one == node).sum() + (other == node).sum())
            a_plane = 2 if planes.port_model.has_b_side else 1
            assert certificate.num_planes == -(-ends // a_plane)
        else:
            counts = ((topology.tail == node).sum(), (topology.head == node).sum())
            assert certificate.num_planes == max(counts)
    elif certificate.proof is Proof.ODD_SET:
        inside = int((np.isin(one, certificate.nodes) & np.isin(other, certificate.nodes)).sum())
        assert len(certificate.nodes) % 2 == 1
        assert certificate.num_planes == -(-inside // (len(certificate.nodes) // 2))


def fits(edges, matchings):
    """Whether the edges can be added to sets of nodes that matchings have met, by trying all."""
    if not edges:
        return True
    first, others = set(edges[0]), edges[1:]
    return any(
        fits(others, [*matchings[:at], met | first, *matchings[at + 1 :]])
        for at, met in enumerate(matchings)
        if not met & first and met not in matchings[:at]
    )


@pytest.mark.parametrize(("text", "needed"), PLANES_NEEDED.items())
def test_planes_needed(text, needed):
    topology = parse(text).topology()
    models = (PortModel.MATCHING, PortModel.TWO_SIDED, PortModel.SIMPLEX)
    found = [planes_of(topology, model) for model in models]
    for planes in found:
        check(planes)
        check_certificate(planes)
        assert planes.is_minimal
    assert tuple(planes.num_planes for planes in found) == needed


every_model = pytest.mark.parametrize("model", PORT_MODELS)
"""The contract of port models, which any new entry has to keep."""


def check_contract(topology, model):
    planes = planes_of(topology, model)
    check(planes)
    check_certificate(planes)
    assert planes.is_minimal or model is PortModel.MATCHING
    if model is PortModel.SIMPLEX:
        assert planes.num_planes == topology.degree
    if model is PortModel.TWO_SIDED:
        ends = np.bincount(np.concatenate([planes.a_node, planes.b_node]))
        assert planes.num_planes == -(-ends.max(initial=0) // 2)


@every_model
def test_random_regular_multigraphs(model):
    for seed in range(300):
        nodes, degree = 3 + seed % 14, 1 + seed % 5
        nodes += nodes * degree % 2
        if model.is_bidirectional:
            topology = random_undirected(nodes, degree, seed, loops=model.has_b_side)
        else:
            topology = random_directed(nodes, degree, seed)
        check_contract(topology, model)


@every_model
def test_irregular_graphs_with_isolated_nodes(model):
    for seed in range(40):
        random = np.random.default_rng(seed)
        edges = [tuple(random.choice(9, 2, replace=False)) for _ in range(int(random.integers(14)))]
        check_contract(undirected(12, edges), model)


def test_matchings_are_fewest_by_brute_force():
    for seed in range(60):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(3, 7))
        every = list(combinations(range(nodes), 2))
        edges = [every[k] for k in random.integers(len(every), size=int(random.integers(1, 10)))]
        planes = planes_of(undirected(nodes, edges), PortModel.MATCHING)
        assert planes.is_minimal
        assert fits(edges, [set()] * planes.num_planes)
        assert not fits(edges, [set()] * (planes.num_planes - 1))


def test_a_fat_triangle_needs_half_more_than_its_degree():
    planes = planes_of(undirected(4, [(0, 1), (1, 2), (2, 0)] * 4 + [(2, 3)]), PortModel.MATCHING)
    check(planes)
    assert (planes.num_planes, planes.at_least.nodes) == (12, (0, 1, 2))
    assert planes.at_least.proof is Proof.ODD_SET


def test_the_petersen_graph_is_searched_through():
    planes = planes_of(parse('Named("petersen")').topology(), PortModel.MATCHING)
    assert planes.at_least.proof is Proof.SEARCH


def test_an_even_regular_graph_with_an_odd_component():
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    planes = planes_of(undirected(6, edges), PortModel.MATCHING)
    assert (planes.num_planes, planes.at_least.nodes) == (3, (0, 1, 2))


def test_a_large_graph_of_degree_4():
    topology = random_undirected(1024, 4, 1)
    planes = planes_of(topology, PortModel.MATCHING)
    check(planes)
    assert planes.num_planes <= 5


def loop_backs(planes):
    return int((planes.a_node == planes.b_node).sum())


def test_a_loop_takes_a_circuit():
    kautz = parse("GeneralizedKautz(2, 8)").topology()
    planes = planes_of(kautz, PortModel.SIMPLEX)
    check(planes)
    assert loop_backs(planes) == 2
    loops = Topology(2, [0, 0, 0, 1, 1], [0, 0, 1, 0, 1])
    planes = planes_of(loops, PortModel.TWO_SIDED)
    check(planes)
    assert (planes.num_circuits, loop_backs(planes), planes.num_planes) == (3, 2, 2)


def test_given_planes():
    topology = parse("BiRing(2, 6)").topology()
    for model in PORT_MODELS:
        first = planes_of(topology, model)
        again = given_planes(topology, model, first.plane_of_link())
        check(again)
        assert np.array_equal(again.plane_of_link(), first.plane_of_link())


@every_model
def test_given_planes_that_share_a_port(model):
    topology = undirected(4, [(0, 1), (0, 2), (0, 3)])
    with pytest.raises(InfeasibleError, match="at one port of node 0") as caught:
        given_planes(topology, model, np.zeros(6, dtype=np.int32))
    assert caught.value.reason is Reason.PLANES


def test_restricted_planes_leave_no_choice():
    with pytest.raises(ValueError, match="only embedding chooses among them"):
        planes_of(Topology(2, [0], [1]), PortModel.RESTRICTED)


MODELS = list(PORT_MODELS)
ONE_WAY, LOOP = Topology(3, [0, 1, 2], [1, 2, 0]), Topology(2, [0, 1, 1], [1, 0, 1])


@pytest.mark.parametrize(
    ("topology", "models", "reason", "sentence"),
    [
        (ONE_WAY, MODELS[1:], Reason.ONE_WAY, "from node 0 to 1 but 0 back"),
        (LOOP, MODELS[2:], Reason.LOOP, "node 1 has a self-loop"),
        (Topology(2, [0, 1], [1, 0], [1, 2]), MODELS, Reason.SPEED, "speeds from 1 to 2"),
    ],
)
def test_no_number_of_planes(topology, models, reason, sentence):
    for model in models:
        with pytest.raises(InfeasibleError, match=sentence) as caught:
            planes_of(topology, model)
        assert caught.value.reason is reason


@every_model
def test_no_links(model):
    planes = planes_of(Topology(3, [], []), model)
    assert (planes.num_planes, planes.num_circuits, planes.is_minimal) == (0, 0, True)


@pytest.mark.parametrize("plane", [[0], [0, -1], [0.0, 1.0]])
def test_planes_that_are_none(plane):
    with pytest.raises(ValueError, match="plane"):
        given_planes(Topology(2, [0, 1], [1, 0]), PortModel.SIMPLEX, np.array(plane))
