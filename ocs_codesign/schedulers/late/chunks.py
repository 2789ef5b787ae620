"""From amounts of arrivals to whole chunks."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from math import ceil, lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import exact_vertex, solve
from ocs_codesign.lp.options import SIMPLEX
from ocs_codesign.schedulers.exact.rows import allgather_of
from ocs_codesign.schedulers.exact.search import CLOSE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.lp import ExactSolution, Options
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.late.master import Master
    from ocs_codesign.schedulers.late.search import Mixed

MAX_CHUNKS = 64
"""Most chunks a shard unless others are asked for."""

_SHARE = 0.25
"""Of the time that is left, for each number of chunks."""
_NODE_LIMIT = 50
"""Of each number of chunks, unless the options name another: others come soon, and where time does
not run out the answer is the same on every machine."""


def cut_into_chunks(found: Mixed, max_chunks: int, options: Options) -> list[Schedule]:
    """Allgathers in whole chunks, each with a lower t_b than the one before; the last is the best.

    Numbers of chunks are tried in ascending order by integer programs, as long as time suffices and
    more could be better; what an exact vertex needs is whole without one.
    """
    began, master = time.monotonic(), found.master
    options = replace(options, node_limit=options.node_limit or _NODE_LIMIT)
    left = options.after(0.0)
    vertex = _vertex(master, left)
    goal = found.least if vertex is None else vertex.objective
    needed = 0 if vertex is None else lcm(*(value.denominator for value in vertex.values))
    made: list[Schedule] = []
    best: Fraction | None = None
    for num_chunks in _numbers(max_chunks):
        if best is not None and best <= goal:
            return made
        left = options.after(time.monotonic() - began)
        if left.time_limit_s == 0:
            break
        # Times are whole numbers of chunks, so a sum of them is.
        if best is not None and Fraction(ceil(goal * num_chunks), num_chunks) >= best:
            continue
        if left.time_limit_s is not None:
            left = replace(left, time_limit_s=_SHARE * left.time_limit_s)
        schedule, total = _in_chunks(master, num_chunks, left)
        if schedule is not None and (best is None or total < best):
            made, best = [*made, schedule], total
    if vertex is not None and needed <= max_chunks and (best is None or goal < best):
        whole = np.array([int(value * needed) for value in vertex.values])
        made.append(allgather_of(master.model, master.sends_of(whole, needed)))
    return made


def _vertex(master: Master, options: Options) -> ExactSolution | None:
    program = master.program()
    return exact_vertex(program, solve(program, options=replace(options, method=SIMPLEX)))


def _in_chunks(
    master: Master, num_chunks: int, options: Options
) -> tuple[Schedule | None, Fraction]:
    """The best in so many chunks that the time limit allows, and its sum of times."""
    solution = solve(master.program(num_chunks, integral=True), options=options).taken()
    if solution.values is None or (solution.violation or 0.0) > CLOSE:
        return None, Fraction(0)
    values = np.rint(solution.values).astype(np.int64)
    schedule = allgather_of(master.model, master.sends_of(values, num_chunks))
    return schedule, sum(schedule.max_loads(), Fraction(0)) * master.model.unit


def _numbers(max_chunks: int) -> Iterator[int]:
    """Numbers of chunks to try: all up to 12, then those with many divisors."""
    more = (14, 15, 16, 18, 20, 24, 28, 30, 32, 36, 40, 42, 45, 48, 54, 56, 60, 64)
    return (number for number in (*range(1, 13), *more) if number <= max_chunks)
