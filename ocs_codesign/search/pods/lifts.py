"""Lifts: cubes numbered by a group, a voltage a switch, alike under some turns of the cube.

A turn takes a switch to another; its voltage is then that of the first, mapped by an automorphism
of the group, inverted where + and - change places. So few voltages are left to choose, and the
chips are of few kinds.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.graphs.families.pods import PodSlice, cube_of, neighbours
from ocs_codesign.search.pods.kernels import anneal
from ocs_codesign.search.pods.orbits import turn
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ocs_codesign.graphs.families.pods import Numbers
    from ocs_codesign.search.pods.orbits import Turn


MAX_GROUPS = 12
MAX_CHIPS = 64
"""Chips of a cube: a bit each of a word."""
_MOVES = ((10, 1_500), (20, 4_000), (None, 15_000))
_HOT, _COLD = 60.0, 1.0


class LiftFamily(NamedTuple):
    """Lifts of a group, known by its ``table`` of products, that are alike under some turns.

    The arrays are those of ``kernels.anneal``.
    """

    shape: tuple[int, ...]
    table: Numbers
    member: Numbers
    image: Numbers
    allowed: Numbers
    num_allowed: Numbers

    def voltages(self, chosen: Numbers) -> Numbers:
        """The voltage of every switch, where orbits have the chosen ones."""
        found = np.zeros(cube_of(self.shape).num_switches, dtype=np.int64)
        for orbit, voltage in enumerate(chosen):
            kept = self.member[orbit] >= 0
            found[self.member[orbit][kept]] = self.image[orbit][kept, voltage]
        return found

    def lift(self, voltages: Numbers) -> PodSlice:
        """The slice of voltages."""
        rows = [tuple(row) for row in self.table.T[voltages].tolist()]
        return PodSlice(self.shape, cube_of(self.shape).nested(rows))


def lift_families(shape: tuple[int, ...], cubes: int) -> list[LiftFamily]:
    """Families of some groups of that order, where there is something to choose.

    >>> [len(family.member) for family in lift_families((4, 4, 4), 2)][:4]
    [16, 8, 8, 24]
    """
    if cube_of(shape).num_chips > MAX_CHIPS:
        raise ValueError(f"lifts are of cubes of at most {MAX_CHIPS} chips")
    found = []
    for group in islice(groups_of_order(cubes), MAX_GROUPS):
        every = np.arange(cubes)
        table = group.right_multiply(every[:, None], every[None, :])
        for symmetries in _symmetries(shape, table):
            family = lift_family(shape, table, symmetries)
            if (family.num_allowed > 0).all() and (family.num_allowed > 1).any():
                found.append(family)
    return found


def _symmetries(shape: tuple[int, ...], table: Numbers) -> Iterator[list[tuple[Turn, Numbers]]]:
    """Sets of turns, each with an automorphism: all axes in turn, inversion, half turns, swaps."""
    cube, size = cube_of(shape), len(shape)
    same, straight, no = np.arange(len(table)), list(range(size)), [False] * size
    is_abelian = bool((table == table.T).all())
    inverse = np.argmax(table == 0, axis=1)
    inverted = turn(cube, straight, [True] * size)
    if size > 2 and len(set(shape)) == 1:
        around = turn(cube, [*straight[1:], 0], no)
        yield [(around, same)]
        yield [(around, same), (inverted, same)]
        if is_abelian:
            yield [(around, same), (inverted, inverse)]
    yield [(inverted, same)]
    yield []
    if size > 1:
        yield [(turn(cube, straight, [True, True, *no[2:]]), same)]
    if size > 1 and shape[0] == shape[1]:
        swapped = turn(cube, [1, 0, *straight[2:]], no)
        yield [(swapped, same)]
        if is_abelian:
            yield [(swapped, inverse)]


def lift_family(
    shape: tuple[int, ...],
    table: Numbers,
    symmetries: Sequence[tuple[Turn, Numbers]],
    fixed: Collection[int] = (),
) -> LiftFamily:
    """The lifts of a group that are alike under symmetries; ``fixed`` switches have no choice."""
    order, every = len(table), np.arange(len(table))
    inverse = np.argmax(table == 0, axis=1)
    orbits: list[tuple[dict[int, Numbers], Numbers]] = []
    seen: set[int] = set(fixed)
    for first in range(cube_of(shape).num_switches):
        if first in seen:
            continue
        images, todo, may = {first: every}, [first], np.ones(order, dtype=bool)
        for switch in todo:
            for each, automorphism in symmetries:
                there, image = int(each.switches[switch]), automorphism[images[switch]]
                if there < 0:
                    there, image = ~there, inverse[image]
                if there in images:
                    may &= images[there] == image
                else:
                    images[there] = image
                    todo.append(there)
        seen |= images.keys()
        orbits.append((images, np.flatnonzero(may)))
    largest = max(len(images) for images, _ in orbits)
    member = np.full((len(orbits), largest), -1)
    image = np.zeros((len(orbits), largest, order), dtype=np.int64)
    allowed, count = np.zeros((len(orbits), order), dtype=np.int64), []
    for orbit, (images, may_be) in enumerate(orbits):
        member[orbit, : len(images)] = list(images)
        image[orbit, : len(images)] = list(images.values())
        allowed[orbit, : len(may_be)] = may_be
        count.append(len(may_be))
    return LiftFamily(shape, table, member, image, allowed, np.array(count))


def annealed(
    family: LiftFamily,
    rng: np.random.Generator,
    start: Numbers | None = None,
    hot: float = _HOT,
    moves: int | None = None,
    down: Collection[int] = (),
) -> tuple[int, Numbers]:
    """The least sum of hops from the chips of a cube that one annealing finds, and voltages.

    It begins with the voltages of ``start``, by default with random ones; switches that are
    ``down`` join nothing. Heats are in hops a cube, ``moves`` as many as the family needs.
    """
    cube, orbits = cube_of(family.shape), len(family.member)
    picked = rng.random(orbits) * family.num_allowed
    chosen = family.allowed[np.arange(orbits), picked.astype(np.int64)]
    if start is not None:
        chosen = start[family.member[:, 0]].copy()
    circuits = family.table[:, family.voltages(chosen)].T.copy()
    circuits[sorted(down)] = -1
    moves = moves or next(moves for most, moves in _MOVES if most is None or orbits < most)
    heats = len(family.table) * hot * (_COLD / _HOT) ** np.linspace(0, 1, moves)
    hops = compiled(anneal)(
        *(neighbours(cube, circuits), family.table.astype(np.int64)),
        np.stack([cube.dimension, cube.plus, cube.minus], axis=1),
        *(family.member, family.image, family.allowed, family.num_allowed),
        *(rng.random((moves, 3)), heats, chosen),
    )
    return int(hops), family.voltages(chosen)
