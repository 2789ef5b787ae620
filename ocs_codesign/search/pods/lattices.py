"""All lattices of cubes: every slice whose chips are all alike, up to turns."""

from __future__ import annotations

from itertools import permutations, product
from math import prod
from typing import TYPE_CHECKING

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.graphs.families.pods import PodLattice, hermite

if TYPE_CHECKING:
    from collections.abc import Iterator

    Rows = tuple[tuple[int, ...], ...]


def lattices(shape: tuple[int, ...], cubes: int) -> list[PodLattice]:
    """A lattice of every class under turns of cubes, those of short rows first.

    >>> [len(lattices((4, 4, 4), cubes)) for cubes in (2, 3, 4, 8, 16)]
    [3, 3, 9, 24, 66]
    """
    axes = [
        order
        for order in permutations(range(len(shape)))
        if all(shape[i] == shape[j] for i, j in enumerate(order))
    ]
    signs = list(product((1, -1), repeat=len(shape)))[: 2 ** (len(shape) - 1)]  # -1 keeps them all
    seen: set[Rows] = set()
    found = []
    for rows in _hermites(len(shape), cubes):
        if rows in seen:
            continue
        found.append(PodLattice(shape, rows))
        for order, sign in product(axes, signs):
            turned = tuple(
                tuple(s * row[i] for s, i in zip(sign, order, strict=True)) for row in rows
            )
            seen.add(hermite(turned, len(shape)))
    return found


def _hermites(size: int, index: int) -> Iterator[Rows]:
    """All Hermite forms of a determinant."""
    for diagonal in product(divisors(index), repeat=size):
        if prod(diagonal) != index:
            continue
        above = [range(diagonal[j]) for i in range(size) for j in range(i + 1, size)]
        for entries in product(*above):
            rest = iter(entries)
            yield tuple(
                tuple(diagonal[i] if i == j else next(rest) if j > i else 0 for j in range(size))
                for i in range(size)
            )
