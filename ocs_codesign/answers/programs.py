"""Programs and plans of others as answers: what they do, what it costs, or what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import cost_json, cost_text, loads_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.programs.export import CheckedFile
    from ocs_codesign.formats.programs.imports import Imported


def imported_json(found: Imported) -> dict[str, Any]:
    """What a file of others holds, and what was found of it."""
    schedule, verdict = found.schedule, found.verdict
    known = found.witness is None and schedule is not None and verdict is not None
    return {
        "ok": found.witness is None,
        "format": found.format_name,
        "collective": found.collective.name,
        "ranks": found.num_ranks,
        "operations": found.num_operations or None,
        "nodes": schedule.topology.num_nodes if known and schedule else None,
        **(cost_json(verdict.cost) if known and verdict else {}),
        "max_load_per_step": [str(load) for load in verdict.max_loads] if known and verdict else [],
        "witness": found.witness,
    }


def imported_sections(found: Imported) -> Iterator[Section]:
    """The same where people read it."""
    if found.witness is not None or found.schedule is None or found.verdict is None:
        yield f"Not valid: {found.witness}."
        return
    if found.num_operations:
        yield "Valid: every operation was interpreted, and what they send was replayed."
    else:
        yield "Valid: every send was replayed."
    yield Facts(
        ("format", found.format_name),
        ("ranks", found.num_ranks),
        ("collective", found.collective.text),
        ("cost", cost_text(found.verdict.cost)),
        ("operations", f"{found.num_operations:,}" if found.num_operations else None),
        ("sends", f"{found.schedule.num_sends:,}"),
    )
    yield ""
    unit = "pieces" if found.collective.name == "alltoall" else "shards"
    yield loads_table(found.verdict.max_loads, unit)


def checked_json(found: CheckedFile, format_name: str) -> dict[str, Any]:
    """What files without data hold, and what was found of them."""
    return {
        "ok": found.witness is None,
        "format": format_name,
        **{name.replace(" ", "_"): value for name, value in found.facts},
        "limit": found.limit,
        "witness": found.witness,
    }


def checked_sections(found: CheckedFile, format_name: str) -> Iterator[Section]:
    """The same where people read it."""
    if found.witness is not None:
        yield f"Not valid: {found.witness}."
        return
    yield f"Valid as far as it goes: {found.limit}."
    yield Facts(("format", format_name), *found.facts)
