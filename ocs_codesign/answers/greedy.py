"""Schedules of greedy synthesis as answers: ticks, what none can beat, and how they were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.schedulers.greedy.synthesis import Synthesis


def synthesis_json(made: Synthesis) -> dict[str, Any]:
    """What a greedy schedule takes and how that is known."""
    return {
        "ticks": made.ticks,
        "bound": made.bound,
        "optimal": made.is_optimal,
        "seed": made.seed,
        "latency_model": made.model,
        "tick_s": str(made.timed.tick_s) if made.has_unit else None,
        "found_by": made.how,
        "restart": made.restart,
    }


def synthesis_sections(made: Synthesis, seconds: float) -> Iterator[Section]:
    """What a greedy schedule takes, for people."""
    total = f" of {made.timed.tick_s} s, {format_time(made.timed.total_s)}"
    proof = "proven the least" if made.is_optimal else f"no schedule takes less than {made.bound}"
    yield Facts(
        ("collective", made.schedule.collective.text),
        ("ticks", f"{made.ticks}{total if made.has_unit else ''}, {made.model} latency"),
        ("bound", proof),
        ("found by", f"{made.how}, restart {made.restart}, seed {made.seed}"),
        ("sends", f"{made.timed.schedule.num_sends:,}, verified"),
        ("CPU time", f"{seconds:.2f} s"),
    )
