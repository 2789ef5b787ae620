"""``ocs-codesign catalogue gaps`` and ``improve``: where answers are worst, and going on there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import FILE, plot_option
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.sweep import (
    degrees_option,
    filled_option,
    links_option,
    questions_of,
    read_range,
    seed_option,
)
from ocs_codesign.cli.workers import long_work, workers_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ocs_codesign.search.gaps import GapLine

file_option = click.option(
    *("--catalogue", "path"),
    type=FILE,
    metavar="FILE",
    help="A catalogue; by default the one shipped.",
)


def sizes_options(default_nodes: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options --nodes, --degrees and --links of a command about many questions."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = degrees_option(links_option(command))
        return click.option(
            "--nodes",
            callback=read_range,
            metavar="RANGE",
            default=default_nodes,
            show_default=True,
            help="Numbers of nodes.",
        )(command)

    return add


def read_lines(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[GapLine]:
    """Lines written as in 2:4, an excess of 4 % at two steps above the fewest."""
    import re
    from fractions import Fraction

    from ocs_codesign.search.gaps import GapLine

    lines = []
    for text in value:
        parts = re.fullmatch(r"([0-9]{1,6}):([0-9]{1,6}(?:\.[0-9]{1,6})?)", text, re.ASCII)
        if parts is None:
            raise click.BadParameter(f"{text!r} is not STEPS:PERCENT as in 2:4", ctx, param)
        try:
            lines.append(GapLine(int(parts[1]), Fraction(parts[2]) / 100))
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}", ctx, param) from None
    return lines


def above_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --above, as the argument ``above``: lines that gaps should not be above."""
    return click.option(
        "--above", callback=read_lines, multiple=True, metavar="STEPS:PERCENT", help=text
    )


@click.command("improve", short_help="Search on where answers are worst.")
@sizes_options("2-2048")
@filled_option("The catalogue to improve.")
@workers_options
@seed_option
@click.option(
    "--effort",
    "factor",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Effort for a question: 1 takes half a second to two at 1000 nodes.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="Begin passes over the questions for so long; one pass by default.",
)
@above_option(
    "Only sizes whose t_b is further above the bound at so many steps above the fewest; repeat it "
    "for sizes above any such line."
)
@json_option
def improve_command(
    nodes: range,
    degrees: range,
    links: str,
    path: str,
    workers: int | None,
    dask: str | None,
    seed: int,
    factor: int,
    seconds: float | None,
    above: list[GapLine],
    json_path: str | None,
) -> None:
    """Search on, where what a catalogue has is furthest above what counting allows.

    Of the questions that the file has answers to, those with the largest gaps come first, each with
    the same small effort: affine digraphs, neighbouring sizes with nodes taken out or put in,
    lifts, swaps of links, and expansions of smaller answers that are better by now. Another pass
    draws other samples, and those that passes before have not come to are first, so that a run that
    was interrupted goes on where it was. Designs are added, none is taken away. With --above 2:4
    only sizes count whose best design of at most two steps above the fewest has a t_b more than
    4 % above the bound.

    \b
    Example:
      ocs-codesign sweep --nodes 2-6 --degrees 2 --catalogue mine.sqlite
      ocs-codesign catalogue improve --nodes 2-6 --degrees 2 --catalogue mine.sqlite
    """
    check_outputs(json_path)
    from ocs_codesign.answers.gaps import improved_facts, improved_json
    from ocs_codesign.search.effort import Effort
    from ocs_codesign.search.improving import PASS_WORK, improve

    if not Path(path).exists():
        raise ValueError(f"there is no catalogue at {path}")
    kept = f"the designs so far are kept in {path}"
    with long_work("Improving", kept, workers, dask) as (shown, executor, number):
        answer = improve(
            Path(path),
            questions_of(nodes, degrees, links),
            executor,
            number,
            effort=Effort(seed=seed, work=factor * PASS_WORK),
            seconds=seconds,
            above=above,
            on_progress=shown.tell,
        )
    emit(improved_json(answer, path), json_path, [improved_facts(answer, path)])


@click.command("gaps", short_help="Show where answers are worst.")
@sizes_options("257-1024")
@file_option
@click.option(
    "--worst", type=click.IntRange(0), default=10, show_default=True, help="Sizes to list."
)
@above_option("List only sizes further above the bound than that; repeat it for any such line.")
@plot_option("a map of nodes by ports")
@json_option
def gaps_command(
    nodes: range,
    degrees: range,
    links: str,
    path: str | None,
    worst: int,
    above: list[GapLine],
    plot: str | None,
    json_path: str | None,
) -> None:
    """Show how far what a catalogue has is above the bound, at every number of steps.

    The excess of a size at k steps is the share by which the least t_b of an allgather in at most k
    steps is above what counting allows. The table has, for the fewest steps there can be and up to
    four more, the share of sizes within some percents; sizes follow whose gap is largest, where
    'catalogue improve' begins, with --above those that its --above would take.

    \b
    Example:
      ocs-codesign catalogue gaps --nodes 65-128 --degrees 2-4 --worst 5
    """
    check_outputs(json_path, plot)
    from ocs_codesign.answers.gaps import gaps_json, gaps_sections
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.gaps import gaps_of

    with progress("Reading"), Catalogue(path) as store:
        gaps = gaps_of(store, questions_of(nodes, degrees, links))
    if not gaps:
        raise ValueError(f"{store.path} has no designs of {nodes[0]} to {nodes[-1]} nodes")
    files = {}
    if plot is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.gaps import gaps_figure

        files[plot] = figure_bytes(gaps_figure(gaps), Path(plot).suffix)
    emit(gaps_json(gaps, above), json_path, gaps_sections(gaps, worst, above), files)
