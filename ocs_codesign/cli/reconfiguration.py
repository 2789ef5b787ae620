"""``frontier --reconfiguration``: designs that change circuits against the best that never do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.output import emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.reconfiguration_text import gain_of, show_reconfigured
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.frontier.reconfigured import ReconfiguredFrontier
    from ocs_codesign.reconfigure.frontier.sources import ReconfiguredCandidate

    Workload = tuple[CostModel, float]

COLLECTIVES = ("allreduce", "alltoall")


def _read_times(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[float, ...]:
    try:
        return tuple(parse_time(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def reconfiguration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --reconfiguration and --max-configurations."""
    most = click.option(
        "--max-configurations",
        type=click.IntRange(min=1),
        help="With --reconfiguration: most configurations held in turn (default 16).",
    )
    delta = click.option(
        "--reconfiguration",
        "deltas",
        multiple=True,
        callback=_read_times,
        metavar="QUANTITY",
        help="Dead time of a change of circuits, such as 10us; may be repeated.",
    )
    return delta(most(command))


def check_reconfiguration(
    collective: str,
    deltas: Sequence[float],
    *,
    joint: bool,
    bidirectional: bool,
    show_all: bool,
) -> None:
    """UsageError for what the frontier with reconfiguration does not answer."""
    if not deltas:
        raise click.UsageError("--max-configurations is only given with --reconfiguration")
    if collective not in COLLECTIVES:
        raise click.UsageError(
            f"--reconfiguration is for --collective {' or '.join(COLLECTIVES)}, not {collective}"
        )
    if joint or bidirectional or show_all:
        raise click.UsageError("--reconfiguration excludes --joint, --bidirectional and --all")


def frontier_with_reconfiguration(
    num_nodes: int,
    degree: int,
    collective: str,
    deltas: Sequence[float],
    max_configurations: int | None,
    workload: Workload | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Search, print and write the frontier with reconfiguration."""
    from ocs_codesign.reconfigure.frontier.reconfigured import (
        MAX_CONFIGURATIONS,
        reconfigured_frontier,
    )

    most = MAX_CONFIGURATIONS if max_configurations is None else max_configurations
    with progress("Searching") as shown:
        answer = reconfigured_frontier(
            num_nodes,
            degree,
            collective,
            max_configurations=most,
            on_progress=shown.tell_phase,
        )
        files = {} if plot is None else {plot: _figure(answer, deltas, workload, plot)}
    emit(
        reconfigured_json(answer, deltas, workload),
        json_path,
        lambda console: show_reconfigured(console, answer, deltas, workload),
        files,
    )


def _figure(
    answer: ReconfiguredFrontier, deltas: Sequence[float], workload: Workload | None, plot: str
) -> bytes:
    from pathlib import Path

    from ocs_codesign.plot import figure_bytes
    from ocs_codesign.plot.reconfiguration import reconfigured_figure

    return figure_bytes(reconfigured_figure(answer, deltas, workload), Path(plot).suffix)


def reconfigured_json(
    answer: ReconfiguredFrontier, deltas: Sequence[float], workload: Workload | None
) -> dict[str, Any]:
    """The JSON form of a frontier with reconfiguration, with times if there is a workload."""
    value: dict[str, Any] = {
        "nodes": answer.num_nodes,
        "degree": answer.degree,
        "collective": answer.collective.name,
        "max_configurations": answer.max_configurations,
        "reconfiguration_s": list(deltas),
        "candidates": [_entry(answer, one, deltas, workload) for one in answer.candidates],
        "dominated": [_entry(answer, one, deltas, workload) for one in answer.dominated],
    }
    gain = gain_of(answer)
    if gain is not None:
        value["fewest_allgather_steps"] = gain.fewest_steps
        value["most_steps_saved"] = gain.steps_saved
    if workload is not None:
        model, message_bytes = workload
        value["cost_model"] = {
            "alpha_s": model.alpha_s,
            "node_bandwidth_Bps": model.node_bandwidth_Bps,
            "message_bytes": message_bytes,
        }
        found = answer.break_even(model, message_bytes)
        value["break_even_s"] = None if found is None or not found.pays else float(found.delta_s)
        value["verdicts"] = [_verdict_json(answer, delta, *workload) for delta in deltas]
    return value


def _entry(
    answer: ReconfiguredFrontier,
    one: ReconfiguredCandidate,
    deltas: Sequence[float],
    workload: Workload | None,
) -> dict[str, Any]:
    cost, number = one.switched.cost, one.switched.num_configurations
    least = answer.t_b_bound(number)
    value: dict[str, Any] = {
        "maker": one.maker,
        "label": one.label,
        "recipes": [repr(recipe) for recipe in one.recipes],
        "configurations": number,
        "steps": cost.steps,
        "t_b": str(cost.t_b),
        "t_b_float": float(cost.t_b),
        "proven_bound": None if one.proven is None else str(one.proven),
        "bound": str(least),
        "gap": float(cost.t_b / least - 1),
        "tree_bound": str(answer.t_b_tree_bound(number)),
    }
    if workload is not None:
        value["time_s"] = [float(one.switched.time_s(*workload, delta)) for delta in deltas]
    return value


def _verdict_json(
    answer: ReconfiguredFrontier, delta: float, model: CostModel, message_bytes: float
) -> dict[str, Any]:
    best = answer.best(model, message_bytes, delta)
    static = answer.best_static(model, message_bytes)
    return {
        "reconfiguration_s": delta,
        "best": best.label,
        "configurations": best.switched.num_configurations,
        "time_s": float(best.switched.time_s(model, message_bytes, delta)),
        "static": static.label,
        "static_time_s": float(static.switched.time_s(model, message_bytes, 0)),
        "pays": best.switched.num_configurations > 1,
        "pays_for_bytes": [
            [float(one.begin_bytes), None if one.end_bytes is None else float(one.end_bytes)]
            for one in answer.paying_messages(model, delta)
        ],
    }
