"""Chakra's execution traces as jobs: computation, sends, receives and collectives of all ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.reading import read_graph
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COLLECTIVES

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.interop.chakra.graph import EtGraph
    from ocs_codesign.jobs.job_graph import JobGraph


_TICKS_OF_MICRO = 1000


def load_chakra_job(path: Path) -> JobGraph:
    """The job of the traces in a directory, or of the same prefix as a file ``PREFIX.RANK.et``.

    Raises OSError if one cannot be read and ValueError, with the rule, for what is no complete set
    of traces, and, with what to install, where protobuf is missing.
    """
    graph = read_graph(path)
    try:
        return job_of_traces(graph)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def job_of_traces(traces: EtGraph) -> JobGraph:
    """The job of traces of all ranks, every rank an owner; a node's id is its priority.

    Collective k of a rank is collective k of all others, or of those that name the same process
    group (``pg_name``); messages of the same ends and tag meet in the order of the files. An
    allgather's size is a shard, as ASTRA-sim has it; a computation of 0
    takes a nanosecond. Raises ValueError for messages without a partner, for collectives that
    differ, and for those that jobs do not have.
    """
    draft = JobDraft(traces.num_ranks)
    made = [-1] * traces.num_nodes
    _add_computations(draft, traces, made)
    _add_messages(draft, traces, made)
    _add_collectives(draft, traces, made)
    for row, before in zip(traces.waiting().tolist(), traces.wait.tolist(), strict=True):
        draft.wait(made[row], made[before])
    return draft.graph()


def _add_computations(draft: JobDraft, traces: EtGraph, made: list[int]) -> None:
    for row in (traces.kind == schema.COMP).nonzero()[0].tolist():
        ticks = max(1, int(traces.micros[row]) * _TICKS_OF_MICRO)
        made[row] = draft.compute(
            int(traces.rank[row]), ticks, label="computation", priority=int(traces.id[row])
        )


def _add_messages(draft: JobDraft, traces: EtGraph, made: list[int]) -> None:
    seen: Counter[tuple[int, ...]] = Counter()
    ends: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
    for row in ((traces.kind == schema.SEND) | (traces.kind == schema.RECV)).nonzero()[0].tolist():
        kind, mine, peer = int(traces.kind[row]), int(traces.rank[row]), int(traces.peer[row])
        pair = (mine, peer) if kind == schema.SEND else (peer, mine)
        key = *pair, int(traces.tag[row])
        number = seen[kind, *key]
        seen[kind, *key] += 1
        ends[*key, number][kind] = row
    for (tail, head, tag, _), rows in ends.items():
        if len(rows) < 2:
            one = "receive" if schema.SEND in rows else "send"
            raise ValueError(f"a message from rank {tail} to {head} with tag {tag} has no {one}")
        sent, received = rows[schema.SEND], rows[schema.RECV]
        if traces.size[sent] != traces.size[received]:
            raise ValueError(
                f"{traces.place(sent)} sends {traces.size[sent]} bytes: its receive has "
                f"{traces.size[received]}"
            )
        made[sent], made[received] = draft.send(
            *(tail, head, int(traces.size[sent])), label="message", priority=int(traces.id[sent])
        )


def _add_collectives(draft: JobDraft, traces: EtGraph, made: list[int]) -> None:
    """Those of all ranks, and of every process group, whose ranks are those that name it."""
    everyone = list(range(traces.num_ranks))
    rows: dict[str, dict[int, list[int]]] = {"": {rank: [] for rank in everyone}}
    for row in (traces.kind == schema.COLL).nonzero()[0].tolist():
        ranks = rows.setdefault(traces.group_of(row), {})
        ranks.setdefault(int(traces.rank[row]), []).append(row)
    for group, by_rank in rows.items():
        if len({len(own) for own in by_rank.values()}) > 1:
            who = f"of group {group!r}" if group else "of all ranks"
            raise ValueError(f"the ranks do not have as many collectives {who}")
        for together in zip(*by_rank.values(), strict=True):
            _add_collective(draft, traces, made, list(by_rank), together)


def _add_collective(
    draft: JobDraft, traces: EtGraph, made: list[int], ranks: list[int], together: tuple[int, ...]
) -> None:
    first = together[0]
    name = schema.COMM_TYPES[traces.comm_type[first]]
    if name not in COLLECTIVES:
        raise ValueError(f"{traces.place(first)} is a {name}: it has no place in a job")
    for row in together:
        if (traces.comm_type[row], traces.size[row]) != (
            traces.comm_type[first],
            traces.size[first],
        ):
            raise ValueError(f"{traces.place(row)} differs from {traces.place(first)}")
    size = int(traces.size[first]) * (len(ranks) if name == "allgather" else 1)
    nodes = draft.collective(*(name, ranks, size, {}), label=name, priority=int(traces.id[first]))
    for row, node in zip(together, nodes, strict=True):
        made[row] = node
