"""Hops: what goes from rank to rank in which step, of a schedule or of messages, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.demand import COPY, MOVE, SUM, demands_of
from ocs_codesign.lowering.switches import between_hosts
from ocs_codesign.messages import SUMMING
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.messages import Messages

_NAMES = ("step", "line", "sender", "receiver", "channel", "lo", "hi", "kind", "adds", "piece")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """Chunks [``lo``, ``hi``) of one item each, from rank to rank, sorted by (step, line).

    Chunks (int64) are counted over all items, as units of weight are. A ``line`` is one channel
    from one rank to another. ``kind`` (int8) is what happens to the item, COPY, MOVE or SUM;
    ``adds`` (bool) whether what is summed is added up rather than kept as the whole sum. With
    ``is_twofold`` sums are copied out again, of the same pieces; with ``rewrites`` ranks may send
    parts of sums to which something is added later.
    """

    demands: tuple[Demand, ...]
    chunks_per_unit: int
    step: NDArray[np.int32]
    line: NDArray[np.int64]
    sender: NDArray[np.int32]
    receiver: NDArray[np.int32]
    channel: NDArray[np.int32]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    kind: NDArray[np.int8]
    adds: NDArray[np.bool_]
    piece: NDArray[np.int64]
    rewrites: bool = False

    @staticmethod
    def names() -> tuple[str, ...]:
        """The columns."""
        return _NAMES

    @property
    def is_twofold(self) -> bool:
        """Whether it is an allreduce."""
        return len(self.demands) > 1

    def at(
        self,
        rows: NDArray[Any],
        lo: NDArray[np.int64] | None = None,
        hi: NDArray[np.int64] | None = None,
        piece: NDArray[np.int64] | None = None,
    ) -> Hops:
        """Some of the hops, perhaps cut to other chunks, of other pieces then."""
        columns = {name: getattr(self, name)[rows] for name in _NAMES}
        if lo is not None and hi is not None:
            columns |= {"lo": lo, "hi": hi}
        if piece is not None:
            columns["piece"] = piece
        return replace(self, **columns)


def hops_of(plan: Schedule | Messages) -> Hops:
    """The hops between hosts of a schedule, whose links may lead over switches, or of messages."""
    if isinstance(plan, Schedule):
        return between_hosts(_of_schedule(plan), plan.num_hosts)
    return _of_messages(plan)


def _of_schedule(schedule: Schedule) -> Hops:
    demands, topology, link = schedule.demands, schedule.topology, schedule.link
    first = demands[0].first_units()[demands[0].piece_start[:-1]] * schedule.chunks_per_unit
    kinds = np.stack([demand.kind for demand in demands])
    phase = 0 if schedule.phase is None else schedule.phase
    kind = kinds[phase, schedule.item]
    return Hops(
        demands,
        schedule.chunks_per_unit,
        schedule.step,
        link.astype(np.int64),
        topology.tail[link],
        topology.head[link],
        channels(topology.tail, topology.head)[link],
        first[schedule.item] + schedule.lo,
        first[schedule.item] + schedule.hi,
        kind,
        kind == SUM,
        demands[0].piece_start[schedule.item],
    )


def channels(tail: NDArray[np.int32], head: NDArray[np.int32]) -> NDArray[np.int32]:
    """The number of every link among those between the same nodes.

    >>> channels(np.array([0, 1, 0, 0]), np.array([1, 0, 1, 2])).tolist()
    [0, 0, 1, 0]
    """
    order = np.lexsort((head, tail))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(tail[order]) != 0) | (np.diff(head[order]) != 0)
    count = np.arange(len(order))
    number = np.empty(len(order), dtype=np.int32)
    number[order] = count - np.maximum.accumulate(np.where(new, count, 0))
    return number


def _of_messages(messages: Messages) -> Hops:
    """Items are as large as chunks allow, where whole numbers of both make a unit of weight."""
    demands = demands_of(messages.collective, messages.num_ranks)
    units = int(demands[0].weight.sum())
    chunks_per_unit = lcm(units, messages.num_items) // units
    size = units * chunks_per_unit // messages.num_items
    item = messages.item.astype(np.int64) * size  # items are counted as pieces are
    is_sum = messages.collective.name in SUMMING
    kind = SUM if is_sum else COPY if demands[0].kind[0] == COPY else MOVE
    sender, receiver = messages.source, messages.target
    return Hops(
        demands,
        chunks_per_unit,
        messages.step,
        sender.astype(np.int64) * messages.num_ranks + receiver,
        sender,
        receiver,
        np.zeros(len(sender), dtype=np.int32),
        item,
        item + size,
        np.full(len(sender), kind, dtype=np.int8),
        messages.adds,
        np.zeros(len(sender), dtype=np.int64),
        rewrites=is_sum,
    )
