"""What allreduces can do where switches add up no faster than their pool of slots lets them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.comparison.aggregation_forests import aggregation_forest
from ocs_codesign.networks.aggregation_trees import (
    aggregating,
    only_forwarding,
    with_aggregation,
)
from ocs_codesign.schedulers.forest.allreduce import MAX_LINKS, allreduce_optimum, parts_by_width
from ocs_codesign.simulate.aggregated import simulate_aggregation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.network import Network


@final
@dataclass(frozen=True, slots=True)
class InNetworkRates:
    """What allreduces can do on a network, M over the time in its unit of bandwidth.

    Where switches only ``forwarding``; where they ``adding`` up without a limit, and with a
    ``pooled`` memory, which nothing exceeds; and what ``trees`` of switches do of it, packets and
    headers and all. None where the network is too large for the program, or has no such tree.
    """

    forwarding: Fraction | None
    adding: Fraction | None
    pooled: Fraction | None
    trees: Fraction | None


def switch_rates(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803 - units keep their case
) -> dict[int, Fraction]:
    """What each switch that adds up can add up at most, in units of bandwidth of the message.

    A slot is taken for a round trip at least: of a packet over the link to the host, or to the
    switch, that is nearest, and back. So a switch adds up its pool a round trip, and no more than
    its rate; one with neither a way nor a rate has no limit, and is left out.

    >>> from ocs_codesign.aggregation import FIXED, AggregationProfile
    >>> from ocs_codesign.networks.switched import star
    >>> pool = AggregationProfile(name="p", arithmetic=FIXED, num_slots=4, slot_bytes=1000)
    >>> switch_rates(star(8, 1, 3000), pool, Fraction(10**9))
    {8: Fraction(1, 2)}
    """
    rates = {}
    seconds = _trip_s(network, profile, unit_Bps)
    for switch in np.flatnonzero(aggregating(network)).tolist():
        trip_s = seconds[switch]
        limits = [] if profile.rate_Bps is None else [profile.rate_Bps]
        if trip_s > 0:
            limits.append(profile.num_slots * profile.slot_bytes / trip_s)
        if limits:
            rates[switch] = min(limits) / (profile.expansion * unit_Bps)
    return rates


def _trip_s(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
) -> dict[int, Fraction]:
    """The quickest way of a packet from a host to every node, and back, with one pass."""
    ways = []
    for start, end in ((network.tail, network.head), (network.head, network.tail)):
        least = dict.fromkeys(range(network.num_nodes), Fraction(-1))
        front = set(range(network.num_hosts))
        least.update(dict.fromkeys(front, Fraction(0)))
        links: dict[int, list[tuple[int, Fraction]]] = {}
        for link, (one, other) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
            busy = profile.packet_bytes / (int(network.bandwidth[link]) * unit_Bps)
            takes = busy + int(network.latency[link]) * network.tick_s
            links.setdefault(one, []).append((other, takes))
        while front:
            reached = set()
            for node in sorted(front):
                for other, takes in links.get(node, ()):
                    if least[other] < 0 or least[node] + takes < least[other]:
                        least[other] = least[node] + takes
                        reached.add(other)
            front = reached
        ways.append(least)
    return {
        node: ways[0][node] + ways[1][node] + profile.latency_s
        for node in range(network.num_hosts, network.num_nodes)
    }


def pooled_bound(network: Network, rates: Mapping[int, Fraction]) -> Fraction | None:
    """A rate that no allreduce exceeds whose switches make sums at these rates.

    Without sums in switches, N hosts send 2 N - 2 messages at least for every piece of the data,
    as in ``partition_bound``. Where a switch makes one sum, one of those below it could instead:
    it then sends to all that got the sum but itself, and nothing to the switch. So a sum in a
    switch with d neighbours saves d - 2 messages at most, and the links out of hosts carry
    2 N - 2 of them less d - 2 for each sum. The same holds for messages that come to hosts, and for
    parts of the network instead of hosts, of which the least is taken. None if nothing limits.
    """
    found = []
    for parts in parts_by_width(network):
        label, inside = parts.label, parts.is_part[parts.label]
        # A part is one neighbour, however many of its nodes are; other switches are each one.
        own = np.where(inside, label, len(parts.is_part) + np.arange(network.num_nodes))
        ends = own[network.tail], own[network.head]
        saved = Fraction(0)
        for switch in np.flatnonzero(aggregating(network) & ~inside).tolist():
            beside = np.concatenate(
                [ends[1][network.tail == switch], ends[0][network.head == switch]]
            )
            neighbours = len(np.unique(beside))
            if switch not in rates:
                break
            saved += max(0, neighbours - 2) * rates[switch]
        else:
            found.append((parts.capacity + saved) / (2 * (parts.num_parts - 1)))
    return min(found, default=None)


def in_network_rates(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803
) -> InNetworkRates:
    """What allreduces can do with and without switches that add up, and with their memory.

    >>> from ocs_codesign.aggregation import FIXED, AggregationProfile
    >>> from ocs_codesign.networks.switched import star
    >>> pool = AggregationProfile(name="p", arithmetic=FIXED, num_slots=6, slot_bytes=1000)
    >>> found = in_network_rates(star(8, 1, 3000), pool, Fraction(10**9))
    >>> [str(rate) for rate in (found.forwarding, found.adding, found.pooled, found.trees)]
    ['4/7', '1', '25/28', '3/4']
    """
    forwarding = adding = pooled = trees = None
    if network.num_links <= MAX_LINKS:
        forwarding = allreduce_optimum(only_forwarding(network))
        adding = allreduce_optimum(with_aggregation(network))
        bound = pooled_bound(network, switch_rates(network, profile, unit_Bps))
        pooled = adding if bound is None else min(adding, bound)
    # A network whose hosts no switches join has no tree.
    with suppress(ValueError):
        forest = aggregation_forest(network, profile, unit_Bps)
        done = simulate_aggregation(network, profile, unit_Bps, profile.slot_bytes, *forest)
        trees = done.rate_Bps / unit_Bps
    return InNetworkRates(forwarding, adding, pooled, trees)
