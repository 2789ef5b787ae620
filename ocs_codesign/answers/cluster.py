"""A cluster and what joins its NICs, as an answer: rates, steps, the bottleneck in words."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.answers.frontier import MAX_DOMINATED_ROWS, more_dominated
from ocs_codesign.answers.optimum import links_json, links_text
from ocs_codesign.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.graphs.handle import handle
from ocs_codesign.networks.cards import ACROSS, NIC
from ocs_codesign.networks.servers import CARD, INNER, OUTER
from ocs_codesign.quantities import format_size, format_time
from ocs_codesign.search.clusters.description import MESH, NETWORK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.network import Network
    from ocs_codesign.search.clusters.description import Card, Cluster
    from ocs_codesign.search.clusters.scoring import ClusterDesign, ScoredCluster

GIGA = 10**9
_NODE = re.compile(r"(.*)\.(?:gpu[0-9]+|nic[0-9]+(?:\.[rt]x)?|switch[0-9]*(?:\.down)?)")


def cluster_json(found: ScoredCluster) -> dict[str, Any]:
    """The JSON form; bandwidths are in bytes a second, fractions are texts."""
    rows = {
        "candidates": found.candidates,
        "dominated": found.dominated,
        "baselines": found.baselines,
    }
    questions = found.cluster.questions()
    return {
        "cluster": description_json(found.cluster),
        "collective": found.collective.name,
        "recipes_of": [{"nodes": one.num_nodes, "degree": one.degree} for one in questions],
        "alpha_s": _number(found.cluster.alpha_s),
        "message_bytes": [float(size) for size in found.messages],
        **{what: [_design_json(one, found) for one in group] for what, group in rows.items()},
        "cut_off": [[*map(repr, dict.fromkeys(recipes))] for recipes in found.cut_off],
        "best": found.candidates.index(found.best),
    }


def description_json(cluster: Cluster) -> dict[str, Any]:
    """The JSON form of what a cluster is."""
    inner = cluster.inner
    return {
        "name": cluster.name,
        "servers": list(cluster.names),
        "gpus_per_server": inner.num_gpus,
        "inner": {
            "kind": inner.kind,
            "bandwidth_Bps": _number(inner.bandwidth_Bps),
            "network": inner.text or None,
        },
        "nics": [
            {
                "ports": card.num_ports,
                "port_bandwidth_Bps": _number(card.port_Bps),
                "gpus": list(card.gpus),
                "host_bandwidth_Bps": _number(card.host_Bps),
            }
            for card in cluster.cards
        ],
        "wiring": cluster.wiring,
        "relay": cluster.relay,
        "bidirectional": cluster.bidirectional,
        "lost": list(cluster.lost),
        "slow": [{"what": text, "bandwidth_Bps": _number(rate)} for text, rate in cluster.slow],
    }


def _number(rate: Fraction | None) -> float | None:
    return None if rate is None else float(rate)


def _design_json(design: ClusterDesign, found: ScoredCluster) -> dict[str, Any]:
    half = design.narrowest
    cut = half.cut
    value = {
        "label": _label(design, found.cluster),
        "recipes": [repr(recipe) for recipe in design.distinct],
        "recipe_of_rail": [repr(recipe) for recipe in design.recipes],
        "nodes": "by rail" if design.by_rail else "by server",
        "steps": design.steps,
        "algbw_Bps": str(design.algbw_Bps),
        "algbw_GBps": float(design.algbw_Bps / GIGA),
        "of_bound": str(design.algbw_Bps / found.bound.algbw_Bps),
        "unit": design.network.unit,
        "inv_rates": [str(each.inv_rate) for each in design.halves],
        "bottleneck": bottleneck_text(design, found.cluster),
        "cut": None if cut is None else {"weight": cut.weight, "capacity": cut.capacity},
        "links_to_upgrade": links_json(design.network, design.bottleneck_links().tolist()),
    }
    if found.messages:
        value["least_time_s"] = [float(time) for time in _times(design, found)]
    return value


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
    sizes = tuple(f"{format_size(size)} >=" for size in found.messages)
    columns = ("steps", "algbw GB/s", "of bound", *sizes)
    rows = [
        (
            str(design.steps),
            f"{float(design.algbw_Bps / GIGA):.6g}",
            f"{float(design.algbw_Bps / found.bound.algbw_Bps):.1%}",
            *map(format_time, _times(design, found)),
            _handles(design),
            _label(design, found.cluster),
        )
        for design in designs
    ]
    return Table((*columns, "handle", "label"), rows, len(columns), texts=1, cut=True)


def bottleneck_text(design: ClusterDesign, cluster: Cluster) -> str:
    """Which links the data of how many GPUs have to pass, in words."""
    half, network = design.narrowest, design.network
    cut = half.cut
    if cut is None:
        return "-"
    links = design.bottleneck_links()
    dimension = np.asarray(network.dimension)
    by_dimension = (
        (_PLACES[kind], links[(dimension == kind)[links]]) for kind in (OUTER, CARD, INNER)
    )
    places = [
        _place(cluster, network, where, mine.tolist()) for where, mine in by_dimension if len(mine)
    ]
    rate = _rate(cut.capacity * design.unit_Bps)
    exact = "" if cut.inv_rate == half.inv_rate else "; switches out of balance do no better than "
    exact += f"algbw {_rate(half.algbw * design.unit_Bps)}" if exact else ""
    of = f"{cut.weight} of {network.num_hosts} shards"
    return f"{of} pass {rate}: {' and '.join(places)}{exact}"


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
