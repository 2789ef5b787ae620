"""Servers on optical planes: their network against what it stands for, losses, sizes, bad input."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from forest_samples import networks
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import damaged, direct, star
from ocs_codesign.core.networks.products import h100_rail, mi250
from ocs_codesign.core.networks.servers import servers
from ocs_codesign.core.topology import host_diameter
from ocs_codesign.graphs.text import parse, parse_network
from ocs_codesign.schedules.forest.optimum import optimum

ENOUGH = 10**6


def algbw(network, collective=Collective.ALLGATHER):
    return optimum(network, collective).algbw


def meant(num_servers, inner, outer, cards, widths, relay):
    """What ``servers`` stands for, written out node by node with links that are wide enough.

    Nothing is trimmed or shared out beforehand, so switches are out of balance and the optimum is
    that of a linear program.
    """
    links, gpus, number = [], inner.num_hosts, {}
    tail, head = outer.tail, outer.head

    def node(*name):
        return number.setdefault(name, len(number))

    for server in range(num_servers):
        for gpu in range(gpus):
            node(server, gpu)
    for server in range(num_servers):
        for one, other, width in zip(inner.tail, inner.head, inner.bandwidth, strict=True):
            sends = "down" if one >= gpus and relay == "gpu" else int(one)
            links.append((node(server, sends), node(server, int(other)), width))
        if inner.num_nodes > gpus and relay == "gpu":
            links.append((node(server, gpus), node(server, "down"), ENOUGH))
        for nic, (card, width) in enumerate(zip(cards, widths, strict=True)):
            for gpu in card or (gpus,):
                back = "down" if not card and relay == "gpu" else gpu
                wide = width or ENOUGH
                links.append((node(server, gpu), node(server, "tx", nic), wide))
                links.append((node(server, "rx", nic), node(server, back), wide))
            if relay == "nic":
                at = server * len(cards) + nic
                sends, receives = (outer.bandwidth[end == at].sum() for end in (tail, head))
                links.append((node(server, "tx", nic), node(server, "port", nic), sends))
                links.append((node(server, "port", nic), node(server, "rx", nic), receives))
    for one, other, width in zip(tail, head, outer.bandwidth, strict=True):
        ends = [divmod(int(end), len(cards)) for end in (one, other)]
        words = ("port", "port") if relay == "nic" else ("tx", "rx")
        (s, sends), (r, receives) = ends
        links.append((node(s, words[0], sends), node(r, words[1], receives), width))
    return Network(num_servers * gpus, len(number), *np.array(links).T)


@st.composite
def clusters(draw):
    num_servers, gpus = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    nics = draw(st.integers(1, 2))
    width = draw(st.integers(1, 40))
    pairs = np.array([(a, b) for a in range(gpus) for b in range(gpus) if a != b]).reshape(-1, 2).T
    mesh = Network(gpus, gpus, *pairs, [width] * len(pairs[0]))
    inner = draw(st.sampled_from([star(gpus, width), mesh]))
    places = [(gpu,) for gpu in range(gpus)] + [tuple(range(gpus))]
    places += [()] * (inner.num_nodes > gpus)
    cards = draw(st.lists(st.sampled_from(places), min_size=nics, max_size=nics))
    cards_size = num_servers * nics
    end = st.integers(0, cards_size - 1)
    rows = draw(st.lists(st.tuples(end, end, st.sampled_from([6, 12, 30])), max_size=8))
    rows += [(a, (a + 1) % cards_size, 6) for a in range(cards_size)]
    outer = Network(cards_size, cards_size, *np.array(rows).T)
    widths = draw(st.sampled_from([[None] * nics, [draw(st.integers(1, 20))] * nics]))
    return num_servers, inner, outer, cards, widths


@settings(max_examples=40, deadline=None)
@given(cluster=clusters(), relay=st.sampled_from(["gpu", "nic"]))
def test_the_optimum_is_that_of_what_is_meant(cluster, relay):
    num_servers, inner, outer, cards, widths = cluster
    network = servers(
        *(num_servers, inner, outer),
        attach=cards,
        card_bandwidth=widths,
        wiring="across",
        relay=relay,
    )
    if network.num_hosts < 2:
        return
    whole = meant(num_servers, inner, outer, cards, widths, relay)
    assert algbw(network) == algbw(whole)
    assert host_diameter(network) == host_diameter(whole)


def hops_by_hand(network):
    """Most hops from host to host, one search a host; None if one is not reached."""
    most = 0
    for source in range(network.num_hosts):
        reached, hops = {source}, 0
        while not set(range(network.num_hosts)) <= reached:
            before, grows = set(reached), True
            while grows:
                grows = False
                for tail, head in zip(network.tail.tolist(), network.head.tolist(), strict=True):
                    from_now = tail in before or (tail in reached and network.is_switch(tail))
                    if from_now and head not in reached:
                        reached.add(head)
                        grows = True
            hops += 1
            if reached == before:
                return None
        most = max(most, hops)
    return most


@settings(max_examples=80, deadline=None)
@given(network=networks())
def test_hops_from_host_to_host(network):
    by_hand = hops_by_hand(network)
    if by_hand is None:
        with pytest.raises(ValueError, match="cannot be reached from all others"):
            host_diameter(network)
    else:
        assert host_diameter(network) == by_hand


def rails(num_servers, gpus, ports, width, recipe, **options):
    ring = direct(parse(recipe).topology(), width)
    assert (ring.num_hosts, ring.num_links) == (num_servers, num_servers * ports)
    return servers(num_servers, star(gpus, 450), ring, **options)


@pytest.mark.parametrize(
    ("num_servers", "gpus", "ports", "recipe"),
    [(3, 2, 2, "BiRing(2, 3)"), (13, 8, 2, "BiRing(2, 13)"), (16, 4, 4, "Hypercube(4)")],
)
@pytest.mark.parametrize("relay", ["gpu", "nic"])
def test_nics_limit_a_wide_server(num_servers, gpus, ports, recipe, relay):
    """A server gets what all others have over its NICs: S / (S - 1) of their bandwidth."""
    limit = Fraction(num_servers * gpus * ports * 10, num_servers - 1)
    for attach, nics in (("gpu", None), ("shared", gpus // 2), ("switch", gpus)):
        network = rails(
            *(num_servers, gpus, ports, 10, recipe), num_nics=nics, attach=attach, relay=relay
        )
        assert algbw(network) == limit * (nics or gpus) / gpus
        assert algbw(network, Collective.REDUCE_SCATTER) == algbw(network)


def test_small_clusters_by_hand():
    # Three servers of two GPUs, one way round: 4 of 6 shards enter a server over two links of 10.
    one_way = rails(3, 2, 1, 10, "UniRing(1, 3)")
    assert (algbw(one_way), host_diameter(one_way)) == (30, 3)
    # Narrow inside: a GPU gets 5 shards over 4 from the switch and 10 of its own NIC.
    ring = direct(parse("UniRing(1, 3)").topology(), 10)
    assert algbw(servers(3, star(2, 4), ring)) == Fraction(6 * (4 + 4 + 10 + 10), 10)
    # The only NIC hangs on GPU 0, so that GPU 1 has but the 4.
    assert algbw(servers(3, star(2, 4), ring, 1)) == Fraction(6 * 4, 5)
    # A NIC on the switch: both GPUs have but their 4 each.
    assert algbw(servers(3, star(2, 4), ring, 1, attach="switch")) == Fraction(6 * 4, 5)
    # A link of 3 to the card is the narrowest of all: 4 shards enter over it.
    assert algbw(servers(3, star(2, 40), ring, 1, card_bandwidth=3)) == Fraction(6 * 3, 4)


def test_rails_of_switches_are_rail_clusters():
    assert algbw(servers(2, star(8, 450), star(2, 50))) == algbw(h100_rail(2))
    known = parse_network("servers(4, mi250(1), star(64, 16), 16, wiring='across')")
    assert algbw(known) == algbw(mi250(4))
    assert known.num_hosts == 64


def test_across_and_by_rails_are_the_same_where_the_recipe_is():
    ring = parse("BiRing(2, 5)").topology()
    by_rail = servers(5, star(3, 20), direct(ring, 4))
    ends = (np.concatenate([3 * end + rail for rail in range(3)]) for end in (ring.tail, ring.head))
    across = servers(
        5, star(3, 20), Network(15, 15, *ends, [4] * 3 * ring.num_links), wiring="across"
    )
    assert algbw(by_rail) == algbw(across)
    links = [
        sorted(zip(one.tail.tolist(), one.head.tolist(), strict=True)) for one in (by_rail, across)
    ]
    assert links[0] == links[1]


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(5)), relay=st.sampled_from(["gpu", "nic"]))
def test_names_of_servers_do_not_matter(order, relay):
    graph, place = parse("GeneralizedKautz(2, 5)").topology(), np.array(order)
    plain, moved = (
        servers(5, star(2, 7), Network(5, 5, tail, head, [3] * 10), relay=relay)
        for tail, head in ((graph.tail, graph.head), (place[graph.tail], place[graph.head]))
    )
    assert algbw(plain) == algbw(moved)
    assert host_diameter(plain) == host_diameter(moved)


def test_losses():
    ring = direct(parse("BiRing(2, 4)").topology(), 10)
    whole = servers(4, star(2, 99), ring)
    assert algbw(whole) == Fraction(8 * 40, 6)
    # A server less: three in a row, whose outer ones have one link a NIC.
    less = servers(4, star(2, 99), ring, lost="server3")
    assert (less.num_hosts, algbw(less)) == (6, Fraction(6 * 20, 4))
    assert [name for name in less.names if "server3" in name] == []
    for relay in ("gpu", "nic"):
        options = {"relay": relay}
        nic = servers(4, star(2, 99), ring, lost=("server3.nic1",), **options)
        assert algbw(nic) == Fraction(8 * 20, 6)
        link = servers(4, star(2, 99), ring, lost=("server0.nic0>server1.nic0",), **options)
        assert algbw(link) == Fraction(8 * 30, 6)
        slow = servers(4, star(2, 99), ring, slow=(("server2.nic0", 4),), **options)
        assert algbw(slow) == Fraction(8 * 28, 6)
        both = servers(4, star(2, 99), ring, slow=(("server0.nic0-server1.nic0", 4),), **options)
        assert algbw(both) == Fraction(8 * 34, 6)


def test_unequal_rails_and_unequal_cards():
    rings = [direct(parse("BiRing(2, 4)").topology(), width) for width in (10, 25)]
    assert algbw(servers(4, star(2, 99), rings)) == Fraction(8 * 70, 6)
    narrow = servers(4, star(2, 99), rings, card_bandwidth=(None, 30))
    assert algbw(narrow) == Fraction(8 * 50, 6)


def test_networks_after_losses():
    text = "damaged(star(4, 10), ('h3', 's0>h1'), (('h0-s0', 4),))"
    network = parse_network(text)
    assert network.names == ("h0", "h1", "h2", "s0")
    assert network.bandwidth.tolist() == [4, 10, 10, 4, 10]
    assert algbw(parse_network("damaged(mi250(1), 'h0-h1')")) == 160
    # Of two spines one is left: 12 shards enter a leaf over 2.
    assert algbw(parse_network("damaged(fat_tree((4, 4), (1, 2), (4, 2)), 's5')")) == Fraction(8, 3)
    whole = parse_network("servers(3, star(2, 9), BiRing(2, 3))")
    assert damaged(whole, "server1").num_hosts == 4
    assert damaged(whole, "server1.gpu0-server2.gpu0").num_links == whole.num_links - 2


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("servers(3, 450, BiRing(2, 3))", "an int is no network"),
        ("servers(3, star(2, 9), BiRing(2, 4))", "rail 0 has 4 nodes, but there are 3 servers"),
        ("servers(3, star(2, 9), BiRing(2, 4), wiring='across')", "4 nodes for 3 servers"),
        ("servers(3, star(2, 9), BiRing(2, 6), 3, wiring='across')", "3 servers of 3 NICs have 9"),
        ("servers(3, star(2, 9), (BiRing(2, 3),))", "the outer networks are 1: give one, or 2"),
        ("servers(3, star(2, 9), (BiRing(2, 3),), wiring='across')", "across rails there is one"),
        ("servers(3, star(2, 9), BiRing(2, 3), wiring='both')", "'both': it is rails or across"),
        ("servers(3, star(2, 9), BiRing(2, 3), relay='cpu')", "'cpu': it is gpu or nic"),
        ("servers(3, star(2, 9), BiRing(2, 3), attach='cpu')", "attach is 'cpu': it is gpu"),
        ("servers(3, star(3, 9), BiRing(2, 3), 2, attach='shared')", "cannot share 2 NICs evenly"),
        ("servers(3, star(2, 9), UniRing(1, 3), 1, attach='shared')", "2 GPUs share: give"),
        ("servers(3, Complete(2), UniRing(1, 3), attach='switch')", "but there is none"),
        ("servers(3, star(2, 9), UniRing(1, 3), attach=((0,), (2,)))", "NIC 1 hangs on GPUs (2,)"),
        ("servers(3, star(2, 9), UniRing(1, 3), attach=((0,),))", "1 NICs, but a server has 2"),
        ("servers(3, star(2, 9), UniRing(1, 3), card_bandwidth=0)", "it is at least 1"),
        ("servers(3, star(2, 9), UniRing(1, 3), card_bandwidth=(1,))", "1 values of card_bandw"),
        ("servers(3, star(2, 9), UniRing(1, 3), lost='server7')", "'server7' is no node and no"),
        ("servers(3, star(2, 9), UniRing(1, 3), lost='server1.nic0>server0.nic0')", "no link"),
        ("servers(3, star(2, 9), UniRing(1, 3), names=('a', 'b'))", "2 names for 3 servers"),
        ("servers(99999999, star(2, 9), UniRing(1, 3))", "its numbers multiply to 99999999"),
        ("servers(0, star(2, 9), UniRing(1, 3))", "0 hosts"),
        ("damaged(star(2, 9), 'h5')", "'h5' is no node and no link of the network"),
        ("damaged(star(2, 9), ('h0', 'h1'))", "no host is left"),
        ("damaged(star(2, 9), slow=(('h0-s0', 0),))", "h0-s0 has a bandwidth of 0"),
        ("damaged(star(2, 9), slow=(('h0-h1', 3),))", "h0-h1: no link leads there"),
        ("damaged(7, 'h0')", "an int is no network"),
    ],
)
def test_bad_clusters(text, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        parse_network(text)
