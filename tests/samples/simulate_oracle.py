"""A slow second simulator with explicit queues, and random transfers for both."""

from __future__ import annotations

import heapq
from collections import deque
from fractions import Fraction
from itertools import chain, count
from math import floor

import numpy as np
from hypothesis import strategies as st

from ocs_codesign.core.network import Network
from ocs_codesign.schedules.simulate.transfers import Transfers


class Oracle:
    """Store and forward over links with queues; nodes take no time."""

    def __init__(self, transfers, rules):
        self.transfers, self.rules = transfers, rules
        num = transfers.num_transfers
        self.paths = [
            transfers.path_link[a:b].tolist()
            for a, b in zip(transfers.path_start, transfers.path_start[1:], strict=False)
        ]
        self.waits = [
            list(transfers.wait_for[a:b])
            for a, b in zip(transfers.wait_start, transfers.wait_start[1:], strict=False)
        ]
        self.left = [len(self.waits[i]) + (transfers.previous[i] >= 0) for i in range(num)]
        self.start, self.end = [None] * num, [None] * num
        self.queues = [deque() for _ in range(transfers.network.num_links)]
        self.is_busy = [False] * transfers.network.num_links
        self.events, self.ready, self.number = [], deque(), count()
        self.begin(0, [one for one in range(num) if not self.left[one]])
        while self.events:
            time, _, what, *more = heapq.heappop(self.events)
            what(time, *more)
            self.begin(time, ())

    def begin(self, time, ready):
        """All that may begin, in the order in which it came to be so."""
        self.ready.extend(ready)
        while self.ready:
            self.ask(time, self.ready.popleft(), 0)

    def ticks(self, transfer, link):
        network = self.transfers.network
        rate = Fraction(int(network.bandwidth[link])) * self.rules.unit_Bps * network.tick_s
        lasts = int(self.transfers.size[transfer]) * self.transfers.chunk_bytes / rate
        return floor(lasts), floor(lasts + int(network.latency[link]))

    def ask(self, time, transfer, hop):
        path = self.paths[transfer]
        if hop == len(path):
            return self.arrive(time, transfer)
        # The number of the later event is drawn when it is asked for, as the simulator does.
        self.queues[path[hop]].append((transfer, hop, next(self.number)))
        return None if self.is_busy[path[hop]] else self.serve(time, path[hop])

    def serve(self, time, link):
        if not self.queues[link]:
            self.is_busy[link] = False
            return
        transfer, hop, number = self.queues[link].popleft()
        if not hop:
            self.start[transfer] = time
        busy, flight = self.ticks(transfer, link)
        self.is_busy[link] = True
        free = flight if self.rules.blocking else busy
        # A link is free before what arrives at the same tick asks for it.
        heapq.heappush(self.events, (time + free, -1, self.serve, link))
        heapq.heappush(self.events, (time + flight, number, self.ask, transfer, hop + 1))

    def arrive(self, time, transfer):
        if self.start[transfer] is None:
            self.start[transfer] = time
        compute = int(self.transfers.compute[transfer])
        after = np.flatnonzero(self.transfers.previous == transfer).tolist()
        if not self.paths[transfer]:
            after = []
        if compute:
            self.release(after)
            heapq.heappush(self.events, (time + compute, next(self.number), self.finish, transfer))
        else:
            self.finish(time, transfer, after)

    def finish(self, time, transfer, after=()):
        self.end[transfer] = time
        waiting = [i for i, waits in enumerate(self.waits) for one in waits if one == transfer]
        self.release(sorted([*waiting, *after]))

    def release(self, others):
        for other in others:
            self.left[other] -= 1
            if not self.left[other]:
                self.ready.append(other)


@st.composite
def transfers(draw):
    """Messages over random walks of a small network, some of them only computing."""
    nodes = draw(st.integers(2, 5))
    node = st.integers(0, nodes - 1)
    links = [(a, (a + 1) % nodes) for a in range(nodes)]
    links += draw(st.lists(st.tuples(node, node), max_size=6))
    tail, head = np.array(links).T
    rate, latency = st.integers(1, 4), st.integers(0, 7)
    columns = [[draw(each) for _ in links] for each in (rate, latency)]
    network = Network(nodes, nodes, tail, head, *columns)
    paths, waits, previous, taken = [], [], [], set()
    for own in range(draw(st.integers(1, 24))):
        path, at = [], draw(node)
        for _ in range(draw(st.integers(0, 3))):
            link = draw(st.sampled_from(np.flatnonzero(tail == at).tolist()))
            path.append(link)
            at = int(head[link])
        paths.append(path)
        waits.append(sorted(draw(st.sets(st.integers(0, own - 1), max_size=3))) if own else [])
        free = [one for one in range(own) if one not in taken and paths[one][:1] == path[:1] != []]
        previous.append(draw(st.sampled_from([-1, *free])))
        taken.add(previous[-1])
    num = len(paths)
    return Transfers(
        network,
        draw(st.sampled_from([Fraction(1), Fraction(5), Fraction(7, 3)])),
        [draw(st.integers(0, 9)) if path else 0 for path in paths],
        np.cumsum([0, *map(len, paths)]),
        np.array(list(chain(*paths)), dtype=int),
        np.cumsum([0, *map(len, waits)]),
        np.array(list(chain(*waits)), dtype=int),
        previous,
        [draw(st.integers(0, 5)) for _ in range(num)],
        [0 if path else 2 for path in paths],
    )
