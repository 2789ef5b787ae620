"""``ocs-codesign plan``: which design a fabric holds for which jobs of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import click

from ocs_codesign.cli.options import (
    alpha_option,
    bandwidth_option,
    json_option,
    printable,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import Progress, progress
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from ocs_codesign.question import Question
    from ocs_codesign.recipe import Recipe
    from ocs_codesign.reconfigure import FabricOption, Trace, TracePlan

COLD, WARM = "cold", "warm"


@click.command(short_help="Plan when to change the topology over a trace of jobs.")
@click.argument("trace", metavar="TRACE")
@click.option("--nodes", "num_nodes", type=click.IntRange(2), required=True, help="Nodes N.")
@click.option("--degree", type=click.IntRange(1), required=True, help="Ports of a node d.")
@click.option("--designs", multiple=True, metavar="RECIPE", help="A design; may be given often.")
@click.option(
    "--catalogue",
    "catalogue_path",
    metavar="FILE",
    help="Designs of a catalogue; the one shipped if there are neither --designs nor a FILE.",
)
@click.option("--bidirectional", is_flag=True, help="Designs with every link in both directions.")
@quantity_option("--delta", parse_time, "Dead time of a change of circuits, such as 25ms.")
@quantity_option("--delta-per-circuit", parse_time, "What every changed circuit adds to it.")
@alpha_option
@bandwidth_option
@click.option(
    "--start",
    metavar="RECIPE",
    default=COLD,
    show_default=True,
    help="The design held before the trace; cold: none, and the first one takes its dead time "
    "too; warm: the first one is up already.",
)
@click.option("--plot", metavar="FILE", help="Draw the timeline: .png, .svg or .pdf.")
@json_option
def plan(
    trace: str,
    num_nodes: int,
    degree: int,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    bidirectional: bool,
    delta: float | None,
    delta_per_circuit: float | None,
    alpha: float | None,
    bandwidth: float | None,
    start: str,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Plan which design a fabric of N nodes with d ports holds for which jobs of a TRACE.

    TRACE is a CSV file with the columns collective, message, and if wanted gap, gap_after and
    count, or JSON with jobs of the same keys. The fabric stops for a change of circuits, but for
    what a gap (computation that needs no circuits) hides. The plan is optimal in hindsight, with
    proof; next to it are an online policy that sees no future, the best single design, and the
    break-even dead times.
    """
    if delta is None or alpha is None or bandwidth is None:
        raise click.UsageError("--delta, --alpha and --bandwidth are needed")
    _check_plot(plot)
    check_outputs(json_path, plot)
    from ocs_codesign.cost import CostModel
    from ocs_codesign.formats.trace.trace_files import read_trace
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure import ReconfigurationCost, plan_trace

    question = Question(num_nodes, degree, bidirectional)
    model = CostModel(alpha, bandwidth)
    cost = ReconfigurationCost(delta, delta_per_circuit or 0, cold_start=start != WARM)
    jobs = read_trace(trace)
    with progress("Measuring designs") as shown:
        found = _options(question, designs, catalogue_path, start, jobs, shown)
        answer = plan_trace(
            jobs,
            found.options,
            model,
            cost,
            start=found.start,
            on_progress=lambda done, total: shown.tell_phase("Planning", done, total),
        )
        files = {} if plot is None else {plot: _figure(answer, question, plot)}
    from ocs_codesign.cli.plan_json import plan_json
    from ocs_codesign.cli.plan_report import show_plan

    name = printable(Path(trace).name)
    emit(
        plan_json(answer, name, question, found.left_out),
        json_path,
        lambda console: show_plan(console, answer, name, question, found.left_out),
        files,
    )


@final
@dataclass(frozen=True, slots=True)
class _Found:
    """Designs to choose from, the one held before the trace, and those left out as too large."""

    options: tuple[FabricOption, ...]
    start: int | None
    left_out: tuple[str, ...]


def _options(
    question: Question,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    start: str,
    trace: Trace,
    shown: Progress,
) -> _Found:
    from ocs_codesign.recipe import parse
    from ocs_codesign.reconfigure.hold.options import catalogue_recipes, recipe_options
    from ocs_codesign.search.catalogue.store import Catalogue

    recipes = [parse(text) for text in designs]
    held = None if start in {COLD, WARM} else parse(start)
    named = recipes if held is None else [*recipes, held]
    for recipe in named:
        _check_size(recipe, question)
    left_out: tuple[str, ...] = ()
    if catalogue_path is not None or not designs:
        with Catalogue(catalogue_path) as store:
            stored = catalogue_recipes(store, question, trace.collectives)
        named += stored.recipes
        left_out = tuple(repr(recipe) for recipe in stored.left_out)
    if not named:
        raise ValueError(
            f"all {len(left_out)} designs of the catalogue for {question.num_nodes} nodes of "
            f"degree {question.degree} are too large to solve their all-to-all in passing: name "
            "some with --designs"
        )
    distinct = list(dict.fromkeys(named))
    options = recipe_options(distinct, trace.collectives, shown.tell)
    return _Found(options, None if held is None else distinct.index(held), left_out)


def _check_size(recipe: Recipe, question: Question) -> None:
    if not question.is_answered_by(recipe):
        if (recipe.num_nodes, recipe.degree) == (question.num_nodes, question.degree):
            raise ValueError(f"{recipe!r} does not have every link in both directions")
        raise ValueError(
            f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}: the fabric has "
            f"{question.num_nodes} of degree {question.degree}"
        )


def _check_plot(plot: str | None) -> None:
    if plot is not None:
        from ocs_codesign.plot import check_suffix

        check_suffix(Path(plot).suffix)


def _figure(answer: TracePlan, question: Question, plot: str) -> bytes:
    from ocs_codesign.cli.plan_sentences import delta_text
    from ocs_codesign.plot import figure_bytes, trace_figure

    title = (
        f"{question.num_nodes} nodes of degree {question.degree}, "
        f"delta {delta_text(answer)}: which design is held"
    )
    return figure_bytes(trace_figure(answer, title), Path(plot).suffix)
