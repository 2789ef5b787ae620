"""Allreduces on N ranks: around a ring, and by exchanges along the axes of a hypercube.

Source of the exchanges: R. Thakur, R. Rabenseifner, W. Gropp (2005), Optimization of collective
communication operations in MPICH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.classic.algorithm import Step

if TYPE_CHECKING:
    from ocs_codesign.schedulers.classic.algorithm import Steps


def ring(num_nodes: int) -> Steps:
    """The ring algorithm: N - 1 steps of a shard to the next rank, twice for an allreduce.

    >>> [step.items.ravel().tolist() for step in ring(3)]
    [[2, 0, 1], [1, 2, 0], [0, 1, 2], [2, 0, 1]]
    """
    rank = np.arange(num_nodes)
    for reduces in (True, False):
        for k in range(num_nodes - 1):
            shard = (rank - k - reduces) % num_nodes
            yield Step((rank + 1) % num_nodes, shard[:, None], reduces)


def halving_doubling(num_nodes: int) -> Steps:
    """Allreduce by recursive halving, then doubling: 2 log2 N exchanges along a hypercube's axes.

    A rank passes on what it is still responsible for and its partner will be: M/2, then half as
    much each time; the way back is the same. Raises ValueError unless N is a power of 2.

    >>> [step.items[0].tolist() for step in halving_doubling(4)]
    [[2, 3], [1], [0], [0, 1]]
    """
    axes = _axes(num_nodes, "halving and doubling")
    rank = np.arange(num_nodes)
    for reduces in (True, False):
        for axis in reversed(range(axes)) if reduces else range(axes):
            peer, width = rank ^ (1 << axis), 1 << axis
            owner = peer if reduces else rank
            yield Step(peer, (owner & -width)[:, None] | np.arange(width), reduces)


def recursive_doubling(num_nodes: int) -> Steps:
    """Allreduce in log2 N exchanges of all of M: few steps, for small messages.

    Raises ValueError unless N is a power of 2.

    >>> [step.items[0].tolist() for step in recursive_doubling(4)]
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    rank = np.arange(num_nodes)
    everything = np.broadcast_to(rank, (num_nodes, num_nodes))
    for axis in range(_axes(num_nodes, "recursive doubling")):
        yield Step(rank ^ (1 << axis), everything, reduces=True)


def _axes(num_nodes: int, name: str) -> int:
    if num_nodes < 1 or num_nodes & (num_nodes - 1):
        raise ValueError(f"{num_nodes} nodes: {name} needs a power of two")
    return num_nodes.bit_length() - 1
