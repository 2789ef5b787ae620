"""Transfers: which link carries which chunk from when on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.greedy import transfer_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.greedy.links import TickLinks
    from ocs_codesign.schedulers.greedy.problem import ChunkProblem


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChunkTransfers:
    """Transfer i sends ``chunk[i]`` over ``link[i]`` from ``start[i]`` on (int64), by start."""

    link: NDArray[np.int64]
    chunk: NDArray[np.int64]
    start: NDArray[np.int64]

    def end(self, links: TickLinks) -> NDArray[np.int64]:
        """When each has arrived."""
        return self.start + links.ticks[self.link]

    def total_ticks(self, links: TickLinks) -> int:
        """When the last has arrived."""
        return int(self.end(links).max(initial=0))

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> ChunkTransfers:
        """Some of them."""
        return ChunkTransfers(self.link[rows], self.chunk[rows], self.start[rows])

    def by_start(self) -> ChunkTransfers:
        """The same in the order of starts, and of links."""
        return self.at(np.lexsort((self.link, self.start)))

    def mirrored(self, links: TickLinks, total: int) -> ChunkTransfers:
        """The same read backwards from a tick on: over reversed links."""
        return ChunkTransfers(self.link, self.chunk, total - self.end(links)).by_start()

    def used(self, problem: ChunkProblem) -> ChunkTransfers:
        """Without those that bring what is neither wanted nor sent on, each as early as it can."""
        links = problem.links
        needs = problem.wanted[problem.group].copy()
        keep = np.zeros(len(self.link), dtype=bool)
        ends = links.tail[self.link], links.head[self.link]
        loop = for_work(transfer_kernels.mark_used, len(self.link))
        loop(*ends, self.chunk, needs, keep)
        return self.at(keep).as_early(links, problem.num_chunks)

    def as_early(self, links: TickLinks, num_chunks: int) -> ChunkTransfers:
        """Every transfer as early as its sender and its link are ready, in this order."""
        return ChunkTransfers(
            self.link, self.chunk, self.early_starts(links, num_chunks)
        ).by_start()

    def early_starts(self, links: TickLinks, num_chunks: int) -> NDArray[np.int64]:
        """The first ticks at which senders and links are ready, if none overtakes on a link.

        Of what is summed up a sender has all once the last contribution has come.
        """
        start = np.empty_like(self.start)
        ready = np.zeros((links.num_nodes, num_chunks), dtype=np.int64)
        free = np.zeros(links.num_links, dtype=np.int64)
        times = links.tail, links.head, links.busy, links.ticks
        loop = for_work(transfer_kernels.start_early, len(start))
        loop(*times, self.link, self.chunk, ready, free, start)
        return start
