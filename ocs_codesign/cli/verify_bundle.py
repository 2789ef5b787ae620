"""``ocs-codesign verify-bundle``: do cables and cross-connects make what the bundle claims?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.texts import cost_json, cost_text
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit, show_facts, show_table
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.bundle.check.bundle import BundleVerdict
    from ocs_codesign.bundle.check.observed import Comparison, Difference
    from ocs_codesign.bundle.check.wiring import Port

NEGATIVE = 1


@click.command("verify-bundle", short_help="Check a bundle from its cables and circuits up.")
@click.argument("directory", metavar="DIR")
@click.option(
    "--observed",
    metavar="NEIGHBOURS.csv",
    help="Neighbours that were heard: local_host,local_port,remote_host,remote_port.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="Findings to list."
)
@json_option
def verify_bundle(directory: str, observed: str | None, limit: int, json_path: str | None) -> int:
    """Follow the light through the cables and cross-connects of the bundle in DIR.

    The topology that it makes is compared with all graphs and tables, the schedules are replayed
    on it, and the plans are carried out port by port. A row of observed neighbours says that a
    host heard on a port (p0 is that of plane 0; on two-sided switches p0-a and p0-b) what a remote
    host sent from its own; they must be those of one of the configurations. Exit code 1 if
    anything is wrong, with all that was found; 2 if DIR is not a bundle.
    """
    check_outputs(json_path)
    from ocs_codesign.bundle.check.bundle import check_bundle

    with progress("Reading files") as on:
        verdict = check_bundle(
            directory,
            observed,
            limit=limit,
            on_phase=lambda phase: on.tell_phase(phase, 0, 0),
        )
    emit(_answer(verdict), json_path, lambda console: _show(console, verdict))
    return 0 if verdict.ok else NEGATIVE


def _answer(verdict: BundleVerdict) -> dict[str, Any]:
    return {
        "ok": verdict.ok,
        "name": verdict.name,
        "configurations": [
            {
                "name": one.name,
                "nodes": one.topology.num_nodes,
                "links": one.topology.num_links,
                "degree": one.topology.degree,
                "circuits": len(one.circuits),
                "schedules": {
                    schedule.collective: cost_json(schedule.cost)
                    for schedule in verdict.schedules
                    if schedule.configuration == one.name
                },
            }
            for one in verdict.configurations
        ],
        "observed": [_comparison_json(one) for one in verdict.observed],
        "num_findings": verdict.num_findings,
        "findings": [
            {"file": one.file, "place": one.place, "rule": one.rule} for one in verdict.findings
        ],
    }


def _comparison_json(one: Comparison) -> dict[str, Any]:
    return {
        "configuration": one.configuration,
        "links": one.num_links,
        "num_differences": len(one.differences),
        "differences": [_difference_json(each) for each in one.differences],
    }


def _difference_json(one: Difference) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "line": one.line,
        "local": _port_json(one.local),
        "expected": _port_json(one.expected),
        "observed": _port_json(one.observed),
    }


def _port_json(port: Port | None) -> dict[str, str] | None:
    return None if port is None else {"host": port.device, "port": port.name}


def _show(console: Console, verdict: BundleVerdict) -> None:
    if verdict.ok:
        console.print("Valid: the light makes what the bundle claims.")
    else:
        plural = "s" * (verdict.num_findings != 1)
        console.print(f"Not valid: {verdict.num_findings:,} finding{plural}.")
        for finding in verdict.findings:
            console.print(f"  {finding}", soft_wrap=True)
        left = verdict.num_findings - len(verdict.findings)
        if left:
            console.print(f"  and {left:,} more, see --limit")
    show_facts(console, [("bundle", verdict.name)])
    rows = []
    for one in verdict.configurations:
        schedules = [
            f"{each.collective}: {cost_text(each.cost)}"
            for each in verdict.schedules
            if each.configuration == one.name
        ]
        topology = one.topology
        counts = (topology.num_nodes, topology.num_links, len(one.circuits))
        rows.append((*map(str, counts), one.name, "; ".join(schedules)))
    if rows:
        columns = ("nodes", "links", "circuits", "configuration", "schedules replayed")
        show_table(console, columns, rows, numbers=3, texts=1)
    for comparison in verdict.observed:
        wrong = len(comparison.differences)
        text = "as observed" if not wrong else f"{wrong} differences from what was observed"
        console.print(f"{comparison.configuration}: {comparison.num_links} links, {text}")
