"""Transpose and Bidirected: all links reversed, and a graph united with its transpose."""

from __future__ import annotations

from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from ocs_codesign.expansions.profile import Profile


def transpose_shape(parts: tuple[Shape]) -> Shape:
    """Unchanged."""
    return parts[0]


def transpose(parts: tuple[Topology]) -> Topology:
    """Every link reversed, link ids kept."""
    return parts[0].transpose()


def transpose_loads(forward: tuple[Profile], backward: tuple[Profile]) -> tuple[Fraction, ...]:
    """The loads of the transpose's allgather."""
    del forward
    return backward[0].loads


def transpose_schedule(forward: tuple[Schedule], backward: tuple[Schedule]) -> Schedule:
    """The transpose's allgather."""
    del forward
    return backward[0]


def bidirected_shape(parts: tuple[Shape]) -> Shape:
    """N stays, d doubles."""
    return Shape(parts[0].num_nodes, 2 * parts[0].degree)


def bidirected(parts: tuple[Topology]) -> Topology:
    """The links of G, then those of its transpose.

    >>> bidirected((Topology(3, [0, 1, 2], [1, 2, 0]),)).is_undirected()
    True
    """
    (base,) = parts
    symmetry = None
    if base.symmetry is not None:
        orbit = base.symmetry.link_orbit
        twin = orbit + np.int32(int(orbit.max(initial=-1)) + 1)
        symmetry = Symmetry(base.symmetry.node_orbit, np.concatenate([orbit, twin]))
    return Topology(
        base.num_nodes,
        np.concatenate([base.tail, base.head]),
        np.concatenate([base.head, base.tail]),
        symmetry=symmetry,
    )


def bidirected_loads(forward: tuple[Profile], backward: tuple[Profile]) -> tuple[Fraction, ...]:
    """Half of the data on each copy: half the larger of the two loads of a step."""
    pairs = zip_longest(forward[0].loads, backward[0].loads, fillvalue=Fraction(0))
    return tuple(max(pair) / 2 for pair in pairs)


def bidirected_schedule(forward: tuple[Schedule], backward: tuple[Schedule]) -> Schedule:
    """The first half of every shard on G, the second on its transpose."""
    chunks = int(np.lcm(forward[0].num_chunks, backward[0].num_chunks))
    halves = (forward[0].with_chunks(chunks), backward[0].with_chunks(chunks))
    topology = bidirected((halves[0].topology,))
    links = halves[0].topology.num_links
    pairs = zip(halves[0].columns(), halves[1].columns(), strict=True)
    root, lo, hi, link, step = (np.concatenate(pair) for pair in pairs)
    second = slice(halves[0].num_sends, None)
    lo[second] += chunks
    hi[second] += chunks
    link[second] += links
    return Schedule(topology, halves[0].collective, 2 * chunks, root, lo, hi, link, step)
