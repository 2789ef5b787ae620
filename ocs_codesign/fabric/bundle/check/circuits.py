"""Cross-connects of a configuration, checked port by port, and the way of light through them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import whole
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ocs_codesign.fabric.bundle.check.files import BundleFiles, Row
    from ocs_codesign.fabric.description import Fabric, Switch


# The cables of a bundle, checked row by row: which strand is plugged into which port.


CABLING = "cabling.csv"
WIRING_COLUMNS = (
    *("cable", "a_device", "a_port", "a_strand", "b_device", "b_port", "b_strand"),
    *("plane", "polarity"),
)
TRUNK = "trunk"

_PORT = re.compile(r"([1-9][0-9]{0,6})([AB]?)")
_TRUNK = re.compile(r"T[0-9]{5,9}")


@final
@dataclass(frozen=True, slots=True)
class Strand:
    """A strand of hosts in a plane: its name, the side of the switch it is for, its polarity."""

    name: str
    side: str
    polarity: str


_ONE_WAY = (Strand("tx", "A", "host-to-switch"), Strand("rx", "B", "switch-to-host"))
STRANDS = {
    "simplex": _ONE_WAY,
    "restricted": _ONE_WAY,
    "two-sided": (Strand("a", "A", "both"), Strand("b", "B", "both")),
    "matching": (Strand("x", "A", "both"),),
}
"""The strands of a host in a plane by the name of its port model."""


@final
@dataclass(frozen=True, slots=True)
class Port:
    """A port of a switch, such as ``1A``, or of a host with its strand, such as ``p1-tx``."""

    device: str
    name: str


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """What a bundle says has failed: hosts, ports as in ``p0s0:1A``, and switches."""

    hosts: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Cable:
    """A row of the cabling whose devices and ports exist; ``plane`` from 1."""

    name: str
    near: Port
    far: Port
    plane: int
    strand: str

    @property
    def is_trunk(self) -> bool:
        """Whether it joins two switches."""
        return self.strand == "out"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Plant:
    """The cables by what they end in: switch ports with a host, and trunks by either end.

    ``model`` is the name of the port model, ``failed`` is what is said to have failed.
    """

    fabric: Fabric
    switches: dict[str, Switch]
    model: str
    cables: list[Cable]
    host_at: dict[Port, Cable]
    trunk_out: dict[Port, Cable]
    trunk_in: dict[Port, Cable]
    failed: Failed

    def has_failed(self, port: Port) -> str | None:
        """The switch or port that has failed where this port is, if any has."""
        if port.device in self.failed.switches:
            return port.device
        name = f"{port.device}:{port.name}"
        return name if name in self.failed.ports else None

    def cable_at(self, port: Port) -> Cable | None:
        """The cable in a port of a switch."""
        return self.host_at.get(port) or self.trunk_out.get(port) or self.trunk_in.get(port)


def read_plant(files: BundleFiles, fabric: Fabric, failed: Failed) -> Plant:
    """The cables that can be plugged in; everything else in the table is a finding."""
    switches = {switch.name: switch for switch in fabric.switches}
    plant = Plant(fabric, switches, fabric.port_model.value, [], {}, {}, {}, failed)
    hosts = {host: at for at, host in enumerate(fabric.hosts)}
    names: set[str] = set()
    used: dict[Port, int] = {}
    for row in files.table(CABLING, WIRING_COLUMNS):
        if row["cable"] in names:
            row.wrong(f"a second cable is {shown(row['cable'])}")
        names.add(row["cable"])
        is_trunk = row["a_device"] in switches
        row.wrong(*_name_rules(plant, hosts, row, is_trunk=is_trunk))
        rules = list(_trunk_rules(plant, row) if is_trunk else _host_rules(plant, hosts, row))
        row.wrong(*rules)
        if row["b_device"] not in switches or not (is_trunk or row["a_device"] in hosts):
            continue
        near = row["a_port"] if is_trunk else f"{row['a_port']}-{row['a_strand']}"
        cable = Cable(
            row["cable"],
            Port(row["a_device"], near),
            Port(row["b_device"], row["b_port"]),
            switches[row["b_device"]].plane,
            row["a_strand"],
        )
        if not _is_free(used, row, cable) or rules:
            continue
        plant.cables.append(cable)
        if is_trunk:
            plant.trunk_out[cable.near] = plant.trunk_in[cable.far] = cable
        else:
            plant.host_at[cable.far] = cable
    return plant


def ports_of(switch: Switch) -> list[tuple[int, Port]]:
    """All ports of a switch with their number, side A first."""
    sides = "AB" if switch.profile.port_model.has_b_side else ("",)
    numbers = range(1, switch.num_ports + 1)
    return [(at, Port(switch.name, f"{at}{side}")) for side in sides for at in numbers]


def port_rule(switch: Switch, name: str, side: str) -> str | None:
    """The rule that a port of a switch breaks, None if it can be used on this side."""
    parts = _PORT.fullmatch(name)
    where = f"port {shown(name)} of {switch.name}"
    has_sides = switch.profile.port_model.has_b_side
    if parts is None or bool(parts[2]) != has_sides:
        return f"{where} is none: ports are named as {'1A' if has_sides else '1, without sides'}"
    if has_sides and parts[2] != side:
        return f"{where} is on side {parts[2]}: it must be on side {side}"
    if int(parts[1]) > switch.num_ports:
        return f"{where} is none: it has ports 1 to {switch.num_ports}"
    return None


def _name_rules(plant: Plant, hosts: dict[str, int], row: Row, *, is_trunk: bool) -> Iterator[str]:
    """A strand's cable has the number of its place: by plane, host and strand, from 1."""
    name = row["cable"]
    if is_trunk:
        if not _TRUNK.fullmatch(name):
            yield f"cable is {shown(name)}: trunks are named as T00001"
        return
    host, plane = hosts.get(row["a_device"]), row["a_port"].removeprefix("p")
    if host is None or (at := whole(plane)) is None or at >= plant.fabric.num_planes:
        return
    here = [strand.name for strand in STRANDS[plant.model]]
    if row["a_strand"] not in here:
        return
    place = (at * len(hosts) + host) * len(here) + here.index(row["a_strand"])
    number = f"C{1 + place:05d}"
    if name != number:
        yield f"cable is {shown(name)}: the cable of this strand is {number}"


def _host_rules(plant: Plant, hosts: Collection[str], row: Row) -> Iterator[str]:
    if row["a_device"] not in hosts:
        yield f"there is no host {shown(row['a_device'])}"
    switch = plant.switches.get(row["b_device"])
    if switch is None:
        yield f"there is no switch {shown(row['b_device'])}"
        return
    plane = switch.plane
    at = {
        "plane": (str(plane), f"{switch.name} is in plane {plane}"),
        "a_port": (f"p{plane}", f"a host's port in plane {plane} is p{plane}"),
    }
    yield from row.differences(at)
    listed = plant.fabric.plane_hosts[plane] if plant.fabric.plane_hosts else None
    if listed is not None and row["a_device"] not in listed:
        yield f"{shown(row['a_device'])} has no port in plane {plane}"
    strands = {strand.name: strand for strand in STRANDS[plant.model]}
    strand = strands.get(row["a_strand"])
    if strand is None:
        names = f"on {plant.model} switches it is {' or '.join(strands)}"
        yield f"a_strand is {shown(row['a_strand'])}: {names}"
        return
    ends = {
        "b_strand": (strand.name, f"it must be the host's strand, {strand.name}"),
        "polarity": (strand.polarity, f"of {strand.name} it is {strand.polarity}"),
    }
    yield from row.differences(ends)
    broken = port_rule(switch, row["b_port"], strand.side)
    if broken is not None:
        yield f"strand {strand.name}: {broken}"


def _trunk_rules(plant: Plant, row: Row) -> Iterator[str]:
    upstream, downstream = plant.switches[row["a_device"]], plant.switches.get(row["b_device"])
    if downstream is None:
        yield f"there is no switch {shown(row['b_device'])}"
        return
    if downstream.plane != upstream.plane:
        yield f"{upstream.name} and {downstream.name} are of different planes"
    fixed = {"a_strand": "out", "b_strand": "in", "polarity": TRUNK}
    wanted = {"plane": (str(upstream.plane), f"{upstream.name} is in plane {upstream.plane}")}
    wanted |= {column: (value, f"of a trunk it is {value}") for column, value in fixed.items()}
    yield from row.differences(wanted)
    for switch, column, side in ((upstream, "a_port", "B"), (downstream, "b_port", "A")):
        broken = port_rule(switch, row[column], side)
        if broken is not None:
            yield f"a trunk leads from side B to side A: {broken}"


def _is_free(used: dict[Port, int], row: Row, cable: Cable) -> bool:
    """Whether both ports are free until this row, which they are used in from then on."""
    ends = (cable.near, cable.far)
    taken = [port for port in ends if port in used]
    for port in taken:
        row.wrong(f"port {port.name} of {port.device} has a cable already, in line {used[port]}")
    for port in ends:
        used.setdefault(port, row.line)
    return not taken


CIRCUIT_COLUMNS = ("id", "a_side", "b_side", "circuit", "from_host", "to_host")
NORMAL, BLOCKED = "normal", "force_blocked"


@final
@dataclass(frozen=True, slots=True)
class CrossConnect:
    """A row of a switch's table whose ports exist and are free."""

    row: Row
    switch: str
    a_side: str
    b_side: str
    circuit: int | None

    @property
    def id(self) -> str:
        """As in ``1A-2B``."""
        return f"{self.a_side}-{self.b_side}"

    @property
    def place(self) -> str:
        """As in the tables of links: ``switch:1A-2B``."""
        return f"{self.switch}:{self.id}"


@final
@dataclass(frozen=True, slots=True)
class Circuit:
    """The way of light from a host to a host; ``plane`` from 0."""

    plane: int
    from_host: str
    to_host: str
    rows: tuple[CrossConnect, ...]
    is_two_way: bool

    @property
    def number(self) -> int | None:
        """The number that its first row claims."""
        return self.rows[0].circuit

    @property
    def way(self) -> str:
        """Its cross-connects in order."""
        return ";".join(row.place for row in self.rows)


def table_name(configuration: str, switch: str) -> str:
    """The path of the cross-connects of a switch."""
    return f"cross_connects/{configuration}/{switch}.csv"


def database_name(configuration: str, switch: str) -> str:
    """The path of the CONFIG_DB of a switch."""
    return f"cross_connects/{configuration}/{switch}.config_db.json"


def has_database(switch: Switch) -> bool:
    """Whether the switch has a CONFIG_DB: SONiC joins side A with side B, and nothing else."""
    return switch.profile.port_model.has_b_side


def read_cross_connects(
    files: BundleFiles, plant: Plant, configuration: str
) -> tuple[CrossConnect, ...]:
    """The cross-connects that can be made; all others are findings."""
    found: list[CrossConnect] = []
    for switch in plant.fabric.switches:
        path = table_name(configuration, switch.name)
        mine = rows_of_switch(files.table(path, CIRCUIT_COLUMNS), switch)
        _check_states(files, path, switch, mine)
        if has_database(switch):
            check_database(files, plant, switch, mine, database_name(configuration, switch.name))
        found += mine
    return tuple(found)


def ends_of(identifier: str) -> tuple[str, str] | None:
    """The two ports of ``1A-2B``, None if it is not of this form."""
    a_side, dash, b_side = identifier.partition("-")
    return (a_side, b_side) if dash and "-" not in b_side else None


def circuit_rule(switch: Switch, a_side: str, b_side: str) -> str | None:
    """The rule that a cross-connect breaks by itself, None if the switch can make it."""
    if switch.profile.port_model.has_b_side:
        sides = a_side[-1:] + b_side[-1:]
        if sides in ("AA", "BB"):
            return f"{a_side}-{b_side} joins two ports of side {sides[0]}, which have no circuit"
        return port_rule(switch, a_side, "A") or port_rule(switch, b_side, "B")
    if a_side == b_side:
        return f"{a_side}-{b_side} joins a port with itself"
    return port_rule(switch, a_side, "A") or port_rule(switch, b_side, "A")


def rows_of_switch(rows: list[Row], switch: Switch) -> list[CrossConnect]:
    """The cross-connects of a switch that can be made; all others are findings."""
    used: dict[str, int] = {}
    found: list[CrossConnect] = []
    for row in rows:
        a_side, b_side = row["a_side"], row["b_side"]
        name = f"{a_side}-{b_side}"
        row.wrong(*row.differences({"id": (name, f"it must be {name}")}))
        broken = circuit_rule(switch, a_side, b_side)
        if broken is not None:
            row.wrong(broken)
        taken = [port for port in (a_side, b_side) if port in used]
        for port in taken:
            row.wrong(f"port {port} of {switch.name} is in a circuit already, in line {used[port]}")
        for port in (a_side, b_side):
            used.setdefault(port, row.line)
        number = row.whole("circuit")
        if broken is None and not taken:
            found.append(CrossConnect(row, switch.name, a_side, b_side, number))
    return found


def _check_states(files: BundleFiles, path: str, switch: Switch, rows: list[CrossConnect]) -> None:
    """A restricted switch can hold only what some listed state has."""
    if switch.states is None or not rows:
        return
    a_port = np.array([int(row.a_side[:-1]) for row in rows])
    b_port = np.array([int(row.b_side[:-1]) for row in rows])
    if not (np.asarray(switch.states)[:, a_port - 1] == b_port).all(axis=1).any():
        files.wrong(path, f"no listed state of {switch.name} has all of these cross-connects")


def check_database(
    files: BundleFiles, plant: Plant, switch: Switch, rows: list[CrossConnect], path: str
) -> None:
    """The CONFIG_DB says the same as the table of cross-connects and the cabling."""
    found = files.json(path)
    if found is None:
        return
    if not isinstance(found, dict):
        files.wrong(path, "CONFIG_DB is an object of tables")
        return
    wanted: dict[str, dict[str, Any]] = {
        "OCS_PORT": _ports(plant, switch),
        "OCS_CROSS_CONNECT": {row.id: {"a_side": row.a_side, "b_side": row.b_side} for row in rows},
    }
    add = files.findings.add
    for name in sorted(set(found) - set(wanted)):
        add(path, name, "there is no such table in a bundle")
    for name, entries in wanted.items():
        table = found.get(name)
        if not isinstance(table, dict):
            add(path, name, "the table is missing or no object")
            continue
        for key in sorted(set(table) - set(entries)):
            add(path, f"{name} {key}", "it is in no CSV of the bundle")
        for key, entry in entries.items():
            if table.get(key) != entry:
                rule = f"it is {shown(table.get(key))}: by the CSV files it is {shown(entry)}"
                add(path, f"{name} {key}", rule)


def _ports(plant: Plant, switch: Switch) -> dict[str, Any]:
    """OCS_PORT by the cabling: what is plugged in, and which ports are blocked."""
    ports = {}
    for number, port in ports_of(switch):
        cable = plant.cable_at(port)
        if plant.has_failed(port) is not None:
            label, state = "failed", BLOCKED
        elif cable is None:
            label, state = "spare" if number > switch.num_usable else "free", BLOCKED
        else:
            label, state = f"{cable.name} {_other_end(cable, port)}", NORMAL
        ports[port.name] = {"label": label, "state": state}
    return ports


def _other_end(cable: Cable, port: Port) -> str:
    if not cable.is_trunk:
        return f"{cable.near.device} {cable.near.name.replace('-', ' ')}"
    if port == cable.near:
        return f"{cable.far.device} {cable.far.name} in"
    return f"{cable.near.device} {cable.near.name} out"


def follow(plant: Plant, rows: Iterable[CrossConnect], *, tell: bool) -> tuple[Circuit, ...]:
    """Every way of light from a host's strand through cross-connects and trunks to a host.

    Cables and cross-connects are all that is read. Cross-connects that lead nowhere are findings
    if they are to be told.
    """
    by_port = {Port(row.switch, row.a_side): row for row in rows}
    crossed: set[CrossConnect] = set()
    circuits = []
    for port, first in by_port.items():
        start = plant.host_at.get(port)
        if start is None:
            continue
        way = _way(plant, by_port, first)
        crossed.update(way)
        last = way[-1]
        end = plant.host_at.get(Port(last.switch, last.b_side))
        if end is not None:
            two_way = plant.switches[first.switch].profile.port_model.is_bidirectional
            hosts = (start.near.device, end.near.device)
            circuits.append(Circuit(start.plane, *hosts, way, two_way))
        elif tell:
            last.row.wrong(
                f"the light of {start.near.device} ends at port {last.b_side} of "
                f"{last.switch}, from which no cable leads to a host or on to a circuit"
            )
    for one in by_port.values():
        if tell and one not in crossed:
            one.row.wrong(f"no host's light comes to port {one.a_side} of {one.switch}")
    return tuple(circuits)


def _way(
    plant: Plant, by_port: dict[Port, CrossConnect], first: CrossConnect
) -> tuple[CrossConnect, ...]:
    """Cross-connects from the first one on, until light leaves the switches or returns."""
    way = [first]
    while True:
        trunk = plant.trunk_out.get(Port(way[-1].switch, way[-1].b_side))
        following = None if trunk is None else by_port.get(trunk.far)
        if following is None or following in way:
            return tuple(way)
        way.append(following)


def check_circuits(circuits: Sequence[Circuit]) -> None:
    """The rows of every circuit claim one number, no other circuit's, and the hosts at its ends."""
    owner: dict[int, Circuit] = {}
    for circuit in circuits:
        for row, number in ((crossed.row, crossed.circuit) for crossed in circuit.rows):
            if (row["from_host"], row["to_host"]) != (circuit.from_host, circuit.to_host):
                row.wrong(
                    f"the hosts are {shown(row['from_host'])} and {shown(row['to_host'])}: light "
                    f"goes from {circuit.from_host} to {circuit.to_host}"
                )
            if number is None:
                continue
            if number >= len(circuits):
                row.wrong(f"circuit is {number}: {len(circuits)} circuits are numbered from 0")
            elif number != circuit.number:
                row.wrong(
                    f"circuit is {number}: the light that comes here is of circuit {circuit.number}"
                )
            elif owner.setdefault(number, circuit) is not circuit:
                row.wrong(f"another circuit is number {number}, too")
