"""Cabling and configurations: which strand is plugged where, and which circuits are made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from ocs_codesign.core.compute.factorisation import factorise
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes.planes import Planes


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


def port_at(fabric: Fabric, switch: int, side: int, number: int) -> Port:
    """A port by the number of its switch, its side (0 A, 1 B) and its number there."""
    model = fabric.port_model
    return Port(fabric.switches[switch].name, model.sides[side * model.has_b_side], number)


def strand_numbers(fabric: Fabric) -> NDArray[np.int64]:
    """The number of every strand's cable, hosts x planes x 2 sides: by its place, plugged or not.

    Strands count from 1 by plane, then host, then side; a side without a strand has no number.
    """
    hosts, sides = len(fabric.hosts), len(set(fabric.port_model.strands))
    host, plane, side = np.indices((hosts, fabric.num_planes, 2))
    return np.asarray(1 + (plane * hosts + host) * sides + side)


def cable_name(number: int, *, is_trunk: bool = False) -> str:
    """The name of a cable: a host's, or one between switches.

    >>> cable_name(12), cable_name(3, is_trunk=True)
    ('C00012', 'T00003')
    """
    return f"{'T' if is_trunk else 'C'}{number:05d}"


# Port use: which ports of every switch have a cable, and what hangs on it.


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
            return port_at(cabling.fabric, switch, side, number)
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
        for side, name in enumerate(switch.profile.port_model.sides):
            places = [(number, side, port) for port in range(1, switch.num_ports + 1)]
            lost = broken.intersection(places)
            busy = used.intersection(places) - lost
            spare = set(places[switch.num_usable :]) - busy - lost
            rows.append(PortUse(number, name, switch.num_ports, len(busy), len(spare), len(lost)))
    return tuple(rows)


# Three-stage networks of switches: a plane whose blocks are larger than its switches.
#
# Hosts send into edge switches, these have ``trunks`` cables to every middle switch, and those as
# many to the edge switches that hosts receive from. Any permutation of hosts has a way if and
# only if middles times trunks are at least the hosts of an edge switch: D. Slepian (1952), A. M.
# Duguid (1959). The ways of a configuration are an edge colouring of the circuits between edge
# switches.


@final
@dataclass(frozen=True, slots=True)
class Clos:
    """Switches (places in a list) by stage, hosts an edge switch, and trunks to a middle switch."""

    senders: tuple[int, ...]
    middles: tuple[int, ...]
    receivers: tuple[int, ...]
    num_hosts: int
    num_trunks: int

    @property
    def num_switches(self) -> int:
        """Switches of all stages."""
        return len(self.senders) + len(self.middles) + len(self.receivers)

    def trunks(self) -> NDArray[np.int32]:
        """Every trunk as (switch, B port, switch, A port), ports from 1.

        The edge switches' trunk ports are numbered by middle switch, then by trunk; the middle
        switches' by edge switch, then by trunk.
        """
        shape = len(self.senders), len(self.middles), self.num_trunks
        edge, middle, trunk = np.indices(shape).reshape(3, -1)
        outer, inner = 1 + middle * self.num_trunks + trunk, 1 + edge * self.num_trunks + trunk
        senders, middles, receivers = map(np.array, (self.senders, self.middles, self.receivers))
        there = np.stack([senders[edge], outer, middles[middle], inner], axis=1)
        back = np.stack([middles[middle], inner, receivers[edge], outer], axis=1)
        return np.stack([there, back], axis=1).reshape(-1, 4).astype(np.int32)


def three_stages(num_hosts: int, ports: NDArray[np.int64]) -> Clos | None:
    """The rearrangeable three-stage network for so many hosts of fewest switches, or None.

    ``ports`` are the usable ports a side of the switches there are. All edge switches serve as many
    hosts, but for the last; every one has as many trunks to every middle switch.
    """
    best: Clos | None = None
    most = len(ports) // 2
    largest = int(ports.max(initial=0))
    for edges in range(2, most + 1):
        hosts = -(-num_hosts // edges)
        if hosts > largest or -(-num_hosts // hosts) != edges:
            continue
        for trunks in range(1, min(hosts, largest // edges) + 1):
            middles = -(-hosts // trunks)
            if best is not None and 2 * edges + middles >= best.num_switches:
                continue
            best = _assigned(ports, edges, middles, trunks, hosts) or best
    return best


def _assigned(
    ports: NDArray[np.int64], edges: int, middles: int, trunks: int, hosts: int
) -> Clos | None:
    """Switches for each stage, those that need more ports from the largest ones."""
    if 2 * edges + middles > len(ports):
        return None
    order = np.argsort(-ports, kind="stable")
    edge_ports, middle_ports = max(hosts, middles * trunks), edges * trunks
    edges_first = edge_ports >= middle_ports
    cut = 2 * edges if edges_first else middles
    first, second = order[:cut], order[cut : 2 * edges + middles]
    outer, inner = (first, second) if edges_first else (second, first)
    if ports[outer].min() < edge_ports or ports[inner].min() < middle_ports:
        return None
    at_edge = sorted(int(switch) for switch in outer)
    return Clos(
        tuple(at_edge[:edges]),
        tuple(sorted(int(switch) for switch in inner)),
        tuple(at_edge[edges:]),
        hosts,
        trunks,
    )


def trunking(
    trunks: NDArray[np.int32], senders: NDArray[np.int32], receivers: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The trunks of a plane by edge switch and way: out of ``senders`` and into ``receivers``.

    Both are edges x ways x 4, rows as of ``Clos.trunks``, edge switches in order of their numbers;
    way w is through the same middle switch from all edges. Raises InfeasibleError (CABLING) if the
    trunks are not those of a three-stage network.
    """
    out, into = trunks[np.isin(trunks[:, 0], senders)], trunks[np.isin(trunks[:, 2], receivers)]
    out, into = out[np.lexsort((out[:, 1], out[:, 0]))], into[np.lexsort((into[:, 3], into[:, 2]))]
    edges = np.concatenate([2 * out[:, 0], 2 * into[:, 2] + 1])
    num_ways = np.unique(edges, return_counts=True)[1]
    if len(edges) == len(trunks) > 0 and (num_ways == num_ways[0]).all():
        out, into = out.reshape(-1, num_ways[0], 4), into.reshape(-1, num_ways[0], 4)
        middle = out[0, :, 2]
        if (out[:, :, 2] == middle).all() and (into[:, :, 0] == middle).all():
            return out, into
    raise InfeasibleError(
        Reason.CABLING,
        "trunks do not make a three-stage network: every edge switch needs as many to every middle",
    )


def ways(
    senders: NDArray[np.int64], receivers: NDArray[np.int64], num_edges: int, num_ways: int
) -> NDArray[np.int32]:
    """A way for every circuit between edge switches such that none share a trunk.

    ``senders`` and ``receivers`` number the edge switches of every circuit. Raises
    InfeasibleError (CABLING) if an edge switch has more circuits than ways.
    """
    chosen = factorise(Topology(num_edges, senders, receivers))
    if len(chosen) and int(chosen.max()) >= num_ways:
        raise InfeasibleError(
            Reason.CABLING,
            f"an edge switch has {int(chosen.max()) + 1} circuits, but {num_ways} trunks",
        )
    return chosen


# The cross-connects that make circuits on laid cables, through one switch or three stages.


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
    b_port = cabling.b_port if cabling.fabric.port_model.has_b_side else cabling.a_port
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
