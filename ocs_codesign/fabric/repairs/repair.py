"""Repair: circuits on what is left of a fabric and on its spares, with the fewest hands at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.embed.embedding import Embedding
from ocs_codesign.fabric.repairs.bench import Bench
from ocs_codesign.fabric.repairs.steps import give_up, leave_ports, leave_switches, replace_hosts
from ocs_codesign.fabric.rewiring.configurations import makes_its_topology
from ocs_codesign.fabric.wiring import NOT_CABLED, Port, cable_name, strand_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.wiring import Cabling, Configuration


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
    cable: str
    before: Port | None
    after: Port | None


@final
@dataclass(frozen=True, slots=True, order=True)
class JoinedPorts:
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
    those of lost switches. ``others`` are the other configurations on the new cables.
    """

    configuration: Configuration
    others: tuple[Configuration, ...]
    hosts: tuple[HostChange, ...]
    moves: tuple[StrandMove, ...]
    removed: tuple[JoinedPorts, ...]
    made: tuple[JoinedPorts, ...]


def repair(
    broken: Embedding | Configuration,
    lost_hosts: Sequence[str] = (),
    lost_ports: Sequence[Port] = (),
    lost_switches: Sequence[str] = (),
    *,
    others: Sequence[Configuration] = (),
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
    given the earlier losses too. ``others`` are configurations of the same cables and hosts that
    are not up now: they are repaired along, so that one set of moves serves all.

    Raises InfeasibleError with what is missing if the spares do not suffice, and ValueError for
    names and ports that the fabric does not have or that are given twice.
    """
    old = broken.configuration if isinstance(broken, Embedding) else broken
    olds = (old, *others)
    fabric = old.cabling.fabric
    hosts = _numbers("host", fabric.hosts, lost_hosts)
    switch_names = [switch.name for switch in fabric.switches]
    switches = _numbers("switch", switch_names, lost_switches)
    first = Bench(olds)
    bench = Bench(olds, hosts, switches, _places(fabric, switch_names, lost_ports))
    replace_hosts(bench)
    leave_switches(bench)
    leave_ports(bench)
    news = bench.configurations()
    for new in news:
        if not makes_its_topology(new) or bench.uses_lost():
            raise RuntimeError(f"the repaired circuits of {new.name} do not make its topology")
    before, after = _cross_connects(first), _cross_connects(bench)
    return Repair(
        news[0],
        tuple(news[1:]),
        tuple(
            HostChange(node, fabric.hosts[was], fabric.hosts[now])
            for node, (was, now) in enumerate(zip(old.host, bench.host, strict=True))
            if was != now
        ),
        tuple(_ordered(_needed(list(_moves(first, bench))))),
        tuple(sorted(before - after)),
        tuple(sorted(after - before)),
    )


def unplugged(
    olds: Sequence[Configuration],
    lost_hosts: Sequence[str],
    lost_ports: Sequence[Port],
    lost_switches: Sequence[str],
) -> tuple[list[Configuration], tuple[StrandMove, ...]]:
    """The same circuits without the strands of working hosts that are in lost ports, and these.

    A lost host's strand may stay in a lost port; when the host works again it cannot.
    """
    fabric = olds[0].cabling.fabric
    names = [switch.name for switch in fabric.switches]
    lost = _numbers("host", fabric.hosts, lost_hosts), _numbers("switch", names, lost_switches)
    first, bench = Bench(olds), Bench(olds, *lost, _places(fabric, names, lost_ports))
    stuck = bench.is_lost(bench.strand)
    stuck[bench.lost_hosts] = False
    bench.strand[stuck] = NOT_CABLED
    return bench.configurations(), tuple(_moves(first, bench))


def without_switches(configuration: Configuration, lost: Sequence[str]) -> Cabling:
    """The cables of a configuration without those that are plugged into lost switches."""
    names = [switch.name for switch in configuration.cabling.fabric.switches]
    bench = Bench((configuration,), (), _numbers("switch", names, lost))
    for switch in bench.lost_switches:
        give_up(bench, switch)
    return bench.cabling()


def _numbers(what: str, names: Sequence[str], lost: Sequence[str]) -> list[int]:
    for name in lost:
        if name not in names:
            raise ValueError(f"the lost {what} {name!r} is no {what} of the fabric")
        if list(lost).count(name) > 1:
            raise ValueError(f"the lost {what} {name!r} is given twice")
    return [names.index(name) for name in lost]


def _places(
    fabric: Fabric, names: Sequence[str], lost: Sequence[Port]
) -> set[tuple[int, int, int]]:
    places: set[tuple[int, int, int]] = set()
    for port in lost:
        (number,) = _numbers("switch", names, [port.switch])
        switch = fabric.switches[number]
        has_sides = switch.profile.port_model.has_b_side
        sides = ("A", "B") if has_sides else ("",)
        if port.side not in sides or not 1 <= port.number <= switch.num_ports:
            where = "on sides A and B" if has_sides else "without sides"
            raise ValueError(
                f"the lost port {port} does not exist: switch {port.switch} has ports 1 to "
                f"{switch.num_ports} {where}"
            )
        place = (number, sides.index(port.side), port.number)
        if place in places:
            raise ValueError(f"the lost port {port} is given twice")
        places.add(place)
    return places


def _named(bench: Bench, port: int) -> Port | None:
    if port == NOT_CABLED:
        return None
    switch, side, number = (int(part) for part in bench.place(port))
    return Port(bench.fabric.switches[switch].name, "AB"[side] if bench.far else "", number)


def _cross_connects(bench: Bench) -> set[JoinedPorts]:
    """Those of the configuration that is up, the first one."""
    names = [switch.name for switch in bench.fabric.switches]
    rows = bench.rows_up()[:, 1:]
    # Where a switch has no sides, the lower port comes first.
    ports = rows if bench.far else np.sort(rows, axis=1)
    switches, _, numbers = bench.place(ports)
    pairs = zip(switches[:, 0].tolist(), numbers.tolist(), strict=True)
    return {JoinedPorts(names[switch], *ends) for switch, ends in pairs}


def _moves(first: Bench, bench: Bench) -> Iterator[StrandMove]:
    fabric, numbers = bench.fabric, strand_numbers(bench.fabric)
    for host, plane, side in np.argwhere(first.strand != bench.strand).tolist():
        name = f"{fabric.hosts[host]} {fabric.port_model(plane).strands[side]} plane {plane}"
        before, after = (each.strand[host, plane, side] for each in (first, bench))
        cable = cable_name(numbers[host, plane, side])
        yield StrandMove(name, cable, _named(bench, before), _named(bench, after))
    for row, end in np.argwhere(first.trunk != bench.trunk).tolist():
        before, after = (each.trunk[row, end] for each in (first, bench))
        cable = cable_name(bench.cables.trunk_number[row], is_trunk=True)
        yield StrandMove(f"trunk {row}", cable, _named(bench, before), _named(bench, after))


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
