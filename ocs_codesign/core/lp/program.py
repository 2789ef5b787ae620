"""Linear and mixed-integer programs as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Minimise ``cost @ x`` subject to row_lower <= A x <= row_upper, col_lower <= x <= col_upper.

    A is stored by rows: row i has ``values[start[i] : start[i + 1]]`` in the columns
    ``index[start[i] : start[i + 1]]``, each column at most once. Bounds may be infinite. Columns
    where ``integer`` is true take integers only. Raises ValueError for shapes that do not fit and
    for numbers that are none.
    """

    cost: NDArray[np.float64]
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    values: NDArray[np.float64]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    col_lower: NDArray[np.float64]
    col_upper: NDArray[np.float64]
    integer: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        rows, columns = self.num_rows, self.num_columns
        fits = (
            len(self.row_upper) == rows
            and len(self.start) == rows + 1
            and len(self.col_lower) == len(self.col_upper) == columns
            and len(self.index) == len(self.values) == (self.start[-1] if len(self.start) else 0)
            and self.start[0] == 0
            and bool((np.diff(self.start) >= 0).all())
            and (not len(self.index) or 0 <= self.index.min() <= self.index.max() < columns)
            and (self.integer is None or len(self.integer) == columns)
        )
        if not fits:
            raise ValueError(f"arrays of a program with {rows} rows, {columns} columns do not fit")
        for name in ("cost", "values"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} of a program must be finite")
        for side in ("row", "col"):
            lower, upper = getattr(self, f"{side}_lower"), getattr(self, f"{side}_upper")
            if not ((lower < np.inf).all() and (upper > -np.inf).all()):
                raise ValueError(
                    f"{side} bounds must be numbers, inf only above and -inf only below"
                )

    @property
    def num_rows(self) -> int:
        """How many constraints there are."""
        return len(self.row_lower)

    @property
    def num_columns(self) -> int:
        """How many variables there are."""
        return len(self.cost)

    @property
    def is_mixed_integer(self) -> bool:
        """Whether some column takes integers only."""
        return self.integer is not None and bool(np.any(self.integer))

    def matrix(self) -> Any:
        """A as a scipy sparse matrix by rows."""
        from scipy.sparse import csr_matrix

        shape = (self.num_rows, self.num_columns)
        return csr_matrix((self.values, self.index, self.start), shape=shape)

    def violation(self, values: NDArray[np.float64]) -> float:
        """By how much ``values`` miss the worst of all rows, bounds and integrality conditions."""
        activity = self.matrix() @ values
        misses = [
            self.row_lower - activity,
            activity - self.row_upper,
            self.col_lower - values,
            values - self.col_upper,
        ]
        if self.integer is not None:
            misses.append(np.abs(values - np.rint(values))[np.asarray(self.integer, dtype=bool)])
        return float(max([0.0, *(miss.max() for miss in misses if len(miss))]))


# What to ask of a solver, in the same words for all of them.


AUTO, SIMPLEX, IPX, FIRST_ORDER = "auto", "simplex", "ipx", "first-order"
IPX_NO_CROSSOVER = "ipx-no-crossover"
METHODS = (AUTO, SIMPLEX, IPX, IPX_NO_CROSSOVER, FIRST_ORDER)
"""Ways to solve a linear program; the first three end in a vertex with its basis."""

BRANCH_AND_BOUND = "branch-and-bound"
"""The method of every program with integer columns."""

HIGHS, GUROBI = "highs", "gurobi"

MIP_GAP = 1e-6
"""Relative gap at which a mixed-integer solution is optimal unless the options name another."""

SIMPLEX_UP_TO = 2000
"""Rows and columns up to which AUTO takes simplex: on all-to-all programs ipx is 3 times as fast
with 4,000 columns and 12 times with 16,000."""


@final
@dataclass(frozen=True, slots=True)
class Options:
    """How to solve; None leaves a number to the solver.

    ``method`` is one of METHODS: "ipx" is interior point with crossover to a vertex, "first-order"
    the primal-dual hybrid gradient method. ``tolerance`` bounds how far a solution may be from
    feasible and optimal (relative for first-order and interior point); ``relative_gap`` is what a
    result may be from its bound and still be good enough: a mixed-integer solution (default
    MIP_GAP), or what an all-to-all is approximated to. ``node_limit`` ends a branch and bound after
    so many nodes: unlike a time limit, at the same point on every machine. ``solver`` names the one
    that solves, ``fallback`` another for where it cannot take the program because of its licence or
    an option. ``start`` is the basis of a program with the same columns and the first of the rows:
    where the simplex method of HiGHS begins, which saves it time; others do without. Without
    ``presolve`` HiGHS takes a program as it stands; others do as they like.
    A solver that cannot honour an option says so with Status.REFUSED. Raises ValueError for what no
    solver could honour.

    >>> Options("ipx", time_limit_s=60.0).after(45.0).time_limit_s
    15.0
    """

    method: str = AUTO
    time_limit_s: float | None = None
    relative_gap: float | None = None
    node_limit: int | None = None
    tolerance: float | None = None
    threads: int = 1
    solver: str = HIGHS
    fallback: str | None = None
    start: Basis | None = field(default=None, compare=False, repr=False)
    presolve: bool = True

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"unknown method {self.method!r}: expected one of {', '.join(METHODS)}"
            )
        if self.time_limit_s is not None and not self.time_limit_s >= 0:
            raise ValueError(f"time limit of {self.time_limit_s} s: it must be at least 0")
        if self.relative_gap is not None and not self.relative_gap >= 0:
            raise ValueError(f"relative gap {self.relative_gap}: it must be at least 0")
        if self.node_limit is not None and self.node_limit < 1:
            raise ValueError(f"limit of {self.node_limit} nodes: it must be at least 1")
        if self.tolerance is not None and not self.tolerance > 0:
            raise ValueError(f"tolerance {self.tolerance}: it must be positive")
        if self.threads < 1:
            raise ValueError(f"{self.threads} threads: it must be at least 1")

    @property
    def mip_gap(self) -> float:
        """Relative gap at which branch and bound ends."""
        return MIP_GAP if self.relative_gap is None else self.relative_gap

    def method_for(self, program: LinearProgram) -> str:
        """What AUTO means for a program; other methods are themselves."""
        if program.is_mixed_integer:
            return BRANCH_AND_BOUND
        if self.method != AUTO:
            return self.method
        return SIMPLEX if program.num_rows + program.num_columns <= SIMPLEX_UP_TO else IPX

    def after(self, elapsed_s: float) -> Options:
        """The same options with the time that is left."""
        if self.time_limit_s is None:
            return self
        return replace(self, time_limit_s=max(0.0, self.time_limit_s - elapsed_s))


DEFAULT_OPTIONS = Options()


# How a solve ended and what it left.


class Status(Enum):
    """How a solve ended; the value says it in a sentence."""

    OPTIMAL = "the solution is optimal within the solver's tolerances"
    INFEASIBLE = "no point satisfies all constraints"
    UNBOUNDED = "the objective can be improved without limit"
    TIME_LIMIT = "the time limit was reached before optimality"
    NODE_LIMIT = "the limit of nodes was reached before optimality"
    MEMORY = "the solver ran out of memory before optimality"
    INTERRUPTED = "the solver was interrupted before optimality"
    LICENCE_TOO_SMALL = "the solver's licence does not allow a program of this size"
    NO_LICENCE = "the solver has no valid licence on this machine"
    NOT_INSTALLED = "the solver's package is not installed"
    REFUSED = "the solver cannot honour one of the options"
    FAILED = "the solver stopped before it reached its tolerances"


FEASIBLE = 1e-6
"""Violation up to which the last iterate of an unfinished solve counts as a feasible point."""

NOT_TAKEN = (Status.LICENCE_TOO_SMALL, Status.NO_LICENCE, Status.NOT_INSTALLED, Status.REFUSED)
"""Ends of a solver that could not take the program, where another one may."""


class BasisStatus(IntEnum):
    """Where a column or a row's activity is in a basis: at a bound, basic, or free and at 0."""

    LOWER = 0
    BASIC = 1
    UPPER = 2
    ZERO = 3


@final
class Basis(NamedTuple):
    """A BasisStatus for every column and row; as many of all are basic as there are rows."""

    columns: NDArray[np.int8]
    rows: NDArray[np.int8]


class SolverUnavailableError(RuntimeError):
    """The solver cannot take a program: no licence or too small a one, no package, an option.

    The message says which; another solver, as ``Options.fallback`` names one, may take it.
    """


@final
@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solver found; ``message`` says it in a sentence with numbers.

    ``solver`` and ``method`` are those that were really used. ``values`` are the optimum or, if the
    solve stopped early, the best point or last iterate that the solver kept: ``violation`` says by
    how much it misses the worst constraint, and ``objective`` is its cost. ``bound`` is a lower
    bound on the optimum: proven for a mixed-integer program, else the dual objective. Duals are
    derivatives of the optimum: ``row_duals`` by the bounds of rows, ``col_duals`` (reduced costs,
    cost - A^T row_duals) by those of columns. ``basis`` is there after simplex and crossover.
    """

    status: Status
    solver: str
    method: str
    message: str
    objective: float | None = None
    bound: float | None = None
    violation: float | None = None
    values: NDArray[np.float64] | None = None
    row_duals: NDArray[np.float64] | None = None
    col_duals: NDArray[np.float64] | None = None
    basis: Basis | None = None

    @property
    def has_point(self) -> bool:
        """Whether there are values, optimal or not."""
        return self.values is not None

    def taken(self) -> Solution:
        """The solution itself, of a solver that took the program and was left to end.

        Raises SolverUnavailableError with the message for the statuses NOT_TAKEN and
        KeyboardInterrupt if the user interrupted it.
        """
        if self.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if self.status in NOT_TAKEN:
            raise SolverUnavailableError(self.message)
        return self

    def point_and_duals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``values`` and ``row_duals``; RuntimeError with the message if one is missing.

        Raises as ``taken`` does, too.
        """
        self.taken()
        if self.values is None or self.row_duals is None:
            raise RuntimeError(self.message)
        return self.values, self.row_duals

    @property
    def relative_gap(self) -> float | None:
        """|objective - bound| / |objective|; None without a bound or a feasible point."""
        if self.objective is None or self.bound is None or self.violation is None:
            return None
        if self.status is not Status.OPTIMAL and self.violation > FEASIBLE:
            return None
        difference = abs(self.objective - self.bound)
        return difference and (difference / abs(self.objective) if self.objective else np.inf)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """What a solver's own objects say, before the numbers are worked out in one place."""

    status: Status
    how: str
    values: NDArray[np.float64] | None = None
    row_duals: NDArray[np.float64] | None = None
    basis: Basis | None = None
    bound: float | None = None


def without_point(status: Status, solver: str, method: str, reason: str = "") -> Solution:
    """A solution that is only a status and its sentence."""
    message = f"{solver}: {status.value}" + (f": {reason}" if reason else "")
    return Solution(status, solver, method, message)


def without_package(error: ImportError, solver: str, method: str, package: str) -> Solution:
    """The solution of a solver whose package cannot be imported.

    A compiled package makes an ImportError of a Ctrl-C that comes while it is loaded: that one is
    raised as what it was.
    """
    if isinstance(error.__cause__, KeyboardInterrupt):
        raise error.__cause__
    return without_point(Status.NOT_INSTALLED, solver, method, f"pip install {package}")


def worked_out(
    program: LinearProgram, raw: Raw, solver: str, method: str, tolerance: float | None
) -> Solution:
    """The solution with objective, violation, reduced costs and bound of the program itself."""
    objective = violation = col_duals = None
    bound = raw.bound
    if raw.values is not None:
        objective = float(program.cost @ raw.values)
        violation = program.violation(raw.values)
    if raw.row_duals is not None:
        col_duals = program.cost - program.matrix().T @ raw.row_duals
        # At an optimum the solver vouches for the signs; elsewhere only its tolerance excuses them.
        scale = 1 + float(np.abs(program.cost).max(initial=0.0))
        slack = np.inf if raw.status is Status.OPTIMAL else (tolerance or 1e-7) * scale
        bound = dual_bound(program, raw.row_duals, col_duals, slack)
    numbers = {"objective": objective, "bound": bound, "largest violation": violation}
    said = [f"{name} {number:.9g}" for name, number in numbers.items() if number is not None]
    message = f"{solver}, {raw.how}: {'; '.join([raw.status.value, *said])}"
    return Solution(
        raw.status,
        solver,
        method,
        message,
        objective,
        bound,
        violation,
        raw.values,
        raw.row_duals,
        col_duals,
        raw.basis,
    )


def dual_bound(
    program: LinearProgram,
    row_duals: NDArray[np.float64],
    col_duals: NDArray[np.float64],
    slack: float,
) -> float | None:
    """The dual objective: every dual times the bound that its sign points at.

    By weak duality no point costs less. A dual of up to ``slack`` that points at an infinite bound
    counts as 0; a larger one proves nothing, and the answer is None.
    """
    total = 0.0
    for dual, lower, upper in (
        (row_duals, program.row_lower, program.row_upper),
        (col_duals, program.col_lower, program.col_upper),
    ):
        side = np.where(dual > 0, lower, upper)
        infinite = ~np.isfinite(side)
        if np.abs(dual[infinite]).max(initial=0.0) > slack:
            return None
        total += float(dual[~infinite] @ side[~infinite])
    return total


# Tell unbounded from infeasible, which solvers leave open.


def unbounded_or_infeasible(
    program: LinearProgram, solver: Callable[[LinearProgram, Options], Solution], options: Options
) -> Status:
    """Which of the two, for a program without an optimum: unbounded exactly if a point exists.

    A ray alone proves nothing: Gurobi calls a program unbounded without having seen a point.
    """
    if not program.cost.any():
        return Status.INFEASIBLE
    anywhere = replace(program, cost=np.zeros(program.num_columns))
    found = solver(anywhere, replace(options, method=AUTO))
    return Status.UNBOUNDED if found.status is Status.OPTIMAL else found.status
