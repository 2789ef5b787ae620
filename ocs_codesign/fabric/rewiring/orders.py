"""The order in which circuits are torn down and made, so that the others join all nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.components import connected, strong_components
from ocs_codesign.fabric.rewiring.state import state_circuits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.fabric.description import PortModel

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
