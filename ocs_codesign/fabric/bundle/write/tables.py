"""Tables of a bundle that all configurations share: cables, ranks, ports and prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.quantities import exact
from ocs_codesign.fabric.bundle.write.runbook import change_runbook, stage_files
from ocs_codesign.fabric.bundle.write.text import BETWEEN, csv_bytes, decimal_text, json_bytes
from ocs_codesign.fabric.deployments.work import change_steps, joined_names
from ocs_codesign.fabric.light import light_paths, rows_of_circuits
from ocs_codesign.fabric.planes.planes import circuits_of_links
from ocs_codesign.fabric.profiles import fabric_price
from ocs_codesign.fabric.rewiring.stages import circuits_of_node
from ocs_codesign.fabric.wiring import cable_name, host_strands, port_use, strand_numbers
from ocs_codesign.graphs.formats.edge_list import link_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric, Switch
    from ocs_codesign.fabric.profiles import PriceItem
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.stages import Connectivity
    from ocs_codesign.fabric.wiring import Cabling, Configuration


LIST_ESTIMATE = "list estimate"
NO_PRICE = "no public price"
TRUNK = "trunk"
PRICE_COLUMNS = ("item", "count", "unit_usd", "total_usd", "source")

_POLARITY = {"tx": "host-to-switch", "rx": "switch-to-host", "a": "both", "b": "both", "x": "both"}


@final
@dataclass(frozen=True, slots=True)
class CableEnd:
    """A device, its port and the strand of it."""

    device: str
    port: str
    strand: str


@final
@dataclass(frozen=True, slots=True)
class Cable:
    """A cable from the host, or from the upstream switch, to the switch; planes count from 1."""

    name: str
    a: CableEnd
    b: CableEnd
    plane: int
    polarity: str

    @property
    def is_trunk(self) -> bool:
        """Whether it joins two switches."""
        return self.polarity == TRUNK


def cables(cabling: Cabling) -> list[Cable]:
    """All cables by plane: those of hosts in order of host and strand, then trunks."""
    fabric, numbers = cabling.fabric, strand_numbers(cabling.fabric)
    model = fabric.port_model
    found: list[Cable] = []
    for plane, host, side, switch, port in host_strands(cabling).tolist():
        strand = model.strands[side]
        near = CableEnd(fabric.hosts[host], f"p{plane}", strand)
        far = CableEnd(fabric.switches[switch].name, model.port(port, side), strand)
        name = cable_name(numbers[host, plane, side])
        found.append(Cable(name, near, far, plane, _POLARITY[strand]))
    trunks = zip(cabling.trunk_number.tolist(), cabling.trunks.tolist(), strict=True)
    for number, (from_switch, from_port, to_switch, to_port) in trunks:
        upstream, downstream = fabric.switches[from_switch], fabric.switches[to_switch]
        out = CableEnd(upstream.name, f"{from_port}B", "out")
        into = CableEnd(downstream.name, f"{to_port}A", "in")
        name = cable_name(number, is_trunk=True)
        found.append(Cable(name, out, into, upstream.plane, TRUNK))
    return sorted(found, key=lambda cable: cable.plane)


def cabling_table(listed: list[Cable]) -> bytes:
    """``cabling.csv``."""
    columns = ("cable", "a_device", "a_port", "a_strand", "b_device", "b_port", "b_strand")
    rows = [
        (
            *(one.name, one.a.device, one.a.port, one.a.strand),
            *(one.b.device, one.b.port, one.b.strand, one.plane, one.polarity),
        )
        for one in listed
    ]
    return csv_bytes((*columns, "plane", "polarity"), rows)


def host_cables(fabric: Fabric, listed: list[Cable]) -> list[tuple[int, Cable]]:
    """The cables of hosts with the host's number, in order of host, plane and strand."""
    number = {host: at for at, host in enumerate(fabric.hosts)}
    at_hosts = [(number[cable.a.device], cable) for cable in listed if not cable.is_trunk]
    return sorted(at_hosts, key=lambda pair: (pair[0], pair[1].plane))


def ranks_table(fabric: Fabric, listed: list[Cable], host_of: NDArray[np.int32]) -> bytes:
    """``ranks.csv``: where every strand of every host is plugged, in order of host."""
    rank = {int(host): node for node, host in enumerate(host_of)}
    rows = [
        (
            *(rank.get(host, ""), cable.a.device, cable.plane),
            *(cable.a.strand, cable.b.device, cable.b.port),
        )
        for host, cable in host_cables(fabric, listed)
    ]
    return csv_bytes(("rank", "host", "plane", "strand", "switch", "port"), rows)


def ports_table(cabling: Cabling, failed: Collection[tuple[int, int, int]]) -> bytes:
    """``ports.csv``: the use of every side of every switch."""
    switches = cabling.fabric.switches
    rows = [
        (
            *(switches[use.switch].name, use.side),
            *(use.num_ports, use.num_used, use.num_spares, use.num_failed, use.num_free),
        )
        for use in port_use(cabling, failed)
    ]
    return csv_bytes(("switch", "side", "ports", "used", "spare", "failed", "free"), rows)


def price_rows(fabric: Fabric) -> list[tuple[str, int, str, str, str]]:
    """PRICE_COLUMNS of every item of the fabric, then two sums: of all, and with whole switches.

    Prices are text, empty where none is public.
    """
    prices = fabric_price(fabric)
    rows = [
        (item.name, item.count, _usd(item.price_usd), _usd(item.total_usd), _source(fabric, item))
        for item in prices.items
    ]
    total, whole = _usd(prices.total_usd), _usd(prices.whole_switches_usd)
    other = "the same with the ports of the switches that the fabric does not have"
    return [
        *rows,
        ("total", 1, total, total, "sum of the above"),
        ("total with whole switches", 1, whole, whole, other),
    ]


def _usd(price: float | None) -> str:
    return "" if price is None else decimal_text(exact(price), 2)


def _source(fabric: Fabric, item: PriceItem) -> str:
    if item.price_usd is None:
        return NO_PRICE
    for switch in fabric.switches:
        if item.name == f"{switch.profile.name} port":
            sources = [
                source.text
                for source in switch.profile.sources
                if source.field == "price_usd_per_port"
            ]
            return "; ".join(sources) or "fabric description"
    own = item.name.rpartition(" ")[2].lower() in dict(fabric.prices)
    return "fabric description" if own else LIST_ESTIMATE


# Tables of a configuration: cross-connects, the switches' CONFIG_DB, and links with their loss.
#
# CONFIG_DB is the configuration of SONiC. Its tables for optical circuit switches are OCS_PORT,
# with the ``label`` and ``state`` of every port (``normal``, or ``force_blocked`` where nothing
# is plugged in), and OCS_CROSS_CONNECT, with the ``a_side`` and ``b_side`` of every ``1A-2B``. It
# joins side A with side B only, so that switches without sides have no CONFIG_DB: their
# cross-connects are named as in ``1-2``.


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
    made, model = configuration, configuration.cabling.fabric.port_model
    columns = (made.switch, made.a_port, made.b_port, made.circuit)
    return [
        CrossConnect(switch, a_port, model.port(a_port, 0), model.port(b_port, 1), circuit)
        for switch, a_port, b_port, circuit in zip(*(c.tolist() for c in columns), strict=True)
    ]


def switch_tables(configuration: Configuration, rows: Sequence[CrossConnect]) -> dict[str, bytes]:
    """The CSV of every switch, even if it is dark, by file name."""
    fabric, topology = configuration.cabling.fabric, configuration.topology
    link = configuration.link[:, 0]
    from_host = configuration.host[topology.tail[link]].tolist()
    to_host = configuration.host[topology.head[link]].tolist()
    columns = ("id", "a_side", "b_side", "circuit", "from_host", "to_host")
    files = {}
    for switch, mine in zip(fabric.switches, _of_switches(fabric, rows), strict=True):
        table = [
            (
                *(row.id, row.a_side, row.b_side, row.circuit),
                *(fabric.hosts[from_host[row.circuit]], fabric.hosts[to_host[row.circuit]]),
            )
            for row in mine
        ]
        files[f"{switch.name}.csv"] = csv_bytes(columns, table)
    return files


def _of_switches(fabric: Fabric, rows: Sequence[CrossConnect]) -> list[list[CrossConnect]]:
    """The cross-connects of every switch, by A port."""
    of_switch: list[list[CrossConnect]] = [[] for _ in fabric.switches]
    for row in sorted(rows, key=lambda row: row.a_port):
        of_switch[row.switch].append(row)
    return of_switch


def switch_databases(
    fabric: Fabric,
    rows: Sequence[CrossConnect],
    cables: Sequence[Cable],
    failed: Collection[tuple[int, int, int]],
) -> dict[str, bytes]:
    """The CONFIG_DB of every switch with sides, by file name."""
    labels, files = port_labels(cables), {}
    of_switches = enumerate(zip(fabric.switches, _of_switches(fabric, rows), strict=True))
    for number, (switch, mine) in of_switches:
        if switch.profile.port_model.has_b_side:
            broken = {f"{port}{'AB'[side]}" for at, side, port in failed if at == number}
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
    switch: Switch, rows: Sequence[CrossConnect], labels: Mapping[str, str], broken: Collection[str]
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


# Plans of a bundle: the batches that lead from one configuration to another, and their summary.


def plan_name(change: ConfigurationChange) -> str:
    """The name of a plan's files, without their suffix."""
    return f"{change.before.name}{BETWEEN}{change.after.name}"


def plan_files(change: ConfigurationChange) -> dict[str, bytes]:
    """Files by name: the batches in order, the summary with certificates, runbook and patches."""
    name, fabric = plan_name(change), change.before.cabling.fabric
    steps = change_steps(change, change.before, change.after)
    rows = [(step.stage, step.action.value, step.switch, step.id, step.plane) for step in steps]
    batches = csv_bytes(("stage", "action", "switch", "id", "plane"), rows)
    patches = stage_files(fabric, steps, joined_names(change.before))
    return {
        f"{name}.csv": batches,
        f"{name}.json": json_bytes(plan_summary(change)),
        f"{name}.md": change_runbook(change, name, has_sonic=bool(patches)),
        **{f"{name}/{file}": content for file, content in patches.items()},
    }


def plan_summary(change: ConfigurationChange) -> dict[str, Any]:
    """What a change takes; times are exact seconds as text."""
    return {
        "from": change.before.name,
        "to": change.after.name,
        "cross_connects": {
            "kept": change.num_kept,
            "deleted": change.num_deleted,
            "created": change.num_created,
        },
        "dead_time_s": str(change.dead_time_s),
        "service": change.service.value,
        "stays_connected": change.service.is_hitless,
        "stages": [_stage(change, number) for number in range(1, 1 + len(change.stages))],
    }


def _stage(change: ConfigurationChange, number: int) -> dict[str, Any]:
    stage = change.stages[number - 1]
    return {
        "stage": number,
        "planes": list(stage.planes),
        "deleted": len(stage.delete),
        "created": len(stage.create),
        "circuits_up": len(stage.up),
        "least_circuits_of_node": circuits_of_node(change.before, stage.up),
        "dead_time_s": str(stage.dead_time_s),
        "stays_connected": stage.connectivity is not None,
        "certificate": _certificate(stage.connectivity),
    }


def _certificate(proof: Connectivity | None) -> dict[str, Any] | None:
    """Two trees of links that are up: out of the root to every rank, and from every rank to it."""
    if proof is None:
        return None
    return {
        "root": proof.root,
        "before": " ".join(map(str, proof.before.tolist())),
        "after": " ".join(map(str, proof.after.tolist())),
    }
