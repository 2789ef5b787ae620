"""Optimal rates of forests: known answers, exact programs for small networks, and properties."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from forest_samples import KNOWN, every_known, known_network, networks
from hypothesis import given, settings
from scipy.optimize import linprog

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.packing import exactly, few_trees
from ocs_codesign.schedules.forest.pipeline import allreduce_optimum

ALLREDUCES = sorted(name for name, facts in KNOWN.items() if "allreduce_lp" in facts)


@every_known
def test_known_rates(name):
    network, facts = known_network(name), KNOWN[name]
    for collective in (Collective.ALLGATHER, Collective.REDUCE_SCATTER):
        key = collective.name.replace("-", "_")
        found, known = optimum(network, collective), facts[key]
        assert found.cut.inv_rate == Fraction(known["inv_rate"])
        assert found.is_attained
        if "unicast" in facts:
            assert found.rate == Fraction(facts["unicast"][f"{key}_rate"])
        else:
            assert found.algbw == Fraction(known["algbw"])
            assert found.trees[1] == int(known["k"])
        leaving = found.leaving()  # of a cut that proves the rate, where one does
        crossed = 0 if found.bottleneck is None else found.cut.capacity
        assert int(network.bandwidth[leaving].sum()) == crossed


@pytest.mark.parametrize("name", [name for name in ALLREDUCES if KNOWN[name]["num_ranks"] <= 16])
def test_known_allreduces(name):
    facts = KNOWN[name]["allreduce_lp"]
    network = known_network(name)
    halves = [optimum(network, half).inv_rate for half in Collective.ALLREDUCE.halves()]
    rate = allreduce_optimum(network)
    assert rate == Fraction(facts["algbw"])
    gain = rate / (network.num_hosts / sum(halves))
    assert gain == Fraction(facts["gain_over_rs_then_ag"]) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ALLREDUCES)
def test_known_allreduces_in_switches(name):
    facts = KNOWN[name]["allreduce_lp"]
    if KNOWN[name]["num_ranks"] > 16:
        assert allreduce_optimum(known_network(name)) == Fraction(facts["algbw"])
    if "algbw_all_switches_capable" in facts:
        found = allreduce_optimum(known_network(name, able=True))
        assert found == Fraction(facts["algbw_all_switches_capable"])


@every_known
def test_known_roots_and_few_trees(name):
    network, facts = known_network(name), KNOWN[name]
    roots = facts.get("single_root", {}).get("broadcast_cut_rate_by_root", [])
    for root, rate in list(enumerate(roots))[:8]:
        assert optimum(network, Collective("broadcast", root=root)).cut.inv_rate == 1 / Fraction(
            rate
        )
    if roots:
        reduced = optimum(network, Collective("reduce", root=0)).cut
        assert reduced.inv_rate == 1 / Fraction(facts["single_root"]["reduce_to_0_cut_rate"])
    found = optimum(network, Collective.ALLGATHER)
    for number, few in facts.get("fixed_k", {}).items():
        assert exactly(found, int(number)).scale == Fraction(few["U"])
        best = few_trees(found, int(number))
        assert best.inv_rate <= Fraction(few["U"]) / int(number)
        over = best.inv_rate - found.inv_rate
        assert over <= Fraction(1, best.num_trees * int(network.bandwidth.min()))


def by_every_cut(network):
    """The best rate of an allgather with all cuts written out, in floats."""
    pairs = {}
    for tail, head, capacity in zip(
        network.tail.tolist(), network.head.tolist(), network.bandwidth.tolist(), strict=True
    ):
        if tail != head:
            pairs[tail, head] = pairs.get((tail, head), 0) + capacity
    links, hosts, nodes = list(pairs), network.num_hosts, network.num_nodes
    most, balance = [], []
    for size in range(1, nodes):
        for inside in map(set, combinations(range(nodes), size)):
            ranks = sum(node < hosts for node in inside)
            if 0 < ranks < hosts:
                leaves = [-float(a in inside and b not in inside) for a, b in links]
                most.append([float(ranks), *leaves])
    for switch in range(hosts, nodes):
        row = [0.0, *(float(b == switch) - float(a == switch) for a, b in links)]
        balance += [row]
    bounds = [(0, None), *((0, capacity) for capacity in pairs.values())]
    equal = (np.array(balance), np.zeros(len(balance))) if balance else (None, None)
    found = linprog(
        [-1.0] + [0.0] * len(links), np.array(most), np.zeros(len(most)), *equal, bounds
    )
    return -found.fun


@settings(max_examples=100, deadline=None)
@given(network=networks())
def test_rates_are_those_of_all_cuts(network):
    """Balanced, unbalanced and unreachable networks, switches and all."""
    least = by_every_cut(network)
    if least < 1e-9:
        with pytest.raises(ValueError, match="cannot be reached"):
            optimum(network, Collective.ALLGATHER)
        return
    found = optimum(network, Collective.ALLGATHER)
    assert float(found.rate) == pytest.approx(least, rel=1e-7)
    scale, trees = found.trees
    assert trees * found.inv_rate == scale
    more = Network(
        network.num_hosts,
        network.num_nodes,
        [*network.tail, 0],
        [*network.head, network.num_hosts - 1],
        [*network.bandwidth, 3],
    )
    assert optimum(more, Collective.ALLGATHER).rate >= found.rate
    try:
        halves = [optimum(network, half).inv_rate for half in Collective.ALLREDUCE.halves()]
    except ValueError:
        return
    assert allreduce_optimum(network) >= network.num_hosts / sum(halves)


def test_groups_share_the_links():
    """Two groups on a star are alone on their links; interleaved on a ring they share them."""
    pairs = Collective("allgather", groups=[(0, 1), (2, 3)])
    found = optimum(star(4, 10), pairs)
    assert (found.rate, found.algbw, found.cut) == (10, 20, None)
    ring = Network(4, 4, [0, 1, 2, 3], [1, 2, 3, 0], [6, 6, 6, 6])
    assert optimum(ring, Collective("allgather", groups=[(0, 2), (1, 3)])).rate == 3
    one = optimum(ring, Collective("allgather", groups=[(0, 2)]))
    assert (one.rate, one.cut.inv_rate) == (6, Fraction(1, 6))


def test_copying_switches_raise_the_rate():
    """Up 1, down 3: 1/3 where the switch forwards, 1 where it copies."""
    links = ([0, 1, 2, 3, 4, 4, 4, 4], [4, 4, 4, 4, 0, 1, 2, 3], [1, 1, 1, 1, 3, 3, 3, 3])
    plain, able = Network(4, 5, *links), Network(4, 5, *links, multicast=[4])
    assert optimum(plain, Collective.ALLGATHER).rate == Fraction(1, 3)
    found = optimum(able, Collective.ALLGATHER)
    assert (found.rate, found.is_attained) == (1, True)


def test_what_has_no_trees_is_refused():
    network = boxes(2, 2, 30, 5)
    for collective, rule in (
        (Collective.ALLTOALL, "moves items"),
        (Collective.ALLREDUCE, "two demands"),
        (Collective("allgather", groups=[(0,)]), "nothing is to be sent"),
    ):
        with pytest.raises(ValueError, match=rule):
            optimum(network, collective)
    with pytest.raises(ValueError, match="there must be one"):
        few_trees(optimum(network, Collective.ALLGATHER), 0)
