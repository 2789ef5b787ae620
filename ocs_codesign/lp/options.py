"""What to ask of a solver, in the same words for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ocs_codesign.lp.program import LinearProgram
    from ocs_codesign.lp.solution import Basis

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
    where the simplex method of HiGHS begins, which saves it time; others do without.
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
