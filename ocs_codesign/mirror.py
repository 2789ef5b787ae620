"""The mirror image of a demand and of its sends: what time and links reversed make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.demand import COPY, MOVE, SUM, Demand
from ocs_codesign.runs import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def mirrored_demand(demand: Demand) -> Demand:
    """What is demanded when time is reversed: copies are sums, and what is moved goes back.

    Raises ValueError for a demand that moves some items and not others.

    >>> from ocs_codesign.collective import Collective
    >>> from ocs_codesign.demand import demand_of
    >>> exchange = demand_of(Collective("alltoall"), 3)
    >>> mirrored_demand(exchange) == exchange
    True
    """
    is_moved = demand.kind == MOVE
    if not is_moved.any():
        return replace(demand, kind=np.where(demand.kind == SUM, COPY, SUM))
    if not is_moved.all():
        raise ValueError("a demand that moves some items and not others has no mirror image")
    order = demand.pieces_by_ends(swapped=True)
    roots, pieces = np.unique(demand.member[demand.group_start[demand.group]], return_counts=True)
    hosts, group = np.unique(demand.root[demand.item_of_piece()][order], return_inverse=True)
    return Demand(
        demand.num_hosts,
        np.full(len(roots), MOVE),
        roots,
        starts_of(pieces),
        demand.weight[order],
        group,
        np.arange(len(hosts) + 1),
        hosts,
        demand.message_units,
    )


def mirrored_pieces(
    demand: Demand, mirrored: Demand, chunks: int, columns: Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """Columns item, lo, hi, ... of what is moved, cut at pieces, with root and target swapped.

    A unit of weight has so many ``chunks``; the other columns are repeated. The piece from host s
    to host t becomes that of ``mirrored`` from t to s.
    """
    first_chunk = demand.first_units() * chunks
    item, lo, hi, *others = (column.astype(np.int64) for column in columns)
    base = first_chunk[demand.piece_start[item]]
    last_of = np.searchsorted(first_chunk, base + hi, side="left")
    first_of = np.searchsorted(first_chunk, base + lo, side="right") - 1
    row, piece = places(first_of, last_of - first_of)
    inside_lo = np.maximum(base[row] + lo[row] - first_chunk[piece], 0)
    inside_hi = np.minimum(base[row] + hi[row], first_chunk[piece + 1]) - first_chunk[piece]
    target = np.empty(demand.num_pieces, dtype=np.int64)
    target[demand.pieces_by_ends()] = mirrored.pieces_by_ends(swapped=True)
    new = target[piece]
    new_item = mirrored.item_of_piece()[new]
    offset = mirrored.first_units()[new] - mirrored.first_units()[mirrored.piece_start[new_item]]
    return [
        new_item,
        inside_lo + offset * chunks,
        inside_hi + offset * chunks,
        *(c[row] for c in others),
    ]
