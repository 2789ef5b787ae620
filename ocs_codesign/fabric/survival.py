"""Survivability: what every single loss of a plane, switch, circuit or host leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.components import strong_components
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import counted
from ocs_codesign.core.shown import Brief
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.schedules.design import measure_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Configuration


# What is left of a topology after a loss, and what collectives cost on it.


@final
@dataclass(frozen=True, slots=True)
class AllToAllTime:
    """All-to-all time of what is left: that of a routing, or None where only bounded; see bound.

    Without a ``time``, ``bound`` is that of hops, ingress and egress; else what the solver proved.
    """

    time: Fraction | None
    bound: Fraction

    @property
    def is_optimal(self) -> bool:
        """Whether the time is proven to be the least."""
        return self.time == self.bound


@final
@dataclass(frozen=True, slots=True)
class Remainder:
    """A topology after a loss: its size, strongly connected components, and costs.

    ``largest_component`` has so many nodes. ``cost`` is exact BFB's on what is left, generated
    anew, and ``alltoall`` the time when messages may split, both in units of M/B of the intact
    topology; these and ``diameter`` are None unless it is strongly connected. A single node has
    nothing to do: no steps and no time.
    """

    num_nodes: int
    num_links: int
    num_components: int
    largest_component: int
    diameter: int | None
    cost: Cost | None
    alltoall: AllToAllTime | None

    @property
    def is_connected(self) -> bool:
        """Whether every node reaches every other one."""
        return self.num_components == 1


def cost_without(
    topology: Topology, nodes: Sequence[int], collective: Collective | str
) -> Cost | None:
    """What BFB costs where nodes are gone and nothing is joined in their place; None if cut off.

    In units of M/B with B the egress of a node of the whole topology.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> cost_without(Complete(5).topology(), [0, 2], "allgather")
    Cost(steps=1, t_b=Fraction(4, 3))
    """
    stays = ~(np.isin(topology.tail, nodes) | np.isin(topology.head, nodes))
    gone = np.sort(np.asarray(nodes))
    tail, head = topology.tail[stays], topology.head[stays]
    speed = None if topology.link_speed is None else topology.link_speed[stays]
    left = Topology(
        topology.num_nodes - len(gone),
        tail - np.searchsorted(gone, tail),
        head - np.searchsorted(gone, head),
        speed,
    )
    if len(np.unique(strong_components(left.tail, left.head, left.num_nodes))) > 1:
        return None
    measured = measure_topology(left, Collective.parse_gathering(collective)).cost
    scale = Fraction(topology.node_speed(), left.node_speed())
    return Cost(measured.steps, measured.t_b * scale)


def survivors(topology: Topology, lost: NDArray[np.bool_], node: int | None) -> Topology:
    """The topology without the lost links (bool, links) and, if given, without a node.

    The nodes after it move up by one. A declared symmetry stays if its orbits are lost as a whole.
    """
    stays = ~lost
    tail, head = topology.tail[stays], topology.head[stays]
    nodes = topology.num_nodes
    if node is not None:
        tail, head, nodes = tail - (tail > node), head - (head > node), nodes - 1
    speed = None if topology.link_speed is None else topology.link_speed[stays]
    symmetry = _left_of(topology.symmetry, lost) if node is None else None
    return Topology(nodes, tail, head, speed, symmetry)


def _left_of(symmetry: Symmetry | None, lost: NDArray[np.bool_]) -> Symmetry | None:
    """The symmetry of the links that stay, None if the loss cuts an orbit in two."""
    if symmetry is None or np.isin(symmetry.link_orbit[lost], symmetry.link_orbit[~lost]).any():
        return None
    orbit = np.unique(symmetry.link_orbit[~lost], return_inverse=True)[1]
    return Symmetry(symmetry.node_orbit.copy(), orbit.reshape(-1).astype(np.int32))


def remainder(
    topology: Topology, node_speed: int, collective: Collective, max_columns: int
) -> Remainder:
    """What collectives cost on what is left, with B the egress ``node_speed`` of a node."""
    nodes, links = topology.num_nodes, topology.num_links
    sizes = np.bincount(strong_components(topology.tail, topology.head, nodes))
    diameter, cost, alltoall = None, None, None
    if nodes == 1:
        nothing = Fraction(0)
        diameter, cost, alltoall = 0, Cost(0, nothing), AllToAllTime(nothing, nothing)
    elif len(sizes) == 1:
        diameter = topology.diameter()
        scale = Fraction(node_speed, topology.node_speed())
        measured = measure_topology(topology, collective).cost
        cost = Cost(measured.steps, measured.t_b * scale)
        alltoall = _alltoall(topology, diameter, scale, max_columns)
    return Remainder(nodes, links, len(sizes), int(sizes.max()), diameter, cost, alltoall)


def _alltoall(topology: Topology, diameter: int, scale: Fraction, max_columns: int) -> AllToAllTime:
    from ocs_codesign.schedules.paths.throughput import columns_to_solve, throughput

    if columns_to_solve(topology) > max_columns:
        bound = topology_bound(topology, Collective.ALLTOALL, diameter).t_b
        return AllToAllTime(None, bound * scale)
    routed = throughput(topology)
    return AllToAllTime(routed.time * scale, routed.bound * scale)


MAX_COLUMNS = 2_000
"""Columns up to which the all-to-all program of what is left is solved; beyond, it is bounded."""


@final
class LossKind(Enum):
    """What is lost: a plane, a switch, a circuit (both of its directions), or a host."""

    PLANE = "plane"
    SWITCH = "switch"
    LINK = "link"
    HOST = "host"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """One loss: its kind, the name of what is lost, how many links go with it, and what is left."""

    kind: LossKind
    name: str
    num_lost_links: int
    left: Remainder


@final
@dataclass(frozen=True, slots=True, eq=False)
class Worst:
    """The losses of one kind in short.

    ``loss`` is the first of those that leave most components, of these the smallest largest
    component, then the largest t_b, then the most steps; ``num_alike`` losses leave as much.
    """

    num_losses: int
    num_connected: int
    loss: Loss
    num_alike: int


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Survivability(Brief):
    """A configuration as it is (``intact``) and after every single loss, in order of kinds.

    Times are in units of M/B with B the whole egress of a node of the intact topology, so that a
    lost port is lost bandwidth. ``num_measured`` losses were measured; the others are equal to one
    of them: they lose the same links, or the topology's declared symmetry moves one to the other.
    """

    configuration: Configuration
    collective: Collective
    intact: Remainder
    losses: tuple[Loss, ...]
    num_measured: int

    def worst(self) -> tuple[Worst, ...]:
        """The worst loss of every kind that there is."""
        worst = []
        for kind in LossKind:
            losses = [loss for loss in self.losses if loss.kind is kind]
            if not losses:
                continue
            ranks = [_badness(loss.left) for loss in losses]
            most = max(ranks)
            connected = sum(loss.left.is_connected for loss in losses)
            first = losses[ranks.index(most)]
            worst.append(Worst(len(losses), connected, first, ranks.count(most)))
        return tuple(worst)


def survivability(
    configuration: Configuration,
    kinds: Iterable[LossKind | str] = tuple(LossKind),
    collective: Collective | str = Collective.ALLGATHER,
    *,
    max_columns: int = MAX_COLUMNS,
) -> Survivability:
    """What every single loss of these kinds leaves: components, exact BFB cost and all-to-all time.

    Nothing is rewired: the circuits that stay up make the topology that is left, and BFB is
    generated anew on it. A host takes its links along, a switch all circuits that cross it. Only
    planes in use, switches and hosts of this configuration count. ``max_columns`` limits the
    all-to-all programs that are solved, -1 for none (see Remainder). Raises ValueError for no or
    unknown kinds, a collective that is not gathering, and topologies of one node.
    """
    gathering = Collective.parse_gathering(collective)
    wanted = _checked(kinds)
    topology = configuration.topology
    if topology.num_nodes < 2:
        raise ValueError("the topology has one node: it takes two to lose one")
    unit = topology.node_speed()
    whole = survivors(topology, np.zeros(topology.num_links, dtype=bool), None)
    intact = remainder(whole, unit, gathering, max_columns)
    cases = [(kind, case) for kind in wanted for case in _cases(configuration, kind)]
    known: dict[object, Remainder] = {b"": intact}
    losses = []
    for kind, (name, lost, node, key) in counted(cases):
        if key not in known:
            known[key] = remainder(survivors(topology, lost, node), unit, gathering, max_columns)
        losses.append(Loss(kind, name, int(np.count_nonzero(lost)), known[key]))
    return Survivability(configuration, gathering, intact, tuple(losses), len(known) - 1)


_Case: TypeAlias = "tuple[str, NDArray[np.bool_], int | None, object]"
"""The name, links and node of a loss, and a key: those of one leave isomorphic topologies."""


def _checked(kinds: Iterable[LossKind | str]) -> tuple[LossKind, ...]:
    given, values = list(kinds), [kind.value for kind in LossKind]
    for kind in given:
        if not isinstance(kind, LossKind) and kind not in values:
            raise ValueError(f"the kind of loss is {kind!r}: it must be one of {', '.join(values)}")
    if not given:
        raise ValueError(f"no kind of loss is given: there are {', '.join(values)}")
    chosen = {LossKind(kind) for kind in given}
    return tuple(kind for kind in LossKind if kind in chosen)


def _cases(configuration: Configuration, kind: LossKind) -> Iterator[_Case]:
    if kind is LossKind.HOST:
        yield from _hosts(configuration)
    elif kind is LossKind.LINK:
        yield from _circuits(configuration)
    elif kind is LossKind.PLANE:
        for plane in np.unique(configuration.plane).tolist():
            lost = _links(configuration, configuration.plane == plane)
            yield f"plane {plane}", lost, None, lost.tobytes() * bool(lost.any())
    else:
        for number, switch in enumerate(configuration.cabling.fabric.switches):
            crossing = configuration.circuit[configuration.switch == number]
            lost = _links(configuration, crossing)
            yield switch.name, lost, None, lost.tobytes() * bool(lost.any())


def _links(configuration: Configuration, circuits: NDArray[Any]) -> NDArray[np.bool_]:
    carries = np.zeros(configuration.topology.num_links, dtype=bool)
    carried = configuration.link[circuits]
    carries[carried[carried >= 0]] = True
    return carries


def _circuits(configuration: Configuration) -> Iterator[_Case]:
    """Circuits, equal where the symmetry moves one to another.

    The group acts freely, so that a link is moved to another of its orbit by one element only, and
    this moves the link back to that of the other circuit if it is in the same orbit.
    """
    topology, hosts = configuration.topology, configuration.cabling.fabric.hosts
    orbit = _symmetry(topology).link_orbit
    for circuit, (first, _) in enumerate(configuration.link.tolist()):
        lost = _links(configuration, np.array([circuit]))
        tail, head = (configuration.host[end[first]] for end in (topology.tail, topology.head))
        name = f"{hosts[tail]} to {hosts[head]} in plane {configuration.plane[circuit]}"
        key = (LossKind.LINK, *np.sort(orbit[lost]).tolist())
        yield name, lost, None, key


def _hosts(configuration: Configuration) -> Iterator[_Case]:
    topology, hosts = configuration.topology, configuration.cabling.fabric.hosts
    orbit = _symmetry(topology).node_orbit
    for node, host in enumerate(configuration.host.tolist()):
        lost = (topology.tail == node) | (topology.head == node)
        yield hosts[host], lost, node, (LossKind.HOST, int(orbit[node]))


def _symmetry(topology: Topology) -> Symmetry:
    if topology.symmetry is not None:
        return topology.symmetry
    numbers = (topology.num_nodes, topology.num_links)
    return Symmetry(*(np.arange(number, dtype=np.int32) for number in numbers))


def _badness(left: Remainder) -> tuple[int, int, Fraction, int]:
    t_b, steps = (Fraction(0), 0) if left.cost is None else (left.cost.t_b, left.cost.steps)
    return left.num_components, -left.largest_component, t_b, steps
