"""Odd sets that prove planes too few: found if and only if there is one."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from embed_samples import undirected

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.models import crowded_odd_set, planes_of
from ocs_codesign.fabric.planes.planes import Proof


def is_crowded(members, one, other, matchings):
    inside = int((np.isin(one, members) & np.isin(other, members)).sum())
    return inside > matchings * (len(members) // 2)


def test_found_exactly_if_there_is_one():
    found = 0
    for seed in range(120):
        random = np.random.default_rng(seed)
        nodes = int(random.integers(3, 10))
        links = int(random.integers(2, 22))
        one = random.integers(nodes, size=links)
        other = (one + random.integers(1, nodes, size=links)) % nodes
        degree = int(np.bincount(np.concatenate([one, other])).max())
        for matchings in (degree, degree + 1):
            members = crowded_odd_set(Topology(nodes, one, other), matchings)
            every = [
                odd
                for size in range(3, nodes + 1, 2)
                for odd in combinations(range(nodes), size)
                if is_crowded(odd, one, other, matchings)
            ]
            assert (members is None) == (not every)
            if members is not None:
                assert tuple(members.tolist()) in every
                found += 1
    assert found > 10


def cubic_half(nodes, seed, first):
    """A random cubic multigraph but for its first node, which has degree 2."""
    random = np.random.default_rng(seed)
    ends = np.repeat(np.arange(nodes), 3)[1:]
    while True:
        pairs = random.permutation(ends).reshape(-1, 2)
        if (pairs[:, 0] != pairs[:, 1]).all():
            return [(int(a) + first, int(b) + first) for a, b in pairs]


@pytest.mark.parametrize("half", [5, 33, 129])
def test_a_cubic_graph_with_a_bridge_is_of_class_two(half):
    edges = cubic_half(half, 1, 0) + cubic_half(half, 2, half) + [(0, half)]
    planes = planes_of(undirected(2 * half, edges), PortModel.MATCHING)
    assert planes.at_least.proof is Proof.ODD_SET
    assert (planes.num_planes, planes.is_minimal) == (4, True)
