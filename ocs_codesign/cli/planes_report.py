"""What ``ocs-codesign planes`` prints: facts, the steps and the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.cli.output import show_facts, show_table
from ocs_codesign.cli.planes_json import dead_s, silent_s, static_held, step_rows
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from rich.console import Console

    from ocs_codesign.cli.planes_json import Report
    from ocs_codesign.reconfigure import PlanePlan

_HEAD_ROWS, _TAIL_ROWS = 24, 8
_LONGEST = 24


def show_planes(console: Console, report: Report) -> None:
    """Facts, a table of the steps and the timeline."""
    plan, problem = report.plan, report.plan.problem
    cost = problem.cost
    show_facts(
        console,
        [
            (
                "steps",
                f"{report.file}: {_many(problem.num_steps, 'step')}, "
                f"{format_size(float(sum(problem.step_bytes)))} a node, "
                f"{_many(len(report.listed.names), 'configuration')}",
            ),
            ("planes", _planes_text(plan)),
            ("change", _change_text(plan)),
            (
                "rules",
                f"{'planes change while others send' if cost.overlap else 'all stop for a change'}"
                f", {'barriers between steps' if cost.barrier else 'no barriers'}, "
                f"{'cold' if cost.cold_start else 'warm'} start",
            ),
            ("time", _time_text(plan)),
            ("bound", f"{_exactly(plan.lower_bound_s)}, {plan.method}: {plan.status}"),
            ("dark", _dark_text(plan)),
            ("planes change" if not cost.overlap else "all stop", _compared(report.other, plan)),
            ("no changes", _static_text(report)),
        ],
    )
    _show_steps(console, report)
    _show_timeline(console, report)


def _planes_text(plan: PlanePlan) -> str:
    problem = plan.problem
    bits = float(problem.plane_bandwidth_Bps * 8)
    parts = [f"{problem.num_planes}, {bits / 1e9:.6g} Gb/s each"]
    if problem.latency_s:
        parts.append(f"{format_time(float(problem.latency_s))} latency a step")
    return ", ".join(parts)


def _change_text(plan: PlanePlan) -> str:
    cost = plan.problem.cost
    text = f"{format_time(float(cost.fixed_s))} dead time"
    if cost.per_circuit_s:
        text += f" and {format_time(float(cost.per_circuit_s))} for every circuit"
    return text


def _time_text(plan: PlanePlan) -> str:
    proof = "proven optimal" if plan.is_optimal else f"at most {float(plan.gap):.2%} above the best"
    return f"{_exactly(plan.total_s)}, {proof}"


def _dark_text(plan: PlanePlan) -> str:
    dead, silent = dead_s(plan), silent_s(plan)
    share = float(dead / (plan.total_s * plan.problem.num_planes))
    return (
        f"planes are in changes for {share:.1%} of their time; "
        f"no plane sends for {format_time(float(silent))} ({float(silent / plan.total_s):.1%})"
    )


def _compared(other: PlanePlan, plan: PlanePlan) -> str:
    """What the other rule of changes takes."""
    overlap = other.problem.cost.overlap
    what = "planes change while others send" if overlap else "the whole fabric stops for a change"
    gap = "" if other.is_optimal else f", at most {float(other.gap):.2%} above the best"
    return f"{_times(other, plan)} if {what}{gap}"


def _static_text(report: Report) -> str:
    if report.static is None:
        return "more configurations are needed than the planes can hold"
    names = report.listed.names
    held = ", ".join("nothing" if one is None else names[one] for one in static_held(report.static))
    return f"{_times(report.static, report.plan)} if the planes hold {held}"


def _times(other: PlanePlan, plan: PlanePlan) -> str:
    """A time, and how many times the plan's it is."""
    ratio = f"{float(other.total_s / plan.total_s):.4g}"
    return (
        f"{format_time(float(other.total_s))} ({'as long' if ratio == '1' else f'{ratio} times'})"
    )


def _show_steps(console: Console, report: Report) -> None:
    names, problem = report.listed.names, report.plan.problem
    rows: list[tuple[str, ...]] = [
        (
            str(at),
            format_time(float(row.begin_s)),
            format_time(float(row.end_s)),
            format_size(float(problem.step_bytes[at - 1])),
            names[problem.configurations[at - 1]],
            _numbers(row.planes),
            _numbers(row.changed),
            format_time(float(row.dead_s)) if row.changed else "",
        )
        for at, row in enumerate(step_rows(report.plan), 1)
    ]
    headings = ("step", "begin", "end", "size", "configuration", "planes", "changed", "dead time")
    _show_some(console, headings, rows, "steps", numbers=4)


def _show_timeline(console: Console, report: Report) -> None:
    from ocs_codesign.reconfigure.planes.timeline import TABLE_HEADINGS

    rows = report.plan.timeline.as_table(report.listed.names)
    _show_some(console, TABLE_HEADINGS, rows, "intervals", numbers=3)


def _show_some(
    console: Console, headings: Sequence[str], rows: list[tuple[str, ...]], what: str, numbers: int
) -> None:
    """A table without the middle of a long list."""
    left_out = len(rows) - _HEAD_ROWS - _TAIL_ROWS
    if left_out > 1:
        more = ["..."] + [""] * (len(headings) - 1)
        more[-1] = f"{left_out} more {what}: --json FILE has them all"
        rows = [*rows[:_HEAD_ROWS], tuple(more), *rows[-_TAIL_ROWS:]]
    console.print()
    show_table(console, headings, rows, numbers=numbers, texts=1)


def _numbers(planes: Sequence[int]) -> str:
    return ", ".join(map(str, planes))


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _exactly(seconds: Fraction) -> str:
    """A time, and the fraction while it is short."""
    text, exactly = format_time(float(seconds)), f"{seconds} s"
    return text if exactly == text or len(exactly) > _LONGEST else f"{text} ({exactly})"
