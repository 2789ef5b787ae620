"""Cluster: servers of GPUs whose NICs have optical ports, before it is said what joins these."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.graphs.text import as_recipe, parse_network
from ocs_codesign.network import Network
from ocs_codesign.networks.cards import ACROSS, GPU, RAILS
from ocs_codesign.networks.servers import servers
from ocs_codesign.networks.switched import star
from ocs_codesign.quantities import exact, parse_bandwidth
from ocs_codesign.question import Question
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe

ONE_SWITCH, MESH, NETWORK = "switch", "mesh", "network"
UNITS = ("GB/s", "Gbps", "MB/s", "Mbps", "kB/s", "kbps", "B/s", "bps")

NO_GRAPHS = "servers joins servers by any graph"
"""What whoever gives a graph instead of a recipe is told."""


@final
@dataclass(frozen=True, slots=True)
class Inner:
    """What joins the GPUs of a server: a switch, links between all pairs, or a network by name.

    ``bandwidth_Bps`` is that of a GPU to the switch, or of a link each way; ``text`` names the
    network, whose unit says what its bandwidths are. The one that is not meant is None or empty.
    """

    kind: str
    num_gpus: int
    bandwidth_Bps: Fraction | None = None  # noqa: N815 - the unit keeps its case
    text: str = ""

    @classmethod
    def of_network(cls, text: str) -> Inner:
        """The network that a text names; ValueError if it is none or has no unit."""
        inner = cls(NETWORK, parse_network(text).num_hosts, None, text)
        inner.network()
        return inner

    def network(self) -> tuple[Network, Fraction]:
        """The network, and what its unit is in bytes a second."""
        if self.kind == ONE_SWITCH:
            return star(self.num_gpus, 1), self.bandwidth_Bps or Fraction(0)
        if self.kind == MESH:
            pairs = np.nonzero(~np.eye(self.num_gpus, dtype=bool))
            size = self.num_gpus
            linked = Network(size, size, pairs[0], pairs[1], [1] * len(pairs[0]))
            return linked, self.bandwidth_Bps or Fraction(0)
        network = parse_network(self.text)
        if not network.unit:
            raise ValueError(f"{self.text} has no unit: give it one, such as unit='GB/s'")
        unit = network.unit if network.unit[0].isdigit() else f"1{network.unit}"
        return network, exact(parse_bandwidth(unit))


@final
@dataclass(frozen=True, slots=True)
class Card:
    """A NIC: so many optical ports of a bandwidth each, on these GPUs of its server.

    On its switch if there are none. ``host_Bps`` is the bandwidth of the link to each; None if it
    is never the narrowest.
    """

    num_ports: int
    port_Bps: Fraction  # noqa: N815 - the unit keeps its case
    gpus: tuple[int, ...] = ()
    host_Bps: Fraction | None = None  # noqa: N815


@final
@dataclass(frozen=True, slots=True)
class Cluster:
    """Servers alike, each of GPUs on an inner network and NICs with optical ports.

    ``wiring`` and ``relay`` are those of ``networks.servers``; ``bidirectional`` if every optical
    link has one back. ``lost`` names what has failed: servers, NICs, links between NICs; ``slow``
    with bandwidths, NICs whose ports have no more, and links that have so much. ``alpha_s`` is the
    time of a step, if it is known. Raises ValueError for what does not fit.
    """

    name: str
    names: tuple[str, ...]
    inner: Inner
    cards: tuple[Card, ...]
    wiring: str = RAILS
    relay: str = GPU
    bidirectional: bool = False
    lost: tuple[str, ...] = ()
    slow: tuple[tuple[str, Fraction], ...] = ()
    alpha_s: Fraction | None = None

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise ValueError("there is one server: a cluster has at least 2")
        if len(set(self.names)) < len(self.names):
            raise ValueError("two servers have the same name: names are unique")
        if not self.cards:
            raise ValueError("there are no NICs: a server has at least one")
        ports = sorted({card.num_ports for card in self.cards})
        if self.wiring == ACROSS and len(ports) > 1:
            raise ValueError(
                f"NICs have {' and '.join(map(str, ports))} ports: a recipe across rails needs "
                "equally many on all"
            )
        self.switched()  # says what does not fit

    @property
    def num_gpus(self) -> int:
        """GPUs of all servers, lost ones too."""
        return len(self.names) * self.inner.num_gpus

    @property
    def links_named(self) -> tuple[str, ...]:
        """What is lost or slow and is a link, so that it is of one recipe."""
        ends = set(self.names) | {nic for server in self.names for nic in self._nics(server)}
        return tuple(text for text in (*self.lost, *(s[0] for s in self.slow)) if text not in ends)

    def _nics(self, server: str) -> list[str]:
        return [f"{server}.nic{nic}" for nic in range(len(self.cards))]

    def unit(self) -> tuple[str, Fraction]:
        """A unit in which all bandwidths are whole, and what it is in bytes a second."""
        rates = [self.inner.network()[1], *(rate for _, rate in self.slow)]
        for card in self.cards:
            sharing = max(1, len(card.gpus))
            rates += [card.port_Bps / sharing, *(rate / sharing for _, rate in self.slow)]
            rates += [] if card.host_Bps is None else [card.host_Bps]
        for name in UNITS:
            size = exact(parse_bandwidth(f"1{name}"))
            if all((rate / size).denominator == 1 for rate in rates):
                return name, size
        parts = lcm(*((8 * rate).denominator for rate in rates))
        return f"1/{parts} bps", Fraction(1, 8 * parts)

    def questions(self) -> tuple[Question, ...]:
        """What recipes are wanted for: one a number of ports that some NICs have."""
        return tuple(sorted({self._question(card) for card in self.cards}))

    def _question(self, card: Card) -> Question:
        nodes = len(self.names) * (len(self.cards) if self.wiring == ACROSS else 1)
        return Question(nodes, card.num_ports, self.bidirectional)

    def of_cards(self, recipes: Sequence[Recipe | str]) -> tuple[Recipe, ...]:
        """One recipe for every rail, or the one across, given one for every question."""
        given = [as_recipe(one, NO_GRAPHS) for one in recipes]
        by_question = dict(zip(self.questions(), given, strict=True))
        return tuple(by_question[self._question(card)] for card in self._planned)

    @property
    def _planned(self) -> tuple[Card, ...]:
        """A NIC of every recipe that the cluster takes."""
        return self.cards[:1] if self.wiring == ACROSS else self.cards

    def network(
        self, recipes: Sequence[Recipe | str], *, by_rail: bool = False, damaged_links: bool = True
    ) -> Network:
        """The cluster with a recipe for every rail, or one across; ValueError for what fits not.

        A recipe of fewer ports, of which those of a NIC are a multiple, has links of several ports.
        Across rails its nodes are the NICs server by server, or ``by_rail`` those of all servers
        with one number after those with the last. Without ``damaged_links`` only what servers and
        NICs have lost is lost.
        """
        wanted = [self._question(card) for card in self._planned]
        given = [as_recipe(one, NO_GRAPHS) for one in recipes]
        graphs = [_trunked(asked, one) for asked, one in zip(wanted, given, strict=True)]
        rates, unit = self._port_rates(), self.unit()[0]
        if self.wiring == ACROSS:
            (graph,) = graphs
            if by_rail:
                places = np.arange(graph.num_nodes).reshape(rates.shape).T.ravel()
                ends = places[graph.tail], places[graph.head]
                graph = Topology(graph.num_nodes, *ends, graph.speeds())
            outer = _at_port_rates(graph, rates.ravel(), unit)
            return self._joined(outer, damaged_links=damaged_links)
        rails = [_at_port_rates(graph, rates[:, nic], unit) for nic, graph in enumerate(graphs)]
        return self._joined(rails, damaged_links=damaged_links)

    def switched(self, *, as_one: bool = False) -> Network:
        """The cluster with packet switches of the NICs' bandwidth, one a rail or one for all."""
        ports = np.array([card.num_ports for card in self.cards], dtype=np.int64)
        widths = self._port_rates() * ports
        unit, outer = self.unit()[0], None
        if as_one or self.wiring == ACROSS:
            outer = star(widths.size, widths.ravel().tolist(), unit=unit)
            return self._joined(outer, damaged_links=False)
        rails = [star(len(self.names), width.tolist(), unit=unit) for width in widths.T]
        return self._joined(rails, damaged_links=False)

    def _port_rates(self) -> NDArray[np.int64]:
        """Bandwidth of a port of every NIC in the unit, shape (servers, NICs a server)."""
        rates = {
            nic: card.port_Bps
            for server in self.names
            for nic, card in zip(self._nics(server), self.cards, strict=True)
        }
        for text, rate in self.slow:
            for nic in self._nics(text) if text in self.names else [text]:
                if nic in rates:
                    rates[nic] = min(rates[nic], rate)
        unit_Bps = self.unit()[1]  # noqa: N806 - the unit keeps its case
        whole = [int(rate / unit_Bps) for rate in rates.values()]
        return np.array(whole, dtype=np.int64).reshape(len(self.names), len(self.cards))

    def _joined(self, outer: Network | list[Network], *, damaged_links: bool) -> Network:
        """The servers joined by networks of their NICs, after losses."""
        inner, inner_Bps = self.inner.network()  # noqa: N806
        unit_Bps = self.unit()[1]  # noqa: N806
        of_links = self.links_named
        hosts = [card.host_Bps for card in self.cards]
        slow = [(text, int(rate / unit_Bps)) for text, rate in self.slow if text in of_links]
        return servers(
            len(self.names),
            inner.changed(inner.bandwidth * int(inner_Bps / unit_Bps)),
            outer,
            len(self.cards),
            attach=[card.gpus for card in self.cards],
            card_bandwidth=[None if rate is None else int(rate / unit_Bps) for rate in hosts],
            wiring=RAILS if isinstance(outer, list) else ACROSS,
            relay=self.relay,
            lost=[text for text in self.lost if damaged_links or text not in of_links],
            slow=slow if damaged_links else (),
            names=self.names,
        )


def _trunked(question: Question, recipe: Recipe) -> Topology:
    """The topology of a recipe whose links have as many ports each as a NIC has for them."""
    nodes, ports = question.num_nodes, question.degree
    if recipe.num_nodes != nodes:
        raise ValueError(f"{recipe} has {recipe.num_nodes} nodes: {nodes} are wanted")
    if ports % recipe.degree:
        raise ValueError(
            f"{recipe} has degree {recipe.degree}: the {ports} ports of a NIC are no multiple of it"
        )
    if question.bidirectional and not recipe.bidirectional:
        raise ValueError(f"{recipe} has links one way: this cluster's ports need links both ways")
    graph = recipe.topology()
    return Topology(nodes, graph.tail, graph.head, graph.speeds() * (ports // recipe.degree))


def _at_port_rates(graph: Topology, rates: NDArray[np.int64], unit: str) -> Network:
    """The network of a topology whose links are as fast as the slower port at their ends."""
    nodes = graph.num_nodes
    each = graph.speeds() * np.minimum(rates[graph.tail], rates[graph.head])
    return Network(nodes, nodes, graph.tail, graph.head, each, unit=unit)
