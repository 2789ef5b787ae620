"""Independent check of messages: replay every step with the sets of ranks whose data is in a part.

Nothing here is shared with the code that makes messages: the replay knows only the columns and what
the collective demands.

* Sums: every rank begins with its own contribution to every item. What is added must have nothing
  in common with the part that it is added to, nor with what else is added to it in the step; only a
  whole sum may replace a part. In the end the sums are whole where they are wanted.
* Copies (allgather, broadcast): who sends an item had it before the step; all have all at the end.
* Moves (all-to-all, scatter, gather): an item is at one rank, is sent by that one only, and ends at
  the rank that it is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.network import direct_routes
from ocs_codesign.core.progress import tell
from ocs_codesign.core.schedule import Messages
from ocs_codesign.verification.schedules import verify_on
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Book
    from ocs_codesign.core.schedule import Messages
    from ocs_codesign.core.topology import Topology

    Rows = NDArray[np.int64]
    Fault = tuple[int, str]
    "A row of the messages and the rule that it breaks."


_BLOCK_WORDS = 2**24
_WORD_BITS = 64


def check_messages(messages: Messages) -> Witness | None:
    """Where messages first break a rule of their collective; None if they do what it demands.

    >>> from ocs_codesign.core.collective import Collective
    >>> from ocs_codesign.core.schedule import Messages
    >>> one_way = Messages(2, Collective.ALLGATHER, 2, [1], [0], [1], [0], [False])
    >>> str(check_messages(one_way))
    'chunk 1, node 0: the rank never gets this item'
    """
    replay = {
        "allgather": _replay_copies,
        "broadcast": _replay_copies,
        "reduce-scatter": _replay_sums,
        "allreduce": _replay_sums,
        "reduce": _replay_sums,
    }.get(messages.collective.name, _replay_moves)
    return replay(messages)


def _steps(messages: Messages) -> list[Rows]:
    """The rows of every step."""
    every = np.arange(len(messages.step))
    return np.split(every, np.flatnonzero(np.diff(messages.step)) + 1)


def _faulty(messages: Messages, fault: Fault) -> Witness:
    row, rule = fault
    return Witness(
        rule,
        chunk=int(messages.item[row]),
        node=int(messages.source[row]),
        row=row,
        step=int(messages.step[row]),
    )


def _lacking(rank: Any, item: Any, rule: str) -> Witness:
    return Witness(rule, chunk=int(item), node=int(rank))


def _of_rank(messages: Messages) -> NDArray[np.int64]:
    """The rank whose shard every item is of."""
    return np.arange(messages.num_items) // (messages.num_items // messages.num_ranks)


def _replay_copies(messages: Messages) -> Witness | None:
    items = np.arange(messages.num_items)
    held = np.zeros((messages.num_ranks, messages.num_items), dtype=bool)
    root = messages.collective.root
    held[_of_rank(messages) if root is None else root, items] = True
    for rows in _steps(messages):
        item = messages.item[rows]
        wrong = ~held[messages.source[rows], item]
        if wrong.any():
            rule = "the sender does not hold this item before the step"
            return _faulty(messages, (int(rows[wrong][0]), rule))
        held[messages.target[rows], item] = True
    without = np.argwhere(~held)
    return (
        _lacking(without[0, 0], without[0, 1], "the rank never gets this item")
        if len(without)
        else None
    )


def _replay_moves(messages: Messages) -> Witness | None:
    ranks, items = messages.num_ranks, np.arange(messages.num_items)
    if messages.collective.name == "alltoall":
        at, wanted = np.divmod(items // (messages.num_items // ranks**2), ranks)
    else:
        root = np.full(messages.num_items, messages.collective.root)
        ends = root, _of_rank(messages)
        at, wanted = ends if messages.collective.name == "scatter" else ends[::-1]
    at = at.copy()
    for rows in _steps(messages):
        item = messages.item[rows]
        first = np.zeros(len(rows), dtype=bool)
        first[np.unique(item, return_index=True)[1]] = True
        wrong = ~first | (at[item] != messages.source[rows])
        if wrong.any():
            row = int(rows[wrong][0])
            return _faulty(messages, (row, "the item is not at the sender, or is sent twice"))
        at[item] = messages.target[rows]
    lost = np.flatnonzero(at != wanted)
    return (
        _lacking(wanted[lost[0]], lost[0], "the rank never gets this item") if len(lost) else None
    )


def _replay_sums(messages: Messages) -> Witness | None:
    """Items are independent of each other, so that blocks of them are replayed in turn."""
    ranks, items = messages.num_ranks, messages.num_items
    words = -(-ranks // _WORD_BITS)
    block = max(1, _BLOCK_WORDS // (ranks * words))
    faults: list[Fault] = []
    lacking: list[Witness] = []
    for begin in range(0, items, block):
        end = min(items, begin + block)
        parts = np.zeros((ranks, end - begin, words), dtype=np.uint64)
        rank = np.arange(ranks)
        bit = np.uint64(1) << (rank % _WORD_BITS).astype(np.uint64)
        parts[rank, :, rank // _WORD_BITS] = bit[:, None]
        in_block = (messages.item >= begin) & (messages.item < end)
        fault = _first_fault(messages, parts, begin, in_block)
        if fault is not None:
            faults.append(fault)
        elif not faults:
            lacking += _without_sum(messages, parts, begin)
    if faults:
        return _faulty(messages, min(faults))
    return lacking[0] if lacking else None


def _first_fault(
    messages: Messages, parts: NDArray[np.uint64], begin: int, in_block: NDArray[np.bool_]
) -> Fault | None:
    """Replay the rows of a block of items, whose parts are changed; the first fault if any."""
    for whole_step in _steps(messages):
        rows = whole_step[in_block[whole_step]]
        if not len(rows):
            continue
        item = messages.item[rows] - begin
        sent, to = parts[messages.source[rows], item], (messages.target[rows], item)
        adds = messages.adds[rows]
        partial = ~adds & (_sizes(sent) < messages.num_ranks)
        if partial.any():
            return int(rows[partial][0]), "a part of the sum would replace another"
        place = to[0].astype(np.int64) * parts.shape[1] + item
        both = adds & np.isin(place, place[~adds])
        if both.any():
            return int(rows[both][0]), "the receiver gets the whole sum in this very step"
        order = np.flatnonzero(adds)
        order = order[np.argsort(place[order], kind="stable")]
        if len(order):
            start = np.flatnonzero(np.diff(place[order], prepend=-1))
            first = order[start]
            own = parts[to[0][first], item[first]]
            union = np.bitwise_or.reduceat(sent[order], start) | own
            overlap = _sizes(union) < _sizes(own) + np.add.reduceat(_sizes(sent[order]), start)
            if overlap.any():
                return int(rows[first[overlap]].min()), "a contribution would be counted twice"
            parts[to[0][first], item[first]] = union
        parts[to[0][~adds], item[~adds]] = sent[~adds]
    return None


def _without_sum(messages: Messages, parts: NDArray[np.uint64], begin: int) -> list[Witness]:
    """The first rank that must have a whole sum of a block of items and has not."""
    item = np.arange(begin, begin + parts.shape[1])
    whole = _sizes(parts) == messages.num_ranks
    wanted = np.ones_like(whole)
    if messages.collective.name == "reduce-scatter":
        wanted = np.arange(messages.num_ranks)[:, None] == _of_rank(messages)[item]
    elif messages.collective.name == "reduce":
        wanted = np.arange(messages.num_ranks)[:, None] == messages.collective.root
        wanted = np.broadcast_to(wanted, whole.shape)
    without = np.argwhere(wanted & ~whole)[:1]
    rule = "the sum of this item never gets to the rank"
    return [_lacking(rank, begin + at, rule) for rank, at in without]


def _sizes(sets: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many ranks are in every set, whose words are the last axis."""
    sizes: NDArray[np.int64] = np.bitwise_count(sets).sum(axis=-1, dtype=np.int64)
    return sizes


# Whether paths over virtual channels can block each other: replayed on links times channels.


def check_channels(
    topology: Topology,
    start: NDArray[np.int64],
    link: NDArray[np.int64],
    channel: NDArray[np.int64],
) -> Witness | None:
    """The first path that is none or goes back to a lower channel, or a link in a cycle; else None.

    Path i takes ``link[start[i] : start[i + 1]]`` in these channels. What waits for nothing is
    taken away again and again: what is left has a cycle.
    """
    inner = np.ones(len(link), dtype=bool)
    inner[start[1:] - 1] = False
    before = np.flatnonzero(inner)
    after = before + 1
    for broken, rule in (
        (topology.head[link[before]] != topology.tail[link[after]], "a path is not connected"),
        (channel[before] > channel[after], "a path goes back to a lower virtual channel"),
    ):
        if broken.any():
            hop = int(before[np.argmax(broken)])
            row = int(np.searchsorted(start, hop, "right")) - 1
            return Witness(rule, link=int(link[hop]), row=row)
    state = channel * topology.num_links + link
    count = int(state.max(initial=-1)) + 1
    pairs = np.unique(state[before] * count + state[after])
    tail, head = np.divmod(pairs, max(1, count))
    while len(tail):
        waits = np.bincount(tail, minlength=count) > 0
        kept = waits[head]
        if kept.all():
            at, lane = int(tail[0]) % topology.num_links, int(tail[0]) // topology.num_links
            return Witness(f"the dependencies of virtual channel {lane} have a cycle", link=at)
        tail, head = tail[kept], head[kept]
    return None


# Independent check of books: every plan does what is demanded, over links that the network has.


def check_book(book: Book) -> list[Witness | None]:
    """Of every page the first thing that is wrong with its plan, None if nothing is."""
    found: list[Witness | None] = []
    for page in book.pages:
        plan = page.plan
        if isinstance(plan, Messages):
            found.append(check_messages(plan))
        else:
            found.append(verify_on(direct_routes(plan.topology, book.network), plan).witness)
        tell(len(found), len(book.pages))
    return found
