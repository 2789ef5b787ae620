"""A schedule whose circuits change as an answer: its record, its circuits and how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.circuits import changes_sections, circuits_facts, circuits_json
from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import cost_text
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.reconfigure.program.designs import ProgramDesign
    from ocs_codesign.reconfigure.program.program_times import ProgramTime


def sequence_json(design: ProgramDesign, time: ProgramTime | None, out: str) -> dict[str, Any]:
    """The JSON form of a program that was saved in a directory, with its time if that is known."""
    from ocs_codesign.formats.designs.record import program_record

    parts = ("total_s", "steps_s", "transmission_s", "dead_s")
    return {
        **program_record(design),
        **circuits_json(design.program, design.verdict),
        "time": None if time is None else {part: float(getattr(time, part)) for part in parts},
        "out": out,
    }


def sequence_sections(
    design: ProgramDesign, time: ProgramTime | None, out: str
) -> Iterator[Section]:
    """What a program is and costs, and what comes up when."""
    schedule = design.schedule
    yield Facts(
        ("recipes", ", ".join(map(repr, design.recipes)) or None),
        ("nodes, planes", f"{schedule.topology.num_nodes}, {design.program.num_planes}"),
        ("collective", schedule.collective.name),
        ("cost", f"{cost_text(design.cost)}, verified"),
        ("bound", _bound_text(design)),
        *circuits_facts(design.program, design.verdict),
        ("schedule", f"{design.maker}, {schedule.num_sends:,} sends"),
        ("chunks a shard", schedule.num_chunks),
        ("time", None if time is None else _time_text(time)),
        ("saved in", out),
    )
    yield from changes_sections(design.verdict.changes)


def _bound_text(design: ProgramDesign) -> str | None:
    """How far an all-to-all may be above the best over the same steps."""
    if design.bound is None:
        return None
    if design.cost.t_b == design.bound:
        return "no schedule over the same steps is better"
    gap = float(design.cost.t_b / design.bound - 1)
    return f"{float(design.bound):.6g}, at most {gap:.1g} below"


def _time_text(time: ProgramTime) -> str:
    total, *parts = (
        format_time(float(part))
        for part in (time.total_s, time.steps_s, time.transmission_s, time.dead_s)
    )
    names = ("for steps", "for transmission", "waiting for circuits")
    return f"{total}: " + ", ".join(map(" ".join, zip(parts, names, strict=True)))
