"""Cayley digraphs: one node a group element, one link g -> g * s a generator s.

Left multiplication by the group is an automorphism, so one receiver tells the cost of all. Parallel
links (a generator listed twice) and self-loops (the identity) are kept as ports.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.groups import Group
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def cayley_shape(group: Any, generators: Any) -> Shape:
    """Group order and number of generators; ValueError unless they are elements of a group."""
    if not isinstance(group, Group):
        raise ValueError(f"{group!r} is not a group")
    if not isinstance(generators, tuple) or not generators:
        raise ValueError(f"generators is {generators!r}: it must be a non-empty tuple of elements")
    for generator in generators:
        group.index(generator)
    return Shape(group.order, len(generators))


def cayley(group: Group, generators: tuple[Any, ...]) -> Topology:
    """The Cayley digraph of a group; the link by the i-th generator out of node v is v * d + i.

    >>> from ocs_codesign.groups import Cyclic
    >>> cayley(Cyclic(5), (1, 2)).head.tolist()
    [1, 2, 2, 3, 3, 4, 4, 0, 0, 1]
    """
    cayley_shape(group, generators).check_buildable()
    nodes = np.arange(group.order, dtype=np.int64)
    heads = [group.right_multiply(nodes, group.index(generator)) for generator in generators]
    return transitive(heads)


def abelian(moduli: Sequence[int], steps: Sequence[Sequence[int]]) -> Topology:
    """The Cayley digraph of Z_m1 x Z_m2 x ...; nodes count with the last coordinate fastest."""
    shape = Shape(prod(moduli), len(steps))
    shape.check_buildable()
    coordinates = np.unravel_index(np.arange(shape.num_nodes), tuple(moduli))
    heads = []
    for step in steps:
        moved = [
            (coordinate + shift) % modulus
            for coordinate, shift, modulus in zip(coordinates, step, moduli, strict=True)
        ]
        heads.append(np.ravel_multi_index(tuple(moved), tuple(moduli)))
    return transitive(heads)


def transitive(heads: list[NDArray[np.int64]]) -> Topology:
    """Topology whose i-th link out of node v leads to heads[i][v], a regular group action."""
    nodes, degree = len(heads[0]), len(heads)
    return Topology(
        nodes,
        np.repeat(np.arange(nodes, dtype=np.int32), degree),
        np.stack(heads, axis=1).ravel().astype(np.int32),
        symmetry=Symmetry(
            np.zeros(nodes, dtype=np.int32), np.tile(np.arange(degree, dtype=np.int32), nodes)
        ),
    )


def axis_steps(num_axes: int, axis: int, shifts: Sequence[int]) -> list[tuple[int, ...]]:
    """Vectors that are zero but for one axis, one a shift."""
    return [tuple(shift if i == axis else 0 for i in range(num_axes)) for shift in shifts]
