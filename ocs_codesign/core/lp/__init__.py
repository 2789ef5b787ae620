"""Linear and mixed-integer programs as arrays, and the solvers that take them whole.

A solver is a function from a LinearProgram and Options to a Solution whose status explains itself;
it raises nothing for what solvers do (infeasible, no licence, too large, out of time). HiGHS is the
default; Gurobi is used when asked for, and its licence decides what sizes it takes. To add one,
write such a function in a module and list it in SOLVERS.

A vertex may be refined to the exact optimum in rationals: see refine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ocs_codesign.core.lp.exact import ExactSolution, NotExact, exact_vertex, refine
from ocs_codesign.core.lp.gurobi import solve_gurobi
from ocs_codesign.core.lp.highs import solve_highs
from ocs_codesign.core.lp.program import (
    AUTO,
    BRANCH_AND_BOUND,
    DEFAULT_OPTIONS,
    GUROBI,
    HIGHS,
    METHODS,
    NOT_TAKEN,
    Basis,
    BasisStatus,
    LinearProgram,
    Options,
    Solution,
    SolverUnavailableError,
    Status,
    without_point,
)

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = [
    "DEFAULT_OPTIONS",
    "METHODS",
    "SOLVERS",
    "Basis",
    "BasisStatus",
    "ExactSolution",
    "LinearProgram",
    "NotExact",
    "Options",
    "Solution",
    "SolverUnavailableError",
    "Status",
    "exact_vertex",
    "refine",
    "solve",
]

SOLVERS: dict[str, Callable[[LinearProgram, Options], Solution]] = {
    HIGHS: solve_highs,
    GUROBI: solve_gurobi,
}
"""Every solver by name."""


def solve(
    program: LinearProgram, solver: str | None = None, options: Options | None = None
) -> Solution:
    """Solve with the named solver (else the one of the options), on one thread unless they say so.

    If it cannot take the program and ``options.fallback`` names another one, that one solves, and
    the message says why. Raises ValueError for a name that is not in SOLVERS.
    """
    options = options or Options()
    solver = options.solver if solver is None else solver
    for name in (solver, options.fallback):
        if name is not None and name not in SOLVERS:
            raise ValueError(f"unknown solver {name!r}: expected one of {', '.join(SOLVERS)}")
    if program.is_mixed_integer and options.method != AUTO:
        reason = f"integer columns need {BRANCH_AND_BOUND}, not {options.method}"
        return without_point(Status.REFUSED, solver, options.method, reason)
    first = SOLVERS[solver](program, options)
    if options.fallback is None or first.status not in NOT_TAKEN:
        return first
    second = SOLVERS[options.fallback](program, options)
    return replace(second, message=f"{second.message} (fallback, since {first.message})")
