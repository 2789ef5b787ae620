"""Circuits that change between topologies, and the dead times that follow."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.text import parse
from ocs_codesign.reconfigure import (
    ReconfigurationCost,
    SwitchProblem,
    changed_circuits,
    first_costs,
    switch_plan,
    switching_costs,
)
from ocs_codesign.topology import Topology


def ring(nodes):
    return DirectedCirculant(nodes, (1,)).topology()


def slow_count(before, after, planes=None):
    """Circuits of one that the other does not hold, plane by plane, by counting."""
    before_planes, after_planes = planes or ([0] * before.num_links, [0] * after.num_links)
    held = Counter(zip(before_planes, before.tail.tolist(), before.head.tolist(), strict=True))
    wanted = Counter(zip(after_planes, after.tail.tolist(), after.head.tolist(), strict=True))
    missing = wanted - held
    return [
        sum(count for (plane, _, _), count in missing.items() if plane == at)
        for at in range(max(*before_planes, *after_planes) + 1)
    ]


def random_topology(rng, nodes, links):
    return Topology(nodes, rng.integers(0, nodes, links), rng.integers(0, nodes, links))


@pytest.mark.parametrize("seed", range(15))
def test_counts_multisets(seed):
    rng = np.random.default_rng(seed)
    topologies = [random_topology(rng, 5, int(rng.integers(3, 25))) for _ in range(4)]
    changed = changed_circuits(topologies)
    assert changed.shape == (1, 4, 4)
    for a, before in enumerate(topologies):
        for b, after in enumerate(topologies):
            assert changed[0, a, b] == slow_count(before, after)[0]


@pytest.mark.parametrize("seed", range(10))
def test_counts_by_plane(seed):
    rng = np.random.default_rng(seed)
    topologies = [random_topology(rng, 4, 14) for _ in range(3)]
    planes = [np.append(rng.integers(0, 3, 13), 2) for _ in range(3)]
    changed = changed_circuits(topologies, planes)
    assert changed.shape == (3, 3, 3)
    for a in range(3):
        for b in range(3):
            pair = planes[a].tolist(), planes[b].tolist()
            assert changed[:, a, b].tolist() == slow_count(topologies[a], topologies[b], pair)
    cost = ReconfigurationCost(7, 2)
    side_by_side = switching_costs(topologies, cost, planes)
    serial = switching_costs(topologies, ReconfigurationCost(7, 2, overlap=False), planes)
    assert side_by_side[0, 1] == 7 + 2 * changed[:, 0, 1].max()
    assert serial[0, 1] == 7 + 2 * changed[:, 0, 1].sum()
    assert first_costs(topologies, cost, planes)[0] == 7 + 2 * np.bincount(planes[0]).max()


def test_it_is_a_metric_among_regular_topologies():
    texts = [
        "GeneralizedKautz(2, 8)",
        "DeBruijn(2, 3)",
        "DirectedCirculant(8, (1, 3))",
        "BiRing(2, 8)",
        "UniRing(2, 8)",
        "Transpose(GeneralizedKautz(2, 8))",
    ]
    changed = changed_circuits([parse(text).topology() for text in texts])[0]
    assert (changed == changed.T).all()
    assert (np.diag(changed) == 0).all()
    assert (changed[:, None, :] <= changed[:, :, None] + changed.T[None, :, :]).all()
    assert 0 < changed[0, 1] <= 16


def test_dead_times():
    rings = [DirectedCirculant(8, offsets).topology() for offsets in ((1, 3), (3, 1), (1, 2))]
    cost = ReconfigurationCost(Fraction(1, 100), Fraction(1, 1000))
    times = switching_costs(rings, cost)
    assert times[0, 1] == 0  # the same circuits in another order
    assert times[0, 2] == times[2, 1] == Fraction(18, 1000)
    assert first_costs(rings, cost).tolist() == [Fraction(26, 1000)] * 3
    warm = ReconfigurationCost(Fraction(1, 100), cold_start=False)
    assert first_costs(rings, warm).tolist() == [0, 0, 0]


def test_plans_take_them_as_they_are():
    rings = [DirectedCirculant(8, offsets).topology() for offsets in ((1, 3), (1, 2), (5, 7))]
    cost = ReconfigurationCost(1, 1)
    problem = SwitchProblem(
        [(0, 50, 50), (50, 50, 0)], switching_costs(rings, cost), first=first_costs(rings, cost)
    )
    plan = switch_plan(problem)
    assert plan.choice.tolist() == [0, 2]
    assert plan.switching == 17 + 17


def test_two_hundred_topologies_of_many_links():
    rng = np.random.default_rng(1)
    topologies = []
    for _ in range(200):
        heads = np.concatenate([rng.permutation(256) for _ in range(4)])
        topologies.append(Topology(256, np.tile(np.arange(256), 4), heads))
    changed = changed_circuits(topologies)[0]
    assert (np.diag(changed) == 0).all()
    assert changed[3, 77] == slow_count(topologies[3], topologies[77])[0]


@pytest.mark.parametrize(
    ("topologies", "planes", "rule"),
    [
        ([], None, "no topology to choose from"),
        (
            [DirectedCirculant(8, (1,)).topology(), DirectedCirculant(9, (1,)).topology()],
            None,
            "topology 1 has 9 nodes",
        ),
        ([ring(3)], [[0, 0]], r"link_planes\[0\] must be 3 integers"),
        ([ring(3)], [[0, 0, -1]], "of at least 0"),
        ([ring(3)], [[0] * 3] * 2, "planes of 2 topologies for 1"),
    ],
)
def test_refused(topologies, planes, rule):
    with pytest.raises(ValueError, match=rule):
        changed_circuits(topologies, planes)
