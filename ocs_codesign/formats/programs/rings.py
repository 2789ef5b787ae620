"""The rings of a plan: Hamiltonian cycles along which every chunk of it goes round."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.messages import Messages
from ocs_codesign.runs import places

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.book import Plan

RINGED = ("allgather", "reduce-scatter", "allreduce")
"""Collectives that a ring does."""

MAX_PLACES = 2**26


def rings_of(plan: Plan) -> list[list[int]]:
    """Rings, each as ranks from 0 on, that split all data evenly, in ascending order.

    A ring that takes twice as much as another is there twice. Raises ValueError, with what is in
    the way, unless every chunk of the plan goes from rank to rank along one cycle of all of them,
    and every shard is split over the cycles alike.

    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
    >>> rings_of(CLASSIC["ring"].messages("allgather", 4))
    [[0, 1, 2, 3]]
    """
    name = plan.collective.name
    chunk: NDArray[Any]
    if name not in RINGED or plan.collective.groups is not None:
        raise ValueError(f"{plan.collective.text}: rings do {', '.join(RINGED)} of all ranks")
    if isinstance(plan, Messages):
        ranks, parts = plan.num_ranks, plan.num_items
        shards = 1 if name == "allreduce" else ranks
        chunk, source, target = plan.item, plan.source, plan.target
    else:
        ranks, parts = plan.num_hosts, plan.num_hosts * plan.num_chunks
        shards = ranks
        if ranks < plan.topology.num_nodes:
            raise ValueError("the plan names switches: a ring is of ranks alone")
        if plan.collective.sizes is not None:
            raise ValueError("shards of unequal sizes: a ring has equal ones")
        count = plan.hi.astype(np.int64) - plan.lo
        send, chunk = places(plan.item.astype(np.int64) * plan.num_chunks + plan.lo, count)
        links = plan.link[send]
        source, target = plan.topology.tail[links], plan.topology.head[links]
    if ranks < 2 or parts * ranks > MAX_PLACES:
        raise ValueError(f"{ranks} ranks, {parts} chunks: rings are sought of 2 ranks and more")
    cycles = _cycles(_followers(ranks, parts, chunk, source, target))
    different, number = np.unique(cycles, axis=0, return_inverse=True)
    shares = np.zeros((shards, len(different)), dtype=np.int64)
    np.add.at(shares, (np.arange(parts) // (parts // shards), number.ravel()), 1)
    if (shares != shares[0]).any():
        shard = int((shares != shares[0]).any(axis=1).argmax())
        raise ValueError(f"shard {shard} is split over the rings otherwise than shard 0")
    unit = gcd(*shares[0].tolist())
    return [
        ring
        for ring, times in zip(different.tolist(), (shares[0] // unit).tolist(), strict=True)
        for _ in range(times)
    ]


def _followers(
    ranks: int,
    parts: int,
    chunk: NDArray[Any],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
) -> NDArray[np.int32]:
    """To which rank each rank passes every chunk, shape (chunks, ranks); -1 if to nobody."""
    following = np.full((parts, ranks), -1, dtype=np.int32)
    following[chunk, source] = target
    branches = following[chunk, source] != target
    if branches.any():
        row = int(branches.argmax())
        raise ValueError(
            f"this is no ring: rank {source[row]} sends the same chunk to {target[row]} and to "
            f"{following[chunk[row], source[row]]}"
        )
    open_ends = (following < 0).sum(axis=1)
    if (open_ends > 1).any():
        part = int((open_ends > 1).argmax())
        idle = np.flatnonzero(following[part] < 0)[:2].tolist()
        raise ValueError(
            f"this is no ring: neither rank {idle[0]} nor {idle[1]} passes on chunk {part}, but a "
            "ring has one last rank"
        )
    return following


def _cycles(following: NDArray[np.int32]) -> NDArray[np.int32]:
    """The order in which every chunk's ring visits ranks, from 0 on, shape (chunks, ranks)."""
    parts, ranks = following.shape
    own = np.arange(parts)
    open_part = np.flatnonzero((following < 0).any(axis=1))
    reached = np.zeros((parts, ranks + 1), dtype=bool)
    reached[own[:, np.newaxis], following] = True  # -1 marks the extra place
    last = (following[open_part] < 0).argmax(axis=1)
    following = following.copy()
    following[open_part, last] = (~reached[open_part, :ranks]).argmax(axis=1)
    cycle = np.zeros((parts, ranks), dtype=np.int32)
    for hop in range(1, ranks):
        cycle[:, hop] = following[own, cycle[:, hop - 1]]
    whole = np.sort(cycle, axis=1) == np.arange(ranks)
    if not whole.all():
        part = int((~whole.all(axis=1)).argmax())
        raise ValueError(
            f"this is no ring: chunk {part} goes round over "
            f"{len(np.unique(cycle[part]))} of {ranks} ranks"
        )
    return cycle
