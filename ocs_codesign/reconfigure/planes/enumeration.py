"""All usages of a small problem, one after the other: the oracle of the faster methods.

A usage says which planes serve which step; its best times are exact. Planes that hold the same and
served the same so far are interchangeable, so only one order of them is tried. A beginning is left
as soon as no way to go on can beat the best usage so far:

* with barriers, a step that n planes serve lasts latency + send / n at least;
* all planes together have k times the total for sends, latencies and dead times;
* a step that n planes serve while s others are in a change weighs its planes with 1 / (n + s), and
  a change with the least weight that it touches: no moment weighs more than 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from ocs_codesign.reconfigure.planes.draft import Draft
from ocs_codesign.reconfigure.planes.times import timed
from ocs_codesign.reconfigure.planes.uses import changes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

MAX_USAGES = 2_000_000
"""Usages of the largest problem that is enumerated, before any are left out."""


def enumerated(problem: PlaneProblem) -> Draft:
    """The usage with the least total of all; ValueError if there are more than MAX_USAGES.

    >>> from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost
    >>> problem = PlaneProblem((0, 1), (4, 4), 2, 1, ReconfigurationCost(10))
    >>> enumerated(problem).usage
    ((1,), (0,))
    """
    number = (2**problem.num_planes - 1) ** problem.num_steps
    if number > MAX_USAGES:
        raise ValueError(
            f"{problem.num_steps} steps on {problem.num_planes} planes have {number:.3g} usages: "
            f"at most {MAX_USAGES:.0e} are enumerated"
        )
    search = _Search(problem)
    search.extend(())
    return Draft(search.best, None, f"best of all usages, {search.num_timed} of them timed")


@dataclass(slots=True)
class _Search:
    problem: PlaneProblem
    best: Usage = ()
    total_s: Fraction | None = None
    num_timed: int = 0
    least_s: list[Fraction] = field(init=False)

    def __post_init__(self) -> None:
        """``least_s[i]``: what the steps from i on take at least."""
        problem = self.problem
        latency = problem.latency_s / (1 if problem.cost.barrier else problem.num_planes)
        each = [send / problem.num_planes + latency for send in problem.send_s]
        self.least_s = [sum(each[at:], Fraction(0)) for at in range(len(each) + 1)]

    def extend(self, usage: Usage) -> None:
        """Try everything that begins like this."""
        if self.total_s is not None and self._bound_s(usage) >= self.total_s:
            return
        if len(usage) == self.problem.num_steps:
            self.num_timed += 1
            answer = timed(self.problem, usage)
            if self.total_s is None or answer.total_s < self.total_s:
                self.best, self.total_s = answer.usage, answer.total_s
            return
        for planes in self._choices(usage):
            self.extend((*usage, planes))

    def _choices(self, usage: Usage) -> Iterator[tuple[int, ...]]:
        """Sets of planes, large ones first; of interchangeable planes the first ones."""
        num_planes, held = self.problem.num_planes, self.problem.held
        history = [
            (held[plane], *(plane in planes for planes in usage)) for plane in range(num_planes)
        ]
        for size in range(num_planes, 0, -1):
            for planes in combinations(range(num_planes), size):
                out = set(range(num_planes)) - set(planes)
                if not any(
                    other < plane and history[other] == history[plane]
                    for plane in planes
                    for other in out
                ):
                    yield planes

    def _bound_s(self, usage: Usage) -> Fraction:
        """What every usage that begins like this takes at least."""
        problem, latency = self.problem, self.problem.latency_s
        done = len(usage)
        changes = changes_of(problem, (*usage, *((),) * (problem.num_steps - done)))
        if not problem.cost.overlap:
            return self._stopped_s(usage, sum(one.circuits for one in changes))
        sends = problem.send_s[:done]
        busy = sum(sends, Fraction(0)) + latency * sum(map(len, usage))
        busy += sum((one.dead_time_s for one in changes), Fraction(0))
        rest = self.least_s[done]
        bounds = [busy / problem.num_planes + rest]
        if problem.cost.barrier:
            weights = [Fraction(1, len(planes)) for planes in usage]
            bounds.append(self._weighed_s(usage, weights) + rest)
            in_change = [
                sum(one.after < step < one.before for one in changes) for step in range(done)
            ]
            weights = [
                Fraction(1, len(planes) + others)
                for planes, others in zip(usage, in_change, strict=True)
            ]
            total = self._weighed_s(usage, weights)
            for one in changes:
                touched = weights[max(one.after, 0) : one.before + 1]
                total += one.dead_time_s * min(touched)
            bounds.append(total + rest)
        return max(bounds)

    def _weighed_s(self, usage: Usage, weights: list[Fraction]) -> Fraction:
        """Sends and latencies with the weight of their step."""
        latency = self.problem.latency_s
        parts = zip(usage, self.problem.send_s, weights, strict=False)
        return sum(
            ((send + latency * len(planes)) * weight for planes, send, weight in parts), Fraction(0)
        )

    def _stopped_s(self, usage: Usage, circuits: int) -> Fraction:
        """The same where the fabric stops: one stop if any circuits change, and their own time."""
        problem = self.problem
        weights = [
            Fraction(1, len(planes) if problem.cost.barrier else problem.num_planes)
            for planes in usage
        ]
        stopped = problem.cost.dead_time_s(circuits)
        return self._weighed_s(usage, weights) + stopped + self.least_s[len(usage)]
