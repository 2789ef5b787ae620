"""``ocs-codesign verify``: is this schedule right, and what does it really cost?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell, tell_phase
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OUTPUT, OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.output import (
    STDOUT,
    Answer,
    answered,
    asked_output,
    check_outputs,
    told,
)
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.paths.certificates import PathTable


# Programs of others on the command line: verified, and saved as designs.


NEGATIVE = 1
IMPORTED = "imported"
"""The maker of a design that came from others."""


def verify_program(path: str, format_name: str) -> Answer:
    """Say whether a program in a file does what it says, and what it costs."""
    with progress("Verifying"):
        return _verified(Path(path), format_name)


def verify_export(directory: str) -> Answer:
    """The same of every plan in a directory that ``export`` wrote."""
    from ocs_codesign.interop.exports import programs_in

    answers: list[dict[str, Any]] = []
    shown: list[Section] = []
    with progress("Verifying"):
        files = programs_in(directory)
        for path, format_name in files:
            answer = _verified(path, format_name)
            name = path.relative_to(directory).as_posix()
            answers.append({"file": name, **answer.json})
            shown += [f"{name}:", *answer.sections, ""]
            tell(len(answers), len(files))
    valid = all(answer["ok"] for answer in answers)
    code = 0 if valid else NEGATIVE
    return told("programs.files", {"ok": valid, "files": answers}, shown, code=code)


def _verified(path: Path, format_name: str) -> Answer:
    """What is found of a file; it is checked for what it has if it has no data."""
    from ocs_codesign.interop.exports import imported
    from ocs_codesign.interop.registry import FORMATS

    check = FORMATS[format_name].check
    if check is None:
        found = imported(path, format_name)
        code = 0 if found.witness is None else NEGATIVE
        return answered("programs.imported", found, code=code)
    checked = check(path)
    code = 0 if checked.witness is None else NEGATIVE
    return answered("programs.checked", checked, format_name, code=code)


def import_program(path: str, format_name: str, directory: str | None) -> Answer:
    """The same, and save it as a design if it is right."""
    check_outputs(asked_output("json"))
    from ocs_codesign.interop.exports import imported
    from ocs_codesign.schedules.files.designs import check_design_directory, save_design

    if directory is not None:
        check_design_directory(directory)
    with progress("Reading the schedule"):
        found = imported(Path(path), format_name)
        if directory is not None and found.witness is None and found.schedule is not None:
            from ocs_codesign.schedules.design import verified

            design = verified(None, found.schedule, IMPORTED)
            save_design(design, directory, Path(path).name)
    code = 0 if found.witness is None else NEGATIVE
    return answered("programs.imported", found, code=code)


@command()
def verify(
    path: str = argument("path", type=opt.FILE, metavar="DIR|FILE"),
    format_name: str | None = option(
        "--format",
        type=opt.LiveChoice(opt.program_formats("check")),
        help="The format of a file that others wrote, if its name and content do not tell.",
    ),
    machine: str | None = machine_option_of(
        "Whose clock the advice of a book is checked by: the file that calibrate has written, or "
        "none to leave it unchecked (default: the machine that the book names)."
    ),
) -> Answer:
    """Replay a schedule send by send and recompute its cost.

    Where circuits change, every send must cross one that is up in its step, and every port needs a
    dark step or a pause to change. Of a design's directory, the claims of design.json are checked
    too; of a book, as compare writes it, every schedule is replayed, and timed again for every
    size, by the clock of the machine that it gives advice for. A program that export or another
    tool wrote is interpreted with symbolic data; what carries no data is checked for what it has.
    Exit code 1 if anything is wrong, with the first thing found wrong.

    \b
    Example:
      ocs-codesign build 'Line(CompleteBipartite(4))' --out design
      ocs-codesign verify design
    """
    from ocs_codesign.interop.exports import is_export
    from ocs_codesign.interop.registry import told_format
    from ocs_codesign.schedules.files.books import is_book
    from ocs_codesign.schedules.files.designs import load_design, verify_design

    if is_book(path):
        return _verify_book(path, machine)
    if machine is not None:
        raise click.UsageError("--machine is for a book")
    if format_name is None and is_export(path):
        return verify_export(path)
    format_name = format_name or told_format(Path(path))
    if format_name is not None:
        return verify_program(path, format_name)
    with progress("Verifying"):
        loaded = load_design(path)
        found = verify_design(loaded)
    code = 0 if found.witness is None else NEGATIVE
    return answered("build.verify", loaded, found, code=code)


def _verify_book(path: str, machine: str | None) -> Answer:
    from ocs_codesign.schedules.compare.comparison import check_advice
    from ocs_codesign.schedules.files.books import load_book
    from ocs_codesign.verification.messages import check_book

    with progress("Verifying"):
        book = load_book(path)
        named = None if book.advice is None else book.advice.machine
        try:
            real = machine_of(named if machine is None else machine)
        except ValueError as error:
            if machine is not None:
                raise
            raise ValueError(f"{path}: advice: {error}; give its file by --machine") from None
        witnesses = check_book(book)
        if not any(witnesses):
            witnesses = check_advice(book, real)
    code = NEGATIVE if any(witnesses) else 0
    return answered("programs.book", book, witnesses, real, code=code)


# ``ocs-codesign paths``: path tables for fabrics that route in the network card.


DEFAULT_PATHS = 4
CSV = "csv"
ROUTINGS = ("optimal", "disjoint", "deadlock-free")


class PathsOptions(OptionGroup):
    """Which paths of which topology are found, and where the table goes."""

    recipe: str | None = opt.recipe_argument
    graph: str | None = opt.graph_option
    routing: str = option(
        "--routing",
        type=click.Choice(ROUTINGS),
        default=ROUTINGS[0],
        help="Paths of an optimal flow, a few link-disjoint short ones of every pair, balanced, or "
        "disjoint up*/down* ones, whose channel dependencies have no cycle.",
    )
    virtual_channels: bool = option(
        "--virtual-channels",
        is_flag=True,
        help="Give every hop one of as few virtual channels as free these paths of deadlock.",
    )
    num_paths: int | None = option(
        "--paths",
        type=click.IntRange(min=1),
        help=f"Most paths of a pair where they are disjoint (default: {DEFAULT_PATHS}).",
    )
    max_hops: int | None = option(
        "--max-hops",
        type=click.IntRange(min=1),
        help="Longest path where they need not be disjoint (default: the diameter + 1).",
    )
    max_parts: int | None = option(
        "--parts",
        type=click.IntRange(min=1),
        help="Most parts that a message is shared out in (default: 720).",
    )
    out: str | None = option(
        "--out",
        type=OUTPUT,
        metavar="FILE",
        help="Write the table: .csv or .json; - is standard output.",
    )
    format_name: str | None = option(
        "--format", type=opt.LiveChoice(opt.path_formats), help="Instead of the suffix."
    )
    choice: opt.SolverChoice = opt.solving_options


@command()
def paths(given: PathsOptions = group(PathsOptions)) -> Answer:
    """Find paths of every pair of nodes for an all-to-all, and the share that each carries.

    By default the paths make up an optimal flow over short paths. The all-to-all time over them is
    exact, with what no shares of such paths and no routing at all can beat, and a cycle of links
    that may wait for each other, if there is one. Exit code 1 if --routing deadlock-free finds no
    order of the nodes to go by: --virtual-channels frees the paths of any graph of deadlock, on
    switches with so many separate buffers a link.

    \b
    Example:
      ocs-codesign paths 'Torus((4, 4))' --routing deadlock-free --out paths.csv
    """
    source, out, format_name = (
        opt.GivenGraph.of(given.recipe, given.graph),
        given.out,
        given.format_name,
    )
    deadlock_free = given.routing == ROUTINGS[2]
    is_disjoint = given.routing != ROUTINGS[0]
    if given.num_paths is not None and not is_disjoint:
        raise click.UsageError("--paths is for --routing disjoint and deadlock-free")
    if given.max_hops is not None and is_disjoint:
        raise click.UsageError("--max-hops is not for --routing disjoint and deadlock-free")
    if deadlock_free and given.virtual_channels:
        raise click.UsageError("deadlock-free paths need no --virtual-channels")
    if format_name is not None and out is None:
        raise click.UsageError("--format is for --out")
    from ocs_codesign.faces.answers.build import paths_sections
    from ocs_codesign.faces.answers.declared import answer_json
    from ocs_codesign.schedules.paths import table_files
    from ocs_codesign.schedules.paths.throughput import throughput

    if out is not None and format_name is None:
        format_name = CSV if out == STDOUT else table_files.path_format(out)
    topology = source.topology()
    if deadlock_free and not _has_order(topology):
        return _refuse(source, topology)
    with progress("Finding paths"), given.choice.solving() as options:
        began = time.monotonic()
        table = _table(given, topology, options)
        tell_phase("Solving the all-to-all", 0, 0)
        best = throughput(topology, options.after(time.monotonic() - began))
        tell_phase("Looking for deadlock", 0, 0)
        found = None
        if given.virtual_channels:
            from ocs_codesign.schedules.paths.channels import with_channels
            from ocs_codesign.schedules.paths.ordered import with_fewest_channels

            channelled = with_channels if is_disjoint else with_fewest_channels
            found = channelled(table, options.after(time.monotonic() - began))
            table = found.table
        written = None if out == STDOUT else out
        answer = answer_json("build.paths", table, given.routing, best, found, source, written)
        tell_phase("Writing the table", 0, 0)
        if out is not None and out != STDOUT:
            table_files.save_path_table(table, out, format_name)
    if out == STDOUT:
        table_files.check_size(table)
        for block in table_files.FORMATS[format_name or CSV](table):
            click.echo(block, nl=False)
    return Answer(answer, () if out == STDOUT else paths_sections(answer))


def _has_order(topology: Topology) -> bool:
    from ocs_codesign.schedules.paths.channels import has_up_down_order

    topology.diameter()  # ValueError unless it is strongly connected
    return has_up_down_order(topology)


def _refuse(source: opt.GivenGraph, topology: Topology) -> Answer:
    """That there are no up*/down* paths of all pairs, with the exit code for it."""
    from ocs_codesign.schedules.paths.channels import NO_ORDER

    text = f"No up*/down* paths: {NO_ORDER}. --virtual-channels frees other paths of deadlock."
    where = {"recipe": source.recipe_text, "graph": source.graph_name, "nodes": topology.num_nodes}
    return told(
        "build.no_paths", where | {"routing": None, "status": NO_ORDER}, [text], code=NEGATIVE
    )


def _table(given: PathsOptions, topology: Topology, options: Options) -> PathTable:
    """The table of the kind that was asked for."""
    from ocs_codesign.schedules.paths.channels import up_down_table
    from ocs_codesign.schedules.paths.tables import MAX_PARTS, disjoint_path_table, path_table

    max_parts = given.max_parts or MAX_PARTS
    if given.routing == ROUTINGS[0]:
        return path_table(topology, given.max_hops, max_parts, options)
    make = up_down_table if given.routing == ROUTINGS[2] else disjoint_path_table
    return make(topology, given.num_paths or DEFAULT_PATHS, max_parts, options)
