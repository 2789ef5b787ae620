"""Chakra's execution traces as jobs: computation, sends, receives and collectives of all ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.graph import collectives_of
from ocs_codesign.interop.chakra.reading import groups_beside, read_graph
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from ocs_codesign.interop.chakra.graph import EtGraph
    from ocs_codesign.jobs.fused import Accelerator
    from ocs_codesign.jobs.job_graph import JobGraph


_TICKS_OF_MICRO = 1000


PROCESSOR = "processor"
"""Computations on processors may be ignored."""


def load_chakra_job(
    path: Path, accelerator: Accelerator | None = None, ignore: Collection[str] = ()
) -> JobGraph:
    """The job of the traces in a directory, or of the same prefix as a file ``PREFIX.RANK.et``.

    Computations that have operations and bytes, and no time, take what the ``accelerator`` does.
    Process groups are those of ``PREFIX.json`` where it is there. ``ignore`` is any of
    MISSING dependencies and computations on the PROCESSOR.

    Raises OSError if one cannot be read and ValueError, with the rule, for what is no complete set
    of traces, and, with what to install, where protobuf is missing.
    """
    graph = read_graph(path, for_job=True, ignore=ignore)
    try:
        groups = groups_beside(path)
        return job_of_traces(graph, accelerator, groups, with_processor=PROCESSOR not in ignore)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def job_of_traces(
    traces: EtGraph,
    accelerator: Accelerator | None = None,
    groups: Mapping[str, list[int]] | None = None,
    *,
    with_processor: bool = True,
) -> JobGraph:
    """The job of traces of all ranks, every rank an owner; a node's id is its priority.

    Collective k of a rank is collective k of all others, or of those of the same process group
    (``pg_name``): the ranks that ``groups`` has for it, or else those that name it. Messages of the
    same ends and tag meet in the order of the files. An allgather's size is a shard, as ASTRA-sim
    has it; a computation of 0 takes a nanosecond, and one on a processor runs beside those on
    accelerators, one at a time. Metadata, and collectives of one rank, pass on who waits. Raises
    ValueError for messages without a partner, for collectives that differ, for those that jobs do
    not have, and for work without an accelerator that does it.
    """
    lanes = 0 if traces.lane is None or not with_processor else int(traces.lane.max(initial=0))
    # A lane beside the first is an owner of no ranks.
    ranks = [1] * traces.num_ranks + [0] * traces.num_ranks * lanes
    draft = JobDraft(len(ranks), ranks)
    made = [-1] * traces.num_nodes
    _add_computations(draft, traces, made, accelerator, with_processor=with_processor)
    _add_messages(draft, traces, made)
    _add_collectives(draft, traces, made, groups or {})
    ends = _ends(traces, made)
    for row, before in zip(traces.waiting().tolist(), traces.wait.tolist(), strict=True):
        if made[row] >= 0:
            for one in ends[before] if made[before] < 0 else (made[before],):
                draft.wait(made[row], one)
    return draft.graph()


def _ends(traces: EtGraph, made: list[int]) -> dict[int, tuple[int, ...]]:
    """Of every row without a node the nodes that whoever waits for it waits for."""
    found: dict[int, tuple[int, ...]] = {}
    start, wait = traces.wait_start.tolist(), traces.wait.tolist()
    for first in (row for row, node in enumerate(made) if node < 0):
        path = [first]
        while path:
            row = path[-1]
            before = wait[start[row] : start[row + 1]]
            open_rows = [one for one in before if made[one] < 0 and one not in found]
            if row in found:
                path.pop()
            elif not open_rows:
                each = (found[one] if made[one] < 0 else (made[one],) for one in before)
                found[row] = tuple(dict.fromkeys(node for nodes in each for node in nodes))
                path.pop()
            elif open_rows[0] in path:
                raise ValueError(f"{traces.place(row)} waits for itself")
            else:
                path.append(open_rows[0])
    return found


def _add_computations(
    draft: JobDraft,
    traces: EtGraph,
    made: list[int],
    accelerator: Accelerator | None,
    *,
    with_processor: bool,
) -> None:
    for row in (traces.kind == schema.COMP).nonzero()[0].tolist():
        lane = 0 if traces.lane is None else int(traces.lane[row])
        if lane and not with_processor:
            continue
        if traces.nanos is not None:
            ticks = int(traces.nanos[row])
        else:
            ticks = int(traces.micros[row]) * _TICKS_OF_MICRO
            ticks = ticks or _by_roofline(traces, row, accelerator)
        owner = int(traces.rank[row]) + traces.num_ranks * lane
        label = "beside" if lane else "computation"
        made[row] = draft.compute(owner, ticks, label=label, priority=int(traces.id[row]))


def _by_roofline(traces: EtGraph, row: int, accelerator: Accelerator | None) -> int:
    """Nanoseconds of a computation that has operations and bytes, as ASTRA-sim has them: cut off.

    One that has neither takes one.
    """
    if traces.num_ops is None or traces.num_bytes is None:
        return 1
    ops, num_bytes = int(traces.num_ops[row]), int(traces.num_bytes[row])
    if not ops and not num_bytes:
        return 1
    if accelerator is None:
        raise ValueError(
            f"{traces.place(row)} has {ops:,} operations on {num_bytes:,} bytes and no time: "
            "--accelerator says what takes it, such as h100 or 989TFLOPS,3350GB/s"
        )
    return max(1, int(accelerator.seconds(ops, num_bytes) * 10**9))


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


def _add_collectives(
    draft: JobDraft, traces: EtGraph, made: list[int], groups: Mapping[str, list[int]]
) -> None:
    """Those of all ranks, and of every process group."""
    for ranks, together in collectives_of(traces, groups):
        _add_collective(draft, traces, made, ranks, together)


def _add_collective(
    draft: JobDraft, traces: EtGraph, made: list[int], ranks: list[int], together: tuple[int, ...]
) -> None:
    first = together[0]
    name = schema.COMM_TYPES[traces.comm_type[first]]
    if name not in COLLECTIVES:
        raise ValueError(f"{traces.place(first)} is a {name}: it has no place in a job")
    size = int(traces.size[first]) * (len(ranks) if name == "allgather" else 1)
    nodes = draft.collective(*(name, ranks, size, {}), label=name, priority=int(traces.id[first]))
    for row, node in zip(together, nodes, strict=True):
        made[row] = node
