"""The answer of ``ocs-codesign planes`` as data: plan, comparisons, steps, JSON."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.formats.step_files import StepList
    from ocs_codesign.reconfigure import PlanePlan


@final
@dataclass(frozen=True, slots=True)
class Report:
    """A plan for the steps in a file, and what it is compared with.

    ``other`` is a plan where the whole fabric stops for changes, or, if it does so in ``plan``,
    where planes change while others send; ``static`` one whose planes never change, if there is
    any.
    """

    file: str
    listed: StepList
    plan: PlanePlan
    other: PlanePlan
    static: PlanePlan | None


@final
@dataclass(frozen=True, slots=True)
class StepRow:
    """What happens in a step: who sends from when to when, who changed for it and for how long."""

    begin_s: Fraction
    end_s: Fraction
    planes: tuple[int, ...]
    changed: tuple[int, ...]
    dead_s: Fraction


def step_rows(plan: PlanePlan) -> list[StepRow]:
    """The steps of a plan in order; ``dead_s`` adds up over the planes that changed."""
    from ocs_codesign.reconfigure import Activity

    sends: defaultdict[int, list[tuple[Fraction, Fraction, int]]] = defaultdict(list)
    changes: defaultdict[int, list[tuple[int, Fraction]]] = defaultdict(list)
    changed: dict[int, Fraction] = {}
    for one in plan.timeline:
        if one.activity is Activity.RECONFIGURE:
            changed[one.plane] = one.end_s - one.start_s
        elif one.step is not None:
            sends[one.step].append((one.start_s, one.end_s, one.plane))
            if one.plane in changed:
                changes[one.step].append((one.plane, changed.pop(one.plane)))
    return [
        StepRow(
            min(start for start, _, _ in sends[step]),
            max(end for _, end, _ in sends[step]),
            tuple(sorted(plane for _, _, plane in sends[step])),
            tuple(plane for plane, _ in changes[step]),
            sum((dead for _, dead in changes[step]), Fraction(0)),
        )
        for step in range(1, plan.problem.num_steps + 1)
    ]


def silent_s(plan: PlanePlan) -> Fraction:
    """How long no plane sends."""
    from ocs_codesign.reconfigure import Activity

    silent, now = Fraction(0), Fraction(0)
    sends = [one for one in plan.timeline if one.activity is Activity.SEND]
    for one in sorted(sends, key=lambda each: each.start_s):
        silent += max(Fraction(0), one.start_s - now)
        now = max(now, one.end_s)
    return silent


def planes_json(report: Report) -> dict[str, Any]:
    """The JSON form of a report; exact times are texts of fractions, in seconds."""
    plan, names = report.plan, report.listed.names
    problem = plan.problem
    return {
        "file": report.file,
        "configurations": list(names),
        "planes": problem.num_planes,
        "plane_bandwidth_Bps": float(problem.plane_bandwidth_Bps),
        "delta_s": float(problem.cost.fixed_s),
        "delta_per_circuit_s": float(problem.cost.per_circuit_s),
        "latency_s": float(problem.latency_s),
        "held": [None if one is None else names[one] for one in problem.held],
        "cold_start": problem.cost.cold_start,
        "overlap": problem.cost.overlap,
        "barrier": problem.cost.barrier,
        **_plan_json(plan),
        "method": plan.method,
        "status": plan.status,
        "dead_s": float(dead_s(plan)),
        "silent_s": float(silent_s(plan)),
        "compared": {
            "serial" if problem.cost.overlap else "overlap": _plan_json(report.other),
            "static": None if report.static is None else _static_json(report.static, names),
        },
        "steps": [
            {
                "step": at,
                "configuration": names[problem.configurations[at - 1]],
                "bytes": float(problem.step_bytes[at - 1]),
                "planes": list(row.planes),
                "changed": list(row.changed),
                "dead_s": float(row.dead_s),
                "begin_s": float(row.begin_s),
                "end_s": float(row.end_s),
            }
            for at, row in enumerate(step_rows(plan), 1)
        ],
        "timeline": plan.timeline.as_json(names),
    }


def _plan_json(plan: PlanePlan) -> dict[str, Any]:
    return {
        "time_s": float(plan.total_s),
        "time_exact_s": str(plan.total_s),
        "bound_s": float(plan.lower_bound_s),
        "bound_exact_s": str(plan.lower_bound_s),
        "gap": float(plan.gap),
        "optimal": plan.is_optimal,
    }


def _static_json(plan: PlanePlan, names: Sequence[str]) -> dict[str, Any]:
    held = static_held(plan)
    return {
        "time_s": float(plan.total_s),
        "time_exact_s": str(plan.total_s),
        "held": [None if one is None else names[one] for one in held],
    }


def static_held(plan: PlanePlan) -> list[int | None]:
    """What every plane holds all the time."""
    held = list(plan.problem.held)
    for one, planes in zip(plan.problem.configurations, plan.usage, strict=True):
        for plane in planes:
            held[plane] = one
    return held


def dead_s(plan: PlanePlan) -> Fraction:
    """How long planes are in changes, added up over the planes."""
    from ocs_codesign.reconfigure import Activity

    return plan.timeline.busy_s(Activity.RECONFIGURE)
