"""Tables of a configuration: cross-connects, the switches' CONFIG_DB, and links with their loss.

CONFIG_DB is the configuration of SONiC. Its tables for optical circuit switches are OCS_PORT, with
the ``label`` and ``state`` of every port (``normal``, or ``force_blocked`` where nothing is
plugged in), and OCS_CROSS_CONNECT, with the ``a_side`` and ``b_side`` of every ``1A-2B``. It joins
side A with side B only, so that switches without sides have no CONFIG_DB: their cross-connects are
named as in ``1-2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bundle.write.text import csv_bytes, decimal_text, json_bytes
from ocs_codesign.fabric.light_budget import light_paths, rows_of_circuits
from ocs_codesign.fabric.planes.circuits import circuits_of_links
from ocs_codesign.fabric.wiring import port_name
from ocs_codesign.formats.graphs.edge_list import link_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ocs_codesign.bundle.write.tables import Cable
    from ocs_codesign.fabric.description import Switch
    from ocs_codesign.fabric.wiring import Configuration

NORMAL, BLOCKED = "normal", "force_blocked"
FORWARD, BACKWARD = "forward", "backward"


@final
@dataclass(frozen=True, slots=True)
class CrossConnect:
    """One row of a configuration: two ports of a switch, and the circuit that goes through."""

    switch: int
    a_port: int
    a_side: str
    b_side: str
    circuit: int

    @property
    def id(self) -> str:
        """As in ``1A-2B``."""
        return f"{self.a_side}-{self.b_side}"


def cross_connects(configuration: Configuration) -> list[CrossConnect]:
    """All cross-connects, in the configuration's order of rows."""
    switches = configuration.cabling.fabric.switches
    sided = [switch.profile.port_model.has_b_side for switch in switches]
    columns = (
        configuration.switch,
        configuration.a_port,
        configuration.b_port,
        configuration.circuit,
    )
    rows = []
    for switch, a_port, b_port, circuit in zip(*(c.tolist() for c in columns), strict=True):
        ends = enumerate((a_port, b_port))
        a, b = (port_name(port, side, has_b_side=sided[switch]) for side, port in ends)
        rows.append(CrossConnect(switch, a_port, a, b, circuit))
    return rows


def switch_tables(
    configuration: Configuration,
    rows: Sequence[CrossConnect],
    cables: Sequence[Cable],
    failed: Collection[tuple[int, int, int]],
) -> dict[str, bytes]:
    """Files by name: of every switch the CSV and the CONFIG_DB, even if it is dark."""
    fabric, topology = configuration.cabling.fabric, configuration.topology
    link = configuration.link[:, 0]
    from_host = configuration.host[topology.tail[link]].tolist()
    to_host = configuration.host[topology.head[link]].tolist()
    of_switch: list[list[CrossConnect]] = [[] for _ in fabric.switches]
    for row in rows:
        of_switch[row.switch].append(row)
    labels = port_labels(cables)
    columns = ("id", "a_side", "b_side", "circuit", "from_host", "to_host")
    files = {}
    for number, (switch, mine) in enumerate(zip(fabric.switches, of_switch, strict=True)):
        mine.sort(key=lambda row: row.a_port)
        table = [
            (
                *(row.id, row.a_side, row.b_side, row.circuit),
                *(fabric.hosts[from_host[row.circuit]], fabric.hosts[to_host[row.circuit]]),
            )
            for row in mine
        ]
        files[f"{switch.name}.csv"] = csv_bytes(columns, table)
        if switch.profile.port_model.has_b_side:
            broken = {port_name(port, side) for at, side, port in failed if at == number}
            database = config_db(switch, mine, labels.get(switch.name, {}), broken)
            files[f"{switch.name}.config_db.json"] = json_bytes(database)
    return files


def port_labels(cables: Sequence[Cable]) -> dict[str, dict[str, str]]:
    """What is plugged into the ports of every switch, by switch and port."""
    labels: dict[str, dict[str, str]] = {}
    for cable in cables:
        a, b = cable.a, cable.b
        labels.setdefault(b.device, {})[b.port] = f"{cable.name} {a.device} {a.port} {a.strand}"
        if cable.is_trunk:
            labels.setdefault(a.device, {})[a.port] = f"{cable.name} {b.device} {b.port} {b.strand}"
    return labels


def config_db(
    switch: Switch,
    rows: Sequence[CrossConnect],
    labels: Mapping[str, str],
    broken: Collection[str],
) -> dict[str, Any]:
    """The CONFIG_DB of one switch in one configuration."""
    ports = {}
    for side in "AB":
        for port in range(1, switch.num_ports + 1):
            name = f"{port}{side}"
            idle = "spare" if port > switch.num_usable else "free"
            is_used = name in labels and name not in broken
            label = "failed" if name in broken else labels.get(name, idle)
            ports[name] = {"label": label, "state": NORMAL if is_used else BLOCKED}
    joined = {row.id: {"a_side": row.a_side, "b_side": row.b_side} for row in rows}
    return {"OCS_PORT": ports, "OCS_CROSS_CONNECT": joined}


def links_table(configuration: Configuration, rows: Sequence[CrossConnect]) -> bytes:
    """``links/NAME.csv``: every link in order, its circuit's way and what is lost on it."""
    cabling, topology = configuration.cabling, configuration.topology
    hosts, switches = cabling.fabric.hosts, cabling.fabric.switches
    paths = light_paths(configuration)
    way = [
        ";".join(f"{switches[rows[at].switch].name}:{rows[at].id}" for at in crossed)
        for crossed in rows_of_circuits(configuration)
    ]
    circuit, turned = circuits_of_links(configuration.link)
    table = []
    for link, (tail, head) in enumerate(link_rows(topology)):
        number = int(circuit[link])
        path = paths[number]
        from_host, to_host = (hosts[configuration.host[end]] for end in (tail, head))
        direction = BACKWARD if turned[link] else FORWARD
        light = map(decimal_text, (path.loss_db, path.budget_db, path.margin_db))
        table.append(
            (
                *(link, tail, head, from_host, to_host, path.plane, number, direction),
                *(way[number], len(path.switches), *light, path.flag.value),
            )
        )
    columns = ("link", "from_rank", "to_rank", "from_host", "to_host", "plane", "circuit")
    of_light = ("cross_connects", "stages", "loss_db", "budget_db", "margin_db", "flag")
    return csv_bytes((*columns, "direction", *of_light), table)
