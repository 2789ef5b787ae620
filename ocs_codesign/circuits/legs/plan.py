"""The dynamic program behind plans, policies and break-even factors: exact for numbers of any size.

The state is the topology that is held, so it is exact for every switching cost, a metric or not, in
O(S K^2), or O(S K) where all switches cost the same. Of equal plans the one with the fewest
switches is found, then one that keeps what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.legs.ticks import Ticks, is_finite, read_numbers, to_ticks
from ocs_codesign.core.shown import Brief

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    Exact = Fraction | float
    Numbers = ArrayLike | Exact | Sequence[Exact] | Sequence[Sequence[Exact]]


# LegPlan: the topology held in every step, what it costs, and the proof that it is best.


@final
@dataclass(frozen=True, slots=True)
class LegRun:
    """Steps on one topology, numbered from 1, the last one included.

    The run begins at ``begin``, on an axis that begins with the first gap, with the ``gap`` of its
    first step, which hides ``hidden`` of the switch to it and leaves ``switching``. Its steps cost
    ``working``, and all their gaps take ``waiting``.
    """

    first_step: int
    last_step: int
    topology: int
    begin: Fraction
    gap: Fraction
    hidden: Fraction
    switching: Fraction
    working: Fraction
    waiting: Fraction

    @property
    def end(self) -> Fraction:
        """When its last step has ended."""
        return self.begin + self.switching + self.working + self.waiting


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LegPlan(Brief):
    """The topology of every step (int32, S) and exactly what it costs, in the problem's unit.

    ``working`` is the cost of all steps, ``switching`` of all switches beyond the gaps, ``hidden``
    what the gaps hide. ``num_switches`` counts the changes of topology, that from ``start`` too,
    but not the first configuration of a fabric that holds none.

    No plan costs less than ``bound``, which ``potentials`` (S, K) in ticks prove, where they are
    known: that of a step and a topology is what that step on that topology and all steps after it
    cost at least. It exceeds neither the step's cost alone at the end, nor, for any topology of the
    next step, cost, switch and next potential together.
    """

    problem: LegProblem
    choice: NDArray[np.int32]
    working: Fraction
    switching: Fraction
    hidden: Fraction
    num_switches: int
    potentials: NDArray[Any] | None = None
    bound: Fraction | None = None

    @property
    def total(self) -> Fraction:
        """Cost of steps and switches."""
        return self.working + self.switching

    @property
    def is_optimal(self) -> bool:
        """Whether the bound proves that no plan costs less."""
        return self.bound == self.total

    def runs(self) -> tuple[LegRun, ...]:
        """Maximal sequences of steps on one topology."""
        rows, ticks = self.problem.rows, self.problem.ticks
        begins, prices, gaps = switches_of(self.problem, self.choice)
        parts = [
            gaps,
            np.minimum(prices, gaps),
            np.maximum(prices - gaps, 0),
            np.add.reduceat(ticks.costs[rows, self.choice], begins),
            np.add.reduceat(ticks.gaps[rows].astype(object), begins),
        ]
        ends = np.append(begins[1:], len(rows)).tolist()
        held = self.choice[begins].tolist()
        now, runs = 0 * ticks.tick, []
        columns = zip(begins.tolist(), ends, held, *(part.tolist() for part in parts), strict=True)
        for begin, end, topology, *numbers in columns:
            times = (ticks.tick * number for number in numbers)
            runs.append(LegRun(begin + 1, end, topology, now, *times))
            now = runs[-1].end
        return tuple(runs)


def price_plan(problem: LegProblem, choice: ArrayLike) -> LegPlan:
    """The plan that holds these topologies, with its exact costs.

    Raises ValueError for a topology out of range, one that cannot serve its step or that cannot be
    switched to.
    """
    held, ticks = _checked(problem, choice), problem.ticks
    begins, prices, gaps = switches_of(problem, held)
    working = ticks.tick * int(ticks.costs[problem.rows, held].sum())
    switching = ticks.tick * int(np.maximum(prices - gaps, 0).sum())
    hidden = ticks.tick * int(np.minimum(prices, gaps).sum())
    num_switches = len(begins) - (problem.start in {None, int(held[0])})
    return LegPlan(problem, held, working, switching, hidden, num_switches)


def _checked(problem: LegProblem, choice: ArrayLike) -> NDArray[np.int32]:
    held = np.array(choice)
    if held.shape != (problem.num_steps,) or held.dtype.kind not in "iu":
        raise ValueError(f"choice must be {problem.num_steps} integers, a topology for each step")
    many = problem.num_topologies
    if held.min() < 0 or held.max() >= many:
        step = int(np.argmax((held < 0) | (held >= many)))
        raise ValueError(
            f"step {step + 1} is on topology {held[step]}: topologies are 0 to {many - 1}"
        )
    possible = is_finite(problem.costs)[problem.rows, held]
    if not possible.all():
        step = int(np.argmin(possible))
        raise ValueError(f"step {step + 1} cannot be served by topology {held[step]}")
    held = held.astype(np.int32)
    held.setflags(write=False)
    return held


def switches_of(
    problem: LegProblem, held: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """Where runs begin, what switching there costs, and the gaps before, in ticks.

    Raises ValueError for a switch that is infinite.
    """
    ticks = problem.ticks
    begins = np.concatenate([[0], np.flatnonzero(held[1:] != held[:-1]) + 1])
    before, after = held[begins[1:] - 1], held[begins[1:]]
    delta = np.broadcast_to(ticks.delta, (problem.num_topologies,) * 2)
    prices = np.concatenate([ticks.first[held[:1]], delta[before, after]])
    possible = prices < ticks.infinite
    if not possible.all():
        run = int(np.argmin(possible))
        last = int(before[run - 1]) if run else problem.start
        place = "at the start" if last is None else f"from topology {last}"
        step = int(begins[run])
        raise ValueError(f"step {step + 1} cannot be on topology {held[step]}: no switch {place}")
    return begins, prices, ticks.gaps[problem.rows[begins]]


MAX_UNCOMPILED = 2**16
"""Switches that are tried for one problem before the loops are compiled: a tenth of a second."""

_PART, _DIGIT = 60, 30
_MOST = 1 << (2 * _PART - 2)


def plan_legs(problem: LegProblem) -> LegPlan:
    """The plan of least total cost, of those one with the fewest switches, with its bound.

    ``check_plan`` verifies the bound without this code. Raises ValueError if no plan can
    serve all steps because the switches that it would take are infinite.

    >>> costs = [(4, 9), (4, 9), (9, 4), (4, 9), (9, 4), (9, 4)]
    >>> plan = plan_legs(LegProblem(costs, 3, start=0))
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
    return replace(price_plan(problem, choice), potentials=potentials, bound=ticks.tick * least)


def plan_round(costs: NDArray[Any], delta: NDArray[Any], gaps: NDArray[Any]) -> LegPlan | None:
    """The plan of least total cost of steps that go round and round; None if none serves all.

    Step i costs ``costs[i, t]`` on topology t; the first step follows the last one. For each
    topology of the last step the rest is planned exactly, and the best taken: of equal ones that
    with the fewest switches.

    >>> costs, gaps = np.array([[4, 9], [9, 4]]), np.zeros(2, int)
    >>> changes = [np.array([[0, delay], [delay, 0]]) for delay in (2, 3)]
    >>> [str(plan_round(costs, delta, gaps).total) for delta in changes]
    ['12', '13']
    """
    served = is_finite(costs)
    if not served.any(axis=1).all():
        return None
    best: LegPlan | None = None
    for last in np.flatnonzero(served[-1]).tolist():
        closed = costs.astype(object)
        closed[-1, np.arange(costs.shape[1]) != last] = float("inf")
        different: dict[tuple[Any, ...], int] = {}
        table = np.column_stack([closed, gaps.astype(object)]).tolist()
        rows = [different.setdefault(tuple(row), len(different)) for row in table]
        unique = np.array(list(different), dtype=object)
        found = plan_legs(
            LegProblem(unique[:, :-1], delta, start=last, gaps=unique[:, -1], rows=rows)
        )
        if best is None or (found.total, found.num_switches) < (best.total, best.num_switches):
            best = found
    return best


def plan_with_few(problem: LegProblem, most: int) -> LegPlan:
    """The plan of least total cost of those with at most so many switches.

    A state is a topology and the switches so far. Raises ValueError if so few cannot serve all
    steps.
    """
    if most >= problem.num_steps:
        return plan_legs(problem)
    many, layers = problem.num_topologies, range(most + 1)
    first = np.full((most + 1, many), np.inf, dtype=object)
    is_switch = np.arange(many) != (np.arange(many) if problem.start is None else problem.start)
    for layer in layers[:2]:
        first[layer, is_switch == layer] = problem.first[is_switch == layer]
    delta = np.full((most + 1, many, most + 1, many), np.inf, dtype=object)
    for layer in layers:
        delta[layer, range(many), layer, range(many)] = 0
    for layer in layers[1:]:
        delta[layer - 1, :, layer] = np.broadcast_to(problem.delta, (many, many))
    size = many * (most + 1)
    layered = LegProblem(
        np.tile(problem.costs, most + 1),
        delta.reshape(size, size),
        first=first.ravel(),
        gaps=problem.gaps,
        rows=problem.rows,
    )
    return price_plan(problem, plan_legs(layered).choice % many)


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
        from ocs_codesign.circuits.legs.kernels import costs_to_go

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
        from ocs_codesign.circuits.legs.kernels import follow

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


# LegProblem: steps, topologies that can serve them, and what switching between them costs.


MAX_STATES = 2**26
"""Largest number of steps times topologies: 1 GB of costs to go."""


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class LegProblem:
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

    >>> problem = LegProblem([[4, 9], [9, 4]], 3, start=0)
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
