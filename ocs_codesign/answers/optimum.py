"""The best that trees can do on a network, as an answer: rates, what proves them, losses."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.aggregation import profile_json, profile_text
from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.answers.texts import t_b_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.aggregation import AggregationProfile
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.comparison.in_network import InNetworkRates
    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.forest.optimum import Optimum
    from ocs_codesign.schedulers.forest.sensitivity import RateLoss

_SHOWN_LINKS = 8
_SHOWN_LOSSES = 12


@final
@dataclass(frozen=True, slots=True)
class NetworkOptimum:
    """What collectives can do on a network called ``name``.

    ``helpful`` are links of which one alone raises the allgather's rate; ``allreduce`` is None
    (what nothing exceeds) where the network is too large for its program, ``losses`` and
    ``spare``, the bandwidth of every link alone that the allgather can do without, where they were
    not asked for. ``in_network`` are the rates of allreduces whose switches add up as
    ``aggregation`` says, None if it was not given.
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

    @property
    def halves_algbw(self) -> Fraction:
        """What a reduce-scatter and then an allgather do in all."""
        return 1 / (1 / self.allgather.algbw + 1 / self.reduce_scatter.algbw)


def optimum_json(found: NetworkOptimum) -> dict[str, Any]:
    """The JSON form; ``side`` are the nodes of the cut, fractions are texts."""
    gather, scatter = found.allgather, found.reduce_scatter
    scale, trees = gather.trees
    answer = {
        "network": found.name,
        "hosts": found.network.num_hosts,
        "switches": found.network.num_nodes - found.network.num_hosts,
        "links": found.network.num_links,
        "unit": found.network.unit,
        "inv_rate": str(gather.inv_rate),
        "algbw": str(gather.algbw),
        "algbw_float": float(gather.algbw),
        "t_b": str(gather.t_b),
        "attained": gather.is_attained,
        "cut": _cut_json(gather),
        "cut_attained": gather.cut is not None and gather.cut.inv_rate == gather.inv_rate,
        "links_to_upgrade": links_json(found.network, gather.leaving().tolist()),
        "single_links_that_help": list(found.helpful),
        "U": str(scale),
        "k": trees,
        "reduce_scatter": {
            "inv_rate": str(scatter.inv_rate),
            "algbw": str(scatter.algbw),
            "attained": scatter.is_attained,
            "cut": _cut_json(scatter),
        },
        "allreduce": {
            "rate": None if found.allreduce is None else str(found.allreduce),
            "halves_rate": str(found.halves_algbw),
        },
    }
    if found.aggregation is not None and found.in_network is not None:
        answer["in_network"] = _in_network_json(found.aggregation, found.in_network)
    if found.losses is not None:
        answer["losses"] = [
            {"lost": loss.what, "rate_left": str(loss.rate_left)} for loss in found.losses
        ]
    if found.spare is not None:
        links = links_json(found.network, list(range(found.network.num_links)))
        answer["slack"] = [
            {**link, "spare": str(spare)} for link, spare in zip(links, found.spare, strict=True)
        ]
    return answer


def _in_network_json(profile: AggregationProfile, rates: InNetworkRates) -> dict[str, Any]:
    names = ("forwarding", "adding", "pooled", "trees")
    values = {name: getattr(rates, name) for name in names}
    told = {name: None if value is None else str(value) for name, value in values.items()}
    return {"aggregation": profile_json(profile), **told}


def _cut_json(found: Optimum) -> dict[str, Any] | None:
    cut = found.cut
    if cut is None:
        return None
    inside = cut.side.nonzero()[0].tolist()
    hosts = sum(node < found.network.num_hosts for node in inside)
    return {"hosts": hosts, "weight": cut.weight, "capacity": cut.capacity, "side": inside}


def links_json(network: Network, links: list[int]) -> list[dict[str, Any]]:
    """The JSON form of links of a network."""
    return [
        {
            "link": link,
            "tail": network.name(int(network.tail[link])),
            "head": network.name(int(network.head[link])),
            "bandwidth": int(network.bandwidth[link]),
        }
        for link in links
    ]


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
        most = found.algbw * found.inv_rate / found.least_inv_rate
        kind += f", nothing exceeds {_with_unit(most, found.network.unit)}"
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
    cut = found.cut
    if cut is None:
        return None
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


def _helpful_text(found: NetworkOptimum) -> str:
    if not found.helpful:
        return "none: other cuts are as narrow"
    return links_text(found.network, list(found.helpful)) or ""
