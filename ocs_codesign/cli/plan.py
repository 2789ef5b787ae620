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
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.hold.trace import Trace
    from ocs_codesign.search.pareto import Frontier


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
    help="Known designs from this catalogue, not the one shipped; beside --designs if both.",
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
    what a gap (computation that needs no circuits) hides. Designs that are not named are those
    known for the size that no other beats at the trace's collectives. The plan is optimal in
    hindsight among these, with proof; next to it are an online policy that sees no future, the best
    single design, and the break-even dead times.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign plan trace.csv --nodes 16 --degree 4 --delta 100us --alpha 10us \\
          --bandwidth 400Gbps
    """
    check_outputs(json_path, plot)
    from ocs_codesign.answers.plan.record import plan_json
    from ocs_codesign.answers.plan.sections import PlannedTrace, plan_sections
    from ocs_codesign.cli.handles import recipe_of
    from ocs_codesign.cost import CostModel
    from ocs_codesign.formats.trace_files import read_trace
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.reconfigure.hold.trace_plan import plan_trace

    question = Question(num_nodes, degree, bidirectional)
    model = CostModel(alpha, bandwidth)
    cost = ReconfigurationCost(delta, delta_per_circuit or 0, cold_start=start != WARM)
    held = None if start in {COLD, WARM} else recipe_of(start)
    with progress("Reading the trace") as shown:
        jobs = read_trace(trace)
        shown.tell_phase("Measuring designs")
        named = dict.fromkeys([*map(recipe_of, designs), *([] if held is None else [held])])
        only_named = bool(designs) and catalogue_path is None
        options, serving = _options(
            question, list(named), catalogue_path, jobs, shown, only_named=only_named
        )
        planned = plan_trace(
            jobs,
            options,
            model,
            cost,
            start=None if held is None else list(named).index(held),
            on_progress=lambda done, total: shown.tell_phase("Planning", done, total),
        )
        answer = PlannedTrace(planned, printable(Path(trace).name), question, serving)
        files = {} if plot is None else {plot: _figure(answer, Path(plot).suffix)}
    emit(plan_json(answer), json_path, plan_sections(answer), files)


def _options(
    question: Question,
    named: list[Recipe],
    catalogue: str | None,
    trace: Trace,
    shown: Progress,
    *,
    only_named: bool,
) -> tuple[list[FabricOption], Frontier | None]:
    """Designs to choose from, those that are named first, and all that the rest was chosen from."""
    from ocs_codesign.reconfigure.hold.options import recipe_options, serving_options
    from ocs_codesign.search.joint import designs_serving

    for recipe in named:
        _check_size(recipe, question)
    options = [*recipe_options(named, trace.collectives, shown.tell)]
    if only_named:
        return options, None
    serving = designs_serving(question, trace.collectives, shown.tell_phase, catalogue=catalogue)
    known = serving_options(serving, trace.collectives)
    options += [option for option in known if option.recipe not in named]
    if not options:
        raise ValueError(
            f"no design for {question.num_nodes} nodes of degree {question.degree}"
            + " with links in both directions" * question.bidirectional
            + " is known that could be solved in passing: name some with --designs"
        )
    return options, serving


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
