"""``ocs-codesign build``: a verified schedule with its topology, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.alltoall import COLLECTIVE
from ocs_codesign.cli.exact import EXACT, answer_json, chunks_option, refuse, solve_exactly
from ocs_codesign.cli.options import (
    GATHERING,
    SolverChoice,
    Source,
    collective_choice,
    graph_option,
    json_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, cost_text, emit, show_facts
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from fractions import Fraction

    from rich.console import Console

    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.design import Design


@click.command(short_help="Build and verify a schedule and save the design.")
@recipe_argument
@graph_option
@collective_choice(*GATHERING, COLLECTIVE)
@click.option(
    "--schedule",
    type=click.Choice(["best", "bfb", "expansion", "stored", EXACT]),
    default="best",
    show_default=True,
    help="Which schedule to build: BFB, the one mapped through the expansions, the one stored with "
    "a base, or the best of them; or the best of all schedules of so many steps and chunks.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Most steps of an exact schedule or an all-to-all (default: the fewest).",
)
@chunks_option
@click.option(
    "--max-chunks",
    type=click.IntRange(min=1),
    help="Most chunks that an all-to-all cuts a piece into: fewer sends, a higher t_b.",
)
@click.option("--out", "directory", metavar="DIR", required=True, help="Where to save the design.")
@solver_options
@json_option
def build(
    recipe: str | None,
    graph: str | None,
    collective: str,
    schedule: str,
    steps: int | None,
    chunks: int | None,
    max_chunks: int | None,
    directory: str,
    json_path: str | None,
    choice: SolverChoice,
) -> int:
    """Build the schedule of a RECIPE or a graph, verify it, and save it with its topology.

    DIR gets schedule.npz and design.json, whole or not at all. DIR must be new, empty or hold an
    earlier design, which is replaced.

    An exact schedule may take any routes. It is proven the best of so many steps and chunks, or the
    best that was found in --time-limit (a minute if not given), with what none can beat. Exit code
    1 if no schedule has so few steps.
    """
    source = Source.of(recipe, graph)
    if directory == STDOUT:
        raise click.UsageError("a design is a directory: it cannot go to standard output")
    if source.recipe is None and schedule in ("expansion", "stored"):
        raise click.UsageError(f"--schedule {schedule} needs a RECIPE: a graph has no such one")
    _check_usage(collective, schedule, steps, chunks, max_chunks, choice)
    from ocs_codesign.design import verified
    from ocs_codesign.formats.designs.design_files import check_design_directory, save_design
    from ocs_codesign.formats.designs.record import design_record

    check_outputs(json_path)
    check_design_directory(directory)
    proof: dict[str, Any] = {}
    with progress("Building the schedule") as shown:
        if collective == COLLECTIVE:
            design, bound = _built_alltoall(source, steps, max_chunks, choice)
            proof["t_b_bound"] = str(bound)
        elif schedule == EXACT:
            found = solve_exactly(source, collective, steps, chunks, choice)
            if found.schedule is None:
                return refuse(found, json_path)
            design = verified(source.recipe, found.schedule, f"{EXACT}, {found.status}")
            proof = answer_json(found)
        else:
            design = _built(source, collective, schedule, shown)
        shown.tell_phase("Writing the design", 0, 0)
        save_design(design, directory, source.graph_name)
    answer = {**design_record(design, source.graph_name), **proof, "out": directory}
    emit(answer, json_path, lambda console: _show(console, answer, design))
    return 0


def _check_usage(
    collective: str,
    schedule: str,
    steps: int | None,
    chunks: int | None,
    max_chunks: int | None,
    choice: SolverChoice,
) -> None:
    """UsageError for an option that says nothing about the schedule that was asked for."""
    if collective == COLLECTIVE and schedule != "best":
        raise click.UsageError("--schedule is not for all-to-all: --steps and --max-chunks are")
    solves = collective == COLLECTIVE or schedule == EXACT
    if steps is not None and not solves:
        raise click.UsageError("--steps is for --collective alltoall and --schedule exact")
    if max_chunks is not None and collective != COLLECTIVE:
        raise click.UsageError("--max-chunks is for --collective alltoall")
    if chunks is not None and schedule != EXACT:
        raise click.UsageError("--chunks is for --schedule exact")
    if not solves:
        choice.check_unused("--collective alltoall and --schedule exact")


def _built(source: Source, collective: str, schedule: str, shown: Progress) -> Design:
    from ocs_codesign.design import build as build_recipe
    from ocs_codesign.design import build_topology

    if source.recipe is not None:
        return build_recipe(source.recipe, collective, schedule, shown.tell)
    return build_topology(source.topology(), collective, shown.tell)


def _built_alltoall(
    source: Source, steps: int | None, max_chunks: int | None, choice: SolverChoice
) -> tuple[Design, Fraction]:
    """The design, and the t_b that no schedule of so many steps can beat."""
    from ocs_codesign.design import verified
    from ocs_codesign.schedulers.alltoall.stepped import MAX_CHUNKS, stepped_plan

    with choice.solving() as options:
        plan = stepped_plan(source.topology(), steps, max_chunks or MAX_CHUNKS, options)
    return verified(source.recipe, plan.schedule, "time-stepped"), plan.bound


def _show(console: Console, answer: dict[str, Any], design: Design) -> None:
    maker, _, proof = answer["schedule"].partition(", ")
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", f"{cost_text(design.cost)}, verified"),
            ("bound", None if proof else _bound(answer, design)),
            ("proof", proof or None),
            ("schedule", f"{maker}, {answer['num_sends']:,} sends"),
            ("chunks a shard", answer["num_chunks"]),
            ("saved in", answer["out"]),
        ],
    )


def _bound(answer: dict[str, Any], design: Design) -> str | None:
    """How far an all-to-all may be above the best of as many steps."""
    from fractions import Fraction

    if "t_b_bound" not in answer:
        return None
    least = Fraction(answer["t_b_bound"])
    if design.cost.t_b == least:
        return "no schedule of as many steps is better"
    return f"{float(least):.6g}, at most {float(design.cost.t_b / least - 1):.1g} below"
