"""Messages: which ranks send which items to which others in every step, on whatever network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.given import whole
from ocs_codesign.topology import MAX_STEPS

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.collective import Collective

SUMMING = ("reduce-scatter", "allreduce", "reduce")
_PER_RANK = ("allgather", "reduce-scatter", "scatter", "gather")
_COLUMNS = ("step", "source", "target", "item", "adds")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """A collective of equal parts on N ranks, as one row for every item that is sent.

    At ``step`` (from 1) rank ``source`` sends ``item`` to rank ``target``, which adds it to its own
    part of the sum if ``adds`` (bool), and else keeps it as it is; all that is sent in a step is
    what was held before it. Columns are equally long, int32 but for ``adds``, and sorted by (step,
    source, target, item).

    The data is cut into ``num_items`` items of equal size. With c items a shard, item i is of the
    shard of rank i // c in an allgather, a reduce-scatter, a scatter and a gather; in an
    all-to-all of the piece p = i // c, which is what rank p // N has for rank p % N, so that a
    rank's piece for itself has numbers too. All ranks hold or want every item of an allreduce, a
    broadcast and a reduce. Raises ValueError for values out of range, columns of unequal length,
    the same send twice, and collectives with unequal sizes or several groups.

    >>> from ocs_codesign.collective import Collective
    >>> swap = Messages(2, Collective.ALLGATHER, 2, [1, 1], [1, 0], [0, 1], [1, 0], [False, False])
    >>> swap.source.tolist(), swap.item_size, swap.one_port_loads()
    ([0, 1], Fraction(1, 2), (Fraction(1, 1),))
    """

    num_ranks: int
    collective: Collective
    num_items: int
    step: NDArray[np.int32]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    item: NDArray[np.int32]
    adds: NDArray[np.bool_]

    def __init__(
        self,
        num_ranks: int,
        collective: Collective,
        num_items: int,
        step: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        item: ArrayLike,
        adds: ArrayLike,
    ) -> None:
        ranks, items = whole(num_ranks, "num_ranks"), whole(num_items, "num_items")
        _check_sizes(ranks, collective, items)
        columns = [
            _integers(step, "step", 1, MAX_STEPS),
            _integers(source, "source", 0, ranks - 1),
            _integers(target, "target", 0, ranks - 1),
            _integers(item, "item", 0, items - 1),
            np.array(adds, dtype=bool),
        ]
        if len({column.shape for column in columns}) > 1:
            raise ValueError("the columns of messages must be equally long")
        columns = _in_order(columns, ranks, items)
        _check_rows(collective, columns)
        named = {"num_ranks": ranks, "collective": collective, "num_items": items}
        for column in columns:
            column.setflags(write=False)
        for name, value in {**named, **dict(zip(_COLUMNS, columns, strict=True))}.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Messages)
            and (self.num_ranks, self.num_items) == (other.num_ranks, other.num_items)
            and self.collective == other.collective
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(self.columns(), other.columns(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Messages({self.collective.text} of {self.num_ranks} ranks, {len(self.step)} sends "
            f"in {self.num_steps} steps, {self.num_items} items)"
        )

    @property
    def num_steps(self) -> int:
        """The last step in use, 0 if nothing is sent."""
        return int(self.step[-1]) if len(self.step) else 0

    @property
    def item_size(self) -> Fraction:
        """An item as a part of M, the buffer of a rank: in an all-to-all its N pieces."""
        return item_size(self.collective.name, self.num_ranks, self.num_items)

    @property
    def item_shards(self) -> Fraction:
        """An item in shards (M/N), the unit of loads."""
        return self.item_size * self.num_ranks

    def renumbered(self, number: ArrayLike) -> Messages:
        """The same messages where rank r is called ``number[r]``, shards with their ranks.

        >>> from ocs_codesign.collective import Collective
        >>> one = Messages(2, Collective("broadcast", 0), 1, [1], [0], [1], [0], [False])
        >>> turned = one.renumbered([1, 0])
        >>> turned.collective.root, turned.source.tolist(), turned.target.tolist()
        (1, [1], [0])
        """
        rank = np.asarray(number, dtype=np.int64)
        if sorted(rank.tolist()) != list(range(self.num_ranks)):
            raise ValueError(f"{self.num_ranks} ranks: each has a number of its own among them")
        item, collective = self.item.astype(np.int64), self.collective
        if collective.name == "alltoall":
            piece, part = np.divmod(item, self.num_items // self.num_ranks**2)
            source, target = np.divmod(piece, self.num_ranks)
            piece = rank[source] * self.num_ranks + rank[target]
            item = piece * (self.num_items // self.num_ranks**2) + part
        elif collective.name in _PER_RANK:
            shard, part = np.divmod(item, self.num_items // self.num_ranks)
            item = rank[shard] * (self.num_items // self.num_ranks) + part
        if collective.root is not None:
            collective = replace(collective, root=int(rank[collective.root]))
        ends = rank[self.source], rank[self.target]
        return Messages(
            self.num_ranks, collective, self.num_items, self.step, *ends, item, self.adds
        )

    def columns(self) -> list[NDArray[Any]]:
        """The columns step, source, target, item and adds."""
        return [self.step, self.source, self.target, self.item, self.adds]

    def one_port_loads(self) -> tuple[Fraction, ...]:
        """The most that any rank sends or receives in every step, in shards."""
        size = (self.num_steps + 1) * self.num_ranks
        most = np.zeros(self.num_steps + 1, dtype=np.int64)
        for end in (self.source, self.target):
            count = np.bincount(self.step.astype(np.int64) * self.num_ranks + end, minlength=size)
            np.maximum(most, count.reshape(-1, self.num_ranks).max(axis=1), out=most)
        return tuple(load * self.item_shards for load in most[1:].tolist())


def item_size(collective: str, num_ranks: int, num_items: int) -> Fraction:
    """An item of so many as a part of M."""
    return Fraction(num_ranks if collective == "alltoall" else 1, num_items)


def _check_sizes(ranks: int, collective: Collective, items: int) -> None:
    if ranks < 1:
        raise ValueError(f"num_ranks is {ranks}: there must be one")
    if collective.sizes is not None or collective.groups is not None:
        raise ValueError("messages are of equal items and one group: no sizes, no groups")
    collective.ranks(ranks)
    name = collective.name
    unit = ranks**2 if name == "alltoall" else ranks if name in _PER_RANK else 1
    if not 1 <= items < 2**31 or items % unit:
        raise ValueError(
            f"num_items is {items}: {name} of {ranks} ranks has a multiple of {unit} items, "
            "below 2^31"
        )


def _integers(values: ArrayLike, name: str, least: int, most: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"column {name} must be a one-dimensional array of integers")
    outside = (array < least) | (array > most)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(f"send {row}: {name} is {int(array[row])}: it is from {least} to {most}")
    return array.astype(np.int32)


def _in_order(columns: list[NDArray[Any]], ranks: int, items: int) -> list[NDArray[Any]]:
    """The columns sorted; by one number a row where it fits, in a third of the time."""
    step, source, target, item, _ = columns
    if int(step.max(initial=0)) * ranks * ranks * items < 2**62:
        key = (step.astype(np.int64) * ranks + source) * ranks + target
        key *= items
        key += item
        if not (key[1:] < key[:-1]).any():
            return columns
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((item, target, source, step))
    return [column[order] for column in columns]


def _check_rows(collective: Collective, columns: list[NDArray[Any]]) -> None:
    """ValueError for rows, already sorted, that cannot be."""
    _, source, target, _, adds = columns
    twice = np.ones(max(len(source) - 1, 0), dtype=bool)
    for column in columns[:4]:
        twice &= column[1:] == column[:-1]
    rules = (
        (source == target, "goes from rank {source} to itself"),
        (np.append(twice, False)[: len(source)], "from rank {source} to {target} is there twice"),
        (adds & (collective.name not in SUMMING), "adds, but {name} has no sums"),
    )
    for broken, rule in rules:
        if broken.any():
            row = int(broken.argmax())
            ends = {"source": int(source[row]), "target": int(target[row])}
            told = rule.format(name=collective.name, **ends)
            at, item = int(columns[0][row]), int(columns[3][row])
            raise ValueError(f"step {at}: the send of item {item} {told}")
