"""Tables: steps as permutations, and which slots a rank reads and writes in each of them.

Every step has permutations of its own or, where those were too many, repeats those of others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ocs_codesign.interop.runtimes.rounds import rounds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.interop.runtimes.rounds import Pair
    from ocs_codesign.interop.runtimes.traffic import RankMessages

UNROLLED_ROUNDS: Final = 512
"""A program of more rounds takes seconds to compile and megabytes of text."""

MOST_PADDING: Final = 3
"""What steps by the same permutations may send through what they would send by their own."""


class StepTables(NamedTuple):
    """Steps by the same permutations: pairs of every round, and slots by rank, step and message.

    ``source[k][r, s]`` are the slots that rank r sends in round k of step s. Of the messages that
    a rank gets in step s, by increasing source, the j-th comes in round ``order[r, s, j]``;
    ``adds[r, s, j]`` and ``copies[r, s, j]`` are the slots to which its chunks are added, or where
    they are kept. A slot that is not there is the one of zeros where it is read, and behind it
    where it is written.
    """

    pairs: tuple[tuple[Pair, ...], ...]
    source: tuple[NDArray[np.int32], ...]
    order: NDArray[np.int32]
    adds: NDArray[np.int32] | None
    copies: NDArray[np.int32] | None

    @property
    def num_steps(self) -> int:
        """How many steps these are."""
        return int(self.order.shape[1])

    @property
    def num_sent(self) -> int:
        """Chunks that all ranks send, with padding."""
        widths = (source.shape[2] for source in self.source)
        sent = (len(pairs) * width for pairs, width in zip(self.pairs, widths, strict=True))
        return self.num_steps * int(sum(sent))


@lru_cache(maxsize=64)
def tables_of(
    traffic: RankMessages, unrolled_rounds: int = UNROLLED_ROUNDS
) -> tuple[StepTables, ...]:
    """The tables of all steps, of each by itself unless that makes more rounds than that.

    Then steps in a row are by the same permutations: every pair that is ever used in them sends in
    each, as much as it ever does, at most ``MOST_PADDING`` times what they would send alone.

    >>> from ocs_codesign.core.schedule import Messages
    >>> from ocs_codesign.interop.runtimes.traffic import traffic_of
    >>> from ocs_codesign.schedules.classic.registry import CLASSIC
    >>> ring = traffic_of(CLASSIC["ring"].messages("allgather", 6))
    >>> len(tables_of(ring)), len(tables_of(ring, 4)), tables_of(ring, 4)[0].num_steps
    (5, 1, 5)
    """
    slot = np.full((traffic.num_ranks, traffic.num_chunks), traffic.most_slots, dtype=np.int32)
    for rank in range(traffic.num_ranks):
        held = traffic.slots_of(rank)
        slot[rank, held] = np.arange(len(held))
    steps: list[dict[Pair, int]] = [{} for _ in range(traffic.num_steps)]
    ends = (traffic.step.tolist(), traffic.source.tolist(), traffic.target.tolist())
    for row, (step, source, target) in enumerate(zip(*ends, strict=True)):
        steps[step][source, target] = row
    runs = [[step] for step in steps]
    if sum(len(rounds_of(step)) for step in steps) > unrolled_rounds:
        runs = _runs(steps, np.diff(traffic.start).tolist())
    return tuple(_tables(traffic, slot, run) for run in runs)


def _runs(steps: Sequence[dict[Pair, int]], sizes: Sequence[int]) -> list[list[dict[Pair, int]]]:
    """Steps in as long rows as padding allows; what a pair sends has a size by its row."""
    runs: list[list[dict[Pair, int]]] = []
    longest: dict[Pair, int] = {}
    padded = plain = 0
    for step in steps:
        own = {pair: sizes[row] for pair, row in step.items()}
        alone = _padded(own)
        both = longest | {pair: max(size, longest.get(pair, 0)) for pair, size in own.items()}
        padded = padded if both == longest else _padded(both)
        plain += alone
        if runs and (len(runs[-1]) + 1) * padded <= MOST_PADDING * plain:
            runs[-1].append(step)
            longest = both
        else:
            runs.append([step])
            longest, padded, plain = own, alone, alone
    return runs


def _padded(sizes: dict[Pair, int]) -> int:
    """Chunks that pairs send together, in each round as much as its longest message."""
    return sum(len(pairs) * max(map(sizes.__getitem__, pairs)) for pairs in rounds_of(sizes))


def _tables(
    traffic: RankMessages, slot: NDArray[np.int32], steps: Sequence[dict[Pair, int]]
) -> StepTables:
    """The tables of steps, each the rows of its pairs, by rounds that have all those pairs."""
    rounds = rounds_of(set().union(*steps))
    ranks, none = traffic.num_ranks, traffic.most_slots
    sizes = np.diff(traffic.start)
    round_of = {pair: place for place, pairs in enumerate(rounds) for pair in pairs}
    widths = np.zeros(len(rounds), dtype=np.int64)
    num_got = np.zeros((ranks, len(steps)), dtype=np.int64)
    for number, step in enumerate(steps):
        for pair, row in step.items():
            widths[round_of[pair]] = max(widths[round_of[pair]], sizes[row])
            num_got[pair[1], number] += 1
    sources = [np.full((ranks, len(steps), width), none, dtype=np.int32) for width in widths]
    order = np.zeros((ranks, len(steps), num_got.max()), dtype=np.int32)
    adds = np.full((*order.shape, widths.max()), none + 1, dtype=np.int32)
    copies, num_got = adds.copy(), 0 * num_got
    for number, step in enumerate(steps):
        for (sender, rank), row in sorted(step.items()):
            part = slice(traffic.start[row], traffic.start[row + 1])
            chunks, written = traffic.chunk[part], traffic.adds[part]
            place = num_got[rank, number]
            num_got[rank, number] += 1
            order[rank, number, place] = round_of[sender, rank]
            sources[round_of[sender, rank]][sender, number, : len(chunks)] = slot[sender, chunks]
            where = slot[rank, chunks]
            adds[rank, number, place, : len(chunks)] = np.where(written, where, none + 1)
            copies[rank, number, place, : len(chunks)] = np.where(written, none + 1, where)
    both = [table if (table <= none).any() else None for table in (adds, copies)]
    return StepTables(tuple(map(tuple, rounds)), tuple(sources), order, *both)
