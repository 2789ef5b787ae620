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
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.progress import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.circuits.planes.problem import PlaneProblem, Usage


@final
@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Steps and dead times of a search, in one unit of time.

    What a plane holds is a code. ``dead[code, kind[i]]`` is its dead time into step i, after which
    it has code ``after[i]``; ``start`` are the codes of the planes in the beginning.
    """

    send: NDArray[np.float64]
    latency: float
    dead: NDArray[np.float64]
    kind: NDArray[np.int64]
    after: NDArray[np.int64]
    start: tuple[int, ...]

    @classmethod
    def of(cls, problem: PlaneProblem, unit: Fraction, *, free: bool = False) -> Entries:
        """The entries of a problem, times in units of so many seconds.

        ``free``: planes hold in the beginning whatever is best for them, a relaxation.
        """
        needed = sorted(set(problem.configurations))
        others = {held for held in problem.held if held not in needed}
        holds: list[int | None] = [*needed, *sorted(held for held in others if held is not None)]
        holds += [None] if None in others else []
        dead = [[float(problem.dead_time_s(a, b) / unit) for b in needed] for a in holds]
        kind = np.searchsorted(needed, problem.configurations)
        start = tuple(holds.index(held) for held in problem.held)
        if free:
            dead, start = [*dead, [0.0] * len(needed)], (len(dead),) * problem.num_planes
        send = np.array([float(send / unit) for send in problem.send_s])
        return cls(send, float(problem.latency_s / unit), np.array(dead), kind, kind, start)

    @property
    def num_steps(self) -> int:
        """How many steps there are."""
        return len(self.send)

    @property
    def is_uniform(self) -> bool:
        """Whether every change takes the same time."""
        return len(np.unique(self.dead[self.dead > 0])) <= 1

    def least(self) -> NDArray[np.float64]:
        """What the steps from i on take at least, for i = 0, ..., num_steps."""
        each = self.send / len(self.start) + self.latency
        return np.append(np.cumsum(each[::-1])[::-1], 0.0)


@final
@dataclass(frozen=True, slots=True)
class LabelEffort:
    """How to search: labels kept after a step, points of one, whether planes may leave early.

    If planes may not leave a step before it ends, polyhedra are points: fast, and no proof.
    """

    max_labels: int
    max_points: int = 64
    leave_early: bool = True


@final
@dataclass(frozen=True, slots=True)
class FoundUsage:
    """The best usage, its total, and a bound on every usage's total; both in units."""

    usage: Usage
    total: float
    bound: float
    most_labels: int


def unit_of(problem: PlaneProblem) -> Fraction:
    """The longest time that one plane may be busy with one thing, in seconds."""
    needed = set(problem.configurations)
    waits = (problem.dead_time_s(held, to) for held in {*problem.held, *needed} for to in needed)
    return max(*problem.send_s, problem.latency_s, *waits)


def search(entries: Entries, effort: LabelEffort) -> FoundUsage:
    """The best usage that the effort finds; see ``Entries``."""
    from ocs_codesign.circuits.planes import kernels

    planes, is_uniform = len(entries.start), entries.is_uniform
    futures, least = _futures(entries), entries.least()
    root = np.argsort(entries.start, kind="stable")
    codes = np.array(entries.start, dtype=np.int64)[root][None, :]
    first, points = np.array([0, 1]), np.zeros((1, planes + 1))
    layers: list[tuple[NDArray[np.int64], ...]] = []
    begin, cut, most = 0.0, np.inf, 1
    for at, send in enumerate(counted(entries.send.tolist())):
        dead = np.ascontiguousarray(entries.dead[:, entries.kind[at]])
        longest, renamed = futures[at]
        work = int((np.diff(first) ** 3).sum()) << planes * (1 if is_uniform else 2)
        tiers: Any = kernels.tiers
        lost, codes, points, orders, facts = tiers(
            *(work, codes, first, points, dead, longest, dead >= longest, renamed),
            *((send, entries.latency, int(entries.after[at])), effort.leave_early),
            *(not is_uniform, effort.max_points),
        )
        cut = min(cut, begin + lost + float(least[at]))
        kept = np.flatnonzero(facts[:, 5])
        most = max(most, len(kept))
        if len(kept) > effort.max_labels:
            kept, dropped = _ranked(facts[kept], points, kept, effort.max_labels)
            cut = min(cut, begin + dropped + float(least[at + 1]))
        if not len(kept):
            return FoundUsage((), np.inf, cut, most)
        codes, facts = codes[kept], facts[kept]
        points = np.concatenate([points[row[0] : row[1]] for row in facts.tolist()])
        first = np.append(0, np.cumsum(facts[:, 1] - facts[:, 0]))
        layers.append((facts[:, 2], facts[:, 3], orders[kept]))
        ended = float(points[:, 0].min())
        points -= ended
        begin += ended
    best = int(np.searchsorted(first, int(points[:, 0].argmin()), side="right")) - 1
    rounding = 4e-12 * entries.num_steps
    bound = min(begin, cut) - rounding if effort.leave_early else -np.inf
    return FoundUsage(_usage(layers, best, root), begin, bound, most)


def _futures(entries: Entries) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """By code, after every step: the longest dead time to come, and a code that is just like it.

    Codes are alike where all their dead times to come are the same.
    """
    number = len(entries.dead)
    longest, renamed = np.zeros(number), np.zeros(number, dtype=np.int64)
    futures = []
    seen: set[int] = set()
    for kind in reversed(entries.kind.tolist()):
        futures.append((longest, renamed))
        if kind not in seen:
            seen.add(kind)
            dead = entries.dead[:, kind]
            longest = np.maximum(longest, dead)
            keys = np.column_stack([renamed, dead])
            _, member, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            renamed = member[group.ravel()]
    return futures[::-1]


def _ranked(
    facts: NDArray[np.int64], points: NDArray[np.float64], kept: NDArray[np.int64], number: int
) -> tuple[NDArray[np.int64], float]:
    """The labels that end first, in their order, and when the first of the others ends."""
    spans = [points[row[0] : row[1]] for row in facts.tolist()]
    ends = np.array([span[:, 0].min() for span in spans])
    used = np.array([(span[:, 0] + span[:, 1:].mean(axis=1)).min() for span in spans])
    order = np.argsort(used, kind="stable")
    return kept[np.sort(order[:number])], float(ends[order[number:]].min())


def _usage(
    layers: list[tuple[NDArray[np.int64], ...]], best: int, root: NDArray[np.int64]
) -> Usage:
    """The planes that serve each step on the way to a label."""
    chain = []
    for parent, mask, order in reversed(layers):
        chain.append((int(mask[best]), order[best]))
        best = int(parent[best])
    planes, usage = root, []
    for bits, order in reversed(chain):
        usage.append(tuple(sorted(int(plane) for at, plane in enumerate(planes) if bits >> at & 1)))
        planes = planes[order]
    return tuple(usage)
