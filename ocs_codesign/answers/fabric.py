"""Answers of ``fabric``: what a fabric file describes and costs, and the known switch profiles."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.cluster import description, description_json
from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.fabric.servers import cluster_of
from ocs_codesign.quantities import format_bandwidth, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.fabric.description import Fabric, SwitchProfile
    from ocs_codesign.fabric.facts import FabricFacts, PlaneFacts
    from ocs_codesign.fabric.prices import PriceList

ESTIMATES = "list estimates, to compare fabrics; without fibres, racks, power and work"


def check_json(file: str, fabric: Fabric, facts: FabricFacts, prices: PriceList) -> dict[str, Any]:
    """What a fabric FILE describes, what is amiss and what it costs, as JSON."""
    model = fabric.cost_model
    items = [
        {
            "item": item.name,
            "count": item.count,
            "price_usd": item.price_usd,
            "total_usd": item.total_usd,
        }
        for item in prices.items
    ]
    return {
        "file": file,
        "ok": not facts.findings,
        "findings": list(facts.findings),
        "name": fabric.name,
        "hosts": len(fabric.hosts),
        "spare_hosts": fabric.num_spare_hosts,
        "planes": [_plane_json(plane) for plane in facts.planes],
        "switches": len(fabric.switches),
        "ports_per_host": fabric.num_ports_per_host,
        "alpha_s": model.alpha_s,
        "node_bandwidth_Bps": model.node_bandwidth_Bps,
        "port_bandwidth_Bps": facts.port_bandwidth_Bps,
        "loss_budget_db": fabric.loss_budget_db,
        "price": {
            "basis": ESTIMATES,
            "items": items,
            "total_usd": prices.total_usd,
            "whole_switches_usd": prices.whole_switches_usd,
            "unpriced": list(prices.unpriced),
        },
        **({} if fabric.servers is None else {"cluster": description_json(cluster_of(fabric))}),
    }


def _plane_json(plane: PlaneFacts) -> dict[str, Any]:
    one, full = plane.dead_time_s
    return {
        "plane": plane.plane,
        "port_model": plane.port_model.value,
        "profiles": list(plane.profiles),
        "switches": plane.num_switches,
        "usable_ports": plane.num_usable,
        "spare_ports": plane.num_spares,
        "direct_loss_db": plane.loss_db,
        "three_stage_loss_db": plane.three_stage_loss_db,
        "dead_time_of_one_circuit_s": float(one),
        "dead_time_of_all_circuits_s": float(full),
    }


def check_sections(fabric: Fabric, facts: FabricFacts, prices: PriceList) -> Iterator[Section]:
    """The same to read."""
    model, ports, hosts = fabric.cost_model, fabric.num_ports_per_host, fabric.hosts
    spare = f", of which {fabric.num_spare_hosts} spare" if fabric.num_spare_hosts else ""
    names = hosts if len(hosts) <= 3 else (hosts[0], hosts[1], "...", hosts[-1])
    yield Facts(
        ("fabric", fabric.name),
        ("hosts", f"{len(hosts)}{spare}"),
        ("host names", ", ".join(names)),
        ("switches", f"{len(fabric.switches)} in {fabric.num_planes} planes"),
        ("alpha", format_time(model.alpha_s)),
        ("bandwidth of a host", format_bandwidth(model.node_bandwidth_Bps)),
        ("of a port", f"{format_bandwidth(facts.port_bandwidth_Bps)}, {ports} ports a host"),
        ("loss budget", f"{fabric.loss_budget_db:g} dB"),
    )
    yield ""
    if fabric.servers is not None:
        yield description(cluster_of(fabric))
        yield ""
    yield _plane_table(facts, fabric.loss_budget_db)
    yield ""
    rows = [
        (str(item.count), _usd(item.price_usd), _usd(item.total_usd), item.name)
        for item in prices.items
    ]
    rows.append(("", "", _usd(prices.total_usd), "in all, of switches the ports described"))
    rows.append(("", "", _usd(prices.whole_switches_usd), "in all, with whole switches"))
    yield Table(("count", "each", "USD", "item"), rows, numbers=3, texts=1)
    missing = f"; no price is public of: {', '.join(prices.unpriced)}" if prices.unpriced else ""
    yield f"Prices are {ESTIMATES}{missing}."
    yield ""
    yield from (f"Amiss: {finding}." for finding in facts.findings)
    if not facts.findings:
        yield "The description is valid, and every plane has ports and light enough."


def _plane_table(facts: FabricFacts, budget_db: float) -> Table:
    """A row for planes in a row that differ in nothing."""
    rows = []
    for _, run in groupby(facts.planes, key=lambda plane: replace(plane, plane=0)):
        first, *others = run
        dead_time = dict.fromkeys(format_time(float(time)) for time in first.dead_time_s)
        rows.append(
            (
                f"{first.plane}-{others[-1].plane}" if others else str(first.plane),
                str(first.num_switches),
                str(first.num_usable),
                str(first.num_spares),
                _loss(first.loss_db, budget_db),
                _loss(first.three_stage_loss_db, budget_db),
                " to ".join(dead_time),
                first.port_model.value,
                ", ".join(first.profiles),
            )
        )
    columns = ("plane", "switches", "usable ports", "spare", "direct dB", "three stages dB")
    return Table((*columns, "dead time", "port model", "profile"), rows, numbers=7, texts=1)


def _loss(loss_db: float | None, budget_db: float) -> str:
    if loss_db is None:
        return "-"
    return f"{loss_db:g}" + (" over" if loss_db > budget_db else "")


def _usd(price: float | None) -> str:
    return "-" if price is None else f"{price:,.10g}"


def profiles_json(profiles: Sequence[SwitchProfile]) -> dict[str, Any]:
    """Switch profiles, every number with its source, as JSON."""
    return {
        "profiles": [
            {
                "name": profile.name,
                "technology": profile.technology,
                "port_model": profile.port_model.value,
                "ports": profile.num_ports,
                "insertion_loss_db": profile.insertion_loss_db,
                "delta_s": float(profile.change.fixed_s),
                "delta_per_circuit_s": float(profile.change.per_circuit_s),
                "price_usd_per_port": profile.price_usd_per_port,
                "power_w": profile.power_w,
                "sources": {source.field: source.text for source in profile.sources},
            }
            for profile in profiles
        ]
    }


def profiles_sections(profiles: Sequence[SwitchProfile]) -> Iterator[Section]:
    """The same to read: a table of profiles and one of sources."""
    rows = []
    for profile in profiles:
        change = profile.change
        per_circuit = f"{format_time(float(change.per_circuit_s))} a circuit"
        rows.append(
            (
                str(profile.num_ports),
                f"{profile.insertion_loss_db:g}",
                format_time(float(change.fixed_s)) if change.fixed_s else per_circuit,
                _usd(profile.price_usd_per_port),
                "-" if profile.power_w is None else f"{profile.power_w:g}",
                profile.port_model.value,
                profile.name,
                profile.technology,
            )
        )
    columns = ("ports", "loss dB", "dead time", "USD/port", "W", "port model", "profile")
    yield Table((*columns, "technology"), rows, numbers=5, texts=1)
    yield ""
    sources = [
        (profile.name, source.field, source.text)
        for profile in profiles
        for source in profile.sources
    ]
    yield Table(("profile", "number", "source"), sources, texts=1)
