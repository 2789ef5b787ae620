"""Ways to spoil a schedule, one send at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

Columns = list[np.ndarray]
"""root, lo, hi, link, step and, in an allreduce, phase, all writable."""


def without(schedule: Schedule, row: int) -> Schedule:
    """The schedule without one of its sends."""
    columns = [np.delete(column, row) for column in schedule.columns()]
    return Schedule(schedule.topology, schedule.collective, schedule.num_chunks, *columns)


def delete(schedule: Schedule, columns: Columns, row: int, random: np.random.Generator) -> Columns:
    """The send does not happen."""
    del schedule, random
    return [np.delete(column, row) for column in columns]


def duplicate(
    schedule: Schedule, columns: Columns, row: int, random: np.random.Generator
) -> Columns:
    """The send happens twice, in one step or two."""
    del schedule
    doubled = [np.append(column, column[row]) for column in columns]
    doubled[4][-1] += random.integers(0, 3)
    return doubled


def move(schedule: Schedule, columns: Columns, row: int, random: np.random.Generator) -> Columns:
    """The send crosses another link."""
    links = schedule.topology.num_links
    columns[3][row] = (columns[3][row] + random.integers(1, links)) % links
    return columns


def delay(schedule: Schedule, columns: Columns, row: int, random: np.random.Generator) -> Columns:
    """The send happens a step or two later."""
    del schedule
    columns[4][row] += random.integers(1, 3)
    return columns


def advance(schedule: Schedule, columns: Columns, row: int, random: np.random.Generator) -> Columns:
    """The send happens earlier, or, if it is of the first step, later."""
    del schedule
    step = columns[4][row]
    columns[4][row] = random.integers(1, step) if step > 1 else 2
    return columns


def change_root(
    schedule: Schedule, columns: Columns, row: int, random: np.random.Generator
) -> Columns:
    """The send carries another root's shard."""
    nodes = schedule.topology.num_nodes
    columns[0][row] = (columns[0][row] + random.integers(1, nodes)) % nodes
    return columns


def change_interval(
    schedule: Schedule, columns: Columns, row: int, random: np.random.Generator
) -> Columns:
    """The send carries other chunks."""
    before = columns[1][row], columns[2][row]
    while (columns[1][row], columns[2][row]) == before:
        lo, hi = sorted(random.choice(schedule.num_chunks + 1, 2, replace=False).tolist())
        columns[1][row], columns[2][row] = lo, hi
    return columns


def swap_phase(
    schedule: Schedule, columns: Columns, row: int, random: np.random.Generator
) -> Columns:
    """The send sums where it copied or copies where it summed."""
    del schedule, random
    columns[5][row] = 1 - columns[5][row]
    return columns


MUTATIONS: dict[str, Callable[..., Columns]] = {
    function.__name__: function
    for function in (
        delete,
        duplicate,
        move,
        delay,
        advance,
        change_root,
        change_interval,
        swap_phase,
    )
}


def applicable(name: str, schedule: Schedule) -> bool:
    """Whether a schedule can be spoiled in that way."""
    if name == "swap_phase":
        return schedule.phase is not None
    return name != "change_interval" or schedule.num_chunks > 1


def mutated(schedule: Schedule, name: str, row: int, random: np.random.Generator) -> Schedule:
    """The schedule with one send spoiled."""
    columns = [column.copy() for column in schedule.columns()]
    spoiled = MUTATIONS[name](schedule, columns, row, random)
    return Schedule(schedule.topology, schedule.collective, schedule.num_chunks, *spoiled)
