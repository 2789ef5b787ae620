"""The best that trees can do on a network, as an answer: rates, what proves them, losses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.networks.servers import ACROSS, CARD, INNER, NIC, OUTER
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.fabric.clusters import MESH, NETWORK
from ocs_codesign.faces.answers.compare import profile_text
from ocs_codesign.faces.answers.declared import excluded, made, table
from ocs_codesign.faces.answers.frontier import MAX_DOMINATED_ROWS, more_dominated
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import t_b_text
from ocs_codesign.graphs.handle import handle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ocs_codesign.core.compute.cuts import Cut
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.networks.aggregation import AggregationProfile
    from ocs_codesign.fabric.clusters import Card, Cluster, ClusterDesign, ScoredCluster
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.interop.wiring.wires import Reading
    from ocs_codesign.schedules.compare.in_network import InNetworkRates
    from ocs_codesign.schedules.exchange.optimum import ExchangeOptimum
    from ocs_codesign.schedules.forest.optimum import Optimum, RateLoss


_SHOWN_LINKS = 8
_SHOWN_LOSSES = 12


@final
@dataclass(frozen=True, slots=True)
class NetworkOptimum:
    """What collectives can do on a network called ``name``.

    ``helpful`` are links of which one alone raises the allgather's rate; ``allreduce`` is None
    (what nothing exceeds) where the network is too large for its program, ``losses`` and
    ``spare``, the bandwidth of every link alone that the allgather can do without, where they were
    not asked for. ``sketch`` is what phases cost. ``in_network`` are the rates of allreduces whose
    switches add up as ``aggregation`` says, None if it was not given.
    """

    name: str
    network: Network
    allgather: Optimum
    reduce_scatter: Optimum
    allreduce: Fraction | None
    helpful: tuple[int, ...]
    losses: tuple[RateLoss, ...] | None = None
    spare: tuple[Fraction, ...] | None = None
    aggregation: AggregationProfile | None = None
    in_network: InNetworkRates | None = None
    sketch: Guided | None = None

    @property
    def halves_algbw(self) -> Fraction:
        """What a reduce-scatter and then an allgather do in all."""
        return 1 / (1 / self.allgather.algbw + 1 / self.reduce_scatter.algbw)


def links_of(network: Network, links: Iterable[int]) -> list[dict[str, Any]]:
    """Links of a network by number, with the names of their ends."""
    return [
        {
            "link": link,
            "tail": network.name(int(network.tail[link])),
            "head": network.name(int(network.head[link])),
            "bandwidth": int(network.bandwidth[link]),
        }
        for link in links
    ]


def _slack(found: NetworkOptimum) -> list[dict[str, Any]] | None:
    if found.spare is None:
        return None
    links = links_of(found.network, range(found.network.num_links))
    return [{**link, "spare": str(spare)} for link, spare in zip(links, found.spare, strict=True)]


made(
    "networks.optimum",
    switches=lambda found: found.network.num_nodes - found.network.num_hosts,
    cut_attained=lambda found: (
        found.allgather.bottleneck is not None and found.allgather.is_attained
    ),
    links_to_upgrade=lambda found: links_of(found.network, found.allgather.leaving().tolist()),
    U=lambda found: found.allgather.trees[0],
    k=lambda found: found.allgather.trees[1],
    allreduce=lambda found: found,
    in_network=lambda found: None if found.aggregation is None else found.in_network,
    slack=_slack,
)
made(
    "cut",
    hosts=lambda cut, found: cut.side[: found.network.num_hosts].sum(),
    side=lambda cut: cut.side.nonzero()[0],
)


def optimum_sections(found: NetworkOptimum) -> Iterator[Section]:
    """Rates of the collectives, the bottleneck, what to widen, and what losses cost."""
    network, gather = found.network, found.allgather
    switches = network.num_nodes - network.num_hosts
    yield Facts(
        ("network", found.name),
        ("hosts, switches, links", f"{network.num_hosts}, {switches}, {network.num_links}"),
        ("allgather", _rate_text(gather)),
        ("reduce-scatter", _rate_text(found.reduce_scatter)),
        ("allreduce", _allreduce_text(found)),
        ("phases", None if found.sketch is None else ", then ".join(found.sketch.phases)),
        ("relays", None if found.sketch is None else _relays_text(found.sketch)),
        ("in phases", None if found.sketch is None else _phased_text(found.network, found.sketch)),
        ("t_b of the allgather", t_b_text(gather.t_b)),
        ("trees a host", _trees_text(gather)),
        ("bottleneck", _cut_text(gather)),
        ("what leaves it", links_text(network, gather.leaving().tolist())),
        ("one link that helps", _helpful_text(found)),
    )
    if found.aggregation is not None and found.in_network is not None:
        yield ""
        yield _in_network_table(found.aggregation, found.in_network, network.unit)
    if found.losses is not None:
        yield ""
        rows = [
            (f"{float(loss.rate_left):.1%}", loss.what) for loss in found.losses[:_SHOWN_LOSSES]
        ]
        yield Table(("rate left", "when this is lost"), rows, numbers=1)
        if len(found.losses) > _SHOWN_LOSSES:
            more = len(found.losses) - _SHOWN_LOSSES
            yield f"{more} more cost less: --json FILE has them all."
    if found.spare is not None:
        yield ""
        yield from _slack_sections(network, found.spare)


def _in_network_table(profile: AggregationProfile, rates: InNetworkRates, unit: str) -> Table:
    """Allreduces with and without sums in switches: bounds, and what trees of switches do."""
    told = (
        (rates.forwarding, "nothing exceeds, where switches only forward"),
        (rates.adding, "nothing exceeds, where they add up and copy without a limit"),
        (rates.pooled, f"nothing exceeds, where they do as {profile_text(profile)}"),
        (rates.trees, "of it trees of switches do, with their headers"),
    )
    rows = [
        ("-" if rate is None else _with_unit(rate, unit), what, _gain(rate, rates.forwarding))
        for rate, what in told
    ]
    columns = ("allreduce", "which", "times that without")
    return Table(
        (columns[0], columns[2], columns[1]),
        [(rate, gain, what) for rate, what, gain in rows],
        numbers=2,
        texts=1,
    )


def _gain(rate: Fraction | None, without: Fraction | None) -> str:
    return "-" if rate is None or not without else f"{float(rate / without):.3f}"


def _slack_sections(network: Network, spare: tuple[Fraction, ...]) -> Iterator[Section]:
    """Kinds of links, of one bandwidth and as much to spare, the scarcest first."""
    kinds: dict[tuple[Fraction, int], list[int]] = {}
    for link, (width, left) in enumerate(zip(network.bandwidth.tolist(), spare, strict=True)):
        kinds.setdefault((left / width, width), []).append(link)
    rows = []
    for (part, width), links in sorted(kinds.items()):
        first = f"{network.name(int(network.tail[links[0]]))} > "
        first += network.name(int(network.head[links[0]]))
        rows.append(
            (f"{float(part):.1%}", f"{width} {network.unit}".strip(), str(len(links)), first)
        )
    yield Table(("to spare", "of", "links", "such as"), rows[:_SHOWN_LOSSES], numbers=3)
    if len(rows) > _SHOWN_LOSSES:
        yield f"{len(rows) - _SHOWN_LOSSES} more kinds of links: --json FILE has them all."


def _with_unit(rate: Fraction, unit: str) -> str:
    return f"{t_b_text(rate)}{' ' + unit if unit else ''}"


def _rate_text(found: Optimum) -> str:
    kind = "attained"
    if not found.is_attained:
        kind += f", nothing exceeds {_with_unit(found.most_algbw, found.network.unit)}"
    return f"algbw {_with_unit(found.algbw, found.network.unit)}, {kind}"


def _allreduce_text(found: NetworkOptimum) -> str:
    halves = _with_unit(found.halves_algbw, found.network.unit)
    if found.allreduce is None:
        return f"algbw {halves}, as a reduce-scatter and then an allgather"
    if found.allreduce == found.halves_algbw:
        return f"algbw {halves}, both halves at once do no more"
    network = found.network
    best = _with_unit(found.allreduce, network.unit)
    if network.multicast.any() or network.aggregate.any():
        return f"algbw at most {best}, {halves} as a reduce-scatter and then an allgather"
    return (
        f"algbw {best} with both halves at once, {halves} as a reduce-scatter and then an allgather"
    )


def _trees_text(found: Optimum) -> str:
    scale, trees = found.trees
    return f"{trees}, each of {scale} times what a link of width 1 carries"


def _cut_text(found: Optimum) -> str | None:
    cut = found.bottleneck
    if cut is None:
        return None if found.cut is None else "no cut: switches out of balance (linear program)"
    network = found.network
    hosts = int(cut.side[: network.num_hosts].sum())
    outside = (~cut.side[: network.num_hosts]).nonzero()[0].tolist()
    names = ", ".join(network.name(host) for host in outside[:_SHOWN_LINKS])
    more = f" and {len(outside) - _SHOWN_LINKS} more" if len(outside) > _SHOWN_LINKS else ""
    unit = f" {network.unit}" if network.unit else ""
    return f"{counted(hosts, 'host')} reach {names}{more} over {cut.capacity}{unit}"


def links_text(network: Network, links: list[int]) -> str | None:
    """How many links these are, and the first of them; None if there are none."""
    if not links:
        return None
    named = [
        f"{network.name(int(network.tail[link]))} > {network.name(int(network.head[link]))}"
        for link in links[:_SHOWN_LINKS]
    ]
    more = f" and {len(links) - _SHOWN_LINKS} more" if len(links) > _SHOWN_LINKS else ""
    return f"{counted(len(links), 'link')}: {', '.join(named)}{more}"


# The least time of an all-to-all.


class Guided(NamedTuple):
    """Phases that a collective keeps to, what a unit takes without, how many times as long it does.

    The unit is one of a pair of an all-to-all, of a host else.
    """

    phases: tuple[str, ...]
    free: Fraction
    loss: Fraction
    collective: str = "alltoall"
    relays: str = "any"


def _seconds_for(
    _: str,
    found: ExchangeOptimum,
    unit_bytes: Fraction,
    unit_Bps: Fraction | None,  # noqa: N803 - units keep their case
    sizes: tuple[Fraction, ...],
) -> dict[str, float]:
    """Seconds by what they are for: M of an even exchange, or the demand in a file."""
    if unit_Bps is None:
        return {}
    if found.demand is not None:
        return {"demand": float(found.value * unit_bytes / unit_Bps)}
    a_byte = found.value / (found.message_units * unit_Bps)
    return {format_size(size): float(a_byte * size) for size in sizes}


def _of_cut(cut: Cut, *values: Any) -> Fraction:
    """What the hosts of a cut have for others."""
    unit_bytes: Fraction = values[2]
    return cut.weight * unit_bytes


made(
    "networks.exchange",
    switches=lambda _, found: found.network.num_nodes - found.network.num_hosts,
    even=lambda _, found: found.demand is None,
    U=lambda _, found, unit_bytes: found.value * unit_bytes,
    U_bound=lambda _, found, unit_bytes: found.bound * unit_bytes,
    seconds_for=_seconds_for,
    cut=lambda _, found: found.bottleneck,
    links_to_upgrade=lambda _, found: links_of(found.network, found.leaving().tolist()),
)
made(
    "exchange_cut",
    hosts=lambda cut, _, found: cut.side[: found.network.num_hosts].sum(),
    demand=_of_cut,
    side=lambda cut: cut.side.nonzero()[0],
)


def exchange_sections(
    name: str,
    found: ExchangeOptimum,
    unit_bytes: Fraction,
    unit_Bps: Fraction | None,  # noqa: N803 - units keep their case
    sizes: tuple[Fraction, ...],
    relays: str,
    sketch: Guided | None,
) -> Iterator[Section]:
    """U and what it means in seconds, what proves it, the bottleneck."""
    yield exchange_facts(name, found, unit_bytes, relays, sketch)
    seconds = _seconds_for(name, found, unit_bytes, unit_Bps, sizes)
    if seconds:
        yield ""
        rows = [(what, format_time(time)) for what, time in seconds.items()]
        yield Table(("message", "takes at least"), rows, numbers=2)


def exchange_facts(
    name: str,
    found: ExchangeOptimum,
    unit_bytes: Fraction = Fraction(1),
    relays: str = "any",
    sketch: Guided | None = None,
) -> Facts:
    """U, what proves it, and the bottleneck, a line each."""
    network = found.network
    switches = network.num_nodes - network.num_hosts
    known = "exact" if found.is_optimal else f"at most {float(found.gap):.1e} above the least"
    kind = "even" if found.demand is None else "of the demand"
    return Facts(
        ("network", name),
        ("hosts, switches, links", f"{network.num_hosts}, {switches}, {network.num_links}"),
        ("alltoall", f"{kind}, {'all hosts relay' if relays == 'any' else f'relays: {relays}'}"),
        ("U", f"{t_b_text(found.value * unit_bytes)}, {known}, by {found.proof}"),
        ("phases", None if sketch is None else ", then ".join(sketch.phases)),
        ("without phases", None if sketch is None else _loss_text(sketch)),
        ("algbw", _with_unit(found.algbw, network.unit) if found.demand is None else None),
        ("t_b", t_b_text(found.t_b) if found.demand is None else None),
        ("bottleneck", _exchange_cut_text(found)),
        ("what leaves it", links_text(network, found.leaving().tolist())),
    )


def _loss_text(sketch: Guided) -> str:
    least = f"U {t_b_text(sketch.free)}, exact"
    if sketch.loss == 1:
        return f"{least}: nothing is lost"
    return f"{least}: the phases take {float(sketch.loss):.4g} times as long"


def _phased_text(network: Network, sketch: Guided) -> str:
    algbw = network.num_hosts / (sketch.free * sketch.loss)
    told = f"{sketch.collective} {_with_unit(algbw, network.unit)}"
    longer = f"{float(sketch.loss):.4g} times as long as without"
    return f"{told}, {'nothing is lost' if sketch.loss == 1 else longer}"


def _relays_text(sketch: Guided) -> str | None:
    return None if sketch.relays == "any" else f"{sketch.relays}; others send what is their own"


def _exchange_cut_text(found: ExchangeOptimum) -> str:
    cut, network = found.bottleneck, found.network
    if cut is None:
        return f"no cheap cut: prices on {counted(len(found.leaving()), 'link')}"
    hosts = counted(int(cut.side[: network.num_hosts].sum()), "host")
    over = _with_unit(Fraction(cut.capacity), network.unit)
    return f"{hosts} with what they have for others, over {over}"


def _helpful_text(found: NetworkOptimum) -> str:
    if not found.helpful:
        return "none: other cuts are as narrow"
    return links_text(found.network, list(found.helpful)) or ""


# A cluster and what joins its NICs, as an answer: rates, steps, the bottleneck in words.


GIGA = 10**9
_NODE = re.compile(r"(.*)\.(?:gpu[0-9]+|nic[0-9]+(?:\.[rt]x)?|switch[0-9]*(?:\.down)?)")


made(
    "networks.cluster",
    recipes_of=lambda found: found.cluster.questions(),
    cut_off=lambda found: [dict.fromkeys(recipes) for recipes in found.cut_off],
    excluded=lambda found: [
        excluded(
            ", ".join(dict.fromkeys(map(repr, recipes))),
            "cut_off",
            "some GPUs do not reach all others any more",
        )
        for recipes in found.cut_off
    ],
    best=lambda found: found.candidates.index(found.best),
)
made("inner_network", network=lambda inner: inner.text or None)
made(
    "cluster",
    slow=lambda cluster: [
        {"what": text, "bandwidth_Bps": float(rate)} for text, rate in cluster.slow
    ],
)
made(
    "cluster_design",
    label=lambda design, found: _label(design, found.cluster),
    nodes=lambda design: "by rail" if design.by_rail else "by server",
    algbw_GBps=lambda design: float(design.algbw_Bps / GIGA),
    of_bound=lambda design, found: design.algbw_Bps / found.bound.algbw_Bps,
    bottleneck=lambda design, found: bottleneck_text(design, found.cluster),
    links_to_upgrade=lambda design: links_of(design.network, design.bottleneck_links().tolist()),
    least_time_s=lambda design, found: (
        [float(time) for time in _times(design, found)] if found.messages else None
    ),
)


def _times(design: ClusterDesign, found: ScoredCluster) -> list[Fraction]:
    return [found.least_time_s(design, size) for size in found.messages]


def cluster_sections(found: ScoredCluster) -> Iterator[Section]:
    """What the cluster is, its designs, what they are compared with, and what limits the best."""
    yield description(found.cluster)
    yield ""
    yield _table(found.candidates, found)
    if found.dominated:
        yield "\nDominated:"
        yield _table(found.dominated[:MAX_DOMINATED_ROWS], found)
        yield from more_dominated(len(found.dominated) - MAX_DOMINATED_ROWS)
    if found.cut_off:
        names = (recipe.label() for recipes in found.cut_off for recipe in dict.fromkeys(recipes))
        yield f"Some GPUs do not reach all others any more on {', '.join(dict.fromkeys(names))}."
    yield "\nBaselines:"
    yield _table(found.baselines, found)
    among = "Of all schedules "
    if len(found.best.halves) > 1:
        among += "of a reduce-scatter and then an allgather "
    times = " Times are the least." if found.messages else ""
    yield f"{among}none has a higher algbw, which forests reach, or fewer steps.{times}"
    best = found.best
    yield ""
    yield Facts(
        ("best", _label(best, found.cluster)),
        ("bottleneck", bottleneck_text(best, found.cluster)),
        ("links to upgrade", links_text(best.network, best.bottleneck_links().tolist())),
    )
    shown = (*found.candidates, *found.dominated[:MAX_DOMINATED_ROWS], *found.baselines)
    yield Recipes.of(recipe for design in shown for recipe in design.recipes)


def description(cluster: Cluster) -> Facts:
    """What a cluster is, to read."""
    inner, each = cluster.inner, len(cluster.cards)
    ports = " and ".join(
        f"{one.num_nodes} nodes of degree {one.degree}" for one in cluster.questions()
    )
    how = f"{each} rails, a recipe of {ports} each"
    if cluster.wiring == ACROSS:
        how = f"across rails, one recipe of {ports}"
    through = "NICs pass on from port to port" if cluster.relay == NIC else "data pass a GPU"
    return Facts(
        ("cluster", cluster.name),
        ("servers", f"{len(cluster.names)} of {inner.num_gpus} GPUs, {_inner_text(cluster)}"),
        ("NICs a server", "; ".join(_cards_texts(cluster))),
        ("wiring", f"{how}; on the way {through}"),
        ("lost", ", ".join(cluster.lost) or None),
        ("slow", ", ".join(f"{text} {_rate(rate)}" for text, rate in cluster.slow) or None),
    )


def _inner_text(cluster: Cluster) -> str:
    inner = cluster.inner
    if inner.kind == NETWORK:
        return f"joined as {inner.text}"
    rate = _rate(inner.bandwidth_Bps or Fraction(0))
    how = "between any two" if inner.kind == MESH else "each to a switch"
    return f"{rate} {how}"


def _cards_texts(cluster: Cluster) -> Iterator[str]:
    """NICs that are alike together."""
    for (ports, rate, sharing, host), run in groupby(cluster.cards, key=_kind):
        number = len(list(run))
        place = "on the switch" if not sharing else f"of {counted(sharing, 'GPU')} each"
        if sharing == 1:
            place = "on a GPU each"
        link = "" if host is None else f", by {_rate(host)}"
        yield f"{number} of {counted(ports, 'port')} of {_rate(rate)}, {place}{link}"


def _kind(card: Card) -> tuple[int, Fraction, int, Fraction | None]:
    return card.num_ports, card.port_Bps, len(card.gpus), card.host_Bps


def _rate(rate: Fraction) -> str:
    return f"{float(rate / GIGA):.6g} GB/s"


def _label(design: ClusterDesign, cluster: Cluster) -> str:
    different = design.distinct
    if len(different) > len(cluster.questions()):
        ends = f"{different[0].label()} to {different[-1].label()}"
        return f"{counted(len(design.recipes), 'rail')}: {ends}"
    order = ", rail by rail" if design.by_rail and cluster.wiring == ACROSS else ""
    return design.name or " and ".join(recipe.label() for recipe in different) + order


def _handles(design: ClusterDesign) -> str:
    """The handle of the first recipe, and whether there are more."""
    first, *others = [handle(repr(recipe)) for recipe in design.distinct] or ["-"]
    return f"{first} ..." if others else first


def _table(designs: Sequence[ClusterDesign], found: ScoredCluster) -> Table:
    return table(
        designs,
        "steps; algbw GB/s:.6g; of bound:.1%; *times:time | handle || label",
        found,
        spread={"times": tuple(f"{format_size(size)} >=" for size in found.messages)},
        cut=True,
        algbw_GB_s=lambda design: design.algbw_Bps / GIGA,
        of_bound=lambda design, found: design.algbw_Bps / found.bound.algbw_Bps,
        times=_times,
        handle=_handles,
        label=lambda design, found: _label(design, found.cluster),
    )


def bottleneck_text(design: ClusterDesign, cluster: Cluster) -> str:
    """Which links the data of how many GPUs have to pass, in words."""
    half, network = design.narrowest, design.network
    cut = half.bottleneck
    if cut is None:
        return "-" if half.cut is None else "no cut: switches out of balance"
    links = design.bottleneck_links()
    dimension = np.asarray(network.dimension)
    by_dimension = (
        (_PLACES[kind], links[(dimension == kind)[links]]) for kind in (OUTER, CARD, INNER)
    )
    places = [
        _place(cluster, network, where, mine.tolist()) for where, mine in by_dimension if len(mine)
    ]
    rate = _rate(cut.capacity * design.unit_Bps)
    of = f"{cut.weight} of {network.num_hosts} shards"
    return f"{of} pass {rate}: {' and '.join(places)}"


_PLACES = {
    OUTER: "the NICs of",
    CARD: "the links between GPUs and NICs of",
    INNER: "the links inside",
}


def _place(cluster: Cluster, network: Network, where: str, links: list[int]) -> str:
    """Links by the servers that they lead out of, or into if these are fewer."""
    ends = [_servers(network, nodes[links].tolist()) for nodes in (network.tail, network.head)]
    out, into = ([name for name in cluster.names if name in servers] for servers in ends)
    if out == into:
        return f"{where} {_runs(cluster, out)}"
    if out and (not into or len(out) <= len(into)):
        return f"out of {where} {_runs(cluster, out)}"
    return f"into {where} {_runs(cluster, into)}"


def _servers(network: Network, nodes: Sequence[int]) -> set[str]:
    matches = (_NODE.fullmatch(network.name(node)) for node in nodes)
    return {match[1] for match in matches if match is not None}


def _runs(cluster: Cluster, servers: Sequence[str]) -> str:
    """Names of servers, those in a row by the first and the last of them."""
    at = [cluster.names.index(server) for server in servers]
    runs = [
        [number for _, number in run] for _, run in groupby(enumerate(at), lambda p: p[1] - p[0])
    ]
    names = cluster.names
    return ", ".join(
        names[run[0]] if len(run) == 1 else f"{names[run[0]]}-{names[run[-1]]}" for run in runs
    )


# What was read of a network in somebody else's file.


def reading_facts(reading: Reading) -> Iterator[tuple[str, str]]:
    """Counts, widths by link, and what the file does not say."""
    counts = f"{reading.format}: {reading.hosts} hosts of {counted(reading.nodes, 'node')}"
    if reading.nodes_kept < reading.nodes:
        counts += (
            f", {reading.nodes_joined} that join them, {reading.nodes_kept} where those between "
            "two others are wires"
        )
    yield "read", counts
    yield "links", "; ".join(f"{link} {widths}" for link, widths in reading.links.items())
    for guess in reading.guesses:
        yield "but", guess
