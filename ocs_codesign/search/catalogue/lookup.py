"""Look-ups: the stored frontier of a question, or of the nearest larger one that has designs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import undominated
from ocs_codesign.question import Question

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.search.catalogue.store import Catalogue

_TRIES = 256


@final
@dataclass(frozen=True, slots=True)
class LookedUp:
    """Undominated stored designs for a question, ascending in steps.

    ``question`` is the one that was answered: with more nodes than asked for when no design of the
    exact size is stored (``exact`` is then False).
    """

    asked: Question
    question: Question
    collective: Collective
    entries: tuple[Entry, ...]

    @property
    def exact(self) -> bool:
        """Whether the designs have exactly the size that was asked for."""
        return self.asked == self.question


def find(
    catalogue: Catalogue,
    question: Question,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    max_steps: int | None = None,
    max_t_b: Fraction | None = None,
) -> LookedUp:
    """The stored frontier of a question within limits; of the nearest larger N if there is none.

    A bidirectional question is answered apart; a general one may have bidirectional answers too.
    Nothing is computed. Raises ValueError if nothing stored comes near the question.
    """
    collective = Collective.parse_gathering(collective)
    answered, entries = nearest(catalogue, question)
    kept = [
        entry
        for entry in stored_frontier(entries, collective)
        if (max_steps is None or entry.cost(collective).steps <= max_steps)
        and (max_t_b is None or entry.cost(collective).t_b <= max_t_b)
    ]
    return LookedUp(question, answered, collective, tuple(kept))


def nearest(catalogue: Catalogue, question: Question) -> tuple[Question, tuple[Entry, ...]]:
    """All that is stored for a question, or for the nearest larger N that has designs.

    Raises ValueError if nothing stored comes near the question.
    """
    for nodes in range(question.num_nodes, question.num_nodes + _TRIES):
        candidate = Question(nodes, question.degree, question.bidirectional)
        entries = catalogue.entries(candidate)
        if entries:
            return candidate, entries
    raise ValueError(
        f"the catalogue has no design for {question.num_nodes} nodes of degree {question.degree}"
        + (" with links in both directions" if question.bidirectional else "")
        + f", nor for up to {_TRIES - 1} nodes more"
    )


def stored_frontier(entries: tuple[Entry, ...], collective: Collective) -> list[Entry]:
    """Entries whose cost no other one dominates, one a cost, the first stored of equals."""
    measured_first = sorted(entries, key=lambda entry: not entry.measured)
    return undominated(measured_first, lambda entry: entry.cost(collective))
