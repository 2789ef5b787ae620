"""``ocs-codesign paths``: path tables for fabrics that route in the network card."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.texts import in_decimals, t_b_text
from ocs_codesign.cli.options import (
    SolverChoice,
    Source,
    graph_option,
    json_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit, show_facts
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.lp import Options
    from ocs_codesign.schedulers.alltoall.result import PathTable, Throughput
    from ocs_codesign.topology import Topology

NEGATIVE = 1
DEFAULT_PATHS = 4
# Spelled out, since importing ocs_codesign.formats for a help text would take too long.
FORMATS = ("csv", "json")

KINDS = {
    "optimal": "an optimal flow over short paths",
    "disjoint": "disjoint short paths",
    "deadlock-free": "disjoint up*/down* paths",
}
MAX_SHOWN = 24
_SHOWN_LINKS = 8


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
@click.option("--out", metavar="FILE", help="Write the table: .csv or .json; - is standard output.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), help="Instead of the suffix.")
@solver_options
@json_option
def paths(
    recipe: str | None,
    graph: str | None,
    disjoint: bool,
    deadlock_free: bool,
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
    the nodes to go by.
    """
    source = Source.of(recipe, graph)
    is_disjoint = disjoint or deadlock_free
    if num_paths is not None and not is_disjoint:
        raise click.UsageError("--paths is for --disjoint and --deadlock-free")
    if max_hops is not None and is_disjoint:
        raise click.UsageError("--max-hops is not for --disjoint and --deadlock-free")
    if format_name is not None and out is None:
        raise click.UsageError("--format is for --out")
    check_outputs(json_path, out)
    from ocs_codesign.formats import path_tables

    if out is not None and format_name is None:
        format_name = FORMATS[0] if out == STDOUT else path_tables.path_format(out)
    topology = source.topology()
    if deadlock_free and not _has_order(topology):
        return _refuse(source, topology, json_path)
    kind = "deadlock-free" if deadlock_free else "disjoint" if disjoint else "optimal"
    with progress("Finding paths") as shown, choice.solving() as options:
        began = time.monotonic()
        table = _table(topology, kind, num_paths or max_hops, max_parts, options)
        shown.tell_phase("Solving the all-to-all", 0, 0)
        best = _throughput(topology, options.after(time.monotonic() - began))
        shown.tell_phase("Looking for deadlock", 0, 0)
        answer = _answer(source, kind, table, best)
        shown.tell_phase("Writing the table", 0, 0)
        if out is not None and out != STDOUT:
            path_tables.save_path_table(table, out, format_name)
    answer["out"] = None if out == STDOUT else out
    if out == STDOUT:
        path_tables.check_size(table)
        for block in path_tables.FORMATS[format_name or FORMATS[0]](table):
            click.echo(block, nl=False)
    emit(answer, json_path, lambda console: _show(console, answer, silent=out == STDOUT))
    return 0


def _has_order(topology: Topology) -> bool:
    from ocs_codesign.schedulers.alltoall.up_down import has_up_down_order

    topology.diameter()  # ValueError unless it is strongly connected
    return has_up_down_order(topology)


def _refuse(source: Source, topology: Topology, json_path: str | None) -> int:
    """Say that there are no up*/down* paths of all pairs, and return the exit code for it."""
    from ocs_codesign.schedulers.alltoall.up_down import NO_ORDER

    answer = {"recipe": source.recipe_text, "graph": source.graph_name, "nodes": topology.num_nodes}
    answer |= {"routing": None, "status": NO_ORDER}
    sentence = f"No up*/down* paths: {NO_ORDER}."
    emit(answer, json_path, lambda console: console.print(sentence, soft_wrap=True))
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


def _throughput(topology: Topology, options: Options) -> Throughput:
    from ocs_codesign.schedulers.alltoall.throughput import throughput

    return throughput(topology, options)


def _answer(source: Source, kind: str, table: PathTable, best: Throughput) -> dict[str, Any]:
    import numpy as np

    from ocs_codesign.schedulers.alltoall.deadlock import dependency_cycle

    topology, cycle = table.topology, dependency_cycle(table)
    hops, link, time_needed = table.hops(), table.busiest_link(), table.time
    pair = table.source * topology.num_nodes + table.node
    return {
        "recipe": source.recipe_text,
        "label": None if source.recipe is None else source.recipe.label(),
        "graph": source.graph_name,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "routing": kind,
        "num_paths": table.num_paths,
        "most_paths_of_a_pair": int(np.unique(pair, return_counts=True)[1].max()),
        "num_parts": table.num_parts,
        "t_b": str(time_needed),
        "t_b_float": float(time_needed),
        "proven_bound": str(table.bound),
        "gap": float(time_needed / table.bound - 1),
        "optimal": time_needed == table.bound,
        "any_routing_t_b": str(best.time),
        "any_routing_bound": str(best.bound),
        "over_any_routing": float(time_needed / best.bound),
        "busiest_link": {**_link_json(topology, link), "load": str(table.worst_load)},
        "shortest_path": int(hops.min()),
        "longest_path": int(hops.max()),
        "deadlock_free": cycle is None,
        "cycle": None if cycle is None else [_link_json(topology, link) for link in cycle],
    }


def _link_json(topology: Topology, link: int) -> dict[str, int]:
    return {"link": link, "tail": int(topology.tail[link]), "head": int(topology.head[link])}


def _show(console: Console, answer: dict[str, Any], *, silent: bool) -> None:
    """The facts of a table, unless the table itself is on standard output."""
    if silent:
        return
    load, busiest = answer["busiest_link"]["load"], _link_text(answer["busiest_link"])
    gap = "proven the best shares" if answer["optimal"] else f"gap {answer['gap']:.2g}"
    t_b, bound = _decimal(answer["t_b"]), _decimal(answer["proven_bound"])
    parts = answer["num_parts"]
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("label", answer["label"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("routing", KINDS[answer["routing"]]),
            (
                "paths",
                f"{answer['num_paths']:,}, at most {answer['most_paths_of_a_pair']} of a pair",
            ),
            ("shares", "all of a message" if parts == 1 else f"multiples of 1/{parts}"),
            ("hops", f"{answer['shortest_path']} to {answer['longest_path']}"),
            ("t_b", f"{t_b}, {gap}"),
            ("bound", f"{bound} (no shares of such paths can beat it)"),
            ("any routing", _over(answer)),
            ("busiest link", f"{busiest}: {load} messages"),
            ("deadlock", _deadlock(answer)),
            ("written to", answer["out"]),
        ],
    )


def _over(answer: dict[str, Any]) -> str:
    """What these paths cost against routing without rules."""
    exact = answer["any_routing_t_b"] == answer["any_routing_bound"]
    most = "" if exact else "at most "
    return (
        f"{_decimal(answer['any_routing_bound'])} at least; "
        f"these paths take {most}{answer['over_any_routing']:.4f} times as long"
    )


def _decimal(t_b: str) -> str:
    """A fraction with its decimal, or that alone if the fraction is too long to read."""
    from fractions import Fraction

    return t_b_text(Fraction(t_b)) if len(t_b) <= MAX_SHOWN else in_decimals(Fraction(t_b))


def _deadlock(answer: dict[str, Any]) -> str:
    """Whether links may wait for each other in a ring, and which."""
    cycle = answer["cycle"]
    if cycle is None:
        return "none: the channel dependencies have no cycle"
    shown = ", ".join(_link_text(link) for link in cycle[:_SHOWN_LINKS])
    more = f" and {len(cycle) - _SHOWN_LINKS} more" if len(cycle) > _SHOWN_LINKS else ""
    return f"possible: a cycle of {len(cycle)} channel dependencies, links {shown}{more}"


def _link_text(link: dict[str, Any]) -> str:
    return f"{link['link']} ({link['tail']} -> {link['head']})"
