"""Whole capacities made balanced at relays again, after rounding, by lowering some of them.

Where as much or more leads into every relay than out, links into one of too much can always be
lowered: every set of nodes that a link enters with nothing to spare has a rank in common with all
others of this relay, so one that all of them enter would be served without the relay (Frank's
uncrossing). Links out of a relay that gets too little must be lowered first, and that may fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.cuts.dissemination import first_short

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.cuts.dissemination import Dissemination


def balanced_within(
    problem: Dissemination, capacity: NDArray[np.int64], own: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Capacities of at most these, in which all ranks get what nodes send (``own``) through relays.

    Relays, the nodes that are no ranks, let out what they let in. None if there are no such
    capacities, or none were found; ``capacity`` itself if it is balanced.

    >>> from ocs_codesign.cuts.dissemination import Dissemination
    >>> is_rank = np.array([True, True, True, False])
    >>> tail, head = np.array([[0, 1, 2, 3, 3, 3], [3, 3, 3, 0, 1, 2]])
    >>> one = Dissemination(is_rank, is_rank.astype(int), tail, head, np.zeros(6, int))
    >>> balanced_within(one, np.array([2, 3, 2, 2, 2, 2]), one.weight)
    array([2, 2, 2, 2, 2, 2])
    """
    left = capacity.copy()
    ranks = np.flatnonzero(problem.is_rank)
    if first_short(problem, ranks, 0, left, own)[0] < len(ranks):
        return None
    for sign, ends in ((-1, problem.tail), (1, problem.head)):
        while (wrong := np.flatnonzero(sign * _surplus(problem, left) > 0)).size:
            for relay in wrong.tolist():
                excess = int(sign * _surplus(problem, left)[relay])
                links = np.flatnonzero((ends == relay) & (left > 0))
                for link in links[np.argsort(-left[links], kind="stable")].tolist():
                    excess -= _lowered(problem, left, own, link, excess)
                if excess > 0:
                    return None
    return left


def _surplus(problem: Dissemination, capacity: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much more leads into every relay than out; 0 for ranks."""
    surplus = np.zeros(problem.num_nodes, dtype=np.int64)
    np.add.at(surplus, problem.head, capacity)
    np.subtract.at(surplus, problem.tail, capacity)
    return np.where(problem.is_rank, 0, surplus)


def _lowered(
    problem: Dissemination,
    capacity: NDArray[np.int64],
    own: NDArray[np.int64],
    link: int,
    most: int,
) -> int:
    """Lower the capacity of a link by as much as no cut minds, at most so much; by how much."""
    ranks = np.flatnonzero(problem.is_rank)
    lowered = min(most, int(capacity[link]))
    capacity[link] -= lowered
    while lowered:
        position, outside = first_short(problem, ranks, 0, capacity, own)
        if position == len(ranks):
            break
        enters = ~outside[problem.tail] & outside[problem.head]
        lacks = int(own[~outside].sum()) - int(capacity[enters].sum())
        capacity[link] += lacks
        lowered -= lacks
    return lowered
