"""One entrant's turn: its plan is made, checked by what did not make it, and put on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.core.machines.intervals import band_of, widened
from ocs_codesign.core.network import direct_routes, shortest_routes
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.algorithm import RANK_MAP, SEARCH, SNAKE
from ocs_codesign.schedules.classic.radices import even_phases, even_radices
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.compare.contest import MAX_TRANSFERS, MAX_TURN, Contest
from ocs_codesign.schedules.forest.pipeline import MAX_SENDS
from ocs_codesign.schedules.registry import SCHEDULERS, Made, Task, made_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.machines.intervals import Interval
    from ocs_codesign.schedules.simulate.transfers import Transfers


Timed: TypeAlias = "tuple[tuple[float, ...], tuple[str, ...], tuple[Interval, ...]]"
"""Of every size seconds, the protocol, and seconds from and to; the last two of machines alone."""


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What an entrant did: seconds for every size of the contest, or why there is nothing.

    ``protocols`` are those of the machine in which it took them, "" where there is none.
    ``intervals_s`` are seconds from and to, between which it lies as far as errors of the clock are
    known; none where bytes and latencies are all.
    """

    entrant: Entrant
    steps: int = 0
    num_transfers: int = 0
    times_s: tuple[float, ...] = ()
    refusal: str | None = None
    protocols: tuple[str, ...] = ()
    intervals_s: tuple[Interval, ...] = ()


def play(contest: Contest, entrant: Entrant) -> Outcome:
    """The outcome of one entrant.

    Links serve what asks first. A schedule has an order of its own as well, and takes the faster:
    where the second half of an allreduce overtakes the first, all that waits for that is late.
    A plan that an independent checker finds wrong is a RuntimeError: it is a fault of the product.
    """
    try:
        if entrant.is_library:
            return _library(contest, entrant)
        if not entrant.has_plan:
            return _in_network(contest, entrant)
        _check_making(contest, entrant)
        plan = plan_of(contest, entrant)
    except ValueError as error:
        return Outcome(entrant, refusal=str(error))
    if plan is None:
        return Outcome(entrant, refusal="none was found")
    if isinstance(plan, Schedule) and _is_too_fine(contest, entrant, plan):
        return Outcome(entrant, refusal=f"chunks of less than {contest.min_chunk_bytes} bytes")
    transfers = transfers_of(contest, plan, 1)
    refusal = _too_long(contest, transfers.num_transfers + len(transfers.path_link))
    if refusal is not None:
        return Outcome(entrant, refusal=refusal)
    times, protocols, limits = _timed(contest, plan, transfers)
    return Outcome(entrant, plan.num_steps, transfers.num_transfers, times, None, protocols, limits)


# Microseconds that a send takes to be made and checked, and more for each of those that it waits
# for where sums are passed on, as measured once: not to be exact, but to leave out the same on all
# machines.
_MAKING_US = {
    **{"forest": (14.0, 0.1), "flow": (6.0, 0.0), "greedy": (40.0, 0.0)},
    **{"direct": (1.5, 0.02), "shift": (1.5, 0.02)},
}
_MOVING_US = {"greedy": 1.2, "ring-relay": 0.2}
"""Of an all-to-all, a send and host."""
_MAX_MAKING_US = 2e7
_PIECEWISE = (*_MAKING_US, "ring-relay", "xor", "ring", "ring-halves", "ring-outward", "stepped")
"""Who sends at least a piece of every rank to every other, each over a hop or more."""


def _check_making(contest: Contest, entrant: Entrant) -> None:
    """ValueError if the plan would take too long to be made: it is reckoned before it is tried."""
    collective, parts = contest.collective, dict(entrant.options).get("parts", 1)
    degree = None if contest.has_switches else contest.topology().degree
    sends = check_making(entrant.maker, collective, contest.num_hosts, degree, parts)
    if entrant.maker in _PIECEWISE:
        # As they are counted later: a send, and the links of its path.
        refusal = _too_long(contest, sends * (3 if contest.has_switches else 2))
        if refusal is not None:
            raise ValueError(refusal)


def check_making(
    maker: str, collective: Collective, num_hosts: int, degree: int | None, parts: int = 1
) -> int:
    """The sends of a piece of everybody to everybody; ValueError if they take too long to make.

    ``degree`` is None among switches.
    """
    halves = len(collective.halves())
    sends = num_hosts * (num_hosts - 1) * halves * parts
    each, waiting = _MAKING_US.get(maker, (0.0, 0.0))
    if halves > 1:
        each += waiting * (num_hosts if degree is None else degree)
    if collective.name == "alltoall":
        each += _MOVING_US.get(maker, 0.0) * num_hosts
    if sends * each > _MAX_MAKING_US:
        raise ValueError(f"left out: its {sends:,} sends and more would take too long to make")
    return sends


def _too_long(contest: Contest, num_hops: int) -> str | None:
    """Why a plan of so many hops is left out: who takes long is told in hops, never by a clock."""
    if num_hops > MAX_TRANSFERS:
        return f"left out: {num_hops:,} hops, and {MAX_TRANSFERS:,} are simulated at most"
    sizes, clocks = len(contest.sizes_bytes), max(1, len(contest.protocols()))
    turns = num_hops * sizes * (1 if contest.barriers else 2) * clocks
    if turns <= MAX_TURN:
        return None
    return f"left out: {num_hops:,} hops at {sizes} sizes take too long; give fewer by --message"


def timed_of(contest: Contest, plan: Schedule | Messages) -> Timed:
    """What a plan takes for every size."""
    return _timed(contest, plan, transfers_of(contest, plan, 1))


def _timed(contest: Contest, plan: Schedule | Messages, transfers: Transfers) -> Timed:
    """Times of every size; ``transfers`` are those of a byte."""
    orders = [transfers]
    if isinstance(plan, Schedule) and not contest.barriers:
        orders.append(transfers_of(contest, plan, 1, in_order=True))
    return _times(contest, orders)


def _library(contest: Contest, entrant: Entrant) -> Outcome:
    """What the machine's library takes by its own model, or by the curve of a log."""
    machine, ranks = contest.machine, contest.num_hosts
    if machine is None:
        raise ValueError("no machine is said")
    nodes = machine.nodes_of(ranks)
    asked, model = (contest.collective.name, ranks, nodes), dict(entrant.options)["model"]
    times = machine.clocked_library(*asked, contest.sizes_bytes, model)
    return Outcome(
        entrant,
        times_s=tuple(time.seconds for time in times),
        protocols=tuple(f"{time.algorithm} {time.protocol}".strip() for time in times),
        intervals_s=tuple(machine.library_interval(*asked, time, model) for time in times),
    )


def _in_network(contest: Contest, entrant: Entrant) -> Outcome:
    """Sums in switches: steps are the links of the longest way up and down."""
    from ocs_codesign.schedules.compare.in_network import aggregation_forest
    from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation

    if contest.aggregation is None:
        raise ValueError("its switches are not said to add up")
    clocks = contest.protocols()
    network, unit = contest.clocked(), contest.unit_Bps
    if clocks:  # what a launch takes is in the profile's latency
        network, unit = clocks[-1].network, Fraction(clocks[-1].rules.unit_Bps)
    trees, slots = aggregation_forest(network, contest.aggregation, unit)
    runs = [
        simulate_aggregation(network, contest.aggregation, unit, size, trees, slots)
        for size in contest.sizes_bytes
    ]
    times = tuple(float(run.total_s) for run in runs)
    transfers = sum(run.job.num_transfers * run.job.num_packets for run in runs[-1].runs)
    limits: tuple[Interval, ...] = ()
    if contest.clock is not None:
        errors = contest.clock.errors
        sized = zip(contest.sizes_bytes, times, strict=True)
        limits = tuple(widened(time, time, errors[band_of(size)]) for size, time in sized)
    steps = max(tree.num_steps for tree in trees)
    return Outcome(entrant, steps, transfers, times, intervals_s=limits)


def _times(contest: Contest, orders: list[Transfers]) -> Timed:
    """The least time of each size of all orders of transfers, and its protocol if there are any."""
    from ocs_codesign.schedules.simulate.engine import simulate_transfers

    sized = [
        [one.with_chunk_bytes(one.chunk_bytes * size) for one in orders]
        for size in contest.sizes_bytes
    ]
    if contest.clock is None:
        runs = [
            min(simulate_transfers(one, contest.rules).total_s for one in each) for each in sized
        ]
        return tuple(map(float, runs)), (), ()
    sizes = zip(contest.sizes_bytes, sized, strict=True)
    told = [contest.clock.timed(size, tuple(transfers)) for size, transfers in sizes]
    times, protocols, limits = zip(*told, strict=True)
    return times, protocols, limits


def _is_too_fine(contest: Contest, entrant: Entrant, plan: Schedule) -> bool:
    """Whether parts cut chunks of the largest message smaller than the contest has them."""
    units = max(demand.message_units for demand in plan.demands) * plan.chunks_per_unit
    least = contest.min_chunk_bytes * units
    return dict(entrant.options).get("parts", 1) > 1 and contest.sizes_bytes[-1] < least


def plan_of(contest: Contest, entrant: Entrant) -> Schedule | Messages | None:
    """The checked plan of an entrant, None if there is none; ValueError with the reason."""
    if entrant.maker in CLASSIC and not contest.of_designs:
        return _classic(contest, entrant)
    return made(contest, entrant).schedule


def made(contest: Contest, entrant: Entrant) -> Made:
    """What the scheduler of an entrant makes, checked; ValueError with the reason if nothing."""
    from ocs_codesign.verification.schedules import verify_on

    network = contest.network if contest.has_switches else None
    options: dict[str, Any] = dict(entrant.options)
    if entrant.maker in CLASSIC:
        options = {"algorithm_options": _seeded(contest, options)}
    most = MAX_TRANSFERS if contest.has_switches else MAX_FOREST_SENDS
    task = Task(
        *(contest.topology(), contest.collective, contest.recipe),
        network=network,
        max_sends=MAX_SENDS if contest.of_designs else most,
        **options,
    )
    found = made_by(entrant.maker, task)
    if found.schedule is not None:
        routes = direct_routes(found.schedule.topology, contest.network)
        witness = verify_on(routes, found.schedule).witness
        if witness is not None:
            raise RuntimeError(f"{entrant.label}: {witness}")
    return found


def _seeded(contest: Contest, options: dict[str, Any]) -> dict[str, Any]:
    """The options of an algorithm, with the contest's seed if a rank map draws."""
    return {"seed": contest.seed, **options} if RANK_MAP in options else options


def _classic(contest: Contest, entrant: Entrant) -> Messages:
    from ocs_codesign.schedules.classic.placement import messages_on
    from ocs_codesign.verification.messages import check_messages

    messages, node = messages_on(
        contest.network,
        entrant.maker,
        contest.collective,
        _seeded(contest, dict(entrant.options)),
        contest.sides or None,
    )
    messages = messages.renumbered(node)
    witness = check_messages(messages)
    if witness is not None:
        raise RuntimeError(f"{entrant.label}: {witness}")
    return messages


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
        # To the next hosts first, so that not all send to one.
        ahead = (plan.target.astype(np.int64) - plan.source) % nodes
        ahead, source = np.divmod(np.unique(ahead * nodes + plan.source), nodes)
        topology = Topology(nodes, source, (source + ahead) % nodes)
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
NCCL = "nccl"
"""The machine's library, on a clock of its own: it is compared with, and never best."""
MAX_EXACT_NODES = 6
MAX_SEARCHED_HOSTS = 128
FOREST_PARTS = (1, 4, 16, 64)
FLOW_PARTS = (1, 4, 16, 64)
MAX_FOREST_SENDS = 2**25
"""Sends of a forest between hosts up to which it is made; twice as many take gigabytes."""

CHUNKS = (1, 4, 16, 64)
MAX_PHASES = 3
"""Numbers of phases from two on, of an all-to-all in which pieces go by digits."""


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
        return self.maker not in (IN_NETWORK, NCCL)

    @property
    def is_library(self) -> bool:
        """Whether its times are those of a library and not of the clock of schedules."""
        return self.maker == NCCL

    @property
    def label(self) -> str:
        """The maker with its options, as in ``forest parts=4``."""
        return " ".join([self.maker, *(f"{name}={_text(value)}" for name, value in self.options)])

    @property
    def key(self) -> str:
        """A file name of its own."""
        plain = self.label.replace("=", "-").replace(",", "x").replace("/", "over")
        return "-".join(plain.split())


LIBRARY = Entrant(NCCL, (("model", "2.30"),))
"""What the machine's own library takes, by its own model."""


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def entrants(contest: Contest) -> list[Entrant]:
    """All that may make the contest's collective, most of them in several ways."""
    in_network = _in_network_entrant(contest)
    library = [] if contest.machine is None else [LIBRARY]
    return [*in_network, *_schedulers(contest), *_classics(contest), *_rings(contest), *library]


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
        for options in _choices(name):
            yield Entrant(name, options)


def _choices(name: str) -> Iterator[tuple[tuple[str, Any], ...]]:
    if name == "forest":
        for trees in (None, 1):
            for parts in FOREST_PARTS:
                limits = {"trees": trees, "parts": parts}
                yield tuple((key, value) for key, value in limits.items() if value is not None)
        return
    if name == "flow":
        yield from ((("parts", parts),) for parts in FLOW_PARTS)
        return
    yield ()


def _classics(contest: Contest) -> Iterator[Entrant]:
    for name, algorithm in CLASSIC.items():
        if contest.collective.name not in algorithm.collectives:
            continue
        for options in (*_variants(algorithm.options, contest), *_in_boxes(name, contest)):
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


def _in_boxes(name: str, contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The options of an algorithm that goes between boxes and inside of them in turn."""
    dims = ("dims", contest.boxes)
    if name == "two-phase" and contest.boxes:
        yield (dims,)
    if name == "bucket" and contest.boxes:
        yield (dims, ("inner", "direct"))


def _variants(names: tuple[str, ...], contest: Contest) -> Iterator[tuple[tuple[str, Any], ...]]:
    """The options of an algorithm worth trying: numbers of chunks, and the sides of the grid."""
    sides = contest.sides
    if contest.collective.name == "alltoall":
        phases, radices = even_phases(contest.num_hosts), even_radices(contest.num_hosts)
        if "radix" in names:
            yield from ((("radix", each),) for each in radices[:MAX_PHASES] if each > 2)
        if "dims" in names and "order" in names:
            yield from ((("dims", each),) for each in phases[:MAX_PHASES] if each != sides)
    if "dims" in names and not sides:
        return
    grid: tuple[tuple[str, Any], ...] = (("dims", sides),) if "dims" in names else ()
    counted = next((name for name in ("chunks", "chunks_per_tree") if name in names), None)
    if counted is None:
        yield grid
        return
    for chunks in CHUNKS:
        yield (*grid, (counted, chunks))
