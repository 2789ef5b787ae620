"""Gurobi through its matrix interface, without its banner."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.lp.program import (
    BRANCH_AND_BOUND,
    FIRST_ORDER,
    GUROBI,
    IPX,
    IPX_NO_CROSSOVER,
    SIMPLEX,
    Basis,
    BasisStatus,
    Raw,
    Status,
    unbounded_or_infeasible,
    without_package,
    without_point,
    worked_out,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.lp.program import LinearProgram, Options, Solution


NAME = GUROBI
SETTINGS: dict[str, tuple[tuple[str, int], ...]] = {
    SIMPLEX: (("Method", 1),),
    IPX: (("Method", 2),),
    IPX_NO_CROSSOVER: (("Method", 2), ("Crossover", 0)),
    FIRST_ORDER: (("Method", 6), ("Crossover", 0)),  # PDHG, since version 13
    BRANCH_AND_BOUND: (),
}
TOLERANCES = {
    SIMPLEX: ("FeasibilityTol", "OptimalityTol"),
    IPX: ("FeasibilityTol", "OptimalityTol", "BarConvTol"),
    IPX_NO_CROSSOVER: ("FeasibilityTol", "OptimalityTol", "BarConvTol"),
    FIRST_ORDER: ("PDHGRelTol", "PDHGConvTol"),
    BRANCH_AND_BOUND: ("FeasibilityTol", "OptimalityTol", "IntFeasTol"),
}
FREE_LICENCE = "the licence that comes with gurobipy takes 2000 variables and 2000 constraints"


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows that are stated with one sense, and the basis status of those that are not basic."""

    chosen: NDArray[np.int64]
    sense: str
    sides: NDArray[np.float64]
    nonbasic: BasisStatus


def solve_gurobi(program: LinearProgram, options: Options) -> Solution:
    """Solve with Gurobi; its licence limits the size, and one without licence is a status."""
    method = options.method_for(program)
    try:
        import gurobipy
    except ImportError as error:
        return without_package(error, NAME, method, "gurobipy")
    if method == FIRST_ORDER and gurobipy.gurobi.version() < (13,):
        method = IPX_NO_CROSSOVER  # it has no first-order method; the Solution names this one
    began = time.monotonic()
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            refused = _configure(gurobipy, model, method, options)
            if refused:
                return without_point(Status.REFUSED, NAME, method, refused)
            raw = _optimize(gurobipy.GRB, model, program, method)
    except gurobipy.GurobiError as error:
        return _explained(gurobipy.GRB.Error, error, program, method)
    if raw.status is Status.INFEASIBLE:
        return without_point(raw.status, NAME, method)
    if raw.status is Status.UNBOUNDED:
        left = options.after(time.monotonic() - began)
        status = unbounded_or_infeasible(program, solve_gurobi, left)
        return without_point(status, NAME, method)
    return worked_out(program, raw, NAME, method, options.tolerance)


def _configure(gurobipy: Any, model: Any, method: str, options: Options) -> str:
    """Set all parameters; the sentence of the one that Gurobi does not take, or nothing."""
    settings: list[tuple[str, Any]] = [("Threads", options.threads), *SETTINGS[method]]
    if options.time_limit_s is not None:
        settings.append(("TimeLimit", float(options.time_limit_s)))
    if options.tolerance is not None:
        settings += [(name, options.tolerance) for name in TOLERANCES[method]]
    if method == BRANCH_AND_BOUND:
        settings.append(("MIPGap", options.mip_gap))
        if options.node_limit is not None:
            settings.append(("NodeLimit", float(options.node_limit)))
    for name, value in settings:
        try:
            model.setParam(name, value)
        except gurobipy.GurobiError:
            return f"it does not take {name} = {value}"
    return ""


def _explained(codes: Any, error: Any, program: LinearProgram, method: str) -> Solution:
    status, reason = Status.FAILED, f"Gurobi's error {error.errno} ({error})"
    if error.errno == codes.NO_LICENSE:
        status = Status.NO_LICENCE
    elif error.errno == codes.OUT_OF_MEMORY:
        status = Status.MEMORY
    elif error.errno == codes.SIZE_LIMIT_EXCEEDED:
        status = Status.LICENCE_TOO_SMALL
        constraints = sum(len(rows.chosen) for rows in _rows(program))
        size = f"{program.num_columns} variables and {constraints} constraints"
        reason = f"this one has {size} (range rows count twice); {FREE_LICENCE}"
    return without_point(status, NAME, method, reason)


def _rows(program: LinearProgram) -> list[_Rows]:
    """Rows by sense: range rows are in two, free rows in none."""
    lower, upper = program.row_lower, program.row_upper
    equal = lower == upper
    above, below = np.isfinite(lower) & ~equal, np.isfinite(upper) & ~equal
    senses = (
        (equal, "=", lower, BasisStatus.LOWER),
        (below, "<", upper, BasisStatus.UPPER),
        (above, ">", lower, BasisStatus.LOWER),
    )
    return [
        _Rows(np.flatnonzero(mask), sense, side[mask], nonbasic)
        for mask, sense, side, nonbasic in senses
        if mask.any()
    ]


def _optimize(grb: Any, model: Any, program: LinearProgram, method: str) -> Raw:
    kinds = np.full(program.num_columns, grb.CONTINUOUS)
    if program.integer is not None:
        kinds[np.asarray(program.integer, dtype=bool)] = grb.INTEGER
    x = model.addMVar(
        program.num_columns,
        lb=program.col_lower,
        ub=program.col_upper,
        obj=program.cost,
        vtype=kinds,
    )
    matrix, parts = program.matrix(), _rows(program)
    constraints = [model.addMConstr(matrix[p.chosen], x, p.sense, p.sides) for p in parts]
    model.optimize()
    status = _status(grb, model.Status)
    if program.is_mixed_integer:
        bound = _attribute(model, "ObjBound")
        finite = bound is not None and abs(bound) < grb.INFINITY
        how = f"{method} ({model.NodeCount:.0f} nodes)"
        return Raw(status, how, _array(x, "X"), bound=float(bound) if finite else None)
    counts = {
        "simplex": model.IterCount,
        "interior point": max(model.BarIterCount, 0),
        "first-order": _attribute(model, "PDHGIterCount") or 0,
    }
    how = " and ".join(f"{n:.0f} {name} iterations" for name, n in counts.items() if n > 0)
    return Raw(
        status,
        f"{method} ({how or 'solved by presolve'})",
        _first(x, "X", "BarX"),
        _row_duals(program, parts, constraints),
        _basis(program, x, parts, constraints),
    )


def _status(grb: Any, code: int) -> Status:
    return {
        grb.OPTIMAL: Status.OPTIMAL,
        grb.INFEASIBLE: Status.INFEASIBLE,
        grb.UNBOUNDED: Status.UNBOUNDED,
        grb.INF_OR_UNBD: Status.UNBOUNDED,
        grb.TIME_LIMIT: Status.TIME_LIMIT,
        grb.NODE_LIMIT: Status.NODE_LIMIT,
        grb.MEM_LIMIT: Status.MEMORY,
        grb.INTERRUPTED: Status.INTERRUPTED,
    }.get(code, Status.FAILED)


def _attribute(owner: Any, name: str) -> Any:
    """An attribute of Gurobi's, None where this version or this state has none."""
    import gurobipy

    try:
        return getattr(owner, name)
    except (gurobipy.GurobiError, AttributeError):
        return None


def _array(owner: Any, name: str) -> NDArray[np.float64] | None:
    values = _attribute(owner, name)
    return None if values is None else np.array(values, dtype=np.float64)


def _first(owner: Any, *names: str) -> NDArray[np.float64] | None:
    """The first of the attributes that is there: an early stop may leave only the barrier's."""
    return next((values for name in names if (values := _array(owner, name)) is not None), None)


def _row_duals(
    program: LinearProgram, parts: list[_Rows], constraints: list[Any]
) -> NDArray[np.float64] | None:
    duals = np.zeros(program.num_rows)
    for part, stated in zip(parts, constraints, strict=True):
        of_part = _first(stated, "Pi", "BarPi")
        if of_part is None:
            return None
        duals[part.chosen] += of_part
    return duals


def _basis(
    program: LinearProgram, x: Any, parts: list[_Rows], constraints: list[Any]
) -> Basis | None:
    """Of the two constraints of a range row at most one is nonbasic, and it says at which bound."""
    codes = _array(x, "VBasis")
    if codes is None:
        return None
    columns = np.select(
        [codes == 0, codes == -1, codes == -2],
        [BasisStatus.BASIC, BasisStatus.LOWER, BasisStatus.UPPER],
        BasisStatus.ZERO,
    )
    free = ~np.isfinite(program.col_lower) & (columns == BasisStatus.LOWER)
    columns[free] = BasisStatus.ZERO
    statuses = np.full(program.num_rows, BasisStatus.BASIC, dtype=np.int8)
    for part, stated in zip(parts, constraints, strict=True):
        of_part = _array(stated, "CBasis")
        if of_part is None:
            return None
        statuses[part.chosen[of_part < 0]] = part.nonbasic
    return Basis(columns.astype(np.int8), statuses)
