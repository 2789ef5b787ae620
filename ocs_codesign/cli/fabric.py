"""``ocs-codesign fabric``: check a fabric file, and see profiles, schema and an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit, show_facts, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.fabric import (
        Fabric,
        FabricFacts,
        PlaneFacts,
        PriceItem,
        PriceList,
        SwitchProfile,
    )

ESTIMATES = "list estimates, to compare fabrics; without fibres, racks, power and work"


@click.group(short_help="Describe and check a fabric of optical circuit switches.")
def fabric() -> None:
    """Describe hosts, planes and optical circuit switches in a file, and check it."""


@fabric.command("check")
@click.argument("file")
@json_option
def check_command(file: str, json_path: str | None) -> None:
    """Check a fabric FILE (YAML or JSON) and say what it describes.

    Exit code 1 if a plane has too few ports for the working hosts, or a circuit through one switch
    loses more light than the budget allows.
    """
    check_outputs(json_path)
    from ocs_codesign.fabric import fabric_facts, fabric_price
    from ocs_codesign.formats.fabric.fabric_files import load_fabric

    described = load_fabric(file)
    facts, prices = fabric_facts(described), fabric_price(described)
    emit(
        _check_json(file, described, facts, prices),
        json_path,
        lambda console: _show_check(console, described, facts, prices),
    )
    if facts.findings:
        raise click.exceptions.Exit(1)


@fabric.command("profiles")
@click.argument("name", required=False)
@json_option
def profiles_command(name: str | None, json_path: str | None) -> None:
    """List the known switch profiles with their sources, or the one of a NAME."""
    check_outputs(json_path)
    from ocs_codesign.fabric import PROFILES, profile_named

    chosen = list(PROFILES.values()) if name is None else [profile_named(name)]
    value = {"profiles": [_profile_json(profile) for profile in chosen]}
    emit(value, json_path, lambda console: _show_profiles(console, chosen))


@fabric.command("schema")
@click.option("--workload", is_flag=True, help="That of the workload files of 'select' instead.")
def schema_command(workload: bool) -> None:
    """Print the JSON Schema of fabric files."""
    from ocs_codesign.formats.fabric.fabric_files import fabric_json_schema
    from ocs_codesign.formats.workload import workload_json_schema

    emit(workload_json_schema() if workload else fabric_json_schema(), "-", lambda _: None)


@fabric.command("example")
@click.option("--hosts", type=int, default=64, show_default=True, help="Hosts.")
@click.option("--planes", type=int, default=4, show_default=True, help="Planes.")
@click.option("--profile", default="polatis-384", show_default=True, help="Switch profile.")
def example_command(hosts: int, planes: int, profile: str) -> None:
    """Print a commented fabric file to begin with."""
    from ocs_codesign.formats.fabric.example import example_text

    click.echo(example_text(hosts, planes, profile), nl=False)


def _check_json(
    file: str, described: Fabric, facts: FabricFacts, prices: PriceList
) -> dict[str, Any]:
    model = described.cost_model
    return {
        "file": file,
        "ok": not facts.findings,
        "findings": list(facts.findings),
        "name": described.name,
        "hosts": len(described.hosts),
        "spare_hosts": described.num_spare_hosts,
        "planes": [_plane_json(plane) for plane in facts.planes],
        "switches": len(described.switches),
        "ports_per_host": described.num_ports_per_host,
        "alpha_s": model.alpha_s,
        "node_bandwidth_Bps": model.node_bandwidth_Bps,
        "port_bandwidth_Bps": facts.port_bandwidth_Bps,
        "loss_budget_db": described.loss_budget_db,
        "price": {
            "basis": ESTIMATES,
            "items": [_item_json(item) for item in prices.items],
            "total_usd": prices.total_usd,
            "unpriced": list(prices.unpriced),
        },
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


def _item_json(item: PriceItem) -> dict[str, Any]:
    return {
        "item": item.name,
        "count": item.count,
        "price_usd": item.price_usd,
        "total_usd": item.total_usd,
    }


def _profile_json(profile: SwitchProfile) -> dict[str, Any]:
    return {
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


def _show_check(console: Console, described: Fabric, facts: FabricFacts, prices: PriceList) -> None:
    from ocs_codesign.quantities import format_bandwidth, format_time

    model = described.cost_model
    ports = described.num_ports_per_host
    spare = described.num_spare_hosts
    show_facts(
        console,
        [
            ("fabric", described.name),
            ("hosts", f"{len(described.hosts)}" + (f", of which {spare} spare" if spare else "")),
            ("host names", _ends(described.hosts)),
            ("switches", f"{len(described.switches)} in {described.num_planes} planes"),
            ("alpha", format_time(model.alpha_s)),
            ("bandwidth of a host", format_bandwidth(model.node_bandwidth_Bps)),
            ("of a port", f"{format_bandwidth(facts.port_bandwidth_Bps)}, {ports} ports a host"),
            ("loss budget", f"{described.loss_budget_db:g} dB"),
        ],
    )
    console.print()
    _show_planes(console, facts, described.loss_budget_db)
    console.print()
    _show_prices(console, prices)
    console.print()
    for finding in facts.findings:
        console.print(f"Amiss: {finding}.")
    if not facts.findings:
        console.print("The description is valid, and every plane has ports and light enough.")


def _ends(names: tuple[str, ...]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]}, ..., {names[-1]}"


def _show_planes(console: Console, facts: FabricFacts, budget_db: float) -> None:
    """A row for planes in a row that differ in nothing."""
    from dataclasses import replace
    from itertools import groupby

    rows = []
    for _, run in groupby(facts.planes, key=lambda plane: replace(plane, plane=0)):
        planes = list(run)
        first, last = planes[0], planes[-1]
        rows.append(
            [
                str(first.plane) if first is last else f"{first.plane}-{last.plane}",
                str(first.num_switches),
                str(first.num_usable),
                str(first.num_spares),
                _loss(first.loss_db, budget_db),
                _loss(first.three_stage_loss_db, budget_db),
                _dead_time(first),
                first.port_model.value,
                ", ".join(first.profiles),
            ]
        )
    columns = ["plane", "switches", "usable ports", "spare", "direct dB", "three stages dB"]
    show_table(console, [*columns, "dead time", "port model", "profile"], rows, 7, texts=1)


def _loss(loss_db: float | None, budget_db: float) -> str:
    if loss_db is None:
        return "-"
    return f"{loss_db:g}" + (" over" if loss_db > budget_db else "")


def _dead_time(plane: PlaneFacts) -> str:
    from ocs_codesign.quantities import format_time

    one, full = (format_time(float(time)) for time in plane.dead_time_s)
    return one if one == full else f"{one} to {full}"


def _show_prices(console: Console, prices: PriceList) -> None:
    rows = [
        [str(item.count), _usd(item.price_usd), _usd(item.total_usd), item.name]
        for item in prices.items
    ]
    rows.append(["", "", _usd(prices.total_usd), "in all"])
    show_table(console, ["count", "each", "USD", "item"], rows, 3, texts=1)
    missing = f"; no price is public of: {', '.join(prices.unpriced)}" if prices.unpriced else ""
    console.print(f"Prices are {ESTIMATES}{missing}.")


def _usd(price: float | None) -> str:
    return "-" if price is None else f"{price:,.10g}"


def _show_profiles(console: Console, profiles: list[SwitchProfile]) -> None:
    from ocs_codesign.quantities import format_time

    rows = []
    for profile in profiles:
        change = profile.change
        per_circuit = f"{format_time(float(change.per_circuit_s))} a circuit"
        rows.append(
            [
                str(profile.num_ports),
                f"{profile.insertion_loss_db:g}",
                format_time(float(change.fixed_s)) if change.fixed_s else per_circuit,
                _usd(profile.price_usd_per_port),
                "-" if profile.power_w is None else f"{profile.power_w:g}",
                profile.port_model.value,
                profile.name,
                profile.technology,
            ]
        )
    columns = ["ports", "loss dB", "dead time", "USD/port", "W", "port model", "profile"]
    show_table(console, [*columns, "technology"], rows, 5, texts=1)
    console.print()
    sources = [
        [profile.name, source.field, source.text]
        for profile in profiles
        for source in profile.sources
    ]
    show_table(console, ["profile", "number", "source"], sources, texts=1)
