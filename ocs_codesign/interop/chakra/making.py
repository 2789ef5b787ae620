"""Graphs of execution traces made from programs of ranks.

A message is a send at one rank and a receive at another, with a tag of its own. Receives are posted
at once; what they bring is added by a computation of no time, which ASTRA-sim takes for 1 ns. A
send waits for what brings its rank what it sends, and for the send before it on its link, because
ASTRA-sim issues what is ready in any order. Copies inside a rank take no time: who waits for one
waits for what it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.given import whole
from ocs_codesign.core.plans import ADD, COPY, KINDS, NOP, RECEIVE, RECEIVE_ADD, SEND
from ocs_codesign.core.topology import places, starts_of
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.graph import MAX_TAG, EtGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.plans import RankProgram


# Messages of a program: which sends travel as one, and which receives meet them.


@final
@dataclass(frozen=True, slots=True, eq=False)
class _JoinedSends:
    """Messages by turn, source, ranks that the target is ahead, and channel, as their tags are.

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

    def before_in_chain(self) -> NDArray[np.int64]:
        """The message before each on its pair of ranks, -1 for the first.

        Links between the same two ranks are one to ASTRA-sim, so all of them make one chain.
        """
        order = np.lexsort((np.arange(len(self.turn)), self.turn, self.target, self.source))
        before = np.full(len(order), -1)
        same = (np.diff(self.source[order]) == 0) & (np.diff(self.target[order]) == 0)
        before[order[1:]] = np.where(same, order[:-1], -1)
        return before


def stream_before(program: RankProgram) -> NDArray[np.int64]:
    """The operation before each in its stream, -1 for the first."""
    order = np.lexsort((program.stream, program.rank))
    same = (np.diff(program.rank[order]) == 0) & (np.diff(program.stream[order]) == 0)
    before = np.full(program.num_operations, -1)
    before[order[1:]] = np.where(same, order[:-1], -1)
    return before


def joined_sends(program: RankProgram, *, joined: bool) -> _JoinedSends:
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
    # What is ready is issued by number: to the next ranks first, so that not all send to one.
    ahead = (peer - rank) % program.num_ranks
    order = np.lexsort((since, channel[first], ahead[first], rank[first], turn))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    of_operation = np.full(program.num_operations, -1)
    of_operation[sends] = of_operation[receives] = place[number]
    at = first[order]
    return _JoinedSends(
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


MAX_BYTES = 2**62
_SENT, _GOT, _ADDED = range(3)
_LETTERS = ("s", "r", "a")
IDLE = "idle"
"""Name of the only node of a rank that neither sends nor receives: a trace has a node at least."""


def graph_of_program(program: RankProgram, message_bytes: int, *, joined: bool = True) -> EtGraph:
    """The traces of a program for M = ``message_bytes``.

    Neighbouring sends of a stream with the same positive step, peer and channel travel as one
    message if ``joined``. A message of n chunks of M / (units x chunks a unit) bytes each has
    n times as many bytes, rounded up to a whole number: no less than the data, and less than a byte
    more. A send waits for the one before on its pair of ranks. Raises ValueError for a program with
    one-sided operations, or whose sends and receives do not meet.
    """
    two_sided = (SEND, RECEIVE, RECEIVE_ADD, COPY, ADD, NOP)
    foreign = ~np.isin(program.kind, two_sided)
    if foreign.any():
        row = int(foreign.argmax())
        raise ValueError(
            f"operation {row} is a {KINDS[program.kind[row]]}: Chakra has sends and receives"
        )
    messages = joined_sends(program, joined=joined)
    if len(messages.turn) >= MAX_TAG:
        raise ValueError(f"{len(messages.turn)} messages: tags are below {MAX_TAG}")
    size = _sizes(program, messages.chunks, whole(message_bytes, "message_bytes"))
    local = _local_additions(program)
    nodes = _Nodes(program.num_ranks, messages, local, size)
    return nodes.graph(*_waits(program, messages, local))


def _sizes(
    program: RankProgram, chunks: NDArray[np.int64], message_bytes: int
) -> NDArray[np.int64]:
    """Bytes of messages of so many chunks, rounded up."""
    units = max(demand.message_units for demand in program.demands) * program.chunks_per_unit
    if not 1 <= message_bytes < MAX_BYTES:
        raise ValueError(f"message_bytes is {message_bytes}: it is from 1 to 2^62 - 1")
    different, number = np.unique(chunks, return_inverse=True)
    sizes = [-(-count * message_bytes // units) for count in different.tolist()]
    return np.array(sizes, dtype=np.int64)[number] if sizes else chunks


def _local_additions(program: RankProgram) -> NDArray[np.int64]:
    """The computation of every local addition, from 0, neighbours of a step in one; -1 for none."""
    rows = np.flatnonzero(program.kind == ADD)
    rows = rows[np.lexsort((rows, program.stream[rows], program.rank[rows]))]
    previous = stream_before(program)
    follows = np.zeros(len(rows), dtype=bool)
    follows[1:] = (previous[rows[1:]] == rows[:-1]) & (np.diff(program.step[rows]) == 0)
    follows &= program.step[rows] > 0
    number = np.full(program.num_operations, -1)
    number[rows] = np.cumsum(~follows) - 1
    return number


def _waits(
    program: RankProgram, messages: _JoinedSends, local: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Who waits for whom, as rows of ``_Nodes``, whether for data, and the turn of additions."""
    num, kind, message = len(messages.turn), program.kind, messages.of_operation
    addition = np.cumsum(messages.adds) - 1
    num_added = int(messages.adds.sum())
    # Rows of _Nodes: sends, receives, additions of what was received, local additions.
    node = np.full(program.num_operations, -1)
    node[kind == SEND] = message[kind == SEND]
    node[kind == RECEIVE] = num + message[kind == RECEIVE]
    node[kind == RECEIVE_ADD] = 2 * num + addition[message[kind == RECEIVE_ADD]]
    node[kind == ADD] = 2 * num + num_added + local[kind == ADD]
    owner, needed = _resolved(program, node >= 0)
    brings = np.isin(kind[needed], (RECEIVE, RECEIVE_ADD, ADD))
    uses = np.isin(kind[owner], (SEND, ADD))
    before = messages.before_in_chain()
    chained = np.flatnonzero(before >= 0)
    added = np.flatnonzero(messages.adds)
    who = np.concatenate([node[owner], chained, 2 * num + addition[added]])
    whom = np.concatenate([node[needed], before[chained], num + added])
    is_data = np.concatenate([brings & uses, chained < 0, added >= 0])
    order = np.lexsort((~is_data, whom, who))
    who, whom, is_data = who[order], whom[order], is_data[order]
    new = np.append(True, (np.diff(who) != 0) | (np.diff(whom) != 0))[: len(who)]
    new &= who != whom
    turn = np.zeros(int(local.max(initial=-1)) + 1, dtype=np.int64)
    rows = np.flatnonzero(local >= 0)
    turn[local[rows]] = program.step[rows]
    rank = np.zeros(len(turn), dtype=np.int64)
    rank[local[rows]] = program.rank[rows]
    return who[new], whom[new], is_data[new], np.stack([rank, turn])


def _resolved(
    program: RankProgram, is_event: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Operations that are nodes, and those nodes that each waits for, through all that is none."""
    kind, previous = program.kind, stream_before(program)
    after = np.flatnonzero(previous >= 0)
    before = previous[after]
    is_send = kind == SEND
    received = (kind == RECEIVE) | (kind == RECEIVE_ADD)
    same_pair = is_send[after] & is_send[before] & (program.peer[after] == program.peer[before])
    posted = received[after] & (received | is_send)[before]
    kept = ~same_pair & ~posted
    after, before = after[kept], before[kept]
    owner = np.repeat(np.arange(program.num_operations), np.diff(program.need_start))
    who = np.concatenate([owner, after])
    whom = np.concatenate([program.need, before])
    # A send is over for its stream once it has begun: who follows waits for what it waited for.
    through = np.concatenate([~is_event[program.need], ~is_event[before] | is_send[before]])
    order = np.argsort(who, kind="stable")
    who, whom, through = who[order], whom[order], through[order]
    start = np.searchsorted(who, np.arange(program.num_operations + 1))
    found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    asked = is_event[who]
    who, goal, passes = who[asked], whom[asked], through[asked]
    while len(who):
        found.append((who[~passes], goal[~passes]))
        who, goal = who[passes], goal[passes]
        run, at = places(start[goal], np.diff(start)[goal])
        who, goal, passes = who[run], whom[at], through[at]
        key = np.unique((who * program.num_operations + goal) * 2 + passes)
        pair, rest = np.divmod(key, 2)
        who, goal = np.divmod(pair, max(program.num_operations, 1))
        passes = rest.astype(bool)
    none = np.zeros(0, dtype=np.int64)
    owners, needed = zip(*found, strict=True) if found else ((none,), (none,))
    return np.concatenate(owners), np.concatenate(needed)


class _Nodes:
    """Nodes before they are in order: sends, receives, additions, local additions, idle ranks."""

    def __init__(
        self,
        num_ranks: int,
        messages: _JoinedSends,
        local: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> None:
        self.num_ranks = num_ranks
        self.messages = messages
        self.size = size
        self.num_local = int(local.max(initial=-1)) + 1

    def graph(
        self,
        who: NDArray[np.int64],
        whom: NDArray[np.int64],
        is_data: NDArray[np.bool_],
        local: NDArray[np.int64],
    ) -> EtGraph:
        """The graph with these waits; ``local`` has the ranks and turns of local additions."""
        messages, num = self.messages, len(self.messages.turn)
        added = np.flatnonzero(messages.adds)
        target = messages.target.astype(np.int64)
        rank = np.concatenate([messages.source, target, target[added], local[0]])
        idle = np.setdiff1d(np.arange(self.num_ranks), rank)
        rank = np.concatenate([rank, idle])
        rest = len(added) + self.num_local + len(idle)
        parts = np.repeat([_SENT, _GOT, _ADDED], [num, num, rest])
        turn = np.concatenate(
            [messages.turn, messages.turn, messages.turn[added], local[1], np.zeros(len(idle))]
        ).astype(np.int64)
        order = np.lexsort((np.arange(len(rank)), parts, turn, rank))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        nothing = np.full(rest, -1)
        tag = np.concatenate([np.arange(num), np.arange(num), nothing])
        peer = np.concatenate([target, messages.source, nothing])
        size = np.concatenate([self.size, self.size, nothing])
        kind = np.array([schema.SEND, schema.RECV, schema.COMP])[parts]
        is_idle = np.arange(len(rank)) >= len(rank) - len(idle)
        names = [
            IDLE if none else f"{_LETTERS[part]}{at}"
            for part, at, none in zip(
                parts[order].tolist(), turn[order].tolist(), is_idle[order].tolist(), strict=True
            )
        ]
        rank = rank[order]
        first = np.searchsorted(rank, np.arange(self.num_ranks))
        number = np.arange(len(rank)) - first[rank] + 1
        by_node = np.lexsort((place[whom], is_data, place[who]))
        counts = np.bincount(place[who], minlength=len(rank))
        return EtGraph(
            self.num_ranks,
            rank.astype(np.int32),
            number,
            kind[order].astype(np.int8),
            tuple(names),
            peer[order].astype(np.int32),
            tag[order],
            size[order],
            np.full(len(rank), -1, dtype=np.int8),
            np.zeros(len(rank), dtype=np.int64),
            starts_of(counts),
            place[whom][by_node],
            is_data[by_node],
        )
