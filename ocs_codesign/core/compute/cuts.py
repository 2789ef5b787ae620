"""Dissemination of what every rank has to all ranks, and the cut that says how fast it can be."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.cut_kernels import CutArcs, Spare, note_tight_sets, sweep
from ocs_codesign.core.compute.kernels import for_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


_MAX_INT64 = 2**62
_ROUNDS_A_LINK = 12
"""Rounds of the sweep a link, about: measured on tori, rings and clusters of 64 to 1,024 ranks."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Dissemination:
    """Every rank r sends ``weight[r]`` units to all other ranks, over links of a capacity each.

    ``is_rank`` (bool, nodes) says who must get everything; other nodes pass it on. ``weight``
    (int64, nodes) is 0 where no rank is. Links (``tail``, ``head`` int64, ``capacity`` int64,
    positive) are parallel ones taken together, without self-loops.
    """

    is_rank: NDArray[np.bool_]
    weight: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    capacity: NDArray[np.int64]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.is_rank)

    @property
    def total_weight(self) -> int:
        """Units of all ranks."""
        return int(self.weight.sum())

    def reversed(self) -> Dissemination:
        """The same in the network whose links lead the other way."""
        return Dissemination(self.is_rank, self.weight, self.head, self.tail, self.capacity)

    def cut(self, side: NDArray[np.bool_]) -> Cut:
        """The cut of a set of nodes, shape (nodes,)."""
        leaves = side[self.tail] & ~side[self.head]
        return Cut(side, int(self.weight[side].sum()), int(self.capacity[leaves].sum()))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A set of nodes that lacks a rank: ``weight`` units inside, links of ``capacity`` leave it.

    All that is inside has to leave, so it takes ``inv_rate`` = weight / capacity a unit at least.
    """

    side: NDArray[np.bool_]
    weight: int
    capacity: int

    @property
    def inv_rate(self) -> Fraction:
        """Time that a unit of every rank takes at least, where a unit of capacity takes one."""
        return Fraction(self.weight, self.capacity)


def dissemination(
    is_rank: NDArray[np.bool_],
    weight: NDArray[np.int64],
    tail: NDArray[np.integer],
    head: NDArray[np.integer],
    capacity: NDArray[np.int64],
) -> Dissemination:
    """The dissemination over these links; parallel ones count as one, self-loops as none."""
    nodes, proper = len(is_rank), tail != head
    pair = tail[proper].astype(np.int64) * nodes + head[proper]
    pairs, of_pair = np.unique(pair, return_inverse=True)
    total = np.zeros(len(pairs), dtype=np.int64)
    np.add.at(total, of_pair, capacity[proper].astype(np.int64))
    return Dissemination(is_rank, weight.astype(np.int64), *np.divmod(pairs, nodes), total)


def allgather_dissemination(topology: Topology) -> Dissemination:
    """An allgather on a topology: a unit of every node, to all."""
    every = np.ones(topology.num_nodes, dtype=np.int64)
    return dissemination(every > 0, every, topology.tail, topology.head, topology.speeds())


def bottleneck(problem: Dissemination) -> Cut:
    """The cut that allows the lowest rate: no schedule is faster.

    Attained, in many pieces, wherever nodes that are no ranks can let out what they let in. Source:
    Edmonds' branchings; the search is Newton's over one sweep of flows to all ranks. Raises
    ValueError if a rank cannot be reached.
    """
    ranks = np.flatnonzero(problem.is_rank)
    if len(ranks) < 2 or not problem.total_weight:
        raise ValueError(
            "nothing is to be sent: there are fewer than two ranks, or all weights are 0"
        )
    cut, begin = _narrowest_rank(problem, ranks), 0
    while True:
        position, outside = _first_short(problem, ranks, begin, cut.inv_rate)
        if position == len(ranks):
            return cut
        cut, begin = problem.cut(~outside), position
        if not cut.capacity:
            raise ValueError(f"rank {ranks[position]} cannot be reached from all others")


def _narrowest_rank(problem: Dissemination, ranks: NDArray[np.int64]) -> Cut:
    """The worst of the cuts around single ranks."""
    into = np.zeros(problem.num_nodes, dtype=np.int64)
    np.add.at(into, problem.head, problem.capacity)
    total = problem.total_weight
    missing = total - problem.weight[ranks]
    for rank in ranks[(into[ranks] == 0) & (missing > 0)].tolist():
        raise ValueError(f"rank {rank} cannot be reached: no link leads to it")
    pairs = np.unique(np.stack([missing, into[ranks]], axis=1)[missing > 0], axis=0)
    lacking, capacity = max(pairs.tolist(), key=lambda pair: Fraction(*pair))
    is_worst = (missing == lacking) & (into[ranks] == capacity)
    side = np.ones(problem.num_nodes, dtype=bool)
    side[ranks[is_worst.argmax()]] = False
    return Cut(side, lacking, capacity)


def _first_short(
    problem: Dissemination, ranks: NDArray[np.int64], begin: int, inv_rate: Fraction
) -> tuple[int, NDArray[np.bool_]]:
    """``first_short`` at a rate, in integers without a common divisor."""
    up, down = inv_rate.numerator, inv_rate.denominator
    common = gcd(up * gcd(*problem.capacity.tolist()), down)
    capacity = scaled(problem.capacity, up, common)
    return first_short(problem, ranks, begin, capacity, scaled(problem.weight, down, common))


def scaled(values: NDArray[Any], up: int, down: int) -> NDArray[Any]:
    """``values * up // down``, as Python's integers where 64 bits may be too few."""
    largest = int(values.max(initial=0)) * up
    return (values if largest < _MAX_INT64 else values.astype(object)) * up // down


def first_short(
    problem: Dissemination,
    ranks: NDArray[np.int64],
    begin: int,
    capacity: NDArray[Any],
    own: NDArray[Any],
) -> tuple[int, NDArray[np.bool_]]:
    """The first position in ``ranks`` that cannot get all that nodes send, and what is cut off.

    Node v sends ``own[v]``, link i carries ``capacity[i]``, integers both. Ranks before ``begin``
    are known to get it. All do: the number of ranks. The set that is cut off has that rank in it
    and none before it: what leads into it is less than what is outside.
    """
    return _swept(sweep, problem, ranks, begin, capacity, own)


def tight_sets(
    problem: Dissemination, ranks: NDArray[np.int64], capacity: NDArray[Any], own: NDArray[Any]
) -> NDArray[np.bool_]:
    """Sets of nodes (rows, bool) into which just so much leads as is outside.

    Of those in which a rank is the first of ``ranks`` it has the smallest, if there is one.
    ``first_short`` must have found that all ranks can get everything.
    """
    is_tight = np.zeros((len(ranks), problem.num_nodes), dtype=bool)
    _swept(note_tight_sets, problem, ranks, 0, capacity, own, is_tight)
    return is_tight


def _swept(
    plain: Callable[..., Any],
    problem: Dissemination,
    ranks: NDArray[np.int64],
    begin: int,
    capacity: NDArray[Any],
    own: NDArray[Any],
    *more: NDArray[Any],
) -> tuple[int, NDArray[np.bool_]]:
    """What a loop of a sweep returns, and the sink's side of the cut it ends with."""
    demand, nodes = int(own.sum()), problem.num_nodes
    is_small = max(2 * float(capacity.sum(dtype=float)), demand) < _MAX_INT64
    first, out, to, room = _arcs(problem, capacity.astype(np.int64 if is_small else object))
    loop = for_work(plain, _ROUNDS_A_LINK * len(to)) if is_small else plain
    arrays = [first, out, to, room, own.astype(room.dtype), ranks]
    spare = [np.zeros(nodes, np.bool_), np.full(nodes, -1), *np.zeros((3, nodes), np.int64)]
    if loop is plain:
        arrays, spare = ([array.tolist() for array in group] for group in (arrays, spare))
    position = loop(CutArcs(*arrays[:4]), *arrays[4:], begin, demand, Spare(*spare), *more)
    return position, np.asarray(spare[1]) >= 0


def _arcs(
    problem: Dissemination, capacity: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Where the arcs out of every node begin, these arcs, the head of every arc, what it takes.

    A pair of arcs, one each way, stands for all links between two nodes.
    """
    nodes, is_back = problem.num_nodes, problem.tail > problem.head
    ends = np.where(is_back, (problem.head, problem.tail), (problem.tail, problem.head))
    pairs, of_pair = np.unique(ends[0] * nodes + ends[1], return_inverse=True)
    room = np.zeros(2 * len(pairs), dtype=capacity.dtype)
    np.add.at(room, 2 * of_pair + is_back, capacity)
    tail, head = np.divmod(pairs, nodes)
    to = np.stack([head, tail], axis=1).ravel()
    tail = np.stack([tail, head], axis=1).ravel()
    out = np.argsort(tail, kind="stable")
    return np.searchsorted(tail[out], np.arange(nodes + 1)), out, to, room
