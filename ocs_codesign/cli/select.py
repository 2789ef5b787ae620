"""``ocs-codesign select``: which designs or plans serve a workload fastest on a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import FILE, INPUT, plot_option
from ocs_codesign.cli.message_options import messages_option
from ocs_codesign.cli.options import (
    ALLTOALL,
    GATHERING,
    fabric_option,
    json_option,
    pick_option,
)
from ocs_codesign.cli.output import check_outputs, emit, picked
from ocs_codesign.cli.progress import Progress, progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.selection.ranking import Selection
    from ocs_codesign.fabric.selection.workload import Workload
    from ocs_codesign.graphs.recipe import Recipe


@click.command(short_help="Rank designs and plans for a workload on a fabric.")
@fabric_option
@click.option(
    *("--workload", "workload_path"),
    type=INPUT,
    metavar="FILE",
    help="The workload; - is standard input.",
)
@click.option(
    *("--collective", "collectives"),
    type=click.Choice([*GATHERING, ALLTOALL], case_sensitive=False),
    multiple=True,
    help="Instead of a workload: a collective; give it again for more.  [default: allreduce]",
)
@messages_option
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Plans to show.")
@click.option("--designs", multiple=True, metavar="RECIPE", help="Only these; may be given often.")
@click.option(
    *("--catalogue", "catalogue_path"),
    type=FILE,
    metavar="FILE",
    help="A catalogue, instead of the one shipped.",
)
@pick_option
@plot_option("the break-downs")
@json_option
def select(
    fabric_path: str,
    workload_path: str | None,
    collectives: tuple[str, ...],
    messages: tuple[float, ...],
    top: int,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    pick: int | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Rank what a fabric could hold by the time that a workload takes on it.

    The fabric and the workload are YAML or JSON files: 'ocs-codesign fabric schema' documents the
    keys of the one, 'ocs-codesign fabric schema --workload' those of the other.

    Candidates are the designs known for the fabric's working hosts and ports that no other beats at
    the workload's collectives, a ring and a torus and, as far as the workload allows, plans that
    change circuits between collectives or inside an all-to-all. An allreduce and its halves take
    the time of forests where these are faster, with their parts said; 'deploy --message' builds
    them for messages of a size, else the design's own schedule. All-to-alls take the time of their
    best routing, with messages split at will; 'deploy' builds one in whole chunks, which may take a
    little more. What does not fit is left out and said why. With --message instead of a workload,
    designs are ranked for collectives of that size; of several sizes each has a column. Exit code 1
    if nothing fits.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign select --fabric fabric64.yaml --workload moe_workload.yaml
    """
    if designs and catalogue_path is not None:
        raise click.UsageError("give either --designs or --catalogue")
    if (workload_path is None) == (not messages) or (collectives and not messages):
        raise click.UsageError("give either --workload or --message, with or without --collective")
    if len(messages) > 1 and (plot is not None or pick is not None):
        raise click.UsageError("--plot and --pick are for one ranking: give one --message")
    check_outputs(json_path, plot)
    from ocs_codesign.answers.select import selection_json, selection_sections
    from ocs_codesign.answers.selections import selections_json, selections_sections
    from ocs_codesign.fabric.selection.ranking import ranked_for
    from ocs_codesign.formats.fabric.fabric_files import load_fabric
    from ocs_codesign.formats.workload import load_workload

    fabric = load_fabric(fabric_path)
    if workload_path is None:
        workload, *others = _of_messages(collectives, messages)
    else:
        workload, *others = [load_workload(workload_path)]
    with progress("Measuring designs") as shown:
        selection = _selected(fabric, workload, designs, catalogue_path, shown)
    files = {}
    if plot is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.selection import selection_figure

        files[plot] = figure_bytes(selection_figure(selection, top), Path(plot).suffix)
    sections: Iterable[Section]
    if others:
        selections = [selection, *(ranked_for(selection, other) for other in others)]
        answer, sections = selections_json(selections, top), selections_sections(selections, top)
    else:
        answer, sections = selection_json(selection, top), selection_sections(selection, top)
    if pick is not None:
        names = [[option.name for option in plan.options] for plan in selection.ranked]
        sections = picked(names, pick)
    emit(answer, json_path, sections, files)
    if not selection.ranked:
        raise click.exceptions.Exit(1)


def _of_messages(collectives: tuple[str, ...], messages: tuple[float, ...]) -> list[Workload]:
    from ocs_codesign.collective import Collective
    from ocs_codesign.fabric.selection.workload import Workload

    kinds = [Collective.parse(name) for name in collectives or ("allreduce",)]
    return [Workload.of(kinds, size) for size in dict.fromkeys(messages)]


def _selected(
    fabric: Fabric,
    workload: Workload,
    designs: tuple[str, ...],
    catalogue_path: str | None,
    shown: Progress,
) -> Selection:
    from ocs_codesign.fabric.selection.candidates import known_options
    from ocs_codesign.fabric.selection.ranking import select
    from ocs_codesign.reconfigure.hold.options import recipe_options

    collectives = workload.trace.collectives
    if designs:
        named = recipe_options(_named(fabric, designs), collectives, shown.tell)
        return select(fabric, workload, named, on_phase=shown.tell_phase)
    options, serving = known_options(fabric, collectives, shown.tell_phase, catalogue_path)
    return select(fabric, workload, options, serving, on_phase=shown.tell_phase)


def _named(fabric: Fabric, designs: tuple[str, ...]) -> tuple[Recipe, ...]:
    from ocs_codesign.cli.handles import recipe_of

    recipes = [recipe_of(text) for text in designs]
    for recipe in recipes:
        wanted = (fabric.num_working_hosts, fabric.num_ports_per_host)
        if (recipe.num_nodes, recipe.degree) != wanted:
            raise ValueError(
                f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}: the fabric "
                f"has {wanted[0]} working hosts with {wanted[1]} ports"
            )
    return tuple(recipes)
