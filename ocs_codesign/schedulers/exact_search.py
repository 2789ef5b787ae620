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

    from ocs_codesign.schedulers.exact_model import Broadcasts

_PARTS = 2**20
_NEARLY_ALL = _PARTS - 2**6
"""Floats are asked for cuts in parts of a shard, and a cut may be short of a shard by some."""
_WEIGHT = 2**26
_CLOSE = 1e-6


@final
@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """The least sum of times in shards for any number of chunks, in 1 / ``model.unit``; proven."""

    model: Broadcasts
    least: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What branch and bound found: sends (chunks x sends, boolean), and what none can be below."""

    sends: NDArray[np.bool_] | None
    least: int


def relaxation(model: Broadcasts, options: Options) -> Relaxation:
    """The least sum of times if every node could be served on its own.

    Any cuts prove a bound, so running out of time costs quality only. The points that cuts are
    asked of are in the middle of the optimal ones, where fewer cuts are violated than at vertices:
    N = 16, d = 2 in 5 steps took 7 s that way and 60 s with vertices.
    """
    began = time.monotonic()
    cuts = model.first_cuts()
    while True:
        left = options.after(time.monotonic() - began)
        program = model.relaxed_program(cuts)
        solution = solve(program, options=replace(left, method=IPX_NO_CROSSOVER))
        if solution.status is not Status.OPTIMAL:
            solution = solve(program, options=replace(left, method=SIMPLEX))
        if solution.status is not Status.OPTIMAL or solution.values is None:
            break
        amounts = np.rint(solution.values[: model.num_sends] * _PARTS).astype(np.int64)
        new = model.violated_cuts(amounts, _NEARLY_ALL)
        if not len(new):
            break
        cuts = np.unique(np.concatenate([cuts, new]), axis=0)
    solution = solve(program, options=replace(options, method=SIMPLEX))
    return Relaxation(model, _proven(model, program, cuts, solution))


def search(model: Broadcasts, num_chunks: int, least: int, most: int, options: Options) -> Found:
    """The sends of whole chunks with the least sum of times, from ``least`` to ``most``."""
    solution = solve(model.program(num_chunks, least, most), options=options)
    if solution.status is Status.INFEASIBLE:
        return Found(None, most + 1)
    if solution.bound is not None:
        least = max(least, ceil(solution.bound - _CLOSE))
    if solution.values is None or (solution.violation or 0.0) > _CLOSE:
        return Found(None, least)
    sends = solution.values[: num_chunks * model.num_sends] > 0.5
    return Found(sends.reshape(num_chunks, -1), least)


def _proven(
    model: Broadcasts, program: LinearProgram, cuts: NDArray[np.int64], solution: Solution
) -> Fraction:
    """The exact optimum of a relaxation, or else what the rounded duals of its cuts prove."""
    vertex = exact_vertex(program, solution)
    if vertex is not None:
        return vertex.objective
    weights = np.ones(len(cuts))
    if solution.row_duals is not None and (solution.row_duals[-len(cuts) :] > 0).any():
        weights = np.maximum(solution.row_duals[-len(cuts) :], 0)
    return weighted_bound(model, cuts, weights)


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
