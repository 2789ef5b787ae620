"""``frontier --delta``: designs that change circuits against the best that never do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import quantity_option
from ocs_codesign.cli.output import emit, picked
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import MessageSizes

COLLECTIVES = ("allreduce", "alltoall")


def reconfiguration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --delta, perhaps several, and --max-configurations."""
    most = click.option(
        "--max-configurations",
        type=click.IntRange(min=1),
        help="With --delta: most configurations held in turn (default 16).",
    )
    text = "Dead time of a change of circuits, such as 10us; may be repeated, or 10us,1ms."
    delta = quantity_option("--delta", parse_time, text, "deltas", multiple=True)
    decorated: Callable[..., Any] = delta(most(command))
    return decorated


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
        raise click.UsageError("--max-configurations is only given with --delta")
    if collective not in COLLECTIVES:
        raise click.UsageError(
            f"--delta is for --collective {' or '.join(COLLECTIVES)}, not {collective}"
        )
    if joint or bidirectional or show_all:
        raise click.UsageError("--delta excludes --joint, --bidirectional and --all")


def frontier_with_reconfiguration(
    num_nodes: int,
    degree: int,
    collective: str,
    deltas: Sequence[float],
    max_configurations: int | None,
    asked: MessageSizes | None,
    pick: int | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Search, print and write the frontier with reconfiguration."""
    from ocs_codesign.answers.reconfiguration import reconfiguration_json, reconfiguration_sections
    from ocs_codesign.reconfigure.frontier.reconfigured import (
        MAX_CONFIGURATIONS,
        reconfigured_frontier,
    )

    with progress("Searching") as shown:
        answer = reconfigured_frontier(
            num_nodes,
            degree,
            collective,
            max_configurations=max_configurations or MAX_CONFIGURATIONS,
            on_progress=shown.tell_phase,
        )
        files = {}
        if plot is not None:
            from ocs_codesign.plot import figure_bytes
            from ocs_codesign.plot.reconfiguration import reconfigured_figure

            figure = reconfigured_figure(answer, deltas, asked)
            files[plot] = figure_bytes(figure, Path(plot).suffix)
    sections: Iterable[Section] = reconfiguration_sections(answer, deltas, asked)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(reconfiguration_json(answer, deltas, asked), json_path, sections, files)
