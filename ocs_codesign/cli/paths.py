"""``ocs-codesign paths``: path tables for fabrics that route in the network card."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.choices import LiveChoice, path_formats
from ocs_codesign.cli.file_options import OUTPUT
from ocs_codesign.cli.options import (
    GivenGraph,
    SolverChoice,
    graph_option,
    json_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.result import PathTable
    from ocs_codesign.topology import Topology

NEGATIVE = 1
DEFAULT_PATHS = 4
CSV = "csv"


@click.command(short_help="Path tables for fabrics that route, checked for deadlock.")
@recipe_argument
@graph_option
@click.option(
    "--disjoint", is_flag=True, help="A few link-disjoint short paths of every pair, balanced."
)
@click.option(
    "--deadlock-free",
    is_flag=True,
    help="Disjoint up*/down* paths, whose channel dependencies have no cycle.",
)
@click.option(
    "--virtual-channels",
    is_flag=True,
    help="Give every hop one of as few virtual channels as free these paths of deadlock.",
)
@click.option(
    "--paths",
    "num_paths",
    type=click.IntRange(min=1),
    help=f"Most paths of a pair where they are disjoint (default: {DEFAULT_PATHS}).",
)
@click.option(
    "--max-hops",
    type=click.IntRange(min=1),
    help="Longest path where they need not be disjoint (default: the diameter + 1).",
)
@click.option(
    "--max-parts",
    type=click.IntRange(min=1),
    help="Most parts that a message is shared out in (default: 720).",
)
@click.option(
    "--out",
    type=OUTPUT,
    metavar="FILE",
    help="Write the table: .csv or .json; - is standard output.",
)
@click.option(
    "--format", "format_name", type=LiveChoice(path_formats), help="Instead of the suffix."
)
@solver_options
@json_option
def paths(
    recipe: str | None,
    graph: str | None,
    disjoint: bool,
    deadlock_free: bool,
    virtual_channels: bool,
    num_paths: int | None,
    max_hops: int | None,
    max_parts: int | None,
    out: str | None,
    format_name: str | None,
    json_path: str | None,
    choice: SolverChoice,
) -> int:
    """Find paths of every pair of nodes for an all-to-all, and the share that each carries.

    By default the paths make up an optimal flow over short paths. The all-to-all time over them is
    exact, with what no shares of such paths and no routing at all can beat, and a cycle of links
    that may wait for each other, if there is one. Exit code 1 if --deadlock-free finds no order of
    the nodes to go by: --virtual-channels frees the paths of any graph of deadlock, on switches
    with so many separate buffers a link.

    \b
    Example:
      ocs-codesign paths 'Torus((4, 4))' --deadlock-free --out paths.csv
    """
    source = GivenGraph.of(recipe, graph)
    is_disjoint = disjoint or deadlock_free
    if num_paths is not None and not is_disjoint:
        raise click.UsageError("--paths is for --disjoint and --deadlock-free")
    if max_hops is not None and is_disjoint:
        raise click.UsageError("--max-hops is not for --disjoint and --deadlock-free")
    if deadlock_free and virtual_channels:
        raise click.UsageError("--deadlock-free paths need no --virtual-channels")
    if format_name is not None and out is None:
        raise click.UsageError("--format is for --out")
    check_outputs(json_path, out)
    from ocs_codesign.answers.paths import paths_json, paths_sections
    from ocs_codesign.formats import path_tables
    from ocs_codesign.schedulers.alltoall.throughput import throughput

    if out is not None and format_name is None:
        format_name = CSV if out == STDOUT else path_tables.path_format(out)
    topology = source.topology()
    if deadlock_free and not _has_order(topology):
        return _refuse(source, topology, json_path)
    kind = "deadlock-free" if deadlock_free else "disjoint" if disjoint else "optimal"
    with progress("Finding paths") as shown, choice.solving() as options:
        began = time.monotonic()
        table = _table(topology, kind, num_paths or max_hops, max_parts, options)
        shown.tell_phase("Solving the all-to-all", 0, 0)
        best = throughput(topology, options.after(time.monotonic() - began))
        shown.tell_phase("Looking for deadlock", 0, 0)
        found = None
        if virtual_channels:
            from ocs_codesign.schedulers.alltoall.virtual_channels import with_channels

            found = with_channels(table, options.after(time.monotonic() - began))
            table = found.table
        answer = {**_named(source), **paths_json(kind, table, best, found)}
        shown.tell_phase("Writing the table", 0, 0)
        if out is not None and out != STDOUT:
            path_tables.save_path_table(table, out, format_name)
    answer["out"] = None if out == STDOUT else out
    if out == STDOUT:
        path_tables.check_size(table)
        for block in path_tables.FORMATS[format_name or CSV](table):
            click.echo(block, nl=False)
    emit(answer, json_path, () if out == STDOUT else paths_sections(answer))
    return 0


def _named(source: GivenGraph) -> dict[str, str | None]:
    """What the table is of."""
    label = None if source.recipe is None else source.recipe.label()
    return {"recipe": source.recipe_text, "label": label, "graph": source.graph_name}


def _has_order(topology: Topology) -> bool:
    from ocs_codesign.schedulers.alltoall.up_down import has_up_down_order

    topology.diameter()  # ValueError unless it is strongly connected
    return has_up_down_order(topology)


def _refuse(source: GivenGraph, topology: Topology, json_path: str | None) -> int:
    """Say that there are no up*/down* paths of all pairs, and return the exit code for it."""
    from ocs_codesign.schedulers.alltoall.up_down import NO_ORDER

    answer = {"recipe": source.recipe_text, "graph": source.graph_name, "nodes": topology.num_nodes}
    emit(
        {**answer, "routing": None, "status": NO_ORDER},
        json_path,
        [f"No up*/down* paths: {NO_ORDER}. --virtual-channels frees other paths of deadlock."],
    )
    return NEGATIVE


def _table(
    topology: Topology, kind: str, limit: int | None, max_parts: int | None, options: Options
) -> PathTable:
    """The table of that kind; ``limit`` is of hops or of paths, whichever it has."""
    from ocs_codesign.schedulers.alltoall.paths import MAX_PARTS, disjoint_path_table, path_table
    from ocs_codesign.schedulers.alltoall.up_down import up_down_table

    if kind == "optimal":
        return path_table(topology, limit, max_parts or MAX_PARTS, options)
    make = up_down_table if kind == "deadlock-free" else disjoint_path_table
    return make(topology, limit or DEFAULT_PATHS, max_parts or MAX_PARTS, options)
