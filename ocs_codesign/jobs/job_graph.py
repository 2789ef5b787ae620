"""JobGraph: what the ranks of a job compute and communicate, as a graph of who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.topology import places, starts_of
from ocs_codesign.jobs.order_kernels import topological_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


COMPUTE, SEND, RECEIVE, FIRST_COLLECTIVE = range(4)
"""Kinds of nodes; the collectives of COLLECTIVES follow, in that order."""

COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce")
KINDS = ("compute", "send", "receive", *COLLECTIVES)

MAX_NODES = 2**24
MAX_TICKS = 2**62
NANOSECOND = Fraction(1, 10**9)


@final
@dataclass(frozen=True, slots=True, eq=False)
class JobGraph:
    """Nodes that compute, send, receive or take part in a collective, in columns.

    A node is of an owner: a rank, or a class of like ranks, ``ranks[owner]`` many, or of none: what
    computes beside a rank, as its processor does. Columns, one
    entry a node: ``kind`` (int8, see KINDS), ``owner`` (int32), ``work`` (int64 ticks of ``tick_s``
    that cutting divides), ``latency`` (int64 ticks that every part has), ``size_bytes`` (int64, M),
    ``priority`` (int64, the lowest first), ``label`` (int32, of ``labels``), ``is_gradient`` (bool:
    may be cut, merged and delayed until it is used), ``instance`` (int32: nodes of one collective,
    or a send and its receive, have the same; -1 for computation) and ``group`` (int32, -1 without).
    ``first_rank`` and ``last_rank`` (int64) bound the ranks that a message stays among, which say
    how far it goes. Group g has the owners ``group_owner[group_start[g] : group_start[g + 1]]`` and
    ``group_size[g]`` ranks in all. Node n waits for ``wait_for[wait_start[n] : wait_start[n + 1]]``
    and, from the second iteration on, for the ``carried[:, 0]`` whose ``carried[:, 1]`` is n.

    Raises ValueError for what does not fit: circles, also through collectives; sends that no one
    receives; members of a collective that disagree.

    >>> from ocs_codesign.jobs.job_draft import JobDraft
    >>> draft = JobDraft(2)
    >>> first = draft.compute(0, 5)
    >>> draft.send(0, 1, 8, after=[first])
    (1, 2)
    >>> draft.graph()
    JobGraph(3 nodes, 2 owners)
    """

    ranks: NDArray[np.int64]
    kind: NDArray[np.int8]
    owner: NDArray[np.int32]
    work: NDArray[np.int64]
    latency: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    priority: NDArray[np.int64]
    label: NDArray[np.int32]
    is_gradient: NDArray[np.bool_]
    instance: NDArray[np.int32]
    group: NDArray[np.int32]
    first_rank: NDArray[np.int64]
    last_rank: NDArray[np.int64]
    group_start: NDArray[np.int64]
    group_owner: NDArray[np.int32]
    group_size: NDArray[np.int64]
    wait_start: NDArray[np.int64]
    wait_for: NDArray[np.int64]
    carried: NDArray[np.int64]
    labels: tuple[str, ...]
    tick_s: Fraction = NANOSECOND

    def __post_init__(self) -> None:
        for name in (*_COLUMNS, *_OTHER_ARRAYS):
            getattr(self, name).setflags(write=False)
        _check_columns(self)
        _check_meetings(self)
        vertex, start, after = self.meeting_graph()
        num = len(start) - 1
        waits = np.bincount(after, minlength=num)
        order = for_work(topological_order, num + len(after))(start, after, waits)
        if len(order) < num:
            stuck = np.setdiff1d(np.arange(num), order)
            node = int(np.flatnonzero(np.isin(vertex, stuck))[0])
            raise ValueError(f"{self.told(node)} waits for itself: the nodes form a circle")

    def __repr__(self) -> str:
        return f"JobGraph({self.num_nodes} nodes, {self.num_owners} owners)"

    @property
    def num_nodes(self) -> int:
        """Nodes of an iteration."""
        return len(self.kind)

    @property
    def num_owners(self) -> int:
        """Ranks, or classes of like ranks, that nodes are of."""
        return len(self.ranks)

    @property
    def num_instances(self) -> int:
        """Collectives, and pairs of send and receive."""
        return int(self.instance.max(initial=-1)) + 1

    @property
    def is_communication(self) -> NDArray[np.bool_]:
        """Whether a node takes the channel of its owner: a collective or a send (nodes,)."""
        talks: NDArray[np.bool_] = (self.kind == SEND) | (self.kind >= FIRST_COLLECTIVE)
        return talks

    @property
    def ticks(self) -> NDArray[np.int64]:
        """Ticks that every node takes alone, latency and work; a receive takes none itself."""
        return np.where(self.kind == RECEIVE, 0, self.latency + self.work)

    def told(self, node: int) -> str:
        """A node in words, for messages."""
        name = self.labels[self.label[node]]
        name = f" ({name})" if name else ""
        return f"node {node}{name}, {KINDS[self.kind[node]]} of rank {self.owner[node]},"

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Both ends of every edge inside an iteration, what is waited for first."""
        counts = np.diff(self.wait_start)
        return self.wait_for, np.repeat(np.arange(self.num_nodes), counts)

    def after(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who waits for every node, as a CSR, ascending."""
        before, node = self.edges()
        return csr(before, node, self.num_nodes)

    def meeting_graph(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The graph in which a collective is one vertex and a receive waits for its send.

        The vertex of every node, and the CSR of who waits for every vertex.
        """
        vertex = np.arange(self.num_nodes)
        together = self.kind >= FIRST_COLLECTIVE
        vertex[together] = self.num_nodes + self.instance[together]
        _, vertex = np.unique(vertex, return_inverse=True)
        before, node = self.edges()
        sends, receives = self.pairs()
        before = np.concatenate([before, sends])
        node = np.concatenate([node, receives])
        num = int(vertex.max(initial=-1)) + 1
        return vertex, *csr(vertex[before], vertex[node], num)

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sends and their receives, in the order of their instances."""
        sends, receives = (np.flatnonzero(self.kind == kind) for kind in (SEND, RECEIVE))
        in_order = np.argsort(self.instance[sends]), np.argsort(self.instance[receives])
        return sends[in_order[0]], receives[in_order[1]]

    def changed(self, **columns: Any) -> JobGraph:
        """The same graph with some columns changed."""
        return replace(self, **columns)

    def unrolled(self, times: int) -> JobGraph:
        """So many iterations as one graph without carried edges; ids and priorities move up.

        >>> from ocs_codesign.jobs.job_draft import JobDraft
        >>> draft = JobDraft(1)
        >>> draft.carry(draft.compute(0, 5), 0)
        >>> draft.graph().unrolled(3).wait_for.tolist()
        [0, 1]
        """
        if times * max(self.num_nodes, 1) > MAX_NODES:
            raise ValueError(f"{times} iterations have too many nodes: at most {MAX_NODES}")
        num, instances = self.num_nodes, self.num_instances
        turn = np.repeat(np.arange(times), num)
        span = int(np.ptp(self.priority)) + 1 if num else 1
        again = {name: np.tile(getattr(self, name), times) for name in _COLUMNS}
        again["priority"] = again["priority"] + turn * span
        again["instance"] = np.where(
            again["instance"] < 0, -1, again["instance"] + turn * instances
        ).astype(np.int32)
        inside = self.edges()
        steps = np.arange(times)[:, None] * num
        before = (inside[0] + steps).ravel(), (self.carried[:, 0] + steps[:-1]).ravel()
        node = (inside[1] + steps).ravel(), (self.carried[:, 1] + steps[1:]).ravel()
        start, wait_for = csr(np.concatenate(node), np.concatenate(before), times * num)
        none = np.zeros((0, 2), dtype=np.int64)
        return self.changed(**again, wait_start=start, wait_for=wait_for, carried=none)


_COLUMNS = (
    *("kind", "owner", "work", "latency", "size_bytes", "priority"),
    *("label", "is_gradient", "instance", "group", "first_rank", "last_rank"),
)
_OTHER_ARRAYS = (
    *("ranks", "group_start", "group_owner", "group_size"),
    *("wait_start", "wait_for", "carried"),
)


def csr(
    key: NDArray[Any], value: NDArray[Any], num_keys: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different values of every key side by side, ascending: where each begins, and they."""
    span = int(value.max(initial=0)) + 1
    pairs = np.sort(key.astype(np.int64) * span + value)  # sorting takes less than np.unique's hash
    pairs = pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])[: len(pairs)]]
    keys, values = np.divmod(pairs, span)
    return starts_of(np.bincount(keys, minlength=num_keys)).astype(np.int64), values


def _check_columns(graph: JobGraph) -> None:
    num = graph.num_nodes
    if not 1 <= num <= MAX_NODES:
        raise ValueError(f"a job has {num} nodes: it has from 1 to {MAX_NODES}")
    for name in _COLUMNS:
        if getattr(graph, name).shape != (num,):
            raise ValueError(f"{name} has not one entry a node: there are {num}")
    limits = {
        "kind": (0, len(KINDS) - 1),
        "owner": (0, graph.num_owners - 1),
        "label": (0, len(graph.labels) - 1),
        "work": (0, MAX_TICKS),
        "latency": (0, MAX_TICKS),
        "size_bytes": (0, MAX_TICKS),
        "group": (-1, len(graph.group_size) - 1),
        "wait_for": (0, num - 1),
        "carried": (0, num - 1),
        "group_owner": (0, graph.num_owners - 1),
        "ranks": (0, MAX_TICKS),
        "first_rank": (0, MAX_TICKS),
        "last_rank": (0, MAX_TICKS),
    }
    for name, (least, most) in limits.items():
        values = getattr(graph, name)
        if values.size and not least <= int(values.min()) <= int(values.max()) <= most:
            worst = int(values.min()) if values.min() < least else int(values.max())
            raise ValueError(f"{name} is {worst}: it is from {least} to {most}")
    if not graph.ranks.any():
        raise ValueError("a job has a rank or more")
    if float(graph.work.sum(dtype=float) + graph.latency.sum(dtype=float)) > MAX_TICKS:
        raise ValueError("all nodes together take more than 2^62 ticks")
    if graph.tick_s <= 0:
        raise ValueError(f"tick_s is {graph.tick_s}: it must be positive")
    members = np.diff(graph.group_start)
    if (graph.group_size < np.maximum(members, 1)).any() or (members < 1).any():
        raise ValueError("a group has an owner, and at least as many ranks as owners")


def _check_meetings(graph: JobGraph) -> None:
    """ValueError unless sends meet receives and the members of every collective agree."""
    talks = graph.kind != COMPUTE
    if (graph.instance[~talks] != -1).any() or (graph.instance[talks] < 0).any():
        node = int(np.flatnonzero(talks == (graph.instance < 0))[0])
        raise ValueError(f"{graph.told(node)} has no partner, or has one that it cannot have")
    nodes = np.flatnonzero(talks)
    nodes = nodes[np.lexsort((graph.owner[nodes], graph.instance[nodes]))]
    _, first, count = np.unique(graph.instance[nodes], return_index=True, return_counts=True)
    lead = nodes[np.repeat(first, count)]
    is_pair = np.isin(graph.kind[lead], (SEND, RECEIVE))
    same_kind = graph.kind[nodes] == graph.kind[lead]
    alike = graph.size_bytes[nodes] == graph.size_bytes[lead]
    alike &= is_pair | (same_kind & (graph.group[nodes] == graph.group[lead]))
    alike &= is_pair == np.isin(graph.kind[nodes], (SEND, RECEIVE))
    if not alike.all():
        at = int(np.flatnonzero(~alike)[0])
        raise ValueError(
            f"{graph.told(int(nodes[at]))} disagrees with {graph.told(int(lead[at]))} "
            "its partner: kind, group and bytes are the same"
        )
    heads = nodes[first]
    pairs = np.isin(graph.kind[heads], (SEND, RECEIVE))
    sends = np.bincount(np.repeat(np.arange(len(first)), count), graph.kind[nodes] == SEND)
    wrong = pairs & ((count != 2) | (sends != 1))
    if wrong.any():
        node = int(heads[np.flatnonzero(wrong)[0]])
        raise ValueError(f"{graph.told(node)} is not one send that meets one receive")
    _check_members(graph, nodes, first[~pairs], count[~pairs])


def _check_members(
    graph: JobGraph, nodes: NDArray[np.int64], first: NDArray[np.int64], count: NDArray[np.int64]
) -> None:
    """ValueError unless every collective has a node of each owner in its group, and no other."""
    group = graph.group[nodes[first]]
    if (group < 0).any():
        node = int(nodes[first[np.flatnonzero(group < 0)[0]]])
        raise ValueError(f"{graph.told(node)} has no group")
    wanted = np.diff(graph.group_start)[group]
    is_wrong = wanted != count
    if not is_wrong.any():
        run, entry = places(graph.group_start[group], wanted)
        owners = graph.group_owner[entry]
        owners = owners[np.lexsort((owners, run))]
        _, place = places(first, count)
        differs = owners != graph.owner[nodes[place]]
        is_wrong = np.bincount(run, differs, minlength=len(first)) > 0
    if is_wrong.any():
        node = int(nodes[first[np.flatnonzero(is_wrong)[0]]])
        members = _members(graph, int(graph.group[node]))
        raise ValueError(
            f"{graph.told(node)} has not one node of every rank of its group: they are {members}"
        )


def _members(graph: JobGraph, group: int) -> list[int]:
    owners = graph.group_owner[graph.group_start[group] : graph.group_start[group + 1]]
    return [int(owner) for owner in owners[:20]]
