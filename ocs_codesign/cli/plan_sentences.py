"""What the plan of a trace means, in sentences: whether switching pays, and from which delta."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from ocs_codesign.reconfigure import InsideBound, TracePlan


def sentences(plan: TracePlan) -> list[str]:
    """Whether switching pays and from which delta; what it could gain inside a collective."""
    return [_pays_sentence(plan), *(_inside_sentence(one) for one in plan.inside)]


def _pays_sentence(plan: TracePlan) -> str:
    if plan.static is None:
        return "No single design can serve all jobs: switching is needed, whatever it costs."
    delta, design = delta_text(plan), plan.options[int(plan.static.choice[0])].name
    if not plan.pays:
        first = f"Switching between jobs does not pay at delta {delta}: hold {design}."
    else:
        times = f"{time_text(plan.offline.total)} against {time_text(plan.static.total)}"
        best = f"{times} on {design}, the best single design"
        first = f"Switching between jobs pays at delta {delta}: {best}."
    return " ".join([first, *_ranges(plan)])


def _ranges(plan: TracePlan) -> Iterator[str]:
    """For which dead times it pays, as far as they were searched."""
    pieces = plan.break_even.pieces
    searched = ""
    if not plan.break_even.complete:
        end = pieces[-1].end
        until = "on" if end is None else f"to {delta_at(plan, end)}"
        searched = f", as far as it was searched (from {delta_at(plan, pieces[0].begin)} {until})"
    if plan.paying:
        spans = " and ".join(_range_text(plan, one.begin, one.end) for one in plan.paying)
        yield f"It pays for delta {spans}{searched}."
    else:
        yield f"It does not at any other delta either{searched}."
    if plan.ceasing is not None:
        still, no_more = (delta_at(plan, at) for at in (plan.ceasing.begin, plan.ceasing.end))
        yield f"It still pays at {still}, but not at {no_more}."


def _inside_sentence(one: InsideBound) -> str:
    halves = " (reduce-scatter, then allgather)" * (one.collective == Collective.ALLREDUCE)
    where = f"{one.collective.name}{halves} on {one.option}, bandwidth-optimal in {one.steps}"
    if not one.saved_steps:
        return f"Inside one {where} steps, switching cannot gain: no circuits save a step."
    verdict = "which could pay" if one.can_gain else "so it cannot gain"
    price = f"{time_text(one.saved_s)}, and a switch costs {time_text(one.least_dead_s)} at least"
    most = f"switching can save {_steps(one.saved_steps)} at most"
    return f"Inside one {where} steps, {most} ({price}), {verdict}."


def _steps(number: int) -> str:
    return f"{number} step{'s' * (number != 1)}"


def _range_text(plan: TracePlan, begin: Fraction, end: Fraction | None) -> str:
    if end is None:
        return f"above {delta_at(plan, begin)}" if begin else "of any length"
    until = delta_at(plan, end)
    return f"between {delta_at(plan, begin)} and {until}" if begin else f"below {until}"


def delta_at(plan: TracePlan, factor: Fraction | None) -> str:
    """A break-even factor as a dead time."""
    cost = plan.reconfiguration
    if factor is None:
        return "any"
    if not cost.per_circuit_s:
        return time_text(factor * plan.factor_s)
    return _with_circuits(factor * cost.fixed_s, factor * cost.per_circuit_s)


def delta_text(plan: TracePlan) -> str:
    """The dead time that was planned with."""
    cost = plan.reconfiguration
    return _with_circuits(cost.fixed_s, cost.per_circuit_s)


def _with_circuits(fixed_s: Fraction, per_circuit_s: Fraction) -> str:
    if not per_circuit_s:
        return time_text(fixed_s)
    each = f"{time_text(per_circuit_s)} a circuit"
    return f"{time_text(fixed_s)} + {each}" if fixed_s else each


def time_text(seconds: Fraction) -> str:
    """A time in the unit that suits it."""
    return format_time(float(seconds))
