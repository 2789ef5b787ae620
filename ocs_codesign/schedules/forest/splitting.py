"""Switches split off: links through them become arcs between ranks, each a path with a capacity.

A relay is a node that is no rank. Its links are paired, what comes in with what goes out, so that
ranks alone are left and the optimal rate with them. Pairing everything with everything in even
parts keeps trees low, but may cost rate: it is kept only where it does not. Otherwise links are
paired one by one, as much as no cut minds. Source: Mader's splitting-off; Frank; Bang-Jensen,
Frank and Jackson (1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.cuts import Dissemination, first_short
from ocs_codesign.core.topology import before, starts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    _Spread = Callable[..., tuple[NDArray[np.int64], int] | None]


def short_set(
    problem: Dissemination, capacity: NDArray[Any], own: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """Nodes (bool) that too little leads into where node v sends ``own[v]`` to all ranks.

    Links carry ``capacity``. None if every rank gets everything.
    """
    ranks = np.flatnonzero(problem.is_rank)
    position, inside = first_short(problem, ranks, 0, capacity, own)
    return None if position == len(ranks) else inside


def slack(
    problem: Dissemination, capacity: NDArray[Any], own: NDArray[Any], inside: NDArray[np.bool_]
) -> int:
    """How much more leads into a set of nodes than is sent outside of it."""
    enters = ~inside[problem.tail] & inside[problem.head]
    return int(capacity[enters].sum()) - int(own[~inside].sum())


# Arcs: paths of links with a capacity, joined end to end.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """Paths from ``tail`` to ``head`` with a ``capacity`` each (int64).

    ``num_trees`` trees a unit of weight fit into them. An arc below ``num_links`` is a link; others
    are arc ``left`` and then arc ``right``.
    """

    num_links: int
    num_trees: int
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

    def times(self, factor: int) -> Arcs:
        """The same arcs, so many times as wide for as many times the trees."""
        return replace(self, capacity=self.capacity * factor, num_trees=self.num_trees * factor)

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
            self.num_trees,
            np.append(self.tail, self.tail[left]),
            np.append(self.head, self.head[right]),
            np.append(left_over, capacity),
            np.append(self.left, left),
            np.append(self.right, right),
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


# Even parts: what comes in spread over what goes out, as evenly as whole numbers can be.


MAX_CAPACITY = 2**40
"""Capacities that even parts may make necessary; beyond, links are paired one by one."""


def exact_parts(
    into: NDArray[np.int64],
    out: NDArray[np.int64],
    may: NDArray[np.bool_],
    _from: NDArray[np.int64],
    _to: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int] | None:
    """Every ``into`` over the ``out`` that it ``may`` go to by capacity, times a scale."""
    weight = np.where(may, out, 0)
    total = weight.sum(axis=1)
    if not total.all():
        return None
    shares = into[:, None] * weight
    scale = lcm(*(total // np.gcd(total, np.gcd.reduce(shares, axis=1))).tolist())
    return (shares * scale // total[:, None], scale) if scale <= MAX_CAPACITY else None


def whole_parts(
    into: NDArray[np.int64],
    out: NDArray[np.int64],
    may: NDArray[np.bool_],
    from_kind: NDArray[np.int64],
    to_kind: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int] | None:
    """The same rounded to whole parts, so that not all round up at the same place.

    Everyone deals to the kinds that follow its own, in turn, and begins where the one of its kind
    before it has left off in a round of them all: where all are alike, what comes out is even.
    """
    kinds, of = np.unique(np.concatenate([from_kind, to_kind]), return_inverse=True)
    mine, theirs = of[: len(into)], of[len(into) :]
    order = np.argsort(theirs, kind="stable")
    sorted_kind = theirs[order]
    # Column places turned so that the kind after one's own is the first.
    turn = np.searchsorted(sorted_kind, mine, side="right")
    column = order[(turn[:, None] + np.arange(len(out))) % len(out)]
    weight = np.take_along_axis(np.where(may, out, 0), column, axis=1)
    until = np.cumsum(weight, axis=1)
    total = until[:, -1]
    if not total.all():
        return None
    begin = before(mine, into)
    whole = np.bincount(mine, into, len(kinds)).astype(np.int64)[mine]
    if int(into.max()) * int(total.max()) * int(whole.max()) >= 2**61:
        return None
    line = (into * whole)[:, None] * np.pad(until, [(1, 0), (0, 0)][::-1])
    line = (line + (begin * total)[:, None]) // (total * whole)[:, None]
    amount = np.zeros(may.shape, dtype=np.int64)
    np.put_along_axis(amount, column, np.diff(line, axis=1), axis=1)
    return amount, 1


def split_off(problem: Dissemination, num_trees: int) -> Arcs:
    """Arcs between the ranks of a problem, as narrow as whole numbers can be.

    Its links are taken one by one. ``num_trees`` trees a unit of weight must fit, in the sense of
    cuts, and relays let out what they let in.
    """
    arcs = _links(problem, num_trees)
    for relays, group in _levels(problem.is_rank, arcs):
        arcs = _one_level(problem, arcs, relays, group)
    common = gcd(arcs.num_trees, *arcs.capacity[arcs.capacity > 0].tolist())
    return replace(arcs, capacity=arcs.capacity // common, num_trees=arcs.num_trees // common)


def near_ranks(problem: Dissemination) -> NDArray[np.bool_]:
    """Sets of ranks (rows, bool over nodes) that are nearer to each other than slow relays bring.

    Such are the hosts of a box: trees may do well to enter it just once.
    """
    sets = [np.zeros((0, problem.num_nodes), dtype=bool)]
    for _, group in _levels(problem.is_rank, _links(problem, 0)):
        mine = np.where(problem.is_rank, group, -1)
        labels, sizes = np.unique(mine[problem.is_rank], return_counts=True)
        several = labels[(sizes > 1) & (sizes < problem.is_rank.sum())]
        sets.append(mine == several[:, None])
    return np.unique(np.concatenate(sets), axis=0)


def _links(problem: Dissemination, num_trees: int) -> Arcs:
    tail, head = problem.tail, problem.head
    none = np.full(len(tail), -1)
    proper = np.where(tail == head, 0, problem.capacity)
    return Arcs(len(tail), num_trees, tail, head, proper, none, none)


def _one_level(
    problem: Dissemination, arcs: Arcs, relays: list[int], group: NDArray[np.int64]
) -> Arcs:
    """Relays split off in even parts, whole ones if possible, if these keep the rate."""
    for spread in (whole_parts, exact_parts):
        even = _evenly(arcs, relays, group, spread)
        if even is not None and short_set(*_remaining(problem, even)) is None:
            return even
    if len(relays) == 1:
        return _one_by_one(problem, arcs, relays[0])
    for relay in relays:
        arcs = _one_level(problem, arcs, [relay], group)
    return arcs


def _levels(
    is_rank: NDArray[np.bool_], arcs: Arcs
) -> Iterator[tuple[list[int], NDArray[np.int64]]]:
    """Relays by rising number of neighbours and falling capacity; groups of nodes that are near.

    Nodes are of one group if links lead from one to the other that are faster than those of the
    relays, or relays of earlier levels do.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    neighbours, fastest = np.zeros((2, len(is_rank)), dtype=np.int64)
    used = arcs.capacity > 0
    ends = np.stack([arcs.tail, arcs.head])[:, used]
    pairs = np.unique(np.sort(ends, axis=0), axis=1)
    for end in (0, 1):
        np.add.at(neighbours, pairs[end], 1)
        np.maximum.at(fastest, ends[end], arcs.capacity[used])
    levels: dict[tuple[bool, int, int], list[int]] = {}
    for relay in np.flatnonzero(~is_rank & (neighbours > 0)).tolist():
        key = (bool(neighbours[relay] > 2), -int(fastest[relay]), int(neighbours[relay]))
        levels.setdefault(key, []).append(relay)
    done = is_rank.copy()
    for _, relays in sorted(levels.items()):
        near = done[arcs.tail] & done[arcs.head] & used
        links = (np.ones(near.sum()), (arcs.tail[near], arcs.head[near]))
        graph = coo_array(links, shape=(len(done), len(done)))
        yield relays, connected_components(graph, directed=False)[1].astype(np.int64)
        done[relays] = True


def _evenly(
    arcs: Arcs, relays: list[int], group: NDArray[np.int64], spread: _Spread
) -> Arcs | None:
    """What comes into relays spread over what goes out; None if that is more than goes out.

    Between groups it stays in none, within one it does not turn back.
    """
    pending: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]] = []
    touched: set[int] = set()
    links = _Incidence(arcs, len(group))
    for relay in relays:
        if relay in touched:
            arcs, pending, touched = _joined(arcs, pending), [], set()
            links = _Incidence(arcs, len(group))
        into, out = links.at(relay)
        if not len(into) or not len(out):
            continue
        source, target = arcs.tail[into], arcs.head[out]
        may = group[source][:, None] != group[target]
        kinds = (group[source], group[target])
        if not may.any():
            may, kinds = source[:, None] != target, (source, target)
        # In lumps of all trees of a root, if that goes: a tree then need not be divided.
        widths = (arcs.capacity[into], arcs.capacity[out])
        lump = gcd(arcs.num_trees, *np.concatenate(widths).tolist())
        parts = spread(widths[0] // lump, widths[1] // lump, may, *kinds)
        if parts is None or parts[1] * int(arcs.capacity.max()) > MAX_CAPACITY:
            return None
        amount, scale = parts[0] * lump, parts[1]
        if (amount.sum(axis=0) > scale * arcs.capacity[out]).any():
            return None
        row, column = np.nonzero(amount)
        pending.append((into[row], out[column], amount[row, column], scale))
        touched.update(source.tolist(), target.tolist())
    arcs = _joined(arcs, pending)
    return arcs if int(arcs.capacity.max()) <= MAX_CAPACITY else None


class _Incidence:
    """The arcs into and out of every node that have a capacity."""

    def __init__(self, arcs: Arcs, num_nodes: int) -> None:
        live = np.flatnonzero(arcs.capacity > 0)
        self.by_end = []
        for end in (arcs.head, arcs.tail):
            order = live[np.argsort(end[live], kind="stable")]
            self.by_end.append((order, np.searchsorted(end[order], np.arange(num_nodes + 1))))

    def at(self, node: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Those into a node, and those out of it."""
        into, out = (order[first[node] : first[node + 1]] for order, first in self.by_end)
        return into, out


def _joined(
    arcs: Arcs, parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]]
) -> Arcs:
    """Arcs joined in amounts of which each has its scale."""
    if not parts:
        return arcs
    scale = lcm(*(part[3] for part in parts))
    left, right = (np.concatenate([part[end] for part in parts]) for end in (0, 1))
    amount = np.concatenate([part[2] * (scale // part[3]) for part in parts])
    return arcs.times(scale).joined(left, right, amount)


def _remaining(
    problem: Dissemination, arcs: Arcs
) -> tuple[Dissemination, NDArray[np.int64], NDArray[np.int64]]:
    """The problem over the arcs there are, their capacities, and what every node sends."""
    live = arcs.capacity > 0
    left = replace(
        problem, tail=arcs.tail[live], head=arcs.head[live], capacity=arcs.capacity[live]
    )
    return left, left.capacity, arcs.num_trees * problem.weight


def _one_by_one(problem: Dissemination, arcs: Arcs, relay: int) -> Arcs:
    """Links into a relay joined to links out of it, as much of each pair as no cut minds."""
    into, out = (
        np.flatnonzero((end == relay) & (arcs.capacity > 0)) for end in (arcs.head, arcs.tail)
    )
    for source in into.tolist():
        tail, heads = arcs.tail[source], arcs.head[out]
        # From the next one on, so that not all of them begin with the same; back comes last.
        order = np.lexsort([out, heads <= tail, heads == tail])
        for target in out[order].tolist():
            arcs = _joined_as_far(problem, arcs, source, target)
    return arcs


def _joined_as_far(problem: Dissemination, arcs: Arcs, source: int, target: int) -> Arcs:
    """The two arcs joined by the most that leaves the rate as it is."""
    most = int(min(arcs.capacity[source], arcs.capacity[target]))
    before_it = _remaining(problem, arcs)
    while most > 0:
        joined = arcs.joined(np.array([source]), np.array([target]), np.array([most]))
        short = short_set(*_remaining(problem, joined))
        if short is None:
            return joined
        most = min(slack(*before_it, short), most - 1)
    return arcs


# Up and down: switches below others taken in two, so that nothing that came down goes up again.
#
# Splitting off keeps the rate whatever it joins, and may lead an arc from one leaf over a second to
# a third. Operators forbid such valleys, since they can deadlock, and they fill links for nothing.
# Of a switch in two, the one half takes what hosts send up, the other what comes down from above;
# a turn leads from the first to the second.


def valley_free_arcs(
    problem: Dissemination, num_trees: int, is_host: NDArray[np.bool_]
) -> Arcs | None:
    """Arcs as ``split_off`` makes them, none of which goes up again after it came down.

    None where no switch is below another, or where the rate needs such valleys. How high a switch
    is is the number of links from the nearest host.
    """
    parted = _parted(problem, _height(problem, is_host))
    if parted is None:
        return None
    halves, original, factor = parted
    if short_set(halves, halves.capacity, num_trees * factor * halves.weight) is not None:
        return None
    arcs = split_off(halves, num_trees * factor)
    # A turn begins where it ends now, which is a round that paths leave out.
    return replace(arcs, tail=original[arcs.tail], head=original[arcs.head])


def _height(problem: Dissemination, is_host: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Fewest links from a host to every node."""
    height = np.where(is_host, 0, problem.num_nodes)
    while True:
        higher = height.copy()
        np.minimum.at(higher, problem.head, height[problem.tail] + 1)
        np.minimum.at(higher, problem.tail, height[problem.head] + 1)
        if np.array_equal(higher, height):
            return height
        height = higher


def _parted(
    problem: Dissemination, height: NDArray[np.int64]
) -> tuple[Dissemination, NDArray[np.int64], int] | None:
    """The problem with its switches below others in two, whose node every node is, and a factor.

    So many times as wide are links as they were. None if there are no such switches, or if they
    would let in more than they let out.
    """
    tail, head, nodes = problem.tail, problem.head, problem.num_nodes
    rises, falls = height[tail] < height[head], height[tail] > height[head]
    is_below = np.zeros(nodes, dtype=bool)
    live = problem.capacity > 0
    is_below[tail[rises & live]] = is_below[head[falls & live]] = True
    below = np.flatnonzero(is_below & ~problem.is_rank & (height > 0))
    if not len(below):
        return None
    down = np.arange(nodes)
    down[below] = nodes + np.arange(len(below))
    is_parted = down >= nodes
    # What a switch sends to one as high has been up, unless nothing is above that one.
    beside = ~rises & ~falls & is_parted[tail]
    first = np.where(falls | (beside & ~is_parted[head]), down[tail], tail)
    last = np.where(falls | (beside & is_parted[head]), down[head], head)
    capacity, factor = _within_turns(below, down, first, last, problem.capacity, height)
    size = nodes + len(below)
    turn = _sum_at(last, capacity, size) - _sum_at(first, capacity, size)
    wide = turn[below] > 0
    halves = Dissemination(
        np.append(problem.is_rank, np.zeros(len(below), dtype=bool)),
        np.append(problem.weight, np.zeros(len(below), dtype=np.int64)),
        np.concatenate([first, below[wide]]),
        np.concatenate([last, down[below[wide]]]),
        np.concatenate([capacity, turn[below[wide]]]),
    )
    if surplus(halves, halves.capacity).any() or int(halves.capacity.max()) > MAX_CAPACITY:
        return None
    return halves, np.append(np.arange(nodes), below), factor


def _within_turns(
    below: NDArray[np.int64],
    down: NDArray[np.int64],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    capacity: NDArray[np.int64],
    height: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int]:
    """Capacities by which no switch is wider above than below, and what all are multiplied by."""
    factor = 1
    for level in np.unique(height[below]).tolist():
        mine = below[height[below] == level]
        for half, inner, outer in ((mine, last, first), (down[mine], first, last)):
            size = int(down.max()) + 1
            under, above = (_sum_at(ends, capacity, size)[half] for ends in (inner, outer))
            narrow = under < above
            if not narrow.any():
                continue
            scale = lcm(*(above[narrow] // np.gcd(above, under)[narrow]).tolist())
            if scale * int(capacity.max()) * int(under.max()) > 2**62:
                continue
            share = np.ones((2, size), dtype=np.int64)
            share[:, half[narrow]] = under[narrow], above[narrow]
            capacity = capacity * scale * share[0, outer] // share[1, outer]
            factor *= scale
    return capacity, factor


def _sum_at(
    ends: NDArray[np.int64], capacity: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    """Capacity of the links that have this end at every node."""
    total = np.zeros(num_nodes, dtype=np.int64)
    np.add.at(total, ends, capacity)
    return total


# Whole capacities made balanced at relays again, after rounding, by lowering some of them.
#
# Where as much or more leads into every relay than out, links into one of too much can always be
# lowered: every set of nodes that a link enters with nothing to spare has a rank in common with
# all others of this relay, so one that all of them enter would be served without the relay
# (Frank's uncrossing). Links out of a relay that gets too little must be lowered first, and that
# may fail.


def balanced_within(
    problem: Dissemination, capacity: NDArray[np.int64], own: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Capacities of at most these, in which all ranks get what nodes send (``own``) through relays.

    Relays, the nodes that are no ranks, let out what they let in. None if there are no such
    capacities, or none were found; ``capacity`` itself if it is balanced.
    """
    left = capacity.copy()
    if short_set(problem, left, own) is not None:
        return None
    for sign, ends in ((-1, problem.tail), (1, problem.head)):
        while (wrong := np.flatnonzero(sign * surplus(problem, left) > 0)).size:
            for relay in wrong.tolist():
                excess = int(sign * surplus(problem, left)[relay])
                links = np.flatnonzero((ends == relay) & (left > 0))
                for link in links[np.argsort(-left[links], kind="stable")].tolist():
                    excess -= _lowered(problem, left, own, link, excess)
                if excess > 0:
                    return None
    return left


def surplus(problem: Dissemination, capacity: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much more leads into every relay than out; 0 for ranks."""
    more = np.zeros(problem.num_nodes, dtype=np.int64)
    np.add.at(more, problem.head, capacity)
    np.subtract.at(more, problem.tail, capacity)
    return np.where(problem.is_rank, 0, more)


def _lowered(
    problem: Dissemination,
    capacity: NDArray[np.int64],
    own: NDArray[np.int64],
    link: int,
    most: int,
) -> int:
    """Lower the capacity of a link by as much as no cut minds, at most so much; by how much."""
    lowered = min(most, int(capacity[link]))
    capacity[link] -= lowered
    while lowered and (short := short_set(problem, capacity, own)) is not None:
        lacks = -slack(problem, capacity, own, short)
        capacity[link] += lacks
        lowered -= lacks
    return lowered
