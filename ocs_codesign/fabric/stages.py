"""Stages of a rewiring: what is torn down and made in which order, and what stays joined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring_batches import (
    MAX_ORDERED_PLANES,
    Change,
    change_of,
    delete_batches,
    plane_order,
)
from ocs_codesign.fabric.rewiring_connectivity import Connectivity, connectivity
from ocs_codesign.fabric.rewiring_state import checked_state

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.reconfigure.change import ReconfigurationCost


Part = tuple["NDArray[np.bool_]", "NDArray[np.bool_]"]
"""Which of the old circuits go in a stage, and which of the new ones come."""


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
    """Circuits that go, and then circuits that come: rows (plane, A node, B node), int32.

    ``up`` are the circuits that carry traffic all the time, and ``connectivity`` proves that they
    join all nodes in both directions (None if they do not). Circuits that come are dark for
    ``dead_time_s``.
    """

    planes: tuple[int, ...]
    deletes: NDArray[np.int32]
    creates: NDArray[np.int32]
    up: NDArray[np.int32]
    connectivity: Connectivity | None
    dead_time_s: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewiringPlan:
    """Stages that lead from one state of planes to another, one after the other.

    ``service`` says whether all nodes stay joined. ``before`` and ``after`` prove that the states
    themselves join all nodes (None if they do not).
    """

    port_model: PortModel
    held: NDArray[np.int32]
    target: NDArray[np.int32]
    stages: tuple[Stage, ...]
    service: Service
    before: Connectivity | None
    after: Connectivity | None

    @property
    def num_deletes(self) -> int:
        """Circuits torn down in all stages."""
        return sum(len(stage.deletes) for stage in self.stages)

    @property
    def num_creates(self) -> int:
        """Circuits made in all stages."""
        return sum(len(stage.creates) for stage in self.stages)

    @property
    def total_dead_time_s(self) -> Fraction:
        """The dead times of all stages, one after the other."""
        return sum((stage.dead_time_s for stage in self.stages), Fraction(0))


def staged(
    held: ArrayLike,
    target: ArrayLike,
    cost: ReconfigurationCost,
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

    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> ring, back = [1, 2, 3, 0], [3, 0, 1, 2]
    >>> plan = staged([ring, back], [ring, [2, 3, 0, 1]], ReconfigurationCost(0.025))
    >>> plan.service.name, len(plan.stages), plan.total_dead_time_s
    ('WHOLE_PLANES', 1, Fraction(1, 40))
    """
    before = checked_state(held, port_model)
    after = checked_state(target, port_model, before.shape[1], "target")
    if len(before) != len(after):
        raise ValueError(f"held has {len(before)} planes and target has {len(after)}")
    change = change_of(before, after, port_model, plane_stops=plane_stops)
    every_old, every_new = np.ones(len(change.old), bool), np.ones(len(change.new), bool)
    joined_before, joined_after = (
        connectivity(up, port_model, change.num_nodes)
        for up in (change.up(every_old, ~every_new), change.up(~every_old, every_new))
    )
    if not cost.overlap and (len(change.old) or len(change.new)):
        parts, service = [(every_old, every_new)], Service.FABRIC_STOPS
    elif joined_before is None or joined_after is None:
        parts = _whole_planes(change, plane_order(change)[0])
        service = Service.NOT_BEFORE if joined_before is None else Service.NOT_AFTER
    else:
        parts, service = _parts(change)
    stages = _stages(change, parts, cost)
    return RewiringPlan(port_model, before, after, stages, service, joined_before, joined_after)


def cross_connect_name(a_node: int, b_node: int, port_model: PortModel) -> str:
    """A cross-connect of a plane with a port a node in order: ``1A-2B`` from node 0 to node 1.

    Without sides the other port is of the same side, ``1A-2A``.
    """
    return f"{a_node + 1}A-{b_node + 1}{'B' if port_model.has_b_side else 'A'}"


def _parts(change: Change) -> tuple[list[Part], Service]:
    """Which old circuits go and which new ones come in every stage."""
    planes = change.changing_planes()
    if not planes:
        return [], Service.NO_CHANGE
    order, is_joined = plane_order(change)
    whole = _whole_planes(change, order)
    if is_joined:
        return whole, Service.WHOLE_PLANES
    if change.plane_stops:
        all_tried = len(planes) <= MAX_ORDERED_PLANES
        return whole, Service.IMPOSSIBLE if all_tried else Service.NOT_FOUND
    batches, verdict = delete_batches(change)
    if verdict:
        return _with_creates(change, batches), Service.BATCHES
    return whole, Service.NOT_FOUND if verdict is None else Service.IMPOSSIBLE


def _whole_planes(change: Change, order: list[int]) -> list[Part]:
    return [(change.old[:, 0] == plane, change.new[:, 0] == plane) for plane in order]


def _with_creates(change: Change, batches: list[NDArray[np.int64]]) -> list[Part]:
    """New circuits go with the batch that frees their ports, those of free ports before all."""
    gone, come = np.zeros(len(change.old), bool), np.zeros(len(change.new), bool)
    parts: list[Part] = []
    free = change.free_new(gone)
    for plane in np.unique(change.new[free, 0]):
        now = free & (change.new[:, 0] == plane)
        parts.append((np.zeros(len(change.old), bool), now))
    come |= free
    for batch in batches:
        deletes = np.zeros(len(change.old), bool)
        deletes[batch] = True
        gone |= deletes
        free = change.free_new(gone)
        parts.append((deletes, free & ~come))
        come |= free
    return parts


def _stages(change: Change, parts: list[Part], cost: ReconfigurationCost) -> tuple[Stage, ...]:
    old, new = np.ones(len(change.old), bool), np.zeros(len(change.new), bool)
    stages = []
    for deletes, creates in parts:
        old = old & ~deletes
        planes = np.union1d(change.old[deletes, 0], change.new[creates, 0])
        up = change.up(old, new, int(planes[0]))
        if not cost.overlap:
            up = up[:0]
        stages.append(
            Stage(
                tuple(int(plane) for plane in planes),
                change.old[deletes],
                change.new[creates],
                up,
                connectivity(up, change.port_model, change.num_nodes),
                cost.dead_time_s(int(np.count_nonzero(creates))),
            )
        )
        new = new | creates
    return tuple(stages)
