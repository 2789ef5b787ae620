"""How a solve ended and what it left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp.program import LinearProgram


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
@dataclass(frozen=True, slots=True, eq=False)
class Basis:
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
