"""Planes that keep most held circuits as an integer program, with bounds that are checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.lp import LinearProgram, Options, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes

DUAL_BITS = 30
"""Duals are rounded to so many binary digits; what is lost is added to the bound."""
ROUNDING = 1e-6


@final
@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The ways to put circuits on planes: each is a column of a program with 0 or 1.

    Circuits between the same nodes are one pair. Column j puts a circuit of ``pair[j]`` in
    ``plane[j]`` from ``a[j]`` to ``b[j]`` and keeps ``kept[j]`` (0 or 1) circuits; ``count`` is
    how many circuits each pair has, ``pair_of`` the pair of every circuit. Pairs of different
    ``part`` share no port.
    """

    count: NDArray[np.int64]
    pair_of: NDArray[np.int64]
    part: NDArray[np.int64]
    pair: NDArray[np.int64]
    plane: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    kept: NDArray[np.int64]
    b_side: int

    @property
    def most_kept_by_count(self) -> int:
        """Held circuits that are in the target at all: no planes keep more."""
        held = np.bincount(self.pair, weights=self.kept, minlength=len(self.count))
        return int(np.minimum(held, self.count).sum())


def choices(planes: Planes, held: NDArray[np.int32]) -> Choices:
    """All ways to put the circuits of a topology on the planes of ``held``."""
    nodes = planes.topology.num_nodes
    one, other = planes.a_node.astype(np.int64), planes.b_node.astype(np.int64)
    model = planes.port_model
    if model.is_bidirectional:
        one, other = np.minimum(one, other), np.maximum(one, other)
    key, pair_of, count = np.unique(one * nodes + other, return_inverse=True, return_counts=True)
    low, high = np.divmod(key, nodes)
    b_side = nodes if model.has_b_side else 0
    is_one_way = model is not PortModel.TWO_SIDED
    if is_one_way:
        part = connected(low, high + b_side, 2 * nodes)[low]
    else:
        part = connected(low, high, nodes)[low]
    pair, a, b = np.arange(len(key)), low, high
    if not is_one_way:
        turns = np.flatnonzero(low != high)
        pair = np.concatenate([pair, turns])
        a, b = np.concatenate([low, high[turns]]), np.concatenate([high, low[turns]])
    plane = np.repeat(np.arange(len(held)), len(pair))
    pair, a, b = (np.tile(column, len(held)) for column in (pair, a, b))
    kept = (held[plane, a] == b).astype(np.int64)
    return Choices(count, pair_of, part.astype(np.int64), pair, plane, a, b, kept, b_side)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PartProgram:
    """The program of the pairs of one part: ``columns`` are its choices."""

    columns: NDArray[np.int64]
    linear: LinearProgram
    integer: LinearProgram


def part_program(all_choices: Choices, part: int) -> PartProgram:
    """Minimise minus the circuits kept: every pair has its count, and every port one circuit."""
    columns = np.flatnonzero(all_choices.part[all_choices.pair] == part)
    pairs, pair_row = np.unique(all_choices.pair[columns], return_inverse=True)
    size = 2 * max(int(all_choices.a.max()), int(all_choices.b.max())) + 2 + all_choices.b_side
    plane = all_choices.plane[columns] * size
    ends = [plane + all_choices.a[columns], plane + all_choices.b[columns] + all_choices.b_side]
    ports, port_row = np.unique(np.concatenate(ends), return_inverse=True)
    rows = np.concatenate([pair_row, len(pairs) + port_row])
    every = np.tile(np.arange(len(columns)), 3)
    order = np.lexsort((every, rows))
    num_rows = len(pairs) + len(ports)
    start = np.zeros(num_rows + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=num_rows), out=start[1:])
    count = all_choices.count[pairs].astype(float)
    lower = np.concatenate([count, np.full(len(ports), -np.inf)])
    upper = np.concatenate([count, np.ones(len(ports))])
    ones = np.ones(len(columns))
    programs = [
        LinearProgram(
            -all_choices.kept[columns].astype(float),
            start,
            every[order],
            np.ones(len(rows)),
            lower,
            upper,
            0 * ones,
            ones,
            integer,
        )
        for integer in (None, ones.astype(bool))
    ]
    return PartProgram(columns, programs[0], programs[1])


def most_kept_by_duals(program: PartProgram, options: Options) -> int | None:
    """A bound on the circuits kept from the linear program, proven in integers; None without one.

    Whatever the duals of the solver are, they are weights of rows: those of ports are made not
    negative, all are rounded, and weak duality gives a bound that does not depend on the solver.
    """
    linear = program.linear
    solution = solve(linear, options=options).taken()
    if solution.row_duals is None:
        return None
    scale: int = 2**DUAL_BITS
    weight = np.rint(-solution.row_duals * scale).astype(np.int64)
    is_port = np.isinf(linear.row_lower)
    weight[is_port] = np.maximum(weight[is_port], 0)
    index, values = linear.index, np.repeat(weight, np.diff(linear.start))
    spent = np.zeros(linear.num_columns, dtype=np.int64)
    np.add.at(spent, index, values)
    gain = np.rint(-linear.cost).astype(np.int64) * scale
    total = int((weight * linear.row_upper.astype(np.int64)).sum())
    total += int(np.maximum(gain - spent, 0).sum())
    return total // scale


def solve_part(
    program: PartProgram, options: Options
) -> tuple[NDArray[np.int64] | None, int | None]:
    """The choices taken by branch and bound, None without any, and its bound on circuits kept."""
    solution = solve(program.integer, options=options).taken()
    bound = None if solution.bound is None else math.floor(-solution.bound + ROUNDING)
    values = solution.values
    if values is None or solution.violation is None or solution.violation > ROUNDING:
        return None, bound
    return program.columns[np.rint(values).astype(bool)], bound
