"""What no plan for a demand can beat, from the rows and columns alone."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.ticks import DemandTicks


def line_bound(ticks: DemandTicks, num_switches: int, fewest: int = 0) -> Fraction:
    """A makespan, in ticks, that no plan of at least ``fewest`` configurations beats.

    Of all numbers of configurations it takes the one with the least bound. They are as many as a
    line has entries, or more; the busiest line and their setups, shared by all switches, bound any
    more of them.

    >>> from ocs_codesign.reconfigure.demand.ticks import DemandTicks
    >>> demand = np.array([[3, 5, 1, 2], [4, 1, 3, 3], [2, 4, 2, 3], [2, 1, 5, 3]])
    >>> line_bound(DemandTicks(demand, 5, Fraction(1), True), 1)
    Fraction(34, 1)
    >>> line_bound(DemandTicks(demand, 1, Fraction(1), True), 2)
    Fraction(8, 1)
    """
    if not ticks.demand.any():
        return Fraction(0)
    best: Fraction | None = None
    many = max(ticks.max_entries, fewest)
    while True:
        longest = least_times(ticks, many)
        bound = makespan_bound(longest, ticks, num_switches)
        best = bound if best is None else min(best, bound)
        shared = Fraction(ticks.longest_line + ticks.setup * many, num_switches)
        if many >= num_switches and (shared >= best or not longest.any()):
            return best
        many += 1


def least_times(ticks: DemandTicks, num_configurations: int) -> NDArray[np.int64]:
    """Times that the longest, second longest, ... of so many configurations last at least.

    A line has a configuration of its own for every entry but as many as it has entries fewer than
    there are configurations. So of its m + k largest entries, k being the difference, at least m
    are served by one configuration each.

    >>> from ocs_codesign.reconfigure.demand.ticks import DemandTicks
    >>> ticks = DemandTicks(np.array([[3, 5, 0], [4, 1, 0], [0, 0, 2]]), 1, Fraction(1), True)
    >>> least_times(ticks, 2).tolist(), least_times(ticks, 3).tolist()
    ([5, 3], [3, 0, 0])
    """
    nodes = ticks.num_nodes
    lines = -np.sort(-np.concatenate([ticks.demand, ticks.demand.T]), axis=1)
    spare = num_configurations - (lines > 0).sum(1)
    places = np.arange(num_configurations)[None, :] + spare[:, None]
    inside = (places >= 0) & (places < nodes) & (spare >= 0)[:, None]
    entries = np.take_along_axis(lines, np.clip(places, 0, nodes - 1), axis=1)
    return np.asarray(np.where(inside, entries, 0).max(axis=0), dtype=np.int64)


def makespan_bound(longest: NDArray[np.int64], ticks: DemandTicks, num_switches: int) -> Fraction:
    """What switches take at least for configurations that last at least so long, longest first.

    The switches that are used share all times; and of the longest m s + 1 configurations on s
    switches, some switch has m + 1.
    """
    many = len(longest)
    used = min(many, num_switches)
    total = max(ticks.longest_line, int(longest.sum()))
    bound = Fraction(total + ticks.setup * many, used)
    for more in range((many - 1) // num_switches + 1):
        last = more * num_switches + 1
        some = int(longest[last - more - 1 : last].sum()) + ticks.setup * (more + 1)
        bound = max(bound, Fraction(some))
    return bound
