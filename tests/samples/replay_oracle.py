"""Two slow judges of schedules that share nothing with the package's replay.

``is_valid`` states what a schedule must be, chunk by chunk, in dicts: the sends of one chunk of one
root form a tree whose sends follow each other in time, in an all-to-all a path from the root to the
node that the chunk is for. ``runs_correctly`` moves real numbers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.collective import Collective

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.schedule import Schedule

Hop = tuple[int, int, int]
"""Sender, receiver, step."""


def is_valid(schedule: Schedule) -> bool:
    """Whether the sends achieve the collective, every one of them needed."""
    sums, copies = _hops_by_chunk(schedule)
    if schedule.collective == Collective.ALLTOALL:
        return all(
            _arrives(root, _owner(schedule, chunk), sums[root, chunk])
            for root in range(schedule.topology.num_nodes)
            for chunk in range(schedule.num_chunks)
        )
    reduces = schedule.collective != Collective.ALLGATHER
    gathers = schedule.collective != Collective.REDUCE_SCATTER
    for root in range(schedule.topology.num_nodes):
        for chunk in range(_chunks_of(schedule, root)):
            complete = 0
            if reduces:
                hops = sums[root, chunk]
                if not _sums_once(schedule, root, hops):
                    return False
                complete = max((step for _, node, step in hops if node == root), default=0)
            if gathers and not _copies_once(schedule, root, copies[root, chunk], complete):
                return False
    return True


def _chunks_of(schedule: Schedule, root: int) -> int:
    """The chunks of a root's shard: an allreduce may have unequal ones."""
    sizes = schedule.collective.sizes
    return schedule.num_chunks if sizes is None else schedule.num_chunks * sizes[root] // max(sizes)


def _copies_once(schedule: Schedule, root: int, hops: list[Hop], complete: int) -> bool:
    received = {node: step for _, node, step in hops}
    others = set(range(schedule.topology.num_nodes)) - {root}
    if len(hops) != len(others) or set(received) != others:
        return False
    received[root] = complete
    return all(received[sender] < step for sender, _, step in hops)


def _sums_once(schedule: Schedule, root: int, hops: list[Hop]) -> bool:
    sent = {sender: step for sender, _, step in hops}
    others = set(range(schedule.topology.num_nodes)) - {root}
    if len(hops) != len(others) or set(sent) != others:
        return False
    return all(node == root or step < sent[node] for _, node, step in hops)


def _arrives(root: int, owner: int, hops: list[Hop]) -> bool:
    """Whether the hops, in the order of time, lead from root to owner; each is met but once."""
    hops = sorted(hops, key=lambda hop: hop[2])
    steps = [step for _, _, step in hops]
    walk = [root, *(receiver for _, receiver, _ in hops)]
    return (
        len(set(steps)) == len(steps)
        and [sender for sender, _, _ in hops] == walk[:-1]
        and all(sender != receiver for sender, receiver, _ in hops)
        and walk[-1] == owner
        and walk.count(root) == walk.count(owner) == 1
    )


def _owner(schedule: Schedule, chunk: int) -> int:
    """The node that a chunk of an all-to-all is for."""
    return chunk * schedule.topology.num_nodes // schedule.num_chunks


def _hops_by_chunk(
    schedule: Schedule,
) -> tuple[dict[tuple[int, int], list[Hop]], dict[tuple[int, int], list[Hop]]]:
    """Sends of every (root, chunk) that sum and that copy."""
    sums: dict[tuple[int, int], list[Hop]] = defaultdict(list)
    copies: dict[tuple[int, int], list[Hop]] = defaultdict(list)
    for root, lo, hi, link, step, phase in _rows(schedule):
        hop = (int(schedule.topology.tail[link]), int(schedule.topology.head[link]), step)
        for chunk in range(lo, hi):
            (copies if phase else sums)[root, chunk].append(hop)
    return sums, copies


def _rows(schedule: Schedule) -> Iterator[tuple[int, int, int, int, int, int]]:
    phase = schedule.phase
    if phase is None:
        phase = np.full(schedule.num_sends, schedule.collective == Collective.ALLGATHER)
    columns = (schedule.root, schedule.lo, schedule.hi, schedule.link, schedule.step, phase)
    yield from zip(*(column.tolist() for column in columns), strict=True)


def runs_correctly(schedule: Schedule) -> bool:
    """Whether random numbers, moved step by step as the sends say, end where they should.

    ``held[node, root, chunk]`` is what a node has; a copying send overwrites, a summing one adds.
    """
    nodes, chunks = schedule.topology.num_nodes, schedule.num_chunks
    given = np.random.default_rng(7).integers(1, 2**40, (nodes, nodes, chunks))
    owner = np.arange(nodes)
    for root in owner:
        given[:, root, _chunks_of(schedule, root) :] = 0
    held = given.copy()
    if schedule.collective in (Collective.ALLGATHER, Collective.ALLTOALL):
        held[:] = -1
        held[owner, owner] = given[owner, owner]
    for step in range(1, schedule.num_steps + 1):
        before = held.copy()
        for root, lo, hi, link, at, phase in _rows(schedule):
            if at != step:
                continue
            sender, receiver = schedule.topology.tail[link], schedule.topology.head[link]
            if schedule.collective == Collective.ALLTOALL:
                held[sender, root, lo:hi] = -1
                held[receiver, root, lo:hi] = before[sender, root, lo:hi]
            elif phase:
                held[receiver, root, lo:hi] = before[sender, root, lo:hi]
            else:
                held[receiver, root, lo:hi] += before[sender, root, lo:hi]
    if schedule.collective == Collective.ALLTOALL:
        return _all_moved(schedule, given, held)
    return _ended_right(schedule.collective, given, held)


def _all_moved(schedule: Schedule, given: np.ndarray, held: np.ndarray) -> bool:
    """Whether every chunk is where it belongs, and nowhere else."""
    owner = np.arange(len(given))
    right = np.full_like(held, -1)
    for chunk in range(schedule.num_chunks):
        right[_owner(schedule, chunk), :, chunk] = given[owner, owner, chunk]
    return np.array_equal(held, right)


def _ended_right(collective: Collective, given: np.ndarray, held: np.ndarray) -> bool:
    owner = np.arange(len(given))
    if collective == Collective.ALLGATHER:
        return bool((held == given[owner, owner]).all())
    if collective == Collective.REDUCE_SCATTER:
        return np.array_equal(held[owner, owner], given.sum(axis=0))
    return bool((held == given.sum(axis=0)).all())
