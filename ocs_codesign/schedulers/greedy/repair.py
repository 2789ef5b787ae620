"""Local repair: what was found, with some chunks taken out and put back where they are earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.greedy import repair_kernels
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers

if TYPE_CHECKING:
    from ocs_codesign.schedulers.greedy.problem import ChunkProblem

_WORK = 40_000_000
_MAX_ROUNDS = 4_000


def repaired(problem: ChunkProblem, found: ChunkTransfers, least: int, seed: int) -> ChunkTransfers:
    """Transfers that take no longer; the search ends when they take ``least`` ticks."""
    links, chunks = problem.links, problem.num_chunks
    rounds = min(_MAX_ROUNDS, _WORK // (links.num_links * (chunks + 64)))
    if rounds < 1:
        return found
    order = np.lexsort((found.start, found.link))
    count = np.bincount(found.link, minlength=links.num_links)
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    begun = np.zeros((links.num_links, chunks), dtype=np.int64)
    what = np.zeros_like(begun)
    begun[found.link[order], place] = found.start[order]
    what[found.link[order], place] = found.chunk[order]
    latest = np.zeros(chunks, dtype=np.int64)
    np.maximum.at(latest, found.chunk, found.end(links))
    out_link = np.argsort(links.tail, kind="stable")
    out_first = np.searchsorted(links.tail[out_link], np.arange(links.num_nodes + 1))
    table = np.stack([links.tail, links.head, links.busy, links.delay])
    random = np.random.default_rng([seed, 1]).integers(1, 2**31, 1)
    loop = for_work(repair_kernels.repair, rounds * links.num_links * 8)
    loop(
        *(problem.source, problem.wanted[problem.group], table, out_first, out_link),
        *(begun, what, count, latest, least, rounds, random),
    )
    link = np.repeat(np.arange(links.num_links), count)
    place = np.arange(len(link)) - np.repeat(np.cumsum(count) - count, count)
    return ChunkTransfers(link, what[link, place], begun[link, place]).by_start()
