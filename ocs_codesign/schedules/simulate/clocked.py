"""The clock of comparisons, asked while schedules are made: their times, and how many parts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.network import direct_routes
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_schedule
from ocs_codesign.schedules.simulate.transfers import TimingRules, with_fine_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Schedule


MAX_CLOCKED_SENDS = 2**18
"""Sends of a schedule that is played while it is made: less than a second's work."""

_CLOCKED_BYTES = 2**30
_WORTHWHILE = 3 / 4


def usual_rules(unit: Fraction, *, has_switches: bool) -> TimingRules:
    """Latency flies, links are queues, switches pass on at once; ``unit`` is bytes a second."""
    return TimingRules(unit_Bps=unit, pipelined=True, cut_through=has_switches, rounds_up=True)


def clocked_t_b(network: Network, schedule: Schedule) -> float:
    """What a schedule takes on the clock of comparisons, in M/B, where links have no latency.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.networks.builders import star
    >>> from ocs_codesign.schedules.registry import Task, made_by
    >>> network = star(4, 10)
    >>> alltoall = Task(network.topology(), Collective.ALLTOALL, network=network)
    >>> round(clocked_t_b(network, made_by("flow", alltoall).schedule), 6)
    0.75
    """
    unit = Fraction(10**9)
    clocked = with_fine_ticks(network.changed(latency=np.zeros(network.num_links, dtype=np.int64)))
    rules = usual_rules(unit, has_switches=network.num_nodes > network.num_hosts)
    routes = direct_routes(schedule.topology, clocked)
    made = [
        transfers_of_schedule(
            schedule, routes, _CLOCKED_BYTES, chained=in_order, barriers=False, addition_ticks=0
        )
        for in_order in (False, True)
    ]
    time_s = min(simulate_transfers(transfers, rules).total_s for transfers in made)
    return float(time_s * network.host_bandwidth() * unit / _CLOCKED_BYTES)


def fewest_parts(
    network: Network,
    num_sends: int,
    schedule: Callable[[int], Schedule],
    is_near: Callable[[int], bool],
    t_b: float | None,
    max_sends: int,
    max_parts: int,
) -> int:
    """The fewest parts, a power of 2, that are near by steps and take at most ``t_b`` by the clock.

    The clock is asked if there is a ``t_b``, among switches, where no step shows what waits for
    others between two hosts, and up to MAX_CLOCKED_SENDS, one part having ``num_sends``. It ends
    where twice the parts leave more than _WORTHWHILE of what is above ``t_b``.
    """
    parts = 1
    while 2 * parts <= min(max_parts, max_sends // num_sends) and not is_near(parts):
        parts *= 2
    most = min(max_parts, MAX_CLOCKED_SENDS // num_sends)
    if t_b is None or network.num_nodes == network.num_hosts or 2 * parts > most:
        return parts
    above = clocked_t_b(network, schedule(parts)) - t_b
    while above > 0 and 2 * parts <= most:
        left = clocked_t_b(network, schedule(2 * parts)) - t_b
        if left > _WORTHWHILE * above:
            break
        parts, above = 2 * parts, left
    return parts
