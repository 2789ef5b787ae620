"""Frontier: the mutually undominated candidates of one question; exact comparison, no tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.cost import Cost, undominated
from ocs_codesign.design import Candidate
from ocs_codesign.search.literature import literature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import CostModel
    from ocs_codesign.question import Question


@final
@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Answer to a question: which topologies of this size trade steps against t_b best?

    ``candidates`` do not dominate each other and have pairwise different costs, ascending in steps;
    ``dominated`` are all others that were scored, the best first.
    """

    question: Question
    collective: Collective
    candidates: tuple[Candidate, ...]
    dominated: tuple[Candidate, ...]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.question.num_nodes

    @property
    def degree(self) -> int:
        """d, the ports of a node."""
        return self.question.degree

    @property
    def published(self) -> tuple[Candidate, ...]:
        """The designs of the literature that have this size, on the frontier or dominated."""
        recipes = literature(self.num_nodes, self.degree)
        scored = {c.recipe: c for c in (*self.candidates, *self.dominated)}
        return tuple(scored[recipe] for recipe in recipes if recipe in scored)

    @property
    def bound(self) -> Cost:
        """Least steps and least t_b of any topology of this size; no one need meet both."""
        return bound(self.num_nodes, self.degree, self.collective)

    def best(self, model: CostModel, message_bytes: float) -> Candidate:
        """The candidate with the least time for a message, on a tie the one with fewer steps.

        >>> from ocs_codesign.cost import CostModel
        >>> from ocs_codesign.search.frontier import frontier
        >>> answer = frontier(12, 4)
        >>> answer.best(CostModel(1e-5, 1e10), 1e6).cost.steps
        2
        """
        return min(
            self.candidates,
            key=lambda candidate: (
                candidate.cost.time_s(model, message_bytes),
                candidate.cost.steps,
            ),
        )

    def dominator(self, cost: Cost) -> Candidate | None:
        """The candidate with the fewest steps that is no worse in both, None if there is none."""
        for candidate in self.candidates:
            if candidate.cost == cost or candidate.cost.dominates(cost):
                return candidate
        return None


def pareto(
    candidates: Iterable[Candidate], collective: Collective | None = None
) -> tuple[list[Candidate], list[Candidate]]:
    """Undominated candidates, one a cost, and the rest, both ascending in (steps, t_b).

    By the cost of the collective, or of that for which they were scored. Of equal costs the first
    measured one stays.
    """

    def cost(candidate: Candidate) -> Cost:
        return candidate.cost_of(collective) if collective else candidate.cost

    ordered = sorted(candidates, key=lambda c: (cost(c).steps, cost(c).t_b, not c.measured))
    kept = undominated(ordered, cost)
    pending = iter([*kept, None])
    expected = next(pending)
    rest = []
    for candidate in ordered:  # in the order of ``kept``, so one pass tells the two apart
        if candidate is expected:
            expected = next(pending)
        else:
            rest.append(candidate)
    return kept, rest
