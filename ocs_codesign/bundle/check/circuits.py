"""Cross-connects of a configuration, checked port by port, and the way of light through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.bundle.check.wiring import Port, port_rule, ports_of
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Cable, Plant
    from ocs_codesign.fabric.description import Switch

COLUMNS = ("id", "a_side", "b_side", "circuit", "from_host", "to_host")
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
        mine = _of_switch(files.table(path, COLUMNS), switch)
        _check_states(files, path, switch, mine)
        if has_database(switch):
            _check_database(files, plant, switch, mine, database_name(configuration, switch.name))
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


def _of_switch(rows: list[Row], switch: Switch) -> list[CrossConnect]:
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


def _check_database(
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
