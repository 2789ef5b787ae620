"""``ocs-codesign sweep``: fill a catalogue, on this machine or on a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.answers.sections import Facts
from ocs_codesign.faces.cli.options import DIRECTORY, FILE, json_option
from ocs_codesign.faces.cli.output import check_outputs, emit
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.workers import long_work, workers_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocs_codesign.schedules.design import Question


MAX_NUMBER = 2**20
"""Largest number of nodes or ports that a sweep may name."""


def read_range(ctx: click.Context, param: click.Parameter, value: str) -> range:
    """Whole numbers written as in 7 or 2-64, the end included."""
    first, dash, last = value.partition("-")
    try:
        numbers = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        numbers = range(0)
    if numbers and numbers[-1] > MAX_NUMBER:
        raise click.BadParameter(f"{value!r}: a sweep goes up to {MAX_NUMBER}", ctx, param)
    if not numbers or numbers[0] < 1:
        text = f"{value!r} is not a range of whole numbers such as 2-64"
        raise click.BadParameter(text, ctx, param)
    return numbers


degrees_option = click.option(
    *("--degree", "degrees"),
    callback=read_range,
    metavar="RANGE",
    default="2-8",
    show_default=True,
    help="Degrees.",
)
links_option = click.option(
    "--links",
    type=click.Choice(["any", "bidirectional", "both"]),
    default="any",
    show_default=True,
    help="Questions: any links, links in both directions only, or both questions.",
)


seed_option = click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Search seed."
)


def filled_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --catalogue of a command that writes to one, as the argument ``path``."""
    return click.option(
        *("--catalogue", "path"), type=FILE, metavar="FILE", required=True, help=text
    )


@click.command(short_help="Search many sizes into a catalogue.")
@click.option(
    "--nodes",
    callback=read_range,
    metavar="RANGE",
    required=True,
    help="Numbers of nodes, as in 2-256.",
)
@degrees_option
@links_option
@filled_option("The catalogue to fill.")
@workers_options
@seed_option
@click.option(
    "--effort",
    "factor",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Times the work of the default search; what is stored with less is searched for again.",
)
@json_option
def sweep(
    nodes: range,
    degrees: range,
    links: str,
    path: str,
    workers: int | None,
    dask: str | None,
    seed: int,
    factor: int,
    json_path: str | None,
) -> None:
    """Answer every question of some sizes and degrees into a catalogue file.

    What the file has already is not done again, so a sweep that was interrupted resumes; two sweeps
    may fill one file at once. What it has with less work than --effort asks for is improved: local
    searches go on from what is stored, and nothing stored is lost.

    \b
    Example:
      ocs-codesign sweep --nodes 2-6 --degree 2 --catalogue mine.sqlite
    """
    check_outputs(json_path)
    from ocs_codesign.search.bases import Effort
    from ocs_codesign.search.sweep import sweep as run

    command = (
        f"ocs-codesign sweep --nodes {nodes[0]}-{nodes[-1]} "
        f"--degree {degrees[0]}-{degrees[-1]} --links {links} --seed {seed}"
        + f" --effort {factor}"
        * (factor > 1)
    )
    questions = questions_of(nodes, degrees, links)
    kept = f"the answers so far are kept in {path}"
    with long_work("Sweeping", kept, workers, dask) as (executor, number):
        answered = run(
            Path(path),
            questions,
            executor,
            number,
            command=command,
            effort=Effort(seed=seed, work=factor * Effort().work),
        )
    value = {"catalogue": path, "command": command, "asked": len(questions), "answered": answered}
    facts = (("catalogue", path), ("questions", len(questions)), ("answered now", answered))
    emit(value, json_path, [Facts(*facts)])


def questions_of(nodes: range, degrees: range, links: str) -> list[Question]:
    """All questions of some sizes, degrees and kinds of links."""
    from ocs_codesign.schedules.design import Question

    kinds = {"any": [False], "bidirectional": [True], "both": [False, True]}[links]
    return [
        Question(number, degree, bidirectional)
        for number in nodes
        for degree in degrees
        for bidirectional in kinds
        if degree < number
    ]


# ``ocs-codesign explore``: a catalogue as pages of a browser.


_WRITTEN, _SERVED = 256, 2048
_MOST_GRAPH_NODES = 4096


@click.command(short_help="Browse a catalogue's designs in a browser.")
@click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    help="Where to write the site; its index.html opens from disk.",
)
@click.option("--serve", is_flag=True, help="Serve it to this machine until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port to serve on (default: a free one).",
)
@click.option(
    *("--catalogue", "path"),
    type=FILE,
    metavar="FILE",
    help="A catalogue; by default the one shipped.",
)
@click.option(
    "--nodes",
    callback=lambda ctx, param, value: None if value is None else read_range(ctx, param, value),
    metavar="RANGE",
    help="Only sizes in this range, as in 2-256 (default: all).",
)
@click.option(
    *("--degree", "degrees"),
    callback=lambda ctx, param, value: None if value is None else read_range(ctx, param, value),
    metavar="RANGE",
    help="Only degrees in this range, as in 4 or 2-8 (default: all).",
)
@click.option(
    "--graph-nodes",
    type=click.IntRange(0, _MOST_GRAPH_NODES),
    help="Largest designs whose links the pages know, to draw and play them (default: "
    f"{_WRITTEN} in a directory, {_SERVED} if served).",
)
@json_option
def explore(
    directory: str | None,
    serve: bool,
    port: int,
    path: str | None,
    nodes: range | None,
    degrees: range | None,
    graph_nodes: int | None,
    json_path: str | None,
) -> None:
    """Write or serve pages that show the designs of a catalogue.

    Frontiers with their bounds, graphs drawn, schedules played step by step, times for messages,
    designs side by side, bundles and simulated timelines from files. The site is one directory
    that needs no network and no server: the whole catalogue takes some 30 MB and a minute or two.
    With --serve nothing is written, and data is made when a page asks for it.

    DIR must be new, empty or hold an earlier site, which is replaced as a whole.

    \b
    Example:
      ocs-codesign explore --nodes 8-32 --degree 4 --out site
    """
    if serve == (directory is not None):
        raise click.UsageError("one of --out and --serve is needed, not both")
    if port and not serve:
        raise click.UsageError("--port is for --serve")
    check_outputs(json_path)
    from ocs_codesign.faces.web.site import check_site_directory, payloads
    from ocs_codesign.search.catalogue.store import Catalogue

    if directory is not None:
        check_site_directory(directory)
    with Catalogue(path) as store:
        questions = _chosen(store.questions(), nodes, degrees)
        name = "designs.sqlite, as shipped" if path is None else Path(path).name
        most = (_SERVED if serve else _WRITTEN) if graph_nodes is None else graph_nodes
        made = payloads(store, name, questions, most)
        if directory is None:
            _serve(made, port, len(questions), json_path)
        else:
            _write(made, directory, len(questions), json_path)


def _chosen(
    questions: list[Question], nodes: range | None, degrees: range | None
) -> list[Question]:
    """Those within the ranges; ValueError if there are none."""
    found = [
        question
        for question in questions
        if (nodes is None or question.num_nodes in nodes)
        and (degrees is None or question.degree in degrees)
    ]
    if not found:
        raise ValueError("the catalogue has no designs of these sizes: nothing can be shown")
    return found


def _write(
    made: Mapping[str, Callable[[], Any]], directory: str, num_questions: int, json_path: str | None
) -> None:
    from ocs_codesign.faces.web.site import PAGE, write_site

    with progress("Writing the site"):
        listing = write_site(directory, made)
    sizes = listing["files"].values()
    page = str(Path(directory) / PAGE)
    value = {
        "directory": directory,
        "page": page,
        "questions": num_questions,
        "num_files": len(sizes),
        "num_bytes": sum(sizes),
    }
    facts = Facts(
        ("site", f"{directory}, {sum(sizes) / 1e6:.3g} MB in {len(sizes)} files"),
        ("questions", num_questions),
        ("open", page),
    )
    emit(value, json_path, [facts])


def _serve(
    made: Mapping[str, Callable[[], Any]], port: int, num_questions: int, json_path: str | None
) -> None:
    from ocs_codesign.faces.web.serve import HOST, server

    with server(made, port) as serving:
        address = f"http://{HOST}:{serving.server_port}/"
        value = {"address": address, "questions": num_questions}
        emit(value, json_path, [f"The explorer is at {address} (Ctrl-C ends it)."])
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            click.echo("Ended.", err=True)
