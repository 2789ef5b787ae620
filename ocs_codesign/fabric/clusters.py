"""Which recipe suits a cluster: the exact optimum of the whole cluster with each, and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import count, cycle, islice, product
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import split_dominated
from ocs_codesign.core.network import MAX_BANDWIDTH, Network
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.networks.servers import ACROSS, CARD, GPU, INNER, OUTER, RAILS, servers
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import exact, parse_bandwidth
from ocs_codesign.core.topology import Topology, host_diameter
from ocs_codesign.graphs.families.rings import Circulant, DirectedCirculant
from ocs_codesign.graphs.text import as_recipe, parse_network
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.search.catalogue.entry import stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.search.pareto import baseline_recipes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.network import Network
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.forest.optimum import Optimum


# Cluster: servers of GPUs whose NICs have optical ports, before it is said what joins these.


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
        if 8 * parts * max(rates) > MAX_BANDWIDTH:
            least, most = float(min(rates)), float(max(rates))
            raise ValueError(
                f"bandwidths from {least:g} to {most:g} B/s are too far apart, or of too many "
                "digits: all are whole in some unit, and at most 2^40 of it"
            )
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


# Rails that differ: a circulant each, whose offsets together lead from server to server fast.


def dealt(num_servers: int, ports: Sequence[int], *, bidirectional: bool) -> tuple[Recipe, ...]:
    """A circulant of the servers for every rail, a rail's NICs having so many ports.

    Together their offsets are the digits of the servers' numbers to the smallest base that ports
    allow, so that as few links as digits lead anywhere, and then whatever is left. Empty if links
    both ways cannot take an odd number of ports, or ports are more than offsets.

    >>> dealt(16, (2, 2, 2), bidirectional=False)
    (DirectedCirculant(16, (1, 4)), DirectedCirculant(16, (2, 8)), DirectedCirculant(16, (3, 12)))
    """
    both = 2 if bidirectional else 1
    offsets = range(1, num_servers // 2 + 1 if bidirectional else num_servers)
    numbers = [each // both for each in ports]
    if any(each % both for each in ports) or max(numbers) > len(offsets):
        return ()
    digits = _digits(num_servers, sum(numbers), offsets, both == 2)
    order = [*digits, *(offset for offset in offsets if offset not in digits)]
    endless = cycle(order)
    rails = [list(islice(endless, each)) for each in numbers]
    if not bidirectional:
        return tuple(DirectedCirculant(num_servers, tuple(rail)) for rail in rails)
    # Half way round there is one link there and back, which takes both ports if it is doubled.
    doubled = [[*rail, *(one for one in rail if 2 * one == num_servers)] for rail in rails]
    return tuple(Circulant(num_servers, tuple(rail)) for rail in doubled)


def _digits(num_servers: int, most: int, offsets: range, signed: bool) -> list[int]:
    """Offsets such that a sum of the fewest, one of every place, is any difference of servers."""
    for places in count(1):
        base = next(base for base in count(2) if base**places >= num_servers)
        largest = base // 2 if signed else base - 1
        if places * largest <= most or places == most:
            break
    base = 2 * largest + 1 if signed else largest + 1
    found = [digit * base**place for digit in range(1, largest + 1) for place in range(places)]
    if signed:
        found = [min(one % num_servers, -one % num_servers) for one in found]
    return [one for one in dict.fromkeys(found) if one in offsets][:most]


MAX_CHOICES = 64
"""Combinations of recipes for rails of different NICs that are scored."""

SCORING = "Scoring"


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClusterDesign:
    """A cluster with something that joins its NICs, and what it can do.

    ``recipes`` are one a rail, or one across, or none for packet switches, which ``name`` then
    names; ``by_rail`` says which NICs its nodes are (see ``Cluster.network``). ``halves`` are the
    optima of the collective, two of an allreduce; ``steps`` are the fewest of any schedule.
    """

    recipes: tuple[Recipe, ...]
    name: str
    by_rail: bool
    network: Network
    halves: tuple[Optimum, ...]
    steps: int
    unit_Bps: Fraction  # noqa: N815 - the unit keeps its case

    @property
    def distinct(self) -> tuple[Recipe, ...]:
        """The recipes, each once."""
        return tuple(dict.fromkeys(self.recipes))

    @property
    def algbw_Bps(self) -> Fraction:  # noqa: N802
        """M over the least time of long messages, in bytes a second."""
        return self.unit_Bps / sum(1 / half.algbw for half in self.halves)

    @property
    def narrowest(self) -> Optimum:
        """The optimum of the slower half."""
        return min(self.halves, key=lambda half: half.algbw)

    def bottleneck_links(self) -> NDArray[np.int64]:
        """Ids of the links that leave a narrowest cut: through optical ports where it can be.

        A card whose links to GPUs are as narrow as its ports goes to the side that keeps these
        links whole: the cut stays as narrow.
        """
        network, half = self.network, self.narrowest
        leaving = half.leaving()
        cut = half.bottleneck
        if cut is None or network.dimension is None:
            return leaving
        ends = (network.tail, network.head)
        tail, head = ends[::-1] if half.tasks[0].is_sum else ends
        touches = np.zeros((OUTER + 1, network.num_nodes), dtype=bool)
        for end in ends:
            touches[network.dimension, end] = True
        is_card = touches[CARD] & touches[OUTER] & ~touches[INNER]
        side, capacity = cut.side.copy(), cut.capacity
        at_cards = leaving[network.dimension[leaving] == CARD]
        for card in np.unique(np.concatenate([tail[at_cards], head[at_cards]])).tolist():
            if is_card[card]:
                side[card] ^= True
                moved = int(network.bandwidth[side[tail] & ~side[head]].sum())
                side[card] ^= moved > capacity
                capacity = min(capacity, moved)
        return np.flatnonzero(side[tail] & ~side[head])

    def point(self) -> tuple[int, Fraction]:
        """What designs are compared by: steps, and time a byte."""
        return self.steps, 1 / self.algbw_Bps


@final
@dataclass(frozen=True, slots=True, eq=False)
class ScoredCluster:
    """The designs of a cluster for a collective: undominated ones, ascending in steps, and others.

    ``baselines`` are a ring, a torus, and packet switches of the NICs' bandwidth: a rail each, and
    one of all as in a fat tree, which no way to join the NICs beats. ``messages`` are sizes in
    bytes that times are asked for, with a ``model`` of bandwidth 1 by its alpha and shares. Recipes
    that are ``cut_off`` no longer join all GPUs.
    """

    cluster: Cluster
    collective: Collective
    candidates: tuple[ClusterDesign, ...]
    dominated: tuple[ClusterDesign, ...]
    baselines: tuple[ClusterDesign, ...]
    messages: tuple[Fraction, ...]
    cut_off: tuple[tuple[Recipe, ...], ...] = ()
    model: CostModel | None = None

    @property
    def bound(self) -> ClusterDesign:
        """The fat tree."""
        return self.baselines[-1]

    def least_time_s(self, design: ClusterDesign, message_bytes: Fraction) -> Fraction:
        """What no schedule of steps beats for M bytes, if a step takes the cluster's alpha."""
        if self.model is not None:
            return self.model.time_s(design.steps, 1 / design.algbw_Bps, message_bytes)
        alpha_s = self.cluster.alpha_s or Fraction(0)
        return alpha_s * design.steps + message_bytes / design.algbw_Bps

    @property
    def best(self) -> ClusterDesign:
        """The candidate with the least time for the largest message, or the highest algbw."""
        if not self.messages:
            return min(self.candidates, key=lambda one: one.point()[::-1])
        largest = max(self.messages)
        return min(self.candidates, key=lambda one: self.least_time_s(one, largest))


def score_cluster(
    cluster: Cluster,
    collective: Collective | str,
    recipes: Sequence[Recipe | str] = (),
    messages: Sequence[Fraction] = (),
    *,
    each_rail: bool = False,
) -> ScoredCluster:
    """Score these recipes on a cluster, or those on the frontier of the sizes that it needs.

    ``each_rail`` if the recipes are those of one design, a rail each; else every rail has the same,
    and where none are given, a design whose rails differ is beside the frontier. Raises ValueError
    for recipes that do not fit, and if none is known.
    """
    collective = Collective.parse(collective)
    given = [as_recipe(one, NO_GRAPHS) for one in recipes]
    if cluster.links_named and not given:
        raise ValueError(
            f"{cluster.links_named[0]} is no server and no NIC; a link is of one recipe: give the "
            "recipe too"
        )
    asked = cluster.questions()
    has_rails = cluster.wiring == RAILS and len(cluster.cards) > 1
    if each_rail:
        choices = [_one_each(cluster, given)]
    else:
        wanted = _given(asked, given) if given else _known(asked)
        choices = [cluster.of_cards(choice) for choice in wanted]
    if has_rails and not given:
        ports = [card.num_ports for card in cluster.cards]
        spread = dealt(len(cluster.names), ports, bidirectional=cluster.bidirectional)
        choices += [spread] if spread else []
    beside = [cluster.of_cards(choice) for choice in _baselines(asked)]
    orders = (False, True) if cluster.wiring == ACROSS else (False,)
    plans = [(choice, order) for choice in choices for order in orders]
    compared = [(one, order) for one in beside if one not in choices for order in orders]
    scoring = _Scoring(cluster, collective, len(plans) + len(compared) + 2)
    scored = [scoring.joined(*plan, damaged_links=True) for plan in plans]
    others = [scoring.joined(*plan, damaged_links=False) for plan in compared]
    if has_rails:
        others.append(scoring.design((), "packet switch a rail", cluster.switched()))
    others.append(scoring.design((), "fat tree of the same NICs", cluster.switched(as_one=True)))
    candidates, rest = split_dominated(filter(None, scored), ClusterDesign.point)
    if not candidates or others[-1] is None:
        raise ValueError(f"nothing joins all GPUs: {scoring.cut_off[0][1]}")
    designs = tuple(candidates), tuple(rest), tuple(filter(None, others))
    cut_off = tuple(recipes for recipes, _ in scoring.cut_off)
    return ScoredCluster(cluster, collective, *designs, tuple(messages), cut_off)


class _Scoring:
    """Makes designs of a cluster one by one, and tells how far it is."""

    def __init__(self, cluster: Cluster, collective: Collective, total: int) -> None:
        self.cluster, self.collective, self.unit_Bps = cluster, collective, cluster.unit()[1]
        self.done, self.total = 0, total
        self.cut_off: list[tuple[tuple[Recipe, ...], str]] = []

    def joined(
        self, recipes: tuple[Recipe, ...], by_rail: bool, *, damaged_links: bool
    ) -> ClusterDesign | None:
        """The design of a recipe for every rail, or one across; None as in ``design``."""
        network = self.cluster.network(recipes, by_rail=by_rail, damaged_links=damaged_links)
        return self.design(recipes, "", network, by_rail)

    def design(
        self, recipes: tuple[Recipe, ...], name: str, network: Network, by_rail: bool = False
    ) -> ClusterDesign | None:
        """The design of a network; None, and noted, if a GPU is cut off."""
        tell_phase(SCORING, self.done, self.total)
        self.done += 1
        parts = self.collective.halves()
        try:
            steps = host_diameter(network) * len(parts)
        except ValueError as error:
            self.cut_off.append((recipes, str(error)))
            return None
        halves = tuple(optimum(network, half) for half in parts)
        return ClusterDesign(recipes, name, by_rail, network, halves, steps, self.unit_Bps)


def _one_each(cluster: Cluster, recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    rails = 1 if cluster.wiring == ACROSS else len(cluster.cards)
    if len(recipes) != rails:
        raise ValueError(f"{len(recipes)} recipes are given, but there are {rails} rails")
    return tuple(recipes)


def _given(asked: Sequence[Question], recipes: Sequence[Recipe]) -> list[tuple[Recipe, ...]]:
    """All choices among the recipes; where NICs differ, one for every number of ports."""
    if len(asked) == 1:
        return [(recipe,) for recipe in dict.fromkeys(recipes)]
    fitting = [[one for one in recipes if one.degree == each.degree] for each in asked]
    for question, found in zip(asked, fitting, strict=True):
        if not found:
            raise ValueError(f"no recipe was given for the NICs of {question.degree} ports")
    return _products(fitting)


def _products(each: Iterable[Sequence[Recipe]]) -> list[tuple[Recipe, ...]]:
    return list(islice(product(*each), MAX_CHOICES))


def _known(asked: Sequence[Question]) -> list[tuple[Recipe, ...]]:
    """The frontiers of the questions, and all combinations where these are several."""
    return _products([_frontier(question) for question in asked])


def _frontier(question: Question) -> list[Recipe]:
    """The frontier, what is stored of it if anything is; of fewer ports if these are too many."""
    nodes, ports = question.num_nodes, question.degree
    degree = next(d for d in range(min(ports, nodes - 1), 0, -1) if ports % d == 0)
    question = Question(nodes, degree, question.bidirectional)
    with Catalogue() as store:
        stored = stored_frontier(store.entries(question), Collective.ALLGATHER)
    if stored:
        return [entry.design().recipe for entry in stored]
    found = frontier(nodes, degree, bidirectional=question.bidirectional)
    return [design.recipe for design in found.candidates]


def _baselines(asked: Sequence[Question]) -> list[tuple[Recipe, ...]]:
    """The ring and the torus of every question, as many as all have."""
    return list(zip(*(baseline_recipes(question) for question in asked), strict=False))
