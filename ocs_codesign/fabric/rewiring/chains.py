"""Exchanges along Kempe chains: two planes by themselves are brought to the most held circuits.

The circuits of two planes fall into chains that share no port, so that each may change planes by
itself. A ring or path of two-way circuits of a plane may also be walked the other way, which
changes the sides of its ends.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes


def exchanged(planes: Planes, held: NDArray[np.int32]) -> Planes:
    """Planes that keep at least as many circuits of ``held``: no chain or ring gains any more.

    With ``num_planes`` the rows of ``held``. No planes keep more if there are two of one-way
    circuits or of matchings, or a single two-sided one.
    """
    has_turns = planes.port_model is PortModel.TWO_SIDED
    a, b, plane = planes.a_node.copy(), planes.b_node.copy(), planes.plane.copy()
    side = planes.topology.num_nodes if planes.port_model.has_b_side else 0
    gains = True
    while gains:
        gains = False
        for pair in combinations(range(len(held)), 2):
            mine = np.flatnonzero(np.isin(plane, pair))
            then = (sum(pair) - plane[mine]).astype(np.int32)
            moves = _gaining(held, (a[mine], b[mine], plane[mine]), (a[mine], b[mine], then), side)
            plane[mine[moves]] = then[moves]
            gains |= bool(moves.any())
        for number in range(len(held) if has_turns else 0):
            mine = np.flatnonzero(plane == number)
            now = (a[mine], b[mine], plane[mine])
            turns = mine[_gaining(held, now, (now[1], now[0], now[2]), 0)]
            a[turns], b[turns] = b[turns], a[turns]
            gains |= bool(len(turns))
    turned = (a != planes.a_node)[:, None]
    link = np.where(turned, planes.link[:, ::-1], planes.link)
    return replace(planes, link=link, plane=plane)


def _gaining(
    held: NDArray[np.int32],
    now: tuple[NDArray[np.int32], ...],
    then: tuple[NDArray[np.int32], ...],
    side: int,
) -> NDArray[np.bool_]:
    """Which circuits (A node, B node, plane) are in a component that keeps more ``then``."""
    size = 2 * held.shape[1]
    component = connected(now[0], now[1] + side, size)[now[0]]
    gain = np.zeros(size, dtype=np.int64)
    np.add.at(gain, component, held[then[2], then[0]] == then[1])
    np.subtract.at(gain, component, held[now[2], now[0]] == now[1])
    return np.asarray(gain[component] > 0)
