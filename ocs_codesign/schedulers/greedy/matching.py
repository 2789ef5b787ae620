"""One matching after another, each with its own random ties, until none can be better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.greedy import kernels, move_kernels
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.greedy.problem import ChunkProblem

NEVER = 2**62


def matched(
    problem: ChunkProblem, travel: NDArray[np.int64], seed: int, restart: int, limit: int = NEVER
) -> ChunkTransfers | None:
    """Transfers that do what is wanted before tick ``limit``; None if this matching does not."""
    rng = np.random.default_rng([seed, restart])
    make = _moves if problem.is_move else _copies
    if restart % 2 and problem.links.delay.any():
        # As if links were held until arrival: events stay together, and some schedules shorter.
        held = problem.over(problem.links.blocking())
        made = make(held, travel, rng, NEVER, restart)
        return made and made.by_start().as_early(problem.links, problem.num_chunks)
    return make(problem, travel, rng, limit, restart)


def _index(
    ends: NDArray[np.int64], nodes: int, *keys: NDArray[np.generic]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the links of every node begin, and these links, sorted by the keys."""
    order = np.lexsort((*keys, ends))
    return np.searchsorted(ends[order], np.arange(nodes + 1)), order


def _copies(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    rng: np.random.Generator,
    limit: int,
    restart: int,
) -> ChunkTransfers | None:
    links, chunks = problem.links, problem.num_chunks
    # Fast links choose first.
    into = _index(links.head, links.num_nodes, rng.random(links.num_links), links.ticks)
    out = _index(links.tail, links.num_nodes)
    state = _roles(problem, travel, slack=restart % 3)
    most = int((state != kernels.BARRED).sum()) - chunks
    has_relays = bool((state == kernels.RELAYS).any())
    rows = np.empty((3, most), dtype=np.int64)
    table = np.stack([links.tail, links.head, links.busy, links.delay])
    random = rng.integers(1, 2**31, 1)
    loop = for_work(kernels.match_copies, 8 * most)
    done = loop(
        *(table, *into, *out, problem.source, state, rng.permutation(chunks)),
        *(random, limit, rows),
    )
    if done < 0:
        return None
    found = ChunkTransfers(*rows[:, :done])
    return found.used(problem) if has_relays else found


def _roles(problem: ChunkProblem, travel: NDArray[np.int64], slack: int) -> NDArray[np.int8]:
    """What every node has to do with every chunk, shape (N, chunks).

    Nodes that do not want a chunk pass it on where that is a way to one that does, longer than the
    shortest by at most ``slack`` times the slowest link.
    """
    wanted, source = problem.wanted[problem.group].T, problem.source
    roles = np.where(wanted, np.int8(kernels.WANTS), np.int8(kernels.BARRED))
    if not wanted.all():
        far = np.where(travel < 0, NEVER // 4, travel)
        longest = slack * int(problem.links.ticks.max(initial=0))
        for kind in np.unique(source * len(problem.wanted) + problem.group):
            root, group = divmod(int(kind), len(problem.wanted))
            to = np.flatnonzero(problem.wanted[group])
            detour = far[root][:, None] + far[:, to] - far[root, to]
            passes = (detour <= longest).any(axis=1) & ~problem.wanted[group]
            mine = np.flatnonzero((source == root) & (problem.group == group))
            roles[np.ix_(np.flatnonzero(passes), mine)] = kernels.RELAYS
    roles[source, np.arange(len(source))] = kernels.HAS
    return roles


def _moves(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    rng: np.random.Generator,
    limit: int,
    restart: int,
) -> ChunkTransfers | None:
    links, target = problem.links, problem.target()
    out = _index(links.tail, links.num_nodes)
    # Detours every third time: what is closer may be on a faster way that others need.
    slack = int(links.ticks.max(initial=0)) if restart % 3 == 2 else 0
    ways = travel[problem.source, target] + slack
    most = int((ways // links.ticks.min()).sum())
    rows = np.empty((3, most), dtype=np.int64)
    table = np.stack([links.tail, links.head, links.busy, links.delay])
    random = rng.integers(1, 2**31, 1)
    loop = for_work(move_kernels.match_moves, most * links.num_nodes // 4)
    done = loop(
        *(table, *out, problem.source, target, travel, slack),
        *(rng.permutation(links.num_nodes), random, limit, rows),
    )
    return None if done < 0 else ChunkTransfers(*rows[:, :done])
