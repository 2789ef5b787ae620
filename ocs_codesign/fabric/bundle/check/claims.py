"""What a bundle claims of a configuration, compared with what the light makes: ranks and links."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.networks.formats import topology_of_graphml
from ocs_codesign.core.quantities import exact, parse_number
from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.bundle.check.circuits import STRANDS, ports_of
from ocs_codesign.schedules.files.designs import RECORD_FILE, SCHEDULE_FILE, load_design

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.fabric.bundle.check.circuits import Circuit, CrossConnect, Plant
    from ocs_codesign.fabric.bundle.check.files import BundleFiles, Row
    from ocs_codesign.fabric.description import Fabric


RANKS = "ranks.csv"
RANK_COLUMNS = ("rank", "host", "plane", "strand", "switch", "port")
LINK_COLUMNS = (
    *("link", "from_rank", "to_rank", "from_host", "to_host", "plane", "circuit", "direction"),
    *("cross_connects", "stages", "loss_db", "budget_db", "margin_db", "flag"),
)
FORWARD, BACKWARD = "forward", "backward"
FR4_DB, DR4_DB = 4, 3

_HALF_A_PLACE = Fraction(1, 2 * 10**6)


@final
@dataclass(frozen=True, slots=True)
class ClaimedLink:
    """A row of the table of links that is of a circuit."""

    circuit: Circuit
    is_backward: bool

    @property
    def hosts(self) -> tuple[str, str]:
        """The host whose light it is and the one that it comes to, by the circuit."""
        ends = (self.circuit.from_host, self.circuit.to_host)
        return ends[::-1] if self.is_backward else ends


def read_ranks(files: BundleFiles, plant: Plant, num_nodes: int) -> dict[str, int]:
    """The rank of every host that has one; every strand must be where the cabling has it."""
    strands = (
        (*(cable.near.device, cable.plane, cable.strand), *(cable.far.device, cable.far.name))
        for cable in plant.host_at.values()
    )
    rows = files.table(RANKS, RANK_COLUMNS)
    files.compare(RANKS, rows, RANK_COLUMNS[1:], ("host", "plane", "strand"), strands)
    rank_of: dict[str, int | None] = {}
    host_of: dict[int, str] = {}
    hosts = set(plant.fabric.hosts)
    for row in rows:
        rank = None if row["rank"] == "" else row.whole("rank")
        host = row["host"]
        if host not in hosts:
            continue
        if rank_of.setdefault(host, rank) != rank:
            earlier = f"in an earlier row it is {rank_of[host]}"
            row.wrong(f"{host} has rank {shown(row['rank'])}: {earlier}")
        elif rank is not None and rank >= num_nodes:
            row.wrong(f"rank is {rank}: ranks are 0 to {num_nodes - 1}")
        elif rank is not None and host_of.setdefault(rank, host) != host:
            row.wrong(f"{host_of[rank]} has rank {rank}, too")
    for rule in _rank_rules(plant.fabric, plant.failed.hosts, rank_of, host_of, num_nodes):
        files.wrong(RANKS, rule)
    return {host: rank for rank, host in host_of.items()}


def _rank_rules(
    fabric: Fabric,
    failed: Sequence[str],
    rank_of: dict[str, int | None],
    host_of: dict[int, str],
    num_nodes: int,
) -> Iterator[str]:
    """What ranks.csv as a whole does not keep to.

    Where every rank has a host, one that a spare stands for may be without a cable that works.
    """
    missing = [rank for rank in range(num_nodes) if rank not in host_of]
    if not missing:
        return
    yield f"no host has rank {missing[0]}: {len(missing)} of {num_nodes} ranks have none"
    for host in fabric.hosts[: fabric.num_working_hosts][:num_nodes]:
        if host not in rank_of and host not in failed:
            yield f"host {host} is missing"


def read_links(
    files: BundleFiles,
    plant: Plant,
    configuration: str,
    rank_of: dict[str, int],
    circuits: Sequence[Circuit],
) -> tuple[ClaimedLink, ...]:
    """The claimed links that are of a circuit; what differs from its light is a finding."""
    path = f"links/{configuration}.csv"
    by_number = {circuit.number: circuit for circuit in circuits}
    used: dict[tuple[int | None, bool], int] = {}
    found = []
    for at, row in enumerate(files.table(path, LINK_COLUMNS)):
        link, number = row.whole("link"), row.whole("circuit")
        if link is not None and link != at:
            row.wrong(f"link is {link}: in this place it must be {at}")
        if row["direction"] not in (FORWARD, BACKWARD):
            row.wrong(f"direction is {shown(row['direction'])}: it must be {FORWARD} or {BACKWARD}")
            continue
        circuit = by_number.get(number)
        if circuit is None or number is None:
            row.wrong(f"no light makes circuit {shown(row['circuit'])}")
            continue
        claimed = ClaimedLink(circuit, row["direction"] == BACKWARD)
        row.wrong(*_link_rules(row, claimed, rank_of), *_loss_rules(plant, row, circuit))
        earlier = used.setdefault((number, claimed.is_backward), row.line)
        if earlier != row.line:
            row.wrong(f"circuit {number} is used {row['direction']} already, in line {earlier}")
        elif not claimed.is_backward or circuit.is_two_way:
            found.append(claimed)
    for circuit in circuits:
        if (circuit.number, False) not in used and (circuit.number, True) not in used:
            files.wrong(path, f"circuit {circuit.number}, {circuit.way}, has no link")
    return tuple(found)


def _link_rules(row: Row, claimed: ClaimedLink, rank_of: dict[str, int]) -> Iterator[str]:
    circuit = claimed.circuit
    if claimed.is_backward and not circuit.is_two_way:
        yield f"circuit {circuit.number} is one-way, but the direction is backward"
    from_host, to_host = claimed.hosts
    wanted = {
        "from_host": from_host,
        "to_host": to_host,
        "from_rank": str(rank_of.get(from_host, "")),
        "to_rank": str(rank_of.get(to_host, "")),
        "plane": str(circuit.plane),
        "cross_connects": circuit.way,
        "stages": str(len(circuit.rows)),
    }
    by = "by cables and cross-connects it is"
    yield from row.differences({c: (value, f"{by} {shown(value)}") for c, value in wanted.items()})
    for host in (from_host, to_host):
        if host not in rank_of:
            yield f"light comes to {host}, which has no rank"


def _loss_rules(plant: Plant, row: Row, circuit: Circuit) -> Iterator[str]:
    """The loss of two connectors, every switch on the way and, if two-way, two circulators."""
    fabric = plant.fabric
    loss = 2 * exact(fabric.connector_loss_db)
    for crossed in circuit.rows:
        loss += exact(plant.switches[crossed.switch].profile.insertion_loss_db)
    if circuit.is_two_way:
        loss += 2 * exact(fabric.circulator_loss_db)
    budget = exact(fabric.loss_budget_db)
    for column, value in (("loss_db", loss), ("budget_db", budget), ("margin_db", budget - loss)):
        if not is_decimal(row[column], value):
            yield f"{column} is {shown(row[column])}: it must be {float(value):.6g}"
    flag = "over" if loss > budget else "fr4" if loss > FR4_DB else "dr4" if loss > DR4_DB else "ok"
    yield from row.differences({"flag": (flag, f"it must be {flag}")})
    if loss > budget:
        yield f"the loss of {float(loss):.6g} dB is over the budget of {float(budget):.6g}"


def is_decimal(text: str, value: Fraction, half: Fraction = _HALF_A_PLACE) -> bool:
    """Whether a decimal number is this value but for the places that are left out."""
    try:
        return abs(parse_number(text) - value) <= half
    except ValueError:
        return False


def derived_topology(
    num_nodes: int,
    rank_of: dict[str, int],
    circuits: Sequence[Circuit],
    claimed: Sequence[ClaimedLink],
) -> Topology:
    """The topology of the light, sorted by (tail, head).

    A two-way circuit of which one direction is no link carries only the other one.
    """
    idle = {circuit.way: {False, True} for circuit in circuits}
    for link in claimed:
        idle[link.circuit.way].discard(link.is_backward)
    ends: list[tuple[int, int]] = []
    for circuit in circuits:
        tail, head = rank_of.get(circuit.from_host), rank_of.get(circuit.to_host)
        if tail is None or head is None:
            continue
        unused = idle[circuit.way]
        both = circuit.is_two_way
        if not (both and unused == {False}):
            ends.append((tail, head))
        if both and unused != {True}:
            ends.append((head, tail))
    ends.sort()
    return Topology(num_nodes, [tail for tail, _ in ends], [head for _, head in ends])


# Graphs and schedules of a bundle: those of the topology that the light makes?


DESIGN_FILES = (RECORD_FILE, SCHEDULE_FILE)


def first_difference(made: Topology, claimed: Topology) -> str | None:
    """What light makes that is not claimed, or the reverse; None if they have the same links."""
    if made.num_nodes != claimed.num_nodes:
        return f"there are {claimed.num_nodes} nodes: it must be {made.num_nodes}"
    mine, theirs = (
        np.sort(one.tail.astype(np.int64) * one.num_nodes + one.head) for one in (made, claimed)
    )
    if np.array_equal(mine, theirs):
        return None
    known, counts = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
    first = len(mine)
    size = len(known)
    difference = np.bincount(counts[first:], minlength=size) - np.bincount(
        counts[:first], minlength=size
    )
    at = int(np.flatnonzero(difference)[0])
    tail, head = divmod(int(known[at]), made.num_nodes)
    more = int(np.count_nonzero(difference))
    others = f" (and {more - 1} more pairs of nodes differ)" if more > 1 else ""
    if difference[at] > 0:
        return f"no light makes the claimed link {tail} -> {head}{others}"
    return f"light makes a link {tail} -> {head} that is not claimed{others}"


def check_graphs(
    files: BundleFiles, configuration: str, made: Topology, ordered: Topology | None
) -> None:
    """Both graph files hold the derived links, in the order of the table of links."""
    for suffix, read in (("json", _node_link), ("graphml", topology_of_graphml)):
        path = f"graphs/{configuration}.{suffix}"
        graph = files.parsed(path, partial(read, name=path))
        difference = None if graph is None else first_difference(made, graph)
        if difference is not None:
            files.wrong(path, difference)
        elif None not in (graph, ordered) and graph != ordered:
            files.wrong(path, "links are not in the order of the table of links")


def _node_link(data: bytes, name: str) -> Topology:
    """Nodes 0 to N - 1 and edges whose keys are the numbers of links; ValueError if it is not."""
    value = read_plain_text(data, name, is_json=True).value
    if not isinstance(value, dict) or value.get("directed") is not True:
        raise ValueError("this is not node-link JSON of a directed graph")
    nodes, edges = value.get("nodes"), value.get("edges")
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise ValueError("nodes and edges must be lists")
    for at, node in enumerate(nodes):
        if node != {"id": at}:
            raise ValueError(f"nodes[{at}] is {shown(node)}: its id must be {at}")
    for at, edge in enumerate(edges):
        ends = [edge.get(end) if isinstance(edge, dict) else None for end in ("source", "target")]
        if not all(type(end) is int and 0 <= end < len(nodes) for end in ends):
            raise ValueError(f"edges[{at}] is {shown(edge)}: source and target must be nodes")
        if edge != {"source": ends[0], "target": ends[1], "key": at}:
            raise ValueError(f"edges[{at}] is {shown(edge)}: its key must be {at}")
    return Topology(len(nodes), [one["source"] for one in edges], [one["target"] for one in edges])


@final
@dataclass(frozen=True, slots=True)
class ReplayedSchedule:
    """A schedule that was replayed, what it costs on the derived topology, and who made it."""

    configuration: str
    collective: str
    cost: Cost
    max_loads: tuple[Fraction, ...]
    schedule: Schedule
    maker: str


def check_schedule(
    files: BundleFiles, configuration: str, collective: str, recipe: str | None, made: Topology
) -> ReplayedSchedule | None:
    """Replay a schedule, whose links must be those of the derived topology, in any order.

    None, with a finding, if it could not be replayed.
    """
    from ocs_codesign.verification.schedules import verify

    folder = f"schedules/{configuration}/{collective}"
    paths = [f"{folder}/{name}" for name in DESIGN_FILES]
    missing = [path for path in paths if path not in files.sizes]
    for path in missing:
        files.wrong(path, "the file is missing")
    if missing:
        return None
    record, archive = paths
    try:
        loaded = load_design(files.root / folder)
    except (ValueError, OSError, MemoryError) as error:
        text = str(error).replace(f"{files.root / folder}/", "").replace(f"{files.root}/", "")
        path = record if text.startswith(DESIGN_FILES[0]) else archive
        files.wrong(path, text.removeprefix(f"{path.rpartition('/')[2]}: "))
        return None
    if loaded.circuits is not None:
        files.wrong(archive, "its circuits change, which those of a bundle do not")
        return None
    kind = loaded.schedule.collective.name
    if kind != collective:
        files.wrong(archive, f"this is of {kind}, not of {collective}")
    if loaded.recipe != recipe:
        rule = f"recipe is {loaded.recipe}: in the manifest it is {recipe}"
        files.findings.add(record, "recipe", rule)
    speeds = "its links have speeds, which those of the light have not"
    difference = first_difference(made, loaded.schedule.topology)
    if difference is not None or loaded.schedule.topology.link_speed is not None:
        files.wrong(archive, f"{difference or speeds}, so that it cannot run")
        return None
    verdict = verify(loaded.schedule, loaded.claimed)
    if verdict.witness is not None:
        files.wrong(archive, f"on the derived topology, {verdict.witness}")
    elif loaded.loads is not None and loaded.loads != verdict.max_loads:
        files.wrong(record, "the claimed largest loads are not those of the sends")
    return ReplayedSchedule(
        *(configuration, collective, verdict.cost, verdict.max_loads, loaded.schedule),
        loaded.maker or "",
    )


# Tables of what there is: port use, NetBox imports and prices, compared with the cabling.


PRICES = "prices.csv"
TRANSCEIVERS_USD = {100: 99, 200: 239, 400: 659, 800: 1399}
NICS_USD = {100: 659, 200: 1079, 400: 1499, 800: 2248}
"""List estimates by Gbps, as the format of bundles has them."""

_CENT = Fraction(1, 200)
_ENDS = tuple(f"side_{side}_{field}" for side in "ab" for field in ("device", "type", "name"))


def _ports(plant: Plant) -> Iterator[tuple[object, ...]]:
    for switch in plant.fabric.switches:
        kinds: dict[str, Counter[str]] = {}
        for number, port in ports_of(switch):
            lost, cable = plant.has_failed(port), plant.cable_at(port)
            kind = "failed" if lost else "used" if cable else "free"
            if kind == "free" and number > switch.num_usable:
                kind = "spare"
            kinds.setdefault(port.name.lstrip("0123456789"), Counter())[kind] += 1
        for side, count in kinds.items():
            each = (count[kind] for kind in ("used", "spare", "failed", "free"))
            yield switch.name, side, switch.num_ports, *each


def _devices(plant: Plant) -> Iterator[tuple[object, ...]]:
    kinds = dict.fromkeys(plant.fabric.hosts, ("Host", "host"))
    for switch in plant.fabric.switches:
        kinds[switch.name] = ("Optical circuit switch", switch.profile.name)
    lost = {*plant.failed.hosts, *plant.failed.switches}
    for name, (role, kind) in kinds.items():
        yield (
            name,
            role,
            "Generic",
            kind,
            plant.fabric.name,
            "failed" if name in lost else "planned",
        )


def _interfaces(plant: Plant) -> Iterator[tuple[object, ...]]:
    for cable in plant.host_at.values():
        yield cable.near.device, cable.near.name, "other", f"plane {cable.plane} {cable.strand}"


def _rear_ports(plant: Plant) -> Iterator[tuple[object, ...]]:
    for switch in plant.fabric.switches:
        for number, port in ports_of(switch):
            text = "spare" if number > switch.num_usable else ""
            yield switch.name, port.name, "other", 1, text


def _front_ports(plant: Plant) -> Iterator[tuple[object, ...]]:
    for device, name, kind, position, text in _rear_ports(plant):
        yield device, name, kind, 1, name, position, text


def _cables(plant: Plant) -> Iterator[tuple[object, ...]]:
    for cable in plant.cables:
        near = "dcim.frontport" if cable.is_trunk else "dcim.interface"
        far = (cable.far.device, "dcim.frontport", cable.far.name)
        yield cable.near.device, near, cable.near.name, *far, "smf", "planned", cable.name


def _sites(plant: Plant) -> Iterator[tuple[object, ...]]:
    yield plant.fabric.name, _slug(plant.fabric.name), "planned"


def _manufacturers(plant: Plant) -> Iterator[tuple[object, ...]]:
    del plant
    yield "Generic", "generic"


def _roles(plant: Plant) -> Iterator[tuple[object, ...]]:
    del plant
    yield "Host", "host", "0b5fa5"
    yield "Optical circuit switch", "optical-circuit-switch", "e0a030"


def _types(plant: Plant) -> Iterator[tuple[object, ...]]:
    for name in dict.fromkeys(["host", *(each.profile.name for each in plant.fabric.switches)]):
        yield "Generic", name, _slug(name), 1


def _slug(name: str) -> str:
    """Lower-case letters, digits and underscores; hyphens for everything between them."""
    plain = "".join(c if c in _SLUG else " " for c in name.lower())
    return "-".join(plain.split())[:100] or "unnamed"


_SLUG = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_")
_DEVICE = ("name", "role", "manufacturer", "device_type", "site", "status")
_CABLE = (*_ENDS, "type", "status", "label")
_TABLES = {
    "ports.csv": (
        _ports,
        ("switch", "side", "ports", "used", "spare", "failed", "free"),
        ("switch", "side"),
    ),
    "netbox/dcim.site.csv": (_sites, ("name", "slug", "status"), ("name",)),
    "netbox/dcim.manufacturer.csv": (_manufacturers, ("name", "slug"), ("name",)),
    "netbox/dcim.devicerole.csv": (_roles, ("name", "slug", "color"), ("name",)),
    "netbox/dcim.devicetype.csv": (
        _types,
        ("manufacturer", "model", "slug", "u_height"),
        ("model",),
    ),
    "netbox/dcim.device.csv": (_devices, _DEVICE, ("name",)),
    "netbox/dcim.interface.csv": (
        _interfaces,
        ("device", "name", "type", "description"),
        ("device", "name"),
    ),
    "netbox/dcim.rearport.csv": (
        _rear_ports,
        ("device", "name", "type", "positions", "description"),
        ("device", "name"),
    ),
    "netbox/dcim.frontport.csv": (
        _front_ports,
        ("device", "name", "type", "positions", "rear_port", "rear_port_position", "description"),
        ("device", "name"),
    ),
    "netbox/dcim.cable.csv": (_cables, _CABLE, ("label",)),
}
"""The rows that the cabling or the fabric makes, the columns, and those that are the key."""
README, UP = "netbox/README.md", "netbox/dcim.cable.up.csv"
INVENTORY = (*_TABLES, PRICES, README, UP)


def check_joined(files: BundleFiles, up: Iterable[CrossConnect]) -> None:
    """The cables between rear ports are the cross-connects that are up or planned."""
    rear = "dcim.rearport"
    wanted = (
        (
            *(one.switch, rear, one.a_side, one.switch, rear, one.b_side),
            *("smf", "planned", f"{one.switch} {one.id}"),
        )
        for one in up
    )
    files.compare(UP, files.table(UP, _CABLE), _CABLE, ("label",), wanted)


def check_inventory(files: BundleFiles, plant: Plant) -> None:
    """Every row that the cabling or the fabric contradicts is a finding."""
    for path, (rows_of, columns, key) in _TABLES.items():
        files.compare(path, files.table(path, columns), columns, key, rows_of(plant))
    if README not in files.sizes:
        files.wrong(README, "the file is missing")
    items = _items(plant)
    rows = files.table(PRICES, ("item", "count", "unit_usd", "total_usd", "source"))
    for row, item in zip(rows, items, strict=False):
        row.wrong(*_price_rules(row, *item))
    for row in rows[len(items) :]:
        row.wrong(f"{shown(row['item'])} is in no fabric")
    for name, *_ in items[len(rows) :]:
        files.wrong(PRICES, f"the row of {shown(name)} is missing")


def _price_rules(
    row: Row, name: str, count: int, unit: float | None, total: float | None
) -> Iterator[str]:
    wanted = {"item": name, "count": str(count)}
    by = "by the fabric it is"
    yield from row.differences({c: (value, f"{by} {shown(value)}") for c, value in wanted.items()})
    for column, price in (("unit_usd", unit), ("total_usd", total)):
        text = row[column]
        if text != "" if price is None else not is_decimal(text, exact(price), _CENT):
            yield f"{column} is {shown(text)}: {by} {price}"


def _items(plant: Plant) -> list[tuple[str, int, float | None, float | None]]:
    """Name, count and prices (None where none is public) of what is bought, then two sums."""
    fabric = plant.fabric
    ports: Counter[tuple[str, float | None]] = Counter()
    for switch in fabric.switches:
        ports[switch.profile.name, switch.profile.price_usd_per_port] += switch.num_ports
    bought: list[tuple[str, int, float | None]] = [
        (f"{name} port", count, usd) for (name, usd), count in ports.items()
    ]
    per_host = fabric.num_ports_per_host
    gbps = exact(fabric.cost_model.node_bandwidth_Bps) * 8 / per_host / 10**9
    rate = min((rate for rate in TRANSCEIVERS_USD if rate >= gbps), default=max(TRANSCEIVERS_USD))
    each = -(-gbps // rate)
    listed = fabric.plane_hosts or (None,) * fabric.num_planes
    places = sum(len(fabric.hosts if names is None else names) for names in listed)
    own, ends = dict(fabric.prices), places * (2 if plant.model == "two-sided" else 1) * each
    for what, prices in (("transceiver", TRANSCEIVERS_USD), ("NIC", NICS_USD)):
        bought.append((f"{rate}G {what}", ends, own.get(what.lower(), prices[rate])))
    if plant.model in ("two-sided", "matching"):
        bought.append(("circulator", ends, own.get("circulator")))
    if "fibre" in own:
        bought.append(("fibre", len(STRANDS[plant.model]) * places, own["fibre"]))
    rows = [(name, count, usd, None if usd is None else count * usd) for name, count, usd in bought]
    total = sum((price or 0.0 for *_, price in rows), 0.0)
    idle = [
        (switch.profile, switch.profile.num_ports - switch.num_ports) for switch in fabric.switches
    ]
    whole = total + sum(count * (profile.price_usd_per_port or 0.0) for profile, count in idle)
    return [*rows, ("total", 1, total, total), ("total with whole switches", 1, whole, whole)]
