"""All-to-all schedules: known ones in closed form, and random ones along shortest paths."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from samples import loaded_topologies
from strategies import multigraphs

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable

Send = tuple[int, int, int, int, int]
"""root, lo, hi, link, step"""


def alltoall(topology: Topology, num_chunks: int, sends: list[Send]) -> Schedule:
    """The schedule of these rows."""
    columns = np.array(sends, dtype=np.int64).reshape(-1, 5).T
    return Schedule(topology, Collective.ALLTOALL, num_chunks, *columns)


def complete(nodes: int) -> Schedule:
    """On K_n every piece goes to its node in one step."""
    topology = parse(f"Complete({nodes})").topology()
    ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    sends = [(root, node, node + 1, link, 1) for link, (root, node) in enumerate(ends)]
    return alltoall(topology, nodes, sends)


def one_way_ring(nodes: int) -> Schedule:
    """Every node passes on all that it received and that is not for it."""
    ring = np.arange(nodes)
    topology = Topology(nodes, ring, (ring + 1) % nodes)
    sends = [
        (root, node, node + 1, (root + step - 1) % nodes, step)
        for root in range(nodes)
        for far in range(1, nodes)
        for node in [(root + far) % nodes]
        for step in range(1, far + 1)
    ]
    return alltoall(topology, nodes, sends)


def two_way_ring(nodes: int) -> Schedule:
    """The shorter way round, one hop a step; pieces are halves, one each way if both are short."""
    ring = np.arange(nodes)
    ends = ((ring + 1) % nodes, (ring - 1) % nodes)
    topology = Topology(nodes, np.tile(ring, 2), np.concatenate(ends))
    sends = []
    for root in range(nodes):
        for node in set(range(nodes)) - {root}:
            for half in range(2):
                hops = ((node - root) % nodes, (root - node) % nodes)
                back = hops[1] < hops[0] or (hops[0] == hops[1] and half == 1)
                for hop in range(hops[back]):
                    here = (root + (-hop if back else hop)) % nodes
                    chunk = 2 * node + half
                    sends.append((root, chunk, chunk + 1, here + nodes * back, hop + 1))
    return alltoall(topology, 2 * nodes, sends)


def bipartite(degree: int) -> Schedule:
    """On K_d,d pieces are d chunks: over to the other side, or by way of each node of that side."""
    topology = parse(f"CompleteBipartite({degree})").topology()
    ends = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    link_of = {pair: link for link, pair in enumerate(ends)}
    sends = []
    for root in range(2 * degree):
        others = [node for node in range(2 * degree) if (root, node) in link_of]
        for node in set(range(2 * degree)) - {root}:
            first = node * degree
            if node in others:
                sends.append((root, first, first + degree, link_of[root, node], 1))
                continue
            for chunk, relay in enumerate(others, first):
                sends.append((root, chunk, chunk + 1, link_of[root, relay], 1))
                sends.append((root, chunk, chunk + 1, link_of[relay, node], 2))
    return alltoall(topology, 2 * degree * degree, sends)


def random_alltoall(
    topology: Topology,
    chunks: int,
    random: np.random.Generator,
    patience: int = 1,
    merge: bool = True,
) -> Schedule:
    """Every chunk takes a random shortest path; each hop waits fewer than ``patience`` steps.

    ``chunks`` is the number a piece. ``merge`` makes one row of chunks that travel together.
    """
    nodes, distance = topology.num_nodes, topology.distances()
    hops = []
    for root, chunk in np.ndindex(nodes, nodes * chunks):
        here, step = root, 0
        while here != chunk // chunks:
            nearer = distance[topology.head, chunk // chunks] < distance[here, chunk // chunks]
            link = int(random.choice(np.flatnonzero((topology.tail == here) & nearer)))
            step += 1 + int(random.integers(patience))
            hops.append((root, link, step, chunk))
            here = int(topology.head[link])
    late = min((step for _, _, step, _ in hops), default=1) - 1
    rows = _rows(sorted(hops), merge)
    return alltoall(topology, nodes * chunks, [(*row[:4], row[4] - late) for row in rows])


def _rows(hops: list[tuple[int, int, int, int]], merge: bool) -> list[Send]:
    """Hops (root, link, step, chunk) in order, as rows of one chunk or of chunks in a row."""
    rows = []
    numbered = enumerate(hops)
    for _, run in groupby(numbered, lambda at: (at[1][:3], at[1][3] - at[0] if merge else at[0])):
        (_, (root, link, step, lo)), *rest = run
        rows.append((root, lo, lo + 1 + len(rest), link, step))
    return rows


@cache
def samples() -> tuple[Schedule, ...]:
    """Known schedules, and random ones on graphs with loops, parallel links and unequal speeds."""
    random = np.random.default_rng(11)
    drawn = (
        random_alltoall(topology, chunks, random, patience, merge=chunks > 1)
        for topology in loaded_topologies()
        for chunks, patience in ((1, 1), (1, 3), (2, 2))
    )
    return complete(5), one_way_ring(5), two_way_ring(6), bipartite(2), *drawn


@st.composite
def alltoalls(draw: Callable[..., Any], max_nodes: int = 6) -> Schedule:
    """Random all-to-all schedules on random multigraphs."""
    topology = draw(multigraphs(max_nodes=max_nodes, max_extra=8))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    chunks, patience = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return random_alltoall(topology, chunks, random, patience, draw(st.booleans()))
