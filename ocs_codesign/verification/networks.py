"""Independent check of a schedule over the links of a network: paths, switches, loads and cost."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.cost import Cost
from ocs_codesign.verification.schedules import EXACTLY_ONCE, Verdict, replay, wrong_claim
from ocs_codesign.verification.switches import Abilities
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from ocs_codesign.routes import Routes
    from ocs_codesign.schedule import Schedule

NOT_THESE_LINKS = "the links of the schedule are not those of the routes"
NOT_END_TO_END = "the path of this link does not lead from its tail to its head over switches"


def verify_on(
    routes: Routes,
    schedule: Schedule,
    claimed: Cost | None = None,
    *,
    strictness: str = EXACTLY_ONCE,
) -> Verdict:
    """Replay a schedule whose links are paths of a network, and recompute what it costs there.

    Paths are followed anew. Sends that name switches as nodes may do there what the network's
    switches can. ``max_loads`` are the largest loads of network links in every step, in units of
    weight a unit of bandwidth; t_b is in M/B, B being the largest bandwidth out of a host.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.network import Network
    >>> from ocs_codesign.routes import Routes
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.topology import Topology
    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1, 1, 1, 1])
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
    >>> verify_on(Routes(pair, star, [0, 2, 4], [0, 3, 1, 2]), swap).cost
    Cost(steps=1, t_b=Fraction(1, 2))
    """
    max_loads = _max_loads(routes, schedule)
    network = routes.network
    egress = np.zeros(network.num_nodes, dtype=np.int64)
    np.add.at(egress, network.tail, network.bandwidth)
    units = max(demand.message_units for demand in schedule.demands)
    speed = int(egress[: schedule.num_hosts].max())
    cost = Cost(len(max_loads), sum(max_loads, Fraction(0)) * speed / units)
    abilities = Abilities.of(network)
    witness = (
        _broken_path(routes, schedule)
        or replay(schedule, abilities, strictness)
        or wrong_claim(claimed, cost)
    )
    return Verdict(cost, max_loads, witness)


def _broken_path(routes: Routes, schedule: Schedule) -> Witness | None:
    """The first logical link whose path is none, or that the schedule does not have."""
    topology, network = schedule.topology, routes.network
    if schedule.num_hosts != network.num_hosts or len(routes.start) != topology.num_links + 1:
        return Witness(NOT_THESE_LINKS)
    tail, head = network.tail[routes.link], network.head[routes.link]
    first, last = routes.start[:-1], routes.start[1:] - 1
    if (first > last).any():
        return Witness(NOT_END_TO_END, link=int((first > last).argmax()))
    goes_wrong = (tail[first] != topology.tail) | (head[last] != topology.head)
    is_inside = np.ones(len(routes.link), dtype=bool)
    is_inside[first] = False
    breaks = is_inside & ((np.roll(head, 1) != tail) | (tail < network.num_hosts))
    goes_wrong |= np.add.reduceat(breaks, first) > 0
    return Witness(NOT_END_TO_END, link=int(goes_wrong.argmax())) if goes_wrong.any() else None


def _max_loads(routes: Routes, schedule: Schedule) -> tuple[Fraction, ...]:
    """Largest load / bandwidth of a network link in every step, every send spread over its path."""
    hops = np.diff(routes.start)[schedule.link]
    row = np.repeat(np.arange(schedule.num_sends), hops)
    within = np.arange(len(row)) - np.repeat(np.cumsum(hops) - hops, hops)
    link = routes.link[routes.start[schedule.link[row]] + within]
    chunks = (schedule.hi.astype(np.int64) - schedule.lo)[row]
    loads = [Fraction(0)] * schedule.num_steps
    keys, at = np.unique(
        schedule.step[row].astype(np.int64) * routes.network.num_links + link, return_inverse=True
    )
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, at, chunks)
    steps, links = np.divmod(keys, routes.network.num_links)
    width = routes.network.bandwidth[links]
    for bandwidth in np.unique(width).tolist():
        here = np.flatnonzero(width == bandwidth)
        top = np.zeros(schedule.num_steps + 1, dtype=np.int64)
        np.maximum.at(top, steps[here], total[here])
        for step, load in enumerate(top[1:].tolist()):
            loads[step] = max(loads[step], Fraction(load, bandwidth * schedule.chunks_per_unit))
    return tuple(loads)
