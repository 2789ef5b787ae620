"""Messages of a program: which sends travel as one, and which receives meet them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.rank_program import RECEIVE, RECEIVE_ADD, SEND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.rank_program import RankProgram


@final
@dataclass(frozen=True, slots=True, eq=False)
class JoinedSends:
    """Messages in the order of (turn, source, target, channel), which is that of their tags.

    ``turn`` is the step of a message, or, where the program has no steps, how many its link has had
    with it. ``chunks`` (int64) is its size, ``adds`` (bool) whether its receiver adds it up, and
    ``of_operation`` (int64, -1 where there is none) the message of every send and receive.
    """

    turn: NDArray[np.int64]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    channel: NDArray[np.int32]
    chunks: NDArray[np.int64]
    adds: NDArray[np.bool_]
    of_operation: NDArray[np.int64]

    def before_in_chain(self, *, by_rank: bool) -> NDArray[np.int64]:
        """The message before each on its pair of ranks, -1 for the first.

        Links between the same two ranks are one to ASTRA-sim, so all of them make one chain; if
        ``by_rank``, so do all messages of a rank, in every turn those to the next ranks first, so
        that not all ranks send to one.
        """
        ranks = int(max(self.source.max(initial=0), self.target.max(initial=0))) + 1
        ahead = (self.target - self.source) % ranks
        chain = np.zeros_like(ahead) if by_rank else ahead
        order = np.lexsort((np.arange(len(ahead)), ahead, self.turn, chain, self.source))
        before = np.full(len(order), -1)
        same = (np.diff(self.source[order]) == 0) & (np.diff(chain[order]) == 0)
        before[order[1:]] = np.where(same, order[:-1], -1)
        return before


def stream_before(program: RankProgram) -> NDArray[np.int64]:
    """The operation before each in its stream, -1 for the first."""
    order = np.lexsort((program.stream, program.rank))
    same = (np.diff(program.rank[order]) == 0) & (np.diff(program.stream[order]) == 0)
    before = np.full(program.num_operations, -1)
    before[order[1:]] = np.where(same, order[:-1], -1)
    return before


def joined_sends(program: RankProgram, *, joined: bool) -> JoinedSends:
    """The messages of a program, of neighbouring sends of a step and channel if ``joined``.

    Raises ValueError for sends without receives and the reverse, for those of different sizes, and
    where two streams share a channel, so that nothing says which is first.
    """
    sends, receives = _matched(program)
    previous = stream_before(program)
    turn = program.step[sends].astype(np.int64)
    adds = program.kind[receives] == RECEIVE_ADD
    rank, peer, channel = (
        column[sends] for column in (program.rank, program.peer, program.channel)
    )
    same_link = np.ones(max(len(sends) - 1, 0), dtype=bool)
    for column in (rank, peer, channel):
        same_link &= np.diff(column) == 0
    together = np.zeros(len(sends), dtype=bool)
    if joined and len(sends):
        together[1:] = same_link & (previous[sends[1:]] == sends[:-1])
        together[1:] &= (np.diff(turn) == 0) & (turn[1:] > 0) & (np.diff(adds) == 0)
    number = np.cumsum(~together) - 1
    first = np.flatnonzero(~together)
    chunks = np.zeros(len(first), dtype=np.int64)
    np.add.at(chunks, number, program.count[sends])
    if (chunks == 0).any():
        row = int(sends[first[(chunks == 0).argmax()]])
        raise ValueError(f"operation {row} sends nothing: a message has a chunk at least")
    begins = np.append(True, ~same_link)[: len(sends)][first]
    since = np.arange(len(first)) - np.maximum.accumulate(
        np.where(begins, np.arange(len(first)), 0)
    )
    turn = np.where(turn[first] > 0, turn[first], since + 1)
    if ((np.diff(turn) < 0) & ~begins[1:]).any():
        turn = since + 1  # steps that do not follow each other on a link are no order
    order = np.lexsort((since, channel[first], peer[first], rank[first], turn))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    of_operation = np.full(program.num_operations, -1)
    of_operation[sends] = of_operation[receives] = place[number]
    at = first[order]
    return JoinedSends(
        turn[order], rank[at], peer[at], channel[at], chunks[order], adds[at], of_operation
    )


def _matched(program: RankProgram) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sends sorted by link, and the receives that they meet."""
    sends = np.flatnonzero(program.kind == SEND)
    receives = np.flatnonzero((program.kind == RECEIVE) | (program.kind == RECEIVE_ADD))
    ends = (
        _by_link(program, sends, program.rank, program.peer),
        _by_link(program, receives, program.peer, program.rank),
    )
    links = [
        np.stack([source[rows], target[rows], program.channel[rows]])
        for rows, source, target in (
            (ends[0], program.rank, program.peer),
            (ends[1], program.peer, program.rank),
        )
    ]
    length = min(len(sends), len(receives))
    wrong = (links[0][:, :length] != links[1][:, :length]).any(axis=0)
    if wrong.any() or len(sends) != len(receives):
        at = int(wrong.argmax()) if wrong.any() else length
        # The link that sorts first is the one that lacks a partner.
        told = min(tuple(link[:, at].tolist()) for link in links if at < link.shape[1])
        source, target, channel = told
        raise ValueError(
            f"rank {source} sends to {target} over channel {channel} more or less often than it "
            "receives there"
        )
    unlike = program.count[ends[0]] != program.count[ends[1]]
    if unlike.any():
        at = int(unlike.argmax())
        send, receive = int(ends[0][at]), int(ends[1][at])
        raise ValueError(
            f"operation {send} sends {program.count[send]} chunks, but operation {receive}, which "
            f"meets it, receives {program.count[receive]}"
        )
    return ends


def _by_link(
    program: RankProgram,
    rows: NDArray[np.int64],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Sends or receives sorted by link, in their order on it; each link must have one stream."""
    order = np.lexsort((program.channel[rows], target[rows], source[rows]))
    rows = rows[order]
    same = np.ones(max(len(rows) - 1, 0), dtype=bool)
    for column in (source, target, program.channel):
        same &= np.diff(column[rows]) == 0
    shared = same & (np.diff(program.stream[rows]) != 0)
    if shared.any():
        row = int(rows[int(shared.argmax())])
        raise ValueError(
            f"rank {program.rank[row]} has two streams with rank {program.peer[row]} over channel "
            f"{program.channel[row]}: nothing says which is first"
        )
    return rows
