"""Allgathers on grids of ranks: dimension after dimension, in parts that start at different ones.

Ranks are numbered row by row, the last dimension fastest. Sources: M. Cho and others (MLSys 2019),
BlueConnect; H. Mikami and others (2018) for the 2D torus; De Sensi and others, Swing (NSDI 2024);
S. Rashidi and others, Themis (ISCA 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.schedules.classic import gathering
from ocs_codesign.schedules.classic.gathering import doublings
from ocs_codesign.schedules.classic.steps import Pattern, Step, check_sends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.schedules.classic.steps import Ints


INNER = {
    "ring": gathering.ring,
    "direct": gathering.direct,
    "shift": gathering.shift,
    "bruck": gathering.bruck,
    "pat": gathering.pat,
}
"""What gathers along a line of ranks, of any number."""


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """Ranks in a grid of sides ``dims``."""

    dims: tuple[int, ...]

    @classmethod
    def of(cls, num_ranks: int, dims: Sequence[int] | None) -> Grid:
        """The grid of these sides, a line if none are given; ValueError unless it has N ranks."""
        sides = (num_ranks,) if dims is None else tuple(dims)
        if not sides or min(sides) < 1 or prod(sides) != num_ranks:
            raise ValueError(f"dims are {list(sides)}: their product must be {num_ranks} ranks")
        return cls(sides)

    def order(self, given: Sequence[int] | None) -> tuple[int, ...]:
        """An order of the dimensions, the first one first if none is given."""
        every = range(len(self.dims))
        order = tuple(every) if given is None else tuple(given)
        if sorted(order) != list(every):
            raise ValueError(f"order is {list(order)}: it names each of {list(every)} once")
        return order

    def stride(self, axis: int) -> int:
        """How far apart neighbours in a dimension are numbered."""
        return prod(self.dims[axis + 1 :])

    def coordinate(self, rank: Ints, axis: int) -> Ints:
        """Where ranks are in a dimension."""
        return rank // self.stride(axis) % self.dims[axis]

    def moved(self, rank: Ints, axis: int, distance: Ints | int) -> Ints:
        """The ranks so far further in a dimension, round it."""
        here = self.coordinate(rank, axis)
        return rank + ((here + distance) % self.dims[axis] - here) * self.stride(axis)


class Lane(NamedTuple):
    """A part of every shard: the order that it takes the dimensions in, and which way round."""

    order: tuple[int, ...]
    way: int = 1


def bucket(
    num_ranks: int,
    dims: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    inner: str = "ring",
) -> Pattern:
    """All that is held goes along one dimension of a grid, then along the next.

    The allreduce of it sums in the opposite order: with the fastest dimension last that is
    BlueConnect, and on two dimensions that of a 2D torus.

    >>> [step.num_sends for step in bucket(6, (2, 3)).steps]
    [6, 12, 12]
    """
    grid = Grid.of(num_ranks, dims)
    return _in_phases(grid, [Lane(grid.order(order))], inner)


def bucket_multiport(
    num_ranks: int, dims: Sequence[int] | None = None, parts: int | None = None
) -> Pattern:
    """Buckets of up to 2 D parts of all shards, each from another dimension and way round."""
    grid = Grid.of(num_ranks, dims)
    return _in_phases(grid, _turned(grid, parts))


def swing_multiport(
    num_ranks: int, dims: Sequence[int] | None = None, parts: int | None = None
) -> Pattern:
    """Swing with up to 2 D parts: in every step each takes the next of its dimensions in turn.

    Raises ValueError unless all sides are powers of two.
    """
    grid = Grid.of(num_ranks, dims)
    if any(side & (side - 1) for side in grid.dims):
        raise ValueError(f"dims are {list(grid.dims)}: Swing takes sides that are powers of two")
    turned = _turned(grid, parts)
    check_sends(num_ranks**2 * len(turned))
    every = [
        doublings(num_ranks, _swings(grid, part), parts=len(turned), part=number).steps
        for number, part in enumerate(turned)
    ]
    return Pattern(num_ranks * len(turned), [_at_once(steps) for steps in zip(*every, strict=True)])


def themis(
    num_ranks: int,
    dims: Sequence[int] | None = None,
    chunks: int = 4,
    bandwidths: Sequence[int] | None = None,
) -> Pattern:
    """The allgather of Themis: every chunk takes the dimensions in an order that balances them."""
    grid = Grid.of(num_ranks, dims)
    orders, _ = themis_orders(grid.dims, bandwidths or (1,) * len(grid.dims), chunks)
    return _in_phases(grid, [Lane(order[::-1]) for order in orders])


def themis_orders(
    dims: Sequence[int], bandwidths: Sequence[int], chunks: int
) -> tuple[list[tuple[int, ...]], tuple[Fraction, ...]]:
    """Order of the dimensions in the reduce-scatter of every chunk, and the load of each dimension.

    A chunk takes the least loaded dimension first, or the first one if all are about as loaded.
    Loads are times of one half of the allreduce, in M over the bandwidth of the first dimension.
    """
    axes = range(len(dims))
    if len(bandwidths) != len(dims) or min(bandwidths) < 1:
        raise ValueError(f"bandwidths are {list(bandwidths)}: one of at least 1 a dimension")
    if not 1 <= chunks <= 2**20:
        raise ValueError(f"{chunks} chunks: there are 1 to {2**20}")
    speed = [Fraction(bandwidth, bandwidths[0]) for bandwidth in bandwidths]
    loads = [Fraction(0)] * len(dims)
    orders = []
    for _ in range(chunks):
        least, most = min(axes, key=lambda d: loads[d]), max(axes, key=lambda d: loads[d])
        gap = (loads[most] - loads[least]) * speed[least]
        is_even = gap < Fraction(1, 16 * chunks)
        order = tuple(axes) if is_even else tuple(sorted(axes, key=lambda d: loads[d]))
        size = Fraction(1, chunks)
        for axis in order:
            loads[axis] += size * (dims[axis] - 1) / dims[axis] / speed[axis]
            size /= dims[axis]
        orders.append(order)
    return orders, tuple(loads)


def _turned(grid: Grid, parts: int | None) -> list[Lane]:
    """Parts that start at each dimension in turn, then those the other way round."""
    axes = range(len(grid.dims))
    every = [Lane((*axes[j:], *axes[:j]), way) for way in (1, -1) for j in axes]
    count = len(every) if parts is None else parts
    if not 1 <= count <= len(every):
        raise ValueError(
            f"parts is {count}: a grid of {len(axes)} dimensions has 1 to {2 * len(axes)}"
        )
    return every[:count]


def _in_phases(grid: Grid, parts: Sequence[Lane], inner: str = "ring") -> Pattern:
    """All parts at once, dimension after dimension; a phase is as long as its longest part."""
    if inner not in INNER:
        raise ValueError(f"inner is {inner!r}: it must be one of {', '.join(INNER)}")
    check_sends(prod(grid.dims) ** 2 * len(parts))
    steps: list[Step] = []
    for phase in range(len(grid.dims)):
        lines = [_line(grid, part, phase, inner, len(parts), j) for j, part in enumerate(parts)]
        steps += [
            _at_once([line[turn] for line in lines if turn < len(line)])
            for turn in range(max(map(len, lines)))
        ]
    return Pattern(prod(grid.dims) * len(parts), steps)


def _line(grid: Grid, part: Lane, phase: int, inner: str, parts: int, number: int) -> list[Step]:
    """A phase of a part: along all lines of its dimension, with what the phases before brought."""
    axis, done = part.order[phase], part.order[:phase]
    every = np.arange(prod(grid.dims))
    origin = every[grid.coordinate(every, axis) == 0][:, None, None]
    base = sum((grid.coordinate(every, d) * grid.stride(d) for d in done), np.zeros_like(every))
    brought = np.unique(base)
    steps = []
    for step in INNER[inner](grid.dims[axis]).steps:
        columns = np.broadcast_arrays(step.source, step.target, step.item)
        source, target, item = (part.way * column.ravel() for column in columns)
        ends = [grid.moved(origin, axis, end[:, None]) for end in (source, target, item)]
        shard = ends[2] - base[ends[2]] + brought
        steps.append(Step(ends[0], ends[1], shard * parts + number))
    return steps


def _swings(grid: Grid, part: Lane) -> Iterable[Ints]:
    """Partners of every step of an allgather: those of the reduce-scatter backwards."""
    left = {axis: grid.dims[axis].bit_length() - 1 for axis in part.order}
    turns = [
        (axis, sigma)
        for sigma in range(max(left.values()))
        for axis in part.order
        if sigma < left[axis]
    ]
    rank = np.arange(prod(grid.dims))
    for axis, sigma in reversed(turns):
        distance = part.way * (1 - (-2) ** (sigma + 1)) // 3
        is_even = grid.coordinate(rank, axis) % 2 == 0
        yield grid.moved(rank, axis, np.where(is_even, distance, -distance))


def _at_once(steps: Iterable[Step]) -> Step:
    """Steps of different parts as one."""
    columns = [np.broadcast_arrays(step.source, step.target, step.item) for step in steps]
    return Step(*(np.concatenate([c.ravel() for c in same]) for same in zip(*columns, strict=True)))
