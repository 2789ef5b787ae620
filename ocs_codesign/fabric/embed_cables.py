"""Laying cables: which port of which switch every host's strands are plugged into."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.blocks import NO_BLOCK, connected, double_cover_blocks
from ocs_codesign.fabric.clos import Clos, three_stages
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.packing import pack
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes import Planes

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

    @property
    def num_stages(self) -> int:
        """Switches on the way of a circuit."""
        return 3 if self is Partition.CLOS else 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Strands:
    """The switch and port (int32) of every host's strand on one side, NOT_CABLED for none."""

    switch: NDArray[np.int32]
    port: NDArray[np.int32]

    @staticmethod
    def none(num_hosts: int) -> Strands:
        """No cable at all."""
        return Strands(*(np.full(num_hosts, NOT_CABLED, dtype=np.int32) for _ in range(2)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class PlaneCables:
    """The cables of one plane: the strands of both sides, and the trunks between switches."""

    partition: Partition
    a: Strands
    b: Strands
    trunks: NDArray[np.int32]


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sites:
    """The switches of a plane: their numbers in the fabric and usable ports a side."""

    switch: NDArray[np.int64]
    ports: NDArray[np.int64]


def check_loss(fabric: Fabric, plane: int, num_stages: int) -> None:
    """Raise InfeasibleError (LOSS) if a circuit through so many switches loses too much light."""
    loss_db = round(fabric.loss_db(plane, num_stages), 9)
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
    sites = _sites(fabric, plane)
    if planes.port_model is PortModel.RESTRICTED:
        check_loss(fabric, plane, 1)
        return _listed(fabric, sites, host)
    needed = _linked_hosts(planes.topology, host)
    single = np.flatnonzero(sites.ports >= len(needed))
    if len(single):
        check_loss(fabric, plane, 1)
        return _on_one(fabric, sites, int(single[0]), needed, planes.port_model)
    _check_ports(planes, sites, needed)
    if circuits_of is not None:
        check_loss(fabric, plane, 1)
        items = _Items.of_circuits(planes, circuits_of)
        return _packed(fabric, sites, items, host, Partition.CIRCUITS)
    return _blocks_or_stages(fabric, plane, planes, host, sites)


def assembled(fabric: Fabric, laid: list[PlaneCables | None]) -> Cabling:
    """The cables of all planes as one value; None for a plane without cables."""
    none = Strands.none(len(fabric.hosts))
    a = [none if plane is None else plane.a for plane in laid]
    b = [none if plane is None else plane.b for plane in laid]
    trunks = [NO_TRUNKS, *(plane.trunks for plane in laid if plane is not None)]
    return Cabling(
        fabric,
        np.stack([strands.switch for strands in a], axis=1),
        np.stack([strands.port for strands in a], axis=1),
        np.stack([strands.switch for strands in b], axis=1),
        np.stack([strands.port for strands in b], axis=1),
        np.concatenate(trunks),
    )


def _blocks_or_stages(
    fabric: Fabric, plane: int, planes: Planes, host: NDArray[np.int32], sites: _Sites
) -> PlaneCables:
    try:
        check_loss(fabric, plane, 1)
        items = _Items.of_topology(planes)
        return _packed(fabric, sites, items, host, Partition.BLOCKS)
    except InfeasibleError as error:
        if error.reason not in (Reason.BLOCK, Reason.PACKING):
            raise
        blocks = error
    if not planes.port_model.has_b_side:
        raise InfeasibleError(
            blocks.reason, f"{blocks}; switches without sides are not made into three stages"
        ) from None
    everyone = np.arange(len(fabric.hosts))
    for hosts in (everyone, _linked_hosts(planes.topology, host)):
        stages = three_stages(len(hosts), sites.ports)
        if stages is not None:
            check_loss(fabric, plane, Partition.CLOS.num_stages)
            return _in_stages(fabric, sites, stages, hosts)
    raise InfeasibleError(
        blocks.reason,
        f"{blocks}; {len(sites.switch)} switches are too few for three stages with as many "
        f"ways through the middle as an edge switch has hosts (single circuits would fit, for one "
        f"configuration)",
    )


def _sites(fabric: Fabric, plane: int) -> _Sites:
    mine = [number for number, switch in enumerate(fabric.switches) if switch.plane == plane]
    ports = [fabric.switches[number].num_usable for number in mine]
    return _Sites(np.array(mine, dtype=np.int64), np.array(ports, dtype=np.int64))


def _linked_hosts(topology: Topology, host: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.sort(host[(topology.out_degrees() > 0) | (topology.in_degrees() > 0)])


def _check_ports(planes: Planes, sites: _Sites, needed: NDArray[np.int32]) -> None:
    usable = int(sites.ports.sum())
    if usable < len(needed):
        side = " a side" if planes.port_model.has_b_side else ""
        raise InfeasibleError(
            Reason.PORTS,
            f"{len(needed)} nodes with links each need a port, but its switches have {usable} "
            f"usable ports{side}",
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """What must stay together: the item of every node's A strand and B strand, -1 for none."""

    a_item: NDArray[np.int32]
    b_item: NDArray[np.int32]
    sizes: NDArray[np.int64]

    @staticmethod
    def of_topology(planes: Planes) -> _Items:
        topology = planes.topology
        return _Items._joined(planes, topology.tail, topology.head)

    @staticmethod
    def of_circuits(planes: Planes, plane: int) -> _Items:
        mine = planes.plane == plane
        return _Items._joined(planes, planes.a_node[mine], planes.b_node[mine])

    @staticmethod
    def _joined(planes: Planes, one: NDArray[np.int32], other: NDArray[np.int32]) -> _Items:
        nodes = planes.topology.num_nodes
        if planes.port_model.has_b_side:
            blocks = double_cover_blocks(Topology(nodes, one, other))
            sizes = np.stack([blocks.num_tails, blocks.num_heads], axis=1)
            return _Items(blocks.tail_block, blocks.head_block, sizes)
        none = np.full(nodes, NO_BLOCK, dtype=np.int32)
        item = none.copy()
        ends = np.unique(np.concatenate([one, other]))
        item[ends] = np.unique(connected(one, other, nodes)[ends], return_inverse=True)[1]
        count = np.bincount(item[ends])
        return _Items(item, none, np.stack([count, 0 * count], axis=1))


def _on_one(
    fabric: Fabric, sites: _Sites, site: int, needed: NDArray[np.int32], port_model: PortModel
) -> PlaneCables:
    """Host h in port h + 1 if all have room, else those with links first."""
    hosts, room = len(fabric.hosts), int(sites.ports[site])
    order = np.arange(hosts)
    if hosts > room:
        order = np.concatenate([needed, np.setdiff1d(order, needed)])[:room]
        order.sort()
    strands = Strands.none(hosts)
    strands.switch[order] = sites.switch[site]
    strands.port[order] = 1 + np.arange(len(order))
    b = strands if port_model.has_b_side else Strands.none(hosts)
    return PlaneCables(Partition.ONE_SWITCH, strands, b, NO_TRUNKS)


def _listed(fabric: Fabric, sites: _Sites, host: NDArray[np.int32]) -> PlaneCables:
    """Hosts in order in the ports of the switches in order, as their states are numbered."""
    strands = Strands.none(len(fabric.hosts))
    site = np.repeat(np.arange(len(sites.switch)), sites.ports)[: len(fabric.hosts)]
    before = np.cumsum(sites.ports) - sites.ports
    strands.switch[: len(site)] = sites.switch[site]
    strands.port[: len(site)] = 1 + np.arange(len(site)) - before[site]
    if (strands.switch[host] == NOT_CABLED).any():
        raise InfeasibleError(
            Reason.PORTS,
            f"host {fabric.hosts[int(host.max())]} is the {int(host.max()) + 1}th, but its "
            f"switches have {int(sites.ports.sum())} usable ports a side",
        )
    return PlaneCables(Partition.LISTED, strands, strands, NO_TRUNKS)


def _packed(
    fabric: Fabric, sites: _Sites, items: _Items, host: NDArray[np.int32], partition: Partition
) -> PlaneCables:
    """Items packed into switches, then the strands that no link needs where there is room."""
    sided = bool((items.b_item >= 0).any())
    rooms = np.stack([sites.ports, sites.ports if sided else 0 * sites.ports], axis=1)
    bins = pack(items.sizes, rooms)
    sides = []
    for item in (items.a_item, items.b_item):
        site = np.full(len(fabric.hosts), NOT_CABLED, dtype=np.int64)
        linked = item >= 0
        site[host[linked]] = bins[item[linked]]
        sides.append(_numbered(sites, _filled(sites, site, host)))
    b = sides[1] if sided else Strands.none(len(fabric.hosts))
    return PlaneCables(partition, sides[0], b, NO_TRUNKS)


def _filled(sites: _Sites, site: NDArray[np.int64], host: NDArray[np.int32]) -> NDArray[np.int64]:
    """Strands without a switch into the ports that are left, those of nodes first."""
    left = sites.ports - np.bincount(site[site >= 0], minlength=len(sites.ports))
    free = np.repeat(np.arange(len(left)), left)
    idle = np.flatnonzero(site == NOT_CABLED)
    idle = idle[np.argsort(~np.isin(idle, host), kind="stable")][: len(free)]
    out = site.copy()
    out[idle] = free[: len(idle)]
    return out


def _numbered(sites: _Sites, site: NDArray[np.int64]) -> Strands:
    """Switch and port of every strand: ports of a switch count up in the order of hosts."""
    strands = Strands.none(len(site))
    cabled = np.flatnonzero(site >= 0)
    order = cabled[np.argsort(site[cabled], kind="stable")]
    count = np.bincount(site[cabled], minlength=len(sites.ports))
    strands.switch[order] = sites.switch[site[order]]
    strands.port[order] = 1 + np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    return strands


def _in_stages(
    fabric: Fabric, sites: _Sites, stages: Clos, hosts: NDArray[np.integer]
) -> PlaneCables:
    """So many hosts in order at every edge switch, and all trunks."""
    edge, place = np.divmod(np.arange(len(hosts)), stages.num_hosts)
    sides = []
    for switches in (stages.senders, stages.receivers):
        strands = Strands.none(len(fabric.hosts))
        strands.switch[hosts] = sites.switch[np.array(switches)[edge]]
        strands.port[hosts] = 1 + place
        sides.append(strands)
    trunks = stages.trunks()
    trunks[:, (0, 2)] = sites.switch[trunks[:, (0, 2)]]
    return PlaneCables(Partition.CLOS, sides[0], sides[1], trunks)
