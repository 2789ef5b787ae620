"""The work of a repair in progress: cables and cross-connects that change, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Configuration

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
class Bench:
    """Cables and circuits of a configuration, copied to be changed.

    ``switch`` and ``port`` (hosts x planes x 2 sides) say where strands are plugged in, ``trunks``
    (with those that ``trunk_stays``) those between switches; ``rows`` are the cross-connects as
    circuit, switch, A port and B port. Ports are (switch, side, number).
    """

    def __init__(
        self,
        old: Configuration,
        lost_hosts: set[int],
        lost_switches: set[int],
        lost_ports: set[tuple[int, int, int]],
    ) -> None:
        self.old = old
        self.fabric = old.cabling.fabric
        self.lost_hosts, self.lost_switches = lost_hosts, lost_switches
        self.lost_ports = lost_ports
        cables = old.cabling
        self.switch = np.stack([cables.a_switch, cables.b_switch], axis=2)
        self.port = np.stack([cables.a_port, cables.b_port], axis=2)
        self.trunks = cables.trunks.copy()
        self.trunk_stays = np.ones(len(cables.trunks), dtype=bool)
        self.rows = np.stack([old.circuit, old.switch, old.a_port, old.b_port], axis=1)
        self.host, self.plane = old.host.copy(), old.plane.copy()
        self.sided = [switch.profile.port_model.has_b_side for switch in self.fabric.switches]

    def cabling(self) -> Cabling:
        """The cables as they are now."""
        a_switch, b_switch = (np.ascontiguousarray(self.switch[:, :, side]) for side in (0, 1))
        a_port, b_port = (np.ascontiguousarray(self.port[:, :, side]) for side in (0, 1))
        trunks = self.trunks[self.trunk_stays].copy()
        return Cabling(self.fabric, a_switch, a_port, b_switch, b_port, trunks)

    def configuration(self) -> Configuration:
        """The circuits as they are now, on these cables."""
        old = self.old
        rows = self.rows[np.argsort(self.rows[:, 0], kind="stable")]
        columns = [np.ascontiguousarray(column) for column in rows.T]
        cables = self.cabling()
        return Configuration(
            old.name, cables, old.topology, self.host, self.plane, old.link, *columns
        )

    def is_lost(self, port: tuple[int, int, int]) -> bool:
        """Whether a port is broken or in a lost switch."""
        return port in self.lost_ports or port[0] in self.lost_switches

    def strand(self, host: int, plane: int, side: int) -> tuple[int, int, int] | None:
        """The port of a host's strand, None if it is not plugged in."""
        switch = int(self.switch[host, plane, side])
        return None if switch < 0 else (switch, side, int(self.port[host, plane, side]))

    def plug(self, host: int, plane: int, side: int, port: tuple[int, int, int] | None) -> None:
        """Put a strand into a port, or into none."""
        self.switch[host, plane, side] = NOT_CABLED if port is None else port[0]
        self.port[host, plane, side] = NOT_CABLED if port is None else port[2]

    def strands_at(self, switch: int) -> list[tuple[int, int, int]]:
        """Host, plane and side of all strands in a switch."""
        return [(h, p, s) for h, p, s in np.argwhere(self.switch == switch).tolist()]

    def rows_at(self, port: tuple[int, int, int]) -> NDArray[np.bool_]:
        """Which cross-connects use a port."""
        switch, side, number = port
        ends = self.rows[:, 2 + side] == number
        if not self.sided[switch]:
            ends = ends | (self.rows[:, 3] == number)
        mine: NDArray[np.bool_] = (self.rows[:, 1] == switch) & ends
        return mine

    def reconnect(self, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
        """Let the cross-connects of a port use another port of its switch and side."""
        columns = [2 + before[1]] if self.sided[before[0]] else [2, 3]
        mine = self.rows[:, 1] == before[0]
        for column in columns:
            self.rows[mine & (self.rows[:, column] == before[2]), column] = after[2]

    def is_staged(self, plane: int) -> bool:
        """Whether a plane has trunks."""
        return any(self.fabric.switches[int(row[0])].plane == plane for row in self.trunks)

    def free_ports(self, switch: int, side: int) -> list[int]:
        """Ports that a strand can move to: spare ones, other free ones, then those of lost hosts.

        A lost switch has none, nor one with listed states, which name their ports.
        """
        there = self.fabric.switches[switch]
        if switch in self.lost_switches or there.states is not None:
            return []
        taken = set()
        for host, plane, at in self.strands_at(switch):
            if at == side:
                taken.add((int(self.port[host, plane, side]), host in self.lost_hosts))
        for row in self.trunks[self.trunk_stays].tolist():
            if (row[0], 1) == (switch, side):
                taken.add((row[1], False))
            if (row[2], 0) == (switch, side):
                taken.add((row[3], False))
        full = {port for port, _ in taken}
        ports = [port for port in range(1, there.num_ports + 1) if port not in full]
        ports.sort(key=lambda port: (port <= there.num_usable, port))
        ports += sorted(port for port, is_lost in taken if is_lost)
        return [port for port in ports if (switch, side, port) not in self.lost_ports]

    def take_port(self, switch: int, side: int) -> tuple[int, int, int]:
        """A free port, from which a lost host's strand is unplugged; InfeasibleError for none."""
        ports, there = self.free_ports(switch, side), self.fabric.switches[switch]
        if there.states is not None:
            raise InfeasibleError(
                Reason.STATES,
                f"the states of switch {there.name} name its ports: no other port can stand in",
            )
        if not ports:
            raise InfeasibleError(
                Reason.PORTS,
                f"switch {there.name} has no free port left on side {'AB'[side]} "
                f"({there.num_ports} ports, {there.num_spares} of them spare)",
            )
        taken = (switch, side, ports[0])
        for strand in self.strands_at(switch):
            if self.strand(*strand) == taken:
                self.plug(*strand, None)
        return taken

    def uses_lost(self) -> bool:
        """Whether a circuit or node still needs something that is lost."""
        ports = [*self.lost_ports]
        lit = any(self.rows_at(port).any() for port in ports)
        crossed = np.isin(self.rows[:, 1], list(self.lost_switches)).any()
        return bool(lit or crossed or np.isin(self.host, list(self.lost_hosts)).any())
