"""The search for the fastest transfers: symmetry, matchings with restarts, repair, exact search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.schedulers.greedy.bounds import (
    check_reach,
    cut_bound,
    quick_bound,
    travel_times,
)
from ocs_codesign.schedulers.greedy.exact import MAX_STARTS, in_time, num_starts
from ocs_codesign.schedulers.greedy.matching import NEVER, matched
from ocs_codesign.schedulers.greedy.orbit import one_orbit
from ocs_codesign.schedulers.greedy.orbit_moves import one_orbit_of_moves
from ocs_codesign.schedulers.greedy.problem import MAX_ENTRIES
from ocs_codesign.schedulers.greedy.repair import repaired
from ocs_codesign.schedulers.greedy.transfers import ChunkTransfers

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.greedy.problem import ChunkProblem

MAX_RESTARTS = 150
_TRANSFERS_IN_ALL = 5_000_000
"""Transfers of all restarts together: some seconds."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class FoundTransfers:
    """Transfers that do what is wanted, how long they take, and what no others can beat, in ticks.

    ``how`` says what found them: "one orbit", "matching", "repair" or "exact search";
    ``restart`` which matching it was or began with.
    """

    transfers: ChunkTransfers
    ticks: int
    bound: int
    how: str
    restart: int

    @property
    def is_optimal(self) -> bool:
        """Whether none can be faster."""
        return self.ticks == self.bound


def search(
    problem: ChunkProblem,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> FoundTransfers:
    """The fastest transfers that are found, the same for the same seed.

    Raises ValueError if a node is out of reach, or for more than can be searched.
    """
    links, step = problem.links.in_steps()
    small = replace(problem, links=links)
    entries = problem.num_chunks * max(links.num_nodes, links.num_links)
    if not problem.is_move and entries > 4 * MAX_ENTRIES:
        raise ValueError(
            f"{problem.num_chunks:,} chunks over {links.num_links:,} links: too large for greedy "
            "synthesis"
        )
    found = _searched(small, seed, on_progress)
    transfers = replace(found.transfers, start=found.transfers.start * step).by_start()
    return replace(found, transfers=transfers, ticks=found.ticks * step, bound=found.bound * step)


def _searched(
    problem: ChunkProblem, seed: int, on_progress: Callable[[int, int], None] | None
) -> FoundTransfers:
    travel = travel_times(problem.links)
    check_reach(problem, travel)
    found = _matched(problem, travel, seed, on_progress)
    if found.is_optimal:
        return found
    found = replace(found, bound=max(found.bound, cut_bound(problem, travel)))
    if not found.is_optimal:
        found = _better(
            problem, found, "repair", repaired(problem, found.transfers, found.bound, seed)
        )
    while not found.is_optimal and num_starts(problem, travel, found.ticks - 1) <= MAX_STARTS:
        answer = in_time(problem, travel, found.ticks - 1)
        if not isinstance(answer, ChunkTransfers):
            return found if answer is None else replace(found, bound=found.ticks)
        found = _better(problem, found, "exact search", answer)
    return found


def _better(
    problem: ChunkProblem, found: FoundTransfers, how: str, transfers: ChunkTransfers
) -> FoundTransfers:
    """What was found, or other transfers if they take less time."""
    ticks = transfers.total_ticks(problem.links)
    if ticks >= found.ticks:
        return found
    return replace(found, transfers=transfers, ticks=ticks, how=how)


def _matched(
    problem: ChunkProblem,
    travel: NDArray[np.int64],
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> FoundTransfers:
    """The best of one matching after the other; the bound that ends them is a quick one."""
    least, found = quick_bound(problem, travel), None
    if problem.is_move:
        alike = one_orbit_of_moves(problem, travel, seed)
    else:
        alike = one_orbit(problem, least, seed)
    if alike is not None:
        found = FoundTransfers(alike, alike.total_ticks(problem.links), least, "one orbit", 0)
    restarts, at = MAX_RESTARTS, 0
    while at < restarts and not (found and found.is_optimal):
        limit = NEVER if found is None else found.ticks
        if found is not None and at % 2:
            limit = least + 1  # slow links are left alone sooner
        transfers = matched(problem, travel, seed, at, limit)
        if transfers is not None:
            restarts = min(restarts, max(2, _TRANSFERS_IN_ALL // len(transfers.link)))
            ticks = transfers.total_ticks(problem.links)
            if found is None or ticks < found.ticks:
                found = FoundTransfers(transfers, ticks, least, "matching", at)
        at += 1
        if on_progress is not None:
            on_progress(at, restarts)
    if found is None:
        raise RuntimeError("no matching brings everything where it must be")
    return found
