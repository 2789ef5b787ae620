"""What allreduces can do where switches add up no faster than their pool of slots lets them."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.core.lp import LinearProgram, Status, solve
from ocs_codesign.core.networks.aggregation_trees import (
    MAX_TREES,
    aggregating,
    aggregation_trees,
    between_boxes,
    cables_with,
    grown_tree,
    grown_ways,
    only_forwarding,
    with_aggregation,
)
from ocs_codesign.schedules.forest.pipeline import MAX_LINKS, allreduce_optimum, parts_by_width
from ocs_codesign.schedules.simulate.aggregated import round_trips_s, simulate_aggregation
from ocs_codesign.schedules.simulate.aggregating import senders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile, AggregationTree


# Forests of trees that switches add up: shares of links, pools and adding, by linear programs.


Resource: TypeAlias = tuple[str, int]
Uses: TypeAlias = dict[Resource, Fraction]

MAX_ROUNDS, MAX_ROOTS, MAX_FOREST_LINKS = 12, 16, 400
WEIGHTED_ROUNDS = 40
_WORTH = Fraction(101, 100)
_LEAST, _DEARER = 1e-4, 0.5
_GRAIN = 2**20


def aggregation_forest(
    network: Network,
    profile: AggregationProfile,
    unit_Bps: Fraction,  # noqa: N803 - units keep their case
) -> tuple[tuple[AggregationTree, ...], tuple[int, ...] | None]:
    """Trees for an allreduce that switches add up, and the slots of each, None for even shares.

    The trees of ``aggregation_trees``, or a forest if it is faster by more than 1 %: of trees that
    are found one after the other, rates are shared such that their sum is the largest that links,
    pools of slots, what switches add up and what hosts convert allow; a slot is taken for a round
    trip. It is the best of these trees, not of all. Networks of more than 400 links have no
    forest. Raises ValueError where no tree joins the hosts.
    """
    plain = aggregation_trees(network)
    if network.num_links > MAX_FOREST_LINKS:
        return plain, None
    slot = profile.slot_bytes
    before = simulate_aggregation(network, profile, unit_Bps, slot).rate_Bps
    if before * _WORTH >= _most_of_hosts(network) * unit_Bps * slot / (
        profile.packet_bytes * profile.expansion
    ):
        return plain, None
    candidates = _Candidates(network, profile, unit_Bps)
    for tree in plain:
        candidates.add(tree)
    rates = candidates.best_rates()
    trees, slots = candidates.shared(rates)
    slot = profile.slot_bytes
    before = simulate_aggregation(network, profile, unit_Bps, slot).rate_Bps
    if (
        not trees
        or simulate_aggregation(network, profile, unit_Bps, slot, trees, slots).rate_Bps
        <= before * _WORTH
    ):
        return plain, None
    return trees, slots


def _most_of_hosts(network: Network) -> int:
    """What every host can send at least, and get: none sends its data less than once."""
    ends = network.tail, network.head
    return min(
        int(np.bincount(end, network.bandwidth, network.num_nodes)[: network.num_hosts].min())
        for end in ends
    )


class _Candidates:
    """Trees, and what each uses of links, pools, switches and hosts for a unit of its rate."""

    def __init__(
        self,
        network: Network,
        profile: AggregationProfile,
        unit_Bps: Fraction,  # noqa: N803
    ) -> None:
        self.network, self.profile, self.unit_Bps = network, profile, unit_Bps
        self.left = [Fraction(width) for width in network.bandwidth.tolist()]
        self.pairs = cables_with(network, self.left)
        hosts_apart = bool(aggregation_trees(network)[0].adding_hosts)
        self.able = between_boxes(network) if hosts_apart else aggregating(network)
        self.trees: list[AggregationTree] = []
        self.uses: list[Uses] = []
        self.held_s: list[Fraction] = []
        self.most: dict[Resource, Fraction] = {}
        self.known: dict[Any, tuple[Uses, Fraction]] = {}
        self.wire = profile.expansion * profile.packet_bytes / profile.slot_bytes

    def add(self, tree: AggregationTree) -> None:
        """One more tree, unless it uses the same as another."""
        uses, held_s = self._uses(tree)
        if uses not in self.uses:
            self.trees.append(tree)
            self.uses.append(uses)
            self.held_s.append(held_s)

    def _uses(self, tree: AggregationTree) -> tuple[Uses, Fraction]:
        """What a tree uses for a unit of its rate, and how long a packet holds a slot."""
        key = tree.child.tobytes(), tree.parent.tobytes(), tree.up, tree.down
        if key not in self.known:
            self.known[key] = self._measured(tree)
        return self.known[key]

    def _measured(self, tree: AggregationTree) -> tuple[Uses, Fraction]:
        profile, wide = self.profile, self.profile.expansion
        _, held_s = round_trips_s(self.network, profile, self.unit_Bps, tree)
        uses: Uses = {}
        for link, load in tree.link_loads().items():
            uses["link", link] = load * self.wire
            self.most["link", link] = self.left[link]
        for switch in tree.switches:
            if held_s:
                uses["pool", switch] = wide * held_s * self.unit_Bps
                self.most["pool", switch] = Fraction(profile.num_slots * profile.slot_bytes)
            if profile.rate_Bps is not None:
                uses["adds", switch] = wide
                self.most["adds", switch] = profile.rate_Bps / self.unit_Bps
        if profile.conversion_Bps is not None:
            for host in senders(tree):
                uses["converts", host] = wide
                self.most["converts", host] = profile.conversion_Bps / self.unit_Bps
        return uses, held_s

    def best_rates(self) -> list[float]:
        """The rates of all trees, in the network's unit, after trees were added while they help."""
        chosen = self._roots()
        self._add_by_weights(chosen)
        for _ in range(MAX_ROUNDS):
            rates, prices = self._solved()
            known = len(self.trees)
            for root in chosen:
                self._add_cheapest(root, prices)
            if len(self.trees) == known:
                return rates
        return self._solved()[0]

    def _roots(self) -> list[int]:
        """Those from which trees are lowest, at most MAX_ROOTS of them.

        What joins a host to a switch alone, as a network card does, has nothing to add up.
        """
        price = [1.0] * self.network.num_links
        hosts = self.network.num_hosts
        num_beside = Counter(head for _, head in self.pairs)
        num_hosts_beside = Counter(head for tail, head in self.pairs if tail < hosts)
        known = {tree.root for tree in self.trees}
        steps = {}
        for root in np.flatnonzero(self.able).tolist():
            is_useful = num_beside[root] > 2 or num_hosts_beside[root] > 1
            if is_useful or root in known:
                tree = self._grown(root, price)
                if tree is not None:
                    steps[root] = tree.num_steps
        return sorted(steps, key=lambda root: (steps[root], root))[:MAX_ROOTS]

    def _grown(self, root: int, price: Sequence[float]) -> AggregationTree | None:
        network = self.network
        hosts = range(network.num_hosts)
        ways = grown_ways(self.pairs, price, root, hosts, network.num_hosts, self.able)
        return None if ways is None else grown_tree(self.pairs, root, ways, network, self.left)

    def _add_by_weights(self, roots: list[int]) -> None:
        """Trees that cost least as what others used becomes dearer (Garg, Koenemann).

        They spread over links alike, where prices of a program of few trees say nothing.
        """
        weight = {("link", link): 1 / float(width) for link, width in enumerate(self.left)}
        for _ in range(WEIGHTED_ROUNDS):
            price = [weight["link", link] for link in range(len(self.left))]
            grown = [tree for root in roots if (tree := self._grown(root, price)) is not None]
            costs = []
            for tree in grown:
                uses = self._uses(tree)[0]
                ends = {name: weight.get(name, 1 / float(self.most[name])) for name in uses}
                costs.append(sum(float(uses[name]) * ends[name] for name in uses))
            tree = grown[int(np.argmin(costs))]
            self.add(tree)
            uses = self._uses(tree)[0]
            busiest = max(float(amount / self.most[name]) for name, amount in uses.items())
            for name, amount in uses.items():
                start = weight.get(name, 1 / float(self.most[name]))
                share = float(amount / self.most[name]) / busiest
                weight[name] = start * (1 + _DEARER * share)

    def _add_cheapest(self, root: int, prices: dict[Resource, float]) -> None:
        """The tree of this root whose links cost least, if it costs less than it brings."""
        wire = float(self.wire)
        price = [
            wire * prices.get(("link", link), 0.0) + 1e-6 / float(width)
            for link, width in enumerate(self.left)
        ]
        tree = self._grown(root, price)
        if tree is None:
            return
        cost = sum(load * wire * prices.get(("link", link), 0.0)
                   for link, load in tree.link_loads().items())  # fmt: skip
        cost += sum(prices.get(("adds", switch), 0.0) for switch in tree.switches)
        if cost < 1 - _LEAST:
            self.add(tree)

    def _solved(self) -> tuple[list[float], dict[Resource, float]]:
        """The best rates of the trees there are, and what more of each resource would bring."""
        names = list(self.most)
        row = {name: at for at, name in enumerate(names)}
        entries: list[list[tuple[int, float]]] = [[] for _ in names]
        for column, uses in enumerate(self.uses):
            for name, amount in uses.items():
                entries[row[name]].append((column, float(amount / self.most[name])))
        flat = [entry for line in entries for entry in line]
        start = np.concatenate([[0], np.cumsum([len(line) for line in entries])]).astype(np.int64)
        trees = len(self.trees)
        program = LinearProgram(
            -np.ones(trees),
            start,
            np.array([column for column, _ in flat], dtype=np.int64),
            np.array([value for _, value in flat], dtype=np.float64),
            np.full(len(names), -np.inf),
            np.ones(len(names)),
            np.zeros(trees),
            np.full(trees, np.inf),
        )
        found = solve(program)
        if found.status is not Status.OPTIMAL or found.values is None or found.row_duals is None:
            raise RuntimeError(f"the shares of trees were not found: {found.message}")
        duals = np.abs(found.row_duals).tolist()
        return found.values.tolist(), {
            name: duals[at] / float(self.most[name]) for name, at in row.items()
        }

    def shared(self, rates: list[float]) -> tuple[tuple[AggregationTree, ...], tuple[int, ...]]:
        """The trees with their shares of links, and slots in proportion to what they hold."""
        order = sorted(range(len(rates)), key=lambda at: (-rates[at], at))[:MAX_TREES]
        chosen = sorted(at for at in order if rates[at] > _LEAST * sum(rates))
        while chosen:
            exact = [Fraction(round(rates[at] * _GRAIN), _GRAIN) for at in chosen]
            slots = self._slots(chosen, exact)
            if min(slots) >= 1:
                break
            chosen.remove(min(chosen, key=lambda at: rates[at]))
        if not chosen:
            return (), ()
        used: dict[int, Fraction] = {}
        for at, rate in zip(chosen, exact, strict=True):
            for link, load in self.trees[at].link_loads().items():
                used[link] = used.get(link, Fraction(0)) + load * rate * self.wire
        over = max(amount / self.left[link] for link, amount in used.items())
        over = max(over, Fraction(1))
        trees = tuple(
            replace(self.trees[at], bandwidth=rate * self.wire / over)
            for at, rate in zip(chosen, exact, strict=True)
        )
        return trees, tuple(slots)

    def _slots(self, chosen: list[int], rates: list[Fraction]) -> list[int]:
        held = [rate * (self.held_s[at] or 1) for at, rate in zip(chosen, rates, strict=True)]
        total: dict[int, Fraction] = {}
        for at, amount in zip(chosen, held, strict=True):
            for switch in self.trees[at].switches:
                total[switch] = total.get(switch, Fraction(0)) + amount
        return [
            int(self.profile.num_slots * amount
                / max(total[switch] for switch in self.trees[at].switches))
            for at, amount in zip(chosen, held, strict=True)
        ]  # fmt: skip


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
    """What allreduces can do with and without switches that add up, and with their memory."""
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
