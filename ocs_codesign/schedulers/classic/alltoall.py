"""All-to-alls on N ranks: every piece straight to its rank, or in log2 N shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.classic.algorithm import Step

if TYPE_CHECKING:
    from ocs_codesign.schedulers.classic.algorithm import Steps


def bruck(num_nodes: int) -> Steps:
    """Bruck's all-to-all: at step k what still has to go a distance with bit k shifts by 2^k.

    Source: Bruck, Ho, Kipnis, Upfal, Weathersby (1997).

    >>> [step.items.shape[1] for step in bruck(6)]
    [3, 2, 2]
    """
    rank, away = np.arange(num_nodes)[:, None], np.arange(num_nodes)
    for k in range((num_nodes - 1).bit_length()):
        moving = away[away & (1 << k) > 0]
        gone = moving & ((1 << k) - 1)  # how far a piece has come from its source
        source, target = (rank - gone) % num_nodes, (rank - gone + moving) % num_nodes
        yield Step((away + (1 << k)) % num_nodes, source * num_nodes + target)


def direct_exchange(num_nodes: int) -> Steps:
    """All-to-all in N - 1 steps: at step k every rank sends to the rank k further.

    >>> [step.items.tolist() for step in direct_exchange(3)]
    [[[1], [5], [6]], [[2], [3], [7]]]
    """
    rank = np.arange(num_nodes)
    for shift in range(1, num_nodes):
        peer = (rank + shift) % num_nodes
        yield Step(peer, (rank * num_nodes + peer)[:, None])
