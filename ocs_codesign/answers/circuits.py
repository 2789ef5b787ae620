"""Circuits that change as answers: how many there are, and what comes up when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Table, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.circuits import Change, CircuitProgram
    from ocs_codesign.verification.programs import ProgramVerdict

_SHOWN_CHANGES = 16


def circuits_json(program: CircuitProgram, verdict: ProgramVerdict) -> dict[str, Any]:
    """The circuits of a program in JSON."""
    from ocs_codesign.formats.designs.record import change_fields

    return {
        "planes": program.num_planes,
        "circuits": program.topology.num_links,
        "configurations": verdict.num_configurations,
        "pauses": len(program.pauses),
        "changes": [change_fields(change) for change in verdict.changes],
    }


def circuits_facts(program: CircuitProgram, verdict: ProgramVerdict) -> list[tuple[str, object]]:
    """Rows of a table of facts."""
    changed = sum(change.num_circuits for change in verdict.changes if change.step > 1)
    stays = verdict.num_configurations == 1
    return [
        ("configurations", verdict.num_configurations),
        ("circuits changed", "none" if stays else f"{changed:,} in all"),
        ("the fabric stops", None if stays else counted(len(program.pauses), "time")),
    ]


def changes_sections(changes: Sequence[Change]) -> Iterator[Section]:
    """What comes up when, after the first configuration; the rest of a long list is left out."""
    later = [change for change in changes if change.step > 1]
    if not later:
        return
    rows = [
        (str(change.step), str(change.plane), str(change.num_circuits), _prepared(change))
        for change in later[:_SHOWN_CHANGES]
    ]
    if len(later) > _SHOWN_CHANGES:
        rows.append(("...", "", "", f"{len(later) - _SHOWN_CHANGES} more changes"))
    yield ""
    yield Table(("step", "plane", "circuits up", "prepared"), rows, numbers=3)


def _prepared(change: Change) -> str:
    if not change.dark_steps:
        return "while the fabric stops"
    return f"while others send, in {counted(change.dark_steps, 'dark step')}"
