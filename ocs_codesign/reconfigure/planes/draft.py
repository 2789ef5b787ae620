"""Draft: what a method found, before its times are worked out exactly and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.reconfigure.planes.problem import Usage


@final
@dataclass(frozen=True, slots=True)
class Draft:
    """Which planes serve which step, a proven lower bound, and how it came about, in a sentence.

    A bound of None is the total itself: the usage is optimal.
    """

    usage: Usage
    lower_bound_s: Fraction | None
    status: str
