"""Throughput: how fast a topology can do all-to-all, between two bounds that are proofs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.alltoall.quotient import Quotient


@final
@dataclass(frozen=True, slots=True, eq=False)
class Throughput:
    """All-to-all time of a topology when flows may split over paths, in units of M/B.

    ``time`` is that of a routing that was found, ``bound`` what no routing can beat; both are exact
    and equal when the routing is optimal. ``prices`` (int64, a link orbit) prove the bound: any
    routing pays at least the cheapest path of every pair. ``loads`` are the messages of M/N that
    cross every link of each orbit. ``method`` says how they were found.
    """

    quotient: Quotient
    time: Fraction
    bound: Fraction
    prices: NDArray[np.int64]
    loads: tuple[Fraction, ...]
    method: str

    @property
    def gap(self) -> Fraction:
        """How far the time may be above the least possible, relative to the bound."""
        return self.time / self.bound - 1

    @property
    def is_optimal(self) -> bool:
        """Whether the routing is proven to be the best."""
        return self.time == self.bound

    def link_loads(self) -> list[Fraction]:
        """Messages that cross every link, in link order."""
        return [self.loads[orbit] for orbit in self.quotient.link_orbit.tolist()]
