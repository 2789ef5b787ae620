"""The steps of a repair: nodes leave lost hosts, circuits leave lost switches and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed.blocks import double_cover_blocks
from ocs_codesign.fabric.embed.cross_connects import configured
from ocs_codesign.fabric.embed.fitting import can_carry
from ocs_codesign.fabric.embed.packing import pack
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.planes import Planes, degree_certificate
from ocs_codesign.fabric.wiring import NOT_CABLED
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.repairs.bench import Bench


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
        chosen = min(spares, key=lambda host: (host < working, int(moving[host].sum()), host))
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
    model = bench.fabric.port_model(lost)
    a_host, b_host = bench.hosts_of(circuits)
    for plane in range(bench.fabric.num_planes):
        same = plane != lost and bench.fabric.port_model(plane) is model
        if not same or model is PortModel.RESTRICTED or plane in bench.staged_planes:
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
            model, there = bench.fabric.port_model(plane), bench.fabric.num_planes
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
    if staged or bench.fabric.port_model(plane) is PortModel.RESTRICTED:
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
