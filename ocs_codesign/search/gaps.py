"""Gaps: how far what is stored is above what counting allows, at every number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.core.bounds import bound, fewest_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.search.catalogue.store import Catalogue


NUM_OFFSETS = 5
"""Numbers of steps that gaps are told of: the fewest there can be, and up to four more."""


@final
@dataclass(frozen=True, slots=True)
class Gap:
    """How far the stored designs of a question are from the bound, for allgather.

    ``excess[k]`` is the share by which the least t_b within k steps more than the ``fewest`` is
    above what counting allows there, None if no stored design needs so few steps.
    """

    question: Question
    fewest: int
    excess: tuple[Fraction | None, ...]

    @property
    def size(self) -> Fraction:
        """One number for the gap: the mean of all but the first, nothing stored counting as 1.

        The fewest steps are left out, for at most sizes all that have them are far from the bound.
        """
        later = self.excess[1:]
        shares = [Fraction(1) if over is None else min(over, Fraction(1)) for over in later]
        return sum(shares, Fraction(0)) / len(shares)


def gap_between(question: Question, entries: Iterable[Entry]) -> Gap:
    """The gap of a question between some designs of it and the bound.

    >>> from ocs_codesign.schedules.design import Question
    >>> gap_between(Question(8, 2), []).excess
    (None, None, None, None, None)
    """
    size = (question.num_nodes, question.degree)
    least = bound(*size).t_b
    fewest = fewest_steps(*size, bidirectional=question.bidirectional)
    costs = [entry.allgather for entry in entries]
    excess = []
    for steps in range(fewest, fewest + NUM_OFFSETS):
        within = [cost.t_b for cost in costs if cost.steps <= steps]
        excess.append(min(within) / least - 1 if within else None)
    return Gap(question, fewest, tuple(excess))


@final
@dataclass(frozen=True, slots=True)
class GapLine:
    """How far t_b may be above the bound, a share, at ``offset`` steps above the fewest.

    ValueError unless 0 <= offset < NUM_OFFSETS and the share is not negative.
    """

    offset: int
    most: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.offset < NUM_OFFSETS:
            raise ValueError(
                f"{self.offset} steps above the fewest: gaps are told of 0 to {NUM_OFFSETS - 1}"
            )
        if self.most < 0:
            raise ValueError(f"an excess of {self.most}: nothing is below the bound")


def is_above(gap: Gap, lines: Iterable[GapLine]) -> bool:
    """Whether a gap is above any of some lines; a gap without a design of so few steps is.

    >>> from ocs_codesign.schedules.design import Question
    >>> gap = Gap(Question(9, 2), 3, (None, Fraction(1, 5), Fraction(1, 25)))
    >>> [is_above(gap, [GapLine(at, Fraction(1, 25))]) for at in range(3)]
    [True, True, False]
    """
    excess = ((gap.excess[line.offset], line.most) for line in lines)
    return any(over is None or over > most for over, most in excess)


def gaps_of(catalogue: Catalogue, questions: Iterable[Question]) -> list[Gap]:
    """The gaps of those questions that something is stored for, in order."""
    wanted = set(questions)
    found = []
    for question in catalogue.questions():
        if question in wanted:
            entries = catalogue.entries(question)
            found += [gap_between(question, entries)] if entries else []
    return found


@final
@dataclass(frozen=True, slots=True)
class SharesNearBound:
    """How the gaps of many sizes are at one number of steps above the fewest, of one degree.

    ``within[i]`` is the share of the sizes whose excess is at most THRESHOLDS[i], ``with_design``
    that of those with any design of so few steps, of which mean and largest excess are told, None
    where there is none.
    """

    degree: int
    bidirectional: bool
    offset: int
    num_sizes: int
    with_design: Fraction
    within: tuple[Fraction, ...]
    mean: Fraction | None
    largest: Fraction | None


THRESHOLDS = tuple(Fraction(percent, 100) for percent in (1, 4, 7, 8, 12, 18, 30))


def shares_of(gaps: Iterable[Gap]) -> list[SharesNearBound]:
    """The shares of every degree and kind of links, at every number of steps.

    >>> from ocs_codesign.schedules.design import Question
    >>> near = Gap(Question(9, 2), 3, (Fraction(0), Fraction(0)))
    >>> far = Gap(Question(10, 2), 3, (None, Fraction(1, 5)))
    >>> [(one.offset, str(one.with_design), str(one.within[0])) for one in shares_of([near, far])]
    [(0, '1/2', '1/2'), (1, '1', '1/2')]
    """
    groups: dict[tuple[bool, int], list[Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.question.bidirectional, gap.question.degree), []).append(gap)
    found = []
    for (bidirectional, degree), group in sorted(groups.items()):
        for offset in range(len(group[0].excess)):
            known = [over for gap in group if (over := gap.excess[offset]) is not None]
            found.append(
                SharesNearBound(
                    degree,
                    bidirectional,
                    offset,
                    len(group),
                    Fraction(len(known), len(group)),
                    tuple(
                        Fraction(sum(over <= most for over in known), len(group))
                        for most in THRESHOLDS
                    ),
                    sum(known, Fraction(0)) / len(known) if known else None,
                    max(known, default=None),
                )
            )
    return found


def largest_first(gaps: Iterable[Gap]) -> list[Gap]:
    """By size, ties by question."""
    return sorted(gaps, key=lambda gap: (-gap.size, gap.question))
