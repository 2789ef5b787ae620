"""Laying cables: which port of which switch every host's strands are plugged into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason, least_integers
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Clos, three_stages, trunks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes.planes import Planes


# Blocks: components of the bipartite double cover, which small switches can hold one by one.
#
# The double cover has a tail copy and a head copy of every node and joins them by links. A plane
# whose circuits are links of the topology never joins ports of two blocks, so that a switch of
# its own may serve each, whatever the factorisation. The blocks of a line digraph are complete:
# (d, d).


NO_BLOCK = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """What must be on one switch: the block of every node's tail and head (int32, N; -1 for none).

    Block b has ``sizes[b]`` (int64, blocks x 2) tails and heads.
    """

    tail_block: NDArray[np.int32]
    head_block: NDArray[np.int32]
    sizes: NDArray[np.int64]


def double_cover_blocks(topology: Topology, *, has_sides: bool = True) -> Blocks:
    """The blocks of a topology, numbered by their first tail.

    Without sides both ends of a link are tails: blocks are then the components.

    >>> from ocs_codesign.core.topology import Topology
    >>> eight = range(8)
    >>> circulant = Topology(8, [*eight] * 2, [(v + s) % 8 for s in (1, 3) for v in eight])
    >>> double_cover_blocks(circulant).sizes.tolist()
    [[4, 4], [4, 4]]
    """
    nodes = topology.num_nodes
    tail, head = topology.tail, topology.head + nodes * has_sides
    used = np.unique(np.concatenate([tail, head]))
    block = np.full(2 * nodes, NO_BLOCK, dtype=np.int32)
    labels = connected(tail, head, 2 * nodes)[used]
    block[used] = np.unique(labels, return_inverse=True)[1]
    sides = block.reshape(2, nodes)
    count = int(block.max(initial=-1)) + 1
    sizes = [np.bincount(side[side >= 0], minlength=count) for side in sides]
    return Blocks(sides[0], sides[1], np.stack(sizes, axis=1))


# Blocks into switches: a vector bin packing of ports on side A and side B, exact.


TIME_LIMIT_S = 30.0


def pack(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bin of every item (items x 2 sizes, bins x 2 rooms): first fit, else an integer program.

    Raises InfeasibleError: BLOCK if an item is larger than every bin, PORTS if all together are,
    PACKING if the program proves that no packing exists, NOT_FOUND if its time is over.
    """
    _check_sums(sizes, rooms)
    bins = _first_fit(sizes, rooms)
    if bins is None:
        bins = _by_program(sizes, rooms)
    return bins


def _check_sums(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> None:
    fits = np.array([bool((size <= rooms).all(axis=1).any()) for size in sizes], dtype=bool)
    if not fits.all():
        tails, heads = (int(size) for size in sizes[~fits][sizes[~fits].sum(axis=1).argmax()])
        largest = int(rooms.max(initial=0))
        if rooms[:, 1].any():
            sentence = f"a block has {tails} ports on side A and {heads} on side B, but the largest"
            sentence += f" switch has {largest} usable ports a side"
        else:
            sentence = f"a block has {tails} ports, but the largest switch has {largest} usable"
        raise InfeasibleError(Reason.BLOCK, sentence)
    for side, name in enumerate("AB"):
        needed, there = int(sizes[:, side].sum()), int(rooms[:, side].sum())
        if needed > there:
            raise InfeasibleError(
                Reason.PORTS, f"{needed} ports on side {name} are needed, but {there} are usable"
            )


def _first_fit(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Largest items first, each into the bin with least room in which it fits."""
    left = rooms.copy()
    bins = np.empty(len(sizes), dtype=np.int64)
    for item in np.lexsort((-sizes.min(axis=1), -sizes.max(axis=1))):
        fits = np.flatnonzero((left >= sizes[item]).all(axis=1))
        if not len(fits):
            return None
        chosen = fits[left[fits].sum(axis=1).argmin()]
        bins[item] = chosen
        left[chosen] -= sizes[item]
    return bins


def _by_program(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many items of each size go into each bin, as an integer program."""
    kinds, kind_of, count = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
    kind, at = np.indices((len(kinds), len(rooms))).reshape(2, -1)
    column = np.arange(len(kind))
    at_a = len(kinds) + at
    free = np.full(len(rooms), -np.inf)
    found = least_integers(
        [
            (kind, column, 1.0),
            (at_a, column, kinds[kind, 0]),
            (at_a + len(rooms), column, kinds[kind, 1]),
        ],
        [(count, count), (free, rooms[:, 0]), (free, rooms[:, 1])],
        count[kind],
        doing="packing blocks",
        time_limit_s=TIME_LIMIT_S,
    )
    if found is None:
        raise InfeasibleError(
            Reason.PACKING,
            f"{len(sizes)} blocks, the largest of {sizes.max()} ports a side, fit into no choice "
            f"of {len(rooms)} switches, though all together have ports enough (integer program)",
        )
    bins = np.empty(len(sizes), dtype=np.int64)
    for number, into in enumerate(found[0].reshape(len(kinds), len(rooms))):
        bins[kind_of.ravel() == number] = np.repeat(np.arange(len(rooms)), into)
    return bins


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
        usable = fabric.usable_ports() if fabric.failed_ports else []
        ports = [
            min(map(len, usable[number])) if usable else fabric.switches[number].num_usable
            for number in mine
        ]
        return _Sites(fabric, plane, np.array(mine), np.array(ports))

    @property
    def members(self) -> NDArray[np.bool_]:
        """The hosts that have ports in the plane."""
        return self.fabric.members(self.plane)

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
    if not sites.members.all():
        # Links between hosts that are not in the plane are in others: only its own circuits count.
        needed, circuits_of = needed[sites.members[needed]], plane
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
    for text, (switch, _, _) in fabric.failed_places().items():
        if fabric.switches[switch].plane == plane:
            rule = f"port {text} has failed, and hosts are in the order of the listed states"
            raise InfeasibleError(Reason.PORTS, rule)
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
    if fabric.failed_ports:
        # Ports were counted as if none had failed: the k-th is the k-th that has not.
        usable = fabric.usable_ports()
        ends = ((a_switch, a_port, 0), (b_switch, b_port, 1))
        for switch, port, side in (
            *ends,
            (trunks[:, 0], trunks[:, 1], 1),
            (trunks[:, 2], trunks[:, 3], 0),
        ):
            for at in zip(*np.nonzero(switch >= 0), strict=True):
                port[at] = usable[switch[at]][side][port[at] - 1]
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
    for hosts in (np.flatnonzero(sites.members), needed):
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
    others = np.setdiff1d(np.flatnonzero(sites.members), needed)
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
    idle = np.flatnonzero((site == NOT_CABLED) & sites.members)
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


# Fitting circuits to laid cables: the planes that can carry them, by program if need be.


def can_carry(
    cabling: Cabling, plane: int, a_host: NDArray[np.int32], b_host: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Whether a plane's cables let light from each first host's A strand to the second's B strand.

    In a plane without sides both are A strands. A plane whose loss is over the budget carries none.
    """
    staged = len(trunks_of(cabling, plane)) > 0
    try:
        check_loss(cabling.fabric, plane, 3 if staged else 1)
    except InfeasibleError:
        return np.zeros(len(a_host), dtype=bool)
    sided = cabling.fabric.port_model.has_b_side
    from_switch = cabling.a_switch[a_host, plane]
    to_switch = (cabling.b_switch if sided else cabling.a_switch)[b_host, plane]
    cabled = (from_switch != NOT_CABLED) & (to_switch != NOT_CABLED)
    fits: NDArray[np.bool_] = cabled & (staged | (from_switch == to_switch))
    return fits


def fit_to_cables(cabling: Cabling, planes: Planes, host: NDArray[np.int32]) -> Planes:
    """The circuits in planes whose cables carry them: as they are, else by an integer program.

    Raises InfeasibleError: CABLING with a link that no plane carries or if no choice of planes
    carries all links at once, NOT_FOUND if the program's time is over.
    """
    fits = _fitting(cabling, planes, host)
    everyone = np.arange(planes.num_circuits)
    if planes.num_planes <= cabling.fabric.num_planes and fits[everyone, planes.plane].all():
        return planes
    return _in_fitting_planes(
        planes,
        lambda turned: _fitting(cabling, turned, host),
        [cabling.fabric.hosts[at] for at in host],
        "in no plane do the cables of both lead to one switch or to three stages within the loss "
        "budget",
    )


def fit_to_members(fabric: Fabric, planes: Planes, host: NDArray[np.int32]) -> Planes:
    """The circuits in planes that both ends have ports in; InfeasibleError as ``fit_to_cables``."""
    members = np.stack([fabric.members(plane) for plane in range(fabric.num_planes)], axis=1)
    return _in_fitting_planes(
        planes,
        lambda turned: members[host[turned.a_node]] & members[host[turned.b_node]],
        [fabric.hosts[at] for at in host],
        "there is no plane that both have ports in",
    )


def _in_fitting_planes(
    planes: Planes, fitting: Callable[[Planes], NDArray[np.bool_]], names: list[str], rule: str
) -> Planes:
    """Circuits in planes that carry them, turned where that helps; ``rule`` where there is none."""
    links, allowed = [planes.link], [fitting(planes)]
    if planes.port_model.can_turn:
        two_way = planes.link[:, 1:] != NO_LINK
        turned = replace(planes, link=np.where(two_way, planes.link[:, ::-1], planes.link))
        links.append(turned.link)
        allowed.append(fitting(turned) & two_way)
    lost = np.flatnonzero(~np.any(allowed, axis=(0, 2)))
    if len(lost):
        link = int(planes.link[lost[0], 0])
        tail, head = (names[end[link]] for end in (planes.topology.tail, planes.topology.head))
        raise InfeasibleError(Reason.CABLING, f"link {link} from {tail} to {head}: {rule}")
    return _fit_by_program(planes, links, np.stack(allowed, axis=1))


def _fitting(cabling: Cabling, planes: Planes, host: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether each plane carries each circuit, circuits x planes."""
    ends = host[planes.a_node], host[planes.b_node]
    numbers = range(cabling.fabric.num_planes)
    return np.stack([can_carry(cabling, plane, *ends) for plane in numbers], axis=1)


def _fit_by_program(
    planes: Planes, links: list[NDArray[np.int32]], allowed: NDArray[np.bool_]
) -> Planes:
    """One orientation and plane a circuit, at most one circuit a port and plane."""
    circuit, turn, plane = np.nonzero(allowed)
    link, num_planes = np.stack(links, axis=1)[circuit, turn], allowed.shape[2]
    ports = replace(planes, link=link, plane=plane.astype(np.int32)).ports()
    used, port = np.unique(ports * num_planes + plane[:, None], return_inverse=True)
    port = port.reshape(ports.shape)
    column, once = np.arange(len(circuit)), np.ones(planes.num_circuits)
    found = least_integers(
        [(circuit, column, 1.0), *((len(once) + port[:, at], column, 1.0) for at in (0, 1))],
        [(once, once), (np.full(len(used), -np.inf), np.ones(len(used)))],
        np.ones(len(column)),
        doing="fitting circuits to cables",
    )
    if found is None:
        raise InfeasibleError(
            Reason.CABLING,
            f"no choice of {num_planes} planes carries all {planes.num_circuits} circuits at once "
            f"on these cables (integer program)",
        )
    taken = np.flatnonzero(found[0] == 1)
    return replace(
        planes,
        link=link[taken],
        plane=plane[taken].astype(np.int32),
        num_planes=int(plane[taken].max(initial=-1)) + 1,
    )
