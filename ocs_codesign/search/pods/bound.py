"""What no choice of permutations is below: shortest paths in the tree of cubes that covers all.

Whatever the circuits, a slice is covered by a tree in which every optical port leads to a cube of
its own. A shortest path between chips lifts to it, and the k chips at a position lie below
different chips of the cover; so they are at least as far as the k nearest chips of that position
there. All links together carry a unit of load for every hop: U is at least the sum of hops over
links. Proven for all permutations of k cubes, with some switches down too.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.topology import all_distances
from ocs_codesign.graphs.families.pods import cube_of, graph_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from ocs_codesign.graphs.families.pods import Numbers


class PodBound(NamedTuple):
    """The least U of an all-to-all, and the least diameter, of any permutations."""

    least: Fraction
    diameter: int


def pod_bound(shape: tuple[int, ...], cubes: int, down: Collection[int] = ()) -> PodBound:
    """The bound for so many cubes, switches that are ``down`` left out.

    >>> pod_bound((4, 4, 4), 2)
    PodBound(least=Fraction(1681, 24), diameter=6)
    """
    cube = cube_of(shape)
    inside = all_distances(graph_of(cube.inner)).astype(np.int64)
    up = np.setdiff1d(np.arange(cube.num_switches), np.array(sorted(down), dtype=np.int64))
    if cubes > 1 and not len(up):
        raise ValueError("not connected: no switch is left between cubes")
    leaves = np.concatenate([cube.plus[up], cube.minus[up]])
    enters = np.concatenate([cube.minus[up], cube.plus[up]])
    ports, hops = np.arange(len(leaves)), np.arange(inside.max() + 2)[:, None, None]
    # From the entry by one port to that by another, but not back through it.
    onwards = (inside[enters][:, leaves] + 1 == hops).astype(np.int64)
    onwards[:, ports, np.roll(ports, len(up))] = 0
    first = (inside[:, leaves] + 1 == hops).astype(np.int64)
    own, reached = (inside == hops).astype(np.int64), (inside[enters] == hops).astype(np.int64)
    # How many cubes are entered by every port, from every chip (rows), by hops; enough are counted.
    entered: list[Numbers] = []
    missing, total, far = np.full_like(inside, cubes), 0, 0
    while missing.any():
        now = first[far].copy() if far < len(first) else np.zeros_like(first[0])
        here = own[far].copy() if far < len(own) else np.zeros_like(own[0])
        for ago, ports_then in enumerate(reversed(entered[1 - len(hops) :]), 1):
            now += ports_then @ onwards[ago]
        entered.append(np.minimum(now, cubes))
        for ago, ports_then in enumerate(reversed(entered[-len(hops) :])):
            here += ports_then @ reached[ago]
        taken = np.minimum(here, missing)
        missing, total, far = missing - taken, total + far * int(taken.sum()), far + 1
    return PodBound(Fraction(total, cube.inner.size - 2 * (cube.num_switches - len(up))), far - 1)
