"""What every host of a rehearsal does of a schedule: rows of words to send and to receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.demand import COPY, SUM
from ocs_codesign.fabric.rehearsal.host import HostJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.fabric.rehearsal.network import LinkWay


def words_of(schedule: Schedule, message_bytes: int) -> int:
    """Words of 8 bytes in a chunk."""
    units = max(demand.message_units for demand in schedule.demands) * schedule.chunks_per_unit
    return max(1, message_bytes // units // 8)


def jobs_of(
    schedule: Schedule,
    ways: Sequence[LinkWay],
    message_bytes: int,
    alpha_s: float,
    rate_Bps: float,  # noqa: N803
) -> tuple[list[HostJob], int]:
    """What every rank does, and the bytes of a chunk: words of 8 bytes, exact sums modulo 2^64."""
    words = words_of(schedule, message_bytes)
    columns = (schedule.step, schedule.link, schedule.item, schedule.lo, schedule.hi)
    phase = np.zeros(schedule.num_sends, int) if schedule.phase is None else schedule.phase
    tail, head = schedule.topology.tail, schedule.topology.head
    held = [_first_and_last(schedule, rank) for rank in range(schedule.num_hosts)]
    rows = [{*first, *last} for first, last in held]
    table = list(zip(*(c.tolist() for c in (*columns, phase)), strict=True))
    for _, link, item, lo, hi, _ in table:
        span = range(item * schedule.num_chunks + lo, item * schedule.num_chunks + hi)
        rows[tail[link]].update(span)
        rows[head[link]].update(span)
    place = [np.array(sorted(each), dtype=np.int64) for each in rows]
    # Of a rank alone: of all sends, or of every sum anew, it would be the square of the hosts.
    own: list[tuple[list[Any], list[Any]]] = [([], []) for _ in held]
    for send in table:
        own[tail[send[1]]][0].append(send)
        own[head[send[1]]][1].append(send)
    sums: dict[tuple[int, tuple[int, ...]], Any] = {}
    jobs = []
    for rank, (first, last) in enumerate(held):
        start = np.zeros((len(place[rank]), words), dtype=np.uint64)
        for row in first:
            start[np.searchsorted(place[rank], row)] = _data(row, rank, words)
        wanted = sorted(last)
        total = []
        for row in wanted:
            asked = row, tuple(last[row])
            if asked not in sums:
                sums[asked] = sum((_data(row, each, words) for each in last[row]), np.uint64(0))
            total.append(sums[asked])
        here = np.searchsorted(place[rank], np.array(wanted, dtype=np.int64))
        want = np.array(total, dtype=np.uint64).reshape(len(wanted), words)
        apart = [(link, way) for link, way in enumerate(ways) if way.tail != way.head]
        to = {link: way.address for link, way in apart if tail[link] == rank}
        by = {link: way.address for link, way in apart if head[link] == rank}
        steps: list[tuple[dict[int, Any], dict[int, Any]]] = [
            ({}, {}) for _ in range(schedule.num_steps)
        ]
        for side, crossing in enumerate(own[rank]):
            for step, link, item, lo, hi, half in crossing:
                at = int(np.searchsorted(place[rank], item * schedule.num_chunks + lo))
                is_sum = schedule.demands[half].kind[item] == SUM
                steps[step - 1][side].setdefault(link, []).append((at, hi - lo, is_sum))
        sends, gets = [one for one, _ in steps], [two for _, two in steps]
        jobs.append(HostJob(to, by, start, (here, want), sends, gets, alpha_s, rate_Bps))
    return jobs, 8 * words


def _data(row: int, rank: int, words: int) -> Any:
    """What a rank contributes to a chunk: no two chunks or ranks alike."""
    seed = np.uint64((row * 1_000_003 + rank * 7_919 + 1) * 0x9E3779B97F4A7C15 % 2**64)
    return np.arange(words, dtype=np.uint64) * np.uint64(2_862_933_555_777_941_757) + seed


def _first_and_last(schedule: Schedule, rank: int) -> tuple[set[int], dict[int, list[int]]]:
    """The chunks that a rank has first, and whose sum it must have of each in the end."""
    first: set[int] = set()
    last: dict[int, list[int]] = {}
    sums: dict[int, list[int]] = {}
    for number, demand in enumerate(schedule.demands):
        offsets = demand.first_units() * schedule.chunks_per_unit
        for piece, item in enumerate(demand.item_of_piece().tolist()):
            begin = item * schedule.num_chunks - offsets[demand.piece_start[item]]
            members, root = demand.hosts_of(piece).tolist(), int(demand.root[item])
            is_sum = demand.kind[item] == SUM
            for row in range(int(begin + offsets[piece]), int(begin + offsets[piece + 1])):
                if is_sum:
                    sums[row] = members
                givers, takers = (members, [root]) if is_sum else ([root], members)
                if demand.kind[item] == COPY:
                    takers = [*members, root]
                if not number and rank in givers:
                    first.add(row)
                if rank in takers:
                    last[row] = sums.get(row, [root])
    return first, last
