"""Cabling and configurations: which strand is plugged where, and which circuits are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
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
    three-stage plane: from a switch's B port to a switch's A port; ``trunk_number`` (int32, trunks)
    are their numbers from 1, which they keep when others go.
    """

    fabric: Fabric
    a_switch: NDArray[np.int32]
    a_port: NDArray[np.int32]
    b_switch: NDArray[np.int32]
    b_port: NDArray[np.int32]
    trunks: NDArray[np.int32]
    trunk_number: NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Configuration:
    """The circuits that make a topology out of a cabling.

    ``host`` (int32, N) is the host of every node. Circuit c is in plane ``plane[c]`` and carries
    link ``link[c, 0]`` forward, from its A end to its B end, and link ``link[c, 1]`` backward (-1
    if it is one-way). Cross-connects are rows: circuit ``circuit[i]`` joins ``a_port[i]`` with
    ``b_port[i]`` of switch ``switch[i]``; a circuit has one row a switch that it crosses, in the
    order of its way. In a MATCHING plane ``b_port`` is the other port of the same side, and higher.
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

    @property
    def ends(self) -> NDArray[np.int32]:
        """The hosts at the A and at the B end of every circuit (int32, circuits x 2)."""
        first = self.link[:, 0]
        nodes = self.topology.tail[first], self.topology.head[first]
        return self.host[np.stack(nodes, axis=1)]


def lower_port_first(configuration: Configuration) -> Configuration:
    """The same with circuits of switches without sides turned: their lower port is the A port."""
    switches = configuration.cabling.fabric.switches
    one_side = np.array([not switch.profile.port_model.has_b_side for switch in switches])
    turn = one_side[configuration.switch] & (configuration.a_port > configuration.b_port)
    if not turn.any():
        return configuration
    link, circuit = configuration.link.copy(), configuration.circuit[turn]
    link[circuit] = link[circuit, ::-1]
    ends = configuration.a_port, configuration.b_port
    a_port, b_port = np.where(turn, ends[::-1], ends)
    return replace(configuration, link=link, a_port=a_port, b_port=b_port)


@final
@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A port by the name of its switch, its side (A or B, or empty if it has none) and number."""

    switch: str
    side: str
    number: int

    def __str__(self) -> str:
        return f"{self.switch}:{self.name}"

    @property
    def name(self) -> str:
        """Its name in the switch, as in ``3A``."""
        return f"{self.number}{self.side}"


def port_name(port: int, side: int, *, has_b_side: bool = True) -> str:
    """A port of a switch as in ``1A``; those of a switch without sides are plain numbers.

    >>> port_name(3, 1), port_name(3, 1, has_b_side=False)
    ('3B', '3')
    """
    return f"{port}{'AB'[side]}" if has_b_side else str(port)


def cross_connect_name(a_port: int, b_port: int, *, has_b_side: bool = True) -> str:
    """Two ports that are joined, as in ``1A-2B``.

    >>> cross_connect_name(1, 2), cross_connect_name(1, 2, has_b_side=False)
    ('1A-2B', '1-2')
    """
    ends = port_name(a_port, 0, has_b_side=has_b_side), port_name(b_port, 1, has_b_side=has_b_side)
    return "-".join(ends)


def strand_numbers(fabric: Fabric) -> NDArray[np.int64]:
    """The number of every strand's cable, hosts x planes x 2 sides: by its place, plugged or not.

    Strands count from 1 by plane, then host, then side; a side without a strand has no number.
    """
    hosts, planes = len(fabric.hosts), fabric.num_planes
    sides = np.array([len(set(fabric.port_model(plane).strands)) for plane in range(planes)])
    first = 1 + hosts * (np.cumsum(sides) - sides)
    host, plane, side = np.indices((hosts, planes, 2))
    return np.asarray(first[plane] + host * sides[plane] + side)


def cable_name(number: int, *, is_trunk: bool = False) -> str:
    """The name of a cable: a host's, or one between switches.

    >>> cable_name(12), cable_name(3, is_trunk=True)
    ('C00012', 'T00003')
    """
    return f"{'T' if is_trunk else 'C'}{number:05d}"
