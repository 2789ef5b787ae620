"""Answers about planes that change circuits one by one: plan, comparisons, steps, timeline."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.quantities import format_size, format_time
from ocs_codesign.timeline import Activity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.step_files import StepList
    from ocs_codesign.reconfigure.planes.problem import PlanePlan
    from ocs_codesign.timeline import Interval, Timeline

_LONGEST = 24
_CHANGES = ("the whole fabric stops for a change", "planes change while others send")


@final
@dataclass(frozen=True, slots=True)
class PlanesAnswer:
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


def planes_json(answer: PlanesAnswer) -> dict[str, Any]:
    """The JSON form; exact times are texts of fractions, in seconds."""
    plan, names, static = answer.plan, answer.listed.names, answer.static
    problem = plan.problem
    return {
        "file": answer.file,
        "configurations": list(names),
        "planes": problem.num_planes,
        "plane_bandwidth_Bps": float(problem.plane_bandwidth_Bps),
        "delta_s": float(problem.cost.fixed_s),
        "delta_per_circuit_s": float(problem.cost.per_circuit_s),
        "latency_s": float(problem.latency_s),
        "held": _named(problem.held, names),
        "cold_start": problem.cost.cold_start,
        "overlap": problem.cost.overlap,
        "barrier": problem.cost.barrier,
        **_proven_json(plan),
        "method": plan.method,
        "status": plan.status,
        "dead_s": float(plan.timeline.busy_s(Activity.RECONFIGURE)),
        "silent_s": float(_silent_s(plan)),
        "compared": {
            "serial" if problem.cost.overlap else "overlap": _proven_json(answer.other),
            "static": static
            and {**_time_json(static), "held": _named(_static_held(static), names)},
        },
        "steps": _steps(answer),
        "timeline": timeline_json(plan.timeline, names),
    }


def timeline_json(timeline: Timeline, names: Sequence[str]) -> list[dict[str, Any]]:
    """An object an interval; times and bytes are exact, as text, and rounded, as numbers."""
    return [
        {
            "plane": row.plane,
            "activity": row.activity.value,
            "start_s": float(row.start_s),
            "end_s": float(row.end_s),
            "start_s_exact": str(row.start_s),
            "end_s_exact": str(row.end_s),
            "configuration": None if row.configuration is None else names[row.configuration],
            "step": row.step,
            "bytes": float(row.bytes),
            "bytes_exact": str(row.bytes),
        }
        for row in timeline
    ]


def timeline_table(timeline: Timeline, names: Sequence[str]) -> Table:
    """A row an interval.

    >>> from ocs_codesign.timeline import Interval, Timeline
    >>> row = Interval(1, Fraction(0), Fraction(1, 5), Activity.SEND, 0, 1, Fraction(10))
    >>> timeline_table(Timeline.of([row]), ["ring"]).rows
    [('1', '0', '200000', 'send', 'ring', '1', '10')]
    """
    columns = ("plane", "start (us)", "end (us)", "activity", "configuration", "step", "bytes")
    rows = [
        (
            str(row.plane),
            f"{float(row.start_s * 10**6):.6g}",
            f"{float(row.end_s * 10**6):.6g}",
            row.activity.value,
            "" if row.configuration is None else names[row.configuration],
            "" if row.step is None else str(row.step),
            f"{float(row.bytes):.6g}" if row.activity is Activity.SEND else "",
        )
        for row in timeline
    ]
    return Table(columns, rows, numbers=3, texts=1)


def planes_sections(answer: PlanesAnswer) -> Iterator[Section]:
    """Facts, a table of the steps and the timeline."""
    yield _facts(answer)
    rows = [
        (
            str(step["step"]),
            *(format_time(step["begin_s"]), format_time(step["end_s"]), format_size(step["bytes"])),
            step["configuration"],
            *(", ".join(map(str, step[name])) for name in ("planes", "changed")),
            format_time(step["dead_s"]) if step["changed"] else "",
        )
        for step in _steps(answer)
    ]
    columns = ("step", "begin", "end", "size", "configuration", "planes", "changed", "dead time")
    yield ""
    yield Table(columns, rows, numbers=4, texts=1).shortened("steps")
    yield ""
    yield timeline_table(answer.plan.timeline, answer.listed.names).shortened("intervals")


def _steps(answer: PlanesAnswer) -> list[dict[str, Any]]:
    """An object a step: who sends from when to when, who changed for it, and how long in all."""
    problem = answer.plan.problem
    sends: list[list[Interval]] = [[] for _ in problem.configurations]
    changes: list[dict[int, Fraction]] = [{} for _ in problem.configurations]
    changed: dict[int, Fraction] = {}
    for row in answer.plan.timeline:
        if row.activity is Activity.RECONFIGURE:
            changed[row.plane] = row.end_s - row.start_s
        elif row.step is not None:
            sends[row.step - 1].append(row)
            if row.plane in changed:
                changes[row.step - 1][row.plane] = changed.pop(row.plane)
    return [
        {
            "step": at + 1,
            "configuration": answer.listed.names[problem.configurations[at]],
            "bytes": float(problem.step_bytes[at]),
            "planes": [row.plane for row in sends[at]],
            "changed": list(changes[at]),
            "dead_s": float(sum(changes[at].values())),
            "begin_s": float(min(row.start_s for row in sends[at])),
            "end_s": float(max(row.end_s for row in sends[at])),
        }
        for at in range(problem.num_steps)
    ]


def _proven_json(plan: PlanePlan) -> dict[str, Any]:
    return {
        **_time_json(plan),
        "bound_s": float(plan.lower_bound_s),
        "bound_exact_s": str(plan.lower_bound_s),
        "gap": float(plan.gap),
        "optimal": plan.is_optimal,
        "proven_exactly": not plan.gap,
    }


def _time_json(plan: PlanePlan) -> dict[str, Any]:
    return {"time_s": float(plan.total_s), "time_exact_s": str(plan.total_s)}


def _facts(answer: PlanesAnswer) -> Facts:
    plan, problem, cost = answer.plan, answer.plan.problem, answer.plan.problem.cost
    latency = f", {_time(problem.latency_s)} latency a step" if problem.latency_s else ""
    each = f" and {_time(cost.per_circuit_s)} for every circuit" if cost.per_circuit_s else ""
    proof = f"at most {float(plan.gap):.2%} above the best"
    if plan.is_optimal:
        rounding = f"optimal but for rounding (at most {float(plan.gap):.0e} above the best)"
        proof = rounding if plan.gap else "proven optimal"
    other = answer.other
    gap = "" if other.is_optimal else f", at most {float(other.gap):.2%} above the best"
    dead, silent = plan.timeline.busy_s(Activity.RECONFIGURE), _silent_s(plan)
    return Facts(
        (
            "steps",
            f"{answer.file}: {counted(problem.num_steps, 'step')}, "
            f"{format_size(float(sum(problem.step_bytes)))} a node, "
            f"{counted(len(answer.listed.names), 'configuration')}",
        ),
        (
            "planes",
            f"{problem.num_planes}, {float(problem.plane_bandwidth_Bps * 8) / 1e9:.6g} Gb/s each"
            f"{latency}",
        ),
        ("used by no step", ", ".join(answer.listed.unused) or None),
        ("change", f"{_time(cost.fixed_s)} dead time{each}"),
        (
            "rules",
            f"{_CHANGES[1] if cost.overlap else 'all stop for a change'}, "
            f"{'barriers between steps' if cost.barrier else 'no barriers'}, "
            f"{'cold' if cost.cold_start else 'warm'} start",
        ),
        ("time", f"{_exactly(plan.total_s)}, {proof}"),
        ("bound", f"{_exactly(plan.lower_bound_s)}, {plan.method}: {plan.status}"),
        (
            "dark",
            f"planes are in changes for {float(dead / (plan.total_s * problem.num_planes)):.1%} "
            f"of their time; no plane sends for {_time(silent)} "
            f"({float(silent / plan.total_s):.1%})",
        ),
        (
            "all stop" if cost.overlap else "planes change",
            f"{_times(answer.other, plan)} if {_CHANGES[not cost.overlap]}{gap}",
        ),
        ("no changes", _static_text(answer)),
    )


def _static_text(answer: PlanesAnswer) -> str:
    if answer.static is None:
        return "more configurations are needed than the planes can hold"
    held = _named(_static_held(answer.static), answer.listed.names)
    what = ", ".join("nothing" if name is None else name for name in held)
    return f"{_times(answer.static, answer.plan)} if the planes hold {what}"


def _times(other: PlanePlan, plan: PlanePlan) -> str:
    """A time, and how many times the plan's it is."""
    ratio = f"{float(other.total_s / plan.total_s):.4g}"
    return f"{_time(other.total_s)} ({'as long' if ratio == '1' else f'{ratio} times'})"


def _silent_s(plan: PlanePlan) -> Fraction:
    """How long no plane sends."""
    silent, now = Fraction(0), Fraction(0)
    sends = [row for row in plan.timeline if row.activity is Activity.SEND]
    for row in sorted(sends, key=lambda send: send.start_s):
        silent += max(Fraction(0), row.start_s - now)
        now = max(now, row.end_s)
    return silent


def _static_held(plan: PlanePlan) -> list[int | None]:
    """What every plane holds all the time."""
    held = list(plan.problem.held)
    for needed, planes in zip(plan.problem.configurations, plan.usage, strict=True):
        for plane in planes:
            held[plane] = needed
    return held


def _named(held: Sequence[int | None], names: Sequence[str]) -> list[str | None]:
    return [None if configuration is None else names[configuration] for configuration in held]


def _time(seconds: Fraction) -> str:
    return format_time(float(seconds))


def _exactly(seconds: Fraction) -> str:
    """A time, and the fraction while it is short."""
    text, exactly = _time(seconds), f"{seconds} s"
    return text if exactly == text or len(exactly) > _LONGEST else f"{text} ({exactly})"
