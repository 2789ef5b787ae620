"""DemandTicks: a demand and what a configuration costs as whole multiples of one time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, gcd
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix

MAX_TICKS = 2**34
"""What the busiest line and SETUPS configurations may take, so that compiled loops are exact."""

_SETUPS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class DemandTicks:
    """Times of single circuits in ticks of ``tick_s`` seconds, rounded up unless ``is_exact``.

    ``demand`` (int64, n by n) is how long a circuit takes for every entry, ``setup`` what making a
    configuration takes.
    """

    demand: NDArray[np.int64]
    setup: int
    tick_s: Fraction
    is_exact: bool

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.demand)

    @property
    def longest_line(self) -> int:
        """The largest sum of a row or column: all configurations together last that long."""
        return int(max(self.demand.sum(0).max(), self.demand.sum(1).max()))

    @property
    def max_entries(self) -> int:
        """The most entries of a row or column: it takes as many configurations."""
        some = self.demand > 0
        return int(max(some.sum(0).max(), some.sum(1).max()))

    def error(self, makespan: Fraction, num_switches: int) -> int:
        """How much more than the exact demand the rounded one takes at most, in ticks.

        A best plan that takes no longer than ``makespan`` makes on a switch as many configurations
        as fit, and no more than there are entries and switches: its times are a vertex. With a tick
        more for each and for its setup it serves the rounded demand.
        """
        if self.is_exact:
            return 0
        most = int((self.demand > 0).sum()) + num_switches
        return 2 * (min(most, int(makespan // self.setup)) if self.setup else most)


def demand_ticks(
    demand: DemandMatrix,
    bandwidth_Bps: Fraction,  # noqa: N803 - the unit keeps its case
    delta_s: Fraction,
    most: int = MAX_TICKS,
) -> DemandTicks:
    """The demand in ticks: exactly if that takes at most ``most`` of them, else rounded up.

    >>> from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[0, 3], [6, 0]])
    >>> exact = demand_ticks(demand, Fraction(1), Fraction(1, 2))
    >>> exact.demand.tolist(), exact.setup, exact.tick_s
    ([[0, 6], [12, 0]], 1, Fraction(1, 2))
    >>> demand_ticks(demand, Fraction(1), Fraction(1, 2), most=35).demand.tolist()
    [[0, 3], [6, 0]]
    """
    unit = demand.unit_bytes / bandwidth_Bps
    longest = demand.max_line_bytes / bandwidth_Bps + _SETUPS * delta_s
    denominator = unit.denominator * delta_s.denominator
    tick = Fraction(gcd(int(unit * denominator), int(delta_s * denominator)), denominator)
    is_exact = longest <= most * tick
    if not is_exact:
        tick = longest / most
    times = [ceil(entry * unit / tick) for entry in demand.units.ravel().tolist()]
    shape = demand.units.shape
    return DemandTicks(
        np.array(times, dtype=np.int64).reshape(shape), ceil(delta_s / tick), tick, is_exact
    )
