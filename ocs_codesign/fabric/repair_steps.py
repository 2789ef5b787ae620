"""The steps of a repair: nodes leave lost hosts, circuits leave lost switches and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed.cross_connects import configured
from ocs_codesign.fabric.embed.fitting import can_carry
from ocs_codesign.fabric.embed.packing import pack
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.planes import Planes, degree_certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.repair_bench import Bench


def replace_hosts(bench: Bench) -> None:
    """Move the nodes of lost hosts to spare ones."""
    hosts = bench.fabric.hosts
    for node in np.flatnonzero(np.isin(bench.host, list(bench.lost_hosts))).tolist():
        lost = int(bench.host[node])
        busy = {*bench.host.tolist(), *bench.lost_hosts}
        spare = [host for host in range(len(hosts)) if host not in busy]
        if not spare:
            raise InfeasibleError(
                Reason.HOSTS, f"no spare host is left for the node of host {hosts[lost]}"
            )
        working = bench.fabric.num_working_hosts
        chosen = min(spare, key=lambda host: (host < working, _num_moves(bench, lost, host), host))
        for plane, side in _used_sides(bench, lost):
            _replace_strand(bench, lost, chosen, plane, side)
        bench.host[node] = chosen


def _used_sides(bench: Bench, host: int) -> list[tuple[int, int]]:
    """The planes and sides in which a host's strand has a circuit."""
    found = []
    for plane in range(bench.fabric.num_planes):
        for side in (0, 1):
            port = bench.strand(host, plane, side)
            if port is not None and bench.rows_at(port).any():
                found.append((plane, side))
    return found


def _fits(bench: Bench, lost: int, spare: int, plane: int, side: int) -> bool:
    """Whether the spare's strand can stay where it is: a port of the same switch that works."""
    before, after = bench.strand(lost, plane, side), bench.strand(spare, plane, side)
    if before is None or after is None or bench.is_lost(after):
        return False
    return before[0] == after[0] and bench.fabric.switches[before[0]].states is None


def _num_moves(bench: Bench, lost: int, spare: int) -> int:
    return sum(not _fits(bench, lost, spare, *at) for at in _used_sides(bench, lost))


def _replace_strand(bench: Bench, lost: int, spare: int, plane: int, side: int) -> None:
    before, after = bench.strand(lost, plane, side), bench.strand(spare, plane, side)
    if before is None:
        return
    if after is not None and _fits(bench, lost, spare, plane, side):
        bench.reconnect(before, after)
        return
    bench.plug(lost, plane, side, None)
    bench.plug(spare, plane, side, before)


def leave_ports(bench: Bench) -> None:
    """Move strands and trunks out of broken ports, those with circuits first.

    A strand without a circuit is left unplugged if no port is free for it.
    """
    ports = [port for port in sorted(bench.lost_ports) if port[0] not in bench.lost_switches]
    ports.sort(key=lambda port: not bench.rows_at(port).any())
    for port in ports:
        needed = bool(bench.rows_at(port).any())
        for strand in bench.strands_at(port[0]):
            if bench.strand(*strand) != port:
                continue
            if strand[0] in bench.lost_hosts:
                continue
            if not needed and not bench.free_ports(*port[:2]):
                bench.plug(*strand, None)
                continue
            new = bench.take_port(*port[:2])
            bench.plug(*strand, new)
            bench.reconnect(port, new)
        for row in np.flatnonzero(bench.trunk_stays).tolist():
            _leave_trunk_port(bench, row, port, needed)


def _leave_trunk_port(bench: Bench, row: int, port: tuple[int, int, int], needed: bool) -> None:
    switch, side, number = port
    at = 0 if side else 2
    if tuple(bench.trunks[row, at : at + 2].tolist()) != (switch, number):
        return
    if not needed and not bench.free_ports(switch, side):
        bench.trunk_stays[row] = False
        return
    new = bench.take_port(switch, side)
    bench.trunks[row, at + 1] = new[2]
    bench.reconnect(port, new)


def leave_switches(bench: Bench) -> None:
    """Move circuits out of lost switches; then whatever is plugged in there is given up."""
    for switch in sorted(bench.lost_switches):
        circuits = np.unique(bench.rows[bench.rows[:, 1] == switch, 0])
        if len(circuits):
            _leave_switch(bench, switch, circuits)
        bench.trunk_stays[(bench.trunks[:, [0, 2]] == switch).any(axis=1)] = False
        for strand in bench.strands_at(switch):
            bench.plug(*strand, None)


def _leave_switch(bench: Bench, switch: int, circuits: NDArray[np.integer]) -> None:
    """Without hands if that can be, else to a switch without cables, else to free ports."""
    plane = bench.fabric.switches[switch].plane
    if _to_other_plane(bench, circuits, plane):
        return
    refusal = None
    # A host is plugged into edge switches only: light crosses a middle one from trunk to trunk.
    if bench.is_staged(plane) and not bench.strands_at(switch):
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
    was = bench.fabric.switches[lost]
    strands = bench.strands_at(lost)
    ports = {(at[2], port[2]) for at in strands if (port := bench.strand(*at)) is not None}
    for side, at in ((1, 0), (0, 2)):
        mine = bench.trunk_stays & (bench.trunks[:, at] == lost)
        ports |= {(side, port) for port in bench.trunks[mine, at + 1].tolist()}
    for number, switch in enumerate(bench.fabric.switches):
        large = switch.num_ports >= max(port for _, port in ports)
        whole = not any(bench.is_lost((number, *port)) for port in ports)
        alike = was.states is None or (
            switch.states is not None and np.array_equal(was.states, switch.states)
        )
        trunked = (bench.trunks[bench.trunk_stays][:, [0, 2]] == number).any()
        if switch.plane != plane or bench.strands_at(number) or trunked:
            continue
        if large and whole and alike:
            bench.switch[bench.switch == lost] = number
            for at in (0, 2):
                bench.trunks[bench.trunks[:, at] == lost, at] = number
            bench.rows[bench.rows[:, 1] == lost, 1] = number
            return True
    return False


def _ends(
    bench: Bench, circuits: NDArray[np.integer]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The hosts at the A and B ends of circuits."""
    topology, link = bench.old.topology, bench.old.link[circuits, 0]
    return bench.host[topology.tail[link]], bench.host[topology.head[link]]


def _to_other_plane(bench: Bench, circuits: NDArray[np.integer], lost: int) -> bool:
    """Move circuits to the first other plane whose cables and ports are free for all of them."""
    model = bench.fabric.port_model(lost)
    a_host, b_host = _ends(bench, circuits)
    far = 1 if model.has_b_side else 0
    for plane in range(bench.fabric.num_planes):
        same = plane != lost and bench.fabric.port_model(plane) is model
        if not same or model is PortModel.RESTRICTED or bench.is_staged(plane):
            continue
        if not can_carry(bench.cabling(), plane, a_host, b_host).all():
            continue
        ends = [
            [bench.strand(int(host), plane, side) for host in hosts]
            for hosts, side in ((a_host, 0), (b_host, far))
        ]
        ports = [port for side in ends for port in side if port is not None]
        if any(bench.is_lost(port) or bench.rows_at(port).any() for port in ports):
            continue
        rows = np.stack(
            [
                circuits,
                bench.switch[a_host, plane, 0],
                bench.port[a_host, plane, 0],
                bench.port[b_host, plane, far],
            ],
            axis=1,
        )
        _set_rows(bench, circuits, rows)
        bench.plane[circuits] = plane
        return True
    return False


def _set_rows(bench: Bench, circuits: NDArray[np.integer], rows: NDArray[np.integer]) -> None:
    kept = bench.rows[~np.isin(bench.rows[:, 0], circuits)]
    bench.rows = np.concatenate([kept, rows.astype(np.int32)])


def _take_other_ways(bench: Bench, lost: int, plane: int) -> InfeasibleError | None:
    """Route a three-stage plane anew without a middle switch, or tell why that cannot be."""
    old, model = bench.old, bench.fabric.port_model(plane)
    certificate = degree_certificate(old.topology, model)
    numbers = bench.fabric.num_planes
    planes = Planes(model, old.topology, old.link, bench.plane, numbers, certificate)
    before = bench.trunk_stays.copy()
    bench.trunk_stays[(bench.trunks[:, [0, 2]] == lost).any(axis=1)] = False
    try:
        made = configured(old.name, bench.cabling(), planes, bench.host)
    except ValueError as error:
        bench.trunk_stays = before
        name = bench.fabric.switches[lost].name
        return InfeasibleError(Reason.CABLING, f"plane {plane} without switch {name}: {error}")
    mine = np.flatnonzero(bench.plane == plane)
    rows = np.stack([made.circuit, made.switch, made.a_port, made.b_port], axis=1)
    _set_rows(bench, mine, rows[np.isin(rows[:, 0], mine)])
    return None


def _to_other_switches(bench: Bench, lost: int, plane: int) -> None:
    """Pack the strands of a lost switch into free ports of others, ends of a circuit together."""
    name, staged = bench.fabric.switches[lost].name, bench.is_staged(plane)
    if staged or bench.fabric.port_model(plane) is PortModel.RESTRICTED:
        rule = "its hosts are at the edge of three stages" if staged else "it has listed states"
        raise InfeasibleError(
            Reason.PORTS,
            f"no other plane is free for the circuits of switch {name}, and no other switch can "
            f"stand in for it, as {rule}",
        )
    mine = np.flatnonzero(bench.rows[:, 1] == lost)
    circuits = bench.rows[mine, 0]
    a_host, b_host = (ends.astype(np.int64) for ends in _ends(bench, circuits))
    num_hosts, far = len(bench.fabric.hosts), 1 if bench.sided[lost] else 0
    a_end, b_end = a_host, b_host + far * num_hosts
    label = connected(a_end, b_end, 2 * num_hosts)
    strands = np.unique(np.concatenate([a_end, b_end]))
    item = np.unique(label[strands], return_inverse=True)[1].reshape(-1)
    sizes = np.zeros((int(item.max()) + 1, 2), dtype=np.int64)
    np.add.at(sizes, (item, strands // num_hosts), 1)
    others = [
        number
        for number, switch in enumerate(bench.fabric.switches)
        if switch.plane == plane and number not in bench.lost_switches
    ]
    rooms = [
        [len(bench.free_ports(number, side)) if side <= far else 0 for side in (0, 1)]
        for number in others
    ]
    try:
        bins = pack(sizes, np.array(rooms, dtype=np.int64).reshape(-1, 2))
    except InfeasibleError as error:
        raise InfeasibleError(
            error.reason,
            f"no other plane is free for the circuits of switch {name}, and its plane {plane} has "
            f"too few free ports on other switches: {error}",
        ) from None
    for strand, place in zip(strands.tolist(), item.tolist(), strict=True):
        side, host = divmod(strand, num_hosts)
        new = bench.take_port(others[int(bins[place])], side)
        bench.plug(host, plane, side, new)
    bench.rows[mine, 1] = bench.switch[a_host, plane, 0]
    bench.rows[mine, 2] = bench.port[a_host, plane, 0]
    bench.rows[mine, 3] = bench.port[b_host, plane, far]
