"""Cabling and configurations: which strand is plugged where, and which circuits are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.topology import Topology

NOT_CABLED = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cabling:
    """The fixed cables of a fabric: where every host's port of every plane is plugged.

    Arrays are int32, hosts x planes: the host's outgoing strand of plane p is in A port
    ``a_port[h, p]`` (from 1) of ``fabric.switches[a_switch[h, p]]``, its incoming one in B port
    ``b_port[h, p]`` of ``b_switch[h, p]``, which in a plane of several switches may be another. In
    a TWO_SIDED plane both strands carry both directions; a MATCHING plane has A only. NOT_CABLED
    (-1) where there is no cable. ``trunks`` (int32, trunks x 4) are cables between switches of a
    three-stage plane: from a switch's B port to a switch's A port.
    """

    fabric: Fabric
    a_switch: NDArray[np.int32]
    a_port: NDArray[np.int32]
    b_switch: NDArray[np.int32]
    b_port: NDArray[np.int32]
    trunks: NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Configuration:
    """The circuits that make a topology out of a cabling.

    ``host`` (int32, N) is the host of every node. Circuit c is in plane ``plane[c]`` and carries
    link ``link[c, 0]`` forward, from its A end to its B end, and link ``link[c, 1]`` backward (-1
    if it is one-way). Cross-connects are rows: circuit ``circuit[i]`` joins ``a_port[i]`` with
    ``b_port[i]`` of switch ``switch[i]``; a circuit has one row a switch that it crosses, in the
    order of its way. In a MATCHING plane ``b_port`` is the other port of the same side.
    """

    name: str
    cabling: Cabling
    topology: Topology
    host: NDArray[np.int32]
    plane: NDArray[np.int32]
    link: NDArray[np.int32]
    circuit: NDArray[np.int32]
    switch: NDArray[np.int32]
    a_port: NDArray[np.int32]
    b_port: NDArray[np.int32]

    @property
    def num_circuits(self) -> int:
        """Circuits, end to end."""
        return len(self.plane)
