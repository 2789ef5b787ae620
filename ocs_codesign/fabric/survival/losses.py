"""Survivability: what every single loss of a plane, switch, circuit or host leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.fabric.survival.remainder import Remainder, remainder, survivors
from ocs_codesign.topology import Symmetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Configuration
    from ocs_codesign.topology import Topology

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
@dataclass(frozen=True, slots=True, eq=False)
class Survivability:
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
    on_progress: Callable[[int, int], None] | None = None,
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
    for number, (kind, (name, lost, node, key)) in enumerate(cases):
        if on_progress is not None:
            on_progress(number, len(cases))
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
