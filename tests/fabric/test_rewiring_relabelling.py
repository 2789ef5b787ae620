"""Rewiring with free hosts: known optima, all placements by force, bounds that hold."""

from __future__ import annotations

import numpy as np
import pytest
from rewiring_samples import most_kept_anywhere, near_topology, random_state

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.rewiring.hosts import free_rewiring
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.graphs.text import parse


def both(before, after, model=PortModel.SIMPLEX):
    held = plane_state(planes_of(parse(before).topology(), model))
    target = parse(after).topology()
    return minimum_rewiring(held, target, model), free_rewiring(held, target, model)


def check(free, topology):
    assert sorted(free.host.tolist()) == list(range(topology.num_nodes))
    assert free.rewiring.planes.topology == topology.relabelled(free.host)
    assert free.fewest_changed <= free.num_changed == free.rewiring.num_changed


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))", 0),
        ("DirectedCirculant(6, (1, 2))", "Kautz(2, 1)", 4),
        ("Kautz(2, 1)", "DirectedCirculant(6, (1, 2))", 4),
        ("DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)", 7),
        ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (1, 3))", 0),
    ],
)
def test_known_optima(before, after, changed):
    fixed, free = both(before, after)
    check(free, parse(after).topology())
    assert (free.num_changed, free.is_optimal) == (changed, True)
    assert changed <= fixed.num_changed


@pytest.mark.parametrize("seed", range(6))
def test_all_placements_by_force(seed):
    random = np.random.default_rng(seed)
    nodes = 4 + seed % 2
    held = random_state(2, nodes, random)
    target = near_topology(random_state(2, nodes, random), 0, random)
    free = free_rewiring(held, target)
    check(free, target)
    assert free.is_optimal
    assert target.num_links - free.num_changed == most_kept_anywhere(held.tolist(), target)


@pytest.mark.parametrize("model", [PortModel.TWO_SIDED, PortModel.MATCHING])
def test_two_way_circuits(model):
    random = np.random.default_rng(3)
    topology = parse("Circulant(8, (1, 4))").topology()
    held = plane_state(planes_of(topology.relabelled(random.permutation(8)), model))
    free = free_rewiring(held, topology, model)
    check(free, topology)
    assert (free.num_changed, free.is_optimal) == (0, True)
    fixed, free = both("Circulant(8, (1, 2))", "Circulant(8, (1, 4))", model)
    assert free.is_optimal
    assert 0 < free.num_changed <= fixed.num_changed


def test_larger_ones_have_a_bound_and_repeat():
    fixed, free = both("DirectedCirculant(24, (1, 5))", "GeneralizedKautz(2, 24)")
    check(free, parse("GeneralizedKautz(2, 24)").topology())
    assert 0 < free.fewest_changed <= free.num_changed < fixed.num_changed
    again = both("DirectedCirculant(24, (1, 5))", "GeneralizedKautz(2, 24)")[1]
    assert np.array_equal(again.host, free.host)


def test_closed_walks_bound_every_known_optimum():
    from ocs_codesign.fabric.rewiring.hosts import _fewest_by_walks

    random = np.random.default_rng(9)
    for _ in range(200):
        nodes = int(random.integers(3, 9))
        held = random_state(2, nodes, random)
        target = near_topology(held, int(random.integers(0, 3)), random)
        matrices = [np.zeros((nodes, nodes), dtype=np.int64) for _ in range(2)]
        np.add.at(matrices[0], (target.tail, target.head), 1)
        np.add.at(matrices[1], (np.tile(np.arange(nodes), 2), held.ravel()), 1)
        common = int(np.minimum(*matrices).sum())
        place = random.permutation(nodes)
        moved = matrices[0][np.ix_(place, place)]
        assert _fewest_by_walks(moved, matrices[1], False) <= 2 * nodes - common
