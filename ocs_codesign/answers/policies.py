"""Policies of communication as an answer: the period under each, and what no policy is below."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_time
from ocs_codesign.workload.policies import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.policies import PolicyOutcome


@final
@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """A job under several policies."""

    name: str
    text: str
    graph: JobGraph
    bound_s: Fraction
    outcomes: tuple[PolicyOutcome, ...]
    asked: tuple[str, ...] = ()

    @property
    def stuck(self) -> list[str]:
        """Policies under which ranks would wait for each other for ever."""
        found = {outcome.name for outcome in self.outcomes}
        return [name for name in self.asked if name not in found]

    @property
    def best(self) -> PolicyOutcome:
        """The first of those with the least period."""
        return min(self.outcomes, key=lambda outcome: outcome.steady.period_s)


def policies_json(answer: PolicyComparison) -> dict[str, Any]:
    """The JSON form: every period, exact as text too."""
    return {
        "job": answer.name,
        "num_nodes": answer.graph.num_nodes,
        "num_ranks": int(answer.graph.ranks.sum()),
        "bound_s": answer.bound_s,
        "best": answer.best.name,
        "stuck": answer.stuck,
        "policies": [
            {
                "policy": outcome.name,
                "setting": outcome.setting,
                "period_s": outcome.steady.period_s,
                "period_exact_s": str(outcome.steady.period_s),
                "bound_s": outcome.bound_s,
                "is_steady": outcome.steady.is_steady,
                "exposed_s": outcome.steady.exposed_s,
                "source": POLICIES[outcome.name].source,
            }
            for outcome in answer.outcomes
        ],
    }


def policies_sections(answer: PolicyComparison) -> Iterator[Section]:
    """A table, the shortest period first."""
    best = answer.best
    yield Facts(
        ("job", f"{answer.name}, {answer.text}"),
        ("ranks", int(answer.graph.ranks.sum())),
        ("bound", f"{format_time(answer.bound_s)}: none of them is below"),
    )
    yield ""
    rows = []
    for outcome in sorted(answer.outcomes, key=lambda one: one.steady.period_s):
        period = outcome.steady.period_s
        over = period / answer.bound_s - 1 if answer.bound_s else Fraction(0)
        about = "" if outcome.steady.is_steady else "about "
        rows.append(
            (
                f"{about}{format_time(period)}",
                f"+{float(100 * over):.1f} %",
                format_time(outcome.steady.exposed_s),
                outcome.name,
                outcome.setting,
                POLICIES[outcome.name].text,
            )
        )
    columns = ("period", "over bound", "exposed", "policy", "setting", "what it does")
    yield Table(columns, rows, numbers=3, texts=2)
    if answer.stuck:
        yield f"\nRanks would wait for each other for ever under {', '.join(answer.stuck)}."
    slowest = max(answer.outcomes, key=lambda one: one.steady.period_s)
    if slowest.steady.period_s > best.steady.period_s:
        saved = 1 - best.steady.period_s / slowest.steady.period_s
        yield f"\n{best.name} takes {float(100 * saved):.1f} % less time than {slowest.name}."
