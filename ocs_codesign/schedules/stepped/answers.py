"""SteppedAnswer: the best schedule of so many steps, and what no other has less than."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.core.cost import Cost
from ocs_codesign.core.proven import Proven
from ocs_codesign.core.shown import Brief

if TYPE_CHECKING:
    from ocs_codesign.core.schedule import Schedule


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class SteppedAnswer(Brief, Proven[Fraction | None]):
    """The verified schedule of at most ``num_steps`` steps, if there is one; ``value`` is its t_b.

    ``bound`` is the proven least t_b of so many steps and chunks a shard, where ``num_chunks`` is
    None of any number; ``limit`` of any number in all cases, None where that is the bound. A bound
    may be that of branch and bound (in floats, of integers), a limit is proven in rationals.
    ``stopped`` says why there is no schedule, or what ended the search. ``solvers`` names those
    that have solved something.
    """

    num_steps: int
    schedule: Schedule | None = None
    num_chunks: int | None = None
    limit: Fraction | None = None
    solvers: tuple[str, ...] = ()

    @property
    def best(self) -> Schedule:
        """The schedule; ValueError with the status if there is none."""
        if self.schedule is None:
            raise ValueError(self.status)
        return self.schedule

    @property
    def cost(self) -> Cost:
        """Steps and t_b; ValueError with the status if there is no schedule."""
        return Cost(self.best.num_steps, self.value or Fraction(0))

    @property
    def status(self) -> str:
        """In a sentence, how good it is."""
        if self.schedule is None:
            return f"no schedule: {self.stopped}"
        steps = count(self.num_steps, "step")
        limit = self.bound if self.limit is None else self.limit
        if self.value == limit:
            return f"optimal: no schedule of {steps} has less than t_b {self.value}"
        if self.num_chunks is not None:
            steps = f"{steps} and {count(self.num_chunks, 'chunk')} a shard"
        least = f"no schedule of {steps} has less than t_b {self.bound}"
        if self.is_optimal:
            return f"optimal: {least} (with any number of chunks: {limit})"
        why = "" if self.stopped is None else f"{self.stopped}: "
        return f"{why}t_b {self.value} was found, {least} (gap {float(self.gap):.2%})"


def count(number: int, noun: str) -> str:
    """So many, in words.

    >>> count(2, "step")
    '2 steps'
    """
    return f"{number} {noun}{'s' * (number != 1)}"
