"""SwitchPlan: the topology held in every step, what it costs, and the proof that it is best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.hold.ticks import is_finite

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.reconfigure.hold.problem import SwitchProblem


@final
@dataclass(frozen=True, slots=True)
class SwitchRun:
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
    def is_optimal(self) -> bool:
        """Whether the certificate proves that no plan costs less."""
        return self.certificate is not None and self.certificate.bound == self.total

    def runs(self) -> tuple[SwitchRun, ...]:
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
            runs.append(SwitchRun(begin + 1, end, topology, now, *times))
            now = runs[-1].end
        return tuple(runs)


def price_plan(
    problem: SwitchProblem, choice: ArrayLike, certificate: Certificate | None = None
) -> SwitchPlan:
    """The plan that holds these topologies, with its exact costs.

    Raises ValueError for a topology out of range, one that cannot serve its step or that cannot be
    switched to.

    >>> from ocs_codesign.reconfigure.hold.problem import SwitchProblem
    >>> plan = price_plan(SwitchProblem([[4, 9], [9, 4]], 3, start=0), [0, 1])
    >>> str(plan.working), str(plan.switching), plan.num_switches
    ('8', '3', 1)
    """
    held, ticks = _checked(problem, choice), problem.ticks
    begins, prices, gaps = switches_of(problem, held)
    working = ticks.tick * int(ticks.costs[problem.rows, held].sum())
    switching = ticks.tick * int(np.maximum(prices - gaps, 0).sum())
    hidden = ticks.tick * int(np.minimum(prices, gaps).sum())
    num_switches = len(begins) - (problem.start in {None, int(held[0])})
    return SwitchPlan(problem, held, working, switching, hidden, num_switches, certificate)


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


def switches_of(
    problem: SwitchProblem, held: NDArray[np.int32]
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
