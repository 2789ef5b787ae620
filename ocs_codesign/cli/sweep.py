"""``ocs-codesign sweep``: fill a catalogue, on this machine or on a Dask cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.sections import Facts
from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.workers import long_work, workers_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ocs_codesign.question import Question


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
    "--degrees",
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
      ocs-codesign sweep --nodes 2-6 --degrees 2 --catalogue mine.sqlite
    """
    check_outputs(json_path)
    from ocs_codesign.search.effort import Effort
    from ocs_codesign.search.sweep import sweep as run

    command = (
        f"ocs-codesign sweep --nodes {nodes[0]}-{nodes[-1]} "
        f"--degrees {degrees[0]}-{degrees[-1]} --links {links} --seed {seed}"
        + f" --effort {factor}"
        * (factor > 1)
    )
    questions = questions_of(nodes, degrees, links)
    kept = f"the answers so far are kept in {path}"
    with long_work("Sweeping", kept, workers, dask) as (shown, executor, number):
        answered = run(
            Path(path),
            questions,
            executor,
            number,
            command=command,
            effort=Effort(seed=seed, work=factor * Effort().work),
            on_progress=shown.tell,
        )
    value = {"catalogue": path, "command": command, "asked": len(questions), "answered": answered}
    facts = (("catalogue", path), ("questions", len(questions)), ("answered now", answered))
    emit(value, json_path, [Facts(*facts)])


def questions_of(nodes: range, degrees: range, links: str) -> list[Question]:
    """All questions of some sizes, degrees and kinds of links."""
    from ocs_codesign.question import Question

    kinds = {"any": [False], "bidirectional": [True], "both": [False, True]}[links]
    return [
        Question(number, degree, bidirectional)
        for number in nodes
        for degree in degrees
        for bidirectional in kinds
        if degree < number
    ]
