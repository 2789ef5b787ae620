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
    from collections.abc import Sequence

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

    line: int
    link: int
    circuit: Circuit
    is_backward: bool

    @property
    def from_host(self) -> str:
        """The host whose light it is, by the circuit."""
        return self.circuit.to_host if self.is_backward else self.circuit.from_host

    @property
    def to_host(self) -> str:
        """The host that the light comes to, by the circuit."""
        return self.circuit.from_host if self.is_backward else self.circuit.to_host


def read_ranks(files: BundleFiles, plant: Plant, num_nodes: int) -> dict[str, int]:
    """The rank of every host that has one; every strand must be where the cabling has it."""
    expected = {}
    for cable in plant.host_at.values():
        strand = f"{cable.near.device} {cable.plane} {cable.strand}"
        expected[strand] = f"{cable.far.device},{cable.far.name}"
    rows = files.table(RANKS, RANK_COLUMNS)
    files.compare(RANKS, rows, expected, "host plane strand", ("switch", "port"))
    rank_of: dict[str, int | None] = {}
    host_of: dict[int, str] = {}
    hosts = set(plant.fabric.hosts)
    for row in rows:
        rank = None if row["rank"] == "" else files.whole(RANKS, row, "rank")
        host = row["host"]
        if host not in hosts:
            continue
        if rank_of.setdefault(host, rank) != rank:
            rule = f"{host} has rank {shown(row['rank'])}: in an earlier row it is {rank_of[host]}"
            files.findings.add(RANKS, row.line, rule)
        elif rank is not None and rank >= num_nodes:
            files.findings.add(RANKS, row.line, f"rank is {rank}: ranks are 0 to {num_nodes - 1}")
        elif rank is not None and host_of.setdefault(rank, host) != host:
            files.findings.add(RANKS, row.line, f"{host_of[rank]} has rank {rank}, too")
    _check_ranks(files, plant.fabric, rank_of, host_of, num_nodes)
    return {host: rank for rank, host in host_of.items()}


def _check_ranks(
    files: BundleFiles,
    fabric: Fabric,
    rank_of: dict[str, int | None],
    host_of: dict[int, str],
    num_nodes: int,
) -> None:
    missing = [rank for rank in range(num_nodes) if rank not in host_of]
    if missing:
        rule = f"no host has rank {missing[0]}: {len(missing)} of {num_nodes} ranks have none"
        files.findings.add(RANKS, None, rule)
    for host in fabric.hosts[: fabric.num_working_hosts][:num_nodes]:
        if host not in rank_of:
            files.findings.add(RANKS, None, f"host {host} is missing")
    for host in fabric.hosts[fabric.num_working_hosts :]:
        if rank_of.get(host) is not None:
            files.findings.add(RANKS, None, f"{host} has a rank, but it is a spare host")


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
        link, number = (files.whole(path, row, column) for column in ("link", "circuit"))
        if link is not None and link != at:
            files.findings.add(path, row.line, f"link is {link}: in this place it must be {at}")
        if row["direction"] not in (FORWARD, BACKWARD):
            rule = f"direction is {shown(row['direction'])}: it must be {FORWARD} or {BACKWARD}"
            files.findings.add(path, row.line, rule)
            continue
        circuit = by_number.get(number)
        if circuit is None or number is None:
            files.findings.add(path, row.line, f"no light makes circuit {shown(row['circuit'])}")
            continue
        claimed = ClaimedLink(row.line, at, circuit, row["direction"] == BACKWARD)
        for rule in _link_rules(plant.fabric, row, claimed, rank_of):
            files.findings.add(path, row.line, rule)
        earlier = used.setdefault((number, claimed.is_backward), row.line)
        if earlier != row.line:
            rule = f"circuit {number} is used {row['direction']} already, in line {earlier}"
            files.findings.add(path, row.line, rule)
        elif not claimed.is_backward or circuit.is_two_way:
            found.append(claimed)
    for circuit in circuits:
        if (circuit.number, False) not in used and (circuit.number, True) not in used:
            rule = f"circuit {circuit.number}, {circuit.way}, has no link"
            files.findings.add(path, None, rule)
    return tuple(found)


def _link_rules(
    fabric: Fabric, row: Row, claimed: ClaimedLink, rank_of: dict[str, int]
) -> list[str]:
    circuit = claimed.circuit
    rules = []
    if claimed.is_backward and not circuit.is_two_way:
        rules.append(f"circuit {circuit.number} is one-way, but the direction is backward")
    wanted = {
        "from_host": claimed.from_host,
        "to_host": claimed.to_host,
        "from_rank": str(rank_of.get(claimed.from_host, "")),
        "to_rank": str(rank_of.get(claimed.to_host, "")),
        "plane": str(circuit.plane),
        "cross_connects": circuit.way,
        "stages": str(len(circuit.rows)),
    }
    rules += [
        f"{column} is {shown(row[column])}: by cables and cross-connects it is {shown(value)}"
        for column, value in wanted.items()
        if row[column] != value
    ]
    for host in (claimed.from_host, claimed.to_host):
        if host not in rank_of:
            rules.append(f"light comes to {host}, which has no rank")
    return rules + _loss_rules(fabric, row, circuit)


def _loss_rules(fabric: Fabric, row: Row, circuit: Circuit) -> list[str]:
    """The loss of two connectors, every switch on the way and, if two-way, two circulators."""
    insertion = {one.name: one.profile.insertion_loss_db for one in fabric.switches}
    loss = 2 * exact(fabric.connector_loss_db)
    loss += sum((exact(insertion[one.switch]) for one in circuit.rows), Fraction(0))
    if circuit.is_two_way:
        loss += 2 * exact(fabric.circulator_loss_db)
    budget = exact(fabric.loss_budget_db)
    flag = "over" if loss > budget else "fr4" if loss > FR4_DB else "dr4" if loss > DR4_DB else "ok"
    rules = []
    for column, value in (("loss_db", loss), ("budget_db", budget), ("margin_db", budget - loss)):
        if not is_decimal(row[column], value):
            rules.append(f"{column} is {shown(row[column])}: it must be {float(value):.6g}")
    if row["flag"] != flag:
        rules.append(f"flag is {shown(row['flag'])}: it must be {flag}")
    if loss > budget:
        rules.append(f"the loss of {float(loss):.6g} dB is over the budget of {float(budget):.6g}")
    return rules


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
