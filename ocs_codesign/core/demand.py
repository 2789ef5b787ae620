"""Demand: which items are where before a collective, and who must have what after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.topology import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
from ocs_codesign.core.collective import Collective

COPY, MOVE, SUM = range(3)
"""What happens to an item: copied to many hosts, moved to one, or summed up from many."""

KINDS = ("copy", "move", "sum")
MAX_PIECES = 2**27


@final
@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """Items, each with a root, made of pieces, each with a weight and a group of hosts.

    ``kind`` (int8, items) is COPY, MOVE or SUM, ``root`` (int32, items) a host. Item i consists of
    the pieces ``piece_start[i] : piece_start[i + 1]`` in this order; piece p has ``weight[p]``
    (int64) units of data and concerns the hosts ``member[group_start[g] : group_start[g + 1]]``
    with g = ``group[p]``. An item that is copied is at its root first, and every host of the group
    must get it; one that is moved is for the only host of the group, and at one place at a time;
    of one that is summed every host of the group has a contribution, and the root must get the sum.
    A host that already has what it must get needs nothing. ``message_units`` is the number of units
    that make M, the buffer of a rank. Raises ValueError for arrays that are no such demand.

    >>> demand = demand_of(Collective("alltoall"), 3)
    >>> demand.num_items, demand.item_weight().tolist(), demand.hosts_of(1).tolist()
    (3, [3, 3, 3], [1])
    >>> sum_up = Demand(2, [SUM], [1], [0, 1], [1], [0], [0, 2], [0, 1], 1)
    >>> sum_up.num_pieces
    1
    """

    num_hosts: int
    kind: NDArray[np.int8]
    root: NDArray[np.int32]
    piece_start: NDArray[np.int64]
    weight: NDArray[np.int64]
    group: NDArray[np.int32]
    group_start: NDArray[np.int64]
    member: NDArray[np.int32]
    message_units: int

    def __init__(
        self,
        num_hosts: int,
        kind: ArrayLike,
        root: ArrayLike,
        piece_start: ArrayLike,
        weight: ArrayLike,
        group: ArrayLike,
        group_start: ArrayLike,
        member: ArrayLike,
        message_units: int,
    ) -> None:
        object.__setattr__(self, "num_hosts", int(num_hosts))
        object.__setattr__(self, "message_units", int(message_units))
        columns: dict[str, tuple[ArrayLike, type]] = {
            "kind": (kind, np.int8),
            "root": (root, np.int32),
            "piece_start": (piece_start, np.int64),
            "weight": (weight, np.int64),
            "group": (group, np.int32),
            "group_start": (group_start, np.int64),
            "member": (member, np.int32),
        }
        for name, (values, dtype) in columns.items():
            column: NDArray[Any] = np.array(values, dtype=dtype)
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        _check(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Demand)
            and self.num_hosts == other.num_hosts
            and self.message_units == other.message_units
            and all(np.array_equal(getattr(self, c), getattr(other, c)) for c in _COLUMNS)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kinds = "+".join(KINDS[kind] for kind in np.unique(self.kind).tolist())
        return f"Demand({self.num_items} items to {kinds}, {self.num_hosts} hosts)"

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.root)

    @property
    def num_pieces(self) -> int:
        """Number of pieces of all items."""
        return len(self.weight)

    def item_weight(self) -> NDArray[np.int64]:
        """Units of every item, shape (items,)."""
        weights: NDArray[np.int64] = np.diff(self.first_units()[self.piece_start])
        return weights

    def first_units(self) -> NDArray[np.int64]:
        """Units before every piece, counted over all items, and then all: shape (pieces + 1,)."""
        return np.concatenate([[0], np.cumsum(self.weight)])

    def item_of_piece(self) -> NDArray[np.int64]:
        """The item of every piece, shape (pieces,)."""
        return np.repeat(np.arange(self.num_items), np.diff(self.piece_start))

    def pieces_by_ends(self, *, swapped: bool = False) -> NDArray[np.int64]:
        """Pieces that are moved sorted by (root, host that they are for), or by (host, root)."""
        ends = [self.member[self.group_start[self.group]], self.root[self.item_of_piece()]]
        return np.lexsort(ends[::-1] if swapped else ends)

    def hosts_of(self, piece: int) -> NDArray[np.int32]:
        """The hosts that a piece concerns."""
        number = self.group[piece]
        return self.member[self.group_start[number] : self.group_start[number + 1]]


_COLUMNS = ("kind", "root", "piece_start", "weight", "group", "group_start", "member")


@lru_cache(maxsize=8)
def demands_of(collective: Collective | str, num_hosts: int) -> tuple[Demand, ...]:
    """The demand of a collective on so many hosts; an allreduce has two, one after the other.

    Raises ValueError if its groups, root or sizes do not fit.

    >>> [KINDS[half.kind[0]] for half in demands_of(Collective("allreduce"), 4)]
    ['sum', 'copy']
    """
    halves = Collective.parse(collective).halves()
    return tuple(_demand(half, num_hosts) for half in halves)


def demand_of(collective: Collective | str, num_hosts: int) -> Demand:
    """The only demand of a collective; ValueError for an allreduce, which has two."""
    demands = demands_of(collective, num_hosts)
    if len(demands) > 1:
        raise ValueError(
            f"{Collective.parse(collective).name} has {len(demands)} demands, one after the other"
        )
    return demands[0]


def _demand(collective: Collective, num_hosts: int) -> Demand:
    if num_hosts < 1:
        raise ValueError(f"{num_hosts} hosts: there must be one")
    groups = collective.ranks(num_hosts)
    name = collective.name
    makers = {"scatter": _scattered, "gather": _gathered, "alltoall": _exchanged}
    maker = makers.get(name, _rooted if collective.root is not None else _sharded)
    parts = [maker(collective, np.array(group, dtype=np.int32)) for group in groups]
    kind = SUM if name in ("reduce", "reduce-scatter") else COPY
    kind = MOVE if name in makers else kind
    roots, pieces, weights, group_of, sizes, members = (
        [part[at] for part in parts] for at in range(6)
    )
    shift = np.cumsum([0, *(len(size) for size in sizes)])
    root = np.concatenate(roots)
    return Demand(
        num_hosts,
        np.full(len(root), kind),
        root,
        starts_of(np.concatenate(pieces)),
        np.concatenate(weights),
        np.concatenate([of + first for of, first in zip(group_of, shift[:-1], strict=True)]),
        starts_of(np.concatenate(sizes)),
        np.concatenate(members),
        max(_message_units(name, part) for part in parts),
    )


_Part = tuple["NDArray[Any]", ...]
"""Of a group: root and number of pieces of every item, weight and group of every piece, number of
members of every group of hosts, and the members."""


def _weights(collective: Collective, ranks: int) -> NDArray[np.int64]:
    return np.ones(ranks, np.int64) if collective.sizes is None else np.array(collective.sizes)


def _sharded(collective: Collective, hosts: NDArray[np.int32]) -> _Part:
    """An item a rank, for or from all ranks."""
    ranks = len(hosts)
    once, none = np.ones(ranks, np.int64), np.zeros(ranks, np.int32)
    return hosts, once, _weights(collective, ranks), none, np.array([ranks]), hosts


def _root(collective: Collective, hosts: NDArray[np.int32]) -> NDArray[np.int32]:
    """The host that is the root, alone."""
    return hosts[collective.root or 0 :][:1]


def _rooted(collective: Collective, hosts: NDArray[np.int32]) -> _Part:
    """One item of the root, for or from all ranks."""
    once, none = np.ones(1, np.int64), np.zeros(1, np.int32)
    return _root(collective, hosts), once, once, none, np.array([len(hosts)]), hosts


def _scattered(collective: Collective, hosts: NDArray[np.int32]) -> _Part:
    """One item of the root, with a piece a rank."""
    ranks = np.arange(len(hosts), dtype=np.int32)
    pieces, once = np.array([len(hosts)]), np.ones(len(hosts), np.int64)
    return _root(collective, hosts), pieces, _weights(collective, len(hosts)), ranks, once, hosts


def _gathered(collective: Collective, hosts: NDArray[np.int32]) -> _Part:
    """An item a rank, for the root."""
    ranks = len(hosts)
    once, none = np.ones(ranks, np.int64), np.zeros(ranks, np.int32)
    return hosts, once, _weights(collective, ranks), none, once[:1], _root(collective, hosts)


def _exchanged(collective: Collective, hosts: NDArray[np.int32]) -> _Part:
    """An item a rank, with a piece a rank."""
    ranks = len(hosts)
    pieces = np.tile(np.arange(ranks, dtype=np.int32), ranks)
    weight = np.ones(ranks * ranks, np.int64)
    if collective.sizes is not None:
        weight = np.array(collective.sizes).ravel()
    return hosts, np.full(ranks, ranks), weight, pieces, np.ones(ranks, np.int64), hosts


def _message_units(name: str, part: _Part) -> int:
    """Units of M: the largest item of an all-to-all, all items otherwise."""
    _, pieces, weight, *_ = part
    return int(
        np.add.reduceat(weight, starts_of(pieces)[:-1]).max()
        if name == "alltoall"
        else weight.sum()
    )


def _check(demand: Demand) -> None:
    hosts, items, pieces = demand.num_hosts, demand.num_items, demand.num_pieces
    rules: Sequence[tuple[bool, str]] = (
        (hosts >= 1 and items >= 1, "there is a host and an item"),
        (
            len(demand.kind) == items == len(demand.piece_start) - 1,
            "every item has a kind, a root and pieces",
        ),
        (len(demand.group) == pieces <= MAX_PIECES, "every piece has a weight and a group"),
        (_partitions(demand.piece_start, pieces), "every piece is of one item, in order"),
        (
            _partitions(demand.group_start, len(demand.member)),
            "every member is of one group, in order",
        ),
        (_within(demand.kind, 3), "kinds are copy, move and sum"),
        (_within(demand.root, hosts), f"roots are hosts, 0 to {hosts - 1}"),
        (_within(demand.member, hosts), f"members are hosts, 0 to {hosts - 1}"),
        (_within(demand.group, len(demand.group_start) - 1), "groups of pieces are groups"),
        (not pieces or int(demand.weight.min()) >= 0, "weights are at least 0"),
        (demand.message_units >= 1, "M is at least a unit"),
    )
    for holds, rule in rules:
        if not holds:
            raise ValueError(f"this is no demand: {rule}")
    moved = np.repeat(demand.kind == MOVE, np.diff(demand.piece_start))
    if (np.diff(demand.group_start)[demand.group[moved]] != 1).any():
        raise ValueError("this is no demand: a piece that is moved is for one host")


def _partitions(start: NDArray[np.int64], total: int) -> bool:
    return (
        len(start) > 0
        and start[0] == 0
        and start[-1] == total
        and bool((np.diff(start) >= 0).all())
    )


def _within(values: NDArray[Any], end: int) -> bool:
    return not values.size or (int(values.min()) >= 0 and int(values.max()) < end)


# The mirror image of a demand and of its sends: what time and links reversed make of them.


def mirrored_demand(demand: Demand) -> Demand:
    """What is demanded when time is reversed: copies are sums, and what is moved goes back.

    Raises ValueError for a demand that moves some items and not others.
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
