"""One entrant's turn: its plan is made, checked by what did not make it, and put on the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.comparison.contest import MAX_TRANSFERS
from ocs_codesign.messages import Messages
from ocs_codesign.routes import direct_routes, shortest_routes
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.classic.options import RANK_MAP
from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from ocs_codesign.comparison.contest import Contest
    from ocs_codesign.comparison.entrants import Entrant
    from ocs_codesign.simulate.transfers import Transfers


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
    from ocs_codesign.comparison.aggregation_forests import aggregation_forest
    from ocs_codesign.simulate.aggregated import simulate_aggregation

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
    from ocs_codesign.simulate.engine import simulate_transfers

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
    from ocs_codesign.schedulers.registry import made_by
    from ocs_codesign.schedulers.task import Task
    from ocs_codesign.verification.networks import verify_on

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
    from ocs_codesign.schedulers.classic.rank_maps import messages_on
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
    from ocs_codesign.simulate.making import transfers_of_messages, transfers_of_schedule

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
