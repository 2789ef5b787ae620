"""``ocs-codesign plan``: which design a fabric holds for which jobs of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import FILE, INPUT, plot_option
from ocs_codesign.cli.options import (
    ALPHA,
    COLD,
    EGRESS,
    WARM,
    alpha_option_of,
    bandwidth_option_of,
    delta_option,
    delta_per_circuit_option,
    json_option,
    printable,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.answers.plan.sections import PlannedTrace
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure.hold.trace import Trace


@click.command(short_help="Plan when to change the topology over a trace of jobs.")
@click.argument("trace", type=INPUT, metavar="TRACE")
@click.option("--nodes", "num_nodes", type=click.IntRange(2), required=True, help="Nodes N.")
@click.option("--degree", type=click.IntRange(1), required=True, help="Ports of a node d.")
@click.option("--designs", multiple=True, metavar="RECIPE", help="A design; may be given often.")
@click.option(
    "--catalogue",
    "catalogue_path",
    type=FILE,
    metavar="FILE",
    help="Designs of a catalogue; the one shipped if there are neither --designs nor a FILE.",
)
@click.option("--bidirectional", is_flag=True, help="Designs with every link in both directions.")
@delta_option(required=True)
@delta_per_circuit_option
@alpha_option_of(ALPHA, required=True)
@bandwidth_option_of(EGRESS, required=True)
@click.option(
    "--start",
    metavar="RECIPE",
    default=COLD,
    show_default=True,
    help="The design held before the trace; cold: none, and the first one takes its dead time "
    "too; warm: the first one is up already.",
)
@plot_option("the timeline")
@json_option
def plan(
    trace: str,
    num_nodes: int,
    degree: int,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    bidirectional: bool,
    delta: float,
    delta_per_circuit: float | None,
    alpha: float,
    bandwidth: float,
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

    \b
    Example:
      ocs-codesign example .
      ocs-codesign plan trace.csv --nodes 16 --degree 4 --delta 100us --alpha 10us \\
          --bandwidth 400Gbps
    """
    check_outputs(json_path, plot)
    from ocs_codesign.answers.plan.record import plan_json
    from ocs_codesign.answers.plan.sections import PlannedTrace, plan_sections
    from ocs_codesign.cost import CostModel
    from ocs_codesign.formats.trace_files import read_trace
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.reconfigure.hold.options import recipe_options
    from ocs_codesign.reconfigure.hold.trace_plan import plan_trace

    question = Question(num_nodes, degree, bidirectional)
    model = CostModel(alpha, bandwidth)
    cost = ReconfigurationCost(delta, delta_per_circuit or 0, cold_start=start != WARM)
    held = None if start in {COLD, WARM} else parse(start)
    with progress("Reading the trace") as shown:
        jobs = read_trace(trace)
        shown.tell_phase("Measuring designs")
        recipes, left_out = _recipes(question, designs, catalogue_path, held, jobs)
        planned = plan_trace(
            jobs,
            recipe_options(recipes, jobs.collectives, shown.tell),
            model,
            cost,
            start=None if held is None else recipes.index(held),
            on_progress=lambda done, total: shown.tell_phase("Planning", done, total),
        )
        answer = PlannedTrace(planned, printable(Path(trace).name), question, left_out)
        files = {} if plot is None else {plot: _figure(answer, Path(plot).suffix)}
    emit(plan_json(answer), json_path, plan_sections(answer), files)


def _recipes(
    question: Question,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    held: Recipe | None,
    trace: Trace,
) -> tuple[list[Recipe], tuple[str, ...]]:
    """Designs to choose from, each once, and the names of those left out as too large."""
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.reconfigure.hold.options import catalogue_recipes
    from ocs_codesign.search.catalogue.store import Catalogue

    recipes = [parse(text) for text in designs] + ([] if held is None else [held])
    for recipe in recipes:
        _check_size(recipe, question)
    left_out: tuple[str, ...] = ()
    if catalogue_path is not None or not designs:
        with Catalogue(catalogue_path) as store:
            stored, too_large = catalogue_recipes(store, question, trace.collectives)
        recipes += stored
        left_out = tuple(map(repr, too_large))
    if not recipes:
        raise ValueError(
            f"all {len(left_out)} designs of the catalogue for {question.num_nodes} nodes of "
            f"degree {question.degree} are too large to solve their all-to-all in passing: name "
            "some with --designs"
        )
    return list(dict.fromkeys(recipes)), left_out


def _check_size(recipe: Recipe, question: Question) -> None:
    if not question.is_answered_by(recipe):
        if (recipe.num_nodes, recipe.degree) == (question.num_nodes, question.degree):
            raise ValueError(f"{recipe!r} does not have every link in both directions")
        raise ValueError(
            f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}: the fabric has "
            f"{question.num_nodes} of degree {question.degree}"
        )


def _figure(answer: PlannedTrace, suffix: str) -> bytes:
    from ocs_codesign.answers.plan.sections import delta_text
    from ocs_codesign.plot.files import figure_bytes
    from ocs_codesign.plot.trace import trace_figure

    fabric = f"{answer.question.num_nodes} nodes of degree {answer.question.degree}"
    title = f"{fabric}, delta {delta_text(answer.plan)}: which design is held"
    return figure_bytes(trace_figure(answer.plan, title), suffix)
