"""What a bundle claims of a configuration, compared with what the light makes: ranks and links."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.files.naming import shown
from ocs_codesign.quantities import exact
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.bundle.check.circuits import Circuit
    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant
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
        found = Decimal(text)
    except InvalidOperation:
        return False
    if not found.is_finite() or len(text) > 40:
        return False
    return abs(Fraction(found) - value) <= half


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
