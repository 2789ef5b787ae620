"""All-to-all over configurations in turn: known answers, an oracle over paths, proofs, refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ocs_codesign.circuits import phases as alltoall
from ocs_codesign.circuits.phases import (
    fewest_hops,
    phase_network,
    phase_price_bound,
    phased_alltoall,
    sequence_bound,
    tree_bound,
)
from ocs_codesign.core.lp import Options
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.groups.cyclic import Cyclic, DirectProduct
from ocs_codesign.graphs.groups.semidirect import Dicyclic, Dihedral, Semidirect
from ocs_codesign.schedules.paths.throughput import throughput

KNOWN = {
    (8, ((1,),)): 28,
    (8, ((1,), (3,))): 14,
    (8, ((1,), (2,), (5,))): 11,
    (8, ((1,), (2,), (3,), (4,))): 10,
    (8, ((1, 3),)): 7,
    (8, ((1, 2), (3, 4))): 5,
    (8, ((1, 2), (3, 4), (5, 6))): 4,
    (8, ((1, 2), (3, 4), (5, 6), (7, 7))): Fraction(7, 2),
    (9, ((1, 3),)): 9,
    (9, ((1, 2), (3, 4))): 6,
    (9, ((1, 2), (3, 4), (5, 6))): 5,
    (9, ((1, 2), (3, 4), (5, 6), (7, 8))): 4,
    (8, tuple((offset,) for offset in range(1, 8))): 7,
}


GROUPS = [
    *(Cyclic(9), Dihedral(4), Dicyclic(2), Semidirect(7, 3, 2)),
    DirectProduct(Cyclic(2), Cyclic(4)),
]


def plain(topology):
    """The same graph with no symmetry declared."""
    return Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)


def circulants(nodes, sets):
    return [DirectedCirculant(nodes, offsets).topology() for offsets in sets]


def random_sequence(rng, nodes, degree, many):
    """Topologies of random permutations, each with the ring so that everything is reached."""
    made = []
    for _ in range(many):
        heads = [rng.permutation(nodes) for _ in range(degree - 1)]
        heads.append((np.arange(nodes) + 1) % nodes)
        made.append(Topology(nodes, np.tile(np.arange(nodes), degree), np.concatenate(heads)))
    return made


def simple_walks(topologies, source):
    """All walks from a source that visit no node twice and use the phases in order."""
    links = [
        (phase, link, int(topology.tail[link]), int(topology.head[link]))
        for phase, topology in enumerate(topologies)
        for link in range(topology.num_links)
    ]

    def extend(walk, at, seen):
        yield at, tuple(walk)
        for phase, link, tail, head in links:
            if tail == at and head not in seen and (not walk or walk[-1][0] <= phase):
                yield from extend([*walk, (phase, link)], head, seen | {head})

    return extend([], source, {source})


def time_over_walks(topologies):
    """The oracle: one variable a walk of every pair, one duration a phase."""
    nodes, phases_ = topologies[0].num_nodes, len(topologies)
    walks = [
        (source, end, walk)
        for source in range(nodes)
        for end, walk in simple_walks(topologies, source)
        if end != source
    ]
    keys = [(p, e) for p, one in enumerate(topologies) for e in range(one.num_links)]
    row = {key: number for number, key in enumerate(keys)}
    used = np.zeros((len(keys), len(walks) + phases_))
    for column, (_, _, walk) in enumerate(walks):
        for key in walk:
            used[row[key], column] += 1
    for (phase, link), number in row.items():
        used[number, len(walks) + phase] = -int(topologies[phase].speeds()[link])
    pairs = sorted({(source, end) for source, end, _ in walks})
    served = np.zeros((len(pairs), len(walks) + phases_))
    for column, (source, end, _) in enumerate(walks):
        served[pairs.index((source, end)), column] = 1
    cost = np.concatenate([np.zeros(len(walks)), np.ones(phases_)])
    found = linprog(cost, used, np.zeros(len(keys)), served, np.ones(len(pairs)))
    assert found.status == 0
    fastest = max(one.node_speed() for one in topologies)
    return found.fun * fastest / nodes


@pytest.mark.parametrize("key", KNOWN)
def test_known_answers_exactly(key):
    nodes, sets = key
    found = phased_alltoall(circulants(nodes, sets))
    assert found.time_in_pieces == KNOWN[key]
    assert found.time == found.bound == sum(found.durations)
    assert found.method == "exact vertex"
    assert sequence_bound(nodes, len(sets[0]), len(sets)) <= found.time


@settings(max_examples=25)
@given(st.sampled_from(GROUPS), st.integers(0, 2**32 - 1))
def test_one_source_is_enough_for_cayley_sequences(group, seed):
    rng = np.random.default_rng(seed)
    sets = rng.integers(1, group.order, size=(2, 2))
    topologies = [
        Cayley(group, tuple(group.element(int(s)) for s in one)).topology() for one in sets
    ]
    try:
        found = phased_alltoall(topologies)
    except ValueError:
        with pytest.raises(ValueError, match="not connected"):
            phased_alltoall([plain(one) for one in topologies])
        return
    assert found.network.union.num_sources == 1
    assert found.time == found.bound
    assert found.time == phased_alltoall([plain(one) for one in topologies]).time


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(3, 5), st.integers(1, 2), st.integers(1, 2))
def test_the_program_is_as_good_as_all_walks(seed, nodes, degree, many):
    rng = np.random.default_rng(seed)
    topologies = random_sequence(rng, nodes, degree, many)
    found = phased_alltoall(topologies)
    assert found.is_optimal
    assert float(found.time) == pytest.approx(time_over_walks(topologies), rel=1e-7)


def test_link_speeds_count():
    fast = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], [2, 2, 2, 1, 1, 1])
    slow = Topology(3, [0, 1, 2], [1, 2, 0])
    found = phased_alltoall([slow, fast])
    assert found.time == found.bound
    assert float(found.time) == pytest.approx(time_over_walks([slow, fast]))


def test_one_configuration_is_the_static_all_to_all():
    for topology in (GeneralizedKautz(4, 9).topology(), DirectedCirculant(12, (1, 5)).topology()):
        found = phased_alltoall([topology])
        assert found.time == throughput(topology).time
        assert found.cost.steps == topology.diameter()
        assert found.durations == (found.time,)


def test_holding_the_same_topology_twice_is_holding_it_once():
    ring = DirectedCirculant(10, (1, 3)).topology()
    assert phased_alltoall([ring, ring]).time == phased_alltoall([ring]).time


def test_prices_prove_no_more_than_the_time():
    network = phase_network(circulants(12, ((1, 4), (3, 5))))
    best = phased_alltoall(network.topologies)
    rng = np.random.default_rng(7)
    for _ in range(50):
        prices = rng.integers(0, 9, network.union.num_orbits)
        if prices.any():
            assert phase_price_bound(network, prices) <= best.time
    assert phase_price_bound(network, best.prices) == best.time == best.bound


@pytest.mark.parametrize("prices", [[0, 0], [1], [-1, 2]])
def test_prices_that_prove_nothing_are_refused(prices):
    network = phase_network(circulants(8, ((1,), (3,))))
    with pytest.raises(ValueError, match="prices are non-negative integers"):
        phase_price_bound(network, np.array(prices))


def test_large_programs_are_certified(monkeypatch):
    topologies = random_sequence(np.random.default_rng(3), 12, 2, 2)
    exact = phased_alltoall(topologies)
    monkeypatch.setattr(alltoall, "MAX_VERTEX_COLUMNS", 0)
    found = phased_alltoall(topologies, Options(tolerance=1e-7))
    assert found.method == "first-order"
    assert found.bound <= exact.time <= found.time
    assert found.gap < Fraction(1, 1000)
    assert sum(found.durations) == found.time


def test_too_large_programs_are_refused(monkeypatch):
    monkeypatch.setattr(alltoall, "MAX_COLUMNS", 10)
    with pytest.raises(ValueError, match="a program of 17 columns: at most 10 are supported"):
        phased_alltoall(circulants(8, ((1, 3),)))


def test_hops_of_phases():
    assert fewest_hops(phase_network(circulants(8, ((1,),)))) == (7,)
    assert fewest_hops(phase_network(circulants(9, ((1, 2), (3, 6))))) == (1, 1)


@pytest.mark.parametrize("nodes", [2, 5, 8, 9, 31, 64, 100])
@pytest.mark.parametrize("degree", [1, 2, 4])
def test_bounds_of_sequences(nodes, degree):
    bounds = [sequence_bound(nodes, degree, many) for many in range(1, 8)]
    assert bounds == sorted(bounds, reverse=True)
    for many, least in enumerate(bounds, 1):
        assert Fraction(nodes - 1, nodes) <= tree_bound(nodes, degree, many) <= least


def test_refusals():
    ring = DirectedCirculant(8, (1,)).topology()
    with pytest.raises(ValueError, match="a sequence of 0 configurations"):
        phased_alltoall([])
    with pytest.raises(ValueError, match="configuration 1 has 9 nodes, but the first one 8"):
        phased_alltoall([ring, DirectedCirculant(9, (1,)).topology()])
    with pytest.raises(ValueError, match="not connected: node 1 is out of node 0's reach"):
        phased_alltoall([DirectedCirculant(8, (2,)).topology()])
    with pytest.raises(ValueError, match="even over the configurations in their order"):
        phased_alltoall(circulants(8, ((2,), (4,))))
    with pytest.raises(ValueError, match="configuration 1 has no links"):
        phased_alltoall([ring, Topology(8, [], [])])
    with pytest.raises(ValueError, match="between 2 or more"):
        phased_alltoall([Topology(1, [0], [0])])
    for function in (sequence_bound, tree_bound):
        with pytest.raises(ValueError, match="0 configurations: there must be at least 1"):
            function(8, 2, 0)


def test_two_reflections_reach_only_what_their_order_allows():
    """Together they generate the group, but a product in this order is one of four elements."""
    group = Dihedral(3)
    with pytest.raises(ValueError, match="in their order"):
        phased_alltoall([Cayley(group, ((0, 1),)).topology(), Cayley(group, ((1, 1),)).topology()])
