"""The options --ranks, --alpha, --bandwidth, --algorithm and --aggregation: a job's machine."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from os.path import exists
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.aggregation import aggregation_option
from ocs_codesign.faces.cli.commands import OptionGroup, group, option
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.message_options import unit_Bps, whole_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.core.plans import Book
    from ocs_codesign.jobs.files.job_files import GivenMachine, LoadedJob
    from ocs_codesign.jobs.on_links import PlacedMessages
    from ocs_codesign.jobs.prices import GroupBook


# Spelled out, since importing the prices for a help text would take too long.
ALGORITHMS = ("ring", "direct", "bruck")


class MachineOptions(OptionGroup):
    """What messages and computations of a job cost, as it was asked for."""

    ranks: int | None = option(
        "--ranks",
        type=click.IntRange(1, 2**20),
        help="Ranks of a trace that does not say how many there are.",
    )
    alpha: float | None = opt.alpha_option_of(
        "Time of a step, where the file has no machine, such as 10us."
    )
    bandwidth: float | None = opt.bandwidth_option_of(
        "Total egress of a rank, where the file has no machine, such as 100Gbps."
    )
    algorithm: str | None = option(
        "--algorithm",
        type=click.Choice(ALGORITHMS),
        help="How collectives run, where the file has no machine (default: ring).",
    )
    aggregation: AggregationProfile | None = aggregation_option(
        "Switches between ranks, of the outermost level, add up allreduces."
    )
    accelerator: str | None = option(
        "--accelerator",
        metavar="NAME|PEAK,MEMORY",
        help="What does computations of Chakra's traces that have operations and bytes and no "
        "time: h100, or 989TFLOPS,3350GB/s.",
    )
    ignore: tuple[str, ...] = option(
        "--ignore",
        type=click.Choice(["missing-dependencies", "processor"]),
        multiple=True,
        help="Of Chakra's traces leave out waits for nodes that are not there, or computations on "
        "processors; may be repeated.",
    )
    machine: str | None = machine_option_of(
        "Collectives take what the library of a machine does, by NCCL's model or the curve of a "
        "log, other messages its protocols: a name such as dgx-h100, a file that calibrate has "
        "written, or none (default: what the file says)."
    )


def given_machine(asked: MachineOptions = group(MachineOptions)) -> GivenMachine | None:
    """What messages of a job cost, as the options say; None if they say nothing."""
    from ocs_codesign.jobs.files.job_files import GivenMachine, accelerator_of

    given, accelerator = _messages_given(asked), asked.accelerator
    if accelerator is None and not asked.ignore:
        return given
    chip = None if accelerator is None else accelerator_of(accelerator)
    return replace(given or GivenMachine(None), accelerator=chip, ignore=asked.ignore)


def _messages_given(asked: MachineOptions) -> GivenMachine | None:
    alpha, bandwidth, algorithm = asked.alpha, asked.bandwidth, asked.algorithm
    ranks, aggregation, real = asked.ranks, asked.aggregation, machine_of(asked.machine)
    if real is not None:
        if (alpha, bandwidth, algorithm) != (None,) * 3:
            raise click.UsageError("--alpha, --bandwidth and --algorithm are without a --machine")
        from ocs_codesign.jobs.files.job_files import GivenMachine

        return GivenMachine(None, num_ranks=ranks, aggregation=aggregation, real=real)
    others = alpha, bandwidth, ranks, algorithm
    if all(each is None for each in others):
        if aggregation is None:
            return None
        from ocs_codesign.jobs.files.job_files import GivenMachine

        return GivenMachine(None, aggregation=aggregation)
    if alpha is None or bandwidth is None:
        raise click.UsageError("give --alpha and --bandwidth together: what messages cost")
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.jobs.files.job_files import GivenMachine

    model = CostModel(alpha, bandwidth)
    return GivenMachine(model, algorithm or ALGORITHMS[0], ranks, aggregation)


# The options --fidelity, --network, --latency and --cut-through: a job on real links.


FORMULA, TRANSFERS = "formula", "transfers"

_NEEDS_NETWORK = "--fidelity transfers needs --network: the links they cross"


class AskedLinks(OptionGroup):
    """A network for the transfers of a job, as it was asked for; None: that of configurations."""

    fidelity: str | None = option(
        "--fidelity",
        type=click.Choice([FORMULA, TRANSFERS]),
        help="What messages take: alpha-beta costs, or what their transfers take over the links of "
        "--network, which they share (default: formula, or transfers with --network).",
    )
    network: str | None = option(
        "--network",
        metavar="NETWORK",
        help="The network of --fidelity transfers, rank r on host r: a file, a builder such as "
        "star(8,400), or a recipe.",
    )
    latency_s: float | None = opt.quantity_option(
        "--latency", parse_time, "Latency of its links (default: the network's own)."
    )
    cut_through: bool = option(
        "--cut-through",
        is_flag=True,
        help="On it a message goes on when its head has come, not all of it.",
    )

    @property
    def are_crossed(self) -> bool:
        """Whether messages are transfers over links, and no formula is asked for."""
        return self.fidelity == TRANSFERS or (self.fidelity is None and self.network is not None)

    def check(self, *, of_configurations: bool) -> None:
        """UsageError for links that are missing, or that nothing crosses."""
        if self.network is None and self.are_crossed and not of_configurations:
            raise click.UsageError(_NEEDS_NETWORK)
        if not self.are_crossed and (
            self.network is not None or self.latency_s is not None or self.cut_through
        ):
            raise click.UsageError(
                "--network, --latency and --cut-through are for --fidelity transfers"
            )

    def placed(
        self, job: LoadedJob, bandwidth: float | None, books: Sequence[GroupBook] = ()
    ) -> PlacedMessages:
        """The messages of a job on the network; ``bandwidth`` is what leaves a host in all."""
        from ocs_codesign.jobs.on_links import LinkPlans, on_clock, placed
        from ocs_codesign.schedules.simulate.transfers import TimingRules

        if self.network is None:
            raise click.UsageError(_NEEDS_NETWORK)
        network = opt.network_of(self.network)
        if self.latency_s is not None:
            network = network.with_latency(whole_ticks(self.latency_s, network, "--latency"))
        if bandwidth is None and job.machine is not None and not network.unit:
            bandwidth = float(job.machine.levels[-1].model.node_bandwidth_Bps)
        unit = unit_Bps(network, None if network.unit else bandwidth)
        rules = TimingRules(unit_Bps=unit, cut_through=self.cut_through)
        plans = LinkPlans(job.machine, books)
        return placed(on_clock(job.graph, network.tick_s), network, rules, plans)


# The option --book: schedules that groups of a job's ranks take, from a directory or a recipe.


book_option = option(
    "--book",
    "books",
    metavar="[WHO=]BOOK",
    multiple=True,
    help="A book of schedules that compare made, or a recipe, for groups of as many ranks as it "
    "has; WHO is what messages are called, or level0 for those of the machine's innermost level "
    "(default: all). May be repeated.",
)


def with_books(job: LoadedJob, texts: tuple[str, ...]) -> tuple[LoadedJob, tuple[GroupBook, ...]]:
    """The job whose messages cost what the books' plans do, and the books.

    Raises ValueError for a book that no message takes, and for two for the same messages.
    """
    if not texts:
        return job, ()
    from ocs_codesign.jobs.prices import priced_by_books

    if job.machine is None:
        raise ValueError("--book is for messages with bytes: those of this job have times instead")
    books = tuple(one for text in texts for one in _group_books(job, text))
    return replace(job, graph=priced_by_books(job.graph, books, job.machine)), books


def _group_books(job: LoadedJob, text: str) -> list[GroupBook]:
    """The books that ``text`` asks for: one of a directory, of a recipe one for each collective."""
    from ocs_codesign.jobs.prices import GroupBook

    who, label, level = "", None, None
    place = text
    if not exists(text) and "(" not in text.partition("=")[0] and "=" in text:
        who, _, place = text.partition("=")
    if who:
        numbered = re.fullmatch(r"level\s*(\d{1,3})", who)
        if numbered is None or who in job.graph.labels:
            label = who
        else:
            level = int(numbered[1])
    if exists(place) or not place.rstrip().endswith(")"):
        from ocs_codesign.faces.cli.saved import verified_book

        return [GroupBook(verified_book(place), label, level)]
    return [GroupBook(book, label, level) for book in _of_recipe(job, place, label)]


def _of_recipe(job: LoadedJob, text: str, label: str | None) -> list[Book]:
    """The best schedules of a recipe for those collectives that the job's groups of its size do."""
    import numpy as np

    from ocs_codesign.core.collective import GATHERING
    from ocs_codesign.core.plans import Book, Page
    from ocs_codesign.faces.cli.saved import design_of, own_network
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.jobs.job_graph import FIRST_COLLECTIVE, KINDS

    graph, num_ranks = job.graph, parse(text).num_nodes
    talks = np.flatnonzero((graph.kind >= FIRST_COLLECTIVE) & (graph.size_bytes > 0))
    if label is not None and label in graph.labels:
        talks = talks[graph.label[talks] == graph.labels.index(label)]
    talks = talks[graph.group_size[graph.group[talks]] == num_ranks]
    names = {KINDS[kind] for kind in graph.kind[talks].tolist()}
    chosen = [one for one in GATHERING if one.name in names]
    if not chosen:
        whose = "" if label is None else f" called {label!r}"
        known = ", ".join(one.name for one in GATHERING)
        raise ValueError(
            f"no message{whose} takes schedules of {text}: they are for {known} of groups of "
            f"{num_ranks} ranks"
        )
    made = [design_of(text, one.name) for one in chosen]
    return [
        Book(own_network(one), Fraction(1), one.schedule.collective, (Page(0, text, one.schedule),))
        for one in made
    ]
