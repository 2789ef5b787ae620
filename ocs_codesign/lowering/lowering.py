"""From a verified plan to what every rank does: operations on buffers, and what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.collective import CUSTOM
from ocs_codesign.lowering.hops import hops_of
from ocs_codesign.lowering.needs import needs_of
from ocs_codesign.lowering.placement import Placement
from ocs_codesign.lowering.slots import Scratch, rows_of
from ocs_codesign.lowering.transfers import operations_of, runs_of
from ocs_codesign.rank_program import COLUMNS, RECEIVE, RECEIVE_ADD, SEND, RankProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lowering.transfers import Operations
    from ocs_codesign.messages import Messages
    from ocs_codesign.schedule import Schedule


def lower(
    plan: Schedule | Messages, *, in_place: bool = False, ordered_adds: bool = True
) -> RankProgram:
    """The operations of a verified plan, step by step: a stream for every end of a link.

    What crosses a link in a step is one transfer as long as it is contiguous in the buffers of
    both ends; parallel links are channels, and the k-th step of the plan is step k. An operation
    begins when what it sends, or adds to, is there: there are no barriers. Out of place the input
    is never written. All additions to a chunk are in one order, but without ``ordered_adds``, which
    leaves a race that the interpreter must find. Raises ValueError for what cannot be in place, and
    for sends that no slot can be found for; whatever else is wrong with a plan, its program has.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.schedule import Schedule
    >>> from ocs_codesign.topology import Topology
    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [1, 0], [0, 0], [1, 1], [1, 0], [1, 1])
    >>> lower(swap)
    RankProgram(allgather of 2 ranks, 6 operations)
    """
    hops = hops_of(plan)
    collective = plan.collective
    demanded = hops.demands[0] if collective.name == CUSTOM else collective
    ranks = hops.demands[0].num_hosts
    nothing = RankProgram(
        demanded, ranks, hops.chunks_per_unit, in_place, np.zeros(ranks, np.int64), {"rank": []}
    )
    place_buffer = nothing.place_buffer if in_place else None
    placed = Placement.of(hops.demands, hops.chunks_per_unit, place_buffer)
    scratch = Scratch(np.zeros(ranks, dtype=np.int64))
    rows, copied = rows_of(hops, placed, scratch)
    operations = operations_of(runs_of(rows), copied, scratch)
    stream, number = _streams(operations)
    sizes = np.stack([*nothing.buffer_sizes()[:2], scratch.size], axis=1)
    base = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
    needs = needs_of(operations, stream, base, ordered_adds=ordered_adds, rewrites=hops.rewrites)
    columns = {name: operations[name] for name in COLUMNS if name != "stream"}
    return RankProgram(
        *(demanded, ranks, hops.chunks_per_unit, in_place, scratch.size),
        {**columns, "stream": number},
        *needs,
    )


def _streams(operations: Operations) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The stream of every operation, numbered over all ranks and within its rank.

    Outgoing ends of links come first, by peer and channel, then those that come in, and then what a
    rank does alone.
    """
    kind, rank = operations["kind"], operations["rank"].astype(np.int64)
    side = np.full(len(kind), 2)
    side[kind == SEND] = 0
    side[(kind == RECEIVE) | (kind == RECEIVE_ADD)] = 1
    peers = int(operations["peer"].max(initial=0)) + 2
    channels = int(operations["channel"].max(initial=0)) + 1
    key = ((rank * 3 + side) * peers + operations["peer"] + 1) * channels + operations["channel"]
    streams, stream = np.unique(key, return_inverse=True)
    owner = streams // (3 * peers * channels)
    return stream, stream - np.searchsorted(owner, owner)[stream]
