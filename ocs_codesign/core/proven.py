"""Proven: what something takes, and what is proven that nothing takes less than."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

Value = TypeVar("Value", bound="Fraction | None")


@dataclass(frozen=True, slots=True)
class Proven(Generic[Value]):
    """A value that was found, or None, and a bound that none is below, exact and in the same unit.

    ``proof`` says how they were found, ``stopped`` what ended the search before they met, None if
    nothing did.

    >>> Proven(Fraction(3), Fraction(2)).gap, Proven(Fraction(2), Fraction(2)).is_optimal
    (Fraction(1, 2), True)
    """

    value: Value
    bound: Fraction
    proof: str = ""
    stopped: str | None = None

    @property
    def is_optimal(self) -> bool:
        """Whether none can be below the value."""
        return self.value == self.bound

    @property
    def gap(self) -> Fraction:
        """How far the value may be above the least, relative to it; ValueError without a value."""
        value: Fraction | None = self.value
        if value is None:
            raise ValueError("nothing was found")
        return value / self.bound - 1
