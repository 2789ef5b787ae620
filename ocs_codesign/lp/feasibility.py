"""Tell unbounded from infeasible, which solvers leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp.options import AUTO
from ocs_codesign.lp.solution import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.lp.options import Options
    from ocs_codesign.lp.program import LinearProgram
    from ocs_codesign.lp.solution import Solution


def unbounded_or_infeasible(
    program: LinearProgram,
    solver: Callable[[LinearProgram, Options], Solution],
    options: Options,
) -> Status:
    """Which of the two, for a program without an optimum: unbounded exactly if a point exists.

    A ray alone proves nothing: Gurobi calls a program unbounded without having seen a point.
    """
    if not program.cost.any():
        return Status.INFEASIBLE
    anywhere = replace(program, cost=np.zeros(program.num_columns))
    found = solver(anywhere, replace(options, method=AUTO))
    return Status.UNBOUNDED if found.status is Status.OPTIMAL else found.status
