"""What ``select --message`` answers: the same designs ranked for messages of several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Recipes, Table
from ocs_codesign.answers.select import fabric_facts_of, handle_and_label, selection_json
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.fabric.selection.ranking import Selection


def selections_json(selections: Sequence[Selection], top: int) -> dict[str, Any]:
    """The selections for several message sizes as JSON; ``best`` has none if nothing fits."""
    times = [_times_s(selection) for selection in selections]
    return {
        "message_bytes": [_size(selection) for selection in selections],
        "best": [min(time, key=lambda name: time[name]) for time in times if time],
        "selections": [selection_json(selection, top) for selection in selections],
    }


def selections_sections(selections: Sequence[Selection], top: int) -> Iterator[Section]:
    """The time of every design, a column a size, and the best of each size."""
    first, times = selections[0], [_times_s(selection) for selection in selections]
    yield Facts(*fabric_facts_of(first), ("collectives", first.workload.name))
    if not first.ranked:
        yield "No design fits the fabric."
        return
    best = [min(time.values()) for time in times]

    def ratios(name: str) -> list[Fraction]:
        """How far a design is from the best of every size, the nearest first."""
        return sorted(time[name] / least for time, least in zip(times, best, strict=True))

    names = sorted(times[0], key=ratios)
    sizes = [format_size(_size(selection)) for selection in selections]
    plans = {plan.name: plan for plan in first.ranked}
    shown = [plans[name] for name in names[:top]]
    rows = [
        (*(format_time(time[plan.name]) for time in times), *handle_and_label(plan))
        for plan in shown
    ]
    columns = (*(f"at {size}" for size in sizes), "handle", "label")
    yield ""
    yield Table(columns, rows, len(sizes), texts=1, cut=True)
    if len(names) > top:
        yield f"{len(names) - top} more: --top shows them."
    yield ""
    for size, time, least in zip(sizes, times, best, strict=True):
        name = next(name for name in names if time[name] == least)
        yield f"Best for {size}: {name} in {format_time(least)}, with its circuits up."
    yield Recipes.of(option.recipe for plan in shown for option in plan.options)


def _times_s(selection: Selection) -> dict[str, Fraction]:
    """The time of every design whose circuits are up."""
    return {plan.name: plan.alpha_s + plan.bandwidth_s for plan in selection.ranked}


def _size(selection: Selection) -> float:
    return float(selection.workload.parts[0].job.message_bytes)
