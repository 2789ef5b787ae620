"""Packing, three stages, switch states and the choice of factorisation, each by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from embed_samples import fabric, pairs_of, random_directed, random_undirected

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel, rotations
from ocs_codesign.fabric.embedding.cables import pack
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.planes.models import loss_of_planes, most_survivable, planes_of
from ocs_codesign.fabric.wiring import three_stages, trunking, ways
from ocs_codesign.graphs.text import parse


def fits(sizes, rooms):
    """Whether items fit into bins, by trying all."""
    for bins in product(range(len(rooms)), repeat=len(sizes)):
        left = rooms.copy()
        np.subtract.at(left, np.array(bins, dtype=int), sizes)
        if (left >= 0).all():
            return True
    return False


def test_packing_is_exact():
    refused = 0
    for seed in range(120):
        random = np.random.default_rng(seed)
        sizes = random.integers(1, 5, size=(int(random.integers(1, 7)), 2))
        rooms = np.repeat(random.integers(2, 8, size=(int(random.integers(1, 4)), 1)), 2, axis=1)
        if not fits(sizes, rooms):
            with pytest.raises(InfeasibleError) as caught:
                pack(sizes, rooms)
            assert caught.value.reason in (Reason.BLOCK, Reason.PORTS, Reason.PACKING)
            refused += 1
            continue
        bins = pack(sizes, rooms)
        left = rooms.copy()
        np.subtract.at(left, bins, sizes)
        assert (left >= 0).all()
    assert 20 < refused < 100


def test_packing_where_first_fit_fails():
    sizes = np.repeat([[5], [4], [3], [2], [2], [2]], 2, axis=1)
    bins = pack(sizes, np.array([[9, 9], [9, 9]]))
    assert np.bincount(bins, weights=sizes[:, 0]).tolist() == [9, 9]


@pytest.mark.parametrize(
    ("hosts", "ports", "stages"),
    [
        (8, [4] * 6, (2, 2, 4, 2)),
        (16, [4] * 12, (4, 4, 4, 1)),
        (16, [4] * 11, None),
        (17, [4] * 100, None),
        (64, [8] * 24, (8, 8, 8, 1)),
        (8, [8, 4, 4, 4, 4], (2, 1, 4, 4)),
        (8, [4, 4], None),
    ],
)
def test_three_stages(hosts, ports, stages):
    clos = three_stages(hosts, np.array(ports))
    if stages is None:
        assert clos is None
        return
    assert (len(clos.senders), len(clos.middles), clos.num_hosts, clos.num_trunks) == stages
    used = [*clos.senders, *clos.middles, *clos.receivers]
    assert len(used) == len(set(used)) == clos.num_switches
    # Rearrangeable: as many ways through the middle as an edge switch has hosts.
    assert len(clos.middles) * clos.num_trunks >= clos.num_hosts
    for switch, b_port, other, a_port in clos.trunks().tolist():
        assert 1 <= b_port <= ports[switch]
        assert 1 <= a_port <= ports[other]


def test_every_permutation_has_its_ways():
    senders = np.arange(6) // 3
    for heads in permutations(range(6)):
        receivers = np.array(heads) // 3
        way = ways(senders, receivers, 2, 3)
        for ends in (senders, receivers):
            assert len(set(zip(ends.tolist(), way.tolist(), strict=True))) == 6
    with pytest.raises(InfeasibleError, match="3 circuits, but 2 trunks"):
        ways(senders, senders, 2, 2)


def test_trunks_that_are_no_three_stages():
    clos = three_stages(8, np.array([4] * 6))
    ends = np.array(clos.senders), np.array(clos.receivers)
    assert trunking(clos.trunks(), *ends)[0][0, :, 2].tolist() == [4, 4, 5, 5]
    with pytest.raises(ValueError, match="do not make a three-stage network"):
        trunking(clos.trunks()[1:], *ends)


def test_a_rotor_shows_its_shifts():
    made = fabric(8, [[8]] * 3, PortModel.RESTRICTED, states=rotations(8))
    for text in ("DirectedCirculant(8, (1, 2, 5))", "Circulant(8, (3,))", "UniRing(3, 8)"):
        topology = parse(text).topology()
        embedding = embed(made, topology)
        assert pairs_of(topology_of(embedding.configuration)) == pairs_of(topology)
        again = embed(made, topology, plane=embedding.planes.plane_of_link())
        assert pairs_of(topology_of(again.configuration)) == pairs_of(topology)


def test_states_that_do_not_match():
    made = fabric(8, [[8]] * 3, PortModel.RESTRICTED, states=rotations(8)[:3])
    with pytest.raises(InfeasibleError, match="no state offers a circuit from node 0 to 5") as no:
        embed(made, parse("DirectedCirculant(8, (1, 5))").topology())
    assert no.value.reason is Reason.STATES
    # Nodes in another order: every link is offered, but not all at once.
    mixed = Topology(8, [0, 0, 0, 1], [1, 2, 3, 2])
    assert embed(made, mixed).planes.num_planes == 3
    two = fabric(8, [[8]] * 2, PortModel.RESTRICTED, states=rotations(8)[:3])
    with pytest.raises(InfeasibleError, match="no choice of one state for each of 2") as no:
        embed(two, Topology(8, [0, 1, 2], [1, 3, 5]))
    assert no.value.reason is Reason.STATES
    # Parallel links take a switch each; ports lack before states do.
    with pytest.raises(InfeasibleError, match="at least 3 planes are needed and there are 2") as no:
        embed(two, Topology(8, [0, 0, 0], [1, 1, 1]))
    assert no.value.reason is Reason.PLANES


def test_states_chosen_at_random_are_found_again():
    for seed in range(40):
        random = np.random.default_rng(seed)
        states = np.array([random.permutation(6) + 1 for _ in range(5)])
        made = fabric(6, [[6]] * 3, PortModel.RESTRICTED, states=states)
        chosen = states[random.integers(5, size=3)] - 1
        kept = random.random(18) < 0.8
        topology = Topology(6, np.tile(np.arange(6), 3)[kept], chosen.ravel()[kept])
        embedding = embed(made, topology)
        assert pairs_of(topology_of(embedding.configuration)) == pairs_of(topology)


def test_the_choice_of_planes_of_a_torus_of_one_way_rings():
    torus = parse("Product(UniRing(1, 4), UniRing(1, 4))").topology()
    by_dimension = planes_of(torus, PortModel.SIMPLEX)
    assert loss_of_planes(by_dimension).num_components == (4, 4)
    best, loss = most_survivable(by_dimension)
    assert loss.stays_connected
    assert loss.is_proven
    # What is left after a loss is a ring of all 16 nodes.
    for lost in (0, 1):
        stays = best.plane_of_link() != lost
        ring = Topology(16, torus.tail[stays], torus.head[stays])
        assert ring.diameter() == 15


def factorisations(start):
    """Every factorisation into one-way planes, by trying all planes for all links."""
    topology = start.topology
    ports = np.stack([topology.tail, topology.head + topology.num_nodes])
    plane, taken = np.empty(topology.num_links, dtype=np.int32), set()

    def extended(link):
        if link == topology.num_links:
            yield replace(start, plane=plane.copy())
            return
        for number in range(min(int(plane[:link].max(initial=-1)) + 2, start.num_planes)):
            mine = {(number, int(port)) for port in ports[:, link]}
            if not mine & taken:
                plane[link] = number
                taken.update(mine)
                yield from extended(link + 1)
                taken.difference_update(mine)

    yield from extended(0)


@pytest.mark.parametrize("seed", range(12))
def test_the_most_survivable_of_all(seed):
    topology = random_directed(6 + seed % 2, 2 + seed % 2, seed)
    start = planes_of(topology, PortModel.SIMPLEX)
    best, loss = most_survivable(start)
    assert loss_of_planes(best).num_components == loss.num_components
    left = [loss_of_planes(planes).num_components for planes in factorisations(start)]
    cost = min((max(components), sum(components)) for components in left)
    assert (max(loss.num_components), sum(loss.num_components)) == cost
    assert loss.is_proven or start.num_planes > 2


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
def test_exchanges_keep_the_ports(model):
    for seed in range(3):
        topology = random_undirected(10, 4, seed)
        start = planes_of(topology, model)
        best, loss = most_survivable(start, seed)
        for plane in range(best.num_planes):
            ports = best.ports()[best.plane == plane].ravel()
            assert len(set(ports.tolist())) == len(ports)
        carried = best.link[best.link >= 0]
        assert sorted(carried.tolist()) == list(range(topology.num_links))
        first = loss_of_planes(start).num_components
        assert (max(loss.num_components), sum(loss.num_components)) <= (max(first), sum(first))
        again, same = most_survivable(start, seed)
        assert np.array_equal(again.plane, best.plane)
        assert same == loss


@pytest.mark.parametrize("text", ["Torus((4, 4))", "Torus((8, 8))", "Circulant(64, (1, 9))"])
def test_two_sided_planes_become_hamiltonian_cycles(text):
    topology = parse(text).topology()
    best, loss = most_survivable(planes_of(topology, PortModel.TWO_SIDED))
    assert best.num_planes == 2
    assert loss.stays_connected
    assert loss.is_proven
    for number in (0, 1):
        mine = best.plane == number
        heads = np.empty(topology.num_nodes, dtype=int)
        heads[best.a_node[mine]] = best.b_node[mine]
        here, length = int(heads[0]), 1
        while here:
            here, length = int(heads[here]), length + 1
        assert length == topology.num_nodes
