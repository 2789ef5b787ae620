"""What a bundle says of its rehearsal, compared with its links and with itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ocs_codesign.fabric.bundle.check.files import BundleFiles


REHEARSAL = "rehearsal.json"
_KEYS = {
    *("format", "version", "ok", "configuration", "message_bytes", "slower", "neighbours"),
    *("change", "collectives", "circuits", "mpi", "faults", "left_behind"),
}
_ROWS = {
    "collectives": {"name", "results_exact", "seconds", "simulated_seconds"},
    "circuits": {"id", "loaded_bytes", "counted_bytes"},
    "faults": {"component", "named", "repaired", "sentence", "waiting"},
}


def check_rehearsal(files: BundleFiles, ways: Mapping[str, list[str]]) -> None:
    """Findings of ``rehearsal.json``; ``ways`` are the cross-connects of links, joined by ``;``."""
    for rule in _rules(files.json(REHEARSAL), ways):
        files.wrong(REHEARSAL, rule)


def _rules(value: Any, ways: Mapping[str, list[str]]) -> Iterator[str]:
    if not isinstance(value, dict) or set(value) != _KEYS:
        yield f"it must be an object of {', '.join(sorted(_KEYS))}"
        return
    form = (value["format"], value["version"])
    if form != ("ocs-codesign rehearsal", 1):
        yield f"format and version are {shown(form)}: only version 1 is known"
    for name, keys in _ROWS.items():
        rows = value[name]
        if not isinstance(rows, list) or any(not _is_row(row, keys) for row in rows):
            yield f"{name} must be a list of objects of {', '.join(sorted(keys))}"
            return
    wanted = ways.get(str(value["configuration"]))
    if wanted is None:
        yield f"configuration is {shown(value['configuration'])}: the bundle has none of that name"
    elif not any(row["repaired"] for row in value["faults"]):
        # After a repair circuits are elsewhere.
        for number, (row, way) in enumerate(zip(value["circuits"], wanted, strict=False)):
            if row["id"] != way.replace(";", " "):
                yield f"circuits[{number}] is {shown(row['id'])}: link {number} goes by {way}"
        if len(wanted) != len(value["circuits"]):
            yield f"it has {len(value['circuits'])} circuits: {len(wanted)} links are up"
    counted = all(row["loaded_bytes"] == row["counted_bytes"] for row in value["circuits"])
    exact = all(row["results_exact"] is True for row in value["collectives"])
    if value["ok"] is not False and not (
        value["ok"] is True and counted and exact and value["neighbours"] == "valid"
    ):
        yield f"ok is {shown(value['ok'])}: what it lists does not hold"


def _is_row(row: Any, keys: set[str]) -> bool:
    return isinstance(row, dict) and set(row) == keys
