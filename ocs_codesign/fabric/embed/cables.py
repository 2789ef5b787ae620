"""Laying cables: which port of which switch every host's strands are plugged into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.embed.blocks import Blocks, double_cover_blocks
from ocs_codesign.fabric.embed.clos import Clos, three_stages
from ocs_codesign.fabric.embed.packing import pack
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes.planes import Planes

NO_TRUNKS = np.empty((0, 4), dtype=np.int32)


@final
class Partition(Enum):
    """How a plane is spread over its switches.

    ONE_SWITCH: all strands are on one. BLOCKS: blocks of the topology's double cover are on one
    switch each, so that the cables serve every factorisation of the topology. CLOS: three stages of
    switches, which serve every topology. CIRCUITS: both ends of every circuit are on one switch, so
    that the cables serve this configuration. LISTED: hosts in order, for switches with states.
    """

    ONE_SWITCH = "one switch"
    BLOCKS = "blocks of the topology"
    CLOS = "three stages"
    CIRCUITS = "single circuits"
    LISTED = "in order of hosts"


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlaneCables:
    """The cables of one plane: the strands of both sides, and the trunks between switches.

    Strands are int32 of shape (2, hosts): switch and port, NOT_CABLED for none.
    """

    partition: Partition
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    trunks: NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sites:
    """The switches of a plane of the fabric: their numbers there and usable ports a side."""

    fabric: Fabric
    plane: int
    switch: NDArray[np.int64]
    ports: NDArray[np.int64]

    @staticmethod
    def of(fabric: Fabric, plane: int) -> _Sites:
        mine = [number for number, switch in enumerate(fabric.switches) if switch.plane == plane]
        ports = [fabric.switches[number].num_usable for number in mine]
        return _Sites(fabric, plane, np.array(mine), np.array(ports))

    @property
    def num_hosts(self) -> int:
        """Hosts of the fabric, each of which has a strand a side."""
        return len(self.fabric.hosts)

    def strands(
        self, hosts: NDArray[np.integer] | None = None, site: NDArray[np.integer] | int = 0
    ) -> NDArray[np.int32]:
        """The strands of some hosts at a switch each, whose ports count up in their order."""
        strands = np.full((2, self.num_hosts), NOT_CABLED, dtype=np.int32)
        if hosts is None:
            return strands
        at = np.broadcast_to(site, len(hosts))
        order = np.argsort(at, kind="stable")
        first = np.searchsorted(at[order], at[order])
        strands[0, hosts[order]] = self.switch[at[order]]
        strands[1, hosts[order]] = 1 + np.arange(len(order)) - first
        return strands


def check_loss(fabric: Fabric, plane: int, num_stages: int) -> None:
    """Raise InfeasibleError (LOSS) if a circuit through so many switches loses too much light."""
    loss_db = fabric.loss_db(plane, num_stages)
    if loss_db > fabric.loss_budget_db:
        raise InfeasibleError(
            Reason.LOSS,
            f"a circuit through {num_stages} of its switches loses {loss_db:g} dB, over the "
            f"budget of {fabric.loss_budget_db:g} dB",
        )


def lay_plane(
    fabric: Fabric, plane: int, planes: Planes, host: NDArray[np.int32], circuits_of: int | None
) -> PlaneCables:
    """Cables of one plane of the fabric for a topology whose node v is ``host[v]``.

    With ``circuits_of`` the strands of each circuit in that one of ``planes`` are kept together
    (CIRCUITS), else what Partition says in its order. Hosts without nodes get the ports that are
    left. Raises InfeasibleError with the bound that fails.
    """
    sites, topology = _Sites.of(fabric, plane), planes.topology
    needed = np.sort(host[(topology.out_degrees() > 0) | (topology.in_degrees() > 0)])
    single = np.flatnonzero(sites.ports >= len(needed))
    if len(single):
        check_loss(sites.fabric, sites.plane, 1)
        return _on_one(sites, int(single[0]), needed, planes)
    usable = int(sites.ports.sum())
    if usable < len(needed):
        side = " a side" if planes.port_model.has_b_side else ""
        raise InfeasibleError(
            Reason.PORTS,
            f"{len(needed)} nodes with links each need a port, but its switches have {usable} "
            f"usable ports{side}",
        )
    if circuits_of is None:
        return _blocks_or_stages(sites, planes, host, needed)
    check_loss(sites.fabric, sites.plane, 1)
    mine = planes.plane == circuits_of
    items = _blocks(planes, planes.a_node[mine], planes.b_node[mine])
    return _packed(sites, items, host, Partition.CIRCUITS)


def lay_in_order(fabric: Fabric, plane: int, host: NDArray[np.int32]) -> PlaneCables:
    """Hosts in order in the ports of a plane's switches in order, as their states are numbered.

    Raises InfeasibleError: LOSS, or PORTS if there is none for one of ``host``.
    """
    check_loss(fabric, plane, 1)
    sites = _Sites.of(fabric, plane)
    site = np.repeat(np.arange(len(sites.switch)), sites.ports)[: sites.num_hosts]
    last = int(host.max())
    if last >= len(site):
        raise InfeasibleError(
            Reason.PORTS,
            f"host {fabric.hosts[last]} is the {last + 1}th, but its switches have "
            f"{int(sites.ports.sum())} usable ports a side",
        )
    strands = sites.strands(np.arange(len(site)), site)
    return PlaneCables(Partition.LISTED, strands, strands, NO_TRUNKS)


def assembled(fabric: Fabric, laid: list[PlaneCables | None]) -> Cabling:
    """The cables of all planes as one value; None for a plane without cables."""
    none = np.full((2, len(fabric.hosts)), NOT_CABLED, dtype=np.int32)
    a_switch, a_port = np.stack([none if at is None else at.a for at in laid], axis=2)
    b_switch, b_port = np.stack([none if at is None else at.b for at in laid], axis=2)
    trunks = np.concatenate([NO_TRUNKS, *(at.trunks for at in laid if at is not None)])
    numbers = 1 + np.arange(len(trunks), dtype=np.int32)
    return Cabling(fabric, a_switch, a_port, b_switch, b_port, trunks, numbers)


def _blocks_or_stages(
    sites: _Sites, planes: Planes, host: NDArray[np.int32], needed: NDArray[np.int32]
) -> PlaneCables:
    try:
        check_loss(sites.fabric, sites.plane, 1)
        items = _blocks(planes, planes.topology.tail, planes.topology.head)
        return _packed(sites, items, host, Partition.BLOCKS)
    except InfeasibleError as error:
        if error.reason not in (Reason.BLOCK, Reason.PACKING):
            raise
        blocks = error
    if not planes.port_model.has_b_side:
        raise InfeasibleError(
            blocks.reason, f"{blocks}; switches without sides are not made into three stages"
        ) from None
    for hosts in (np.arange(sites.num_hosts), needed):
        stages = three_stages(len(hosts), sites.ports)
        if stages is not None:
            check_loss(sites.fabric, sites.plane, 3)
            return _in_stages(sites, stages, hosts)
    raise InfeasibleError(
        blocks.reason,
        f"{blocks}; {len(sites.switch)} switches are too few for three stages with as many "
        f"ways through the middle as an edge switch has hosts (single circuits would fit, for one "
        f"configuration)",
    )


def _blocks(planes: Planes, one: NDArray[np.int32], other: NDArray[np.int32]) -> Blocks:
    """The strands that pairs of nodes join, from the first one's A to the other's B if sided."""
    ends = Topology(planes.topology.num_nodes, one, other)
    return double_cover_blocks(ends, has_sides=planes.port_model.has_b_side)


def _on_one(sites: _Sites, site: int, needed: NDArray[np.int32], planes: Planes) -> PlaneCables:
    """Host h in port h + 1 if all have room, else those with links first."""
    others = np.setdiff1d(np.arange(sites.num_hosts), needed)
    hosts = np.sort(np.concatenate([needed, others])[: int(sites.ports[site])])
    a = sites.strands(hosts, site)
    b = a if planes.port_model.has_b_side else sites.strands()
    return PlaneCables(Partition.ONE_SWITCH, a, b, NO_TRUNKS)


def _packed(
    sites: _Sites, items: Blocks, host: NDArray[np.int32], partition: Partition
) -> PlaneCables:
    """Items packed into switches, then the strands that no link needs where there is room."""
    sided = bool((items.head_block >= 0).any())
    rooms = np.stack([sites.ports, sites.ports if sided else 0 * sites.ports], axis=1)
    bins = pack(items.sizes, rooms)
    a = _filled(sites, items.tail_block, bins, host)
    b = _filled(sites, items.head_block, bins, host) if sided else sites.strands()
    return PlaneCables(partition, a, b, NO_TRUNKS)


def _filled(
    sites: _Sites, item: NDArray[np.int32], bins: NDArray[np.int64], host: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Strands of items where these are packed, others in the ports left, those of nodes first."""
    site = np.full(sites.num_hosts, NOT_CABLED)
    linked = item >= 0
    site[host[linked]] = bins[item[linked]]
    left = sites.ports - np.bincount(site[site >= 0], minlength=len(sites.ports))
    free = np.repeat(np.arange(len(left)), left)
    idle = np.flatnonzero(site == NOT_CABLED)
    idle = idle[np.argsort(~np.isin(idle, host), kind="stable")][: len(free)]
    site[idle] = free[: len(idle)]
    cabled = np.flatnonzero(site >= 0)
    return sites.strands(cabled, site[cabled])


def _in_stages(sites: _Sites, stages: Clos, hosts: NDArray[np.integer]) -> PlaneCables:
    edge = np.arange(len(hosts)) // stages.num_hosts
    a, b = (
        sites.strands(hosts, np.array(switches)[edge])
        for switches in (stages.senders, stages.receivers)
    )
    trunks = stages.trunks()
    trunks[:, (0, 2)] = sites.switch[trunks[:, (0, 2)]]
    return PlaneCables(Partition.CLOS, a, b, trunks)
