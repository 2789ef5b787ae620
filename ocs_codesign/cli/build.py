"""``ocs-codesign build``: a verified schedule with its topology, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.alltoall import COLLECTIVE
from ocs_codesign.cli.options import (
    GATHERING,
    Source,
    collective_choice,
    graph_option,
    json_option,
    recipe_argument,
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
    type=click.Choice(["best", "bfb", "expansion"]),
    default="best",
    show_default=True,
    help="Which schedule to build: BFB, the one mapped through the expansions, or the better.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), help="Steps of an all-to-all (default: the diameter)."
)
@click.option(
    "--max-chunks",
    type=click.IntRange(min=1),
    help="Most chunks that an all-to-all cuts a piece into: fewer sends, a higher t_b.",
)
@click.option("--out", "directory", metavar="DIR", required=True, help="Where to save the design.")
@json_option
def build(
    recipe: str | None,
    graph: str | None,
    collective: str,
    schedule: str,
    steps: int | None,
    max_chunks: int | None,
    directory: str,
    json_path: str | None,
) -> None:
    """Build the schedule of a RECIPE or a graph, verify it, and save it with its topology.

    DIR gets schedule.npz and design.json, whole or not at all. DIR must be new, empty or hold an
    earlier design, which is replaced.
    """
    source = Source.of(recipe, graph)
    if directory == STDOUT:
        raise click.UsageError("a design is a directory: it cannot go to standard output")
    if source.recipe is None and schedule == "expansion":
        raise click.UsageError("--schedule expansion needs a RECIPE: a graph has no expansions")
    if collective == COLLECTIVE and schedule != "best":
        raise click.UsageError("--schedule chooses between BFB and expansions: not all-to-all")
    if collective != COLLECTIVE and (steps is not None or max_chunks is not None):
        raise click.UsageError("--steps and --max-chunks are for --collective alltoall")
    from ocs_codesign.export.design_files import (
        check_design_directory,
        design_record,
        save_design,
    )

    check_outputs(json_path)
    check_design_directory(directory)
    bound = None
    with progress("Building the schedule") as shown:
        if collective == COLLECTIVE:
            design, bound = _built_alltoall(source, steps, max_chunks)
        else:
            design = _built(source, collective, schedule, shown)
        shown.tell_phase("Writing the design", 0, 0)
        save_design(design, directory, source.graph_name)
    answer: dict[str, Any] = {**design_record(design, source.graph_name), "out": directory}
    if bound is not None:
        answer["t_b_bound"] = str(bound)
    emit(answer, json_path, lambda console: _show(console, answer, design))


def _built(source: Source, collective: str, schedule: str, shown: Progress) -> Design:
    from ocs_codesign.design import build as build_recipe
    from ocs_codesign.design import build_topology

    if source.recipe is not None:
        return build_recipe(source.recipe, collective, schedule, shown.tell)
    return build_topology(source.topology(), collective, shown.tell)


def _built_alltoall(
    source: Source, steps: int | None, max_chunks: int | None
) -> tuple[Design, Fraction]:
    """The design, and the t_b that no schedule of so many steps can beat."""
    from ocs_codesign.alltoall import stepped_plan
    from ocs_codesign.alltoall.stepped import MAX_CHUNKS
    from ocs_codesign.design import verified

    plan = stepped_plan(source.topology(), steps, max_chunks or MAX_CHUNKS)
    return verified(source.recipe, plan.schedule, "time-stepped"), plan.bound


def _show(console: Console, answer: dict[str, Any], design: Design) -> None:
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", f"{cost_text(design.cost)}, verified"),
            ("bound", _bound(answer, design)),
            ("schedule", f"{answer['schedule']}, {answer['num_sends']:,} sends"),
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
