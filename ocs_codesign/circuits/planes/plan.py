"""Plan planes: a method finds who serves what, and exact times make a timeline that is checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.planes.labels import Entries, LabelEffort, search, unit_of
from ocs_codesign.circuits.planes.milp import by_milp
from ocs_codesign.circuits.planes.problem import timed
from ocs_codesign.circuits.planes.stops import (
    LABEL_PLANES,
    Work,
    add_step,
    by_stretches,
    held_bound_s,
    planes_given,
    stopping,
    usage_of,
    window_bound_s,
)
from ocs_codesign.circuits.planes.uses import START, makespan
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.verification.circuits import check_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.circuits.planes.problem import PlanePlan, PlaneProblem, Usage
    from ocs_codesign.core.lp import Options


# Good usages without barriers: planes are kept equally busy, and change seldom.


_WIDTH, _PER_STATE = 48, 3
_TRIED = 2000
"""Usages that are tried to improve one."""


@final
@dataclass(frozen=True, slots=True)
class _Loads:
    """What every plane holds, as a code, and how long it is busy; ``chain`` is the usage so far."""

    held: tuple[int, ...]
    busy: tuple[float, ...]
    chain: Any

    @property
    def score(self) -> float:
        """The mean load, and a part of what the largest is above it: later sends may level it."""
        mean = sum(self.busy) / len(self.busy)
        return mean + 0.3 * (max(self.busy) - mean)


def balanced_usage(problem: PlaneProblem) -> Usage:
    """Step by step, the best few ways to go on; a step's bytes level the loads of its planes."""
    entries = Entries.of(problem, unit_of(problem))
    best = [_Loads(entries.start, (0.0,) * problem.num_planes, None)]
    for send, needed in zip(entries.send.tolist(), entries.kind.tolist(), strict=True):
        dead = (entries.dead[:, needed] + entries.latency).tolist()
        grown = [
            _served(loads, planes, needed, send, dead)
            for loads in best
            for planes in _choices(loads, needed)
        ]
        best = _kept(sorted(grown, key=lambda loads: (loads.score, loads.busy)))
    usage: list[tuple[int, ...]] = []
    chain = min(best, key=lambda loads: max(loads.busy)).chain
    while chain is not None:
        chain, planes = chain
        usage.append(planes)
    return tuple(reversed(usage))


def improved(problem: PlaneProblem, usage: Usage) -> Usage:
    """The usage after single planes joined or left steps as long as that helps, within limits."""
    entries, fixed = Entries.of(problem, unit_of(problem)), 0.0
    if not problem.cost.overlap:
        fixed = float(problem.cost.fixed_s / unit_of(problem))
    estimate = _Estimate(entries, problem.cost.overlap, fixed)
    best, total = list(usage), estimate.total(usage)
    budget, changed = _TRIED, True
    while changed and budget > 0:
        changed = False
        for step in range(problem.num_steps):
            for plane in range(problem.num_planes):
                planes = tuple(sorted({*best[step]} ^ {plane}))
                if not planes or budget <= 0:
                    continue
                budget -= 1
                before, best[step] = best[step], planes
                found = estimate.total(best)
                if found < total * (1 - 1e-12):
                    total, changed = found, True
                else:
                    best[step] = before
    return tuple(best)


class _Estimate:
    """The total of a usage without barriers; a fabric that stops does so as late as it can."""

    def __init__(self, entries: Entries, overlap: bool, fixed: float) -> None:
        self.overlap, self.fixed, self.latency = overlap, fixed, entries.latency
        self.start, self.dead = entries.start, entries.dead.tolist()
        self.steps = list(zip(entries.send.tolist(), entries.kind.tolist(), strict=True))

    def total(self, usage: Sequence[tuple[int, ...]]) -> float:
        """In the unit of the entries."""
        held, since = list(self.start), [START] * len(self.start)
        work, total, stop = [0.0] * 2 ** len(held), 0.0, START
        for step, ((send, needed), planes) in enumerate(zip(self.steps, usage, strict=True)):
            waits = [self.dead[held[plane]][needed] for plane in planes]
            if not self.overlap:
                if any(wait and since[at] >= stop for at, wait in zip(planes, waits, strict=True)):
                    total += makespan(np.array(work)) + self.fixed
                    work, stop = [0.0] * len(work), step
                total += sum(wait - self.fixed for wait in waits if wait)
                waits = [0.0] * len(waits)
            mask = 0
            for plane, wait in zip(planes, waits, strict=True):
                work[1 << plane] += wait + self.latency
                held[plane], since[plane] = needed, step
                mask |= 1 << plane
            work[mask] += send
        return total + makespan(np.array(work))


def _choices(loads: _Loads, needed: int) -> Iterator[tuple[int, ...]]:
    """Planes that hold what is needed, or these and the least busy of the others, one by one."""
    order = sorted(range(len(loads.held)), key=lambda plane: (loads.busy[plane], plane))
    holding = [plane for plane in order if loads.held[plane] == needed]
    others = [plane for plane in order if loads.held[plane] != needed]
    first_of = {loads.held[plane]: plane for plane in reversed(others)}
    distinct = [plane for plane in others if first_of[loads.held[plane]] == plane]
    for some in ([], *([plane] for plane in distinct), others[:2], others):
        if holding or some:
            yield tuple(sorted(holding + some))
    if len(holding) > 1:
        yield tuple(sorted(holding[:-1]))


def _served(
    loads: _Loads, planes: tuple[int, ...], needed: int, send: float, dead: list[float]
) -> _Loads:
    """The loads after the planes share the sends so that the least busy gets most."""
    held, busy = list(loads.held), list(loads.busy)
    for plane in planes:
        busy[plane] += dead[held[plane]]
        held[plane] = needed
    ends = sorted(busy[plane] for plane in planes)
    level = min((send + sum(ends[:many])) / many for many in range(1, len(ends) + 1))
    for plane in planes:
        busy[plane] = max(busy[plane], level)
    return _Loads(tuple(held), tuple(busy), (loads.chain, planes))


def _kept(grown: list[_Loads]) -> list[_Loads]:
    """The first ones, a few of those that hold the same."""
    seen: dict[tuple[int, ...], int] = {}
    kept = []
    for loads in grown:
        state = tuple(sorted(loads.held))
        seen[state] = seen.get(state, 0) + 1
        if seen[state] <= _PER_STATE:
            kept.append(loads)
    return kept[:_WIDTH]


AUTO, LABELS, MILP, FAST = "auto", "labels", "milp", "fast"
PLANE_METHODS = (AUTO, LABELS, MILP, FAST)
"""Ways to plan: labels and milp prove the optimum, fast gives a bound with its plan."""

_LABEL_STEPS = 2000
_MILP_USES, _STOPPED_USES = 64, 20
_IMPROVED_STEPS = 256
"""Steps of a fabric that stops, up to which single planes are moved to improve a usage."""
_ALL = LabelEffort(20_000, 1024)
"""Labels, and points of one, of the search that means to prove the optimum."""
_SOME = LabelEffort(24, 16)
_FEW = LabelEffort(200, leave_early=False)
"""For more planes than polyhedra of times are small for."""


def plan_planes(
    problem: PlaneProblem, method: str = AUTO, options: Options = DEFAULT_OPTIONS
) -> PlanePlan:
    """Which planes serve which steps, and when they change, so that all ends as early as it can.

    ``method`` is one of PLANE_METHODS: "labels" is the dynamic program over what planes hold (with
    barriers), "milp" a mixed-integer program with these options, "fast" a narrow search with a
    bound. "auto" takes labels as far as they go, then milp where it is small, then fast. Raises
    ValueError for a method that cannot take the problem.

    >>> from ocs_codesign.circuits.planes.problem import PlaneProblem
    >>> from ocs_codesign.circuits.change import Change
    >>> problem = PlaneProblem((0, 1, 1, 0), (4e6, 2e6, 2e6, 4e6), 2, 50e9,
    ...                        Change(200e-6))
    >>> plan = plan_planes(problem)
    >>> plan.total_s, plan.usage, plan.is_optimal
    (Fraction(11, 25000), ((0,), (1,), (1,), (0,)), True)
    """
    if method not in PLANE_METHODS:
        raise ValueError(f"unknown method {method!r}: expected one of {', '.join(PLANE_METHODS)}")
    if method == AUTO:
        method = _method_for(problem)
    if method == LABELS:
        plan = _by_labels(problem)
    elif method == MILP:
        plan = by_milp(problem, _quick_usage(problem)[0], options)
    else:
        plan = _quickly(problem)
    return _checked(plan, method)


def plan_of_usage(problem: PlaneProblem, usage: Sequence[Sequence[int]]) -> PlanePlan:
    """The best times when these planes serve the steps; no bound is proven on other usages."""
    return _checked(timed(problem, usage), "given")


def _method_for(problem: PlaneProblem) -> str:
    if problem.cost.barrier:
        small = problem.num_planes <= LABEL_PLANES and problem.num_steps <= _LABEL_STEPS
        return LABELS if small or not problem.cost.overlap else FAST
    uses = _MILP_USES if problem.cost.overlap else _STOPPED_USES
    return MILP if problem.num_planes * problem.num_steps <= uses else FAST


def _by_labels(problem: PlaneProblem) -> PlanePlan:
    """The exact dynamic program over what planes hold, ``stopping`` without overlap.

    Beyond 20,000 labels a step, and 1024 points a label, the best are kept, and what they prove is
    a bound. ValueError without barriers.
    """
    if not problem.cost.barrier:
        raise ValueError("labels are for steps that a barrier separates: take milp or fast")
    if not problem.cost.overlap:
        return timed(problem, *stopping(problem))
    unit = unit_of(problem)
    found = search(Entries.of(problem, unit), _ALL)
    status = f"label search, up to {found.most_labels} labels after a step"
    return timed(problem, found.usage, Fraction(found.bound) * unit, status)


def _quickly(problem: PlaneProblem) -> PlanePlan:
    """The best usage of a narrow search, with the best bound that is cheap."""
    usage, bound = _quick_usage(problem)
    bound = max(bound, held_bound_s(problem))
    if problem.cost.barrier and problem.cost.overlap:
        bound = max(bound, window_bound_s(problem))
    status = "narrow search, bounded by windows and held configurations"
    return timed(problem, usage, bound, status)


def _quick_usage(problem: PlaneProblem) -> tuple[Usage, Fraction]:
    """The usage alone, with the bound that comes with it."""
    cost = problem.cost
    if cost.barrier and not cost.overlap:
        usage, bound, _ = stopping(problem)
        return usage, timed(problem, usage).total_s if bound is None else bound
    if not cost.overlap:
        usages = [stopping(problem)[0], usage_of(problem, by_stretches(problem))]
        if problem.num_steps <= _IMPROVED_STEPS:
            usages += [improved(problem, usage) for usage in usages]
        return min(usages, key=lambda usage: timed(problem, usage).total_s), Fraction(0)
    if not cost.barrier:
        return improved(problem, balanced_usage(problem)), Fraction(0)
    unit = unit_of(problem)
    effort = _SOME if problem.num_planes <= LABEL_PLANES else _FEW
    found = search(Entries.of(problem, unit), effort)
    return found.usage, max(Fraction(0), Fraction(max(found.bound, 0.0)) * unit)


def _checked(plan: PlanePlan, method: str) -> PlanePlan:
    """The plan of a method; RuntimeError if its timeline is wrong."""
    witness = check_timeline(plan.problem, plan.timeline)
    if witness is not None:
        raise RuntimeError(f"the timeline of this plan is wrong: {witness}")
    return replace(plan, method=method)


# Planes that make one configuration each and keep it: what changing circuits is compared with.


def static_plan_of_planes(problem: PlaneProblem) -> PlanePlan | None:
    """The best plan found in which no plane changes after the beginning, None if there is none.

    Planes that hold nothing make one configuration each and keep it, and every plane serves all
    steps of what it holds. How many planes make what is the best for the sends: where all planes
    are ready together, that is the best of all. There is no such plan if more configurations are
    needed than planes can have.
    """
    work: Work = {}
    for step in range(problem.num_steps):
        add_step(problem, work, step)
    count = planes_given(problem, work, problem.held.count(None))
    if count is None:
        return None
    held = list(problem.held)
    for needed in sorted(count):
        for _ in range(count[needed] - held.count(needed)):
            held[held.index(None)] = needed
    return plan_of_usage(
        problem,
        [
            [plane for plane, holds in enumerate(held) if holds == needed]
            for needed in problem.configurations
        ],
    )
