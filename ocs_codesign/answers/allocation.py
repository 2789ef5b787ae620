"""Budgets of bandwidth as an answer: what every dimension gets, and what an even split takes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.workload.budgets import Allocation, BudgetProblem, Objective
    from ocs_codesign.workload.whole_budgets import WholeAllocation

GB = 10**9


@final
@dataclass(frozen=True, slots=True)
class BudgetAnswer:
    """A problem, its best bandwidths, those in whole units if asked for, and what there is today.

    ``present_Bps`` are the bandwidths that it is compared with: a network's own, or an even split.
    """

    name: str
    dimensions: tuple[str, ...]
    problem: BudgetProblem
    objective: Objective
    best: Allocation
    unit_Bps: Fraction | None  # noqa: N815 - the unit keeps its case
    whole: WholeAllocation | None
    present: str
    present_Bps: tuple[Fraction, ...] | None  # noqa: N815


def allocation_json(answer: BudgetAnswer) -> dict[str, Any]:
    """The JSON form."""
    problem, whole = answer.problem, answer.whole
    found: dict[str, Any] = {
        "name": answer.name,
        "objective": answer.objective.value,
        "dimensions": list(answer.dimensions),
        "bandwidths_Bps": list(answer.best.bandwidths_Bps),
        "time_s": answer.best.time_s,
        "compute_s": problem.compute_s,
        "cost": answer.best.cost,
        "value": answer.best.value,
        "whole": None,
        "present": None,
    }
    if whole is not None:
        found["whole"] = {
            "unit_Bps": answer.unit_Bps,
            "units": list(whole.units),
            "time_s": whole.time_s,
            "cost": whole.cost,
            "value": whole.value,
            "is_best": whole.is_best,
        }
    if answer.present_Bps is not None:
        found["present"] = {
            "what": answer.present,
            "bandwidths_Bps": list(answer.present_Bps),
            "time_s": problem.time_s(answer.present_Bps),
            "cost": problem.cost(answer.present_Bps),
        }
    return found


def allocation_sections(answer: BudgetAnswer) -> Iterator[Section]:
    """A row a dimension, and a line for every split."""
    problem, best, whole = answer.problem, answer.best, answer.whole
    yield Facts(
        ("budget of", answer.name),
        ("least", answer.objective.value.replace("-", " x ")),
        ("computation", format_time(problem.compute_s)),
    )
    yield ""
    columns = ["GB/s", *(["units"] if whole else []), *([answer.present] if answer.present else [])]
    rows = []
    for dim, name in enumerate(answer.dimensions):
        sent = sum((row[dim] for row in problem.sent), Fraction(0))
        cells = [f"{best.bandwidths_Bps[dim] / GB:.6g}"]
        cells += [str(whole.units[dim])] if whole else []
        if answer.present_Bps is not None:
            cells.append(f"{float(answer.present_Bps[dim]) / GB:.6g}")
        rows.append((*cells, format_size(sent), name))
    columns += ["sends", "dimension"]
    yield Table(tuple(columns), rows, numbers=len(columns) - 1, texts=1)
    yield ""
    yield Table(("time", "cost", "split"), list(_splits(answer)), numbers=2, texts=1)


def _splits(answer: BudgetAnswer) -> Iterator[tuple[str, str, str]]:
    problem, whole = answer.problem, answer.whole
    yield format_time(answer.best.time_s), f"{answer.best.cost:.7g}", "best"
    if whole is not None:
        how = "the best of all" if whole.is_best else "beside the best, and improved"
        told = f"whole units of {float(answer.unit_Bps or 0) / GB:g} GB/s: {how}"
        yield format_time(whole.time_s), f"{float(whole.cost):.7g}", told
    if answer.present_Bps is not None:
        rates: Sequence[Fraction] = answer.present_Bps
        yield (
            format_time(problem.time_s(rates)),
            f"{float(problem.cost(rates)):.7g}",
            answer.present,
        )
