"""Label search: the exact dynamic program over what planes hold and when they can have left.

After every step a plane is known by what it holds and since when it is free. A label has what all
planes hold and the convex set of times (end of the step, when each plane was free) that some usage
can reach; a step maps it linearly, since the bytes of a step may be split as one likes. A label
whose times are all matched by those of another with the same configurations is left out. Planes are
interchangeable, and so are configurations that no later step tells apart.

Without a limit on their number, the labels prove the optimum. With one, the best are kept, and the
best of those left out still bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.planes.problem import Usage


@final
@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Steps and dead times of a search, in units of ``unit_s`` seconds.

    What a plane holds is a code. ``dead[code, kind[i]]`` is its dead time into step i, after which
    it has code ``after[i]``; ``start`` are the codes of the planes in the beginning.
    """

    send: NDArray[np.float64]
    latency: float
    dead: NDArray[np.float64]
    kind: NDArray[np.int64]
    after: NDArray[np.int64]
    start: tuple[int, ...]

    @property
    def num_steps(self) -> int:
        """How many steps there are."""
        return len(self.send)

    @property
    def is_uniform(self) -> bool:
        """Whether every change takes the same time."""
        waits = self.dead[self.dead > 0]
        return not len(waits) or bool((waits == waits[0]).all())

    def least(self) -> NDArray[np.float64]:
        """What the steps from i on take at least, for i = 0, ..., num_steps."""
        each = self.send / len(self.start) + self.latency
        return np.append(np.cumsum(each[::-1])[::-1], 0.0)


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """How to search: labels kept after a step, whether planes may leave early, the worst total.

    If planes may not leave a step before it ends, polyhedra are points: fast, and no proof.
    """

    max_labels: int
    max_points: int = 64
    leave_early: bool = True
    cap: float = np.inf


@final
@dataclass(frozen=True, slots=True)
class Found:
    """The best usage, its total, and a bound on every usage's total; both in units.

    ``usage`` is empty if nothing is at most the cap; ``bound`` is infinite if nothing better can
    exist than what the cap comes from.
    """

    usage: Usage
    total: float
    bound: float
    most_labels: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Future:
    """By code, after a step: longest dead time, and the code that stands for it."""

    longest: NDArray[np.float64]
    renamed: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Where the labels after a step come from."""

    parent: NDArray[np.int64]
    mask: NDArray[np.int64]
    order: NDArray[np.int64]


def search(
    entries: Entries, effort: Effort, on_step: Callable[[int, int], None] | None = None
) -> Found:
    """The best usage that the effort finds; see ``Entries``.

    >>> dead = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> steps = np.array([0, 1, 1])
    >>> entries = Entries(np.array([1.0, 0.1, 1.0]), 0.0, dead, steps, steps, (2, 2))
    >>> found = search(entries, Effort(1000))
    >>> round(found.total, 9), found.bound <= found.total, len(found.usage)
    (3.05, True, 3)
    """
    from ocs_codesign.reconfigure.planes.labels_kernels import extended

    planes = len(entries.start)
    futures, least = _futures(entries), entries.least()
    root = np.argsort(entries.start, kind="stable")
    codes = np.array(entries.start, dtype=np.int64)[root][None, :]
    first, points = np.array([0, 1]), np.zeros((1, planes + 1))
    layers: list[_Layer] = []
    begin, cut, most = 0.0, np.inf, 1
    for at in range(entries.num_steps):
        dead = np.ascontiguousarray(entries.dead[:, entries.kind[at]])
        future = futures[at]
        lost, (codes, first, points, *origin) = extended(
            codes,
            first,
            points,
            dead,
            future.longest,
            dead >= future.longest,
            future.renamed,
            entries.after[at],
            (entries.send[at], entries.latency),
            effort.cap - least[at + 1] - begin,
            effort.leave_early,
            not entries.is_uniform,
            effort.max_points,
        )
        layer = _Layer(*origin)
        cut = min(cut, begin + lost + float(least[at]))
        most = max(most, len(codes))
        if len(codes) > effort.max_labels:
            kept, dropped = _ranked(first, points, effort.max_labels)
            cut = min(cut, begin + float(dropped) + float(least[at + 1]))
            codes, first, points = _selected(kept, codes, first, points)
            layer = _Layer(layer.parent[kept], layer.mask[kept], layer.order[kept])
        layers.append(layer)
        if not len(codes):
            return Found((), np.inf, cut, most)
        ended = float(points[:, 0].min())
        points -= ended
        begin += ended
        if on_step is not None:
            on_step(at + 1, entries.num_steps)
    best = int(np.searchsorted(first, int(points[:, 0].argmin()), side="right")) - 1
    rounding = 4e-12 * entries.num_steps
    bound = min(begin, cut) - rounding if effort.leave_early else -np.inf
    return Found(_usage(layers, best, root), begin, bound, most)


def _futures(entries: Entries) -> list[_Future]:
    """What may come after every step; codes that nothing tells apart have one name.

    Codes are only told to be alike where all their dead times to come are the same.
    """
    number = len(entries.dead)
    names = np.arange(number)
    lowest, highest = np.full(number, np.inf), np.zeros(number)
    futures: list[_Future] = []
    seen: set[int] = set()
    current = _Future(highest.copy(), 0 * names)
    for at in range(entries.num_steps - 1, -1, -1):
        futures.append(current)
        kind = int(entries.kind[at])
        if kind in seen:
            continue
        seen.add(kind)
        lowest = np.minimum(lowest, entries.dead[:, kind])
        highest = np.maximum(highest, entries.dead[:, kind])
        renamed = names.copy()
        for value in np.unique(highest[lowest == highest]):
            alike = np.flatnonzero((lowest == highest) & (highest == value))
            renamed[alike] = alike[0]
        current = _Future(highest.copy(), renamed)
    return futures[::-1]


def _ranked(
    first: NDArray[np.int64], points: NDArray[np.float64], number: int
) -> tuple[NDArray[np.int64], float]:
    """The labels that end first, in their order, and when the first of the others ends."""
    ends = np.minimum.reduceat(points[:, 0], first[:-1])
    used = np.minimum.reduceat(points[:, 0] + points[:, 1:].mean(axis=1), first[:-1])
    order = np.argsort(used, kind="stable")
    return np.sort(order[:number]), float(ends[order[number:]].min())


def _selected(
    kept: NDArray[np.int64],
    codes: NDArray[np.int64],
    first: NDArray[np.int64],
    points: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """These labels alone."""
    sizes = np.diff(first)[kept]
    rows = np.concatenate([np.arange(first[label], first[label + 1]) for label in kept])
    return codes[kept], np.append(0, np.cumsum(sizes)), points[rows]


def _usage(layers: list[_Layer], best: int, root: NDArray[np.int64]) -> Usage:
    """The planes that serve each step on the way to a label."""
    chain = []
    for layer in reversed(layers):
        chain.append((int(layer.mask[best]), layer.order[best]))
        best = int(layer.parent[best])
    planes, usage = root, []
    for mask, order in reversed(chain):
        usage.append(tuple(sorted(int(p) for at, p in enumerate(planes) if mask >> at & 1)))
        planes = planes[order]
    return tuple(usage)
