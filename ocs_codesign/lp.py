"""Linear programs as arrays, and the solvers that take them whole.

A solver is a function from a LinearProgram to a Solution whose status explains itself; it raises
nothing for what solvers do (infeasible, no licence, too large). HiGHS is the default; Gurobi is
used when asked for, and its licence decides what sizes it takes. To add one, write such a function
and list it in SOLVERS.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Status(Enum):
    """How a solve ended; the value says it in a sentence."""

    OPTIMAL = "the solution is optimal within the solver's tolerances"
    INFEASIBLE = "no point satisfies all constraints"
    UNBOUNDED = "the objective can be improved without limit"
    TIME_LIMIT = "the time limit was reached before optimality"
    LICENCE_TOO_SMALL = "the solver's licence does not allow a program of this size"
    NO_LICENCE = "the solver has no valid licence on this machine"
    FAILED = "the solver stopped without a solution"


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Minimise ``cost @ x`` subject to row_lower <= A x <= row_upper, col_lower <= x <= col_upper.

    A is stored by rows: row i has ``values[start[i] : start[i + 1]]`` in the columns
    ``index[start[i] : start[i + 1]]``. Bounds may be infinite. Raises ValueError for shapes that do
    not fit.
    """

    cost: NDArray[np.float64]
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    values: NDArray[np.float64]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    col_lower: NDArray[np.float64]
    col_upper: NDArray[np.float64]

    def __post_init__(self) -> None:
        rows, columns = len(self.row_lower), len(self.cost)
        fits = (
            len(self.row_upper) == rows
            and len(self.start) == rows + 1
            and len(self.col_lower) == len(self.col_upper) == columns
            and len(self.index) == len(self.values) == (self.start[-1] if len(self.start) else 0)
            and (not len(self.index) or 0 <= self.index.min() <= self.index.max() < columns)
        )
        if not fits:
            raise ValueError(f"arrays of a program with {rows} rows, {columns} columns do not fit")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solver found: ``values`` and ``row_duals`` are None unless the status is OPTIMAL.

    ``objective`` is the value of the best point known, ``bound`` the proven lower bound.
    """

    status: Status
    solver: str
    objective: float | None = None
    bound: float | None = None
    values: NDArray[np.float64] | None = None
    row_duals: NDArray[np.float64] | None = None


def solve(
    program: LinearProgram, solver: str = "highs", time_limit_s: float | None = None
) -> Solution:
    """Solve on one thread with the named solver; ValueError if there is none of that name.

    >>> one = np.ones(1)
    >>> program = LinearProgram(one, np.array([0, 1]), np.array([0]), one, 3 * one, 9 * one,
    ...                         0 * one, 9 * one)
    >>> solve(program).objective
    3.0
    """
    if solver not in SOLVERS:
        raise ValueError(f"unknown solver {solver!r}: expected one of {', '.join(SOLVERS)}")
    return SOLVERS[solver](program, time_limit_s)


def as_fractions(
    values: NDArray[np.float64], max_denominator: int, tolerance: float = 1e-6
) -> list[Fraction]:
    """The nearest fractions of bounded denominator; ValueError if one is not within tolerance.

    >>> as_fractions(np.array([0.33333333, 1.0]), 4)
    [Fraction(1, 3), Fraction(1, 1)]
    """
    fractions = [Fraction(float(v)).limit_denominator(max_denominator) for v in values]
    for value, fraction in zip(values.tolist(), fractions, strict=True):
        if abs(value - fraction) > tolerance:
            raise ValueError(
                f"{value} is not within {tolerance} of a fraction of denominator "
                f"at most {max_denominator}"
            )
    return fractions


def solve_highs(program: LinearProgram, time_limit_s: float | None = None) -> Solution:
    """HiGHS through its array interface."""
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.cost), len(program.row_lower)
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.col_lower, program.col_upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = program.start
    model.a_matrix_.index_ = program.index
    model.a_matrix_.value_ = program.values
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    if time_limit_s is not None:
        highs.setOptionValue("time_limit", float(time_limit_s))
    if highs.passModel(model) == highspy.HighsStatus.kError:
        return Solution(Status.FAILED, "highs")
    highs.run()
    status = {
        highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
        highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
        highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
        highspy.HighsModelStatus.kTimeLimit: Status.TIME_LIMIT,
    }.get(highs.getModelStatus(), Status.FAILED)
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        status = _infeasible_or_unbounded(program, solve_highs, time_limit_s)
    if status is not Status.OPTIMAL:
        return Solution(status, "highs")
    found, info = highs.getSolution(), highs.getInfo()
    objective = float(info.objective_function_value)
    return Solution(
        status,
        "highs",
        objective,
        objective,
        np.array(found.col_value),
        np.array(found.row_dual),
    )


def solve_gurobi(program: LinearProgram, time_limit_s: float | None = None) -> Solution:
    """Gurobi through its matrix interface, without its banner; the licence limits the size."""
    import gurobipy
    from scipy.sparse import csr_matrix

    codes = {
        gurobipy.GRB.Error.NO_LICENSE: Status.NO_LICENCE,
        gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED: Status.LICENCE_TOO_SMALL,
    }
    shape = (len(program.row_lower), len(program.cost))
    matrix = csr_matrix((program.values, program.index, program.start), shape=shape)
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            model.Params.Threads = 1
            if time_limit_s is not None:
                model.Params.TimeLimit = float(time_limit_s)
            x = model.addMVar(
                shape[1], lb=program.col_lower, ub=program.col_upper, obj=program.cost
            )
            rows = _gurobi_rows(model, x, matrix, program)
            model.optimize()
            return _gurobi_solution(gurobipy.GRB, model, x, rows, program, time_limit_s)
    except gurobipy.GurobiError as error:
        return Solution(codes.get(error.errno, Status.FAILED), "gurobi")


def _gurobi_rows(model: Any, x: Any, matrix: Any, program: LinearProgram) -> list[Any]:
    """Constraints by kind, each with the rows it stands for."""
    lower, upper = program.row_lower, program.row_upper
    equal = lower == upper
    kinds = (
        (equal, "=", lower),
        (~equal & np.isfinite(upper), "<", upper),
        (~equal & np.isfinite(lower), ">", lower),
    )
    constraints = []
    for chosen, sense, side in kinds:
        rows = np.flatnonzero(chosen)
        if len(rows):
            constraints.append((rows, model.addMConstr(matrix[rows], x, sense, side[rows])))
    return constraints


def _gurobi_solution(
    grb: Any, model: Any, x: Any, rows: list[Any], program: LinearProgram, limit: float | None
) -> Solution:
    status = {
        grb.OPTIMAL: Status.OPTIMAL,
        grb.INFEASIBLE: Status.INFEASIBLE,
        grb.UNBOUNDED: Status.UNBOUNDED,
        grb.TIME_LIMIT: Status.TIME_LIMIT,
    }.get(model.Status, Status.FAILED)
    if model.Status == grb.INF_OR_UNBD:
        status = _infeasible_or_unbounded(program, solve_gurobi, limit)
    if status is not Status.OPTIMAL:
        return Solution(status, "gurobi")
    duals = np.zeros(len(program.row_lower))
    for chosen, constraint in rows:
        duals[chosen] += constraint.Pi
    objective = float(model.ObjVal)
    return Solution(status, "gurobi", objective, objective, np.array(x.X), duals)


def _infeasible_or_unbounded(
    program: LinearProgram,
    solver: Callable[[LinearProgram, float | None], Solution],
    limit: float | None,
) -> Status:
    """Which of the two: unbounded exactly if a point exists, that is if cost 0 has an optimum."""
    arrays = {name: getattr(program, name) for name in LinearProgram.__slots__}
    feasible = solver(LinearProgram(**{**arrays, "cost": np.zeros(len(program.cost))}), limit)
    return Status.UNBOUNDED if feasible.status is Status.OPTIMAL else feasible.status


SOLVERS: dict[str, Callable[[LinearProgram, float | None], Solution]] = {
    "highs": solve_highs,
    "gurobi": solve_gurobi,
}
"""Every solver by name."""
