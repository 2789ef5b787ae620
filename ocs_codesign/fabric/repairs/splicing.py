"""Repair without spares: the circuits of lost hosts joined, so that the others go on with fewer.

A circuit into a lost host and one out of it become one circuit. In place both ends must be in one
switch of one plane, or in a plane of three stages: 2d ports change a host, and nothing else. Where
circuits may move to other planes every way to join them fits crossbars, for more ports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.fabric.embedding.embed import embed, planes_in
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.planes import Planes, circuits_of_links, degree_certificate
from ocs_codesign.fabric.rewiring.configurations import makes_its_topology
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.state import DARK, plane_state
from ocs_codesign.fabric.survival import cost_without
from ocs_codesign.fabric.wiring import trunks_of
from ocs_codesign.graphs.expansions.edits import spliced_topology
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.search.splices import EndBlock, LooseEnds, best_splices, loose_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.wiring import Configuration
    from ocs_codesign.search.splices import Spliced, Splices


@final
class Where(Enum):
    """Which ends may be joined: those that meet in a switch, or any."""

    IN_PLACE = "in-place"
    ANYWHERE = "anywhere"


@final
@dataclass(frozen=True, slots=True, eq=False)
class SpliceChoice:
    """One of ``splices``, and what a collective costs ``before`` and if nothing is joined.

    ``holes``, the latter, is None if nodes are cut off then. All are BFB's exact costs, in units
    of M/B with B the egress of a node before the loss, which those that are left still have.
    """

    splices: Splices
    way: Spliced
    before: Cost
    holes: Cost | None

    @property
    def cost(self) -> Cost:
        """What it costs now."""
        return self.way.cost


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplicedConfiguration:
    """A configuration without lost nodes, whose light was followed, and how it was chosen.

    ``num_made`` and ``num_removed`` count cross-connects.
    """

    configuration: Configuration
    where: Where
    choice: SpliceChoice
    num_removed: int
    num_made: int

    @property
    def num_ports(self) -> int:
        """Ports of switches that lead elsewhere now."""
        return 2 * self.num_made


def chosen(topology: Topology, splices: Splices, way: Spliced) -> SpliceChoice:
    """A way to join ends of a topology, next to what it is compared with."""
    before = measure_topology(topology, splices.collective).cost
    holes = cost_without(topology, splices.ends.gone, splices.collective)
    return SpliceChoice(splices, way, before, holes)


def spliced_configuration(
    configuration: Configuration,
    hosts: Sequence[str],
    collective: Collective | str,
    where: Where | str = Where.IN_PLACE,
    *,
    seed: int = 0,
    most_scored: int | None = None,
) -> SplicedConfiguration:
    """Without these hosts: the joining of their circuits with the least t_b, then fewest steps.

    See ``best_splices`` for what is proven, and ``seed``. ANYWHERE is in place where that
    costs no more. Raises InfeasibleError if the cables allow no joining, or none that leaves all
    nodes joined, ValueError for hosts that are no nodes.
    """
    where = Where(where)
    nodes = lost_nodes(configuration, hosts)
    topology, find = configuration.topology, _ends_anywhere
    if where is Where.IN_PLACE:
        find = ends_in_place
    ends = find(configuration, nodes)
    splices = best_splices(topology, ends, collective, seed=seed, most_scored=most_scored)
    if not splices.found:
        proven = splices.is_exhaustive
        raise InfeasibleError(
            Reason.CABLING if proven else Reason.NOT_FOUND,
            f"none of {splices.num_scored} ways to join the circuits of the lost hosts leaves all "
            f"others joined{'' if proven else ', and not all were tried'}",
        )
    if where is Where.ANYWHERE:
        there = _as_good_in_place(configuration, hosts, splices)
        if there is not None:
            return there
    refusals: list[InfeasibleError] = []
    for way in splices.found:
        try:
            new = _rebuilt(configuration, ends, way, where)
        except InfeasibleError as error:
            refusals.append(error)
            continue
        if not makes_its_topology(new):
            raise RuntimeError("the joined circuits do not make the topology without the hosts")
        changes = _changes(configuration, new)
        return SplicedConfiguration(new, where, chosen(topology, splices, way), *changes)
    raise refusals[0]


def _as_good_in_place(
    configuration: Configuration, hosts: Sequence[str], splices: Splices
) -> SplicedConfiguration | None:
    """The joining in place, chosen among all, if it costs no more than the best of them."""
    try:
        there = spliced_configuration(configuration, hosts, splices.collective, seed=splices.seed)
    except InfeasibleError:
        return None
    mine, best = there.choice.cost, splices.found[0].cost
    if (mine.t_b, mine.steps) > (best.t_b, best.steps):
        return None
    among_all = replace(there.choice.splices, num_possible=splices.num_possible)
    scored = max(splices.num_scored, there.choice.splices.num_scored)
    among_all = replace(among_all, num_scored=scored)
    return replace(there, choice=replace(there.choice, splices=among_all))


def lost_nodes(configuration: Configuration, hosts: Sequence[str]) -> tuple[int, ...]:
    """The nodes of hosts by name; ValueError for unknown hosts, twice the same, or one no node."""
    number = {name: at for at, name in enumerate(configuration.cabling.fabric.hosts)}
    node_of = {host: node for node, host in enumerate(configuration.host.tolist())}
    nodes = []
    for name in hosts:
        if name not in number:
            raise ValueError(f"{name!r} is no host of the fabric")
        if number[name] not in node_of:
            raise ValueError(f"host {name} is no node: nothing is to be joined in its place")
        nodes.append(node_of[number[name]])
    return tuple(sorted(nodes))


def ends_in_place(configuration: Configuration, nodes: Sequence[int]) -> LooseEnds:
    """The loose ends of nodes, in blocks of those that one switch, or one staged plane, can join.

    Raises InfeasibleError with the switch where ends are left over.
    """
    ends = loose_ends(configuration.topology, nodes)
    fabric = configuration.cabling.fabric
    model = fabric.port_model
    if model.has_states:
        raise InfeasibleError(
            Reason.STATES,
            "the switches are in listed states, which join what they list: circuits of lost hosts "
            "cannot be joined in place",
        )
    meeting: dict[int, tuple[list[int], list[int]]] = {}
    circuit, backward = circuits_of_links(configuration.link)
    twin = np.empty(len(ends.into), dtype=np.int64) if model.is_bidirectional else None
    for at, link in enumerate(ends.into.tolist()):
        # The end that stays is at A, unless the link goes the other way round its circuit.
        side = int(backward[link])
        sides = meeting.setdefault(_meeting(configuration, circuit[link], side), ([], []))
        sides[side if model.has_b_side else 0].append(at)
        if twin is not None:
            other = configuration.link[circuit[link], 1 - side]
            twin[at] = int(np.searchsorted(ends.out, other))
    if twin is None:
        for at, link in enumerate(ends.out.tolist()):
            place = _meeting(configuration, circuit[link], 1)
            meeting.setdefault(place, ([], []))[1].append(at)
    made = []
    for place, (left, right) in sorted(meeting.items()):
        block = EndBlock(tuple(left), tuple(right) if model.has_b_side else None)
        if not block.num_joinings():
            raise InfeasibleError(Reason.CABLING, _left_over(configuration, place, block))
        made.append(block)
    return LooseEnds(ends.gone, ends.into, ends.out, tuple(made), twin)


def _meeting(configuration: Configuration, circuit: int, side: int) -> int:
    """The switch at a side of a circuit; below 0 for a plane of three stages."""
    cabling, plane = configuration.cabling, int(configuration.plane[circuit])
    if len(trunks_of(cabling, plane)):
        return -1 - plane
    first = configuration.link[circuit, 0]
    ends = configuration.topology.tail, configuration.topology.head
    host = configuration.host[ends[side][first]]
    sided = cabling.fabric.port_model.has_b_side
    switch = cabling.b_switch if side and sided else cabling.a_switch
    return int(switch[host, plane])


def _left_over(configuration: Configuration, place: int, block: EndBlock) -> str:
    switches = configuration.cabling.fabric.switches
    name = f"plane {-1 - place}" if place < 0 else f"switch {switches[place].name}"
    if block.right is None:
        return (
            f"{len(block.left)} ends are loose in {name}, and it joins ends in pairs: in place one "
            "stays dark"
        )
    return (
        f"{len(block.left)} ends are loose on side A of {name} and {len(block.right)} on side B: "
        "in place not all can be joined"
    )


def _ends_anywhere(configuration: Configuration, nodes: Sequence[int]) -> LooseEnds:
    """Ends that can all be joined, two by two where circuits are two-way."""
    model = configuration.cabling.fabric.port_model
    two_way = model.is_bidirectional
    ends = loose_ends(configuration.topology, nodes, two_way=two_way)
    if not ends.num_joinings():
        raise InfeasibleError(
            Reason.PLANES,
            f"the lost hosts leave {len(ends.into)} ends of two-way circuits loose: of an odd "
            "number one stays dark",
        )
    return ends


def _rebuilt(
    configuration: Configuration, ends: LooseEnds, way: Spliced, where: Where
) -> Configuration:
    """The configuration after a way to join ends, on the hosts that are left."""
    topology = spliced_topology(configuration.topology, ends.gone, way.joined)
    stays = np.isin(np.arange(configuration.topology.num_nodes), ends.gone, invert=True)
    cabling, host = configuration.cabling, configuration.host[stays]
    model = cabling.fabric.port_model
    planes: Planes | None = None
    if where is Where.IN_PLACE:
        planes = _planes_in_place(configuration, topology, ends, way)
    elif not model.has_states:
        state = _state_left(configuration, stays)
        planes = minimum_rewiring(state, topology, model).planes
    return embed(
        *(cabling.fabric, topology),
        host=host,
        plane=planes,
        cabling=cabling,
        name=configuration.name,
    ).configuration


def _planes_in_place(
    configuration: Configuration, topology: Topology, ends: LooseEnds, way: Spliced
) -> Planes:
    """Every circuit where it was; of two that are joined, the one that comes from an A port."""
    old, link = configuration.topology, configuration.link
    stays = np.isin(old.tail, ends.gone, invert=True)
    number = np.cumsum(stays) - 1
    is_lost = np.isin(np.stack([old.tail[link[:, 0]], old.head[link[:, 0]]]), ends.gone)
    whole = ~is_lost.any(axis=0)
    rows = np.where(link[whole] == NO_LINK, NO_LINK, number[link[whole]])
    plane = configuration.plane[whole]
    circuit, backward = circuits_of_links(link)
    of_out = {} if ends.twin is None else {int(out): at for at, out in enumerate(ends.twin)}
    new_rows, new_planes = [], []
    for at, loose in enumerate(ends.into.tolist()):
        back = NO_LINK
        if ends.twin is not None:
            other = of_out[way.joined[at]]
            # A circuit has two directions: it is made once, from its A end.
            has_sides = configuration.cabling.fabric.port_model.has_b_side
            if backward[loose] if has_sides else other < at:
                continue
            back = number[ends.into[other]]
        new_rows.append((number[loose], back))
        new_planes.append(configuration.plane[circuit[loose]])
    rows = np.concatenate([rows, np.array(new_rows, dtype=np.int64).reshape(-1, 2)])
    plane = np.concatenate([plane, np.array(new_planes, dtype=plane.dtype)])
    model = configuration.cabling.fabric.port_model
    return Planes(
        *(model, topology, rows.astype(np.int32), plane.astype(np.int32)),
        int(plane.max()) + 1,
        degree_certificate(topology, model),
    )


def _state_left(configuration: Configuration, stays: NDArray[np.bool_]) -> NDArray[np.int32]:
    """What the planes hold among the nodes that stay."""
    state = plane_state(planes_in(configuration), configuration.cabling.fabric.num_planes)
    return without_nodes(state, stays)


def without_nodes(state: NDArray[np.int32], stays: NDArray[np.bool_]) -> NDArray[np.int32]:
    """A state of planes without nodes (bool, N), whose circuits are dark.

    >>> ring = np.array([[1, 2, 0]], dtype=np.int32)
    >>> without_nodes(ring, np.array([True, False, True])).tolist()
    [[-1, 0]]
    """
    number = np.where(stays, np.cumsum(stays) - 1, DARK)
    left = state[:, stays]
    return np.where(left == DARK, DARK, number[left]).astype(np.int32)


def _changes(old: Configuration, new: Configuration) -> tuple[int, int]:
    """Cross-connects that go, and that come."""
    before, after = (
        {*zip(*(column.tolist() for column in (c.switch, c.a_port, c.b_port)), strict=True)}
        for c in (old, new)
    )
    return len(before - after), len(after - before)
