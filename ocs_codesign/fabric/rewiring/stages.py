"""Stages of a rewiring: what is torn down and made in which order, and what stays joined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring.connectivity import connectivity
from ocs_codesign.fabric.rewiring.orders import Transition, change_of, delete_batches, plane_order
from ocs_codesign.fabric.rewiring.state import checked_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.fabric.rewiring.connectivity import Connectivity
    from ocs_codesign.reconfigure.change import ReconfigurationCost


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
    >>> plan.service.name, len(plan.stages), plan.dead_time_s
    ('WHOLE_PLANES', 1, Fraction(1, 40))
    """
    before = checked_state(held, port_model)
    after = checked_state(target, port_model, before.shape[1], "target")
    if len(before) != len(after):
        raise ValueError(f"held has {len(before)} planes and target has {len(after)}")
    change = change_of(before, after, port_model, plane_stops=plane_stops)
    parts, service = ordered_parts(change, cost)
    return RewiringPlan(stages_of(change, parts, cost), service, port_model, before, after)


def ordered_parts(
    change: Transition, cost: ReconfigurationCost, *, whole_planes: bool = False
) -> tuple[list[Part], Service]:
    """Which old circuits go and which new ones come in every stage, and whether that is hitless.

    With ``whole_planes`` smaller batches cannot be made.
    """
    every_old, every_new = np.ones(len(change.old), bool), np.ones(len(change.new), bool)
    planes = change.changing_planes()
    if planes and not cost.overlap:
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
    change: Transition, parts: list[Part], cost: ReconfigurationCost
) -> tuple[Stage, ...]:
    """The stages in which these parts of a change are made, one after the other."""
    old, new = np.ones(len(change.old), bool), np.zeros(len(change.new), bool)
    stages = []
    for deletes, creates in parts:
        old = old & ~deletes
        planes = np.union1d(change.old[deletes, 0], change.new[creates, 0]).tolist()
        up = change.up(old, new, planes[0])
        if not cost.overlap:
            up = up[:0]
        proof = connectivity(up, change.port_model, change.num_nodes)
        dead_time_s = cost.dead_time_s(int(np.count_nonzero(creates)))
        gone, come = change.old[deletes], change.new[creates]
        stages.append(Stage(tuple(planes), gone, come, up, proof, dead_time_s))
        new = new | creates
    return tuple(stages)


def slowest_change(
    changes: Iterable[ReconfigurationCost], num_circuits: int
) -> ReconfigurationCost:
    """The one with the longest dead time if so many circuits change."""
    return max(changes, key=lambda cost: cost.dead_time_s(num_circuits))
