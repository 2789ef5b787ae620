"""Where to reconfigure when circuits may serve later steps in several hops: exact, by DP."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cost import Cost
from ocs_codesign.reconfigure.phases.message_times import SwitchedCost
from ocs_codesign.reconfigure.step_matched.collectives import CANNOT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.step_matched.collectives import MatchedCollective

_NEVER = 2**61


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReusePlan:
    """A step-matched collective with the configuration held at every step, and the hops it takes.

    ``cost`` counts every hop as a step, and the bytes of a step once a hop.
    """

    matched: MatchedCollective
    held: tuple[int, ...]
    hops: tuple[int, ...]

    @property
    def num_reconfigurations(self) -> int:
        """How often the circuits change; the first configuration is held from the start."""
        return sum(before != after for before, after in pairwise(self.held))

    @property
    def hop_units(self) -> int:
        """Hops of all steps."""
        return sum(self.hops)

    @property
    def cost(self) -> Cost:
        """Steps and t_b."""
        steps = zip(self.hops, self.matched.steps, strict=True)
        return Cost(self.hop_units, sum((h * step.fraction for h, step in steps), Fraction(0)))

    @property
    def switched(self) -> SwitchedCost:
        """The cost with the number of configurations held in turn."""
        return SwitchedCost(self.cost, self.num_reconfigurations + 1)


def reuse_plan(matched: MatchedCollective, num_reconfigurations: int) -> ReusePlan:
    """The plan of least t_b, of those with the fewest hops, with at most so many changes.

    Exact, by dynamic programming over the step, the configuration held and the changes so far.
    Raises ValueError for a negative number, and if so few configurations cannot serve all steps.

    >>> from ocs_codesign.reconfigure.step_matched.collectives import matched
    >>> [reuse_plan(matched("bruck", 64), changes).hop_units for changes in range(6)]
    [63, 14, 9, 8, 7, 6]
    """
    if num_reconfigurations < 0:
        raise ValueError(f"{num_reconfigurations} reconfigurations: it cannot be negative")
    hops = matched.hops()
    most = min(num_reconfigurations, len(matched.steps) - 1)
    price = _prices(matched, hops)
    value, came_from = _least(price, most)
    total = value.min(axis=1)
    if total.min() >= _NEVER:
        raise ValueError(
            f"{matched.name} of {matched.num_nodes} nodes cannot be served with "
            f"{num_reconfigurations} reconfigurations: its steps want more configurations"
        )
    changes = int(np.argmin(total))
    now = int(np.argmin(value[changes]))
    held = [now]
    for step in range(len(price) - 1, 0, -1):
        before = int(came_from[step, changes, now])
        changes -= before != now
        now = before
        held.append(now)
    held.reverse()
    used = hops[np.arange(len(held)), held]
    return ReusePlan(matched, tuple(held), tuple(used.tolist()))


def _prices(matched: MatchedCollective, hops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers that compare plans by t_b, then by hops; _NEVER where a step cannot be served."""
    unit = lcm(*(step.fraction.denominator for step in matched.steps))
    most_hops = int(hops.max(axis=1).sum()) + 1
    weight = np.array([int(step.fraction * unit) * most_hops + 1 for step in matched.steps])
    return np.where(hops == CANNOT, _NEVER, hops * weight[:, None])


def _least(price: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Least price (changes, configurations) after all steps, and what was held the step before."""
    steps, many = price.shape
    came_from = np.empty((steps, most + 1, many), dtype=np.int32)
    value = np.full((most + 1, many), _NEVER)
    value[0] = price[0]
    every = np.arange(many, dtype=np.int32)
    for step in range(1, steps):
        came_from[step] = every
        if most:
            best = value[:-1].argmin(axis=1)
            least = value[np.arange(most), best][:, None]
            switched = least < value[1:]
            value[1:] = np.where(switched, least, value[1:])
            came_from[step, 1:] = np.where(switched, best[:, None], every)
        value = np.minimum(value + price[step], _NEVER)
    return value, came_from
