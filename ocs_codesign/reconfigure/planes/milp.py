"""Planes by mixed-integer programming: which program, what its solution means, what it proves."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.lp import solve
from ocs_codesign.reconfigure.planes import milp_flows, milp_paths
from ocs_codesign.reconfigure.planes.draft import Draft
from ocs_codesign.reconfigure.planes.times import timed

if TYPE_CHECKING:
    from ocs_codesign.lp import Options, Solution
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem, Usage

MAX_ARCS = 200_000
"""Arcs of the largest program that is written."""


_SLACK = 1e-4
"""How much worse than what is known a solution may be, so that none is cut off by rounding."""


def has_flows(problem: PlaneProblem) -> bool:
    """Whether planes are so much alike that the program of flows has the optimum."""
    cost = problem.cost
    if not (cost.overlap and cost.barrier):
        return False
    needed = sorted(set(problem.configurations))
    waits = {problem.dead_time_s(a, b) for a in {*needed, *problem.held} for b in needed}
    return len(waits - {0}) <= 1


def by_milp(problem: PlaneProblem, start: Usage, options: Options) -> Draft:
    """The best usage that the solver finds in its time, and the bound that it proves.

    ``start`` is a usage that is known: nothing worse is searched. ValueError if the program would
    have more than MAX_ARCS arcs, SolverUnavailableError if no solver takes it.
    """
    steps, flows = problem.num_steps, has_flows(problem)
    arcs = steps * (steps + 1) // 2 * problem.num_planes
    if arcs > MAX_ARCS:
        raise ValueError(
            f"{steps} steps on {problem.num_planes} planes are too many for a mixed-integer "
            f"program: it would have {arcs} arcs, and {MAX_ARCS} are the most"
        )
    known = timed(problem, start)
    unit = float(known.total_s) / steps
    cap = steps * (1 + _SLACK)
    if flows:
        found = milp_flows.flow_program(problem, unit, cap)
        solution = solve(found.program, options=options).taken()
        latency = float(problem.latency_s) / unit
        read = milp_flows.usage_of
        usage = None if solution.values is None else read(found, solution.values, latency)
    else:
        paths = milp_paths.path_program(problem, unit, cap)
        solution = solve(paths.program, options=options).taken()
        usage = None
        if solution.values is not None:
            usage = milp_paths.usage_of(paths, solution.values)
    answer = known
    if usage is not None:
        answer = min(timed(problem, usage), known, key=lambda one: one.total_s)
    return Draft(answer.usage, _bound(solution, unit, answer.total_s), solution.message)


def _bound(solution: Solution, unit: float, total_s: Fraction) -> Fraction:
    """What the solver proves in seconds."""
    if solution.bound is None:
        return Fraction(0)
    return max(Fraction(0), min(Fraction(solution.bound) * Fraction(unit), total_s))
