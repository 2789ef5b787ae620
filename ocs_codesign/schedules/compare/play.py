"""One entrant's turn: its plan is made, checked by what did not make it, and put on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.network import direct_routes, shortest_routes
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.algorithm import RANK_MAP, SEARCH, SNAKE
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.compare.contest import MAX_TRANSFERS, Contest
from ocs_codesign.schedules.registry import SCHEDULERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.schedules.simulate.transfers import Transfers


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What an entrant did: seconds for every size of the contest, or why there is nothing."""

    entrant: Entrant
    steps: int = 0
    num_transfers: int = 0
    times_s: tuple[float, ...] = ()
    refusal: str | None = None


def play(contest: Contest, entrant: Entrant) -> Outcome:
    """The outcome of one entrant.

    Links serve what asks first. A schedule has an order of its own as well, and takes the faster:
    where the second half of an allreduce overtakes the first, all that waits for that is late.
    A plan that an independent checker finds wrong is a RuntimeError: it is a fault of the product.
    """
    try:
        if not entrant.has_plan:
            return _in_network(contest, entrant)
        plan = plan_of(contest, entrant)
    except ValueError as error:
        return Outcome(entrant, refusal=str(error))
    if plan is None:
        return Outcome(entrant, refusal="none was found")
    transfers = transfers_of(contest, plan, 1)
    most = transfers.num_transfers + len(transfers.path_link)
    if most > MAX_TRANSFERS:
        return Outcome(entrant, refusal=f"{most:,} hops are too many to simulate")
    times = _times(contest, transfers)
    if isinstance(plan, Schedule) and not contest.barriers:
        in_order = _times(contest, transfers_of(contest, plan, 1, in_order=True))
        times = tuple(map(min, times, in_order))
    return Outcome(entrant, plan.num_steps, transfers.num_transfers, times)


def _in_network(contest: Contest, entrant: Entrant) -> Outcome:
    """Sums in switches: steps are the links of the longest way up and down."""
    from ocs_codesign.schedules.compare.in_network import aggregation_forest
    from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation

    if contest.aggregation is None:
        raise ValueError("its switches are not said to add up")
    network = contest.clocked()
    trees, slots = aggregation_forest(network, contest.aggregation, contest.unit_Bps)
    runs = [
        simulate_aggregation(network, contest.aggregation, contest.unit_Bps, size, trees, slots)
        for size in contest.sizes_bytes
    ]
    times = tuple(float(run.total_s) for run in runs)
    transfers = sum(run.job.num_transfers * run.job.num_packets for run in runs[-1].runs)
    return Outcome(entrant, max(tree.num_steps for tree in trees), transfers, times)


def _times(contest: Contest, transfers: Transfers) -> tuple[float, ...]:
    from ocs_codesign.schedules.simulate.engine import simulate_transfers

    bytes_of_one = transfers.chunk_bytes
    return tuple(
        float(
            simulate_transfers(
                transfers.with_chunk_bytes(bytes_of_one * size), contest.rules
            ).total_s
        )
        for size in contest.sizes_bytes
    )


def plan_of(contest: Contest, entrant: Entrant) -> Schedule | Messages | None:
    """The checked plan of an entrant, None if there is none; ValueError with the reason."""
    if entrant.maker in CLASSIC:
        return _classic(contest, entrant)
    from ocs_codesign.schedules.registry import Task, made_by
    from ocs_codesign.verification.schedules import verify_on

    network = contest.network if contest.has_switches else None
    task = Task(
        contest.topology(),
        contest.collective,
        contest.recipe,
        network=network,
        **dict(entrant.options),
    )
    schedule = made_by(entrant.maker, task).schedule
    if schedule is None:
        return None
    witness = verify_on(direct_routes(schedule.topology, contest.network), schedule).witness
    if witness is not None:
        raise RuntimeError(f"{entrant.label}: {witness}")
    return schedule


def _classic(contest: Contest, entrant: Entrant) -> Messages:
    from ocs_codesign.schedules.classic.placement import messages_on
    from ocs_codesign.verification.messages import check_messages

    options = dict(entrant.options)
    is_mapped = RANK_MAP in options
    made, node = messages_on(
        contest.network,
        entrant.maker,
        contest.collective,
        {"seed": contest.seed, **options} if is_mapped else options,
        contest.sides or None,
    )
    if is_mapped:
        made = made.renumbered(node)
    witness = check_messages(made)
    if witness is not None:
        raise RuntimeError(f"{entrant.label}: {witness}")
    return made


def transfers_of(
    contest: Contest, plan: Schedule | Messages, message_bytes: int, *, in_order: bool = False
) -> Transfers:
    """What a plan puts on the links of the contest's network.

    ``in_order``, what a schedule sends over a link keeps the order of steps.
    """
    from ocs_codesign.schedules.simulate.making import transfers_of_messages, transfers_of_schedule

    network = contest.clocked()
    if isinstance(plan, Messages):
        nodes = contest.num_hosts
        pairs = np.unique(plan.source.astype(np.int64) * nodes + plan.target)
        topology = Topology(nodes, *np.divmod(pairs, nodes))
        routes = shortest_routes(topology, network)
        return transfers_of_messages(
            plan, routes, message_bytes, chained=False, barriers=contest.barriers, addition_ticks=0
        )
    return transfers_of_schedule(
        plan,
        direct_routes(plan.topology, network),
        message_bytes,
        chained=in_order,
        barriers=contest.barriers,
        addition_ticks=0,
    )


# Entrants: every way to make a plan that a comparison tries, with its choices.


RINGS = "rings"
IN_NETWORK = "in-network"
MAX_EXACT_NODES = 6
MAX_SEARCHED_HOSTS = 128
FOREST_PARTS = (1, 4, 16, 64)
MAX_FOREST_SENDS = 2**25
"""Sends of a forest up to which it is made; twice as many take gigabytes."""

CHUNKS = (1, 4, 16, 64)


@final
@dataclass(frozen=True, slots=True)
class Entrant:
    """A maker by name with its ``options``: a scheduler, or, if ``is_classic``, an algorithm."""

    maker: str
    options: tuple[tuple[str, Any], ...] = ()
    is_classic: bool = False

    @property
    def has_plan(self) -> bool:
        """Whether it makes a plan that can be kept, and not packets of which switches make sums."""
        return self.maker != IN_NETWORK

    @property
    def label(self) -> str:
        """The maker with its options, as in ``forest parts=4``."""
        return " ".join([self.maker, *(f"{name}={_text(value)}" for name, value in self.options)])

    @property
    def key(self) -> str:
        """A file name of its own."""
        plain = self.label.replace("=", "-").replace(",", "x").replace("/", "over")
        return "-".join(plain.split())


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def entrants(contest: Contest) -> list[Entrant]:
    """All that may make the contest's collective, most of them in several ways."""
    in_network = _in_network_entrant(contest)
    return [*in_network, *_schedulers(contest), *_classics(contest), *_rings(contest)]


def _in_network_entrant(contest: Contest) -> Iterator[Entrant]:
    """Switches that add up, as the contest's profile says."""
    if contest.aggregation is not None:
        yield Entrant(IN_NETWORK, (("by", contest.aggregation.name),))


def _schedulers(contest: Contest) -> Iterator[Entrant]:
    for name, scheduler in SCHEDULERS.items():
        if scheduler.is_classic or not scheduler.can_make(contest.collective):
            continue
        if scheduler.needs_recipe and contest.recipe is None:
            continue
        if contest.has_switches and not scheduler.knows_switches:
            continue
        if name == "exact" and contest.num_hosts > MAX_EXACT_NODES:
            continue
        for options in _choices(name, contest):
            yield Entrant(name, options)


def _choices(name: str, contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    if name == "forest":
        roots = contest.num_hosts if contest.collective.root is None else 1
        for trees in (None, 1):
            for parts in FOREST_PARTS:
                if parts > 1 and parts * roots * contest.num_hosts > MAX_FOREST_SENDS:
                    continue
                limits = {"trees": trees, "parts": parts}
                yield tuple((key, value) for key, value in limits.items() if value is not None)
        return
    yield ()


def _classics(contest: Contest) -> Iterator[Entrant]:
    for name, algorithm in CLASSIC.items():
        if contest.collective.name not in algorithm.collectives:
            continue
        for options in _variants(algorithm.options, contest):
            yield Entrant(name, options, is_classic=True)
        for rank_map in _rank_maps(name, contest):
            yield Entrant(name, ((RANK_MAP, rank_map),), is_classic=True)


def _rings(contest: Contest) -> Iterator[Entrant]:
    """Rings side by side on the ports of hosts that are linked to each other."""
    if not contest.has_switches and SCHEDULERS[RINGS].can_make(contest.collective):
        yield Entrant(RINGS, is_classic=True)


def _rank_maps(name: str, contest: Contest) -> Iterator[str]:
    """Rank maps beside the identity: along a grid's rows to and fro, and for rings a search."""
    if "dims" in CLASSIC[name].options or contest.collective.root is not None:
        return
    if contest.sides:
        yield SNAKE
    if name == "ring" and contest.num_hosts <= MAX_SEARCHED_HOSTS:
        yield SEARCH


def _variants(names: tuple[str, ...], contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The options of an algorithm worth trying: numbers of chunks, and the sides of the grid."""
    sides = contest.sides
    if "dims" in names and not sides:
        return
    grid: tuple[tuple[str, Any], ...] = (("dims", sides),) if "dims" in names else ()
    counted = next((name for name in ("chunks", "chunks_per_tree") if name in names), None)
    if counted is None:
        yield grid
        return
    for chunks in CHUNKS:
        yield (*grid, (counted, chunks))
