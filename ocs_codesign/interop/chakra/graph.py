"""EtGraph: the nodes of execution traces of all ranks, and what each waits for, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.interop.chakra.schema import COLL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray


MAX_TAG = 5 * 10**8
"""Tags below this are those of users: ASTRA-sim counts its own from there on."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class EtGraph:
    """Nodes of ``num_ranks`` ranks: equally long columns sorted by rank, in the order of the files.

    Node i has the number ``id[i]`` (int64) in the trace of ``rank[i]`` (int32), a ``kind`` (int8)
    of ``schema`` and a name. A send goes to ``peer`` (int32, -1 for others), a receive comes from
    it, with ``tag`` and ``size`` bytes (int64, -1 for those without). A collective has a
    ``comm_type`` (int8, -1 for others) and a ``size``, a computation takes ``micros`` (int64)
    microseconds. Node i begins when the nodes in rows ``wait[wait_start[i] : wait_start[i + 1]]``
    (int64) are done, of which ``is_data`` (bool) marks those that bring it data: all are of its own
    rank, and those that do not come first. ``group`` has the name of every collective's process
    group, "" for one of all ranks and for what is none; it is empty if all of them are. A
    computation without micros has ``num_ops`` operations on ``num_bytes`` (int64, 0 where it does
    not say), those of a ``lane`` (int32) run one at a time, on the accelerator in lane 0, and
    ``nanos`` (int64) are times where microseconds are too coarse; these are None where no node has
    any. Arrays are made read-only. Raises ValueError for columns that do not fit each other.
    """

    num_ranks: int
    rank: NDArray[np.int32]
    id: NDArray[np.int64]
    kind: NDArray[np.int8]
    name: tuple[str, ...]
    peer: NDArray[np.int32]
    tag: NDArray[np.int64]
    size: NDArray[np.int64]
    comm_type: NDArray[np.int8]
    micros: NDArray[np.int64]
    wait_start: NDArray[np.int64]
    wait: NDArray[np.int64]
    is_data: NDArray[np.bool_]
    group: tuple[str, ...] = ()
    num_ops: NDArray[np.int64] | None = None
    num_bytes: NDArray[np.int64] | None = None
    lane: NDArray[np.int32] | None = None
    nanos: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        nodes = len(self.rank)
        columns = (self.id, self.kind, self.name, self.peer, self.tag, self.size, self.comm_type)
        if any(len(column) != nodes for column in (*columns, self.micros)):
            raise ValueError("the columns of a graph must be equally long")
        if self.group and len(self.group) != nodes:
            raise ValueError("group has a name for every node, or none at all")
        if len(self.wait_start) != nodes + 1 or len(self.is_data) != len(self.wait):
            raise ValueError("wait_start says where the waits of every node begin, and all end")
        if (np.diff(self.rank) < 0).any():
            raise ValueError("the nodes of a graph are sorted by rank")
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __repr__(self) -> str:
        return f"EtGraph({self.num_ranks} ranks, {self.num_nodes} nodes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EtGraph) and all(
            np.array_equal(getattr(self, field.name), getattr(other, field.name))
            for field in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def num_nodes(self) -> int:
        """Nodes of all ranks."""
        return len(self.rank)

    def waiting(self) -> NDArray[np.int64]:
        """Of every entry of ``wait`` the row of the node that waits."""
        return np.repeat(np.arange(self.num_nodes), np.diff(self.wait_start))

    def group_of(self, row: int) -> str:
        """The name of the process group of a collective, "" if it is of all ranks."""
        return self.group[row] if self.group else ""

    def place(self, row: int) -> str:
        """A node as errors call it."""
        return f"rank {self.rank[row]}, node {self.id[row]}"


def collectives_of(
    traces: EtGraph, groups: Mapping[str, list[int]]
) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Ranks and rows of every collective of two and more: number k of each of a group's ranks.

    Ranks are those that ``groups`` has for the name, or else those that name it. Raises ValueError
    where ranks do not have as many, or differ in what they do together: they would wait for ever.
    """
    rows: dict[str, dict[int, list[int]]] = {"": {rank: [] for rank in range(traces.num_ranks)}}
    for row in (traces.kind == COLL).nonzero()[0].tolist():
        group = traces.group_of(row)
        if group not in rows:
            rows[group] = {rank: [] for rank in groups.get(group, ())}
        ranks = rows[group]
        if group in groups and int(traces.rank[row]) not in ranks:
            raise ValueError(f"{traces.place(row)} names group {group!r}, which it is not in")
        ranks.setdefault(int(traces.rank[row]), []).append(row)
    for group, by_rank in rows.items():
        if len({len(own) for own in by_rank.values()}) > 1:
            who = f"of group {group!r}" if group else "of all ranks"
            raise ValueError(f"the ranks do not have as many collectives {who}")
        for together in zip(*by_rank.values(), strict=True) if len(by_rank) > 1 else ():
            first = together[0]
            for row in together:
                if (traces.comm_type[row], traces.size[row]) != (
                    traces.comm_type[first],
                    traces.size[first],
                ):
                    raise ValueError(f"{traces.place(row)} differs from {traces.place(first)}")
            yield list(by_rank), together
