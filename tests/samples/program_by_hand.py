"""Programs of ranks made by hand from in-place allgathers, one stream a link end."""

from __future__ import annotations

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.plans import NOP, OUTPUT, PUT, RECEIVE, SEND, SIGNAL, WAIT, RankProgram


def ring_schedule(num_ranks: int):
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology

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


def program_of(collective, ranks, rows, *, in_place=True, scratch=0, needs=()):
    """From rows (rank, stream, kind, peer, channel, from (buffer, slot), to (buffer, slot), count).

    ``needs`` are pairs: an operation, and one that it needs.
    """
    names = ("rank", "stream", "kind", "peer", "channel")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    for at, name in ((5, "source"), (6, "target")):
        columns[f"{name}_buffer"] = [row[at][0] for row in rows]
        columns[name] = [row[at][1] for row in rows]
    columns["count"] = [row[7] for row in rows]
    wanted = [[whom for who, whom in needs if who == o] for o in range(len(rows))]
    starts = [sum(map(len, wanted[:o])) for o in range(len(rows) + 1)]
    flat = [whom for of in wanted for whom in of]
    return RankProgram(collective, ranks, 1, in_place, [scratch] * ranks, columns, starts, flat)


NO = (0, 0)


def out(slot):
    return OUTPUT, slot


def puts_round_the_ring(ranks, *, acknowledged=True):
    """An allgather by puts: each rank says that it is ready, and then passes on what came last.

    With ``acknowledged`` a put is followed by a signal, and what it brings is waited for.
    """
    rows = []
    for rank in range(ranks):
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        rows.append((rank, 0, SIGNAL, before, 0, NO, NO, 0))
        rows.append((rank, 0, WAIT, after, 0, NO, NO, 0))
        for turn in range(ranks - 1):
            chunk = (rank - turn) % ranks
            rows.append((rank, 0, PUT, after, 0, out(chunk), out(chunk), 1))
            rows.append((rank, 0, NOP, -1, 0, NO, NO, 0))
            if acknowledged:
                rows.append((rank, 0, SIGNAL, after, 1, NO, NO, 0))
                rows.append((rank, 0, WAIT, before, 1, NO, NO, 0))
    return program_of(Collective.ALLGATHER, ranks, rows)
