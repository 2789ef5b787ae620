"""``ocs-codesign topology`` and ``import``: graphs written for, and read from, other tools."""

from __future__ import annotations

from pathlib import Path

import click

from ocs_codesign.cli.choices import FormatOption, LiveChoice, graph_formats, program_formats
from ocs_codesign.cli.file_options import INPUT, OUTPUT
from ocs_codesign.cli.options import (
    GivenGraph,
    graph_option,
    json_option,
    printable,
    recipe_argument,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.programs import import_program
from ocs_codesign.cli.progress import progress


@click.command(short_help="Write a topology in a graph format.")
@recipe_argument
@graph_option
@click.option(
    "--format",
    "format_name",
    cls=FormatOption,
    type=LiveChoice(graph_formats("write")),
    help="{}: as the suffix of --out tells, else an edge list.",
)
@click.option(
    "--out",
    type=OUTPUT,
    metavar="FILE",
    default=STDOUT,
    help="Where to; standard output if absent.",
)
@json_option
def topology(
    recipe: str | None, graph: str | None, format_name: str | None, out: str, json_path: str | None
) -> None:
    """Write the links of a RECIPE, or of a graph from a file, for other tools.

    \b
    Example:
      ocs-codesign topology 'Named("petersen")' --format graphml --out petersen.graphml
    """
    source = GivenGraph.of(recipe, graph)
    if out == STDOUT == json_path:
        raise click.UsageError("with --json -, the topology itself needs --out FILE")
    check_outputs(json_path, out)
    from ocs_codesign.answers.graphs import topology_json, topology_sections
    from ocs_codesign.formats.file_format import format_by_suffix, writers
    from ocs_codesign.formats.graphs.graph_files import FORMATS

    told = format_by_suffix(FORMATS, Path(out))
    if told is not None and format_name not in (None, told):
        raise click.UsageError(f"--out {out} tells {told}, --format {format_name}: which is it?")
    format_name = format_name or told or "edgelist"
    with progress("Building the topology"):
        built = source.topology()
        text = writers(FORMATS)[format_name](built, source.name)
    answer = topology_json(source.recipe, source.graph_name, built, format_name)
    answer["out"] = None if out == STDOUT else out
    emit(answer, json_path, topology_sections(answer, out), {out: text.encode()})


@click.command("import", short_help="Read a graph or schedule of others and say what it is.")
@click.argument("file", type=INPUT)
@click.option(
    "--from",
    "program_format",
    type=LiveChoice(program_formats("read")),
    help="It is a schedule in this format of runtimes: verify it, and save it as a design.",
)
@click.option(
    "--format",
    "format_name",
    cls=FormatOption,
    type=LiveChoice(graph_formats("read")),
    help="The file's format ({}), if its suffix and content do not tell.",
)
@click.option("--undirected", is_flag=True, help="Every line of an edge list is a link each way.")
@click.option(
    "--out",
    type=OUTPUT,
    metavar="FILE|DIR",
    help="Write it as an edge list of nodes 0 to N - 1; with --from, as a design.",
)
@json_option
def import_command(
    file: str,
    program_format: str | None,
    format_name: str | None,
    undirected: bool,
    out: str | None,
    json_path: str | None,
) -> int:
    """Read a graph file and say what kind of topology it is, or a schedule of others.

    Nodes with integer names are numbered in ascending order, others in order of appearance. An
    undirected edge becomes a link each way. The attribute or third column 'speed' is a link's
    relative speed.

    With --from, a schedule in a format of runtimes is interpreted with symbolic data, and what it
    sends is replayed and costed; exit code 1 if it does not do what it says.

    \b
    Example:
      ocs-codesign topology 'Named("petersen")' --format graphml --out petersen.graphml
      ocs-codesign import petersen.graphml
    """
    if program_format is not None:
        if format_name is not None or undirected:
            raise click.UsageError("--format and --undirected are for graphs, --from for schedules")
        return import_program(file, program_format, out, json_path)
    check_outputs(json_path, out)
    from ocs_codesign.answers.graphs import import_json, import_sections
    from ocs_codesign.formats.graphs.edge_list import write_edge_list
    from ocs_codesign.formats.graphs.facts import graph_facts
    from ocs_codesign.formats.graphs.graph_files import FORMATS, read_graph

    name = printable(Path(file).name)
    with progress("Reading the graph"):
        graph, told = read_graph(file, format_name, undirected=undirected)
        facts = graph_facts(graph)
        files = {} if out is None else {out: write_edge_list(graph, name).encode()}
    as_edges = undirected or told != "edgelist"
    read_as = FORMATS[told].description + ("" if as_edges else ", every line a link one way")
    sections = import_sections(name, read_as, facts, out, hint=not as_edges)
    emit(import_json(name, told, facts, out), json_path, sections, files)
    return 0
