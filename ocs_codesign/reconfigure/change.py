"""ReconfigurationCost: how long circuits are dark when they change, and what has to wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.quantities import exact_time

if TYPE_CHECKING:
    from fractions import Fraction


@final
@dataclass(frozen=True, slots=True, init=False)
class ReconfigurationCost:
    """The dead time of one change: fixed_s + per_circuit_s * circuits changed, 0 if none changes.

    Circuits are counted over the plane that changes, or over the whole fabric if that stops.
    ``cold_start``: the first configuration has to be made and pays too. ``overlap``: every plane
    changes on its own while others send; otherwise the whole fabric stops for every change.
    ``barrier``: a step begins when all of the step before has arrived; otherwise every plane goes
    on to its part of the next step as soon as it is free. Times are exact: a float is read as the
    decimal that it prints as. Raises ValueError for times that are negative or not finite.

    >>> cost = ReconfigurationCost(10e-6, 1e-6)
    >>> cost.fixed_s, cost.dead_time_s(2), cost.dead_time_s(0)
    (Fraction(1, 100000), Fraction(3, 250000), Fraction(0, 1))
    """

    fixed_s: Fraction
    per_circuit_s: Fraction
    cold_start: bool
    overlap: bool
    barrier: bool

    def __init__(
        self,
        fixed_s: Fraction | float,
        per_circuit_s: Fraction | float = 0,
        *,
        cold_start: bool = True,
        overlap: bool = True,
        barrier: bool = True,
    ) -> None:
        for name, value in (("fixed_s", fixed_s), ("per_circuit_s", per_circuit_s)):
            object.__setattr__(self, name, exact_time(value, name))
        for name, flag in (("cold_start", cold_start), ("overlap", overlap), ("barrier", barrier)):
            object.__setattr__(self, name, bool(flag))

    def dead_time_s(self, num_changed: int) -> Fraction:
        """Seconds without light for a change of so many circuits; none for no change."""
        if num_changed < 0:
            raise ValueError(f"{num_changed} circuits changed: it cannot be negative")
        return self.fixed_s + self.per_circuit_s * num_changed if num_changed else 0 * self.fixed_s
