"""``ocs-codesign explore``: a catalogue as pages of a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.sections import Facts
from ocs_codesign.cli.file_options import DIRECTORY, FILE
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.sweep import read_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocs_codesign.question import Question

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
    "--degrees",
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
      ocs-codesign explore --nodes 8-32 --degrees 4 --out site
    """
    if serve == (directory is not None):
        raise click.UsageError("one of --out and --serve is needed, not both")
    if port and not serve:
        raise click.UsageError("--port is for --serve")
    check_outputs(json_path)
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.web.payloads import payloads
    from ocs_codesign.web.site import check_site_directory

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
    made: Mapping[str, Callable[[], Any]],
    directory: str,
    num_questions: int,
    json_path: str | None,
) -> None:
    from ocs_codesign.web.site import PAGE, write_site

    with progress("Writing the site") as shown:
        listing = write_site(directory, made, shown.tell)
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
    from ocs_codesign.web.serve import HOST, server

    with server(made, port) as serving:
        address = f"http://{HOST}:{serving.server_port}/"
        value = {"address": address, "questions": num_questions}
        emit(value, json_path, [f"The explorer is at {address} (Ctrl-C ends it)."])
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            click.echo("Ended.", err=True)
