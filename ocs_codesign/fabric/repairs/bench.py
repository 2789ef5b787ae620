"""The work of a repair in progress: cables and cross-connects that change, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Configuration, lower_port_first

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray


@final
class Bench:
    """Cables, and the circuits of all configurations on them, copied to be changed.

    A port is one number for its switch, side and number there; NOT_CABLED is none. ``strand``
    (hosts x planes x 2 sides) has the port that each strand is plugged into, ``trunk`` (trunks x 2)
    the B and the A port that each trunk joins. Circuits count through all configurations, and
    ``owner`` has the configuration of each. ``rows`` are the cross-connects as circuit and two
    ports, the second one on side ``far``.
    """

    def __init__(
        self,
        olds: Sequence[Configuration],
        lost_hosts: Collection[int] = (),
        lost_switches: Collection[int] = (),
        lost_ports: Collection[tuple[int, int, int]] = (),
    ) -> None:
        self.olds, self.cables = olds, olds[0].cabling
        if any(old.cabling is not self.cables for old in olds):
            raise ValueError("the configurations are on different cables")
        if any(not np.array_equal(old.host, olds[0].host) for old in olds):
            raise ValueError("the configurations are of different hosts")
        self.fabric = self.cables.fabric
        self.lost_hosts, self.lost_switches = sorted(lost_hosts), sorted(lost_switches)
        self.width = 1 + max(switch.num_ports for switch in self.fabric.switches)
        self.far = 1 if self.fabric.port_model.has_b_side else 0
        self.lost_ports = [self.port(*place) for place in sorted(lost_ports)]
        cables = self.cables
        plugged = (
            self.port(cables.a_switch, 0, cables.a_port),
            self.port(cables.b_switch, 1, cables.b_port),
        )
        self.strand = np.maximum(np.stack(plugged, axis=2), NOT_CABLED)
        b_switch, b_port, a_switch, a_port = cables.trunks.T
        joined = (self.port(b_switch, 1, b_port), self.port(a_switch, 0, a_port))
        self.trunk = np.stack(joined, axis=1)
        staged = self.switch_of(self.trunk[:, 0]).tolist()
        self.staged_planes = {self.fabric.switches[switch].plane for switch in staged}
        counts = [old.num_circuits for old in olds]
        self.first = np.cumsum([0, *counts])
        self.owner = np.repeat(np.arange(len(olds)), counts)
        self.rows = np.concatenate([self.rows_of(number, old) for number, old in enumerate(olds)])
        self.host = olds[0].host.copy()
        self.plane = np.concatenate([old.plane for old in olds])
        links = [(old.topology, old.link[:, 0]) for old in olds]
        ends = [np.stack([made.tail[link], made.head[link]], axis=1) for made, link in links]
        self.ends = np.concatenate(ends)

    def port(self, switch: Any, side: int, number: Any) -> Any:
        """The number of a port, or of many; below NOT_CABLED where there is no switch."""
        return (np.int64(2) * switch + side) * self.width + number

    def place(self, port: Any) -> tuple[Any, Any, Any]:
        """Its switch, side and number there, or those of many; NOT_CABLED for none."""
        end, number = np.divmod(port, self.width)
        is_none = np.less(port, 0)
        switch, number = (np.where(is_none, NOT_CABLED, part) for part in (end // 2, number))
        return switch, end % 2, number

    def switch_of(self, port: Any) -> Any:
        """The switch of a port, or of many; NOT_CABLED for none."""
        return port // (2 * self.width)

    def rows_of(self, number: int, configuration: Configuration) -> NDArray[np.int64]:
        """The cross-connects of a configuration, by its number, as circuit and two ports."""
        near = self.port(configuration.switch, 0, configuration.a_port)
        far = self.port(configuration.switch, self.far, configuration.b_port)
        return np.stack([self.first[number] + configuration.circuit, near, far], axis=1)

    def rows_up(self, number: int = 0) -> NDArray[np.int64]:
        """The rows of a configuration, by circuit."""
        mine: NDArray[np.int64] = self.rows[self.owner[self.rows[:, 0]] == number]
        return mine[np.argsort(mine[:, 0], kind="stable")]

    def cabling(self) -> Cabling:
        """The cables as they are now."""
        a_switch, _, a_port = self.place(self.strand[:, :, 0])
        b_switch, _, b_port = self.place(self.strand[:, :, 1])
        plugged = self.trunk[:, 0] >= 0
        switch, _, port = self.place(self.trunk[plugged])
        trunks = np.stack([switch, port], axis=2).reshape(-1, 4)
        columns = (a_switch, a_port, b_switch, b_port, trunks, self.cables.trunk_number[plugged])
        return Cabling(self.fabric, *(column.astype(np.int32) for column in columns))

    def configurations(self) -> list[Configuration]:
        """The circuits as they are now, on these cables."""
        cabling = self.cabling()
        made = []
        for number, old in enumerate(self.olds):
            rows, plane = self.rows_up(number), self.plane[self.owner == number]
            switch, _, port = self.place(rows[:, 1:])
            columns = (rows[:, 0] - self.first[number], switch[:, 0], port[:, 0], port[:, 1])
            new = Configuration(
                *(old.name, cabling, old.topology, self.host, plane, old.link),
                *(column.astype(np.int32) for column in columns),
            )
            made.append(lower_port_first(new))
        return made

    def hosts_of(self, circuits: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The hosts at the A and at the B end of circuits."""
        ends = self.host[self.ends[circuits]]
        return ends[:, 0], ends[:, 1]

    def is_lost(self, ports: Any) -> Any:
        """Which ports are broken or in a lost switch."""
        in_lost = np.isin(self.switch_of(ports), self.lost_switches)
        return in_lost | np.isin(ports, self.lost_ports)

    def is_used(self, ports: Any, number: int | None = None) -> Any:
        """Which ports have a cross-connect, in any configuration or in the one of a number."""
        rows = self.rows if number is None else self.rows_up(number)
        return np.isin(ports, rows[:, 1:])

    def is_in(self, switch: int, ports: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which ports are in a switch."""
        mine: NDArray[np.bool_] = self.switch_of(ports) == switch
        return mine

    def circuits_in(self, switch: int) -> NDArray[np.int64]:
        """The circuits that cross a switch."""
        return np.unique(self.rows[self.is_in(switch, self.rows[:, 1]), 0])

    def reconnect(self, before: int, after: int) -> None:
        """Let the cross-connects of a port use another port of its switch and side."""
        ends = self.rows[:, 1:]
        ends[ends == before] = after

    def set_rows(self, circuits: NDArray[Any], rows: NDArray[np.int64]) -> None:
        """Let circuits have these cross-connects only."""
        kept = self.rows[~np.isin(self.rows[:, 0], circuits)]
        self.rows = np.concatenate([kept, rows])

    def free_ports(self, switch: int, side: int) -> list[int]:
        """Ports that a strand can move to: spare ones, other free ones, then those of lost hosts.

        A lost switch has none, nor one with listed states, which name their ports.
        """
        there = self.fabric.switches[switch]
        if switch in self.lost_switches or there.states is not None:
            return []
        ports = self.port(switch, side, np.arange(1, there.num_ports + 1))
        is_given_up = np.isin(np.arange(len(self.strand)), self.lost_hosts)
        working = (self.strand[~is_given_up], self.trunk)
        is_full = np.isin(ports, np.concatenate([table.ravel() for table in working]))
        was_full = np.isin(ports, self.strand[is_given_up])
        is_usual = np.arange(len(ports)) < there.num_usable
        order = np.lexsort((is_usual & ~was_full, was_full))
        free: list[int] = ports[order[~(is_full | self.is_lost(ports))[order]]].tolist()
        return free

    def take_port(self, switch: int, side: int) -> int:
        """A free port, from which a lost host's strand is unplugged; InfeasibleError for none."""
        ports, there = self.free_ports(switch, side), self.fabric.switches[switch]
        if there.states is not None:
            raise InfeasibleError(
                Reason.STATES,
                f"the states of switch {there.name} name its ports: no other port can stand in",
            )
        if not ports:
            where = f" on side {'AB'[side]}" * there.profile.port_model.has_b_side
            raise InfeasibleError(
                Reason.PORTS,
                f"switch {there.name} has no free port left{where} "
                f"({there.num_ports} ports, {there.num_spares} of them spare)",
            )
        self.strand[self.strand == ports[0]] = NOT_CABLED
        return ports[0]

    def uses_lost(self) -> bool:
        """Whether a circuit or node still needs something that is lost."""
        return bool(
            self.is_lost(self.rows[:, 1:]).any() or np.isin(self.host, self.lost_hosts).any()
        )
