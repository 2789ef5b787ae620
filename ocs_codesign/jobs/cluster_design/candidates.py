"""Candidates of a co-design, from a division to what its messages take, each with a bound."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.jobs.cluster_design.group_loads import DIMENSIONS_OF, MAX_NODES_ROUTED, PIPELINE
from ocs_codesign.jobs.cluster_design.optics import (
    AcrossRails,
    JobPrices,
    OneTopology,
    OwnCircuits,
    PacketTree,
    option_model,
)
from ocs_codesign.jobs.models.layer import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.jobs.cluster_design.cluster import JobCluster
    from ocs_codesign.jobs.cluster_design.exploring import DesignBook
    from ocs_codesign.jobs.cluster_design.group_loads import RankPlacement
    from ocs_codesign.jobs.cluster_design.optics import Outside, Rates
    from ocs_codesign.jobs.cluster_design.outcomes import Asked, Traffic
    from ocs_codesign.jobs.models.building import Parallel


@final
class Joining(Enum):
    """What joins the servers: circuits of groups, one topology, circuits that change, packets.

    All rails are alike but for ACROSS, where a group has other circuits on each.
    """

    GROUPS = "circuits of every group"
    ACROSS = "circuits across rails"
    ONE = "one topology"
    CHANGING = "circuits that change"
    TORUS = "torus"
    RING = "ring"
    FAT_TREE = "fat tree"


CODESIGNED = (Joining.GROUPS, Joining.ACROSS, Joining.ONE, Joining.CHANGING)


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """A division, where it lies, and what joins the servers, with what its messages take.

    ``ports`` and ``designs`` are by dimension, those of gradients apart where circuits change; with
    one topology its design is under ``""``. Ports are of an accelerator, across rails of a server.
    ``is_ideal``: designs, or loads of one topology, are still bounds.
    """

    joining: Joining
    parallel: Parallel
    placement: RankPlacement
    ports: dict[str, int] = field(default_factory=dict, hash=False)
    designs: dict[str, FabricOption] = field(default_factory=dict, hash=False)
    late_ports: dict[str, int] = field(default_factory=dict, hash=False)
    late_designs: dict[str, FabricOption] = field(default_factory=dict, hash=False)
    is_ideal: bool = False

    def prices(self, cluster: JobCluster, rates: Rates | None = None) -> JobPrices:
        """What messages take, those of gradients aside where circuits change.

        ``rates``: those of the cluster that are known, which grow.
        """
        return self._prices(cluster, self._outside(cluster), rates)

    def late_prices(self, cluster: JobCluster, rates: Rates | None = None) -> JobPrices:
        """What gradients take on circuits of their own."""
        own = OwnCircuits(cluster, self.late_ports, self.late_designs)
        return self._prices(cluster, own, rates)

    def _prices(self, cluster: JobCluster, outside: Outside, rates: Rates | None) -> JobPrices:
        known = {} if rates is None else rates
        return JobPrices(cluster, self.parallel, self.placement, outside, known)

    def _outside(self, cluster: JobCluster) -> Outside:
        if self.joining is Joining.FAT_TREE:
            return PacketTree(cluster, cluster.fat_tree_share)
        if self.joining is Joining.ACROSS:
            ((dimension, ports),) = self.ports.items()
            return AcrossRails(cluster, ports, self.designs.get(dimension))
        if self.joining in (Joining.GROUPS, Joining.CHANGING) or not self.designs:
            return OwnCircuits(cluster, self.ports, self.designs)
        option = self.designs[""]
        if option.topology is None:
            raise ValueError(f"{option.name} has no topology")
        return OneTopology(cluster, option, option.topology, self.is_ideal)

    def price_key(self) -> tuple[Any, ...]:
        """What messages take depends on nothing else: on circuits of groups, not on their order.

        But for the dimensions of copies, which one group may span.
        """
        spans = self.placement.spans
        if "" not in self.designs:
            copies = tuple(
                span.dimension
                for span in self.placement.optical
                if span.dimension in DIMENSIONS_OF[DATA]
            )
            lies = frozenset((span.dimension, span.inside, span.outside) for span in spans)
            ports = tuple(sorted(self.ports.items())), tuple(sorted(self.late_ports.items()))
            return self.joining, self.parallel, lies, copies, *ports
        return self.joining, self.parallel, spans, self.designs[""].name

    def order(self) -> tuple[Any, ...]:
        """What equal candidates are ordered by."""
        degrees = self.parallel
        return (
            *(degrees.num_ranks, degrees.microbatches, degrees.zero, degrees.pipeline),
            *(degrees.chunks, degrees.schedule),
            *(degrees.tensor, degrees.expert, self.joining.value, self.placement.text()),
            *(sorted(self.ports.items()), sorted(self.late_ports.items())),
            sorted((name, option.name) for name, option in self.designs.items()),
        )


def held(parallel: Parallel, placement: RankPlacement, cluster: JobCluster) -> Iterator[Candidate]:
    """Every way to divide the ports among the spans of a placement, the designs left open."""
    for ports in _splits(
        [_choices(span.dimension, span.outside, cluster.num_ports) for span in placement.optical],
        cluster.num_ports,
    ):
        named = {span.dimension: k for span, k in zip(placement.optical, ports, strict=True)}
        yield Candidate(Joining.GROUPS, parallel, placement, named, is_ideal=True)


def across(
    parallel: Parallel, placement: RankPlacement, cluster: JobCluster
) -> Iterator[Candidate]:
    """All ports of servers for the one span that needs light, its design left open."""
    spans, each = placement.optical, cluster.accelerators_a_server
    if each > 1 and len(spans) == 1 and spans[0].dimension != PIPELINE:
        ports = {spans[0].dimension: each * cluster.num_ports}
        yield Candidate(Joining.ACROSS, parallel, placement, ports, is_ideal=True)


def changing(
    traffic: Traffic, placement: RankPlacement, cluster: JobCluster
) -> Iterator[Candidate]:
    """The ports divided once among the spans of passes, and once among those of gradients."""
    asked = traffic.parts[0]
    late = _spans_of(asked.gradients, placement)
    early = {
        span.dimension
        for part in (asked.waited, *asked.trailing)
        for span in placement.optical
        if span.dimension in _spans_of(part, placement)
    }
    early |= {PIPELINE} if placement.span(PIPELINE).outside > 1 else set()
    if not late or not early or early == late or traffic.parallel.zero == 3:
        return
    choices = [
        [(span.dimension, span.outside) for span in placement.optical if span.dimension in part]
        for part in (early, late)
    ]
    ways = [
        [
            dict(zip([name for name, _ in part], ports, strict=True))
            for ports in _splits(
                [_choices(*one, cluster.num_ports) for one in part], cluster.num_ports
            )
        ]
        for part in choices
    ]
    for ports in ways[0]:
        for late_ports in ways[1]:
            yield Candidate(
                *(Joining.CHANGING, traffic.parallel, placement, ports),
                late_ports=late_ports,
                is_ideal=True,
            )


def chosen(
    candidate: Candidate, traffic: Traffic, cluster: JobCluster, book: DesignBook
) -> Candidate | None:
    """The candidate with the designs that take least for the messages of each span.

    None if some all-to-all is too large to solve. That with one topology has its design already.
    """
    if "" in candidate.designs:
        return replace(candidate, is_ideal=False)
    designs = _designs(candidate, candidate.ports, traffic, cluster, book)
    late = _designs(candidate, candidate.late_ports, traffic, cluster, book)
    if designs is None or late is None:
        return None
    return Candidate(
        *(candidate.joining, candidate.parallel, candidate.placement, candidate.ports, designs),
        *(candidate.late_ports, late),
    )


def with_one(
    joining: Joining,
    traffic: Traffic,
    placement: RankPlacement,
    cluster: JobCluster,
    book: DesignBook,
) -> Iterator[Candidate]:
    """One topology for all servers in use: all of the pool that count, or the baseline asked."""
    servers, ports = placement.num_servers, cluster.num_ports
    if not 1 < servers <= MAX_NODES_ROUTED:
        return
    exchanges = _exchanges(traffic)
    if joining is Joining.ONE:
        options = book.options(servers, ports, exchanges=exchanges)
    else:
        recipes = book.baselines(servers, ports)
        picked = recipes[:1] if joining is Joining.RING else recipes[1:]
        found = [book.named(recipe, exchanges=exchanges) for recipe in picked]
        options = tuple(one for one in found if one is not None)
    largest = max((asked[2] for asked in traffic.asked()), default=0)
    for option in options:
        if option.topology is not None:
            packed = book.packed(option, cluster.ports_model(ports), largest)
            yield Candidate(joining, traffic.parallel, placement, {"": ports}, {"": packed})


def _designs(
    candidate: Candidate,
    ports: dict[str, int],
    traffic: Traffic,
    cluster: JobCluster,
    book: DesignBook,
) -> dict[str, FabricOption] | None:
    asked, placement = traffic.asked(), candidate.placement
    is_across = candidate.joining is Joining.ACROSS
    found = {}
    for span in placement.optical:
        if span.dimension == PIPELINE or span.dimension not in ports:
            continue
        mine = messages_of_span(asked, span.dimension, placement)
        if not mine:
            continue
        exchanges = any(kind == Collective.ALLTOALL.name for kind, _ in mine)
        num_ports = ports[span.dimension]
        looked_up = book.options_of_servers if is_across else book.options
        options = looked_up(span.outside, num_ports, exchanges=exchanges)
        largest = max(
            (size for (kind, size) in mine if Collective.parse(kind) in GATHERING),
            default=Fraction(0),
        )
        models = [
            option_model(cluster, option) if is_across else cluster.ports_model(num_ports)
            for option in options
        ]
        packed = [book.packed(*both, largest) for both in zip(options, models, strict=True)]
        if not packed:
            return None
        times = [_total_s(option, mine, of) for option, of in zip(packed, models, strict=True)]
        found[span.dimension] = packed[times.index(min(times))]
    return found


def _total_s(option: FabricOption, mine: dict[tuple[str, Fraction], int], model: Any) -> Fraction:
    total = Fraction(0)
    for (kind, size), count in mine.items():
        cost = option.fastest(Collective.parse(kind), model, size)[0]
        if cost is None:
            raise ValueError(f"{option.name} has no cost of {kind}")
        total += count * cost.time_s(model, size)
    return total


def messages_of_span(
    asked: dict[Asked, int], dimension: str, placement: RankPlacement
) -> dict[tuple[str, Fraction], int]:
    """What reaches the span of a dimension, of all collectives: kind and M, with how often."""
    found: dict[tuple[str, Fraction], int] = {}
    for (kind, group, size_bytes), count in asked.items():
        if dimension not in DIMENSIONS_OF[group]:
            continue
        size = Fraction(size_bytes)
        if kind != Collective.ALLTOALL.name:
            mine = placement.span(dimension)
            for other in DIMENSIONS_OF[group]:
                span = placement.span(other)
                size /= span.inside
                if span.outside > 1 and span.stride < mine.stride:
                    size /= span.outside
        found[kind, size] = found.get((kind, size), 0) + count
    return found


def _exchanges(traffic: Traffic) -> bool:
    return any(asked[0] == Collective.ALLTOALL.name for asked in traffic.asked())


def _spans_of(asked: Mapping[Asked, int], placement: RankPlacement) -> set[str]:
    names = {name for _, group, _ in asked for name in DIMENSIONS_OF[group]}
    return {span.dimension for span in placement.optical if span.dimension in names}


def _choices(dimension: str, outside: int, num_ports: int) -> list[int]:
    """Numbers of ports that a span can use: pairs where stages have two neighbours."""
    if dimension == PIPELINE and outside > 2:
        return list(range(2, num_ports + 1, 2))
    return list(range(1, num_ports + 1))


def _splits(choices: list[list[int]], total: int) -> Iterator[tuple[int, ...]]:
    """Every choice of ports to which none can be added.

    >>> list(_splits([[1, 2, 3], [2]], 3))
    [(1, 2)]
    """
    if not choices:
        yield ()
        return
    found = [()]
    for one in choices:
        found = [(*rest, k) for rest in found for k in one if sum(rest) + k <= total]  # type: ignore[misc]
    most = set(found)
    for ports in found:
        more = (
            (*ports[:at], k, *ports[at + 1 :])
            for at, one in enumerate(choices)
            for k in one
            if k > ports[at]
        )
        if not any(other in most for other in more):
            yield ports
