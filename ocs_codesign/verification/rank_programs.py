"""Independent check of programs of ranks: run once with sets for data, since the order is fixed.

Nothing here is shared with the code that makes programs: it knows only the operations and what the
collective demands. Checked in this order:

* Bounds: every operation stays within the buffers that it names, and none copies a slot onto
  itself or one that it reads.
* Partners: the k-th send over a channel meets the k-th receive, of as many chunks, and the k-th
  signal the k-th wait; none is left over, so that all channels and counters end empty.
* Deadlock: what operations wait for, in their stream, for others of their rank, for what is sent
  and for a place in a channel that holds so many sends, has no circle.
* Races: every two accesses of a slot of which one writes are ordered, by streams, needs, sends and
  signals; so are every two operations that meet others over one channel. Places in channels order
  nothing, since a deeper one would not. As order is transitive, every write is held against the
  next one and against the reads between.
* Data: one run, in any order that is possible, with the set of ranks whose contribution is in
  every slot. Sets that are added have nothing in common; in the end all is there that is demanded.

Since all accesses are in one order, every other run does the same. What it cannot see: how memory
of a machine orders accesses within an operation, faults of protocols, and speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.rank_program import (
    ADD,
    BUFFERS,
    COPY,
    GET,
    NOP,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.verification.rank_program_data import cells_with, data_of, wrong_data
from ocs_codesign.verification.rank_program_order import order_of, told
from ocs_codesign.verification.rank_program_races import race_of
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.rank_program import RankProgram

OUT_OF_BOUNDS = "this reaches beyond the {buffer} of rank {rank}, which has {size} chunks"
ONTO_ITSELF = "this reads slots that it writes"


@final
@dataclass(frozen=True, slots=True)
class RankProgramVerdict:
    """What the interpreter found: the first witness if any."""

    witness: Witness | None

    @property
    def ok(self) -> bool:
        """Whether the program ends, in whatever order its operations run, with what is demanded."""
        return self.witness is None

    def __bool__(self) -> bool:
        """The same: a verdict is true if nothing is wrong."""
        return self.ok


def check_program(program: RankProgram, *, fifo_depth: int | None = None) -> RankProgramVerdict:
    """Run a program with sets for data; channels hold ``fifo_depth`` sends, or any number (None).

    The depth decides about deadlocks alone. The witness names rank and operation. An allgather of a
    thousand ranks takes seconds; time grows with operations times streams only for what neither its
    rank nor the way of a chunk orders. Raises ValueError for a depth below 1.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.rank_program import OUTPUT, RECEIVE, SEND, RankProgram
    >>> columns = {"rank": [0, 0, 1, 1], "stream": [0, 1, 0, 1], "kind": [SEND, RECEIVE] * 2,
    ...     "peer": [1, 1, 0, 0], "source_buffer": [OUTPUT] * 4, "source": [0, 0, 1, 0],
    ...     "target_buffer": [OUTPUT] * 4, "target": [0, 1, 0, 0], "count": [1] * 4}
    >>> swap = RankProgram(Collective.ALLGATHER, 2, 1, True, [0, 0], columns)
    >>> check_program(swap, fifo_depth=2).ok
    True
    >>> columns["target"] = [0, 1, 0, 1]
    >>> wrong = RankProgram(Collective.ALLGATHER, 2, 1, True, [0, 0], columns)
    >>> check_program(wrong).witness.rank, check_program(wrong).witness.rule.split(",")[0]
    (1, 'nothing orders this and operation 2')
    """
    if fifo_depth is not None and fifo_depth < 1:
        raise ValueError(f"fifo_depth is {fifo_depth}: a channel holds a send or more")
    sizes = np.stack(program.buffer_sizes(), axis=1)
    base = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    witness = _out_of_bounds(program, sizes)
    if witness is not None:
        return RankProgramVerdict(witness)
    order = order_of(program, fifo_depth)
    if isinstance(order, Witness):
        return RankProgramVerdict(order)
    sides = data_of(program, base)
    cells = cells_with(order, base, sides)
    return RankProgramVerdict(race_of(order, base, cells) or wrong_data(order, base, cells, sides))


def _out_of_bounds(program: RankProgram, sizes: NDArray[np.int64]) -> Witness | None:
    """The first operation beyond a buffer, or that writes what it reads."""
    kind, count = program.kind, program.count.astype(np.int64)
    at_peer = np.isin(kind, (PUT, GET))
    owner = np.where(at_peer, program.peer, program.rank)
    touches = ~np.isin(kind, (NOP, SIGNAL, WAIT))
    alone = np.isin(kind, (COPY, ADD))
    reads_here = touches & ~np.isin(kind, (RECEIVE, RECEIVE_ADD))
    writes_here = touches & (kind != SEND)
    for side, rank, buffer, first in (
        (reads_here, program.rank, program.source_buffer, program.source),
        (writes_here, owner, program.target_buffer, program.target),
    ):
        size = sizes[rank, buffer]
        beyond = np.flatnonzero(side & (first + count > size))
        if len(beyond):
            at = int(beyond[0])
            named = {"buffer": BUFFERS[int(buffer[at])], "rank": int(rank[at])}
            return told(program, at, OUT_OF_BOUNDS.format(size=int(size[at]), **named))
    same = (program.source_buffer == program.target_buffer) & (owner == program.rank)
    same &= np.abs(program.source.astype(np.int64) - program.target) < count
    onto = np.flatnonzero(same & (alone | at_peer))
    return told(program, int(onto[0]), ONTO_ITSELF) if len(onto) else None
