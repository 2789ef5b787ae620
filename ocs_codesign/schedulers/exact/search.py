"""The bound of an allgather by linear programming with cuts, its schedule by branch and bound."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.lp import LinearProgram, Options, Solution, Status, exact_vertex, solve
from ocs_codesign.lp.options import IPX_NO_CROSSOVER, SIMPLEX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.exact.model import Broadcasts

_PARTS = 2**20
_NEARLY_ALL = _PARTS - 2**6
"""Floats are asked for cuts in parts of a shard, and a cut may be short of a shard by some."""
_WEIGHT = 2**26
CLOSE = 1e-6
"""What integers may be off in floats."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The least sum of times in shards for any number of chunks, in 1 / ``model.unit``; proven.

    ``solver`` is the one that solved it.
    """

    model: Broadcasts
    least: Fraction
    solver: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What branch and bound found: sends (chunks x sends, boolean), and what none can be below.

    ``end`` says how the ``solver`` ended.
    """

    sends: NDArray[np.bool_] | None
    least: int
    end: Status
    solver: str


def relaxation(model: Broadcasts, options: Options) -> Relaxation:
    """The least sum of times if every node could be served on its own.

    Any cuts prove a bound, so running out of time costs quality only. The points that cuts are
    asked of are in the middle of the optimal ones, where fewer cuts are violated than at vertices:
    N = 16, d = 2 in 5 steps took 7 s that way and 60 s with vertices. Raises SolverUnavailableError
    if the solver cannot take the program.
    """
    began = time.monotonic()
    cuts = model.first_cuts()
    least = weighted_bound(model, cuts, np.ones(len(cuts)))
    while True:
        program = model.relaxed_program(cuts)
        solution = middle_point(program, options.after(time.monotonic() - began))
        least = max(least, _proven_by_duals(model, cuts, solution))
        if solution.status is not Status.OPTIMAL or solution.values is None:
            break
        amounts = np.rint(solution.values[: model.num_sends] * _PARTS).astype(np.int64)
        new = model.violated_cuts(amounts, _NEARLY_ALL)
        if not len(new):
            break
        cuts = np.unique(np.concatenate([cuts, new]), axis=0)
    left = options.after(time.monotonic() - began)
    solution = solve(program, options=replace(left, method=SIMPLEX)).taken()
    vertex = exact_vertex(program, solution)
    if vertex is not None:
        return Relaxation(model, vertex.objective, solution.solver)
    least = max(least, _proven_by_duals(model, cuts, solution))
    return Relaxation(model, least, solution.solver)


def search(model: Broadcasts, num_chunks: int, least: int, most: int, options: Options) -> Found:
    """The sends of whole chunks with the least sum of times, from ``least`` to ``most``.

    Raises SolverUnavailableError if the solver cannot take the program.
    """
    solution = solve(model.program(num_chunks, least, most), options=options).taken()
    end, solver = solution.status, solution.solver
    if end is Status.INFEASIBLE:
        return Found(None, most + 1, end, solver)
    if solution.bound is not None:
        least = max(least, ceil(solution.bound - CLOSE))
    if solution.values is None or (solution.violation or 0.0) > CLOSE:
        return Found(None, least, end, solver)
    sends = solution.values[: num_chunks * model.num_sends] > 0.5
    return Found(sends.reshape(num_chunks, -1), least, end, solver)


def middle_point(program: LinearProgram, options: Options) -> Solution:
    """An optimum in the middle of all of them, or a vertex where interior point fails."""
    solution = solve(program, options=replace(options, method=IPX_NO_CROSSOVER)).taken()
    if solution.status in (Status.FAILED, Status.MEMORY):
        solution = solve(program, options=replace(options, method=SIMPLEX)).taken()
    return solution


def _proven_by_duals(model: Broadcasts, cuts: NDArray[np.int64], solution: Solution) -> Fraction:
    """What the rounded duals of the cuts prove, 0 if there are none."""
    duals = None if solution.row_duals is None else solution.row_duals[-len(cuts) :]
    if duals is None or not (duals > 0).any():
        return Fraction(0)
    return weighted_bound(model, cuts, np.maximum(duals, 0))


def weighted_bound(
    model: Broadcasts, cuts: NDArray[np.int64], weights: NDArray[np.float64]
) -> Fraction:
    """What non-negative weights of cuts prove about the sum of times: weak duality, in integers.

    A shard crosses every cut. If a send pays the weights of the cuts that it crosses, what a class
    of links carries at a step pays at most its time * the dearest send * speed / unit.
    """
    whole = np.rint(weights * (_WEIGHT / weights.max())).astype(np.int64)
    paid = np.zeros(model.num_sends, dtype=np.int64)
    for cut, weight in zip(cuts[whole > 0], whole[whole > 0], strict=True):
        paid[model.crossing(cut)] += weight
    dearest = np.zeros((int(model.link_class.max()) + 1, model.num_steps), dtype=np.int64)
    speed = model.topology.speeds()[model.link]
    np.maximum.at(dearest, (model.link_class[model.link], model.step - 1), paid * speed)
    return Fraction(int(whole.sum()) * model.unit, int(dearest.sum(axis=0).max()))
