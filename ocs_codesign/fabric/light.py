"""Following the light: the topology that cables and cross-connects make, whatever is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.planes.circuits import NO_LINK
from ocs_codesign.topology import Topology

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
    paths = _Ports(configuration)
    node_of = np.full(len(configuration.cabling.fabric.hosts), NOTHING, dtype=np.int64)
    node_of[configuration.host] = np.arange(len(configuration.host))
    start = np.flatnonzero((paths.host_of_a >= 0) & (paths.row_of_a >= 0))
    if paths.is_matching.any():
        partner = paths.partner[start]
        start = start[~paths.is_matching[start] | (start < partner)]
    one, other = paths.host_of_a[start], paths.followed(start)
    for hosts in (one, other):
        if (node_of[hosts] < 0).any():
            stray = configuration.cabling.fabric.hosts[int(hosts[node_of[hosts] < 0][0])]
            raise ValueError(f"a circuit ends at host {stray}, which is no node of the topology")
    both = paths.two_way[start]
    both &= configuration.link[configuration.circuit[paths.row_of_a[start]], 1] != NO_LINK
    tail = np.concatenate([node_of[one], node_of[other[both]]])
    head = np.concatenate([node_of[other], node_of[one[both]]])
    order = np.lexsort((head, tail))
    return Topology(len(configuration.host), tail[order], head[order])


class _Ports:
    """Every port of every switch as one number, and what is plugged and joined there."""

    def __init__(self, configuration: Configuration) -> None:
        cabling = configuration.cabling
        switches = cabling.fabric.switches
        sizes = np.array([switch.num_ports for switch in switches])
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        models = [switch.profile.port_model for switch in switches]
        self.is_matching = np.repeat([not model.has_b_side for model in models], sizes)
        self.two_way = np.repeat([model.is_bidirectional for model in models], sizes)
        size = int(self.first[-1])
        self.host_of_a = self._plugged(cabling, cabling.a_switch, cabling.a_port, size)
        self.host_of_b = self._plugged(cabling, cabling.b_switch, cabling.b_port, size)
        trunk_b = self._number(cabling, cabling.trunks[:, 0], cabling.trunks[:, 1])
        trunk_a = self._number(cabling, cabling.trunks[:, 2], cabling.trunks[:, 3])
        self.behind_b = _placed(trunk_b, trunk_a, size, "trunks")
        _placed(trunk_a, trunk_b, size, "trunks")
        self._check_shared(trunk_a, self.host_of_a)
        self._check_shared(trunk_b, self.host_of_b)
        self._join(configuration, size)
        self.num_switches = len(switches)

    def _number(
        self, cabling: Cabling, switch: NDArray[np.int32], port: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        known = (switch >= 0) & (switch < len(self.first) - 1)
        if not known.all():
            raise ValueError(f"there is no switch {int(switch[~known][0])}")
        number = self.first[switch] + port - 1
        bad = np.flatnonzero((port < 1) | (number >= self.first[switch + 1]))
        if len(bad):
            name = cabling.fabric.switches[int(switch[bad[0]])].name
            raise ValueError(f"switch {name} has no port {int(port[bad[0]])}")
        return number.astype(np.int64)

    def _plugged(
        self, cabling: Cabling, switch: NDArray[np.int32], port: NDArray[np.int32], size: int
    ) -> NDArray[np.int64]:
        host, plane = np.nonzero(switch >= 0)
        number = self._number(cabling, switch[host, plane], port[host, plane])
        return _placed(number, host, size, "host strands")

    def _check_shared(self, trunk: NDArray[np.int64], host: NDArray[np.int64]) -> None:
        if (host[trunk] >= 0).any():
            raise ValueError("a trunk and a host's strand are in one port")

    def _join(self, configuration: Configuration, size: int) -> None:
        cabling = configuration.cabling
        a = self._number(cabling, configuration.switch, configuration.a_port)
        b = self._number(cabling, configuration.switch, configuration.b_port)
        row = np.arange(len(a))
        matching = self.is_matching[a]
        if (a == b)[matching].any():
            raise ValueError("a cross-connect joins a port with itself")
        # Of a switch without sides, both ports are on the only side.
        entries = np.concatenate([a, b[matching]]), np.concatenate([b, a[matching]])
        self.partner = _placed(*entries, size, "cross-connects")
        rows = np.concatenate([row, row[matching]])
        self.row_of_a = _placed(entries[0], rows, size, "cross-connects")
        _placed(b[~matching], a[~matching], size, "cross-connects")

    def followed(self, start: NDArray[np.int64]) -> NDArray[np.int64]:
        """The host at whose strand the light from every A port arrives."""
        here, arrived = start.copy(), np.full(len(start), NOTHING, dtype=np.int64)
        used = np.zeros(len(self.partner), dtype=bool)
        going = np.arange(len(start))
        for _ in range(self.num_switches):
            used[here[going]] = True
            there = self.partner[here[going]]
            matching = self.is_matching[here[going]]
            used[there[matching]] = True
            at_host = np.where(matching, self.host_of_a[there], self.host_of_b[there])
            arrived[going] = at_host
            going, there = going[at_host < 0], there[at_host < 0]
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


def _placed(
    at: NDArray[np.int64], what: NDArray[np.int64], size: int, name: str
) -> NDArray[np.int64]:
    """``what`` by port, -1 for nothing; ValueError if a port has two."""
    placed = np.full(size, NOTHING, dtype=np.int64)
    placed[at] = what
    port, count = np.unique(at, return_counts=True)
    if (count > 1).any():
        raise ValueError(f"two {name} use one port (number {int(port[count > 1][0])} of all)")
    return placed


def _check_states(configuration: Configuration) -> None:
    """Raise ValueError if a restricted switch has cross-connects that no listed state has."""
    for number, switch in enumerate(configuration.cabling.fabric.switches):
        if switch.states is None:
            continue
        mine = configuration.switch == number
        a_port, b_port = configuration.a_port[mine], configuration.b_port[mine]
        if not (np.asarray(switch.states)[:, a_port - 1] == b_port).all(axis=1).any():
            raise ValueError(f"switch {switch.name} has no state with all of its cross-connects")
