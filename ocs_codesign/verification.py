"""Independent check of schedules: replay every send, then recompute what the schedule costs.

Nothing here is shared with the code that makes schedules: the replay knows only the links, the
columns and the pre- and postcondition of the collective.

* Copies (allgather): a node sends a chunk only after the step in which it received it, receives
  every chunk exactly once, and in the end holds all.
* Sums (reduce-scatter): a node sends its partial sum of a chunk exactly once, after the last
  contribution it received; the root never does. So every contribution arrives exactly once.
* Allreduce: phase 0 sums, phase 1 copies; a root may copy a chunk out only after its last
  contribution arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedule import Schedule

_BLOCK_ENTRIES = 2**27
_MARK_CHUNKS = 2**24

_RULES = {
    1: "the sender does not hold this chunk before the step",
    2: "the receiver already holds this chunk",
    3: "the root sends away the sum that must end with it",
    4: "the sender has already sent its partial sum of this chunk",
    5: "the sender receives a contribution in this very step, so its partial sum is incomplete",
    6: "the receiver has already sent its partial sum of this chunk, so the contribution is lost",
}


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """Where a schedule first breaks a rule: the send (row, step, link) or the node left without.

    ``row``, ``step`` and ``link`` are None when something is missing rather than wrong; ``node`` is
    then the node that lacks the chunk or never contributes to it. ``root`` and ``chunk`` are None
    for a claimed cost that the sends do not have.
    """

    rule: str
    root: int | None = None
    chunk: int | None = None
    node: int | None = None
    row: int | None = None
    step: int | None = None
    link: int | None = None

    def __str__(self) -> str:
        names = ("row", "step", "link", "root", "chunk", "node")
        known = [
            f"{name} {getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        return ", ".join(known) + (": " if known else "") + self.rule


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What the replay found: the cost recomputed from the sends, and the first witness if any.

    ``max_loads`` are the largest link loads of the steps in shards a unit of link speed.
    """

    cost: Cost
    max_loads: tuple[Fraction, ...]
    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the schedule achieves its collective (and has the claimed cost, if one was)."""
        return self.witness is None


def verify(schedule: Schedule, claimed: Cost | None = None) -> Verdict:
    """Replay a schedule and recompute its cost; ``claimed`` must then be exactly that cost.

    Roots are replayed in blocks that fit in memory; the witness is the first bad send of the first
    block that fails, or else the first thing missing.

    >>> from ocs_codesign.topology import Topology
    >>> from ocs_codesign.schedule import Schedule
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> half = Schedule(pair, Collective.ALLGATHER, 1, [0], [0], [1], [0], [1])
    >>> print(verify(half).witness)
    root 1, chunk 0, node 0: the node never receives this chunk
    """
    max_loads = _max_loads(schedule)
    total = sum(max_loads, Fraction(0))
    topology = schedule.topology
    # B is the largest egress of a node and a shard is M/N: see Topology.node_speed.
    cost = Cost(len(max_loads), total * topology.node_speed() / topology.num_nodes)
    witness = _replay(schedule)
    if witness is None and claimed is not None and claimed != cost:
        witness = Witness(
            f"the claimed cost is {claimed.steps} steps and t_b {claimed.t_b}, "
            f"the sends take {cost.steps} steps and t_b {cost.t_b}"
        )
    return Verdict(cost, max_loads, witness)


def _max_loads(schedule: Schedule) -> tuple[Fraction, ...]:
    """Largest load / speed of every step; the sends are sorted by (step, link)."""
    step, link = schedule.step, schedule.link
    if not len(step):
        return ()
    changes = (step[1:] != step[:-1]) | (link[1:] != link[:-1])
    start = np.concatenate([[0], np.flatnonzero(changes) + 1])
    load = np.add.reduceat(schedule.hi.astype(np.int64) - schedule.lo, start)
    step, speed = step[start], schedule.topology.speeds()[link[start]]
    loads = [Fraction(0)] * int(step[-1])
    for value in np.unique(speed).tolist():
        here = np.flatnonzero(speed == value)
        first = np.flatnonzero(np.diff(step[here], prepend=-1))
        top = np.maximum.reduceat(load[here], first)
        for at, chunks in zip(step[here][first].tolist(), top.tolist(), strict=True):
            loads[at - 1] = max(loads[at - 1], Fraction(chunks, value * schedule.num_chunks))
    return tuple(loads)


def _replay(schedule: Schedule) -> Witness | None:
    """The first witness of the first block of roots that fails."""
    lo, hi, pieces = _pieces(schedule)
    columns = [schedule.root, lo, hi, schedule.link, schedule.step]
    nodes = schedule.topology.num_nodes
    block = max(1, _BLOCK_ENTRIES // (nodes * len(pieces)))
    sums, copies = (
        None if rows is None else _Sends(schedule, pieces, rows, [c[rows] for c in columns])
        for rows in _split_phases(schedule)
    )
    for first in range(0, nodes, block):
        roots = np.arange(first, min(nodes, first + block))
        held_since = np.zeros((len(roots), len(pieces)), dtype=np.int32)
        witness = None
        if sums is not None:
            witness, held_since = _replay_sums(sums, roots)
        if copies is not None and witness is None:
            witness = _replay_copies(copies, roots, held_since)
        if witness is not None:
            return witness
    return None


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sends:
    """The rows of a schedule that sum or copy, lo and hi counted in pieces."""

    schedule: Schedule
    pieces: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: list[NDArray[np.int32]]

    def bad(self, at: int, piece: int, fault: int) -> Witness:
        """Witness of the send at a position among these rows."""
        row = int(self.rows[at])
        return Witness(
            _RULES[fault],
            int(self.schedule.root[row]),
            int(self.pieces[piece]),
            None,
            row,
            int(self.schedule.step[row]),
            int(self.schedule.link[row]),
        )

    def missing(self, rule: str, root: int, piece: int, node: int) -> Witness:
        """Witness of something that never happens."""
        return Witness(rule, int(root), int(self.pieces[piece]), int(node))


def _replay_sums(
    sends: _Sends, roots: NDArray[np.int64]
) -> tuple[Witness | None, NDArray[np.int32]]:
    """First witness of the sends that sum, and the step at which every root's sum is complete."""
    from ocs_codesign.replay_kernels import first_unsent, replay_reduce

    topology, first = sends.schedule.topology, int(roots[0])
    state = np.zeros((len(roots), topology.num_nodes, len(sends.pieces)), dtype=np.int32)
    complete = state[roots - first, roots]
    at, piece, fault = replay_reduce(topology.tail, topology.head, *sends.columns, first, state)
    if fault:
        return sends.bad(at, piece, fault), complete
    block, node, piece = first_unsent(state, first)
    if block >= 0:
        rule = "the node's contribution to this chunk is never sent"
        return sends.missing(rule, first + block, piece, node), complete
    return None, state[roots - first, roots]


def _replay_copies(
    sends: _Sends, roots: NDArray[np.int64], own_since: NDArray[np.int32]
) -> Witness | None:
    """First witness of the sends that copy; a root holds its own chunks from ``own_since`` on."""
    from ocs_codesign.replay_kernels import NEVER, first_unheld, replay_gather

    topology, first = sends.schedule.topology, int(roots[0])
    shape = (len(roots), topology.num_nodes, len(sends.pieces))
    held_since = np.full(shape, NEVER, dtype=np.int32)
    held_since[roots - first, roots] = own_since
    at, piece, fault = replay_gather(
        topology.tail, topology.head, *sends.columns, first, held_since
    )
    if fault:
        return sends.bad(at, piece, fault)
    block, node, piece = first_unheld(held_since)
    if block >= 0:
        return sends.missing("the node never receives this chunk", first + block, piece, node)
    return None


def _split_phases(
    schedule: Schedule,
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Rows that sum and rows that copy; None for what the collective does not do."""
    rows = np.arange(schedule.num_sends)
    if schedule.phase is not None:
        return rows[schedule.phase == 0], rows[schedule.phase == 1]
    return (None, rows) if schedule.collective is Collective.ALLGATHER else (rows, None)


def _pieces(
    schedule: Schedule,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Columns lo and hi counted in pieces that no send splits, and every piece's first chunk."""
    if schedule.num_chunks <= _MARK_CHUNKS:
        marked = np.zeros(schedule.num_chunks + 1, dtype=bool)
        marked[schedule.lo] = marked[schedule.hi] = marked[0] = marked[-1] = True
        edges = np.flatnonzero(marked)
        number = (np.cumsum(marked) - 1).astype(np.int32)
        return number[schedule.lo], number[schedule.hi], edges[:-1]
    edges = np.unique(np.concatenate([schedule.lo, schedule.hi, [0, schedule.num_chunks]]))
    lo = np.searchsorted(edges, schedule.lo).astype(np.int32)
    return lo, np.searchsorted(edges, schedule.hi).astype(np.int32), edges[:-1]
