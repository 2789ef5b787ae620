"""Comparison: all outcomes of a contest, who is best where, and the book of the best plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.book import Book, Page
from ocs_codesign.comparison.play import plan_of
from ocs_codesign.shown import Tabular

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.comparison.contest import Contest
    from ocs_codesign.comparison.play import Outcome


@final
@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Tabular):
    """The outcomes of all entrants of a contest, in the order in which they were listed.

    Nothing is faster than ``floor_s`` of an empty message and of every byte, the larger of both.
    Raises ValueError if nobody has a time.
    """

    contest: Contest
    outcomes: tuple[Outcome, ...]
    floor_s: tuple[Fraction, Fraction]

    def __repr__(self) -> str:
        contest = self.contest
        return (
            f"Comparison({contest.collective.name} on {contest.name}: {len(self.played)} entrants, "
            f"{len(contest.sizes_bytes)} sizes)"
        )

    def __post_init__(self) -> None:
        if not self.played:
            reasons = "; ".join(f"{each.entrant.label}: {each.refusal}" for each in self.outcomes)
            raise ValueError(f"nothing makes this {self.contest.collective.name}: {reasons}")

    @property
    def least_s(self) -> tuple[float, ...]:
        """Times that nothing beats, one a size."""
        latency, byte = self.floor_s
        return tuple(float(max(latency, byte * size)) for size in self.contest.sizes_bytes)

    @property
    def played(self) -> tuple[Outcome, ...]:
        """Those that have times."""
        return tuple(each for each in self.outcomes if each.refusal is None)

    def best(
        self, position: int, *, classic: bool | None = None, plans: bool = False
    ) -> Outcome | None:
        """The fastest at the size at this position, of all or of those that are (no) classics.

        Of equals the one of fewest transfers, then the first. With ``plans``, of those alone that
        make one.
        """
        chosen = [
            each
            for each in self.played
            if (classic is None or each.entrant.is_classic == classic)
            and (each.entrant.has_plan or not plans)
        ]
        return min(
            chosen, key=lambda each: (each.times_s[position], each.num_transfers), default=None
        )

    def ranges(self, *, plans: bool = False) -> list[tuple[int, Outcome]]:
        """From which size on who is best, of all or of those with plans; the first from 0."""
        found: list[tuple[int, Outcome]] = []
        for position, size in enumerate(self.contest.sizes_bytes):
            best = self.best(position, plans=plans)
            if best is not None and (not found or found[-1][1] is not best):
                found.append((size if found else 0, best))
        return found

    def busbw_Bps(self, outcome: Outcome, position: int) -> float:  # noqa: N802 - a unit
        """Bus bandwidth as nccl-tests reckons it, in bytes a second."""
        size = self.contest.sizes_bytes[position]
        return float(self.contest.busbw_factor() * size) / outcome.times_s[position]


def book_of(comparison: Comparison) -> Book:
    """The plans of the best, made once more, for what makes them gives the same each time.

    What switches add up has no plan for ranks: there it is the best of the others.
    """
    contest = comparison.contest
    pages = []
    for from_bytes, best in comparison.ranges(plans=True):
        plan = plan_of(contest, best.entrant)
        if plan is None:
            raise RuntimeError(f"{best.entrant.label} has no plan any more")
        pages.append(Page(from_bytes, best.entrant.label, plan))
    return Book(contest.network, contest.unit_Bps, contest.collective, tuple(pages))
