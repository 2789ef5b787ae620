"""Timelines for Perfetto and chrome://tracing: what links and ranks do when, as trace events.

A process is a node or a rank, a thread a link out of it, its computation or its channel. Slices of
a thread do not overlap: what does has a thread more. Times are microseconds with six digits.
"""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.jobs.job_graph import COMPUTE
from ocs_codesign.schedules.simulate.transfers import BARRIER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from ocs_codesign.jobs.issue import JobRun
    from ocs_codesign.schedules.simulate.engine import Simulated

MAX_EVENTS = 4_000_000
_PICOSECONDS = 10**12


class Slice(NamedTuple):
    """What a thread of a process does from when, for how long (picoseconds)."""

    process: int
    thread: int
    begin: Fraction | int
    lasts: Fraction | int
    name: str
    kind: str
    facts: str


def timeline_of_run(done: Simulated) -> bytes:
    """The timeline of a simulated schedule: a process a node, a thread a link, arrows to arrivals.

    Raises ValueError for more than MAX_EVENTS events.
    """
    transfers, network = done.transfers, done.transfers.network
    owner, busy = done.owner(), done.hop_ticks()[0]
    _check_count(3 * len(owner))
    tick = _picoseconds(network.tick_s)
    tail, head = network.tail.tolist(), network.head.tolist()
    names = [network.name(node) for node in range(network.num_nodes)]
    size = (transfers.size * float(transfers.chunk_bytes)).tolist()
    step, kind = transfers.step.tolist(), transfers.kind.tolist()
    columns = (owner, transfers.path_link, done.hop_start, busy)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    slices = [
        Slice(
            *(tail[link], link, begin * tick, lasts * tick),
            *(f"step {step[one]}", "send"),
            f'"bytes":{size[one]:.0f},"step":{step[one]},"to":{json.dumps(names[head[link]])}',
        )
        for one, link, begin, lasts in rows
        if kind[one] < BARRIER
    ]
    first = transfers.path_start[:-1][np.diff(transfers.path_start) > 0]
    moves = np.flatnonzero(np.diff(transfers.path_start) > 0)
    last = transfers.path_start[1:][moves] - 1
    out_of = {int(node): link for link, node in reversed(list(enumerate(tail)))}
    arrows = []
    ends = zip(
        *(moves.tolist(), transfers.path_link[first].tolist(), transfers.path_link[last].tolist()),
        *(done.hop_start[first].tolist(), done.arrival[moves].tolist()),
        strict=True,
    )
    for one, link, final, begin, arrived in ends:
        there = head[final]
        arrows.append((begin * tick, "s", one, tail[link], link))
        arrows.append((arrived * tick, "f", one, there, out_of.get(there, 0)))
    threads = {
        (tail[link], link): f"to {names[head[link]]}" for link in set(transfers.path_link.tolist())
    }
    return _events(dict(enumerate(names)), threads, slices, arrows)


def timeline_of_job(done: JobRun) -> bytes:
    """The timeline of a job: a process an owner, its computation and what its channel sends.

    Raises ValueError for more than MAX_EVENTS events.
    """
    graph = done.graph
    tick = _picoseconds(graph.tick_s)
    computes = np.flatnonzero((graph.kind == COMPUTE) & (done.end > done.start))
    owner, node, begin, end = done.channel_pieces()
    _check_count(len(computes) + len(owner))
    slices = []
    for one in computes.tolist():
        first, last = int(done.start[one]), int(done.end[one])
        label = graph.labels[graph.label[one]] or "compute"
        begins, lasts, mine = first * tick, (last - first) * tick, int(graph.owner[one])
        slices.append(Slice(mine, 0, begins, lasts, label, "compute", f'"node":{one}'))
    threads = {(one, 0): "computes" for one in np.unique(graph.owner[computes]).tolist()}
    pieces = zip(*(column.tolist() for column in (owner, node, begin, end)), strict=True)
    talks = [(one, first, last, row) for one, row, first, last in pieces if last > first]
    for lane, (one, first, last, row) in _in_lanes(talks):
        threads[one, lane + 1] = "sends" if not lane else f"sends, {lane + 1}"
        facts = f'"node":{row},"bytes":{int(graph.size_bytes[row])}'
        label = graph.labels[graph.label[row]] or "message"
        slices.append(
            Slice(one, lane + 1, first * tick, (last - first) * tick, label, "send", facts)
        )
    processes = {
        one: f"rank {one}" if graph.ranks[one] == 1 else f"class {one}"
        for one in range(graph.num_owners)
    }
    return _events(processes, threads, slices, [])


def _in_lanes(talks: Iterable[tuple[int, int, int, int]]) -> Iterable[tuple[int, Any]]:
    """Every piece with the first lane of its owner in which nothing is meanwhile."""
    free: dict[int, list[tuple[int, int]]] = {}
    lanes: dict[int, int] = {}
    for talk in sorted(talks):
        one, first, last, _ = talk
        waiting = free.setdefault(one, [])
        if waiting and waiting[0][0] <= first:
            lane = heapq.heappop(waiting)[1]
        else:
            lane = lanes.get(one, 0)
            lanes[one] = lane + 1
        heapq.heappush(waiting, (last, lane))
        yield lane, talk


def _picoseconds(tick_s: Fraction) -> Fraction | int:
    whole = tick_s * _PICOSECONDS
    return int(whole) if whole.denominator == 1 else whole


def _check_count(count: int) -> None:
    if count > MAX_EVENTS:
        raise ValueError(
            f"a timeline of {count:,} events: at most {MAX_EVENTS:,} are written; ask for fewer "
            "parts or fewer ranks"
        )


def _micros(picoseconds: Any) -> str:
    whole = int(picoseconds)
    return f"{whole // 10**6}.{whole % 10**6:06d}"


def _events(
    processes: dict[int, str],
    threads: dict[tuple[int, int], str],
    slices: list[Slice],
    arrows: Sequence[tuple[Any, str, int, int, int]],
) -> bytes:
    """All events, names first, then by when they begin."""
    used = {each.process for each in slices} | {process for process, _ in threads}
    lines = [
        f'{{"ph":"M","name":"process_name","pid":{one},"args":{{"name":{json.dumps(name)}}}}}'
        for one, name in processes.items()
        if one in used
    ]
    lines += [
        f'{{"ph":"M","name":"thread_name","pid":{one},"tid":{thread},'
        f'"args":{{"name":{json.dumps(name)}}}}}'
        for (one, thread), name in sorted(threads.items())
    ]
    timed = [
        (
            each.begin,
            f'{{"ph":"X","name":{json.dumps(each.name)},"cat":"{each.kind}","pid":{each.process},'
            f'"tid":{each.thread},"ts":{_micros(each.begin)},"dur":{_micros(each.lasts)},'
            f'"args":{{{each.facts}}}}}',
        )
        for each in slices
    ]
    timed += [
        (
            at,
            f'{{"ph":"{kind}","name":"send","cat":"send","id":{number},"pid":{process},'
            f'"tid":{thread},"ts":{_micros(at)}' + (',"bp":"e"}' if kind == "f" else "}"),
        )
        for at, kind, number, process, thread in arrows
    ]
    timed.sort(key=lambda one: one[0])
    body = ",\n".join([*lines, *(text for _, text in timed)])
    return f'{{"displayTimeUnit":"ns","traceEvents":[\n{body}\n]}}\n'.encode()
