"""Port use: which ports of every switch have a cable, and what hangs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Cabling


@final
@dataclass(frozen=True, slots=True)
class PortUse:
    """One side of a switch: all its ports, those with a cable, and those that are kept free."""

    switch: int
    side: str
    num_ports: int
    num_used: int
    num_spares: int

    @property
    def num_free(self) -> int:
        """Ports that are neither in use nor spare."""
        return self.num_ports - self.num_used - self.num_spares


@final
@dataclass(frozen=True, slots=True, eq=False)
class HostStrands:
    """The cables of hosts, a row a strand: int32 host, plane, side (0 A, 1 B), switch and port.

    Rows are in order of plane, host and side.
    """

    host: NDArray[np.int32]
    plane: NDArray[np.int32]
    side: NDArray[np.int32]
    switch: NDArray[np.int32]
    port: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.host)


STRANDS = {model: model.strands for model in PortModel}
"""What the strands of a host that lead to A and to B ports are called."""


def host_strands(cabling: Cabling) -> HostStrands:
    """All strands of hosts that are plugged in, in order of plane, host and side."""
    switch = np.stack([cabling.a_switch, cabling.b_switch], axis=2).transpose(1, 0, 2)
    port = np.stack([cabling.a_port, cabling.b_port], axis=2).transpose(1, 0, 2)
    plane, host, side = (index.astype(np.int32) for index in np.nonzero(switch >= 0))
    return HostStrands(host, plane, side, switch[plane, host, side], port[plane, host, side])


def port_use(cabling: Cabling) -> tuple[PortUse, ...]:
    """Every side of every switch in order: A, then B if the switch has one."""
    strands, trunks = host_strands(cabling), cabling.trunks
    num_switches = len(cabling.fabric.switches)
    plugged = (2 * strands.switch + strands.side, 2 * trunks[:, 0] + 1, 2 * trunks[:, 2])
    used = np.bincount(np.concatenate(plugged), minlength=2 * num_switches).reshape(-1, 2)
    rows = []
    for number, switch in enumerate(cabling.fabric.switches):
        sides = "AB" if switch.profile.port_model.has_b_side else "A"
        for side, name in enumerate(sides):
            count = int(used[number, side])
            rows.append(PortUse(number, name, switch.num_ports, count, switch.num_spares))
    return tuple(rows)
