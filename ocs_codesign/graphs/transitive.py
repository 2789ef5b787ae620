"""Topologies on which a group acts regularly: one orbit of nodes, one of links a port.

One receiver then tells the cost of all.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.graphs.shape import Shape
from ocs_codesign.topology import Symmetry, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


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


def abelian(moduli: Sequence[int], steps: Sequence[Sequence[int]]) -> Topology:
    """The Cayley digraph of Z_m1 x Z_m2 x ...; nodes count with the last coordinate fastest.

    >>> abelian((2, 2), [(0, 1), (1, 0)]).head.tolist()
    [1, 2, 0, 3, 3, 0, 2, 1]
    """
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


def axis_steps(num_axes: int, axis: int, shifts: Sequence[int]) -> list[tuple[int, ...]]:
    """Vectors that are zero but for one axis, one a shift."""
    return [tuple(shift if i == axis else 0 for i in range(num_axes)) for shift in shifts]
