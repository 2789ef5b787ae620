"""What ``select`` prints and writes of a selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.plan.sections import time_text
from ocs_codesign.answers.texts import cost_json
from ocs_codesign.cli.output import show_facts, show_table
from ocs_codesign.cli.select_sentences import sentences
from ocs_codesign.quantities import exact, format_bandwidth, format_size

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.fabric.selection import RankedPlan, Selection
    from ocs_codesign.fabric.selection_steps import PartTime

MAX_BROKEN_DOWN = 3
MAX_EXCLUDED = 20


def selection_json(selection: Selection, top: int) -> dict[str, Any]:
    """The selection as JSON; exact times are fractions of seconds as text."""
    fabric, workload, inside = selection.fabric, selection.workload, selection.inside
    return {
        "fabric": fabric.name,
        "nodes": fabric.num_working_hosts,
        "degree": fabric.num_ports_per_host,
        "workload": workload.name,
        "reconfiguration": workload.allowed.value,
        "collectives": workload.trace.num_jobs,
        "compute_s": str(workload.trace.compute_s),
        "num_ranked": len(selection.ranked),
        "ranked": [_plan_json(selection, plan) for plan in selection.ranked[:top]],
        "excluded": [
            {"design": one.name, "reason": one.reason, "sentence": one.sentence}
            for one in selection.excluded
        ],
        "inside": None
        if inside is None
        else {
            "configurations": inside.num_configurations,
            "saved_s_at_most": str(inside.saved_s),
            "dead_s_at_least": str(inside.dead_s),
            "sequences_tried": len(inside.sequences),
        },
        "sentences": sentences(selection),
    }


def _plan_json(selection: Selection, plan: RankedPlan) -> dict[str, Any]:
    return {
        "kind": plan.kind.value,
        "designs": [option.name for option in plan.options],
        "total_s": str(plan.total_s),
        "total_s_float": float(plan.total_s),
        "alpha_s": str(plan.alpha_s),
        "bandwidth_s": str(plan.bandwidth_s),
        "reconfiguration_s": str(plan.reconfiguration_s),
        "hidden_s": str(plan.hidden_s),
        "num_changes": plan.num_changes,
        "parts": [
            {
                "name": selection.workload.parts[one.part].name,
                "collective": one.collective.name,
                "phase": one.phase or None,
                "design": plan.options[one.option].name,
                "count": one.count,
                "cost": cost_json(one.cost),
                "alpha_s": str(one.alpha_s),
                "bandwidth_s": str(one.bandwidth_s),
                "reconfiguration_s": str(one.reconfiguration_s),
                "total_s_float": float(one.total_s),
            }
            for one in plan.times
        ],
    }


def show_selection(console: Console, selection: Selection, top: int) -> None:
    """Print the ranking, break-downs of the first plans, what was left out, and what it means."""
    fabric, workload = selection.fabric, selection.workload
    model = fabric.cost_model
    bandwidth = format_bandwidth(model.node_bandwidth_Bps)
    show_facts(
        console,
        [
            (
                "fabric",
                f"{fabric.name}: {fabric.num_working_hosts} hosts, {fabric.num_planes} planes",
            ),
            ("bandwidth, alpha", f"{bandwidth} a node, {time_text(exact(model.alpha_s))}"),
            ("workload", f"{workload.name}: {workload.trace.num_jobs} collectives"),
            ("changes of circuits", workload.allowed.value),
            ("computation between", time_text(workload.trace.compute_s)),
        ],
    )
    console.print()
    shown = selection.ranked[:top]
    _show_ranking(console, shown)
    if len(selection.ranked) > len(shown):
        console.print(f"{len(selection.ranked) - len(shown)} more: --top shows them.")
    for number, plan in enumerate(shown[:MAX_BROKEN_DOWN], 1):
        console.print(f"\n{number}. {plan.name}")
        _show_parts(console, selection, plan)
    if selection.excluded:
        console.print("\nLeft out:")
        rows = [(one.name, one.reason, one.sentence) for one in selection.excluded[:MAX_EXCLUDED]]
        show_table(console, ("design", "reason", "why"), rows, texts=1)
        if len(selection.excluded) > MAX_EXCLUDED:
            console.print(f"{len(selection.excluded) - MAX_EXCLUDED} more: see --json.")
    console.print()
    for sentence in sentences(selection):
        console.print(sentence)


def _show_ranking(console: Console, plans: tuple[RankedPlan, ...]) -> None:
    rows = [
        (
            str(number),
            time_text(plan.total_s),
            time_text(plan.alpha_s),
            time_text(plan.bandwidth_s),
            time_text(plan.reconfiguration_s),
            str(plan.num_changes),
            plan.name,
        )
        for number, plan in enumerate(plans, 1)
    ]
    columns = ("rank", "total", "steps", "bytes", "circuits", "changes", "design")
    show_table(console, columns, rows, 6, texts=1)


def _show_parts(console: Console, selection: Selection, plan: RankedPlan) -> None:
    columns = ["count", "message", "steps", "t_b", "alpha", "bytes", "circuits", "total", "part"]
    several = len(plan.options) > 1
    rows = [_part_row(selection, plan, one, several) for one in plan.times]
    show_table(console, [*columns, "design"] if several else columns, rows, 8, texts=1)


def _part_row(
    selection: Selection, plan: RankedPlan, one: PartTime, several: bool
) -> tuple[str, ...]:
    part = selection.workload.parts[one.part]
    name = f"{part.name}, phase {one.phase}" if one.phase else part.name
    times = (one.alpha_s, one.bandwidth_s, one.reconfiguration_s, one.total_s)
    cells = (
        str(one.count),
        format_size(float(part.job.message_bytes)),
        str(one.cost.steps),
        f"{float(one.cost.t_b):.5g}",
        *(time_text(time) for time in times),
        name,
    )
    return (*cells, plan.options[one.option].name) if several else cells
