"""SwitchProblem: steps, topologies that can serve them, and what switching between them costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.hold.ticks import Ticks, is_finite, read_numbers, to_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    Exact = Fraction | float
    Numbers = ArrayLike | Exact | Sequence[Exact] | Sequence[Sequence[Exact]]

MAX_STATES = 2**26
"""Largest number of steps times topologies: 1 GB of costs to go."""


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class SwitchProblem:
    """Which topology to hold in every step, when switching stops the fabric.

    A step costs ``costs[r, t]`` on topology t, infinity if t cannot serve it. Switching from s to t
    costs ``delta[s, t]``, or one number for all, and may be infinite; before a step with a gap of
    ``gaps[r]``, during which the circuits are not needed, it costs max(0, delta - gap). ``rows``
    (int64, S) gives the r of every step, by default its position. The fabric holds topology
    ``start`` before the first step; if that is None, making the first configuration costs
    ``first``: a number for each topology or for all, by default ``delta`` if that is one number
    (a cold start), 0 where the first step finds what it wants.

    Numbers may be integers, Fractions or floats, in any unit. All are exact, floats as the decimals
    that they print as, which takes microseconds each. Raises ValueError for negative numbers, no
    steps, no topologies, steps that no topology can serve, and a delta that is not 0 on its
    diagonal.

    >>> problem = SwitchProblem([[4, 9], [9, 4]], 3, start=0)
    >>> problem.num_steps, problem.num_topologies, problem.is_uniform
    (2, 2, True)
    """

    costs: NDArray[Any]
    delta: NDArray[Any]
    first: NDArray[Any]
    gaps: NDArray[Any]
    rows: NDArray[np.int64]
    start: int | None
    ticks: Ticks

    def __init__(
        self,
        costs: Numbers,
        delta: Numbers,
        *,
        start: int | None = None,
        first: Numbers | None = None,
        gaps: Numbers | None = None,
        rows: ArrayLike | None = None,
    ) -> None:
        costs = read_numbers(costs, "costs")
        if costs.ndim != 2:
            raise ValueError(f"costs has {costs.ndim} dimensions: it is (steps, topologies)")
        num_rows, num_topologies = costs.shape
        if not num_topologies:
            raise ValueError("there is no topology to choose from: at least one is needed")
        order = _read_rows(rows, num_rows)
        if len(order) * num_topologies > MAX_STATES:
            raise ValueError(
                f"{len(order)} steps on {num_topologies} topologies: at most {MAX_STATES} states "
                "are planned"
            )
        delta = _read_delta(delta, num_topologies)
        waits = read_numbers([0] * num_rows if gaps is None else gaps, "gaps")
        if waits.shape != (num_rows,) or not is_finite(waits).all():
            raise ValueError(f"gaps must be {num_rows} finite numbers, one for each row of costs")
        entry = _read_first(first, start, delta, num_topologies)
        times = np.bincount(order, minlength=num_rows)
        _check_served(costs, order)
        values = {
            "costs": costs,
            "delta": delta,
            "first": entry,
            "gaps": waits,
            "rows": order,
            "start": None if start is None else int(start),
            "ticks": to_ticks(costs, delta, entry, waits, times),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def num_steps(self) -> int:
        """S."""
        return len(self.rows)

    @property
    def num_topologies(self) -> int:
        """K."""
        return len(self.first)

    @property
    def is_uniform(self) -> bool:
        """Whether every switch costs the same: ``delta`` then has the shape (1, 1)."""
        return self.delta.shape == (1, 1)


def _read_rows(rows: ArrayLike | None, num_rows: int) -> NDArray[np.int64]:
    order = np.arange(num_rows) if rows is None else np.array(rows)
    if not order.size:
        raise ValueError("there are no steps to plan: at least one is needed")
    if order.ndim != 1 or order.dtype.kind not in "iu":
        raise ValueError("rows must be a one-dimensional array of integers")
    if order.min() < 0 or order.max() >= num_rows:
        bad = int(order[(order < 0) | (order >= num_rows)][0])
        raise ValueError(f"rows names row {bad}: rows of costs are 0 to {num_rows - 1}")
    order = order.astype(np.int64)
    order.setflags(write=False)
    return order


def _read_delta(delta: Numbers, num_topologies: int) -> NDArray[Any]:
    array = read_numbers(delta, "delta")
    if array.ndim == 0:
        array = array.reshape(1, 1)
        if not is_finite(array).all():
            raise ValueError(f"delta is {array[0, 0]}: it must be finite")
        return array
    if array.shape != (num_topologies, num_topologies):
        raise ValueError(
            f"delta has the shape {array.shape}: it is one number, or {num_topologies} times "
            f"{num_topologies} for {num_topologies} topologies"
        )
    diagonal = array.diagonal()
    if (diagonal != 0).any():
        at = int(np.argmax(diagonal != 0))
        raise ValueError(
            f"delta[{at}][{at}] is {diagonal[at]}: it must be 0, for keeping costs nothing"
        )
    return array


def _read_first(
    first: Numbers | None, start: int | None, delta: NDArray[Any], num_topologies: int
) -> NDArray[Any]:
    """What the first step pays on every topology before it begins."""
    uniform = delta.shape == (1, 1)
    if start is not None:
        if first is not None:
            raise ValueError("give either start or first: what is held pays for no configuration")
        if not 0 <= start < num_topologies:
            raise ValueError(f"start is {start}: topologies are numbered 0 to {num_topologies - 1}")
        if not uniform:
            return np.array(delta[start])
        entry = np.repeat(delta[0], num_topologies)
        entry[start] = 0
    elif first is None:
        if not uniform:
            raise ValueError(
                "say what the fabric starts with: start, or first, the cost of the first "
                "configuration (0 if the first step finds what it wants)"
            )
        entry = np.repeat(delta[0], num_topologies)
    else:
        entry = read_numbers(first, "first")
        if entry.ndim == 0:
            entry = np.repeat(entry.reshape(1), num_topologies)
        if entry.shape != (num_topologies,) or not is_finite(entry).any():
            raise ValueError(
                f"first must be one number or {num_topologies}, one for each topology, and one of "
                "them finite"
            )
    entry.setflags(write=False)
    return entry


def _check_served(costs: NDArray[Any], rows: NDArray[np.int64]) -> None:
    served = np.asarray(is_finite(costs).any(axis=1))[rows]
    if not served.all():
        step = int(np.argmin(served)) + 1
        raise ValueError(
            f"step {step} of {len(rows)} cannot be served by any of the {costs.shape[1]} topologies"
        )
