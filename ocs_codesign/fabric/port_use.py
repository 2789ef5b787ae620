"""Port use: which ports of every switch have a cable, and what hangs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

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


def host_strands(cabling: Cabling) -> NDArray[np.int32]:
    """The cables of hosts, sorted rows: plane, host, side (0 A, 1 B), switch and port (int32)."""
    switch = np.stack([cabling.a_switch, cabling.b_switch], axis=2).transpose(1, 0, 2)
    port = np.stack([cabling.a_port, cabling.b_port], axis=2).transpose(1, 0, 2)
    plugged = np.nonzero(switch >= 0)
    return np.stack([*plugged, switch[plugged], port[plugged]], axis=1).astype(np.int32)


def port_use(cabling: Cabling) -> tuple[PortUse, ...]:
    """Every side of every switch in order: A, then B if the switch has one."""
    strands, trunks = host_strands(cabling), cabling.trunks
    num_switches = len(cabling.fabric.switches)
    plugged = (2 * strands[:, 3] + strands[:, 2], 2 * trunks[:, 0] + 1, 2 * trunks[:, 2])
    used = np.bincount(np.concatenate(plugged), minlength=2 * num_switches).reshape(-1, 2)
    rows = []
    for number, switch in enumerate(cabling.fabric.switches):
        sides = "AB" if switch.profile.port_model.has_b_side else "A"
        for side, name in enumerate(sides):
            count = int(used[number, side])
            rows.append(PortUse(number, name, switch.num_ports, count, switch.num_spares))
    return tuple(rows)
