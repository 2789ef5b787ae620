"""``ocs-codesign sweep``: fill a catalogue, on this machine or on a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.answers.sections import Facts
from ocs_codesign.faces.cli.commands import (
    OptionGroup,
    WholeNumbers,
    command,
    group,
    option,
    spelled,
)
from ocs_codesign.faces.cli.options import DIRECTORY, FILE
from ocs_codesign.faces.cli.output import Answer, publish, told
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.workers import WorkerOptions, long_work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocs_codesign.schedules.design import Question


RANGE = WholeNumbers()
degrees_option = option(
    *("--degree", "degrees"), type=RANGE, metavar="RANGE", default="2-8", help="Degrees."
)
links_option = option(
    "--links",
    type=click.Choice(["any", "bidirectional", "both"]),
    default="any",
    help="Questions: any links, links in both directions only, or both questions.",
)


seed_option = option("--seed", type=click.IntRange(0), default=1, help="Search seed.")


def nodes_option(default: str | None = None) -> Any:
    """The option --nodes of a command about many questions, required without a default."""
    text = "Numbers of nodes." if default else "Numbers of nodes, as in 2-256."
    settings = {"default": default} if default else {"required": True}
    return option(*("--nodes", "nodes"), type=RANGE, metavar="RANGE", help=text, **settings)


def effort_option(text: str, least: int = 1) -> Any:
    """The option --effort, as the argument ``factor``: times the work of a usual search."""
    return option(*("--effort", "factor"), type=click.IntRange(least), default=1, help=text)


def filled_option(text: str) -> Any:
    """The option --catalogue of a command that writes to one, as the argument ``path``."""
    return option(*("--catalogue", "path"), type=FILE, metavar="FILE", required=True, help=text)


class FilledOptions(OptionGroup):
    """Which questions are answered into which catalogue, by whom."""

    nodes: tuple[int, ...] = nodes_option()
    degrees: tuple[int, ...] = degrees_option
    links: str = links_option
    path: str = filled_option("The catalogue to fill.")
    where: WorkerOptions = group(WorkerOptions)
    seed: int = seed_option
    factor: int = effort_option(
        "Times the work of the default search; what is stored with less is searched for again."
    )

    def questions(self) -> list[Question]:
        """All questions of these sizes, degrees and kinds of links."""
        return questions_of(self.nodes, self.degrees, self.links)

    def existing(self) -> Path:
        """The catalogue; ValueError if there is none yet."""
        if not Path(self.path).exists():
            raise ValueError(f"there is no catalogue at {self.path}")
        return Path(self.path)


@command()
def sweep(given: FilledOptions = group(FilledOptions)) -> Answer:
    """Answer every question of some sizes and degrees into a catalogue file.

    What the file has already is not done again, so a sweep that was interrupted resumes; two sweeps
    may fill one file at once. What it has with less work than --effort asks for is improved: local
    searches go on from what is stored, and nothing stored is lost.

    \b
    Example:
      ocs-codesign sweep --nodes 2-4 --degree 2 --catalogue mine.sqlite
    """
    from ocs_codesign.search.bases import Effort
    from ocs_codesign.search.sweep import sweep as run

    command = (
        f"ocs-codesign sweep --nodes {spelled(given.nodes)} "
        f"--degree {spelled(given.degrees)} --links {given.links} --seed {given.seed}"
        + f" --effort {given.factor}"
        * (given.factor > 1)
    )
    questions = given.questions()
    kept = f"the answers so far are kept in {given.path}"
    with long_work("Sweeping", kept, given.where) as (executor, number):
        answered = run(
            Path(given.path),
            questions,
            executor,
            number,
            command=command,
            effort=Effort(seed=given.seed, work=given.factor * Effort().work),
        )
    value = {
        "catalogue": given.path,
        "command": command,
        "asked": len(questions),
        "answered": answered,
    }
    facts = (
        ("catalogue", given.path),
        ("questions", len(questions)),
        ("answered now", f"{answered}, with those that they are made of"),
    )
    return told("sections.sweep", value, [Facts(*facts)])


def questions_of(nodes: tuple[int, ...], degrees: tuple[int, ...], links: str) -> list[Question]:
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


class ExploreOptions(OptionGroup):
    """Which designs of a catalogue are shown, and where."""

    directory: str | None = option(
        "--out",
        type=DIRECTORY,
        metavar="DIR",
        help="Where to write the site; its index.html opens from disk.",
    )
    serve: bool = option("--serve", is_flag=True, help="Serve it to this machine until Ctrl-C.")
    port: int = option(
        "--port",
        type=click.IntRange(0, 65535),
        default=0,
        show_default=False,
        help="The port to serve on (default: a free one).",
    )
    path: str | None = option(
        "--catalogue", type=FILE, metavar="FILE", help="A catalogue; by default the one shipped."
    )
    nodes: tuple[int, ...] | None = option(
        "--nodes",
        type=RANGE,
        metavar="RANGE",
        help="Only sizes in this range, as in 2-256 (default: all).",
    )
    degrees: tuple[int, ...] | None = option(
        "--degree",
        type=RANGE,
        metavar="RANGE",
        help="Only degrees in this range, as in 4 or 2-8 (default: all).",
    )
    graph_nodes: int | None = option(
        "--graph-nodes",
        type=click.IntRange(0, _MOST_GRAPH_NODES),
        help="Largest designs whose links the pages know, to draw and play them (default: "
        f"{_WRITTEN} in a directory, {_SERVED} if served).",
    )


@command()
def explore(given: ExploreOptions = group(ExploreOptions)) -> Answer | None:
    """Write or serve pages that show the designs of a catalogue.

    Frontiers with their bounds, graphs drawn, schedules played step by step, times for messages,
    designs side by side, bundles and simulated timelines from files. The site is one directory
    that needs no network and no server: the whole catalogue takes some 30 MB and some minutes.
    With --serve nothing is written, and data is made when a page asks for it.

    DIR must be new, empty or hold an earlier site, which is replaced as a whole.

    \b
    Example:
      ocs-codesign explore --nodes 8-32 --degree 4 --out site
    """
    if given.serve == (given.directory is not None):
        raise click.UsageError("one of --out and --serve is needed, not both")
    if given.port and not given.serve:
        raise click.UsageError("--port is for --serve")
    from ocs_codesign.faces.web.exchanges import EXCHANGE_NODES, SERVED_EXCHANGE_NODES
    from ocs_codesign.faces.web.site import check_site_directory, payloads
    from ocs_codesign.search.catalogue.store import Catalogue

    if given.directory is not None:
        check_site_directory(given.directory)
    with Catalogue(given.path) as store:
        questions = _chosen(store.questions(), given.nodes, given.degrees)
        name = "designs.sqlite, as shipped" if given.path is None else Path(given.path).name
        usual = _SERVED if given.serve else _WRITTEN
        most = usual if given.graph_nodes is None else given.graph_nodes
        made = payloads(
            store, name, questions, most, SERVED_EXCHANGE_NODES if given.serve else EXCHANGE_NODES
        )
        if given.directory is None:
            _serve(made, given.port, len(questions))
            return None
        return _write(made, given.directory, len(questions))


def _chosen(
    questions: list[Question], nodes: tuple[int, ...] | None, degrees: tuple[int, ...] | None
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


def _write(made: Mapping[str, Callable[[], Any]], directory: str, num_questions: int) -> Answer:
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
    return told("sections.site", value, [facts])


def _serve(made: Mapping[str, Callable[[], Any]], port: int, num_questions: int) -> None:
    from ocs_codesign.faces.web.serve import HOST, server

    with server(made, port) as serving:
        address = f"http://{HOST}:{serving.server_port}/"
        value = {"address": address, "questions": num_questions}
        publish(told("sections.served", value, [f"The explorer is at {address} (Ctrl-C ends it)."]))
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            click.echo("Ended.", err=True)
