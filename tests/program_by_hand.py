"""Programs of ranks made by hand from in-place allgathers, one stream a link end."""

from __future__ import annotations

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.rank_program import OUTPUT, RECEIVE, SEND, RankProgram


def ring_schedule(num_ranks: int):
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology

    own = np.arange(num_ranks)
    ring = Topology(num_ranks, own, (own + 1) % num_ranks)
    steps = np.repeat(np.arange(1, num_ranks), num_ranks)
    link = np.tile(own, num_ranks - 1)
    item = (link - steps + 1) % num_ranks
    nothing = np.zeros(len(link), dtype=int)
    return Schedule(ring, Collective.ALLGATHER, 1, item, nothing, nothing + 1, link, steps)


def gathering_program(schedule) -> RankProgram:
    """What an in-place allgather's sends are, with a stream for every end of a link."""
    rows = []
    topology = schedule.topology
    writer = {}
    number = 0
    chunks = schedule.num_chunks
    sends = list(zip(*(column.tolist() for column in schedule.columns()), strict=True))
    parallel = np.zeros(topology.num_links, dtype=int)
    seen: dict[tuple[int, int], int] = {}
    for link, ends in enumerate(zip(topology.tail.tolist(), topology.head.tolist(), strict=True)):
        parallel[link] = seen.get(ends, 0)
        seen[ends] = parallel[link] + 1
    for item, lo, hi, link, step in sends:
        tail, head = int(topology.tail[link]), int(topology.head[link])
        at = item * chunks + lo
        base = {
            "source": at,
            "target": at,
            "count": hi - lo,
            "step": step,
            "channel": parallel[link],
        }
        needs = {
            writer[tail, item, chunk] for chunk in range(lo, hi) if (tail, item, chunk) in writer
        }
        rows.append({**base, "rank": tail, "kind": SEND, "peer": head, "stream": 2 * link,
                     "needs": needs, "number": number})  # fmt: skip
        rows.append({**base, "rank": head, "kind": RECEIVE, "peer": tail, "stream": 2 * link + 1,
                     "needs": set(), "number": number + 1})  # fmt: skip
        for chunk in range(lo, hi):
            writer.setdefault((head, item, chunk), number + 1)
        number += 2
    rows.sort(key=lambda row: row["rank"])
    place = {row["number"]: at for at, row in enumerate(rows)}
    needs = [sorted(place[need] for need in row["needs"]) for row in rows]
    names = ("rank", "stream", "kind", "peer", "channel", "source", "target", "count", "step")
    columns = {name: [int(row[name]) for row in rows] for name in names}
    columns |= {"source_buffer": [OUTPUT] * len(rows), "target_buffer": [OUTPUT] * len(rows)}
    starts = np.cumsum([0, *map(len, needs)])
    flat = np.array([need for each in needs for need in each], dtype=np.int64)
    ranks = topology.num_nodes
    return RankProgram(schedule.collective, ranks, chunks, True, [0] * ranks, columns, starts, flat)
