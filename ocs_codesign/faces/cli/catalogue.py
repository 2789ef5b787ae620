"""``ocs-codesign catalogue``: look designs up, export them, verify them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import counted
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import (
    OUTPUT,
    OptionGroup,
    WholeNumbers,
    argument,
    command,
    group,
    option,
)
from ocs_codesign.faces.cli.output import Answer, answered, told
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.sweep import (
    FilledOptions,
    degrees_option,
    effort_option,
    filled_option,
    links_option,
    nodes_option,
    questions_of,
)
from ocs_codesign.faces.cli.workers import long_work

if TYPE_CHECKING:
    from ocs_codesign.faces.cli.options import SolverChoice
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.gaps import GapLine


@click.group()
def catalogue() -> None:
    """Look designs up in a catalogue filled by ``sweep``, or go on where they are worst.

    \b
    Example:
      ocs-codesign catalogue find --nodes 96 --degree 4
    """


# ``ocs-codesign catalogue gaps`` and ``improve``: where answers are worst, and going on there.


file_option = option(
    *("--catalogue", "path"),
    type=opt.FILE,
    metavar="FILE",
    help="A catalogue; by default the one shipped.",
)


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


def above_option(text: str) -> Any:
    """The option --above, as the argument ``above``: lines that gaps should not be above."""
    return option("--above", callback=read_lines, multiple=True, metavar="STEPS:PERCENT", help=text)


class ImproveOptions(FilledOptions):
    """Where a catalogue is searched on, for how long."""

    nodes: tuple[int, ...] = nodes_option("2-2048")
    path: str = filled_option("The catalogue to improve.")
    factor: int = effort_option(
        "Effort for a question: 1 takes half a second to two at 1000 nodes."
    )
    seconds: float | None = option(
        "--time-limit",
        callback=opt.positive_time,
        metavar="QUANTITY",
        help="Begin passes over the questions for so long; one pass by default.",
    )
    above: list[GapLine] = above_option(
        "Only sizes whose t_b is further above the bound at so many steps above the fewest; repeat"
        " it for sizes above any such line."
    )


@command("improve", of=catalogue, short_help="Search on where answers are worst.")
def improve_command(given: ImproveOptions = group(ImproveOptions)) -> Answer:
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
      ocs-codesign sweep --nodes 2-4 --degree 2 --catalogue mine.sqlite
      ocs-codesign catalogue improve --nodes 2-4 --degree 2 --catalogue mine.sqlite
    """
    from ocs_codesign.search.bases import Effort
    from ocs_codesign.search.improving import PASS_WORK, improve

    path = given.existing()
    kept = f"the designs so far are kept in {given.path}"
    with long_work("Improving", kept, given.where) as (executor, number):
        answer = improve(
            path,
            given.questions(),
            executor,
            number,
            effort=Effort(seed=given.seed, work=given.factor * PASS_WORK),
            seconds=given.seconds,
            above=given.above,
        )
    return answered("joint.improved", answer, given.path)


@command(
    "gaps", of=catalogue, short_help="Show where answers are worst.", plot="a map of nodes by ports"
)
def gaps_command(
    nodes: tuple[int, ...] = nodes_option("257-1024"),
    degrees: tuple[int, ...] = degrees_option,
    links: str = links_option,
    path: str | None = file_option,
    worst: int = option("--top", type=click.IntRange(0), default=10, help="Sizes to list."),
    above: list[GapLine] = above_option(
        "List only sizes further above the bound than that; repeat it for any such line."
    ),
) -> Answer:
    """Show how far what a catalogue has is above the bound, at every number of steps.

    The excess of a size at k steps is the share by which the least t_b of an allgather in at most k
    steps is above what counting allows. The table has, for the fewest steps there can be and up to
    four more, the share of sizes within some percents; sizes follow whose gap is largest, where
    'catalogue improve' begins, with --above those that its --above would take.

    \b
    Example:
      ocs-codesign catalogue gaps --nodes 65-128 --degree 2-4 --top 5
    """
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.gaps import gaps_of

    with progress("Reading"), Catalogue(path) as store:
        gaps = gaps_of(store, questions_of(nodes, degrees, links))
    if not gaps:
        raise ValueError(f"{store.path} has no designs of {nodes[0]} to {nodes[-1]} nodes")
    return answered("joint.gaps", gaps, above, num_worst=worst, figure=("gaps.gaps_figure", gaps))


# ``ocs-codesign catalogue alltoall``: all-to-all times of what is stored, and better designs.


class AlltoallOptions(FilledOptions):
    """Which all-to-alls of a catalogue are solved, for how long."""

    nodes: tuple[int, ...] = nodes_option("2-64")
    path: str = filled_option("The catalogue to add them to.")
    factor: int = effort_option(
        "Search for better designs: 1 is what frontier does, 0 only times what is stored.", 0
    )
    seconds: float | None = option(
        "--time-limit",
        callback=opt.positive_time,
        metavar="QUANTITY",
        help="Begin no size after so long.",
    )


@command("alltoall", of=catalogue, short_help="Store all-to-all times.")
def alltoall_command(given: AlltoallOptions = group(AlltoallOptions)) -> Answer:
    """Work out how long an all-to-all takes on what a catalogue has, and keep it there.

    The time is the least there is when messages may split over paths, in units of M/B, exact and
    proven. It is worked out where that takes about a second: for designs of few orbits of links, as
    vertex-transitive ones are, and for small ones, up to about 60 nodes. Then designs that serve
    all-to-all better are searched for, and added where no stored one beats them. The smallest sizes
    come first; what is there is not done again, so a run that was interrupted goes on where it was.
    'frontier --collective alltoall' answers such sizes at once.

    \b
    Example:
      ocs-codesign sweep --nodes 2-4 --degree 2 --catalogue mine.sqlite
      ocs-codesign catalogue alltoall --nodes 2-4 --degree 2 --catalogue mine.sqlite
    """
    from ocs_codesign.search.bases import Effort
    from ocs_codesign.search.improving import ALLTOALL_PASS_WORK, time_alltoall

    path = given.existing()
    kept = f"the times so far are kept in {given.path}"
    with long_work("Solving all-to-alls", kept, given.where) as (executor, number):
        answer = time_alltoall(
            path,
            given.questions(),
            executor,
            number,
            effort=Effort(seed=given.seed, work=given.factor * ALLTOALL_PASS_WORK),
            seconds=given.seconds,
        )
    return answered("frontier.timed", answer, given.path)


class FindOptions(OptionGroup):
    """A size, and what its designs have to keep to."""

    num_nodes: int = option(
        "--nodes",
        type=WholeNumbers(2, each=True),
        required=True,
        help="Nodes N, as in 96 or 90-96.",
    )
    degree: int = option(
        "--degree", type=WholeNumbers(each=True), required=True, help="Ports of a node d."
    )
    bidirectional: bool = option(
        "--bidirectional", is_flag=True, help="Every link in both directions."
    )
    collective: str = opt.collective_choice(*opt.GATHERING, opt.ALLTOALL)
    max_steps: int | None = option(
        "--max-steps", type=click.IntRange(1), help="At most so many steps."
    )
    max_t_b: str | None = option(
        "--max-t-b", metavar="X", help="At most this t_b, as in 1, 1.05 or 261/256."
    )
    pick: int | None = opt.pick_option
    path: str | None = file_option
    choice: SolverChoice = opt.solving_options


@command("find", of=catalogue, short_help="Show the stored frontier of a size.")
def find_command(given: FindOptions = group(FindOptions)) -> Answer:
    """Show the stored frontier of a size; of the nearest larger one if there is none.

    Without --catalogue it has all that 'frontier' has without a search: what is shipped, what
    earlier searches on this machine found, published designs, ring and torus.

    All-to-all is stored where that takes about a second to work out. With --collective alltoall it
    is solved now for the other designs stored for the size, as far as it takes to rank them:
    seconds, up to minutes for 1000 nodes without symmetry. Its steps are the diameter. The other
    collectives are looked up.

    Exit code 1 if no stored design is within the limits.

    \b
    Example:
      ocs-codesign catalogue find --nodes 96 --degree 4 --max-steps 4
    """
    if given.collective != opt.ALLTOALL:
        given.choice.check_unused(f"--collective {opt.ALLTOALL}")
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.catalogue.entry import find
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.pool import Pools

    limit = None if given.max_t_b is None else _fraction(given.max_t_b)
    asked = Question(given.num_nodes, given.degree, given.bidirectional)
    with nullcontext(Pools()) if given.path is None else Catalogue(given.path) as store:
        if given.collective == opt.ALLTOALL:
            from ocs_codesign.faces.cli.frontier import StoredLimits, stored_by_alltoall

            limits = StoredLimits(given.max_steps, limit)
            return stored_by_alltoall(store, asked, limits, given.choice, given.pick)
        found = find(store, asked, given.collective, max_steps=given.max_steps, max_t_b=limit)
    answer = answered("frontier.found", found, code=0 if found.entries else 1)
    return answer.picked([[entry.recipe] for entry in found.entries], given.pick)


@command("show", of=catalogue, short_help="Show what is known of a RECIPE, and from where.")
def show_command(recipe: str = argument("recipe"), path: str | None = file_option) -> Answer:
    """Show what the catalogue knows of a RECIPE and where it comes from; exit code 1 if nothing.

    \b
    Example:
      ocs-codesign catalogue show 'Named("petersen")'
    """
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store:
        found = store.of_recipe(recipe_of(recipe))
        origins = [store.provenance(question) for question, _ in found]
    if not found:
        unknown = {"recipe": recipe, "found": False}
        return told("sections.unknown", unknown, [f"{recipe} is not stored."], code=1)
    return answered("frontier.known", found[0][1], origins[0])


@command("export", of=catalogue)
def export_command(
    kind: str = option(
        "--format", type=click.Choice(["csv", "parquet", "json"]), required=True, help="Format."
    ),
    out: str = option(
        "--out", type=OUTPUT, metavar="FILE", required=True, help="Where to write it."
    ),
    path: str | None = file_option,
) -> Answer:
    """Write all stored designs as one table.

    \b
    Example:
      ocs-codesign catalogue export --format csv --out designs.csv
    """
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.catalogue.table import table_bytes, table_rows

    with progress("Exporting"), Catalogue(path) as store:
        rows = table_rows(store)
        content = table_bytes(rows, kind)
    value = {"format": kind, "out": out, "entries": len(rows)}
    text = f"{len(rows)} designs written to {out}."
    return told("sections.exported", value, [text], {out: content})


@command("verify", of=catalogue, short_help="Check all checksums, and designs by building them.")
def verify_command(
    sample: int = option("--sample", type=click.IntRange(0), default=20, help="Designs."),
    seed: int = option("--seed", type=click.IntRange(0), default=0, help="Of the sample."),
    path: str | None = file_option,
) -> Answer:
    """Check every checksum; rebuild and score a sample of the designs again.

    Exit code 1 if a design does not have its stored cost, of an all-to-all too where it is stored.

    \b
    Example:
      ocs-codesign catalogue verify --sample 5
    """
    from ocs_codesign.search.catalogue.store import Catalogue

    with Catalogue(path) as store, progress("Verifying"):
        store.check()
        number, wrong = _rescored(store, sample, seed)
    value = {"ok": not wrong, "entries": number[0], "sampled": number[1], "wrong": wrong}
    text = f"{number[0]} designs, all checksums right; {number[1]} scored again"
    text += f", wrong: {'; '.join(wrong)}" if wrong else ", all right."
    return told("sections.checked", value, [text], code=1 if wrong else 0)


def _rescored(store: Catalogue, sample: int, seed: int) -> tuple[tuple[int, int], list[str]]:
    """Numbers of designs and of those sampled, and the recipes whose cost is another."""
    import random

    from ocs_codesign.graphs.text import parse
    from ocs_codesign.schedules.design import measure
    from ocs_codesign.schedules.paths.throughput import throughput

    entries = [entry for _, entry in store.all_entries()]
    chosen = random.Random(seed).sample(entries, min(sample, len(entries)))
    wrong = []
    for entry in counted(chosen):
        candidate = measure(parse(entry.recipe))
        if (candidate.cost_of("allgather"), candidate.cost_of("reduce-scatter")) != (
            entry.allgather,
            entry.reduce_scatter,
        ):
            wrong.append(entry.recipe)
        elif entry.alltoall is not None:
            solved = throughput(parse(entry.recipe).topology())
            if not (solved.is_optimal and solved.time == entry.alltoall):
                wrong.append(f"all-to-all of {entry.recipe}")
    return (len(entries), len(chosen)), wrong


def _fraction(text: str) -> Any:
    from ocs_codesign.core.quantities import parse_number

    try:
        return parse_number(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
