"""Repair: circuits on what is left of a fabric and on its spares, with the fewest hands at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.embed.embedding import Embedding
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.port_use import STRANDS
from ocs_codesign.fabric.repair_bench import Bench
from ocs_codesign.fabric.repair_steps import leave_ports, leave_switches, replace_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.wiring import Configuration


@final
@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A port by the name of its switch, its side (A or B) and number (from 1)."""

    switch: str
    side: str
    number: int

    def __str__(self) -> str:
        return f"{self.switch}:{self.number}{self.side}"


@final
@dataclass(frozen=True, slots=True)
class HostChange:
    """A node that moves to a spare host."""

    node: int
    before: str
    after: str


@final
@dataclass(frozen=True, slots=True)
class StrandMove:
    """A cable end that moves: out of the port ``before``, into ``after``; None for neither.

    ``what`` names the strand of a host in a plane, as in "h3 tx plane 0", or the trunk.
    """

    what: str
    before: Port | None
    after: Port | None


@final
@dataclass(frozen=True, slots=True, order=True)
class CrossConnect:
    """Two ports that a switch joins."""

    switch: str
    a_port: int
    b_port: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Repair:
    """The new configuration, whose light was followed, and the way to it.

    ``moves`` are in an order in which every port is empty when something is plugged in. First the
    cross-connects ``removed`` are taken down, then strands move, then those ``made`` are set up;
    all others stay. Cross-connects of a lost switch count as removed. A cable of something lost
    that is in no one's way may stay where it is, and is no move; the new cabling does not count
    those of lost switches.
    """

    configuration: Configuration
    hosts: tuple[HostChange, ...]
    moves: tuple[StrandMove, ...]
    removed: tuple[CrossConnect, ...]
    made: tuple[CrossConnect, ...]


def repair(
    broken: Embedding | Configuration,
    lost_hosts: Sequence[str] = (),
    lost_ports: Sequence[Port] = (),
    lost_switches: Sequence[str] = (),
) -> Repair:
    """Make the same topology again without what is lost.

    The node of a lost host moves to a host without a node, declared spares first, then the one for
    which fewest strands move: a spare's strand in the right switch stays and circuits change, else
    it goes to the lost host's port. The strand or trunk in a lost port moves to a free port of its
    switch and side, spare ones first. The circuits of a lost switch move to a plane that is free
    for them, those of a lost middle switch to the ways that are left, both without hands; else all
    its cables to a switch of the plane that has none, else the strands of its circuits to free
    ports of other switches of the plane. Each step takes the fewest moves it can,
    which proves nothing of all steps together. A later repair of the result is
    given the earlier losses too.

    Raises InfeasibleError with what is missing if the spares do not suffice, and ValueError for
    names and ports that the fabric does not have or that are given twice.
    """
    old = broken.configuration if isinstance(broken, Embedding) else broken
    fabric = old.cabling.fabric
    hosts = _numbers("host", fabric.hosts, lost_hosts)
    switch_names = [switch.name for switch in fabric.switches]
    switches = _numbers("switch", switch_names, lost_switches)
    ports = _ports(fabric, switch_names, lost_ports)
    bench = Bench(old, hosts, switches, ports)
    replace_hosts(bench)
    leave_switches(bench)
    leave_ports(bench)
    new = bench.configuration()
    _check(bench, new)
    before, after = _cross_connects(old), _cross_connects(new)
    return Repair(
        new,
        tuple(
            HostChange(node, fabric.hosts[one], fabric.hosts[other])
            for node, (one, other) in enumerate(zip(old.host, new.host, strict=True))
            if one != other
        ),
        tuple(_ordered(_needed(list(_moves(bench, old))))),
        tuple(sorted(before - after)),
        tuple(sorted(after - before)),
    )


def _numbers(what: str, names: Sequence[str], lost: Sequence[str]) -> set[int]:
    place = {name: number for number, name in enumerate(names)}
    for name in lost:
        if name not in place:
            raise ValueError(f"the lost {what} {name!r} is no {what} of the fabric")
        if list(lost).count(name) > 1:
            raise ValueError(f"the lost {what} {name!r} is given twice")
    return {place[name] for name in lost}


def _ports(fabric: Fabric, names: Sequence[str], lost: Sequence[Port]) -> set[tuple[int, int, int]]:
    found: set[tuple[int, int, int]] = set()
    for port in lost:
        (number,) = _numbers("switch", names, [port.switch])
        switch = fabric.switches[number]
        sides = "AB" if switch.profile.port_model.has_b_side else "A"
        if port.side not in tuple(sides) or not 1 <= port.number <= switch.num_ports:
            raise ValueError(
                f"the lost port {port} does not exist: switch {port.switch} has ports 1 to "
                f"{switch.num_ports} on side {' and '.join(sides)}"
            )
        key = (number, sides.index(port.side), port.number)
        if key in found:
            raise ValueError(f"the lost port {port} is given twice")
        found.add(key)
    return found


def _cross_connects(configuration: Configuration) -> set[CrossConnect]:
    switches = configuration.cabling.fabric.switches
    found = set()
    columns = (configuration.switch, configuration.a_port, configuration.b_port)
    for number, a_port, b_port in zip(*(column.tolist() for column in columns), strict=True):
        ends = (a_port, b_port)
        if not switches[number].profile.port_model.has_b_side:
            ends = (min(ends), max(ends))
        found.add(CrossConnect(switches[number].name, *ends))
    return found


def _moves(bench: Bench, old: Configuration) -> Iterator[StrandMove]:
    fabric, first = old.cabling.fabric, Bench(old, set(), set(), set())

    def port(switch: int, side: int, number: int) -> Port | None:
        return None if switch < 0 else Port(fabric.switches[switch].name, "AB"[side], number)

    changed = (first.switch != bench.switch) | (first.port != bench.port)
    for host, plane, side in np.argwhere(changed).tolist():
        name = STRANDS[fabric.port_model(plane)][side]
        ends = [
            port(int(which.switch[host, plane, side]), side, int(which.port[host, plane, side]))
            for which in (first, bench)
        ]
        yield StrandMove(f"{fabric.hosts[host]} {name} plane {plane}", *ends)
    for row, (one, other) in enumerate(zip(first.trunks, bench.trunks, strict=True)):
        for side, (switch, at) in ((1, (0, 1)), (0, (2, 3))):
            gone = not bench.trunk_stays[row]
            if gone or one[at] != other[at] or one[switch] != other[switch]:
                after = None if gone else port(int(other[switch]), side, int(other[at]))
                yield StrandMove(f"trunk {row}", port(int(one[switch]), side, int(one[at])), after)


def _needed(moves: list[StrandMove]) -> list[StrandMove]:
    """Without what is only unplugged from a port that nothing else goes into."""
    filled = {move.after for move in moves}
    return [move for move in moves if move.after is not None or move.before in filled]


def _ordered(moves: list[StrandMove]) -> Iterator[StrandMove]:
    """Moves such that a port is empty when something is plugged in; a circle is cut by unplugging.

    No circle arises from losses, as a move leads to a port that was free or of a lost host.
    """
    waiting = sorted(moves, key=lambda move: move.after is not None)
    while waiting:
        taken = {move.before for move in waiting}
        ready = [move for move in waiting if move.after is None or move.after not in taken]
        if not ready:
            raise RuntimeError("strands would have to change places")
        yield from ready
        waiting = [move for move in waiting if move not in ready]


def _check(bench: Bench, new: Configuration) -> None:
    """RuntimeError unless the light makes the topology and nothing that is lost carries any."""
    made, claimed = topology_of(new), new.topology
    order = np.lexsort((claimed.head, claimed.tail))
    same = np.array_equal(made.tail, claimed.tail[order]) and np.array_equal(
        made.head, claimed.head[order]
    )
    if not same or bench.uses_lost():
        raise RuntimeError(f"the repaired circuits of {new.name} do not make its topology")
