"""JobDraft: a job graph while it is written, node by node."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.topology import starts_of
from ocs_codesign.jobs.job_graph import (
    COLLECTIVES,
    COMPUTE,
    FIRST_COLLECTIVE,
    MAX_TICKS,
    NANOSECOND,
    RECEIVE,
    SEND,
    JobGraph,
    csr,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_ROW: dict[str, Any] = {
    "kind": np.int8,
    "owner": np.int32,
    "work": np.int64,
    "latency": np.int64,
    "size_bytes": np.int64,
    "priority": np.int64,
    "label": np.int32,
    "is_gradient": np.bool_,
    "instance": np.int32,
    "group": np.int32,
    "first_rank": np.int64,
    "last_rank": np.int64,
}
"""What a row says, in this order."""
_LABEL, _INSTANCE = (list(_ROW).index(name) for name in ("label", "instance"))
_LIMITED = [list(_ROW).index(name) for name in ("work", "latency", "size_bytes")]


class Written(NamedTuple):
    """A point in a draft: the rows, edges and instances before it."""

    rows: int
    edges: int
    instances: int


@final
class JobDraft:
    """Rows of a job graph of ``num_owners`` ranks, or of classes of ``ranks`` like ranks each.

    Priorities are ids unless they are given.

    >>> draft = JobDraft(2)
    >>> ends = [draft.compute(owner, 10) for owner in (0, 1)]
    >>> draft.collective("allreduce", (0, 1), 64, after={0: ends[:1], 1: ends[1:]})
    [2, 3]
    """

    __slots__ = (
        "_carried",
        "_edges",
        "_groups",
        "_labels",
        "_num_instances",
        "_ranks",
        "_rows",
        "tick_s",
    )

    def __init__(
        self, num_owners: int, ranks: Sequence[int] | None = None, tick_s: Fraction = NANOSECOND
    ) -> None:
        if num_owners < 1 or (ranks is not None and len(ranks) != num_owners):
            raise ValueError(f"{num_owners} owners: there is one, and ranks has an entry of each")
        self._ranks = [1] * num_owners if ranks is None else list(ranks)
        self.tick_s = tick_s
        self._rows: list[tuple[Any, ...]] = []
        self._edges: list[tuple[int, int]] = []
        self._carried: list[tuple[int, int]] = []
        self._labels: dict[str, int] = {}
        self._groups: dict[tuple[tuple[int, ...], int], int] = {}
        self._num_instances = 0

    def compute(
        self,
        owner: int,
        ticks: int,
        after: Iterable[int] = (),
        label: str = "",
        priority: int | None = None,
    ) -> int:
        """A computation of so many ticks; its id."""
        row = COMPUTE, owner, ticks, 0, 0, priority, label, False, -1, -1, 0, 0
        return self._add(row, after)

    def collective(
        self,
        name: str,
        group: Sequence[int],
        size_bytes: int,
        after: Mapping[int, Iterable[int]],
        *,
        num_ranks: int | None = None,
        between: tuple[int, int] | None = None,
        label: str = "",
        priority: int | None = None,
        is_gradient: bool = False,
        work: int = 0,
        latency: int = 0,
    ) -> list[int]:
        """A collective of M = ``size_bytes`` over the owners of a group; the id of each one's node.

        ``num_ranks`` are the ranks of the group where its owners stand for several, ``between`` the
        first and the last of those of one such group.
        """
        if name not in COLLECTIVES:
            raise ValueError(f"{name!r} is no collective of jobs: one of {', '.join(COLLECTIVES)}")
        key = tuple(sorted(group)), num_ranks or len(group)
        if len(set(group)) < len(group):
            raise ValueError(f"the group {tuple(group)[:20]} has a rank twice")
        number = self._groups.setdefault(key, len(self._groups))
        kind = FIRST_COLLECTIVE + COLLECTIVES.index(name)
        instance = self._instance()
        rest = label, is_gradient, instance, number, *(between or (key[0][0], key[0][-1]))
        return [
            self._add(
                (kind, owner, work, latency, size_bytes, priority, *rest), after.get(owner, ())
            )
            for owner in key[0]
        ]

    def send(
        self,
        tail: int,
        head: int,
        size_bytes: int,
        after: Iterable[int] = (),
        after_at_head: Iterable[int] = (),
        *,
        between: tuple[int, int] | None = None,
        label: str = "",
        priority: int | None = None,
        work: int = 0,
        latency: int = 0,
    ) -> tuple[int, int]:
        """A message from one owner to another; the ids of its send and its receive."""
        low, high = between or (min(tail, head), max(tail, head))
        rest = label, False, self._instance(), -1, low, high
        sent = SEND, tail, work, latency, size_bytes, priority, *rest
        received = RECEIVE, head, 0, 0, size_bytes, priority, *rest
        return self._add(sent, after), self._add(received, after_at_head)

    @property
    def written(self) -> Written:
        """How far the draft is."""
        return Written(len(self._rows), len(self._edges), self._num_instances)

    def again(self, first: Written, last: Written, renamed: Mapping[int, int]) -> int:
        """Write once more what was written from one point to another; how far its ids are on.

        Nodes from before it that it waits for are renamed.

        >>> draft = JobDraft(1)
        >>> begin, first = draft.compute(0, 1), draft.written
        >>> node = draft.compute(0, 5, [begin])
        >>> draft.again(first, draft.written, {begin: node})
        1
        >>> draft.graph().wait_for.tolist()
        [0, 1]
        """
        shift = len(self._rows) - first.rows
        instances = self._num_instances - first.instances
        at = _INSTANCE
        self._rows += [
            row if row[at] < 0 else (*row[:at], row[at] + instances, *row[at + 1 :])
            for row in self._rows[first.rows : last.rows]
        ]
        self._edges += [
            (node + shift, other + shift if other >= first.rows else renamed[other])
            for node, other in self._edges[first.edges : last.edges]
        ]
        self._num_instances += last.instances - first.instances
        return shift

    def wait(self, node: int, *others: int) -> None:
        """Let a node wait for others."""
        self._edges.extend((node, other) for other in others)

    def in_turn(self, nodes: Iterable[int]) -> None:
        """Let every one of these wait for the one before."""
        for one, other in pairwise(nodes):
            self.wait(other, one)

    def carry(self, before: int, node: int) -> None:
        """Let a node of every next iteration wait for one of the iteration before."""
        self._carried.append((before, node))

    def graph(self) -> JobGraph:
        """What was written; ValueError if it is no job graph."""
        if not self._rows:
            raise ValueError("a job has 0 nodes: it has at least one")
        columns: dict[str, Any] = dict(zip(_ROW, zip(*self._rows, strict=True), strict=True))
        num = len(self._rows)
        columns["priority"] = [
            at if given is None else given for at, given in enumerate(columns["priority"])
        ]
        columns["label"] = [self._labels[text] for text in columns["label"]]
        edges = np.array(self._edges, dtype=np.int64).reshape(-1, 2)
        if edges.size and not 0 <= edges.min() <= edges.max() < num:
            raise ValueError(f"a node waits for one that is not there: they are 0 to {num - 1}")
        wait_start, wait_for = csr(edges[:, 0], edges[:, 1], num)
        groups = list(self._groups)
        owners = np.array([len(members) for members, _ in groups], dtype=np.int64)
        return JobGraph(
            **{name: np.array(columns[name], dtype=dtype) for name, dtype in _ROW.items()},
            ranks=np.array(self._ranks, dtype=np.int64),
            group_start=starts_of(owners).astype(np.int64),
            group_owner=np.array(
                [owner for members, _ in groups for owner in members], dtype=np.int32
            ),
            group_size=np.array([size for _, size in groups], dtype=np.int64),
            wait_start=wait_start,
            wait_for=wait_for,
            carried=np.unique(np.array(self._carried, dtype=np.int64).reshape(-1, 2), axis=0),
            labels=tuple(self._labels),
            tick_s=self.tick_s,
        )

    def _instance(self) -> int:
        self._num_instances += 1
        return self._num_instances - 1

    def _add(self, row: tuple[Any, ...], after: Iterable[int]) -> int:
        if not all(0 <= row[at] <= MAX_TICKS for at in _LIMITED):
            raise ValueError("a node takes from 0 to 2^62 ticks, and has from 0 to 2^62 bytes")
        self._labels.setdefault(row[_LABEL], len(self._labels))
        node = len(self._rows)
        self._rows.append(row)
        self.wait(node, *after)
        return node
