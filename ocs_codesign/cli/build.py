"""``ocs-codesign build``: a verified schedule with its topology, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import (
    Source,
    collective_option,
    graph_option,
    json_option,
    recipe_argument,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, cost_text, emit, show_facts
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.design import Design


@click.command(short_help="Build and verify a schedule and save the design.")
@recipe_argument
@graph_option
@collective_option
@click.option(
    "--schedule",
    type=click.Choice(["best", "bfb", "expansion"]),
    default="best",
    show_default=True,
    help="Which schedule to build: BFB, the one mapped through the expansions, or the better.",
)
@click.option("--out", "directory", metavar="DIR", required=True, help="Where to save the design.")
@json_option
def build(
    recipe: str | None,
    graph: str | None,
    collective: str,
    schedule: str,
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
    from ocs_codesign.export.design_files import (
        check_design_directory,
        design_record,
        save_design,
    )

    check_outputs(json_path)
    check_design_directory(directory)
    with progress("Building the schedule") as shown:
        design = _built(source, collective, schedule, shown)
        shown.tell_phase("Writing the design", 0, 0)
        save_design(design, directory, source.graph_name)
    answer: dict[str, Any] = {**design_record(design, source.graph_name), "out": directory}
    emit(answer, json_path, lambda console: _show(console, answer, design))


def _built(source: Source, collective: str, schedule: str, shown: Progress) -> Design:
    from ocs_codesign.design import build as build_recipe
    from ocs_codesign.design import build_topology

    if source.recipe is not None:
        return build_recipe(source.recipe, collective, schedule, shown.tell)
    return build_topology(source.topology(), collective, shown.tell)


def _show(console: Console, answer: dict[str, Any], design: Design) -> None:
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", f"{cost_text(design.cost)}, verified"),
            ("schedule", f"{answer['schedule']}, {answer['num_sends']:,} sends"),
            ("chunks a shard", answer["num_chunks"]),
            ("saved in", answer["out"]),
        ],
    )
