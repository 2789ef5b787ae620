"""The section of a report on what came of a rehearsal."""

from __future__ import annotations

from typing import Any

from ocs_codesign.core.quantities import format_size
from ocs_codesign.faces.notebook import FileLink, facts_html, table_html


def as_loaded(circuits: list[dict[str, Any]]) -> str:
    """On how many links both ends counted what was loaded on them."""
    equal = sum(row["loaded_bytes"] == row["counted_bytes"] for row in circuits)
    return f"on {equal} of {len(circuits)} links, by counters of both ends"


def collective_rows(collectives: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Name, whether results were exact, seconds if they can be told, and those of the clock."""
    return [
        (
            *(each["name"], "yes" if each["results_exact"] else "no"),
            "-" if each["seconds"] is None else f"{each['seconds']:.3f}",
            f"{each['simulated_seconds']:.3f}",
        )
        for each in collectives
    ]


def rehearsal_section(rehearsal: dict[str, Any]) -> str:
    """What ran and failed on the emulated fabric, beside what the bundle says."""
    rows: list[tuple[str, object]] = [
        ("held", "all of it" if rehearsal["ok"] else "not all of it"),
        ("configuration", rehearsal["configuration"]),
        ("neighbours", rehearsal["neighbours"]),
        ("bytes as loaded", as_loaded(rehearsal["circuits"])),
        ("every link", FileLink("rehearsal.json")),
    ]
    return facts_html(rows) + _collectives(rehearsal) + _change(rehearsal) + _faults(rehearsal)


def _collectives(rehearsal: dict[str, Any]) -> str:
    columns = ("collective", "results exact", "seconds", "simulated seconds")
    rows = collective_rows(rehearsal["collectives"])
    note = (
        f"Messages of {format_size(rehearsal['message_bytes'])} on a clock that is "
        f"{rehearsal['slower']:,} times slower; no seconds where the machine was too busy."
    )
    return table_html(columns, rows, numbers=columns[2:], note=note, label="Collectives rehearsed")


def _change(rehearsal: dict[str, Any]) -> str:
    change = rehearsal["change"]
    if change is None:
        return ""
    lost = ", ".join(f"{size:,} on {name}" for name, size in change["lost_bytes"].items())
    rows = [
        ("changed under traffic to", change["to"]),
        ("stages", len(change["ended_by_stage"])),
        ("streams", f"{change['num_streams']}, {'drained' if change['is_drained'] else 'cut'}"),
        ("bytes", f"{change['sent_bytes']:,} sent, {change['received_bytes']:,} received"),
        ("bytes lost on streams that were cut", lost or "none"),
        ("commands", f"{change['commands']}, a second time {change['commands_again']}"),
    ]
    return facts_html(rows)


def _faults(rehearsal: dict[str, Any]) -> str:
    words = {None: "not asked for", True: "yes", False: "no"}
    rows = [
        (
            *(each["component"], " or ".join(each["named"]) or "nothing"),
            f"{words[each['repaired']]}{': ' if each['sentence'] else ''}{each['sentence'] or ''}",
        )
        for each in rehearsal["faults"]
    ]
    columns = ("what failed", "what was named", "repaired")
    return table_html(columns, rows, label="Faults rehearsed") if rows else ""
