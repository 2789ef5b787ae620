"""What leads through switches is accepted if some way of telling alike chunks apart explains it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.verification import sends as switches
from ocs_codesign.verification.schedules import verify

HOSTS, SWITCHES = 4, 6


def scheduled(walks, name):
    """A schedule whose one step sends a chunk over walks, links as many as it takes, in any order.

    A reduce's walks are those of a broadcast turned round.
    """
    hops = [hop for walk in walks for hop in pairwise(walk)]
    order = np.random.default_rng(len(hops)).permutation(len(hops))
    ends = np.array(hops)[order].T
    tail, head = ends if name == "broadcast" else ends[::-1]
    rows = len(hops)
    return Schedule(
        Topology(HOSTS + SWITCHES, tail, head),
        Collective(name, root=0),
        1,
        *([0] * rows, [0] * rows, [1] * rows, np.arange(rows), [1] * rows),
        num_hosts=HOSTS,
    )


def random_walks(seed):
    """A walk of the root to every other host, over switches that it and others may pass twice."""
    rng = np.random.default_rng(seed)
    for host in range(1, HOSTS):
        inner = rng.integers(HOSTS, HOSTS + SWITCHES, int(rng.integers(2, 9)))
        inner = inner[np.flatnonzero(np.diff(inner, prepend=-1))]
        yield [0, *inner.tolist(), host]


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
@pytest.mark.parametrize("seed", range(40))
def test_walks_that_cross_are_told_apart(seed, name):
    verdict = verify(scheduled(list(random_walks(seed)), name))
    assert verdict.ok, verdict.witness


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_two_that_pass_each_other_are_no_circle(name):
    """Switches 4 and 5 get the chunk from a host each and send it to the other, and on."""
    walks = [[0, 4, 5, 1], [0, 5, 4, 2], [0, 6, 3]]
    verdict = verify(scheduled(walks, name))
    assert verdict.ok, verdict.witness


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
@pytest.mark.parametrize("seed", range(10))
def test_a_circle_of_its_own_comes_from_no_host(seed, name):
    walks = list(random_walks(seed))
    used = {node for walk in walks for node in walk}
    alone = [node for node in range(HOSTS, HOSTS + SWITCHES) if node not in used]
    if len(alone) < 2:
        walks = [[node if node < HOSTS + 4 else HOSTS for node in walk] for walk in walks]
        walks = [
            [node for at, node in enumerate(walk) if not at or walk[at - 1] != node]
            for walk in walks
        ]
        alone = [HOSTS + 4, HOSTS + 5]
    witness = verify(scheduled([*walks, [*alone, alone[0]]], name)).witness
    assert witness.rule == switches.IN_A_CIRCLE
