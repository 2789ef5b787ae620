"""From where every port leads in every step to a program of circuits, and back to its links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits import CircuitProgram
from ocs_codesign.factorisation import NO_LINK
from ocs_codesign.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

DARK = NO_LINK
MAX_PORT_STEPS = 2**27
"""Largest steps x planes x nodes that is wired: 512 MB a table."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Wired:
    """A program and the link behind every port: ``link[step - 1, plane, node]``, DARK for none."""

    program: CircuitProgram
    link: NDArray[np.int32]


def wire(targets: NDArray[np.int32]) -> Wired:
    """The program whose port of plane p at node v leads to ``targets[step - 1, p, v]``, or is DARK.

    A circuit is up for as long as its port leads to the same node; there is a pause where a port
    goes from one circuit to the next. Links are sorted by (plane, tail, head). Raises ValueError
    for targets that are no nodes, planes that are always dark, and tables that are too large.

    >>> wired = wire(np.array([[[1, 0, 3, 2]], [[2, 3, 0, 1]]], dtype=np.int32))
    >>> wired.program
    CircuitProgram(4 nodes, 1 planes, 8 circuits up in 8 intervals, 1 pauses)
    >>> wired.link.tolist()
    [[[0, 2, 5, 7]], [[1, 3, 4, 6]]]
    """
    steps, planes, nodes = targets.shape
    check_table(steps, planes, nodes)
    if targets.size == 0 or targets.min() < DARK or targets.max() >= nodes:
        raise ValueError(f"a port leads to a node, 0 to {nodes - 1}, or is dark: {DARK}")
    up = targets != DARK
    began = up.copy()
    began[1:] &= targets[1:] != targets[:-1]
    ended = up.copy()
    ended[:-1] &= targets[1:] != targets[:-1]
    # In the order (plane, node, step) beginnings and ends of one port take turns.
    plane, tail, first = np.nonzero(began.transpose(1, 2, 0))
    last = np.nonzero(ended.transpose(1, 2, 0))[2]
    head = targets[first, plane, tail].astype(np.int64)
    circuit, row_link = np.unique((plane * nodes + tail) * nodes + head, return_inverse=True)
    link = np.full(targets.shape, DARK, dtype=np.int32)
    port = np.arange(planes * nodes).reshape(planes, nodes)
    code = (port * nodes + targets)[up]
    link[up] = np.searchsorted(circuit, code)
    port, head = np.divmod(circuit, nodes)
    program = CircuitProgram(
        Topology(nodes, port % nodes, head),
        port // nodes,
        row_link.ravel(),
        first + 1,
        last + 1,
        _pauses(targets, began),
    )
    return Wired(program, link)


def check_table(steps: int, planes: int, nodes: int) -> None:
    """ValueError if a program of such sizes is too large to wire."""
    if steps > MAX_STEPS or steps * planes * nodes > MAX_PORT_STEPS:
        raise ValueError(
            f"{steps} steps of {planes} planes at {nodes} nodes: "
            f"at most {MAX_PORT_STEPS:,} ports times steps are wired"
        )


def _pauses(targets: NDArray[np.int32], began: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Steps (from 1) in which a circuit comes up at a port that held another the step before."""
    stops = []
    for step in np.flatnonzero(began[1:].any(axis=(1, 2))) + 1:
        before, new = targets[step - 1], began[step]
        plane, node = np.nonzero(new)
        out_busy = before[plane, node] != DARK
        entered = np.zeros(before.shape, dtype=bool)
        held = np.nonzero(before != DARK)
        entered[held[0], before[held]] = True
        if (out_busy | entered[plane, targets[step][new]]).any():
            stops.append(step + 1)
    return np.array(stops, dtype=np.int64)
