"""Embedding: a topology on a fabric, as cables, circuits and cross-connects, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.given import as_topology
from ocs_codesign.core.shown import Brief
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.embedding.cables import (
    Partition,
    PlaneCables,
    assembled,
    fit_to_cables,
    fit_to_members,
    lay_in_order,
    lay_plane,
)
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason, least_integers
from ocs_codesign.fabric.planes.models import PlaneLoss, loss_of_planes, most_survivable, planes_of
from ocs_codesign.fabric.planes.planes import (
    Planes,
    PlanesCertificate,
    check_equal_speeds,
    check_ports,
    degree_certificate,
    given_planes,
    plane_numbers,
)
from ocs_codesign.fabric.wiring import configured

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.fabric.description import Fabric, PortModel
    from ocs_codesign.fabric.wiring import Cabling, Configuration


# Links on switches that are in one of listed states, as rotors and gratings are.


def fit_to_states(
    cabling: Cabling, topology: Topology, host: NDArray[np.int32], plane: NDArray[np.int32] | None
) -> Planes:
    """The links in planes whose switches have states that offer them over these cables.

    ``plane`` (one number a link) asks for these planes. Raises InfeasibleError (STATES, NOT_FOUND).
    """
    offers = _offers(cabling, host)
    if plane is None:
        plane = _planes_of_links(topology, offers, _chosen_states(topology, offers))
    else:
        for number in np.unique(plane).tolist():
            mine = plane == number
            part = Topology(topology.num_nodes, topology.tail[mine], topology.head[mine])
            _chosen_states(part, offers.of_plane(number))
    return given_planes(topology, cabling.fabric.port_model, plane)


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Offers:
    """What states offer: offer i is the link from ``tail[i]`` to ``head[i]`` in state ``state[i]``.

    ``switch`` (states) is whose state each is, and a switch is in one state at a time. ``plane``
    (states) is its plane.
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    state: NDArray[np.int64]
    switch: NDArray[np.int64]
    plane: NDArray[np.int64]

    def of_plane(self, number: int) -> _Offers:
        kept = np.flatnonzero(self.plane == number)
        mine = np.isin(self.state, kept)
        state = np.searchsorted(kept, self.state[mine])
        return _Offers(self.tail[mine], self.head[mine], state, self.switch[kept], self.plane[kept])


def _offers(cabling: Cabling, host: NDArray[np.int32]) -> _Offers:
    columns: list[tuple[NDArray[np.int64], ...]] = []
    count = 0
    for number, switch in enumerate(cabling.fabric.switches):
        if switch.states is None:
            raise ValueError(
                f"switch {switch.name} lists no states: a restricted switch needs them"
            )
        node_at = np.full((2, switch.num_ports + 1), -1)
        sides = (cabling.a_switch, cabling.a_port), (cabling.b_switch, cabling.b_port)
        for nodes, (at, port) in zip(node_at, sides, strict=True):
            mine = np.flatnonzero(at[host, switch.plane] == number)
            nodes[port[host[mine], switch.plane]] = mine
        state, a_port = np.nonzero(switch.states)
        tail, head = node_at[0][a_port + 1], node_at[1][switch.states[state, a_port]]
        lit = (tail >= 0) & (head >= 0)
        states = np.ones(len(switch.states), dtype=np.int64)
        columns.append(
            (tail[lit], head[lit], count + state[lit], number * states, switch.plane * states)
        )
        count += len(states)
    return _Offers(*(np.concatenate(column) for column in zip(*columns, strict=True)))


def _chosen_states(topology: Topology, offers: _Offers) -> NDArray[np.int64]:
    """One state a switch (its number, by switch) such that all links of a topology are offered.

    Switches that no link needs are in the state of lowest number. Raises InfeasibleError: STATES
    with the link that is not offered, or if no choice offers all at once; NOT_FOUND.
    """
    pair, column, count = _needed_offers(topology, offers)
    switches, place = np.unique(offers.switch, return_inverse=True)
    states, once = np.arange(len(offers.switch)), np.ones(len(switches))
    found = least_integers(
        [(pair, column, 1.0), (len(count) + place, states, 1.0)],
        [(count, np.full(len(count), np.inf)), (once, once)],
        np.ones(len(states)),
        states / max(len(states), 1),
        doing="choosing switch states",
    )
    if found is None:
        raise InfeasibleError(
            Reason.STATES,
            f"no choice of one state for each of {len(switches)} switches offers all "
            f"{topology.num_links} links at once",
        )
    return np.flatnonzero(found[0] == 1)


def _needed_offers(
    topology: Topology, offers: _Offers
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The offers that links need as (pair of nodes, state), and how many links join each pair."""
    pairs, _, count = _pairs(topology)
    key = offers.tail * topology.num_nodes + offers.head
    wanted = np.isin(key, pairs)
    pair, state = np.searchsorted(pairs, key[wanted]), offers.state[wanted]
    # States of one switch exclude each other, so a switch counts once for a pair.
    once = np.unique(np.stack([pair, offers.switch[state]]), axis=1)
    num_switches = np.bincount(once[0], minlength=len(pairs))
    short = np.flatnonzero(num_switches < count)
    if len(short):
        tail, head = divmod(int(pairs[short[0]]), topology.num_nodes)
        there = int(num_switches[short[0]])
        raise InfeasibleError(
            Reason.STATES,
            f"no state offers a circuit from node {tail} to {head}"
            if not there
            else f"{count[short[0]]} links lead from node {tail} to {head}, but the states of only "
            f"{there} switches offer a circuit there",
        )
    return pair, state, count


def _planes_of_links(
    topology: Topology, offers: _Offers, states: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The plane of every link, parallel ones in the order of their planes, for chosen states."""
    pairs, of_link, _ = _pairs(topology)
    planes: list[list[int]] = [[] for _ in pairs]
    for state in states:
        mine = offers.state == state
        key = offers.tail[mine] * topology.num_nodes + offers.head[mine]
        for number in np.searchsorted(pairs, key[np.isin(key, pairs)]):
            planes[number].append(int(offers.plane[state]))
    taken = [iter(offered) for offered in planes]
    return np.array([next(taken[number]) for number in of_link], dtype=np.int32)


def _pairs(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of nodes that links join (tail * N + head), each link's, and how many each has."""
    key = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    pairs, of_link, count = np.unique(key, return_inverse=True, return_counts=True)
    return pairs, of_link, count


@final
class Prefer(Enum):
    """Which of many factorisations: any, or one that a plane's loss leaves most connected."""

    ANY = "any"
    SURVIVABILITY = "survivability"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Embedding(Brief):
    """A configuration of a fabric that makes a topology, and what is known about its planes.

    ``partition`` says for every plane of the fabric how it is spread over its switches, None if it
    was cabled before or has no cables; ``plane_loss`` is of the planes as they are used.
    """

    configuration: Configuration
    planes: Planes
    partition: tuple[Partition | None, ...]
    plane_loss: PlaneLoss

    @property
    def cabling(self) -> Cabling:
        """The cables that the configuration is made on."""
        return self.configuration.cabling


def embed(
    fabric: Fabric,
    topology: TopologyLike,
    *,
    host: ArrayLike | None = None,
    plane: ArrayLike | Planes | None = None,
    cabling: Cabling | None = None,
    prefer: Prefer | str = Prefer.ANY,
    split_blocks: bool = False,
    name: str = "configuration",
) -> Embedding:
    """Put a topology on a fabric: a plane for every link, a port for every strand, cross-connects.

    ``host`` (N) is the host of every node, by default its own number. ``plane`` (links) fixes the
    plane of every link, for instance to keep circuits that are up, or as Planes also the sides of
    circuits; else the fewest planes are used, and ``prefer`` chooses among them. ``cabling`` fixes
    the cables; else they are laid: a plane on one switch if it is large enough, else block by
    block, else in three stages (see Partition).
    ``split_blocks`` keeps only the ends of single circuits together, which fits any switches with
    ports enough but serves no other factorisation. Raises InfeasibleError with the bound that fails
    (see Reason), ValueError for hosts, planes and cables that are none.
    """
    topology = as_topology(topology)
    hosts = _checked_hosts(fabric, topology, host)
    model, wish = fabric.port_model, _checked_preference(prefer)
    if cabling is not None and cabling.fabric is not fabric:
        raise ValueError("the cabling is of another fabric")
    check_equal_speeds(topology)
    chosen = None if plane is None else _chosen(fabric, topology, model, plane)
    partition: tuple[Partition | None, ...] = (None,) * fabric.num_planes
    left = None
    if model.has_states:
        _check_enough(fabric, degree_certificate(topology, model))
        if cabling is None:
            laid = [lay_in_order(fabric, number, hosts) for number in range(fabric.num_planes)]
            cabling, partition = assembled(fabric, [*laid]), (Partition.LISTED,) * len(laid)
        planes = fit_to_states(cabling, topology, hosts, chosen and chosen.plane_of_link())
    else:
        wanted, fixed = chosen or planes_of(topology, model), chosen is not None
        if wish is Prefer.SURVIVABILITY and not fixed:
            wanted, left = most_survivable(wanted)
        _check_enough(fabric, wanted.at_least)
        if cabling is None and not fixed and any(each is not None for each in fabric.plane_hosts):
            wanted, fixed, left = fit_to_members(fabric, wanted, hosts), True, None
        if cabling is None:
            cabling, partition, planes = _laid(fabric, wanted, hosts, split_blocks, fixed)
        else:
            planes = _fitted(cabling, wanted, hosts, fixed)
            left = left if planes is wanted else None
    if left is None or len(left.num_components) != planes.num_planes:
        left = loss_of_planes(planes)
    return Embedding(configured(name, cabling, planes, hosts), planes, partition, left)


def planes_in(configuration: Configuration) -> Planes:
    """The planes as a configuration uses them."""
    topology = configuration.topology
    model = configuration.cabling.fabric.port_model
    return Planes(
        *(model, topology, configuration.link, configuration.plane),
        int(configuration.plane.max(initial=-1)) + 1,
        degree_certificate(topology, model),
    )


def _checked_preference(prefer: Prefer | str) -> Prefer:
    values = [one.value for one in Prefer]
    if not isinstance(prefer, Prefer) and prefer not in values:
        raise ValueError(f"prefer is {prefer!r}: it must be one of {', '.join(values)}")
    return Prefer(prefer)


def _checked_hosts(fabric: Fabric, topology: Topology, host: ArrayLike | None) -> NDArray[np.int32]:
    nodes, there = topology.num_nodes, len(fabric.hosts)
    if host is None:
        if nodes > fabric.num_working_hosts:
            raise InfeasibleError(
                Reason.HOSTS,
                f"the topology has {nodes} nodes, but the fabric {fabric.num_working_hosts} "
                f"working hosts",
            )
        return np.arange(nodes, dtype=np.int32)
    hosts = np.asarray(host)
    if hosts.shape != (nodes,) or hosts.dtype.kind not in "iu":
        raise ValueError(f"host has shape {hosts.shape}: it must be {nodes} integers, one a node")
    if hosts.min() < 0 or hosts.max() >= there:
        bad = int(hosts[(hosts < 0) | (hosts >= there)][0])
        raise ValueError(f"host names host {bad}: hosts are 0 to {there - 1}")
    number, count = np.unique(hosts, return_counts=True)
    if len(number) < nodes:
        raise ValueError(f"host has host {number[count > 1][0]} twice: a host is one node")
    return hosts.astype(np.int32)


def _chosen(
    fabric: Fabric, topology: Topology, port_model: PortModel, plane: ArrayLike | Planes
) -> Planes:
    if isinstance(plane, Planes):
        if plane.topology != topology or plane.port_model is not port_model:
            raise ValueError(
                f"the planes are of {plane.topology} and port model {plane.port_model.value}, not "
                f"of {topology} and {port_model.value}"
            )
        check_ports(plane)
        plane_numbers(topology, plane.plane_of_link(), fabric.num_planes)
        return plane
    return given_planes(topology, port_model, plane_numbers(topology, plane, fabric.num_planes))


def _check_enough(fabric: Fabric, needed: PlanesCertificate) -> None:
    """Raise InfeasibleError (PLANES) with the proof that there are too few planes."""
    if needed.num_planes > fabric.num_planes:
        raise InfeasibleError(
            Reason.PLANES,
            f"at least {needed.num_planes} planes are needed and there are {fabric.num_planes}: "
            f"{needed.sentence}",
        )


def _laid(
    fabric: Fabric, planes: Planes, host: NDArray[np.int32], split_blocks: bool, fixed: bool
) -> tuple[Cabling, tuple[Partition | None, ...], Planes]:
    """Cables of all planes; each of ``planes`` goes to the next plane of the fabric that fits."""
    if planes.num_planes > fabric.num_planes:
        raise InfeasibleError(
            Reason.NOT_FOUND,
            f"{planes.num_planes} planes were needed and there are {fabric.num_planes}, which is "
            f"not proven to be too few",
        )
    laid: list[PlaneCables | None] = []
    number_of: list[int] = []
    refusals: list[tuple[int, InfeasibleError]] = []
    for number in range(fabric.num_planes):
        # Planes that were chosen by someone stay where they are.
        wanted = number if fixed else len(number_of)
        circuits_of = wanted if split_blocks else None
        try:
            laid.append(lay_plane(fabric, number, planes, host, circuits_of))
            number_of.append(number)
        except InfeasibleError as error:
            laid.append(None)
            refusals.append((number, error))
    usable = number_of[: planes.num_planes]
    needed = set(np.unique(planes.plane).tolist())
    if len(usable) < planes.num_planes or (fixed and not needed <= set(number_of)):
        unusable, why = refusals[0]
        raise InfeasibleError(
            why.reason,
            f"{planes.num_planes} planes are needed, and {len(number_of)} of {fabric.num_planes} "
            f"can be used. Plane {unusable}: {why}",
        )
    if not fixed:
        numbers = np.array(usable, dtype=np.int32)
        last = int(numbers.max(initial=-1)) + 1
        planes = replace(planes, plane=numbers[planes.plane], num_planes=last)
    partition = tuple(None if plane is None else plane.partition for plane in laid)
    return assembled(fabric, laid), partition, planes


def _fitted(cabling: Cabling, planes: Planes, host: NDArray[np.int32], fixed: bool) -> Planes:
    fitting = fit_to_cables(cabling, planes, host)
    if fixed and not np.array_equal(fitting.plane_of_link(), planes.plane_of_link()):
        raise InfeasibleError(
            Reason.CABLING, "the cables do not carry every link in the plane that was chosen"
        )
    return fitting
