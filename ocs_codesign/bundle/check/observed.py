"""Observed neighbours, as link discovery reports them, compared with what the light should make.

The file is CSV with columns local_host,local_port,remote_host,remote_port. A row says that a host
heard on its port what a remote host sent from its own port, so that a two-way circuit has two rows.
Ports are ``p0`` for plane 0; on two-sided switches, where a host has two in a plane, ``p0-a`` and
``p0-b``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, final

from ocs_codesign.bundle.check.files import Findings, table_rows
from ocs_codesign.bundle.check.wiring import Port
from ocs_codesign.files.limited import read_limited
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ocs_codesign.bundle.check.circuits import Circuit
    from ocs_codesign.bundle.check.wiring import Plant

COLUMNS = ("local_host", "local_port", "remote_host", "remote_port")
MAX_OBSERVED_BYTES = 64 * 2**20


Heard: TypeAlias = "dict[Port, tuple[int, Port]]"
"""The line and the remote port of every port on which something was heard."""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """A link that is not as it should be: ``missing``, ``unexpected``, ``swapped`` or ``other``.

    ``line`` is None where nothing was heard; ``expected`` is None where nothing should be.
    """

    kind: str
    line: int | None
    local: Port
    expected: Port | None
    observed: Port | None

    @property
    def sentence(self) -> str:
        """The difference in words."""
        here, should, heard = map(_port_text, (self.local, self.expected, self.observed))
        said = "other neighbour" if self.kind == "other" else self.kind
        return f"{said}: {here} hears {heard}, it should hear {should}"


def _port_text(port: Port | None) -> str:
    return "nothing" if port is None else f"{port.device} {port.name}"


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """A configuration beside what was observed."""

    configuration: str
    num_links: int
    differences: tuple[Difference, ...]


def read_neighbours(path: Path, plant: Plant, findings: Findings) -> Heard:
    """The rows of a file; hosts and ports that do not exist, and ports given twice, are findings.

    Raises OSError if the file cannot be read and ValueError if it is not such a table.
    """
    data = read_limited(path, MAX_OBSERVED_BYTES)
    damage = Findings(1)
    rows = table_rows(data, str(path), COLUMNS, damage)
    if damage.count:
        raise ValueError(str(damage.listed[0]))
    ports = {_port(plant, cable.near) for cable in plant.host_at.values()}
    first: dict[Port, int] = {}
    heard: Heard = {}
    for row in (replace(row, findings=findings) for row in rows):
        local = Port(row["local_host"], row["local_port"])
        remote = Port(row["remote_host"], row["remote_port"])
        unknown = [port for port in (local, remote) if port not in ports]
        for port in unknown:
            row.wrong(f"{shown(port.device)} has no port {shown(port.name)} with a cable")
        if local in first:
            row.wrong(f"{local.device} {local.name} has a row already, line {first[local]}")
        elif not unknown:
            heard[local] = (row.line, remote)
        first.setdefault(local, row.line)
    return heard


def compare_neighbours(
    plant: Plant, configuration: str, circuits: Sequence[Circuit], heard: Heard
) -> Comparison:
    """Every link that was not heard as the light of a configuration should make it."""
    expected = _expected(plant, circuits)
    differences = []
    for local in sorted(expected.keys() | heard.keys(), key=lambda port: (port.device, port.name)):
        wanted = expected.get(local)
        line, found = heard.get(local, (None, None))
        if found == wanted:
            continue
        kind = "missing" if found is None else "unexpected" if wanted is None else "other"
        if kind == "other" and _is_swapped(expected, heard, wanted, found):
            kind = "swapped"
        differences.append(Difference(kind, line, local, wanted, found))
    return Comparison(configuration, len(expected), tuple(differences))


def _is_swapped(
    expected: dict[Port, Port], heard: Heard, wanted: Port | None, found: Port | None
) -> bool:
    """Whether the port that should hear what was heard here hears what should be heard here."""
    swapped = (local for local, remote in expected.items() if remote == found)
    return any(local in heard and heard[local][1] == wanted for local in swapped)


def _expected(plant: Plant, circuits: Sequence[Circuit]) -> dict[Port, Port]:
    expected = {}
    for circuit in circuits:
        first, last = circuit.rows[0], circuit.rows[-1]
        one = _port(plant, plant.host_at[Port(first.switch, first.a_side)].near)
        other = _port(plant, plant.host_at[Port(last.switch, last.b_side)].near)
        expected[other] = one
        if circuit.is_two_way:
            expected[one] = other
    return expected


def _port(plant: Plant, strand: Port) -> Port:
    """The port that a strand is of: transceivers of two strands have one name."""
    name, _, _ = strand.name.partition("-")
    two_sided = plant.models[int(name[1:])].value == "two-sided"
    return strand if two_sided else Port(strand.device, name)
