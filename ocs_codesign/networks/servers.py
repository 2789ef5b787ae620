"""Servers of GPUs with an inner network each, whose network cards (NICs) hang on an outer one.

The hosts of the network are the GPUs. The outer network has the cards as hosts: a recipe of servers
for every rail, a recipe of all cards, switches, whatever is left of them after losses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ocs_codesign.network import Network
from ocs_codesign.networks.cables import Cables, check_hosts, one_each
from ocs_codesign.networks.cards import (
    GPU,
    NIC,
    RAILS,
    after_losses,
    attached,
    check_count,
    check_words,
    joined_cards,
    server_names,
)
from ocs_codesign.networks.damaged import damaged
from ocs_codesign.networks.direct import as_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.given import NetworkLike

    Nodes: TypeAlias = NDArray[np.int64]

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

    >>> from ocs_codesign.networks.direct import direct
    >>> from ocs_codesign.networks.switched import star
    >>> from ocs_codesign.topology import Topology
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
        self,
        servers: list[str],
        inner: Network,
        outer: Network,
        cards: Sequence[tuple[int, ...]],
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
        self,
        tail: Nodes,
        head: Nodes,
        bandwidth: Nodes,
        dimension: int,
        latency: Nodes | int = 0,
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
