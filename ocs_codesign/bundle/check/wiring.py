"""The cables of a bundle, checked row by row: which strand is plugged into which port."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.fabric.description import Fabric, PortModel, Switch

CABLING = "cabling.csv"
COLUMNS = (
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

    ``models`` has the port model of every plane, ``failed`` is what is said to have failed.
    """

    fabric: Fabric
    switches: dict[str, Switch]
    models: tuple[PortModel, ...]
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
    models = tuple(fabric.port_model(plane) for plane in range(fabric.num_planes))
    plant = Plant(fabric, switches, models, [], {}, {}, {}, failed)
    hosts = {host: at for at, host in enumerate(fabric.hosts)}
    names: set[str] = set()
    used: dict[Port, int] = {}
    for row in files.table(CABLING, COLUMNS):
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
    if host is None or not plane.isdigit() or len(plane) > 6 or int(plane) >= len(plant.models):
        return
    strands = [STRANDS[model.value] for model in plant.models]
    here = [strand.name for strand in strands[int(plane)]]
    if row["a_strand"] not in here:
        return
    before = len(hosts) * sum(len(each) for each in strands[: int(plane)])
    number = f"C{1 + before + host * len(here) + here.index(row['a_strand']):05d}"
    if name != number:
        yield f"cable is {shown(name)}: the cable of this strand is {number}"


def _host_rules(plant: Plant, hosts: Collection[str], row: Row) -> Iterator[str]:
    if row["a_device"] not in hosts:
        yield f"there is no host {shown(row['a_device'])}"
    switch = plant.switches.get(row["b_device"])
    if switch is None:
        yield f"there is no switch {shown(row['b_device'])}"
        return
    model, plane = switch.profile.port_model, switch.plane
    at = {
        "plane": (str(plane), f"{switch.name} is in plane {plane}"),
        "a_port": (f"p{plane}", f"a host's port in plane {plane} is p{plane}"),
    }
    yield from row.differences(at)
    strands = {strand.name: strand for strand in STRANDS[model.value]}
    strand = strands.get(row["a_strand"])
    if strand is None:
        names = f"on {model.value} switches it is {' or '.join(strands)}"
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
