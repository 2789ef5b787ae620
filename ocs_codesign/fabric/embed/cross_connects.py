"""The cross-connects that make circuits on laid cables, through one switch or three stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ocs_codesign.fabric.embed.clos import trunking, ways
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Configuration, lower_port_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes


def trunks_of(cabling: Cabling, plane: int) -> NDArray[np.int32]:
    """The trunks between switches of a plane, trunks x 4."""
    plane_of = np.array([switch.plane for switch in cabling.fabric.switches])
    mine: NDArray[np.int32] = cabling.trunks[plane_of[cabling.trunks[:, 0]] == plane]
    return mine


def configured(
    name: str, cabling: Cabling, planes: Planes, host: NDArray[np.int32]
) -> Configuration:
    """The cross-connects that make the circuits; their planes' cables must carry them."""
    a_host, b_host = host[planes.a_node], host[planes.b_node]
    rows = [np.empty((0, 5), dtype=np.int64)]
    for plane in np.unique(planes.plane).tolist():
        mine = np.flatnonzero(planes.plane == plane)
        make = _staged if len(trunks_of(cabling, plane)) else _direct
        stages = make(cabling, plane, a_host[mine], b_host[mine])
        rows += [
            np.stack([mine, np.full_like(mine, stage), *crossed], axis=1)
            for stage, crossed in enumerate(stages)
        ]
    table = np.concatenate(rows)
    table = table[np.lexsort((table[:, 1], table[:, 0]))].astype(np.int32)
    circuit, _, switch, a_port, b_port = (np.ascontiguousarray(column) for column in table.T)
    ends = (circuit, switch, a_port, b_port)
    made = Configuration(name, cabling, planes.topology, host, planes.plane, planes.link, *ends)
    return lower_port_first(made)


_Ends: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]"
"""The switch, A port and B port of circuits in one stage."""


def _direct(
    cabling: Cabling, plane: int, a_host: NDArray[np.int32], b_host: NDArray[np.int32]
) -> list[_Ends]:
    b_port = cabling.b_port if cabling.fabric.port_model(plane).has_b_side else cabling.a_port
    at = cabling.a_switch[a_host, plane], cabling.a_port[a_host, plane], b_port[b_host, plane]
    return [at]


def _staged(
    cabling: Cabling, plane: int, a_host: NDArray[np.int32], b_host: NDArray[np.int32]
) -> list[_Ends]:
    cabled = cabling.a_switch[:, plane] != NOT_CABLED
    edge = cabling.a_switch[cabled, plane], cabling.b_switch[cabled, plane]
    out, into = trunking(trunks_of(cabling, plane), *edge)
    sender, receiver = cabling.a_switch[a_host, plane], cabling.b_switch[b_host, plane]
    from_edge = np.searchsorted(out[:, 0, 0], sender)
    to_edge = np.searchsorted(into[:, 0, 2], receiver)
    way = ways(from_edge, to_edge, max(len(out), len(into)), out.shape[1])
    _, sender_b, middle, middle_a = out[from_edge, way].T
    _, middle_b, _, receiver_a = into[to_edge, way].T
    return [
        (sender, cabling.a_port[a_host, plane], sender_b),
        (middle, middle_a, middle_b),
        (receiver, receiver_a, cabling.b_port[b_host, plane]),
    ]
