"""A checked bundle as an answer: what the light makes of it, and everything that is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.answers.texts import cost_json, cost_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.bundle.check.bundle import BundleVerdict
    from ocs_codesign.bundle.check.designs import ReplayedSchedule
    from ocs_codesign.bundle.check.observed import Comparison
    from ocs_codesign.bundle.check.wiring import Port


def verify_bundle_json(verdict: BundleVerdict) -> dict[str, Any]:
    """All that was found of a bundle."""
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
                    for schedule in _schedules(verdict, one.name)
                },
            }
            for one in verdict.configurations
        ],
        "observed": [_comparison_json(comparison) for comparison in verdict.observed],
        "num_findings": verdict.num_findings,
        "findings": [asdict(finding) for finding in verdict.findings],
    }


def verify_bundle_sections(verdict: BundleVerdict) -> Iterator[Section]:
    """The same where people read it."""
    if verdict.ok:
        yield "Valid: the light makes what the bundle claims."
    else:
        plural = "s" * (verdict.num_findings != 1)
        yield f"Not valid: {verdict.num_findings:,} finding{plural}."
        yield from (f"  {finding}" for finding in verdict.findings)
        left = verdict.num_findings - len(verdict.findings)
        if left:
            yield f"  and {left:,} more, see --limit"
    yield Facts(("bundle", verdict.name))
    rows = []
    for one in verdict.configurations:
        replayed = _schedules(verdict, one.name)
        schedules = "; ".join(f"{each.collective}: {cost_text(each.cost)}" for each in replayed)
        counts = (one.topology.num_nodes, one.topology.num_links, len(one.circuits))
        rows.append((*map(str, counts), one.name, schedules))
    if rows:
        columns = ("nodes", "links", "circuits", "configuration", "schedules replayed")
        yield Table(columns, rows, numbers=3, texts=1)
    for comparison in verdict.observed:
        wrong = len(comparison.differences)
        text = "as observed" if not wrong else f"{wrong} differences from what was observed"
        yield f"{comparison.configuration}: {comparison.num_links} links, {text}"


def _schedules(verdict: BundleVerdict, configuration: str) -> list[ReplayedSchedule]:
    return [one for one in verdict.schedules if one.configuration == configuration]


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "configuration": comparison.configuration,
        "links": comparison.num_links,
        "num_differences": len(comparison.differences),
        "differences": [
            {
                "kind": difference.kind,
                "line": difference.line,
                "local": _port_json(difference.local),
                "expected": _port_json(difference.expected),
                "observed": _port_json(difference.observed),
            }
            for difference in comparison.differences
        ],
    }


def _port_json(port: Port | None) -> dict[str, str] | None:
    return None if port is None else {"host": port.device, "port": port.name}
