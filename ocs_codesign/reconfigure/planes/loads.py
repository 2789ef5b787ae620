"""Planes that do not wait for each other within a stretch of steps: loads, makespans and stops.

In a stretch a plane just has a load: its dead times, a latency a step and what it sends. Bytes of a
step may be split over the planes that serve it as one likes, so the makespan is, over all sets A of
planes, the largest of

    (dead times and latencies of A + sends of the steps that only planes of A serve) / |A|.

Where the whole fabric stops for changes, stretches are what lies between two stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reconfigure.planes.uses import START, late_stops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage
    from ocs_codesign.reconfigure.planes.uses import PlaneChange

_STOPS_SEARCHED = 48
_PLANES_SEARCHED = 6


def makespan(work: NDArray[np.float64]) -> float:
    """The least makespan when ``work[mask]`` is shared by the planes whose bits are in the mask.

    >>> makespan(np.array([0.0, 3.0, 2.0, 2.0]))
    3.5
    """
    inside, planes = work.copy(), len(work).bit_length() - 1
    number = np.zeros(len(work))
    for plane in range(planes):
        halves, counts = inside.reshape(-1, 2, 2**plane), number.reshape(-1, 2, 2**plane)
        halves[:, 1] += halves[:, 0]
        counts[:, 1] += 1
    return float((inside[1:] / number[1:]).max())


def stops_of(problem: PlaneProblem, usage: Usage, changes: Sequence[PlaneChange]) -> list[int]:
    """The steps before which the fabric stops, in ascending order, the first step among them.

    With barriers only the number of stops counts, and as late as possible is best; without them
    also what lies between two stops, and lists that are not too long are searched.
    """
    searched = problem.num_steps <= _STOPS_SEARCHED and problem.num_planes <= _PLANES_SEARCHED
    if problem.cost.barrier or not searched:
        return late_stops(changes)
    return _best_stops(problem, usage, [change for change in changes if change.circuits])


def _best_stops(problem: PlaneProblem, usage: Usage, changes: Sequence[PlaneChange]) -> list[int]:
    """Stops with the least sum of makespans and fixed dead times, one step after the other.

    What changed circuits add is the same wherever planes change, so it decides nothing.
    """
    fixed, latency = float(problem.cost.fixed_s), float(problem.latency_s)
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for last in range(1, problem.num_steps + 1):
        work, options = np.zeros(2**problem.num_planes), []
        inside = [change.after for change in changes if change.before < last]
        for first in range(last - 1, max(inside, default=START), -1):
            for plane in usage[first]:
                work[1 << plane] += latency
            work[sum(1 << plane for plane in usage[first])] += float(problem.send_s[first])
            is_dark = first > 0 or START in inside
            spent, stops = best[first]
            options.append((spent + fixed * is_dark + makespan(work), [*stops, first]))
        best.append(min(options))
    return best[-1][1]
