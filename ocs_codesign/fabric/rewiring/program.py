"""Planes that keep most held circuits as an integer program, with bounds that are checked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.integers import program_of
from ocs_codesign.factorisation import NO_LINK
from ocs_codesign.lp import Options, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes
    from ocs_codesign.lp import LinearProgram

DUAL_BITS = 30
"""Duals are rounded to so many binary digits; what is lost is added to the bound."""
ROUNDING = 1e-6


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlacementChoices:
    """The ways to put circuits on planes: each is a column of a program with 0 or 1.

    Circuits between the same nodes are one pair. Column j puts a circuit of ``pair[j]`` in
    ``plane[j]`` from ``a[j]`` to ``b[j]`` and keeps ``kept[j]`` (0 or 1) circuits; ``count`` is
    how many circuits each pair has, ``pair_of`` the pair of every circuit. Pairs of different
    ``part`` share no port; ports are numbered over all planes, one at either end of a column.
    """

    count: NDArray[np.int64]
    pair_of: NDArray[np.int64]
    part: NDArray[np.int64]
    pair: NDArray[np.int64]
    plane: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    kept: NDArray[np.int64]
    ports: NDArray[np.int64]

    @property
    def most_kept(self) -> NDArray[np.int64]:
        """Held circuits of every pair that are in the target at all: no planes keep more."""
        held = np.zeros(len(self.count), dtype=np.int64)
        np.add.at(held, self.pair, self.kept)
        return np.minimum(held, self.count)

    def placed(self, planes: Planes, taken: NDArray[np.int64]) -> Planes:
        """The circuits of the columns taken in their planes and directions, all others as before.

        Of a pair all circuits are taken or none.
        """
        mine = np.flatnonzero(np.isin(self.pair_of, self.pair[taken]))
        circuits = mine[np.argsort(self.pair_of[mine], kind="stable")]
        taken = taken[np.argsort(self.pair[taken], kind="stable")]
        plane, link = planes.plane.copy(), planes.link.copy()
        plane[circuits] = self.plane[taken]
        turned = circuits[planes.a_node[circuits] != self.a[taken]]
        turned = turned[link[turned, 1] != NO_LINK]
        link[turned] = link[turned, ::-1]
        return replace(planes, plane=plane, link=link)


def choices(planes: Planes, held: NDArray[np.int32]) -> PlacementChoices:
    """All ways to put the circuits of a topology on the planes of ``held``."""
    nodes, model = planes.topology.num_nodes, planes.port_model
    low, high = planes.a_node.astype(np.int64), planes.b_node.astype(np.int64)
    if model.is_bidirectional:
        low, high = np.minimum(low, high), np.maximum(low, high)
    key, pair_of, count = np.unique(low * nodes + high, return_inverse=True, return_counts=True)
    low, high = np.divmod(key, nodes)
    b_side = nodes if model.has_b_side else 0
    pair, a, b = np.arange(len(key)), low, high
    if model is PortModel.TWO_SIDED:
        part = connected(low, high, nodes)[low]
        turns = np.flatnonzero(low != high)
        pair = np.concatenate([pair, turns])
        a, b = np.concatenate([low, high[turns]]), np.concatenate([high, low[turns]])
    else:
        part = connected(low, high + b_side, 2 * nodes)[low]
    plane = np.repeat(np.arange(len(held)), len(pair))
    pair, a, b = (np.tile(column, len(held)) for column in (pair, a, b))
    ports = np.stack([a, b + b_side], axis=1) + 2 * nodes * plane[:, None]
    kept = (held[plane, a] == b).astype(np.int64)
    return PlacementChoices(count, pair_of, part.astype(np.int64), pair, plane, a, b, kept, ports)


def part_program(ways: PlacementChoices, columns: NDArray[np.int64]) -> LinearProgram:
    """Minimise minus the circuits kept: every pair has its count, and every port one circuit.

    ``columns`` are the choices of the pairs of one part, as numbers from 0 to 1.
    """
    every = np.arange(len(columns))
    pairs, pair_row = np.unique(ways.pair[columns], return_inverse=True)
    ports, port_row = np.unique(ways.ports[columns].T, return_inverse=True)
    count = ways.count[pairs]
    return program_of(
        [(row, every, 1.0) for row in (pair_row, *(len(pairs) + port_row.reshape(2, -1)))],
        [(count, count), (np.full(len(ports), -np.inf), np.ones(len(ports)))],
        np.ones(len(columns)),
        -ways.kept[columns],
    )


def most_kept_by_duals(linear: LinearProgram, options: Options) -> int | None:
    """A bound on the circuits kept from the linear program, proven in integers; None without one.

    Whatever the duals of the solver are, they are weights of rows: those of ports are made not
    negative, all are rounded, and weak duality gives a bound that does not depend on the solver.
    """
    solution = solve(linear, options=options).taken()
    if solution.row_duals is None:
        return None
    scale: int = 2**DUAL_BITS
    weight = np.rint(-solution.row_duals * scale).astype(np.int64)
    is_port = np.isinf(linear.row_lower)
    weight[is_port] = np.maximum(weight[is_port], 0)
    spent = np.zeros(linear.num_columns, dtype=np.int64)
    np.add.at(spent, linear.index, np.repeat(weight, np.diff(linear.start)))
    gain = np.rint(-linear.cost).astype(np.int64) * scale
    total = int((weight * linear.row_upper.astype(np.int64)).sum())
    total += int(np.maximum(gain - spent, 0).sum())
    return total // scale


def solve_part(
    linear: LinearProgram, options: Options
) -> tuple[NDArray[np.int64] | None, int | None]:
    """Which columns branch and bound takes, None without any, and its bound on circuits kept."""
    whole = np.ones(linear.num_columns, dtype=np.bool_)
    solution = solve(replace(linear, integer=whole), options=options).taken()
    bound = None if solution.bound is None else math.floor(-solution.bound + ROUNDING)
    values = solution.values
    if values is None or solution.violation is None or solution.violation > ROUNDING:
        return None, bound
    return np.flatnonzero(np.rint(values)), bound
