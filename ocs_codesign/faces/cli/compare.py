"""``ocs-codesign compare``: every scheduler and classic algorithm on one clock."""

from __future__ import annotations

from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.aggregation import aggregation_option
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.interruption import interruptions
from ocs_codesign.faces.cli.machine_options import clock_of, machine_option
from ocs_codesign.faces.cli.message_options import sizes_of, unit_Bps, with_latencies
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.workers import WorkerOptions, executor_of

if TYPE_CHECKING:
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.compare.contest import Contest


# As contest.COMPARED has them, which takes too long to import where a command line only starts.
COMPARED = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce")
OUTCOMES, BOOK = "outcomes", "book"


def read_sizes(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """Sizes as in 1KiB-1GiB (times four each), or a list as in 1KiB,64MiB."""
    try:
        sizes = [int(size) for size in sizes_of(value)]
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if sizes != sorted(set(sizes)) or sizes[0] < 1:
        text = f"{value!r} is no rising list of sizes of at least a byte, as in 1KiB-1GiB"
        raise click.BadParameter(text, ctx, param)
    return tuple(sizes)


class CompareOptions(OptionGroup):
    """What plays on which networks, by which clock."""

    networks: tuple[str, ...] = argument("networks", metavar="NETWORK...", nargs=-1, required=True)
    collective: str = opt.collective_choice(
        *COMPARED, help="The collective operation; a broadcast is from host 0, a reduce to it."
    )
    sizes: tuple[int, ...] = option(
        "--message",
        callback=read_sizes,
        metavar="RANGE",
        default="1KiB-1GiB",
        help="M, the buffer of a rank: from one size to another, times four each, or a list of "
        "sizes with commas.",
    )
    machine: str | None = machine_option
    latency: float | None = opt.latency_option
    bandwidth: float | None = opt.bandwidth_option_of(
        "Total egress of a host, where the network has no unit, such as 100Gbps."
    )
    barriers: bool = option(
        "--barrier", is_flag=True, help="A step waits for all of the step before it."
    )
    aggregation: AggregationProfile | None = aggregation_option(
        "Let switches add up allreduces as well, packet by packet, as NAME says."
    )
    directory: str | None = option(
        "--out",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Keep every outcome there, go on where an earlier run ended, and write the book of "
        "the best schedules.",
    )
    where: WorkerOptions = group(WorkerOptions)


@command(plot="time and bus bandwidth by size")
def compare(given: CompareOptions = group(CompareOptions)) -> Answer:
    """Let everything that makes a collective play on a NETWORK, and name the best by size.

    A NETWORK is a recipe, a network file or a builder such as a100(4). Whatever applies is built,
    checked and simulated on the same clock: BFB, exact schedules, expansions, forests in several
    numbers of parts, and the classic algorithms, whose messages take shortest paths. Latency flies,
    links are queues, switches pass on at once. Of several networks, of as many hosts each, the best
    of all is named as well.

    With a machine every message costs its ends time as well, links have latencies and shares of
    their peak by protocol, and each schedule takes the fastest of LL, LL128 and Simple. Of those
    within a tenth of the fastest the best is the one of fewest steps. What NCCL takes is told
    beside, on a clock of its own: a schedule is to be taken in its place only where the intervals
    of both have nothing in common, else it is a tie.

    DIR gets outcomes/, from which an interrupted run goes on, and a book: which schedule to use
    from which size on. verify takes it.

    \b
    Example:
      ocs-codesign compare 'UniRing(1, 4)' --bandwidth 100Gbps --message 1KiB,1GiB --workers 1
    """
    from ocs_codesign.schedules.compare.comparison import compare as play_all

    contests = [_contest(given, text) for text in dict.fromkeys(given.networks)]
    _check_alike(contests)
    out = None if given.directory is None else Path(given.directory)
    try:
        with interruptions(), progress("Comparing"), executor_of(given.where) as (executor, number):
            kept = None if out is None else out / OUTCOMES
            found = play_all(contests, executor, number, kept)
            if out is not None:
                tell_phase("Writing the book", 0, 0)
                _write_books(found, out)
    except KeyboardInterrupt:
        if out is None:
            raise
        text = f"Interrupted: what has played is kept in {out}; the same command goes on."
        click.echo(text, err=True)
        raise click.exceptions.Exit(130) from None
    figure = ("simulation.comparison_figure", found)
    return answered("compare.compare", found, given.directory, figure=figure)


def _contest(given: CompareOptions, text: str) -> Contest:
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.compare.contest import Contest

    machine = clock_of(text, given.machine, given.latency)
    network, recipe = _network_and_recipe(text)
    rooted = given.collective in ("broadcast", "reduce")
    wanted = Collective(given.collective, 0 if rooted else None)
    unit = unit_Bps(network, given.bandwidth)
    network = with_latencies(network, given.latency)
    name = opt.name_of(text)
    return Contest(
        *(name, network, wanted, given.sizes, unit, recipe),
        barriers=given.barriers,
        aggregation=given.aggregation,
        machine=machine,
    )


def _network_and_recipe(text: str) -> tuple[Network, Recipe | None]:
    """The network, and its recipe if it was given as one."""
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.core.networks.registry import NETWORKS
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.faces.sites import is_builder
    from ocs_codesign.graphs.handle import asked_digits

    builder = text.partition("(")[0].strip()
    is_recipe = asked_digits(text) is not None or (
        text.rstrip().endswith(")") and builder not in NETWORKS and not is_builder(text)
    )
    if exists(text) or not is_recipe:
        return opt.network_of(text), None
    recipe = recipe_of(text)
    return direct(recipe.topology(), 1), recipe


def _check_alike(contests: list[Contest]) -> None:
    hosts = {contest.num_hosts for contest in contests}
    if len(hosts) > 1:
        numbers = ", ".join(f"{each.name} has {each.num_hosts}" for each in contests)
        raise click.UsageError(f"networks of as many hosts are compared: {numbers}")


def _write_books(found: list[Comparison], out: Path) -> None:
    from ocs_codesign.schedules.compare.comparison import book_of
    from ocs_codesign.schedules.files.books import save_book

    for number, each in enumerate(found, 1):
        save_book(book_of(each), out / (BOOK if len(found) == 1 else f"{BOOK}{number}"))
