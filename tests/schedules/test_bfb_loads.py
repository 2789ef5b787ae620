"""BFB loads: every way to count them agrees with the definition."""

from __future__ import annotations

import importlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import EXPANSION_TEXTS, loaded_topologies
from slow_bfb import slow_bfb_loads
from strategies import (
    built,
    multigraphs,
    permutation_digraph,
    recipes,
    regular_multigraphs,
    without_symmetry,
)

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.topology import Topology, in_neighbours
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first import loads as packed
from ocs_codesign.schedules.breadth_first.loads import (
    bfb_loads,
    largest_ratio,
    loads_by_classes,
    num_chunks_for,
    subset_sums,
)

module = importlib.import_module("ocs_codesign.schedules.breadth_first.loads")

Loads = tuple[Fraction, ...]


def by_classes(topology: Topology) -> Loads:
    return loads_by_classes(topology, in_neighbours(topology))


def by_reach_sets(topology: Topology) -> Loads:
    return packed.loads_of_all(in_neighbours(topology))


def by_receivers(topology: Topology) -> Loads:
    receivers = np.arange(topology.num_nodes)
    return module._loads_of_receivers(in_neighbours(topology), receivers)


WAYS = [bfb_loads, by_classes, by_reach_sets, by_receivers]


@given(multigraphs(max_nodes=8, max_extra=16))
def test_every_way_agrees_with_the_definition(topology):
    expected = slow_bfb_loads(topology)
    assert [way(topology) for way in WAYS] == [expected] * len(WAYS)


@given(regular_multigraphs(max_nodes=10, max_degree=4))
def test_every_way_agrees_on_regular_multigraphs(topology):
    expected = slow_bfb_loads(topology)
    assert [way(topology) for way in WAYS] == [expected] * len(WAYS)


@pytest.mark.parametrize("topology", loaded_topologies(), ids=repr)
def test_every_way_agrees_on_the_samples(topology):
    for one in (topology, topology.transpose()):
        assert [way(one) for way in WAYS] == [slow_bfb_loads(one)] * len(WAYS)


@pytest.mark.parametrize("seed", range(3))
def test_more_in_neighbours_than_the_subset_way_takes(seed):
    dense = DirectedCirculant(13, tuple(range(1, 11))).topology()
    chords = np.random.default_rng(seed).integers(0, 13, (2, 2))
    tail, head = np.append(dense.tail, chords[0]), np.append(dense.head, chords[1])
    topology = Topology(13, tail, head, np.arange(len(tail)) % (seed + 1) + 1)
    assert in_neighbours(topology).node.shape[1] > module.MAX_SUBSET_WIDTH
    assert bfb_loads(topology) == by_reach_sets(topology) == by_receivers(topology)
    assert bfb_loads(topology) == slow_bfb_loads(topology)


@pytest.mark.slow
def test_more_in_neighbours_than_the_mask_way_takes():
    topology = DirectedCirculant(41, tuple(range(2, 36, 2))).topology()
    assert in_neighbours(topology).node.shape[1] == 17 > module._MAX_MASK_WIDTH
    assert bfb_loads(topology) == by_classes(without_symmetry(topology)) == by_reach_sets(topology)


@pytest.mark.parametrize(("nodes", "degree"), [(65, 2), (128, 3), (200, 4), (333, 2)])
def test_blocks_of_sources_do_not_change_the_loads(nodes, degree, monkeypatch):
    topologies = [
        permutation_digraph(nodes, degree, seed, chords) for seed, chords in ((1, 0), (2, 9))
    ]
    whole = [bfb_loads(topology) for topology in topologies]
    assert whole == [by_classes(topology) for topology in topologies]
    monkeypatch.setattr(packed, "_BLOCK_BYTES", 8)
    assert [bfb_loads(topology) for topology in topologies] == whole
    assert [bfb_loads(topology, num_threads=3) for topology in topologies] == whole


def test_threads_share_receivers():
    for nodes in (2, 5, 130):
        topology = permutation_digraph(nodes, 3, 5)
        expected = bfb_loads(topology)
        assert all(bfb_loads(topology, num_threads=n) == expected for n in (2, 3, nodes + 1))


def test_the_loop_as_written_is_the_compiled_one(monkeypatch):
    topologies = [permutation_digraph(nodes, degree, 1) for nodes, degree in ((5, 1), (66, 5))]
    monkeypatch.setattr(packed, "for_work", lambda loop, _: compiled(loop))
    fast = [by_reach_sets(topology) for topology in topologies]
    monkeypatch.setattr(packed, "for_work", lambda loop, _: loop)
    assert [by_reach_sets(topology) for topology in topologies] == fast


@pytest.mark.parametrize("text", EXPANSION_TEXTS)
def test_declared_symmetry_changes_nothing(text):
    topology = built(parse(text))
    expected = bfb_loads(without_symmetry(topology))
    assert bfb_loads(topology) == by_classes(topology) == expected
    assert bfb_loads(topology.transpose()) == bfb_loads(without_symmetry(topology.transpose()))


@given(recipes())
def test_declared_symmetry_changes_nothing_on_any_recipe(recipe):
    topology = built(recipe)
    expected = bfb_loads(without_symmetry(topology))
    assert bfb_loads(topology) == by_classes(topology) == expected
    if topology.symmetry is not None and in_neighbours(topology).node.shape[1] <= 12:
        representatives = topology.symmetry.representatives()
        neighbours = in_neighbours(topology)
        assert module._loads_of_receivers(neighbours, representatives) == expected


@given(st.data())
def test_faster_links_carry_more(data):
    """Parallel links of one speed are one link of the summed speed."""
    topology = data.draw(multigraphs(max_nodes=7))
    merged: dict[tuple[int, int], int] = {}
    links = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    for ends, speed in zip(links, topology.speeds().tolist(), strict=True):
        merged[ends] = merged.get(ends, 0) + speed
    tail, head = zip(*merged, strict=True)
    assert bfb_loads(topology) == bfb_loads(
        Topology(topology.num_nodes, tail, head, list(merged.values()))
    )


@given(multigraphs(max_nodes=7))
def test_all_links_faster_by_a_factor(topology):
    fast = Topology(topology.num_nodes, topology.tail, topology.head, 3 * topology.speeds())
    assert bfb_loads(fast) == tuple(load / 3 for load in bfb_loads(topology))
    loads = sum(bfb_loads(fast))
    assert fast.t_b(loads) == topology.t_b(3 * loads)


def test_steps_are_the_diameter_and_loads_are_positive():
    topology = permutation_digraph(100, 2, 3)
    assert len(bfb_loads(topology)) == topology.diameter()
    assert all(load > 0 for load in bfb_loads(topology))


CUT_OFF = Topology(4, [0, 1, 2, 0], [1, 2, 0, 3])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("topology", [CUT_OFF, CUT_OFF.transpose(), Topology(2, [0], [1])])
def test_not_strongly_connected(way, topology):
    with pytest.raises(ValueError, match=r"not strongly connected: node \d"):
        way(topology)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("links", [0, 1])
def test_one_node(way, links):
    with pytest.raises(ValueError, match="at least two nodes"):
        way(Topology(1, [0] * links, [0] * links))


def test_two_rings_that_never_meet_in_many_blocks(monkeypatch):
    monkeypatch.setattr(packed, "_BLOCK_BYTES", 8)
    ring = np.arange(70)
    tail = np.concatenate([ring, ring + 70])
    head = np.concatenate([np.roll(ring, 1), np.roll(ring, 1) + 70])
    with pytest.raises(ValueError, match="not strongly connected: node 0 is reached by only 70"):
        bfb_loads(Topology(140, tail, head))


def test_symmetric_and_not_strongly_connected():
    with pytest.raises(ValueError, match="not strongly connected"):
        bfb_loads(DirectedCirculant(16, (2, 4)).topology())


def test_too_long_without_symmetry_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(packed, "_BLOCK_BYTES", 8)
    monkeypatch.setattr(packed, "_COUNTER_BYTES", 2**12)
    with pytest.raises(ValueError, match=r"100 nodes and over \d+ steps .* too large to score"):
        bfb_loads(permutation_digraph(100, 1, 0))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=30))
def test_largest_ratio(pairs):
    counts, weights = np.array(pairs).T
    ratios = [Fraction(count, weight) for count, weight in pairs if weight]
    assert largest_ratio(counts, weights) == max([*ratios, Fraction(0)])


def test_largest_ratio_tells_close_fractions_apart():
    big = 2**31
    counts, weights = np.array([big - 2, big - 1, big - 3]), np.array([big - 1, big, big - 2])
    assert largest_ratio(counts, weights) == Fraction(big - 1, big)


def test_subset_sums():
    assert subset_sums(np.array([[1, 2, 4], [5, 0, 1]])).tolist() == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [0, 5, 0, 5, 1, 6, 1, 6],
    ]


def test_num_chunks_is_the_least_common_denominator():
    assert num_chunks_for([Fraction(1), Fraction(3, 4), Fraction(5, 6)]) == 12
    assert num_chunks_for([]) == 1
