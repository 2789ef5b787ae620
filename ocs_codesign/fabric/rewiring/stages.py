"""Stages of a rewiring: what is torn down and made in which order, and what stays joined."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.components import connected, strong_components
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring.state import checked_state, state_circuits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.fabric.wiring import Configuration


# Proof that links join all nodes, in both directions: a tree out of a node and a tree into it.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Connectivity:
    """Two spanning trees of links: every node is reached from ``root`` and reaches it.

    A link leads from ``before[v]`` to v, and one from v to ``after[v]`` (int32, N; -1 at the root):
    back along the first, and on along the second, every node comes to the root.
    """

    root: int
    before: NDArray[np.int32]
    after: NDArray[np.int32]


def connectivity(
    circuits: NDArray[np.int32], port_model: PortModel, num_nodes: int
) -> Connectivity | None:
    """The trees of circuits (rows: plane, A node, B node), None if some node is cut off.

    >>> ring = np.array([[0, 0, 1], [0, 1, 2], [0, 2, 0]], dtype=np.int32)
    >>> proof = connectivity(ring, PortModel.SIMPLEX, 3)
    >>> proof.before.tolist(), proof.after.tolist()
    ([-1, 0, 1], [-1, 2, 0])
    >>> connectivity(ring[:2], PortModel.SIMPLEX, 3) is None
    True
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order

    tail, head = circuits[:, 1], circuits[:, 2]
    if port_model.is_bidirectional:
        tail, head = np.concatenate([tail, head]), np.concatenate([head, tail])
    trees = []
    for ends in ((tail, head), (head, tail)):
        graph = csr_matrix((np.ones(len(tail)), ends), shape=(num_nodes, num_nodes))
        order, parent = breadth_first_order(graph, 0)
        if len(order) < num_nodes:
            return None
        trees.append(np.maximum(parent, -1).astype(np.int32))
    return Connectivity(0, *trees)


# What a stage leaves to traffic: circuits of the node that has least, and what may not fail.


def circuits_of_node(configuration: Configuration, up: NDArray[np.int32] | None) -> int:
    """Circuits of the node that has fewest: one-way ones that leave it, two-way ones at it.

    ``up`` are circuits as rows (plane, A node, B node); None for all of the configuration.
    """
    topology = configuration.topology
    if up is None:
        link = configuration.link[configuration.link[:, 0] >= 0, 0]
        ends = np.stack([topology.tail[link], topology.head[link]], axis=1)
    else:
        ends = up[:, 1:]
    if not configuration.cabling.fabric.port_model.is_bidirectional:
        ends = ends[:, :1]
    return int(np.bincount(ends.ravel(), minlength=topology.num_nodes).min())


def planes_that_cut(configuration: Configuration, up: NDArray[np.int32]) -> list[int]:
    """The planes without which the circuits that are up do not join all nodes."""
    model = configuration.cabling.fabric.port_model
    nodes = configuration.topology.num_nodes
    planes = np.unique(up[:, 0]).tolist()
    return [p for p in planes if connectivity(up[up[:, 0] != p], model, nodes) is None]


# The order in which circuits are torn down and made, so that the others join all nodes.


MAX_SETS_OF_PLANES = 2**10
"""Sets of planes that are done up to which orders are tried."""
MAX_SEARCHED_DELETES = 12
"""Circuits torn down up to which all orders of them are tried."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Transition:
    """All that has to change: circuits as rows (plane, A node, B node), int32.

    ``kept`` stay, ``old`` go and ``new`` come. With ``plane_stops`` the kept circuits of a plane
    are dark, too, while it changes.
    """

    port_model: PortModel
    num_nodes: int
    kept: NDArray[np.int32]
    old: NDArray[np.int32]
    new: NDArray[np.int32]
    plane_stops: bool

    def changing_planes(self) -> list[int]:
        """Planes in which anything changes."""
        return [int(plane) for plane in np.union1d(self.old[:, 0], self.new[:, 0])]

    def is_joined(self, up: NDArray[np.int32]) -> bool:
        """Whether circuits join all nodes, in both directions."""
        components = connected if self.port_model.is_bidirectional else strong_components
        return not components(up[:, 1], up[:, 2], self.num_nodes).any()

    def up(
        self, old: NDArray[np.bool_], new: NDArray[np.bool_], dark_plane: int | None = None
    ) -> NDArray[np.int32]:
        """The circuits up if these old and new ones are; none of a plane that stops."""
        rows = np.concatenate([self.kept, self.old[old], self.new[new]])
        if self.plane_stops and dark_plane is not None:
            rows = rows[rows[:, 0] != dark_plane]
        return rows

    def ports(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """The port at either end of circuits, rows x 2, numbered over all planes."""
        b_side = self.num_nodes if self.port_model.has_b_side else 0
        first = rows[:, 0].astype(np.int64) * 2 * self.num_nodes
        return np.stack([first + rows[:, 1], first + rows[:, 2] + b_side], axis=1)

    def free_new(self, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """New circuits whose ports no old circuit holds any more."""
        is_held = np.isin(self.ports(self.new), self.ports(self.old[~gone]))
        return np.asarray(~is_held.any(axis=1))


def change_of(
    held: NDArray[np.int32],
    target: NDArray[np.int32],
    port_model: PortModel,
    *,
    plane_stops: bool = False,
) -> Transition:
    """What changes between two states of planes."""
    nodes = held.shape[1]
    before, after = (state_circuits(state, port_model) for state in (held, target))
    stays = held[before[:, 0], before[:, 1]] == target[before[:, 0], before[:, 1]]
    comes = held[after[:, 0], after[:, 1]] != after[:, 2]
    return Transition(port_model, nodes, before[stays], before[~stays], after[comes], plane_stops)


def plane_order(change: Transition) -> tuple[list[int], bool | None]:
    """An order of whole planes during which all nodes stay joined, or as long as they can.

    Also whether they do; None if they do not in this one, but not all orders were tried.
    """
    planes = change.changing_planes()

    def can_go(done: list[int], plane: int) -> bool:
        numbers = [planes[at] for at in done]
        gone, come = np.isin(change.old[:, 0], numbers), np.isin(change.new[:, 0], numbers)
        stays = ~gone & (change.old[:, 0] != planes[plane])
        return change.is_joined(change.up(stays, come, planes[plane]))

    order, verdict = _ordered(len(planes), can_go, MAX_SETS_OF_PLANES)
    rest = [at for at in range(len(planes)) if at not in order]
    return [planes[at] for at in order + rest], verdict


def delete_batches(change: Transition) -> tuple[list[NDArray[np.int64]], bool | None]:
    """Old circuits in batches: all nodes stay joined while each goes, and then new ones come.

    A new circuit comes as soon as its ports are free. Returns the batches and True; else no batches
    and False if it is proven that there are none, None if none were found. Circuits that go one by
    one leave most links up, so that a proof is about these: either none can go at first, or all
    orders were tried.
    """
    batches = _greedy_batches(change)
    if batches is not None:
        return batches, True
    size = len(change.old)

    def can_go(done: list[int], delete: int) -> bool:
        return _can_go(change, np.isin(np.arange(size), done), np.array([delete]))

    order, verdict = _ordered(size, can_go, 2**size if size <= MAX_SEARCHED_DELETES else 1)
    return (_merged(change, order) if verdict else []), verdict


def _ordered(
    size: int, can_go: Callable[[list[int], int], bool], max_sets: int
) -> tuple[list[int], bool | None]:
    """An order of things 0 to ``size`` - 1 each of which can go after those before it.

    Depth first over the sets of those that are gone. Returns the longest order, and whether it has
    all; None if more sets than ``max_sets`` would have to be looked at.
    """
    order: list[int] = []
    longest: list[int] = []
    looked_at, following = {0}, [0]
    while len(longest) < size and following:
        gone = sum(1 << item for item in order)
        item = following[-1]
        following[-1] += 1
        if item == size:
            following.pop()
            order = order[:-1]
        elif not gone >> item & 1 and gone | 1 << item not in looked_at and can_go(order, item):
            looked_at.add(gone | 1 << item)
            order.append(item)
            following.append(0)
            longest = max(longest, order, key=len).copy()
            if len(looked_at) > max_sets:
                return longest, None
    return longest, len(longest) == size


def _can_go(change: Transition, gone: NDArray[np.bool_], batch: NDArray[np.int64]) -> bool:
    stays = ~gone
    stays[batch] = False
    return change.is_joined(change.up(stays, change.free_new(gone)))


def _greedy_batches(change: Transition) -> list[NDArray[np.int64]] | None:
    """The plane with the largest batch goes first, then again; None if nothing can go."""
    gone = np.zeros(len(change.old), dtype=np.bool_)
    batches: list[NDArray[np.int64]] = []
    while not gone.all():
        planes = np.unique(change.old[~gone, 0]).tolist()
        grown = [_grown(change, gone, _by_chain(change, gone, plane)) for plane in planes]
        largest = max(grown, key=len)
        if not len(largest):
            return None
        batches.append(np.sort(largest))
        gone[largest] = True
    return batches


def _by_chain(change: Transition, gone: NDArray[np.bool_], plane: int) -> NDArray[np.int64]:
    """Old circuits of a plane in an order in which those that free a new one are neighbours."""
    left = np.flatnonzero(~gone & (change.old[:, 0] == plane))
    rows = np.concatenate([change.ports(change.old[left]), change.ports(change.new)])
    label = connected(rows[:, 0], rows[:, 1], int(rows.max()) + 1)
    chain = label[rows[: len(left), 0]]
    _, number, count = np.unique(chain, return_inverse=True, return_counts=True)
    return left[np.lexsort((left, chain, count[number]))]


def _grown(
    change: Transition, gone: NDArray[np.bool_], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """As many of the circuits wanted as can go at once: all of them, or halves of them in turn."""
    batch = np.empty(0, dtype=np.int64)
    left = [wanted]
    while left:
        part = left.pop()
        more = np.concatenate([batch, part])
        if _can_go(change, gone, more):
            batch = more
        elif len(part) > 1:
            left += [part[len(part) // 2 :], part[: len(part) // 2]]
    return batch


def _merged(change: Transition, order: list[int]) -> list[NDArray[np.int64]]:
    """Neighbours in an order of single circuits put together, in a plane and where that can go."""
    gone = np.zeros(len(change.old), dtype=np.bool_)
    batches: list[NDArray[np.int64]] = []
    batch: list[int] = []
    for delete in order:
        more = np.array([*batch, delete])
        is_one_plane = len(np.unique(change.old[more, 0])) == 1
        if batch and not (is_one_plane and _can_go(change, gone, more)):
            gone[batch] = True
            batches.append(np.array(batch))
            batch = []
        batch.append(delete)
    return [*batches, np.array(batch)]


Part = tuple["NDArray[np.bool_]", "NDArray[np.bool_]"]
"""Which of the old circuits of a change go in a stage, and which of the new ones come."""


@final
class Service(Enum):
    """Whether all nodes reach each other all the time; the value says it in a sentence."""

    NO_CHANGE = "nothing changes"
    WHOLE_PLANES = "planes change one after the other, and the others join all nodes"
    BATCHES = "no order of whole planes is enough, but smaller batches leave all nodes joined"
    FABRIC_STOPS = "the whole fabric stops for every change"
    NOT_BEFORE = "not all nodes are joined before the change"
    NOT_AFTER = "not all nodes are joined after the change"
    IMPOSSIBLE = "it is proven that no order of these circuits leaves all nodes joined"
    NOT_FOUND = "no order was found that leaves all nodes joined, and none is excluded"

    @property
    def is_hitless(self) -> bool:
        """Whether all nodes stay joined in every stage."""
        return self in (Service.NO_CHANGE, Service.WHOLE_PLANES, Service.BATCHES)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What goes, and then what comes: circuits, or cross-connects where configurations change.

    Circuits are rows (plane, A node, B node), int32; of cross-connects the rows of a configuration
    are given, int64. ``up`` are the circuits that carry traffic all the time, and ``connectivity``
    proves that they join all nodes in both directions (None if they do not). Circuits that come are
    dark for ``dead_time_s``.
    """

    planes: tuple[int, ...]
    delete: NDArray[Any]
    create: NDArray[Any]
    up: NDArray[np.int32]
    connectivity: Connectivity | None
    dead_time_s: Fraction


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """Stages one after the other; ``service`` says whether all nodes stay joined."""

    stages: tuple[Stage, ...]
    service: Service

    @property
    def num_deleted(self) -> int:
        """Circuits or cross-connects that go, in all stages."""
        return sum(len(stage.delete) for stage in self.stages)

    @property
    def num_created(self) -> int:
        """Circuits or cross-connects that come, in all stages."""
        return sum(len(stage.create) for stage in self.stages)

    @property
    def dead_time_s(self) -> Fraction:
        """The dead times of all stages, one after the other."""
        return sum((stage.dead_time_s for stage in self.stages), Fraction(0))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewiringPlan(Staged):
    """Stages that lead from one state of planes (planes x N, -1 for dark) to another."""

    port_model: PortModel
    held: NDArray[np.int32]
    target: NDArray[np.int32]


def staged(
    held: ArrayLike,
    target: ArrayLike,
    cost: Change,
    port_model: PortModel = PortModel.SIMPLEX,
    *,
    plane_stops: bool = False,
) -> RewiringPlan:
    """Stages from ``held`` to ``target`` (planes x N, -1 for dark) that leave all nodes joined.

    A plane goes after the other, in an order during which the circuits that are up join all nodes,
    if there is one. Otherwise circuits of a plane go in smaller batches, as few as are found, and
    new ones come as soon as their ports are free. In every stage deletes come before creates. If
    nothing helps, whole planes change and ``service`` says what is proven. ``plane_stops``: a plane
    is dark as a whole while it changes, so that there are no smaller batches. Dead times are of the
    circuits made, as ``cost`` counts them. Raises ValueError for states that no switch holds.

    >>> from ocs_codesign.circuits.change import Change
    >>> ring, back = [1, 2, 3, 0], [3, 0, 1, 2]
    >>> plan = staged([ring, back], [ring, [2, 3, 0, 1]], Change(0.025))
    >>> plan.service.name, len(plan.stages), plan.dead_time_s
    ('WHOLE_PLANES', 1, Fraction(1, 40))
    """
    before = checked_state(held, port_model)
    after = checked_state(target, port_model, before.shape[1], "target")
    if len(before) != len(after):
        raise ValueError(f"held has {len(before)} planes and target has {len(after)}")
    change = change_of(before, after, port_model, plane_stops=plane_stops)
    parts, service = ordered_parts(change, overlap=cost.overlap)

    def dead_time_s(num_changed: Mapping[int, int]) -> Fraction:
        return cost.dead_time_s(sum(num_changed.values()))

    stages = stages_of(change, parts, dead_time_s, overlap=cost.overlap)
    return RewiringPlan(stages, service, port_model, before, after)


def ordered_parts(
    change: Transition, *, overlap: bool, whole_planes: bool = False
) -> tuple[list[Part], Service]:
    """Which old circuits go and which new ones come in every stage, and whether that is hitless.

    With ``whole_planes`` smaller batches cannot be made.
    """
    every_old, every_new = np.ones(len(change.old), bool), np.ones(len(change.new), bool)
    planes = change.changing_planes()
    if planes and not overlap:
        return [(every_old, every_new)], Service.FABRIC_STOPS
    order, verdict = plane_order(change)
    whole = [(change.old[:, 0] == plane, change.new[:, 0] == plane) for plane in order]
    for service, up in (
        (Service.NOT_BEFORE, change.up(every_old, ~every_new)),
        (Service.NOT_AFTER, change.up(~every_old, every_new)),
    ):
        if not change.is_joined(up):
            return whole, service
    if verdict:
        return whole, Service.WHOLE_PLANES if planes else Service.NO_CHANGE
    if whole_planes:
        return whole, Service.NOT_FOUND
    if not change.plane_stops:
        batches, verdict = delete_batches(change)
        if verdict:
            return _with_creates(change, batches), Service.BATCHES
    return whole, Service.NOT_FOUND if verdict is None else Service.IMPOSSIBLE


def _with_creates(change: Transition, batches: list[NDArray[np.int64]]) -> list[Part]:
    """New circuits go with the batch that frees their ports, those of free ports before all."""
    nothing, gone = np.zeros(len(change.old), bool), np.zeros(len(change.old), bool)
    come = change.free_new(gone)
    planes = np.unique(change.new[come, 0])
    parts = [(nothing, come & (change.new[:, 0] == plane)) for plane in planes]
    for batch in batches:
        deletes = nothing.copy()
        deletes[batch] = True
        gone |= deletes
        free = change.free_new(gone)
        parts.append((deletes, free & ~come))
        come = come | free
    return parts


def stages_of(
    change: Transition,
    parts: list[Part],
    dead_time_s: Callable[[Mapping[int, int]], Fraction],
    *,
    overlap: bool,
) -> tuple[Stage, ...]:
    """The stages in which these parts of a change are made, one after the other.

    ``dead_time_s`` is that of a change of so many circuits of each plane.
    """
    old, new = np.ones(len(change.old), bool), np.zeros(len(change.new), bool)
    stages = []
    for deletes, creates in parts:
        old = old & ~deletes
        planes = np.union1d(change.old[deletes, 0], change.new[creates, 0]).tolist()
        up = change.up(old, new, planes[0])
        if not overlap:
            up = up[:0]
        proof = connectivity(up, change.port_model, change.num_nodes)
        gone, come = change.old[deletes], change.new[creates]
        waits_s = dead_time_s(Counter(come[:, 0].tolist()))
        stages.append(Stage(tuple(planes), gone, come, up, proof, waits_s))
        new = new | creates
    return tuple(stages)
