"""Allreduces by swaps with partners: of the whole vector, and by halving and doubling.

They are made for p = 2^floor(log2 N) ranks. Where N is more, the first 2 (N - p) ranks are folded
in pairs: the even one gives all that it has to the odd one, sits out, and gets the result at the
end. Sources: Thakur, Rabenseifner, Gropp (2005); MPICH; De Sensi and others, Swing (NSDI 2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.classic import gathering
from ocs_codesign.schedulers.classic.partners import swing_partners, xor_partners
from ocs_codesign.schedulers.classic.steps import Pattern, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.schedulers.classic.steps import Ints


def recursive_doubling_full(num_ranks: int) -> Pattern:
    """The whole vector is swapped along the axes of a hypercube, the near one first."""
    return _folded(num_ranks, lambda power: _whole_vector(power, xor_partners))


def swing_full(num_ranks: int) -> Pattern:
    """The whole vector is swapped with the partners of Swing, near ones first."""
    return _folded(num_ranks, lambda power: _whole_vector(power, swing_partners))


def swing(num_ranks: int, first: str = "far") -> Pattern:
    """Swing's allgather turned round, then the allgather."""
    return _folded(num_ranks, lambda power: _there_and_back(gathering.swing(power, first)))


def rabenseifner(num_ranks: int) -> Pattern:
    """Of p blocks half as many are summed in every step, the near partner first; then copied back.

    >>> [step.num_sends for step in rabenseifner(6).steps]
    [8, 8, 4, 4, 8, 8]
    """
    return _folded(num_ranks, lambda power: _there_and_back(gathering.recursive_doubling(power)))


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
