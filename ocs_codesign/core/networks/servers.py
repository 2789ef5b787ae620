"""Servers of GPUs with an inner network each, whose network cards (NICs) hang on an outer one.

The hosts of the network are the GPUs. The outer network has the cards as hosts: a recipe of servers
for every rail, a recipe of all cards, switches, whatever is left of them after losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from ocs_codesign.core.given import as_topology
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import (
    Cables,
    as_network,
    check_hosts,
    damaged,
    links_named,
    one_each,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.given import NetworkLike, TopologyLike
    from ocs_codesign.core.topology import Topology

    Nodes: TypeAlias = NDArray[np.int64]


# Boxes: servers of hosts with an inner switch or inner links, joined by rails or direct links.


_INNER_LEVEL, _OUTER_LEVEL = 0, 1
"""Dimensions: links inside a box, and links between boxes."""


def boxes(
    num_boxes: int,
    hosts_per_box: int,
    inner_bandwidth: int,
    outer_bandwidth: int,
    *,
    inner: TopologyLike | None = None,
    outer: TopologyLike | int = 1,
    latency: int | Sequence[int] = 0,
    unit: str = "",
) -> Network:
    """``num_boxes`` boxes; host g of box b is node b * hosts_per_box + g.

    Inside, hosts hang on one switch, or on the links of ``inner``, a topology of the hosts of a box
    whose speeds multiply the bandwidth. Between boxes, host g of every box has a link to and from
    rail switch g modulo ``outer``; or ``outer`` is a topology of the boxes, and the p-th link out
    of (into) a box is one of its host p modulo hosts_per_box. ``latency`` is one for all links, or
    those inside and between. One box has no links between.

    >>> boxes(2, 8, 300, 25, outer=2)
    Network(16 hosts, 4 switches, 64 links)
    """
    if num_boxes < 1 or hosts_per_box < 1:
        raise ValueError(f"{num_boxes} boxes of {hosts_per_box} hosts: both are at least 1")
    check_hosts(num_boxes * hosts_per_box)
    latencies = one_each(latency, 2, "latency")
    hosts = np.arange(num_boxes * hosts_per_box).reshape(num_boxes, hosts_per_box)
    cables, num_nodes = Cables(), hosts.size
    if inner is None:
        switch = num_nodes + np.arange(num_boxes)
        cables.add(hosts, switch[:, None], inner_bandwidth, latencies[_INNER_LEVEL], _INNER_LEVEL)
        num_nodes += num_boxes
    else:
        inner = as_topology(inner)
        _check_nodes(inner, hosts_per_box, "inner topology", "hosts of a box")
        speeds = np.tile(inner.speeds() * inner_bandwidth, num_boxes)
        ends = (hosts[:, inner.tail], hosts[:, inner.head])
        cables.add(*ends, speeds, latencies[_INNER_LEVEL], _INNER_LEVEL, both_ways=False)
    if not isinstance(outer, (int, np.integer)):
        outer = as_topology(outer)
        _check_nodes(outer, num_boxes, "outer topology", "boxes")
        ends = (_ports(hosts, outer.tail), _ports(hosts, outer.head))
        speeds = outer.speeds() * outer_bandwidth
        cables.add(*ends, speeds, latencies[_OUTER_LEVEL], _OUTER_LEVEL, both_ways=False)
    elif num_boxes > 1:
        if not 1 <= outer <= hosts_per_box:
            raise ValueError(f"{outer} rails: a box has 1 to {hosts_per_box}, one a host at most")
        rail = num_nodes + np.arange(hosts_per_box) % outer
        cables.add(hosts, rail, outer_bandwidth, latencies[_OUTER_LEVEL], _OUTER_LEVEL)
        num_nodes += outer
    return cables.network(hosts.size, num_nodes, unit)


def _ports(hosts: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The host that has each link's end: the links of a box take its hosts in turn."""
    order = np.argsort(box, kind="stable")
    first = np.searchsorted(box[order], np.arange(len(hosts)))
    port = np.empty(len(box), dtype=np.int64)
    port[order] = np.arange(len(box)) - first[box[order]]
    taken: np.ndarray = hosts[box, port % hosts.shape[1]]
    return taken


def _check_nodes(topology: Topology, number: int, name: str, what: str) -> None:
    if topology.num_nodes != number:
        raise ValueError(
            f"the {name} has {topology.num_nodes} nodes, but there are {number} {what}"
        )


# Network cards (NICs) of servers: where each hangs, what joins them, what is lost of that.


GPU, SHARED, SWITCH = "gpu", "shared", "switch"
NIC = "nic"
RAILS, ACROSS = "rails", "across"


def server_names(num_servers: int, names: Sequence[str] | None) -> list[str]:
    """The names that are given, or server0 and so on; ValueError for another number of them."""
    servers = [f"server{s}" for s in range(num_servers)] if names is None else list(names)
    if len(servers) != num_servers:
        raise ValueError(f"there are {len(servers)} names for {num_servers} servers")
    return servers


def after_losses(
    outer: Network, servers: list[str], lost: Sequence[str], slow: Sequence[tuple[str, int]]
) -> tuple[Network, list[str]]:
    """The outer network without links that are lost or at a lost NIC, and the lost servers."""
    if not lost and not slow:
        return outer, []
    each = outer.num_hosts // len(servers)
    names = [f"{server}.nic{nic}" for server in servers for nic in range(each)]
    names += [f"switch{at}" for at in range(outer.num_nodes - outer.num_hosts)]
    named = damaged(outer.changed(outer.bandwidth, names), (), slow)
    links = {link for text in lost for link in links_named(named, text).tolist()}
    return named.without(links), [text for text in lost if text in servers]


def check_words(wiring: str, relay: str) -> None:
    """ValueError unless both are words that ``servers`` knows."""
    for what, word, known in (("wiring", wiring, (RAILS, ACROSS)), ("relay", relay, (GPU, NIC))):
        if word not in known:
            raise ValueError(f"{what} is {word!r}: it is {known[0]} or {known[1]}")


def joined_cards(
    num_servers: int, outer: NetworkLike | Sequence[NetworkLike], rails: int, how: str
) -> Network:
    """The network of all cards, NIC r of server s being host s * R + r."""
    if how == ACROSS:
        if isinstance(outer, (list, tuple)):
            raise ValueError("the outer networks are several: across rails there is one")
        return as_network(cast("NetworkLike", outer))
    check_hosts(num_servers * rails)
    several = list(outer) if isinstance(outer, (list, tuple)) else [outer] * rails
    if not several or len(several) != rails:
        raise ValueError(f"the outer networks are {len(several)}: give one, or {rails}, one a rail")
    networks = [as_network(cast("NetworkLike", one)) for one in several]
    for rail, network in enumerate(networks):
        if network.num_hosts != num_servers:
            raise ValueError(
                f"rail {rail} has {network.num_hosts} nodes, but there are {num_servers} servers"
            )
    nodes = num_servers * rails
    columns: list[NDArray[np.int64]] = []
    able: tuple[list[int], list[int]] = ([], [])
    for rail, network in enumerate(networks):
        number = nodes - num_servers + np.arange(network.num_nodes)
        number[:num_servers] = np.arange(num_servers) * rails + rail
        nodes += network.num_nodes - num_servers
        ends = number[network.tail], number[network.head]
        columns.append(np.stack([*ends, network.bandwidth, network.latency]))
        for switches, is_able in zip(able, (network.multicast, network.aggregate), strict=True):
            switches += number[is_able].tolist()
    links = np.concatenate(columns, axis=1)
    return Network(
        *(num_servers * rails, nodes, *links),
        multicast=able[0],
        aggregate=able[1],
        unit=networks[0].unit,
    )


def check_count(outer: Network, num_servers: int, num_nics: int | None, wiring: str) -> None:
    """ValueError unless the outer network has equally many cards of every server."""
    if num_servers < 1 or outer.num_hosts % num_servers:
        raise ValueError(
            f"the outer network has {outer.num_hosts} nodes for {num_servers} servers: "
            "there are equally many NICs a server"
        )
    each = outer.num_hosts // num_servers
    if wiring == ACROSS and num_nics not in (None, each):
        raise ValueError(
            f"the outer network has {outer.num_hosts} nodes: {num_servers} servers of {num_nics} "
            f"NICs have {num_servers * (num_nics or 0)}"
        )


def attached(
    attach: str | Sequence[Sequence[int]], inner: Network, nics: int
) -> list[tuple[int, ...]]:
    """The GPUs that every NIC of a server hangs on, none for the switch.

    ``attach`` is as in ``servers``; ValueError for what does not fit.

    >>> from ocs_codesign.core.networks.builders import star
    >>> attached("shared", star(4, 1), 2)
    [(0, 1), (2, 3)]
    """
    gpus = inner.num_hosts
    if attach == SWITCH or (not isinstance(attach, str) and () in map(tuple, attach)):
        if inner.num_nodes == gpus:
            raise ValueError("NICs hang on the inner switch, but there is none: GPUs are linked")
        if attach == SWITCH:
            return [()] * nics
    if attach == GPU:
        return [(nic * gpus // nics,) for nic in range(nics)]
    if attach == SHARED:
        if gpus % nics:
            raise ValueError(f"{gpus} GPUs cannot share {nics} NICs evenly: say which share which")
        return [tuple(range(nic * gpus // nics, (nic + 1) * gpus // nics)) for nic in range(nics)]
    if isinstance(attach, str):
        raise ValueError(f"attach is {attach!r}: it is gpu, shared, switch or a list of GPUs a NIC")
    cards = [tuple(card) for card in attach]
    if len(cards) != nics:
        raise ValueError(f"attach has GPUs for {len(cards)} NICs, but a server has {nics}")
    for nic, card in enumerate(cards):
        if not all(0 <= gpu < gpus for gpu in card) or len(set(card)) < len(card):
            raise ValueError(f"NIC {nic} hangs on GPUs {card}: they are different ones of {gpus}")
    return cards


INNER, CARD, OUTER = 0, 1, 2
"""Dimensions: links inside a server, between its GPUs or switch and a card, and between cards."""


def servers(
    num_servers: int,
    inner: NetworkLike,
    outer: NetworkLike | Sequence[NetworkLike],
    num_nics: int | None = None,
    *,
    attach: str | Sequence[Sequence[int]] = GPU,
    card_bandwidth: int | Sequence[int | None] | None = None,
    wiring: str = RAILS,
    relay: str = GPU,
    lost: str | Sequence[str] = (),
    slow: Sequence[tuple[str, int]] = (),
    names: Sequence[str] | None = None,
) -> Network:
    """``num_servers`` times ``inner``, and cards of theirs joined by ``outer``.

    GPU g of server s is host s * G + g. ``wiring`` "rails": NIC r of all servers is on rail r, a
    network of the servers: ``outer``, or its r-th; there are ``num_nics`` rails, by default one a
    GPU. "across": NIC r of server s is host s * R + r of ``outer``.

    ``attach`` "gpu": NIC r hangs on GPU r * G // R. "shared": R NICs divide the GPUs among them.
    "switch": all hang on the inner network's first switch. Or a list of GPUs a NIC.
    ``card_bandwidth`` is that of the link to each GPU or switch; it is never the narrowest if None.

    ``relay`` "nic": a NIC is a switch of its ports and of as much bandwidth to its server, so that
    what arrives may leave by another port at once. "gpu": it has to pass a GPU first. ``lost``
    names servers, NICs (``server3.nic1``) and links of the outer network
    (``server0.nic1-server3.nic1``; ``>`` for one way), ``slow`` NICs and links with the bandwidth
    that their links have left. Raises ValueError for what does not fit.

    >>> from ocs_codesign.core.networks.builders import direct
    >>> from ocs_codesign.core.networks.builders import star
    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1])
    >>> servers(3, star(2, 450), direct(ring, 50))
    Network(6 hosts, 3 switches, 24 links)
    >>> servers(3, star(2, 450), direct(ring, 50), relay="nic")
    Network(6 hosts, 9 switches, 36 links)
    """
    check_words(wiring, relay)
    check_hosts(num_servers)
    inner = as_network(inner)
    gpus = inner.num_hosts
    outer = joined_cards(num_servers, outer, gpus if num_nics is None else num_nics, wiring)
    check_hosts(num_servers * gpus)
    check_count(outer, num_servers, num_nics, wiring)
    cards = attached(attach, inner, outer.num_hosts // num_servers)
    widths = one_each(card_bandwidth, len(cards), "card_bandwidth")
    if any(width is not None and width < 1 for width in widths):
        raise ValueError(f"card_bandwidth is {widths}: it is at least 1")
    named = server_names(num_servers, names)
    outer, gone = after_losses(outer, named, [lost] if isinstance(lost, str) else lost, slow)
    made = _Cluster(named, inner, outer, cards)
    made.add_inner(splits=relay == GPU and () in cards)
    for nic, (card, width) in enumerate(zip(cards, widths, strict=True)):
        made.add_card(nic, card, width, relays=relay == NIC)
    return made.network(gone)


class _Cluster:
    """The links and nodes of a cluster as they are put together, all servers at once."""

    def __init__(
        self, servers: list[str], inner: Network, outer: Network, cards: Sequence[tuple[int, ...]]
    ) -> None:
        self.servers, self.inner, self.outer, self.cards = servers, inner, outer, cards
        num_servers = self.num_servers = len(servers)
        self.cables, self.names = Cables(), list[str]()
        each = outer.num_hosts // num_servers
        sums = np.zeros((2, outer.num_nodes), dtype=np.int64)
        np.add.at(sums[0], outer.tail, outer.bandwidth)
        np.add.at(sums[1], outer.head, outer.bandwidth)
        self.egress, self.ingress = sums[:, : outer.num_hosts].reshape(2, num_servers, each)
        self.send, self.receive = np.zeros((2, num_servers, each), dtype=np.int64)
        # What the cards on a split switch take from it and bring to it.
        self.through = np.zeros((2, num_servers), dtype=np.int64)
        self.splits = False

    def _nodes(self, *kinds: str) -> Nodes:
        """New nodes, shape (servers, kinds)."""
        first = len(self.names)
        self.names += [f"{server}.{kind}" for server in self.servers for kind in kinds]
        return np.arange(first, len(self.names)).reshape(self.num_servers, len(kinds))

    def _add(
        self, tail: Nodes, head: Nodes, bandwidth: Nodes, dimension: int, latency: Nodes | int = 0
    ) -> None:
        """Links; those of no bandwidth are none."""
        columns = np.broadcast_arrays(tail, head, bandwidth, latency)
        tail, head, bandwidth, latency = (each[columns[2] > 0] for each in columns)
        self.cables.add(tail, head, bandwidth, latency, dimension, both_ways=False)

    def add_inner(self, *, splits: bool) -> None:
        """The inner networks; if it ``splits``, the first switch has two halves.

        GPUs send to its upper half, cards to its lower one, which leads to GPUs only: nothing goes
        from card to card.
        """
        inner, self.splits = self.inner, splits
        gpus = self._nodes(*(f"gpu{gpu}" for gpu in range(inner.num_hosts)))
        more = inner.num_nodes - inner.num_hosts
        kinds = ["switch"] if more == 1 else [f"switch{at}" for at in range(more)]
        # Where what is sent to a node of a server goes, and where what it sends comes from.
        self.takes = np.concatenate([gpus, self._nodes(*kinds)], axis=1)
        self.gives = self.takes.copy()
        if splits:
            self.gives[:, inner.num_hosts] = self._nodes(f"{kinds[0]}.down")[:, 0]
        ends = self.gives[:, inner.tail], self.takes[:, inner.head]
        self._add(*ends, inner.bandwidth, INNER, inner.latency)

    def add_card(self, nic: int, gpus: tuple[int, ...], width: int | None, *, relays: bool) -> None:
        """NIC ``nic`` of every server, on GPUs or the switch, over links of ``width`` if not None.

        What it sends and what it receives are switches; one that relays has its ports on a third.
        What can be one node without a change of what may flow is one node, or none at all.
        """
        ends = list(gpus) or [self.inner.num_hosts]
        ports = np.stack([self.egress[:, nic], self.ingress[:, nic]])
        widths = ports.max(axis=0) if width is None else np.where(ports.max(axis=0), width, 0)
        is_even = len(gpus) < 2 or all(self._alike(gpus[0], other) for other in gpus[1:])
        out, into = np.minimum(widths, self._shares(nic, len(ends), ports) if is_even else ports)
        if not relays and not gpus:
            self.through += np.stack([out, into])
        if not relays and len(ends) == 1 and (widths >= ports).all():
            self.send[:, nic], self.receive[:, nic] = self.takes[:, ends[0]], self.gives[:, ends[0]]
            return
        if relays and is_even:
            sends = receives = self._nodes(f"nic{nic}")
        else:
            sends, receives = self._nodes(f"nic{nic}.tx"), self._nodes(f"nic{nic}.rx")
        self._add(self.takes[:, ends], sends, out[:, None], CARD)
        self._add(receives, self.gives[:, ends], into[:, None], CARD)
        if relays and not is_even:
            card = self._nodes(f"nic{nic}")
            self._add(sends, card, ports[0][:, None], CARD)
            self._add(card, receives, ports[1][:, None], CARD)
            sends = receives = card
        self.send[:, nic], self.receive[:, nic] = sends[:, 0], receives[:, 0]

    def _shares(self, nic: int, number: int, ports: Nodes) -> Nodes:
        """What a link between a card and one of so many GPUs carries at most, of what it does.

        As the GPUs can change places, equal parts: the best of all flows is then as good as its
        mean over all places, and the card is in balance.
        """
        if (ports % number).any():
            raise ValueError(
                f"NIC {nic} carries {int(ports.max())}, which {number} GPUs share: give bandwidths "
                f"in a finer unit, {number} times as large"
            )
        return ports // number

    def _alike(self, one: int, other: int) -> bool:
        """Whether two GPUs of a server can change places and nothing else changes."""
        if any((one in card) != (other in card) for card in self.cards):
            return False
        inner, swapped = self.inner, np.arange(self.inner.num_nodes)
        swapped[[one, other]] = other, one
        links = np.stack([inner.tail, inner.head, inner.bandwidth], axis=1)
        moved = np.stack([swapped[inner.tail], swapped[inner.head], inner.bandwidth], axis=1)
        return sorted(links.tolist()) == sorted(moved.tolist())

    def _add_middle(self) -> None:
        """The link between the halves of split switches.

        What leaves the upper half for cards need not fit in it: up to half of what GPUs send, a cut
        between the halves is never the only narrowest one, and all is in balance.
        """
        inner, switch = self.inner, self.inner.num_hosts
        into, out = inner.head == switch, inner.tail == switch
        whole = int(inner.bandwidth[into].sum())
        is_even = (
            sorted(zip(inner.tail[into].tolist(), inner.bandwidth[into].tolist(), strict=True))
            == sorted(zip(inner.head[out].tolist(), inner.bandwidth[out].tolist(), strict=True))
            and int(inner.tail[into].max(initial=0)) < switch
        )
        sent, brought = self.through
        is_small = is_even & (sent == brought) & (2 * sent <= whole)
        middle = np.where(is_small, whole - sent, whole)
        self._add(self.takes[:, switch], self.gives[:, switch], middle, INNER)

    def network(self, gone: Sequence[str]) -> Network:
        """All of it, without the servers that are gone."""
        if self.splits:
            self._add_middle()
        outer, first = self.outer, len(self.names)
        more = outer.num_nodes - outer.num_hosts
        self.names += [f"switch{at}" for at in range(more)]
        beyond = np.arange(first, first + more)
        tails = np.concatenate([self.send.ravel(), beyond])
        heads = np.concatenate([self.receive.ravel(), beyond])
        ends = tails[outer.tail], heads[outer.head]
        self._add(*ends, outer.bandwidth, OUTER, outer.latency)
        links = self.cables.network(self.inner.num_hosts * self.num_servers, len(self.names), "")
        columns = (links.tail, links.head, links.bandwidth, links.latency, links.dimension)
        whole = Network(
            *(links.num_hosts, links.num_nodes, *columns),
            multicast=self._able(self.inner.multicast, outer.multicast, beyond),
            aggregate=self._able(self.inner.aggregate, outer.aggregate, beyond),
            unit=outer.unit or self.inner.unit,
            names=self.names,
        )
        return damaged(whole, gone) if gone else whole

    def _able(self, inner: NDArray[np.bool_], outer: NDArray[np.bool_], beyond: Nodes) -> list[int]:
        """The switches that can do what those of the inner and the outer network can."""
        halves = np.concatenate([self.takes[:, inner], self.gives[:, inner]])
        numbers: list[int] = np.union1d(halves, beyond[outer[len(outer) - len(beyond) :]]).tolist()
        return numbers
