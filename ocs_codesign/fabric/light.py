"""Following the light: the topology that cables and cross-connects make, whatever is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Cabling, Configuration


NOTHING = -1


def topology_of(configuration: Configuration) -> Topology:
    """The topology of the light paths: from host strands through cross-connects and trunks.

    Neither the claimed topology nor planes are read; of the claimed links only which circuits are
    used one way. Nodes are those of ``configuration.host``, links are sorted by (tail, head).
    Raises ValueError if two strands or cross-connects use one port, a way ends at a port without a
    cable, runs in a circle, or leads to a host that is no node, and for switch states not listed.
    """
    _check_states(configuration)
    ports = _Ports(configuration)
    node_of = np.full(len(configuration.cabling.fabric.hosts), NOTHING, dtype=np.int64)
    node_of[configuration.host] = np.arange(len(configuration.host))
    start = np.flatnonzero((ports.host_of_a >= 0) & (ports.row_of_a >= 0))
    start = start[~ports.one_side[start] | (start < ports.partner[start])]
    hosts = np.stack([ports.host_of_a[start], ports.followed(start)])
    stray = hosts[node_of[hosts] < 0]
    if len(stray):
        name = configuration.cabling.fabric.hosts[int(stray[0])]
        raise ValueError(f"a circuit ends at host {name}, which is no node of the topology")
    circuit = configuration.circuit[ports.row_of_a[start]]
    both = ports.two_way[start] & (configuration.link[circuit, 1] != NO_LINK)
    tail, head = np.concatenate([node_of[hosts], node_of[hosts[::-1, both]]], axis=1)
    order = np.lexsort((head, tail))
    return Topology(len(configuration.host), tail[order], head[order])


class _Ports:
    """Every port of every switch as one number, and what is plugged and joined there."""

    def __init__(self, configuration: Configuration) -> None:
        self.cabling: Cabling = configuration.cabling
        switches = self.cabling.fabric.switches
        sizes = [switch.num_ports for switch in switches]
        models = [switch.profile.port_model for switch in switches]
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.one_side = np.repeat([not model.has_b_side for model in models], sizes)
        self.two_way = np.repeat([model.is_bidirectional for model in models], sizes)
        self.host_of_a = self._hosts(self.cabling.a_switch, self.cabling.a_port)
        self.host_of_b = self._hosts(self.cabling.b_switch, self.cabling.b_port)
        trunk_b, trunk_a = (self._number(*self.cabling.trunks.T[at : at + 2]) for at in (0, 2))
        self.behind_b = self._placed(trunk_b, trunk_a, "trunks")
        self._placed(trunk_a, trunk_b, "trunks")
        if (self.host_of_a[trunk_a] >= 0).any() or (self.host_of_b[trunk_b] >= 0).any():
            raise ValueError("a trunk and a host's strand are in one port")
        a = self._number(configuration.switch, configuration.a_port)
        b = self._number(configuration.switch, configuration.b_port)
        row, one_side = np.arange(len(a)), self.one_side[a]
        if (a == b)[one_side].any():
            raise ValueError("a cross-connect joins a port with itself")
        # Of a switch without sides, both ports are on the only side.
        at = np.concatenate([a, b[one_side]])
        self.partner = self._placed(at, np.concatenate([b, a[one_side]]), "cross-connects")
        self.row_of_a = self._placed(at, np.concatenate([row, row[one_side]]), "cross-connects")
        self._placed(b[~one_side], a[~one_side], "cross-connects")

    def _number(self, switch: NDArray[np.int32], port: NDArray[np.int32]) -> NDArray[np.int64]:
        unknown = switch[(switch < 0) | (switch >= len(self.first) - 1)]
        if len(unknown):
            raise ValueError(f"there is no switch {unknown[0]}")
        number = self.first[switch] + port - 1
        bad = np.flatnonzero((port < 1) | (number >= self.first[switch + 1]))
        if len(bad):
            name = self.cabling.fabric.switches[int(switch[bad[0]])].name
            raise ValueError(f"switch {name} has no port {port[bad[0]]}")
        return number.astype(np.int64)

    def _hosts(self, switch: NDArray[np.int32], port: NDArray[np.int32]) -> NDArray[np.int64]:
        host, plane = np.nonzero(switch >= 0)
        return self._placed(
            self._number(switch[host, plane], port[host, plane]), host, "host strands"
        )

    def _placed(
        self, at: NDArray[np.int64], what: NDArray[np.int64], name: str
    ) -> NDArray[np.int64]:
        """``what`` by port, -1 for nothing; ValueError if a port has two."""
        placed = np.full(self.first[-1], NOTHING, dtype=np.int64)
        placed[at] = what
        port, count = np.unique(at, return_counts=True)
        if (count > 1).any():
            raise ValueError(f"two {name} use one port (number {port[count > 1][0]} of all)")
        return placed

    def followed(self, start: NDArray[np.int64]) -> NDArray[np.int64]:
        """The host at whose strand the light from every A port arrives."""
        here, arrived = start.copy(), np.full(len(start), NOTHING, dtype=np.int64)
        used = np.zeros(len(self.partner), dtype=bool)
        going = np.arange(len(start))
        for _ in self.cabling.fabric.switches:
            used[here[going]] = True
            there, one_side = self.partner[here[going]], self.one_side[here[going]]
            used[there[one_side]] = True
            arrived[going] = np.where(one_side, self.host_of_a[there], self.host_of_b[there])
            lost = arrived[going] < 0
            going, there = going[lost], there[lost]
            if not len(going):
                break
            following = self.behind_b[there]
            if (following < 0).any() or (self.partner[following] < 0).any():
                raise ValueError(
                    f"the light of port {self._name(start[going[0]])} ends at a port without a "
                    f"cable or cross-connect"
                )
            here[going] = following
        if len(going):
            raise ValueError(f"the light of port {self._name(start[going[0]])} never arrives")
        idle = np.flatnonzero((self.partner >= 0) & ~used)
        if len(idle):
            raise ValueError(f"no host sends into the cross-connect of port {self._name(idle[0])}")
        return arrived

    def _name(self, number: int) -> str:
        switch = int(np.searchsorted(self.first, number, side="right")) - 1
        return f"{int(number - self.first[switch]) + 1} of switch {switch}"


def _check_states(configuration: Configuration) -> None:
    """Raise ValueError if a restricted switch has cross-connects that no listed state has."""
    for number, switch in enumerate(configuration.cabling.fabric.switches):
        if switch.states is None:
            continue
        mine = configuration.switch == number
        a_port, b_port = configuration.a_port[mine], configuration.b_port[mine]
        if not (switch.states[:, a_port - 1] == b_port).all(axis=1).any():
            raise ValueError(f"switch {switch.name} has no state with all of its cross-connects")


# Light budget: what every link loses on its way, and which transceivers that is too much for.


DR4_DB, FR4_DB = 3, 4
"""What links of transceivers of the DR4 and of the FR4 class may lose."""


@final
class LossFlag(Enum):
    """What to think of a loss: over the fabric's budget, over that of a class, or nothing."""

    OVER = "over"
    FR4 = "fr4"
    DR4 = "dr4"
    OK = "ok"

    @property
    def sentence(self) -> str:
        """The flag in words."""
        return {
            LossFlag.OVER: "more than the fabric's loss budget",
            LossFlag.FR4: f"more than {FR4_DB} dB, the budget of FR4-class transceivers",
            LossFlag.DR4: f"more than {DR4_DB} dB, the budget of DR4-class transceivers",
            LossFlag.OK: "within the budget",
        }[self]


@final
@dataclass(frozen=True, slots=True)
class LightPath:
    """The way of a circuit: its switches in order, what it loses and what that is over."""

    plane: int
    switches: tuple[int, ...]
    loss_db: Fraction
    budget_db: Fraction

    @property
    def margin_db(self) -> Fraction:
        """What may still be lost, negative if it is too much already."""
        return self.budget_db - self.loss_db

    @property
    def flag(self) -> LossFlag:
        """The worst that holds of OVER, FR4 and DR4."""
        if self.loss_db > self.budget_db:
            return LossFlag.OVER
        if self.loss_db > FR4_DB:
            return LossFlag.FR4
        return LossFlag.DR4 if self.loss_db > DR4_DB else LossFlag.OK


def rows_of_circuits(configuration: Configuration) -> list[NDArray[np.int64]]:
    """The cross-connects (row numbers) of every circuit, in the order of its way."""
    order = np.argsort(configuration.circuit, kind="stable")
    ends = np.cumsum(np.bincount(configuration.circuit, minlength=configuration.num_circuits))
    return np.split(order, ends[:-1])


def light_paths(configuration: Configuration) -> tuple[LightPath, ...]:
    """The way of every circuit: two connectors, its switches, and circulators if it is two-way."""
    fabric = configuration.cabling.fabric
    loss = [exact(switch.profile.insertion_loss_db) for switch in fabric.switches]
    ends = 2 * exact(fabric.connector_loss_db)
    if fabric.port_model.is_bidirectional:
        ends += 2 * exact(fabric.circulator_loss_db)
    budget = exact(fabric.loss_budget_db)
    paths = []
    for plane, rows in zip(
        configuration.plane.tolist(), rows_of_circuits(configuration), strict=True
    ):
        switches = tuple(configuration.switch[rows].tolist())
        lost = sum((loss[switch] for switch in switches), ends)
        paths.append(LightPath(plane, switches, lost, budget))
    return tuple(paths)
