"""Allgathers on N ranks: straight, around a ring, and by doubling what ranks hold.

Sources: R. Thakur, R. Rabenseifner, W. Gropp (2005), Optimization of collective communication
operations in MPICH; J. Bruck and others (1997) for ``bruck``; S. Jeaugey (2025) and NCCL for
``pat``; D. De Sensi and others (NSDI 2024) for ``swing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedules.classic.steps import Pattern, Step, ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ocs_codesign.schedules.classic.steps import Ints


# Who swaps with whom: along the axes of a hypercube, and by the distances of Swing.


def xor_partners(num_ranks: int, bit: int) -> Ints:
    """The rank that differs in one bit, of every rank."""
    return np.arange(num_ranks) ^ (1 << bit)


def swing_partners(num_ranks: int, sigma: int) -> Ints:
    """The rank 1, -1, 3, -5, 11, .. further for sigma = 0, 1, .., as much back for odd ranks.

    >>> swing_partners(8, 2).tolist()
    [3, 6, 5, 0, 7, 2, 1, 4]
    """
    rank = np.arange(num_ranks)
    distance = (1 - (-2) ** (sigma + 1)) // 3
    partner: Ints = (rank + np.where(rank % 2 == 0, distance, -distance)) % num_ranks
    return partner


def doublings(
    num_ranks: int, partners: Iterable[Ints], *, parts: int = 1, part: int = 0
) -> Pattern:
    """An allgather in which every rank swaps all that it holds with one partner after the other.

    Of ``parts`` equal parts of a shard it moves the one numbered ``part``.
    """
    rank = np.arange(num_ranks)
    held, steps = rank[:, None], []
    for partner in partners:
        steps.append(Step(rank[:, None], partner[:, None], held * parts + part))
        held = np.hstack([held, held[partner]])
    return Pattern(num_ranks * parts, steps)


def direct(num_ranks: int) -> Pattern:
    """Every shard straight to every rank, in one step."""
    rank = ranks(num_ranks)
    return Pattern(num_ranks, [Step(rank, (rank + np.arange(1, num_ranks)) % num_ranks, rank)])


def shift(num_ranks: int) -> Pattern:
    """Every shard straight to every rank, at step s to the rank s further."""
    rank = ranks(num_ranks)
    steps = [Step(rank, (rank + s) % num_ranks, rank) for s in range(1, num_ranks)]
    return Pattern(num_ranks, steps)


def ring(num_ranks: int) -> Pattern:
    """Every rank passes on to the next what it got in the step before.

    >>> [step.item.ravel().tolist() for step in ring(3).steps]
    [[0, 1, 2], [2, 0, 1]]
    """
    rank = ranks(num_ranks)
    steps = [
        Step(rank, (rank + 1) % num_ranks, (rank - s + 1) % num_ranks) for s in range(1, num_ranks)
    ]
    return Pattern(num_ranks, steps)


def ring_reduce_scatter(num_ranks: int) -> Pattern:
    """Partial sums round the ring, to the next rank as well; the last comes home."""
    rank = ranks(num_ranks)
    steps = [
        Step(rank, (rank + 1) % num_ranks, (rank - s) % num_ranks, adds=True)
        for s in range(1, num_ranks)
    ]
    return Pattern(num_ranks, steps)


def ring_halves(num_ranks: int) -> Pattern:
    """Half of every shard goes round one way, half the other."""
    rank, way = ranks(num_ranks), np.array([1, -1])
    steps = [
        Step(
            rank, (rank + way) % num_ranks, 2 * ((rank - way * (s - 1)) % num_ranks) + np.arange(2)
        )
        for s in range(1, num_ranks)
    ]
    return Pattern(2 * num_ranks, steps)


def ring_outward(num_ranks: int) -> Pattern:
    """Shards travel both ways at once; the one opposite gets a half from either side."""
    rank, way = np.arange(num_ranks)[:, None, None], np.array([1, -1])[:, None]
    steps = []
    for s in range(1, num_ranks // 2 + 1):
        halves = np.arange(2)[:, None] if 2 * s == num_ranks else np.arange(2)
        shard = (rank - way * (s - 1)) % num_ranks
        steps.append(Step(rank, (rank + way) % num_ranks, 2 * shard + halves))
    return Pattern(2 * num_ranks, steps)


def neighbour_exchange(num_ranks: int) -> Pattern:
    """Neighbours in a ring swap with the one side and the other in turn, two shards from step 2.

    >>> [step.item[0].tolist() for step in neighbour_exchange(6).steps]
    [[0], [0, 1], [5, 4]]
    """
    rank = ranks(num_ranks)
    moved, steps = rank, []
    for s in range(num_ranks // 2):
        partner = (rank + np.where((rank + s) % 2 == 0, 1, -1)) % num_ranks
        steps.append(Step(rank, partner, moved))
        moved = np.hstack([rank, moved[partner[:, 0]]]) if s == 0 else moved[partner[:, 0]]
    return Pattern(num_ranks, steps)


def recursive_doubling(num_ranks: int, first: str = "far") -> Pattern:
    """All that is held is swapped along the axes of a hypercube, the near or the far one first.

    >>> [step.item[0].tolist() for step in recursive_doubling(8, "near").steps]
    [[0], [0, 1], [0, 1, 2, 3]]
    """
    return doublings(num_ranks, [xor_partners(num_ranks, bit) for bit in _order(num_ranks, first)])


def swing(num_ranks: int, first: str = "far") -> Pattern:
    """Doubling with partners at distances 1, 1, 3, 5, 11, .. instead of 1, 2, 4, 8, 16, ..."""
    order = _order(num_ranks, first)
    return doublings(num_ranks, [swing_partners(num_ranks, sigma) for sigma in order])


def _order(num_ranks: int, first: str) -> range:
    """The exchanges of a doubling by number, where 0 is the nearest."""
    if first not in ("near", "far"):
        raise ValueError(f"first is {first!r}: it must be near or far")
    bits = num_ranks.bit_length() - 1
    return range(bits) if first == "near" else range(bits - 1, -1, -1)


def bruck(num_ranks: int, radix: int = 2) -> Pattern:
    """Ranks hold h shards in a row and send them to r - 1 ranks before; then they hold r h.

    >>> [step.item[0].tolist() for step in bruck(6).steps]
    [[0], [0, 1], [0, 1]]
    """
    check_radix(radix)
    rank, held, steps = ranks(num_ranks), 1, []
    while held < num_ranks:
        jump, offset = _jumps(num_ranks, held, radix)
        steps.append(Step(rank, (rank - jump) % num_ranks, (rank + offset) % num_ranks))
        held *= radix
    return Pattern(num_ranks, steps)


def check_radix(radix: int) -> None:
    """ValueError for a base that is none."""
    if radix < 2:
        raise ValueError(f"radix is {radix}: it is at least 2")


def _jumps(num_ranks: int, held: int, radix: int) -> tuple[Ints, Ints]:
    """How far, and the how-manieth shard of a row of ``held``, in a step of radix r."""
    far = range(held, min(radix * held, num_ranks), held)
    pairs = [(jump, shard) for jump in far for shard in range(min(held, num_ranks - jump))]
    jump, shard = np.array(pairs).T
    return jump, shard


def pat(num_ranks: int, aggregation: int | None = None) -> Pattern:
    """Shards come down a tree of offsets from far to near, as many subtrees at a time as A.

    Of P = 2^k >= N ranks A trees are opened in log2 A steps, then walked side by side, depth first:
    A = 1 sends a shard a step, the default A = P / 2 doubles what it sends from step to step.

    >>> [step.item[0].tolist() for step in pat(8, 2).steps]
    [[4], [2, 6], [3, 7], [1, 5]]
    """
    whole = 1 << (num_ranks - 1).bit_length()
    trees = max(1, whole // 2) if aggregation is None else aggregation
    if trees < 1 or trees & (trees - 1) or trees > max(1, whole // 2):
        raise ValueError(
            f"aggregation is {trees}: for {num_ranks} ranks it is a power of two, "
            f"at most {max(1, whole // 2)}"
        )
    depth = whole // trees
    opening = [
        np.arange(width * depth, whole, 2 * width * depth)
        for width in (trees >> level for level in range(1, trees.bit_length()))
    ]
    walk = [np.arange(offset, whole, depth) for offset in _preorder(0, depth)]
    target, steps = ranks(num_ranks), []
    for offsets in opening + walk:
        offset = offsets[offsets < num_ranks]
        low = offset & -offset
        steps.append(Step((target + low) % num_ranks, target, (target + offset) % num_ranks))
    return Pattern(num_ranks, steps)


def _preorder(root: int, size: int) -> Iterator[int]:
    """The offsets above a root in a binomial tree of so many, far children first."""
    while size > 1:
        size //= 2
        yield root + size
        yield from _preorder(root + size, size)


# Allreduces by swaps with partners: of the whole vector, and by halving and doubling.
#
# They are made for p = 2^floor(log2 N) ranks. Where N is more, the first 2 (N - p) ranks are
# folded in pairs: the even one gives all that it has to the odd one, sits out, and gets the
# result at the end. Sources: Thakur, Rabenseifner, Gropp (2005); MPICH; De Sensi and others,
# Swing (NSDI 2024).


def recursive_doubling_full(num_ranks: int) -> Pattern:
    """The whole vector is swapped along the axes of a hypercube, the near one first."""
    return _folded(num_ranks, lambda power: _whole_vector(power, xor_partners))


def swing_full(num_ranks: int) -> Pattern:
    """The whole vector is swapped with the partners of Swing, near ones first."""
    return _folded(num_ranks, lambda power: _whole_vector(power, swing_partners))


def swing_folded(num_ranks: int, first: str = "far") -> Pattern:
    """Swing's allgather turned round, then the allgather."""
    return _folded(num_ranks, lambda power: _there_and_back(swing(power, first)))


def rabenseifner(num_ranks: int) -> Pattern:
    """Of p blocks half as many are summed in every step, the near partner first; then copied back.

    >>> [step.num_sends for step in rabenseifner(6).steps]
    [8, 8, 4, 4, 8, 8]
    """
    return _folded(num_ranks, lambda power: _there_and_back(recursive_doubling(power)))


def _there_and_back(allgather: Pattern) -> Pattern:
    return allgather.reversed().then(allgather)


def _whole_vector(num_ranks: int, partners: Callable[[int, int], Ints]) -> Pattern:
    rank = np.arange(num_ranks)
    steps = [
        Step(rank, partners(num_ranks, number), np.zeros_like(rank), adds=True)
        for number in range(num_ranks.bit_length() - 1)
    ]
    return Pattern(1, steps)


def _folded(num_ranks: int, allreduce: Callable[[int], Pattern]) -> Pattern:
    """The allreduce of p ranks by those of N that take part, and what the others need."""
    power = 1 << (num_ranks.bit_length() - 1)
    rest = num_ranks - power
    even = 2 * np.arange(rest)[:, None]
    rank = np.concatenate([even[:, 0] + 1, np.arange(2 * rest, num_ranks)])
    inner = allreduce(power)
    items = np.arange(inner.num_items)
    steps = [
        Step(rank[step.source], rank[step.target], step.item, step.adds) for step in inner.steps
    ]
    fold, unfold = Step(even, even + 1, items, adds=True), Step(even + 1, even, items)
    return Pattern(inner.num_items, [fold, *steps, unfold])
