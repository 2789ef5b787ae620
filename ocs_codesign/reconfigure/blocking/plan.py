"""SwitchPlan: the topology held in every step, what it costs, and the proof that it is best."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.blocking.ticks import is_finite, number_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.reconfigure.blocking.problem import SwitchProblem


@final
@dataclass(frozen=True, slots=True)
class SwitchRun:
    """Steps on one topology, numbered from 1, the last one included.

    ``working`` is what they cost, ``switching`` what the switch before them costs beyond the gap,
    ``hidden`` how much of it the gap hides.
    """

    first_step: int
    last_step: int
    topology: int
    working: Fraction
    switching: Fraction
    hidden: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Potentials (S, K) in ticks, and the bound that they prove: no plan can cost less.

    The potential of a step and a topology is what that step on that topology and all steps after it
    cost at least: it exceeds neither the step's cost alone at the end, nor, for any topology of the
    next step, cost, switch and next potential together.
    """

    potentials: NDArray[Any]
    bound: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class SwitchPlan:
    """The topology of every step (int32, S) and exactly what it costs, in the problem's unit.

    ``working`` is the cost of all steps, ``switching`` of all switches beyond the gaps, ``hidden``
    what the gaps hide. ``num_switches`` counts the changes of topology, that from ``start`` too,
    but not the first configuration of a fabric that holds none. An optimal plan has a certificate.
    """

    problem: SwitchProblem
    choice: NDArray[np.int32]
    working: Fraction
    switching: Fraction
    hidden: Fraction
    num_switches: int
    certificate: Certificate | None

    @property
    def total(self) -> Fraction:
        """Cost of steps and switches."""
        return self.working + self.switching

    @property
    def gap(self) -> Fraction | None:
        """How far the total may be above the least possible, relative to the bound."""
        if self.certificate is None:
            return None
        above = self.total - self.certificate.bound
        return above / self.certificate.bound if self.certificate.bound else above

    @property
    def is_optimal(self) -> bool:
        """Whether the certificate proves that no plan costs less."""
        return self.certificate is not None and self.certificate.bound == self.total

    def runs(self) -> tuple[SwitchRun, ...]:
        """Maximal sequences of steps on one topology."""
        return _runs(self.problem, self.choice)


def price_plan(
    problem: SwitchProblem, choice: ArrayLike, certificate: Certificate | None = None
) -> SwitchPlan:
    """The plan that holds these topologies, with its exact costs.

    Raises ValueError for a topology out of range, one that cannot serve its step or that cannot be
    switched to.

    >>> from ocs_codesign.reconfigure.blocking.problem import SwitchProblem
    >>> plan = price_plan(SwitchProblem([[4, 9], [9, 4]], 3, start=0), [0, 1])
    >>> str(plan.working), str(plan.switching), plan.num_switches
    ('8', '3', 1)
    """
    held = _checked(problem, choice)
    kinds, times = np.unique(problem.rows * problem.num_topologies + held, return_counts=True)
    working = Fraction(0)
    for kind, count in zip(kinds.tolist(), times.tolist(), strict=True):
        working += number_at(problem.costs, divmod(kind, problem.num_topologies)) * count
    switching = hidden = Fraction(0)
    num_switches = -int(problem.start is None)
    for (last, topology, step), count in _changes(problem, held).items():
        switch = _switch(problem, last, topology, step)
        num_switches += count
        switching += switch.beyond * count
        hidden += switch.hidden * count
    return SwitchPlan(problem, held, working, switching, hidden, num_switches, certificate)


def _changes(
    problem: SwitchProblem, held: NDArray[np.int32]
) -> Counter[tuple[int | None, int, int]]:
    """How often each change happens: from, to, and a step that it happens before.

    Changes between the same topologies before steps of the same row are one.
    """
    at = np.flatnonzero(held[1:] != held[:-1]) + 1
    rows = problem.rows[at]
    _, which, number = np.unique(rows, return_index=True, return_inverse=True)
    steps = at[which][number].tolist()
    changes: Counter[tuple[int | None, int, int]] = Counter(
        zip(held[at - 1].tolist(), held[at].tolist(), steps, strict=True)
    )
    if problem.start != int(held[0]):
        changes[problem.start, int(held[0]), 0] = 1
    return changes


def _checked(problem: SwitchProblem, choice: ArrayLike) -> NDArray[np.int32]:
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


def _runs(problem: SwitchProblem, held: NDArray[np.int32]) -> tuple[SwitchRun, ...]:
    begins = np.concatenate([[0], np.flatnonzero(held[1:] != held[:-1]) + 1])
    ends = np.append(begins[1:], len(held))
    works = run_sums(
        problem.rows,
        begins,
        lambda row, begin: number_at(problem.costs, (row, int(held[begin]))),
    )
    runs = []
    last = problem.start
    for begin, end, working in zip(begins.tolist(), ends.tolist(), works, strict=True):
        topology = int(held[begin])
        switch = _NONE if last == topology else _switch(problem, last, topology, begin)
        runs.append(SwitchRun(begin + 1, end, topology, working, switch.beyond, switch.hidden))
        last = topology
    return tuple(runs)


def run_sums(
    rows: NDArray[np.int64], begins: NDArray[np.int64], value_of: Callable[[int, int], Fraction]
) -> list[Fraction]:
    """Sums over runs, which begin at the steps ``begins``, of ``value_of(row, begin)``."""
    run = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(rows))))
    num_rows = int(rows.max()) + 1
    kinds, times = np.unique(run * num_rows + rows, return_counts=True)
    sums = [Fraction(0)] * len(begins)
    first = begins.tolist()
    for kind, count in zip(kinds.tolist(), times.tolist(), strict=True):
        at, row = divmod(kind, num_rows)
        sums[at] += value_of(row, first[at]) * count
    return sums


@final
@dataclass(frozen=True, slots=True)
class _Switch:
    """What a switch costs beyond the gap before it, and what the gap hides."""

    beyond: Fraction
    hidden: Fraction


_NONE = _Switch(Fraction(0), Fraction(0))


def _switch(problem: SwitchProblem, last: int | None, topology: int, step: int) -> _Switch:
    if step == 0:
        prices, at = problem.first, topology
    elif problem.is_uniform or last is None:
        prices, at = problem.delta[0], 0
    else:
        prices, at = problem.delta[last], topology
    if not is_finite(prices[at : at + 1])[0]:
        place = "at the start" if last is None else f"from topology {last}"
        raise ValueError(f"step {step + 1} cannot be on topology {topology}: no switch {place}")
    price = number_at(prices, at)
    hidden = min(price, number_at(problem.gaps, int(problem.rows[step])))
    return _Switch(price - hidden, hidden)
