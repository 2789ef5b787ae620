"""The dynamic program behind plans, policies and break-even factors: exact for numbers of any size.

The state is the topology that is held, so it is exact for every switching cost, a metric or not, in
O(S K^2), or O(S K) where all switches cost the same. Of equal plans the one with the fewest
switches is found, then one that keeps what it holds.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.hold.plan import Certificate, SwitchPlan, price_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    from ocs_codesign.reconfigure.hold.ticks import Ticks

MAX_UNCOMPILED = 2**16
"""Switches that are tried for one problem before the loops are compiled: a tenth of a second."""

_PART, _DIGIT = 60, 30
_MOST = 1 << (2 * _PART - 2)


def switch_plan(problem: SwitchProblem) -> SwitchPlan:
    """The plan of least total cost, of those one with the fewest switches, with its certificate.

    ``check_plan`` verifies the certificate without this code. Raises ValueError if no plan can
    serve all steps because the switches that it would take are infinite.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> plan = switch_plan(SwitchProblem(costs, 3, start=0))
    >>> str(plan.total), plan.choice.tolist(), plan.is_optimal
    ('32', [0, 0, 0, 0, 1, 1], True)
    """
    ticks, rows = problem.ticks, problem.rows
    program = DynamicProgram(ticks, rows)
    program.weigh()
    value = program.costs_to_go(rows, rows)
    choice = program.follow(value, rows, problem.start)
    if choice is None:
        raise ValueError(
            f"no plan serves all {problem.num_steps} steps: every one takes a switch that is "
            "infinite"
        )
    potentials = program.in_ticks(value)
    potentials.setflags(write=False)
    least = min((ticks.beyond(ticks.first, ticks.gaps[rows[0]]) + potentials[0]).tolist())
    return price_plan(problem, choice, Certificate(potentials, ticks.tick * least))


@final
class DynamicProgram:
    """The numbers of a problem for the loops of ``kernels``, times weights of work and of switches.

    A plan costs work * (costs of its steps), and for each of its switches what switch * delta has
    beyond work * gap. The numbers are shifted so that low parts count switches.
    """

    def __init__(self, ticks: Ticks, rows: NDArray[np.int64]) -> None:
        self.ticks, self.num_steps = ticks, len(rows)
        self.arrays = ticks.costs, ticks.delta, ticks.first, ticks.gaps
        self.infinities = [array >= ticks.infinite for array in self.arrays[:3]]
        costs, delta, first = (
            np.where(infinite, 0, array)
            for array, infinite in zip(self.arrays, self.infinities, strict=False)
        )
        times = np.bincount(rows, minlength=len(costs))
        worst = np.multiply(costs.max(axis=1), times, dtype=object)
        self.most_work = max(int(worst.sum()), int(ticks.gaps.max()))
        self.most_switching = int(delta.max()) * len(rows) + int(first.max())
        self.tried_each = len(rows) * (delta.size if len(delta) > 1 else len(first))
        self.tried = 0

    def fits(self, work: int, switch: int) -> bool:
        """Whether compiled loops can add the numbers times these weights."""
        most = work * self.most_work + switch * self.most_switching
        return most * (self.num_steps + 2) < _MOST

    def weigh(self, work: int = 1, switch: int = 1) -> None:
        """Take the numbers times these weights from now on."""
        weights = work, switch, switch, work
        most = work * self.most_work + switch * self.most_switching
        self.tried += self.tried_each
        self.is_compiled = self.tried > MAX_UNCOMPILED and self.fits(work, switch)
        if self.is_compiled:
            enough = most < 2 ** (_PART - 1)
            self.shift = _PART if enough else (self.num_steps + 1).bit_length()
            self.infinite = 2**_PART
            factors = (weight << self.shift for weight in weights)
            parts = list(map(_in_parts, self._digits, factors))
        else:
            self.shift, self.infinite = _PART, most + 1
            products = (array.astype(object) for array in self.arrays)
            parts = [np.stack([p * w, p * 0]) for p, w in zip(products, weights, strict=True)]
        for part, where in zip(parts, self.infinities, strict=False):
            part[:, where] = np.array([[self.infinite], [0]], dtype=part.dtype)
        self.cost, self.delta, first, self.gap = parts
        self.first = first[:, None]
        if self.delta.shape[1:] == (1, 1):
            self.delta = np.repeat(self.delta, self.cost.shape[2], axis=2)

    @cached_property
    def _digits(self) -> list[NDArray[np.int64]]:
        return [_digits(array) for array in self.arrays]

    def costs_to_go(
        self, rows: NDArray[np.int64], waits: NDArray[np.int64], *, is_reversed: bool = False
    ) -> NDArray[Any]:
        """The least cost (2, S, K) of each step on each topology and of all steps after it.

        ``waits`` are the rows of the gaps before the steps. Where time is reversed, switches lead
        to what is held, and their number does not count.
        """
        from ocs_codesign.reconfigure.hold.kernels import costs_to_go

        delta = self.delta
        if not is_reversed and delta.shape[1] > 1:
            delta = np.ascontiguousarray(delta.transpose(0, 2, 1))
        value = np.empty((2, len(rows), self.cost.shape[2]), dtype=self.cost.dtype)
        run = costs_to_go if self.is_compiled else costs_to_go.py_func
        tie = int(not is_reversed)
        run(self.cost, +rows, +waits, delta, self.gap, tie, self.infinite, value)
        return value

    def follow(
        self,
        value: NDArray[Any],
        waits: NDArray[np.int64],
        start: int | None,
        *,
        is_online: bool = False,
    ) -> NDArray[np.int32] | None:
        """The topologies that meet these costs; None if all are infinite.

        Online they are costs of the steps so far, which the first configuration belongs to.
        """
        from ocs_codesign.reconfigure.hold.kernels import follow

        first = self.first * 0 if is_online and start is None else self.first
        held, tie = -1 if start is None else start, int(not is_online)
        choice = np.empty(len(waits), dtype=np.int32)
        run = follow if self.is_compiled else follow.py_func
        served = run(value, +waits, first, self.delta, self.gap, tie, self.infinite, held, choice)
        return choice if served else None

    def in_ticks(self, value: NDArray[Any]) -> NDArray[Any]:
        """High and low parts of weight 1 as ticks."""
        high, low = value
        whole = high.astype(self.ticks.costs.dtype)
        if self.shift < _PART:
            whole = (whole << (_PART - self.shift)) | (low >> self.shift)
        return np.where(high >= self.infinite, self.ticks.infinite, whole)


def _digits(array: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers by digits of 30 bits, the last first: int64 of shape (digits, ...)."""
    places = range(0, max(int(array.max()).bit_length(), 1), _DIGIT)
    return np.stack([(array >> place & (2**_DIGIT - 1)).astype(np.int64) for place in places])


def _in_parts(digits: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    """Numbers below 2^119 in digits, times a factor, as high and low parts."""
    carry = np.zeros_like(digits[0])
    places = []
    for place in range(4):
        for at in range(min(place + 1, len(digits))):
            digit = factor >> _DIGIT * (place - at) & (2**_DIGIT - 1)
            if digit:
                carry = carry + digits[at] * digit
        places.append(carry & (2**_DIGIT - 1))
        carry = carry >> _DIGIT
    return np.stack([places[3] << _DIGIT | places[2], places[1] << _DIGIT | places[0]])
