"""What the label search needs to know of a problem, as arrays in one unit of time."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.reconfigure.planes.labels import Entries

if TYPE_CHECKING:
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem


def unit_of(problem: PlaneProblem) -> Fraction:
    """The longest time that one plane may be busy with one thing, in seconds."""
    needed = set(problem.configurations)
    waits = (problem.dead_time_s(held, one) for held in {*problem.held, *needed} for one in needed)
    return max(*problem.send_s, problem.latency_s, *waits)


def entries_of(
    problem: PlaneProblem,
    unit: Fraction,
    first: int = 0,
    last: int | None = None,
    *,
    free: bool = False,
) -> Entries:
    """The entries of the steps ``first`` to ``last`` (from 0, end excluded), times in units.

    ``free``: planes hold in the beginning whatever is best for them, a relaxation.
    """
    configurations = problem.configurations[first:last]
    needed = sorted(set(configurations))
    column = {one: at for at, one in enumerate(needed)}
    rest = {one for one in problem.held if one not in column}
    held: list[int | None] = [*needed, *sorted(one for one in rest if one is not None)]
    held += [None] if None in rest and not free else []
    code = {one: at for at, one in enumerate(held)}
    dead = np.array([[float(problem.dead_time_s(a, b) / unit) for b in needed] for a in held])
    start = (
        tuple(code[one] for one in problem.held) if not free else (len(held),) * problem.num_planes
    )
    if free:
        dead = np.vstack([dead, np.zeros(len(needed))])
    kind = np.array([column[one] for one in configurations], dtype=np.int64)
    send = np.array([float(one / unit) for one in problem.send_s[first:last]])
    return Entries(send, float(problem.latency_s / unit), dead, kind, kind, start)
