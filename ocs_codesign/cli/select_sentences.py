"""What a selection means: why the winner wins, what comes second, and when that would change."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.answers.plan.sections import time_text
from ocs_codesign.fabric.selection import PlanKind
from ocs_codesign.fabric.workload import AllowedChanges

if TYPE_CHECKING:
    from ocs_codesign.fabric.selection import RankedPlan, Selection

MAX_NAME = 64
"""Longer names of plans are left to the ranking: a sentence has their number."""
_PARTS = {
    "bandwidth_s": "the time of the bytes",
    "alpha_s": "the time of the steps",
    "reconfiguration_s": "the wait for circuits",
}


def sentences(selection: Selection) -> list[str]:
    """Three sentences on the winner; one if nothing fits."""
    if not selection.ranked:
        return ["No design fits the fabric."]
    winner, *others = selection.ranked
    second = next((one for one in others if one.total_s > winner.total_s), None)
    ties = sum(one.total_s == winner.total_s for one in others)
    return [
        _upper(_why(selection, winner, second)),
        _upper(_second(selection, winner, second, ties)),
        _upper(_limits(selection, winner)),
    ]


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _called(selection: Selection, plan: RankedPlan) -> str:
    """The name of a plan, or its number in the ranking if that is a mouthful."""
    if len(plan.name) <= MAX_NAME:
        return plan.name
    return f"plan {next(at for at, one in enumerate(selection.ranked, 1) if one is plan)}"


def _why(selection: Selection, winner: RankedPlan, second: RankedPlan | None) -> str:
    name, total = _called(selection, winner), time_text(winner.total_s)
    took = f"{name} takes {total} for {selection.workload.name}"
    if second is None:
        return f"{took}, and no other plan takes another time."
    gains = {name: getattr(second, name) - getattr(winner, name) for name in _PARTS}
    most = max(gains, key=lambda name: gains[name])
    here, there = (time_text(getattr(plan, most)) for plan in (winner, second))
    why = f"{took} and wins by {_PARTS[most]}, {here} against {there} of the next"
    part = _decisive(selection, winner, second, most)
    return f"{why}, mostly in {part}." if part and most != "reconfiguration_s" else f"{why}."


def _decisive(selection: Selection, winner: RankedPlan, second: RankedPlan, most: str) -> str:
    """The part of the workload in which the winner gains most, if there are several."""
    names = [part.name for part in selection.workload.parts]
    if len(names) == 1:
        return ""

    def spent(plan: RankedPlan, part: int) -> Fraction:
        return sum((getattr(one, most) for one in plan.times if one.part == part), Fraction(0))

    return names[max(range(len(names)), key=lambda at: spent(second, at) - spent(winner, at))]


def _second(selection: Selection, winner: RankedPlan, second: RankedPlan | None, ties: int) -> str:
    tied = f"{ties} other plan{'s tie' if ties > 1 else ' ties'} with it"
    if second is None:
        return f"{tied}." if ties else "There is no second plan."
    slower = float(second.total_s / winner.total_s - 1) if winner.total_s else float("inf")
    name = _called(selection, second)
    text = f"{name} with {time_text(second.total_s)}, {slower:.2%} more"
    return f"{tied}; the next is {text}." if ties else f"Second is {text}."


def _limits(selection: Selection, winner: RankedPlan) -> str:
    """What most of the time goes to, and at which message sizes another plan would win."""
    clauses = []
    if winner.total_s:
        most = max(_PARTS, key=lambda name: getattr(winner, name))
        share = float(getattr(winner, most) / winner.total_s)
        clauses.append(f"{share:.1%} of it is {_PARTS[most]}")
    clauses += _crossings(selection, winner)
    switching = _switching_clause(selection, winner)
    text = ", and ".join(clauses)
    return f"{text}; {switching}." if switching else f"{text}."


def _crossings(selection: Selection, winner: RankedPlan) -> list[str]:
    """With messages scaled, the plans as they are: the nearest sizes at which another wins."""
    lower: list[tuple[Fraction, str]] = []
    upper: list[tuple[Fraction, str]] = []
    for other in selection.ranked[1:]:
        fixed = other.alpha_s + other.reconfiguration_s
        fixed -= winner.alpha_s + winner.reconfiguration_s
        bytes_s = winner.bandwidth_s - other.bandwidth_s
        if fixed < 0 and bytes_s < 0:
            lower.append((fixed / bytes_s, _called(selection, other)))
        elif fixed > 0 and bytes_s > 0:
            upper.append((fixed / bytes_s, _called(selection, other)))
    clauses = []
    if lower:
        scale, name = max(lower)
        clauses.append(f"{name} would win with messages below {float(scale):.3g} times these")
    if upper:
        scale, name = min(upper)
        clauses.append(f"{name} would win with messages above {float(scale):.3g} times these")
    return clauses or ["no ranked plan would overtake it if all messages were scaled alike"]


def _switching_clause(selection: Selection, winner: RankedPlan) -> str:
    """What changes of circuits do, where they are allowed."""
    if selection.workload.allowed is AllowedChanges.NONE:
        return ""
    if winner.kind is not PlanKind.SINGLE:
        single = next((p for p in selection.ranked if p.kind is PlanKind.SINGLE), None)
        if single is None:
            return ""
        saved = time_text(single.total_s - winner.total_s)
        changes, other = _changes(winner.num_changes), _called(selection, single)
        return f"its {changes} of circuits save {saved} over {other}"
    inside = selection.inside
    if inside is not None and not inside.can_gain:
        return (
            "changing circuits does not pay, also inside an all-to-all, where "
            f"{inside.num_configurations} configurations save at most "
            f"{time_text(max(inside.saved_s, Fraction(0)))} and take {time_text(inside.dead_s)}"
        )
    return "changing circuits does not pay"


def _changes(number: int) -> str:
    return f"{number} change{'s' * (number != 1)}"
