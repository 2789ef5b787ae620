"""Switches split off: links through them become arcs between ranks, each a path with a capacity.

A relay is a node that is no rank. Its links are paired, what comes in with what goes out, so that
ranks alone are left and the optimal rate with them. Pairing everything with everything in even
parts keeps trees low, but may cost rate: it is kept only where it does not. Otherwise links are
paired one by one, as much as no cut minds. Source: Mader's splitting-off; Frank; Bang-Jensen,
Frank and Jackson (1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cuts.dissemination import Dissemination, first_short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_MAX_CAPACITY = 2**40
"""Capacities that even parts may make necessary; beyond, links are paired one by one."""


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

    def path(self, arc: int) -> list[int]:
        """The links of an arc, end to end, without the rounds that it may make."""
        links: list[int] = []
        rest = [arc]
        while rest:
            arc = rest.pop()
            if arc >= self.num_links:
                rest += [int(self.right[arc]), int(self.left[arc])]
                continue
            links.append(arc)
            tails = [int(self.tail[link]) for link in links]
            if self.head[arc] in tails:
                del links[tails.index(int(self.head[arc])) :]
        return links

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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Arcs between ranks in which ``num_trees`` trees a unit of weight fit."""

    arcs: Arcs
    num_trees: int


def split_off(
    problem: Dissemination,
    tail: NDArray[np.integer],
    head: NDArray[np.integer],
    capacity: NDArray[np.int64],
    num_trees: int,
) -> Split:
    """Arcs between the ranks of a problem, whose links are taken one by one with this capacity.

    ``num_trees`` trees a unit of weight must fit, in the sense of cuts, and relays let out what
    they let in.
    """
    links = len(tail)
    none = np.full(links, -1)
    proper = np.where(tail == head, 0, capacity)
    arcs = Arcs(links, tail.astype(np.int64), head.astype(np.int64), proper, none, none)
    split = Split(arcs, num_trees)
    for relays, group in _levels(problem, arcs):
        together: Split | None = split
        for relay in relays:
            together = together and _evenly(together, relay, group)
        if together and _keeps_rate(problem, together):
            split = together
            continue
        for relay in relays:
            even = _evenly(split, relay, group)
            keeps = even is not None and _keeps_rate(problem, even)
            split = even if even and keeps else _one_by_one(problem, split, relay)
    return split


def _levels(problem: Dissemination, arcs: Arcs) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
    """Relays by rising number of neighbours and falling capacity; groups of nodes that are near.

    Nodes are of one group if links lead from one to the other that are faster than those of the
    relays, or relays of earlier levels do.
    """
    neighbours = np.zeros(problem.num_nodes, dtype=np.int64)
    fastest = np.zeros(problem.num_nodes, dtype=np.int64)
    used = arcs.capacity > 0
    ends = np.stack([arcs.tail, arcs.head])[:, used]
    pairs = np.unique(np.sort(ends, axis=0), axis=1)
    for end in (0, 1):
        np.add.at(neighbours, pairs[end], 1)
        np.maximum.at(fastest, ends[end], arcs.capacity[used])
    is_series = neighbours <= 2
    keys: dict[tuple[bool, int, int], list[int]] = {}
    for relay in np.flatnonzero(~problem.is_rank & (neighbours > 0)).tolist():
        key = (not is_series[relay], -int(fastest[relay]), int(neighbours[relay]))
        keys.setdefault(key, []).append(relay)
    done = problem.is_rank.copy()
    for key in sorted(keys):
        near = done[arcs.tail] & done[arcs.head] & used
        yield keys[key], _components(problem.num_nodes, arcs.tail[near], arcs.head[near])
        done[keys[key]] = True


def _components(
    num_nodes: int, tail: NDArray[np.int64], head: NDArray[np.int64]
) -> NDArray[np.int64]:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    matrix = coo_array((np.ones(len(tail)), (tail, head)), shape=(num_nodes, num_nodes))
    labels: NDArray[np.int64] = connected_components(matrix, directed=False)[1].astype(np.int64)
    return labels


def _evenly(split: Split, relay: int, group: NDArray[np.int64]) -> Split | None:
    """What comes in spread over what goes out, by capacity; None if that is more than goes out.

    Between groups it stays in none, within one it does not turn back.
    """
    arcs = split.arcs
    into = np.flatnonzero((arcs.head == relay) & (arcs.capacity > 0))
    out = np.flatnonzero((arcs.tail == relay) & (arcs.capacity > 0))
    if not len(into) or not len(out):
        return split
    source, target = arcs.tail[into][:, None], arcs.head[out][None, :]
    may = group[source] != group[target]
    if not may.any():
        may = source != target
    weight = np.where(may, arcs.capacity[out], 0)
    total = weight.sum(axis=1)
    if not total.all():
        return None
    shares = arcs.capacity[into][:, None] * weight
    parts = total // np.gcd(total, np.gcd.reduce(shares, axis=1))
    scale = lcm(*parts.tolist())
    if scale * int(arcs.capacity.max()) > _MAX_CAPACITY:
        return None
    amount = shares * scale // total[:, None]
    if (amount.sum(axis=0) > scale * arcs.capacity[out]).any():
        return None
    row, column = np.nonzero(amount)
    wider = arcs.with_capacity(arcs.capacity * scale)
    joined = wider.joined(into[row], out[column], amount[row, column])
    return Split(joined, split.num_trees * scale)


def _remaining(problem: Dissemination, split: Split) -> tuple[Dissemination, NDArray[np.int64]]:
    """The problem over the arcs there are, and what every node sends."""
    arcs = split.arcs
    left = Dissemination(problem.is_rank, problem.weight, arcs.tail, arcs.head, arcs.capacity)
    return left, split.num_trees * problem.weight


def _keeps_rate(problem: Dissemination, split: Split) -> bool:
    left, own = _remaining(problem, split)
    ranks = np.flatnonzero(problem.is_rank)
    return first_short(left, ranks, 0, left.capacity, own)[0] == len(ranks)


def _one_by_one(problem: Dissemination, split: Split, relay: int) -> Split:
    """Links into a relay joined to links out of it, as much of each pair as no cut minds."""
    into = np.flatnonzero((split.arcs.head == relay) & (split.arcs.capacity > 0)).tolist()
    out = np.flatnonzero((split.arcs.tail == relay) & (split.arcs.capacity > 0)).tolist()
    for source in into:
        tail = split.arcs.tail[source]
        # From the next one on, so that not all of them begin with the same; back comes last.
        heads = split.arcs.head[out]
        order = np.lexsort([out, heads <= tail, heads == tail])
        for target in [out[at] for at in order]:
            split = _joined_as_far(problem, split, source, target)
    return split


def _joined_as_far(problem: Dissemination, split: Split, source: int, target: int) -> Split:
    """The two arcs joined by the most that leaves the rate as it is."""
    ranks = np.flatnonzero(problem.is_rank)
    arcs = split.arcs
    most = int(min(arcs.capacity[source], arcs.capacity[target]))
    while most > 0:
        pair = (np.array([source]), np.array([target]), np.array([most]))
        joined = Split(arcs.joined(*pair), split.num_trees)
        left, own = _remaining(problem, joined)
        position, outside = first_short(left, ranks, 0, left.capacity, own)
        if position == len(ranks):
            return joined
        before, _ = _remaining(problem, split)
        slack = before.cut(~outside).capacity - int(own[~outside].sum())
        most = min(slack, most - 1)
    return split


def without_common_divisor(split: Split) -> Split:
    """The same with capacities and trees as small as they can be."""
    common = gcd(split.num_trees, *split.arcs.capacity[split.arcs.capacity > 0].tolist())
    smaller = split.arcs.with_capacity(split.arcs.capacity // common)
    return Split(smaller, split.num_trees // common)
