"""Repair: circuits on what is left of a fabric and on its spares, with the fewest hands at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.shown import Brief
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.cables import can_carry, double_cover_blocks, pack
from ocs_codesign.fabric.embedding.embed import Embedding
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.planes import Planes, degree_certificate
from ocs_codesign.fabric.repairs.bench import Bench
from ocs_codesign.fabric.rewiring.configurations import makes_its_topology
from ocs_codesign.fabric.wiring import (
    NOT_CABLED,
    Port,
    cable_name,
    configured,
    port_at,
    strand_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.wiring import Cabling, Configuration


# The steps of a repair: nodes leave lost hosts, circuits leave lost switches and ports.


def replace_hosts(bench: Bench) -> None:
    """Move the nodes of lost hosts to spare ones.

    A spare's strand in the right switch stays, else it is plugged in for that of the lost host.
    """
    hosts, working = bench.fabric.hosts, bench.fabric.num_working_hosts
    for node in np.flatnonzero(np.isin(bench.host, bench.lost_hosts)).tolist():
        lost = int(bench.host[node])
        busy = {*bench.host.tolist(), *bench.lost_hosts}
        spares = [host for host in range(len(hosts)) if host not in busy]
        if not spares:
            raise InfeasibleError(
                Reason.HOSTS, f"no spare host is left for the node of host {hosts[lost]}"
            )
        used = bench.is_used(bench.strand[lost])
        moving = {spare: used & ~_can_stay(bench, lost, spare) for spare in spares}
        members = [bench.fabric.members(plane) for plane in range(bench.fabric.num_planes)]
        lacks = ~np.stack(members, axis=1)[:, :, None]
        moving = {spare: move for spare, move in moving.items() if not (move & lacks[spare]).any()}
        if not moving:
            raise InfeasibleError(
                Reason.HOSTS, f"no spare host has ports in the planes that host {hosts[lost]} uses"
            )
        chosen = min(moving, key=lambda host: (host < working, int(moving[host].sum()), host))
        for before, after in zip(
            bench.strand[lost][used & ~moving[chosen]],
            bench.strand[chosen][used & ~moving[chosen]],
            strict=True,
        ):
            bench.reconnect(before, after)
        bench.strand[chosen][moving[chosen]] = bench.strand[lost][moving[chosen]]
        bench.strand[lost][moving[chosen]] = NOT_CABLED
        bench.host[node] = chosen


def _can_stay(bench: Bench, lost: int, spare: int) -> NDArray[np.bool_]:
    """Which strands of a spare host are in a working port of the lost one's switch, any state."""
    before, after = bench.strand[lost], bench.strand[spare]
    listed = [at for at, switch in enumerate(bench.fabric.switches) if switch.states is not None]
    switch = bench.switch_of(after)
    same_switch = (switch == bench.switch_of(before)) & (after >= 0)
    return np.asarray(same_switch & ~np.isin(switch, listed) & ~bench.is_lost(after))


def leave_ports(bench: Bench) -> None:
    """Move strands and trunks out of broken ports, those with circuits first.

    A cable without a circuit is left unplugged if no port is free for it.
    """
    ports = [port for port in bench.lost_ports if bench.switch_of(port) not in bench.lost_switches]
    for port in sorted(ports, key=lambda port: not bench.is_used(port)):
        is_here = bench.strand == port
        is_here[bench.lost_hosts] = False
        is_trunk = bench.trunk == port
        if not is_here.any() and not is_trunk.any():
            continue
        switch, side, _ = (int(part) for part in bench.place(port))
        if bench.is_used(port) or bench.free_ports(switch, side):
            new = bench.take_port(switch, side)
            bench.strand[is_here], bench.trunk[is_trunk] = new, new
            bench.reconnect(port, new)
        else:
            bench.strand[is_here] = NOT_CABLED
            bench.trunk[is_trunk.any(axis=1)] = NOT_CABLED


def leave_switches(bench: Bench) -> None:
    """Move circuits out of lost switches; then whatever is plugged in there is given up."""
    for switch in bench.lost_switches:
        _leave_switch(bench, switch)
        give_up(bench, switch)


def give_up(bench: Bench, switch: int) -> None:
    """Count no cable that is plugged into a switch any more."""
    bench.trunk[bench.is_in(switch, bench.trunk).any(axis=1)] = NOT_CABLED
    bench.strand[bench.is_in(switch, bench.strand)] = NOT_CABLED


def _leave_switch(bench: Bench, switch: int) -> None:
    """Without hands if that can be, else to a switch without cables, else to free ports."""
    plane = bench.fabric.switches[switch].plane
    circuits = bench.circuits_in(switch)
    for number in np.unique(bench.owner[circuits]).tolist():
        _to_other_plane(bench, circuits[bench.owner[circuits] == number], plane, number)
    if not len(bench.circuits_in(switch)):
        return
    refusal = None
    # A host is plugged into edge switches only: light crosses a middle one from trunk to trunk.
    if plane in bench.staged_planes and not bench.is_in(switch, bench.strand).any():
        refusal = _take_other_ways(bench, switch, plane)
        if refusal is None:
            return
    if _to_idle_switch(bench, switch, plane):
        return
    if refusal is not None:
        raise refusal
    _to_other_switches(bench, switch, plane)


def _to_idle_switch(bench: Bench, lost: int, plane: int) -> bool:
    """Move all cables of a switch, port by port, to the first one of its plane that has none."""
    was, tables = bench.fabric.switches[lost], (bench.strand, bench.trunk, bench.rows[:, 1:])
    ports = np.concatenate([table[bench.is_in(lost, table)] for table in tables])
    for number, switch in enumerate(bench.fabric.switches):
        is_idle = not any(bench.is_in(number, table).any() for table in tables)
        large = switch.num_ports >= bench.place(ports)[2].max()
        moved = ports + bench.port(number, 0, 0) - bench.port(lost, 0, 0)
        alike = was.states is None or (
            switch.states is not None and np.array_equal(was.states, switch.states)
        )
        if switch.plane == plane and is_idle and large and alike and not bench.is_lost(moved).any():
            for table in tables:
                table[bench.is_in(lost, table)] += bench.port(number, 0, 0) - bench.port(lost, 0, 0)
            return True
    return False


def _to_other_plane(
    bench: Bench, circuits: NDArray[np.int64], lost: int, configuration: int
) -> None:
    """Move circuits to the first other plane whose cables and ports are free for all of them."""
    if bench.fabric.port_model is PortModel.RESTRICTED:
        return
    a_host, b_host = bench.hosts_of(circuits)
    for plane in range(bench.fabric.num_planes):
        if plane == lost or plane in bench.staged_planes:
            continue
        ports = np.stack([bench.strand[a_host, plane, 0], bench.strand[b_host, plane, bench.far]])
        is_free = not (bench.is_lost(ports) | bench.is_used(ports, configuration)).any()
        if is_free and can_carry(bench.cabling(), plane, a_host, b_host).all():
            bench.set_rows(circuits, np.stack([circuits, *ports], axis=1))
            bench.plane[circuits] = plane
            return


def _take_other_ways(bench: Bench, lost: int, plane: int) -> InfeasibleError | None:
    """Route a three-stage plane anew without a middle switch, or tell why that cannot be."""
    numbers = np.unique(bench.owner[bench.circuits_in(lost)]).tolist()
    before = bench.trunk.copy()
    bench.trunk[bench.is_in(lost, bench.trunk).any(axis=1)] = NOT_CABLED
    cabling, routed = bench.cabling(), []
    try:
        for number in numbers:
            old, mine = bench.olds[number], bench.owner == number
            model, there = bench.fabric.port_model, bench.fabric.num_planes
            least = degree_certificate(old.topology, model)
            planes = Planes(model, old.topology, old.link, bench.plane[mine], there, least)
            routed.append(bench.rows_of(number, configured(old.name, cabling, planes, bench.host)))
    except InfeasibleError as error:
        bench.trunk = before
        name = bench.fabric.switches[lost].name
        return InfeasibleError(Reason.CABLING, f"plane {plane} without switch {name}: {error}")
    for number, rows in zip(numbers, routed, strict=True):
        mine = np.flatnonzero((bench.owner == number) & (bench.plane == plane))
        bench.set_rows(mine, rows[np.isin(rows[:, 0], mine)])
    return None


def _to_other_switches(bench: Bench, lost: int, plane: int) -> None:
    """Pack the strands of a lost switch into free ports of others, ends of a circuit together."""
    name, staged = bench.fabric.switches[lost].name, plane in bench.staged_planes
    if staged or bench.fabric.port_model is PortModel.RESTRICTED:
        rule = "its hosts are at the edge of three stages" if staged else "it has listed states"
        raise InfeasibleError(
            Reason.PORTS,
            f"no other plane is free for the circuits of switch {name}, and no other switch can "
            f"stand in for it, as {rule}",
        )
    mine = np.flatnonzero(bench.is_in(lost, bench.rows[:, 1]))
    a_host, b_host = bench.hosts_of(bench.rows[mine, 0])
    ends = Topology(len(bench.fabric.hosts), a_host, b_host)
    blocks = double_cover_blocks(ends, has_sides=bool(bench.far))
    others = [
        number
        for number, switch in enumerate(bench.fabric.switches)
        if switch.plane == plane and number not in bench.lost_switches
    ]
    if not others:
        raise InfeasibleError(
            Reason.PORTS,
            f"no other plane is free for the circuits of switch {name}, and its plane {plane} has "
            f"no other switch",
        )
    rooms = [
        [len(bench.free_ports(number, side)) if side <= bench.far else 0 for side in (0, 1)]
        for number in others
    ]
    try:
        bins = pack(blocks.sizes, np.array(rooms, dtype=np.int64).reshape(-1, 2))
    except InfeasibleError as error:
        raise InfeasibleError(
            error.reason,
            f"no other plane is free for the circuits of switch {name}, and its plane {plane} has "
            f"too few free ports on other switches: {error}",
        ) from None
    for side, block in enumerate((blocks.tail_block, blocks.head_block)):
        for host in np.flatnonzero(block >= 0).tolist():
            into = others[int(bins[block[host]])]
            bench.strand[host, plane, side] = bench.take_port(into, side)
    bench.rows[mine, 1] = bench.strand[a_host, plane, 0]
    bench.rows[mine, 2] = bench.strand[b_host, plane, bench.far]


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
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Repair(Brief):
    """The new configuration, whose light was followed, and the way to it.

    ``moves`` are in an order in which every port is empty when something is plugged in. First the
    cross-connects ``removed`` are taken down, then strands move, then those ``made`` are set up;
    all others stay. Cross-connects of a lost switch count as removed. A cable of something lost
    that is in no one's way may stay where it is, and is no move; ``idle`` are those that the new
    cabling does not count any more, to be unplugged last. ``others`` are the other configurations
    on the new cables.
    """

    configuration: Configuration
    others: tuple[Configuration, ...]
    hosts: tuple[HostChange, ...]
    moves: tuple[StrandMove, ...]
    removed: tuple[JoinedPorts, ...]
    made: tuple[JoinedPorts, ...]
    idle: tuple[StrandMove, ...]


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
    moves = list(_moves(first, bench))
    filled = {move.after for move in moves}
    idle = [move for move in moves if move.after is None and move.before not in filled]
    return Repair(
        news[0],
        tuple(news[1:]),
        tuple(
            HostChange(node, fabric.hosts[was], fabric.hosts[now])
            for node, (was, now) in enumerate(zip(old.host, bench.host, strict=True))
            if was != now
        ),
        tuple(_ordered([move for move in moves if move not in idle])),
        tuple(sorted(before - after)),
        tuple(sorted(after - before)),
        tuple(idle),
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
        sides = fabric.port_model.sides
        if port.side not in sides or not 1 <= port.number <= switch.num_ports:
            where = "on sides A and B" if sides[0] else "without sides"
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
    return port_at(bench.fabric, *(int(part) for part in bench.place(port)))


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
        name = f"{fabric.hosts[host]} {fabric.port_model.strands[side]} plane {plane}"
        before, after = (each.strand[host, plane, side] for each in (first, bench))
        cable = cable_name(numbers[host, plane, side])
        yield StrandMove(name, cable, _named(bench, before), _named(bench, after))
    for row, end in np.argwhere(first.trunk != bench.trunk).tolist():
        before, after = (each.trunk[row, end] for each in (first, bench))
        cable = cable_name(bench.cables.trunk_number[row], is_trunk=True)
        yield StrandMove(f"trunk {row}", cable, _named(bench, before), _named(bench, after))


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
