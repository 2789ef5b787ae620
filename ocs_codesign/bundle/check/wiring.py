"""The cables of a bundle, checked row by row: which strand is plugged into which port."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.bundle.check.files import BundleFiles, Findings, Row
    from ocs_codesign.fabric.description import Fabric, Switch

CABLING = "cabling.csv"
COLUMNS = (
    *("cable", "a_device", "a_port", "a_strand", "b_device", "b_port", "b_strand"),
    *("plane", "polarity"),
)
TRUNK = "trunk"

_PORT = re.compile(r"([1-9][0-9]{0,6})([AB])")
_ONE_WAY = (("tx", "A", "host-to-switch"), ("rx", "B", "switch-to-host"))


@final
@dataclass(frozen=True, slots=True)
class Strand:
    """A strand of hosts in a plane: its name, the side of the switch it is for, its polarity."""

    name: str
    side: str
    polarity: str


STRANDS = {
    PortModel.SIMPLEX: tuple(Strand(*one) for one in _ONE_WAY),
    PortModel.RESTRICTED: tuple(Strand(*one) for one in _ONE_WAY),
    PortModel.TWO_SIDED: (Strand("a", "A", "both"), Strand("b", "B", "both")),
    PortModel.MATCHING: (Strand("x", "A", "both"),),
}
"""The strands of a host in a plane of every port model."""


@final
@dataclass(frozen=True, slots=True)
class Port:
    """A port of a switch, such as ``1A``, or of a host with its strand, such as ``p1-tx``."""

    device: str
    name: str


@final
@dataclass(frozen=True, slots=True)
class Cable:
    """A row of the cabling whose devices and ports exist; ``plane`` from 1."""

    line: int
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
    """The cables by what they end in: switch ports with a host, and trunks by either end."""

    fabric: Fabric
    switches: dict[str, Switch]
    cables: tuple[Cable, ...]
    host_at: dict[Port, Cable]
    trunk_out: dict[Port, Cable]
    trunk_in: dict[Port, Cable]

    def cable_at(self, port: Port) -> Cable | None:
        """The cable in a port of a switch."""
        return self.host_at.get(port) or self.trunk_out.get(port) or self.trunk_in.get(port)


def read_plant(files: BundleFiles, fabric: Fabric) -> Plant:
    """The cables that can be plugged in; everything else in the table is a finding."""
    switches = {switch.name: switch for switch in fabric.switches}
    hosts = set(fabric.hosts)
    plant = Plant(fabric, switches, (), {}, {}, {})
    names: set[str] = set()
    used: dict[Port, int] = {}
    cables = []
    for at, row in enumerate(files.table(CABLING, COLUMNS), 1):
        if row["cable"] in names:
            files.findings.add(CABLING, row.line, f"a second cable is {shown(row['cable'])}")
        elif row["cable"] != f"C{at:05d}":
            rule = f"cable is {shown(row['cable'])}: cables are numbered, this is C{at:05d}"
            files.findings.add(CABLING, row.line, rule)
        names.add(row["cable"])
        is_trunk = row["a_device"] in switches
        rules = list(_trunk_rules(plant, row) if is_trunk else _host_rules(plant, hosts, row))
        for rule in rules:
            files.findings.add(CABLING, row.line, rule)
        if row["b_device"] not in switches or not (is_trunk or row["a_device"] in hosts):
            continue
        near = row["a_port"] if is_trunk else f"{row['a_port']}-{row['a_strand']}"
        cable = Cable(
            row.line,
            row["cable"],
            Port(row["a_device"], near),
            Port(row["b_device"], row["b_port"]),
            switches[row["b_device"]].plane,
            row["a_strand"],
        )
        if _is_free(files.findings, used, cable) and not rules:
            cables.append(cable)
            _plug(plant, cable)
    _check_strands(files.findings, fabric, cables)
    return Plant(fabric, switches, tuple(cables), plant.host_at, plant.trunk_out, plant.trunk_in)


def port_rule(switch: Switch, name: str, side: str) -> str | None:
    """The rule that a port of a switch breaks, None if it can be used on this side."""
    parts = _PORT.fullmatch(name)
    where = f"port {shown(name)} of {switch.name}"
    if parts is None:
        return f"{where} is none: ports are named as 1A"
    if parts[2] != side:
        if not switch.profile.port_model.has_b_side:
            return f"{where} is none: the ports of this switch are all on side A"
        return f"{where} is on side {parts[2]}: it must be on side {side}"
    number = int(parts[1])
    if number > switch.num_ports:
        return f"{where} is none: it has ports 1 to {switch.num_ports}"
    if number > switch.num_usable:
        return f"{where} is spare: ports up to {switch.num_usable} are in use"
    return None


def _host_rules(plant: Plant, hosts: set[str], row: Row) -> Iterable[str]:
    if row["a_device"] not in hosts:
        yield f"there is no host {shown(row['a_device'])}"
    switch = plant.switches.get(row["b_device"])
    if switch is None:
        yield f"there is no switch {shown(row['b_device'])}"
        return
    model, plane = switch.profile.port_model, switch.plane
    if row["plane"] != str(plane):
        yield f"plane is {shown(row['plane'])}: {switch.name} is in plane {plane}"
    if row["a_port"] != f"p{plane}":
        yield f"a_port is {shown(row['a_port'])}: a host's port in plane {plane} is p{plane}"
    strand = next((one for one in STRANDS[model] if one.name == row["a_strand"]), None)
    if strand is None:
        names = " or ".join(one.name for one in STRANDS[model])
        yield f"a_strand is {shown(row['a_strand'])}: on {model.value} switches it is {names}"
        return
    if row["b_strand"] != strand.name:
        yield f"b_strand is {shown(row['b_strand'])}: it must be the host's strand, {strand.name}"
    if row["polarity"] != strand.polarity:
        yield f"polarity is {shown(row['polarity'])}: of {strand.name} it is {strand.polarity}"
    broken = port_rule(switch, row["b_port"], strand.side)
    if broken is not None:
        yield f"strand {strand.name}: {broken}"


def _trunk_rules(plant: Plant, row: Row) -> Iterable[str]:
    upstream, downstream = plant.switches[row["a_device"]], plant.switches.get(row["b_device"])
    if downstream is None:
        yield f"there is no switch {shown(row['b_device'])}"
        return
    if downstream.plane != upstream.plane:
        yield f"{upstream.name} and {downstream.name} are of different planes"
    if row["plane"] != str(upstream.plane):
        yield f"plane is {shown(row['plane'])}: {upstream.name} is in plane {upstream.plane}"
    wanted = (("a_strand", "out"), ("b_strand", "in"), ("polarity", TRUNK))
    for column, value in wanted:
        if row[column] != value:
            yield f"{column} is {shown(row[column])}: of a trunk it is {value}"
    for switch, column, side in ((upstream, "a_port", "B"), (downstream, "b_port", "A")):
        broken = port_rule(switch, row[column], side)
        if broken is not None:
            yield f"a trunk leads from side B to side A: {broken}"


def _is_free(findings: Findings, used: dict[Port, int], cable: Cable) -> bool:
    free = True
    for port in (cable.near, cable.far):
        if port in used:
            rule = f"port {port.name} of {port.device} has a cable already, in line {used[port]}"
            findings.add(CABLING, cable.line, rule)
            free = False
        used.setdefault(port, cable.line)
    return free


def _plug(plant: Plant, cable: Cable) -> None:
    if cable.is_trunk:
        plant.trunk_out[cable.near] = plant.trunk_in[cable.far] = cable
    else:
        plant.host_at[cable.far] = cable


def _check_strands(findings: Findings, fabric: Fabric, cables: list[Cable]) -> None:
    """A host that is plugged into a plane is so with all its strands."""
    plugged = {(one.near.device, one.plane, one.strand) for one in cables if not one.is_trunk}
    models = [fabric.port_model(plane) for plane in range(fabric.num_planes)]
    for host, plane in sorted({(host, plane) for host, plane, _ in plugged}):
        for strand in STRANDS[models[plane]]:
            if (host, plane, strand.name) not in plugged:
                rule = f"strand {strand.name} of {host} in plane {plane} has no cable"
                findings.add(CABLING, None, rule)
