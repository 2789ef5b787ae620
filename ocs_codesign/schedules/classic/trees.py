"""Broadcasts down trees and chains, and allreduces up one tree and down again.

Sources: MPICH and NCCL; P. Sanders, J. Speck, J. Traeff (2009), Two-tree algorithms for full
bandwidth broadcast, reduction and scan; D. De Sensi and others (SC 2025) for the Bine tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedules.classic.gathering import ring, ring_reduce_scatter
from ocs_codesign.schedules.classic.steps import Pattern, Step, check_sends

if TYPE_CHECKING:
    from ocs_codesign.schedules.classic.steps import Ints


ONE_ITEM = np.zeros(1, dtype=np.int64)


def linear(num_ranks: int, root: int = 0) -> Pattern:
    """The root sends to one rank after the other."""
    _check_root(num_ranks, root)
    steps = [
        Step(ONE_ITEM + root, ONE_ITEM + (root + v) % num_ranks, ONE_ITEM)
        for v in range(1, num_ranks)
    ]
    return Pattern(1, steps)


def binomial(num_ranks: int, root: int = 0) -> Pattern:
    """Who has it sends it on, the far half of its part of the ranks first.

    >>> [(step.source.tolist(), step.target.tolist()) for step in binomial(6).steps]
    [([0], [4]), ([0], [2]), ([0, 2, 4], [1, 3, 5])]
    """
    _check_root(num_ranks, root)
    steps = []
    for jump in _jumps(num_ranks):
        sender = np.arange(0, num_ranks - jump, 2 * jump)
        source, target = (sender + root) % num_ranks, (sender + jump + root) % num_ranks
        steps.append(Step(source, target, ONE_ITEM))
    return Pattern(1, steps)


def _jumps(num_ranks: int) -> list[int]:
    """Distances in a binomial tree: powers of two below N, the largest first."""
    return [1 << bit for bit in reversed(range((num_ranks - 1).bit_length()))]


def bine(num_ranks: int, root: int = 0) -> Pattern:
    """A binomial tree of near partners: labels are in base -2, and a step flips the last digits.

    >>> [(step.source.tolist(), step.target.tolist()) for step in bine(8).steps]
    [([0], [3]), ([0, 3], [7, 4]), ([0, 3, 4, 7], [1, 2, 5, 6])]
    """
    _check_root(num_ranks, root)
    label = _negabinary(num_ranks)
    rank_of = np.argsort(label)
    holders, steps = np.array([0]), []
    for digits in reversed(range(1, num_ranks.bit_length())):
        target = rank_of[label[holders] ^ ((1 << digits) - 1)]
        steps.append(Step((holders + root) % num_ranks, (target + root) % num_ranks, ONE_ITEM))
        holders = np.sort(np.concatenate([holders, target]))
    return Pattern(1, steps)


def _negabinary(num_ranks: int) -> Ints:
    """Of every rank the digits in base -2, read as binary; of rank - N where it takes too many."""
    digits = np.arange(num_ranks)
    odd_places = int("10" * 32, 2) & (num_ranks - 1)
    # The numbers with these digits are consecutive, so that just one of rank and rank - N fits.
    even = digits & ~odd_places
    value = even - (digits & odd_places)
    label = np.empty(num_ranks, dtype=np.int64)
    label[value % num_ranks] = digits
    return label


def chain(num_ranks: int, root: int = 0, chunks: int = 4) -> Pattern:
    """Chunks follow each other from rank to rank."""
    _check_root(num_ranks, root)
    _check_chunks(num_ranks, chunks)
    steps = []
    for step in range(1, chunks + num_ranks - 1):
        hop = np.arange(max(0, step - chunks), min(num_ranks - 1, step))
        steps.append(Step((hop + root) % num_ranks, (hop + 1 + root) % num_ranks, step - 1 - hop))
    return Pattern(chunks, steps)


def scatter_allgather(num_ranks: int, root: int = 0) -> Pattern:
    """A binomial tree hands out the parts of its subtrees, which then go round a ring."""
    _check_root(num_ranks, root)
    steps = []
    for jump in _jumps(num_ranks):
        sender = np.arange(0, num_ranks - jump, 2 * jump)
        item = (sender + jump)[:, None] + np.arange(jump)
        at, part = np.nonzero(item < num_ranks)
        source = sender[at]
        steps.append(Step(source, source + jump, item[at, part]))
    steps += ring(num_ranks).steps
    turned = [
        Step((step.source + root) % num_ranks, (step.target + root) % num_ranks, step.item)
        for step in steps
    ]
    return Pattern(num_ranks, turned)


def double_binary_tree(num_ranks: int, chunks_per_tree: int = 4) -> Pattern:
    """Two trees with half of the data each; nobody but a root is inside both.

    >>> [parent.tolist() for parent in double_tree_parents(8)]
    [[-1, 2, 4, 2, 0, 6, 4, 6], [1, 3, 1, 7, 5, 3, 5, -1]]
    """
    _check_chunks(4 * num_ranks, chunks_per_tree)
    trees = [(parent, _levels(parent)) for parent in double_tree_parents(num_ranks)]
    height = max(int(level.max()) for _, level in trees)
    steps = []
    for number in range(1, 2 * height + chunks_per_tree if height else 1):
        sends = [
            np.broadcast_arrays(*ends, tree * chunks_per_tree + chunk, adds)
            for tree, (parent, level) in enumerate(trees)
            for depth in range(1, height + 1)
            for child in [np.flatnonzero(level == depth)]
            for adds, ends, chunk in (
                (True, (child, parent[child]), number - 1 - height + depth),
                (False, (parent[child], child), number - height - depth),
            )
            if 0 <= chunk < chunks_per_tree
        ]
        steps.append(Step(*map(np.concatenate, zip(*sends, strict=True))))
    return Pattern(2 * chunks_per_tree, steps)


def double_tree_parents(num_ranks: int) -> tuple[Ints, Ints]:
    """Parents in both trees, -1 for roots: the second is the first mirrored, or shifted by one."""
    rank = np.arange(num_ranks)
    low = rank & -rank
    above = (rank ^ low) | 2 * low
    first = np.where(above < num_ranks, above, rank ^ low)
    first[0] = -1
    new_of_old = (num_ranks - 1 - rank) if num_ranks % 2 == 0 else (rank + 1) % num_ranks
    second = np.empty_like(first)
    second[new_of_old] = np.where(first < 0, -1, new_of_old[first])
    return first, second


def _levels(parent: Ints) -> Ints:
    """How far every rank is below the root."""
    level, at = np.zeros_like(parent), parent
    while (at >= 0).any():
        level += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    return level


def parameter_server(num_ranks: int, server: int = 0) -> Pattern:
    """All send to one rank, which sends the sum to all."""
    _check_root(num_ranks, server)
    others = np.delete(np.arange(num_ranks), server)
    centre = ONE_ITEM + server
    return Pattern(1, [Step(others, centre, ONE_ITEM, True), Step(centre, others, ONE_ITEM)])


def two_level(num_ranks: int, groups: int | None = None, group_size: int | None = None) -> Pattern:
    """Groups of neighbours sum at their first rank; those go round a ring, and hand out the sum.

    Without options the groups are as many as they are large, as nearly as N allows.
    """
    if group_size is None:
        near = [m for m in range(1, num_ranks + 1) if num_ranks % m == 0 and m * m <= num_ranks]
        group_size = near[-1] if groups is None else num_ranks // max(groups, 1)
    count = num_ranks // max(group_size, 1) if groups is None else groups
    if count < 1 or group_size < 1 or count * group_size != num_ranks:
        raise ValueError(f"{count} groups of {group_size}: together they must be {num_ranks} ranks")
    leader = group_size * np.arange(count)[:, None, None]
    member, items = leader + np.arange(1, group_size)[:, None], np.arange(count)
    around = [*ring_reduce_scatter(count).steps, *ring(count).steps]
    steps = [
        Step(group_size * step.source, group_size * step.target, step.item, step.adds)
        for step in around
    ]
    up, down = Step(member, leader, items, True), Step(leader, member, items)
    return Pattern(count, [up, *steps, down])


def _check_root(num_ranks: int, root: int) -> None:
    if not 0 <= root < num_ranks:
        raise ValueError(f"root is {root}: ranks are 0 to {num_ranks - 1}")


def _check_chunks(sends: int, chunks: int) -> None:
    """ValueError for a number of chunks that there cannot be, each with so many sends."""
    if chunks < 1:
        raise ValueError(f"{chunks} chunks: there is at least one")
    check_sends(sends * chunks)
