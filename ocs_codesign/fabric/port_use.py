"""Port use: which ports of every switch have a cable, and what hangs on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.wiring import Port, cable_name, strand_numbers

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Cabling


@final
@dataclass(frozen=True, slots=True)
class PortUse:
    """One side of a switch: all its ports, those with a cable, kept free as spares, and failed.

    A failed port is neither used nor spare; ``side`` is empty if the switch has no sides.
    """

    switch: int
    side: str
    num_ports: int
    num_used: int
    num_spares: int
    num_failed: int

    @property
    def num_free(self) -> int:
        """All other ports."""
        return self.num_ports - self.num_used - self.num_spares - self.num_failed


def host_strands(cabling: Cabling) -> NDArray[np.int32]:
    """The cables of hosts, sorted rows: plane, host, side (0 A, 1 B), switch and port (int32)."""
    switch = np.stack([cabling.a_switch, cabling.b_switch], axis=2).transpose(1, 0, 2)
    port = np.stack([cabling.a_port, cabling.b_port], axis=2).transpose(1, 0, 2)
    plugged = np.nonzero(switch >= 0)
    return np.stack([*plugged, switch[plugged], port[plugged]], axis=1).astype(np.int32)


def used_ports(cabling: Cabling) -> set[tuple[int, int, int]]:
    """Every port with a cable: switch, side (0 A, 1 B) and number."""
    at_hosts = host_strands(cabling)[:, [3, 2, 4]].tolist()
    trunks = cabling.trunks.tolist()
    ends = [end for b, b_port, a, a_port in trunks for end in ((b, 1, b_port), (a, 0, a_port))]
    return {(switch, side, port) for switch, side, port in (*at_hosts, *ends)}


def port_of_cable(cabling: Cabling, name: str) -> Port:
    """The port of a switch that a cable is plugged into, of a trunk the one that light enters.

    Raises ValueError for a cable that is not there.
    """
    switches, numbers = cabling.fabric.switches, strand_numbers(cabling.fabric)
    for plane, host, side, switch, number in host_strands(cabling).tolist():
        if cable_name(numbers[host, plane, side]) == name:
            has_sides = switches[switch].profile.port_model.has_b_side
            return Port(switches[switch].name, "AB"[side] if has_sides else "", number)
    trunks = zip(cabling.trunk_number.tolist(), cabling.trunks.tolist(), strict=True)
    for trunk, (_, _, switch, number) in trunks:
        if cable_name(trunk, is_trunk=True) == name:
            return Port(switches[switch].name, "A", number)
    raise ValueError(f"no cable is named {name!r}: cabling.csv lists them")


def port_use(
    cabling: Cabling, failed: Collection[tuple[int, int, int]] = ()
) -> tuple[PortUse, ...]:
    """Every side of every switch in order: A, then B if the switch has one.

    ``failed`` are ports as switch, side (0 A, 1 B) and number.
    """
    used, broken = used_ports(cabling), set(failed)
    rows = []
    for number, switch in enumerate(cabling.fabric.switches):
        sides = "AB" if switch.profile.port_model.has_b_side else ("",)
        for side, name in enumerate(sides):
            places = [(number, side, port) for port in range(1, switch.num_ports + 1)]
            lost = broken.intersection(places)
            busy = used.intersection(places) - lost
            spare = set(places[switch.num_usable :]) - busy - lost
            rows.append(PortUse(number, name, switch.num_ports, len(busy), len(spare), len(lost)))
    return tuple(rows)
