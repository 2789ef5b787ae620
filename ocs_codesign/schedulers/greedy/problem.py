"""Which chunk is where at first and who must get it: a demand cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.demand import MOVE, SUM
from ocs_codesign.mirror import mirrored_demand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.schedulers.greedy.links import TickLinks

MAX_CHUNKS = 2**22
MAX_ENTRIES = 2**27
"""Chunks, and chunks times nodes, that are searched."""


@final
@dataclass(frozen=True, eq=False)
class ChunkProblem:
    """Chunks that are at one node each, and the nodes that must get them, over links.

    Chunk i is at ``source[i]`` and is for the nodes of group ``group[i]`` (int64), those that
    ``wanted[group[i]]`` (bool, groups x nodes) marks. With ``is_move`` it is for one node and at
    one place at a time, else nodes may copy it. ``item`` and ``place`` tell which chunk of which
    item of the demand it is. With ``is_sum`` links and time are reversed: what is to be summed
    up.
    """

    links: TickLinks
    source: NDArray[np.int64]
    group: NDArray[np.int64]
    wanted: NDArray[np.bool_]
    item: NDArray[np.int64]
    place: NDArray[np.int64]
    is_move: bool
    is_sum: bool

    @property
    def num_chunks(self) -> int:
        """Number of chunks."""
        return len(self.source)

    def target(self) -> NDArray[np.int64]:
        """The only node that each chunk is for, where chunks are moved."""
        target: NDArray[np.int64] = self.wanted.argmax(axis=1)[self.group]
        return target

    def over(self, links: TickLinks) -> ChunkProblem:
        """The same chunks over other links."""
        return replace(self, links=links)

    def mirrored(self) -> ChunkProblem:
        """What is moved, moved back over reversed links."""
        target, nodes = self.target(), self.links.num_nodes
        return replace(
            self,
            links=self.links.reversed(),
            source=target,
            group=self.source,
            wanted=np.eye(nodes, dtype=bool),
        )


def problem_of(demand: Demand, links: TickLinks, chunks_per_unit: int) -> ChunkProblem:
    """The chunks of a demand that lack something; a unit of weight is cut into so many.

    Raises ValueError for kinds that are mixed, for too many chunks, and for a node that is out of
    reach.
    """
    kinds = np.unique(demand.kind).tolist()
    if len(kinds) > 1:
        raise ValueError("greedy synthesis copies, moves or sums up, but one of them at a time")
    is_sum, is_move = kinds == [SUM], kinds == [MOVE]
    if is_sum:
        demand, links = mirrored_demand(demand), links.reversed()
    num_chunks = int(demand.weight.sum()) * chunks_per_unit
    if num_chunks > MAX_CHUNKS:
        raise ValueError(f"{num_chunks:,} chunks in all: at most {MAX_CHUNKS:,} are scheduled")
    units = demand.first_units() * chunks_per_unit
    piece = np.repeat(np.arange(demand.num_pieces), demand.weight * chunks_per_unit)
    item = demand.item_of_piece()[piece]
    place = np.arange(len(piece)) - units[demand.piece_start[item]]
    groups = len(demand.group_start) - 1
    wanted = np.zeros((groups, links.num_nodes), dtype=bool)
    wanted[np.repeat(np.arange(groups), np.diff(demand.group_start)), demand.member] = True
    source, group = demand.root[item].astype(np.int64), demand.group[piece].astype(np.int64)
    lacking = wanted.sum(axis=1)[group] - wanted[group, source] > 0
    return ChunkProblem(
        links,
        source[lacking],
        group[lacking],
        wanted,
        item[lacking],
        place[lacking],
        is_move,
        is_sum,
    )
