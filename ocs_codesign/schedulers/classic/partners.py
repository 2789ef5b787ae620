"""Who swaps with whom: along the axes of a hypercube, and by the distances of Swing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.classic.steps import Pattern, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.schedulers.classic.steps import Ints


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
