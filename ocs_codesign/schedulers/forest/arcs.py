"""Arcs: paths of links with a capacity, joined end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.runs import starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """Paths from ``tail`` to ``head`` (int64) with a ``capacity`` (int64) each.

    An arc below ``num_links`` is a link; others are arc ``left`` and then arc ``right``.
    """

    num_links: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    capacity: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]

    def paths(self, arcs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The links of some arcs, end to end, without the rounds that one may make.

        Those of arc number i are ``links[start[i] : start[i + 1]]`` of what comes: start and links.
        """
        links, owner = arcs, np.arange(len(arcs))
        while (links >= self.num_links).any():
            is_joined = links >= self.num_links
            place = np.cumsum(1 + is_joined) - 1
            rest = np.repeat(links, 1 + is_joined)
            rest[place[is_joined]] = self.right[links[is_joined]]
            rest[place[is_joined] - 1] = self.left[links[is_joined]]
            links, owner = rest, np.repeat(owner, 1 + is_joined)
        num_nodes = int(max(self.tail.max(), self.head.max())) + 1
        visits = np.sort(owner * num_nodes + self.head[links])
        again = np.unique(visits[1:][visits[1:] == visits[:-1]] // num_nodes)
        kept = np.ones(len(links), dtype=bool)
        for which in again.tolist():
            mine = np.flatnonzero(owner == which)
            kept[mine] = _without_rounds(self.tail[links[mine]], self.head[links[mine]])
        return starts_of(np.bincount(owner[kept], minlength=len(arcs))), links[kept]

    def with_capacity(self, capacity: NDArray[np.int64]) -> Arcs:
        """The same paths with other capacities."""
        return Arcs(self.num_links, self.tail, self.head, capacity, self.left, self.right)

    def joined(
        self, left: NDArray[np.int64], right: NDArray[np.int64], capacity: NDArray[np.int64]
    ) -> Arcs:
        """These and arcs that are one and then another; what they carry is no longer theirs."""
        left_over = self.capacity.copy()
        np.subtract.at(left_over, left, capacity)
        np.subtract.at(left_over, right, capacity)
        proper = self.tail[left] != self.head[right]
        left, right, capacity = left[proper], right[proper], capacity[proper]
        return Arcs(
            self.num_links,
            np.concatenate([self.tail, self.tail[left]]),
            np.concatenate([self.head, self.head[right]]),
            np.concatenate([left_over, capacity]),
            np.concatenate([self.left, left]),
            np.concatenate([self.right, right]),
        )


def _without_rounds(tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which links of a walk are left of it without what comes back to where it has been."""
    rest: list[int] = []
    for at, end in enumerate(head.tolist()):
        rest.append(at)
        tails = tail[rest].tolist()
        if end in tails:
            del rest[tails.index(end) :]
    return np.isin(np.arange(len(tail)), rest)
