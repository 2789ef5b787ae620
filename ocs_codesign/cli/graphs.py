"""``ocs-codesign topology`` and ``import``: graphs written for, and read from, other tools."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import (
    Source,
    graph_option,
    json_option,
    printable,
    recipe_argument,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit, show_facts
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.formats.graphs.graph_files import GraphFacts

# Spelled out, since importing ocs_codesign.formats for a help text would take too long.
EXPORT_FORMATS = ("edgelist", "json", "graphml", "dot")
IMPORT_FORMATS = ("edgelist", "json", "graphml")


@click.command(short_help="Write a topology in a graph format.")
@recipe_argument
@graph_option
@click.option(
    "--format",
    "format_name",
    type=click.Choice(EXPORT_FORMATS),
    default="edgelist",
    show_default=True,
    help="Edge list, node-link JSON, GraphML or DOT.",
)
@click.option("--out", metavar="FILE", default=STDOUT, help="Where to; standard output if absent.")
@json_option
def topology(
    recipe: str | None, graph: str | None, format_name: str, out: str, json_path: str | None
) -> None:
    """Write the links of a RECIPE, or of a graph from a file, for other tools."""
    source = Source.of(recipe, graph)
    if out == STDOUT == json_path:
        raise click.UsageError("with --json -, the topology itself needs --out FILE")
    check_outputs(json_path, out)
    from ocs_codesign.formats.graphs.graph_files import EXPORTERS

    with progress("Building the topology"):
        built = source.topology()
        text = EXPORTERS[format_name](built, source.name)
    answer = {
        "recipe": source.recipe_text,
        "label": None if source.recipe is None else source.recipe.label(),
        "graph": source.graph_name,
        "nodes": built.num_nodes,
        "degree": built.degree,
        "links": built.num_links,
        "format": format_name,
        "out": None if out == STDOUT else out,
    }
    facts = [(key, value) for key, value in answer.items() if key != "out"]
    emit(
        answer,
        json_path,
        lambda console: show_facts(console, [*facts, ("written to", out)]),
        {out: text.encode()},
    )


@click.command("import", short_help="Read a graph file and say what it is.")
@click.argument("file")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(IMPORT_FORMATS),
    help="The file's format, if its suffix and content do not tell.",
)
@click.option("--out", metavar="FILE", help="Write it as an edge list of nodes 0 to N - 1.")
@json_option
def import_command(
    file: str, format_name: str | None, out: str | None, json_path: str | None
) -> None:
    """Read an edge list, GraphML or node-link JSON file and say what kind of topology it is.

    Nodes with integer names are numbered in ascending order, others in order of appearance. An
    undirected edge becomes a link each way. The attribute or third column 'speed' is a link's
    relative speed.
    """
    check_outputs(json_path, out)
    from ocs_codesign.formats.graphs.graph_files import EXPORTERS, graph_facts, import_graph

    name = printable(Path(file).name)
    with progress("Reading the graph"):
        graph = import_graph(file, format_name)
        facts = graph_facts(graph)
        files = {} if out is None else {out: EXPORTERS["edgelist"](graph, name).encode()}
    answer = _facts_json(name, facts, out)
    emit(answer, json_path, lambda console: _show(console, name, facts, out), files)


def _facts_json(name: str, facts: GraphFacts, out: str | None) -> dict[str, Any]:
    value = asdict(facts)
    value["link_speeds"] = list(facts.link_speeds)
    nodes, links = value.pop("num_nodes"), value.pop("num_links")
    return {"file": name, "nodes": nodes, "links": links, **value, "out": out}


def _show(console: Console, name: str, facts: GraphFacts, out: str | None) -> None:
    diameter = "not computed" if facts.strongly_connected else "none"
    speeds = ", ".join(map(str, facts.link_speeds[:8])) + ", ..." * (len(facts.link_speeds) > 8)
    show_facts(
        console,
        [
            ("file", name),
            ("nodes", facts.num_nodes),
            ("directed links", facts.num_links),
            ("degree", facts.degree),
            ("regular", _yes(facts.regular)),
            ("undirected", _yes(facts.undirected)),
            ("self-loops", facts.self_loops),
            ("parallel links", facts.parallel_links),
            ("strongly connected", _yes(facts.strongly_connected)),
            ("diameter", diameter if facts.diameter is None else facts.diameter),
            ("link speeds", "all equal" if len(facts.link_speeds) <= 1 else speeds),
            ("written to", out),
        ],
    )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
