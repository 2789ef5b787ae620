"""Slow and plain: run a RankProgram with real numbers, its operations side by side in any order.

Written from the docstring of RankProgram alone, with dicts and loops. An operation begins (it
reads) and ends (it writes) at two moments, so that what is not ordered is seen half done.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque

from ocs_codesign.core.demand import SUM
from ocs_codesign.core.plans import (
    ADD,
    COPY,
    GET,
    INPUT,
    NOP,
    OUTPUT,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
    RankProgram,
)

MODULUS = 2**61 - 1


class StuckError(Exception):
    """Nothing can go on, though not all has ended."""


class UncleanError(Exception):
    """Something was sent and not received, or counted and not waited for, or of another size."""


def layout(demand, chunks_per_unit: int, *, before: bool) -> list[list[tuple[int, int]]]:
    """The (piece, chunk) in every slot of the input or the output of every rank."""
    held: list[list[tuple[int, int]]] = [[] for _ in range(demand.num_hosts)]
    for item in range(demand.num_items):
        kind, root = int(demand.kind[item]), int(demand.root[item])
        for piece in range(demand.piece_start[item], demand.piece_start[item + 1]):
            hosts = demand.hosts_of(piece).tolist()
            if before:
                owners = hosts if kind == SUM else [root]
            else:
                owners = [root] if kind == SUM else hosts
            for host in owners:
                chunks = int(demand.weight[piece]) * chunks_per_unit
                held[host] += [(piece, chunk) for chunk in range(chunks)]
    return held


def places(program: RankProgram):
    """Two dicts, of what is had and what is wanted: (rank, piece, chunk) to its slot."""
    unit = program.chunks_per_unit
    had = layout(program.demands[0], unit, before=True)
    wanted = layout(program.demands[-1], unit, before=False)
    at = [{}, {}]
    for side, (buffer, held) in enumerate(((INPUT, had), (OUTPUT, wanted))):
        for rank, row in enumerate(held):
            for slot, (piece, chunk) in enumerate(row):
                at[side][rank, piece, chunk] = (rank, buffer, slot)
    if program.in_place:
        larger = 1 if program.place_buffer == OUTPUT else 0
        for key in at[1 - larger]:
            at[1 - larger][key] = at[larger].get(key, at[1 - larger][key])
    return at


def expected(program: RankProgram, values: dict) -> dict:
    """What every (rank, piece, chunk) that is wanted must be."""
    had, wanted = places(program)
    total: dict = defaultdict(int)
    for rank, piece, chunk in had:
        total[piece, chunk] = (total[piece, chunk] + values[rank, piece, chunk]) % MODULUS
    return {key: total[key[1], key[2]] for key in wanted}


def run(program: RankProgram, seed: int, depth: int | None = None) -> bool:
    """Whether one run in a random order ends with what is wanted; or an error."""
    choose = random.Random(seed)
    had, wanted = places(program)
    memory: dict = defaultdict(lambda: choose.randrange(MODULUS))
    values = {key: choose.randrange(MODULUS) for key in had}
    for key, slot in had.items():
        memory[slot] = values[key]
    _Run(program, choose, memory, depth).to_the_end()
    return all(memory[wanted[key]] == value for key, value in expected(program, values).items())


class _Run:
    def __init__(self, program, choose, memory, depth):
        self.program, self.choose, self.memory, self.depth = program, choose, memory, depth
        self.fifo: dict = defaultdict(deque)
        self.counter: dict = defaultdict(int)
        self.queue: dict = defaultdict(deque)
        for o in range(program.num_operations):
            self.queue[int(program.rank[o]), int(program.stream[o])].append(o)
        self.done = [False] * program.num_operations
        self.under_way: dict = {}

    def to_the_end(self):
        live = list(self.queue)
        while live:
            tried = self.choose.sample(range(len(live)), len(live))
            for at in tried:
                if self._advanced(live[at]):
                    if not self.queue[live[at]]:
                        live.pop(at)
                    break
            else:
                raise StuckError(f"{len(live)} streams wait for ever")
        if any(self.fifo.values()) or any(self.counter.values()):
            raise UncleanError("something is left over")

    def _advanced(self, key) -> bool:
        o = self.queue[key][0]
        if o not in self.under_way:
            return self._began(o)
        if not self._ended(o):
            return False
        self.queue[key].popleft()
        self.done[o] = True
        return True

    def _slots(self, rank, buffer, first, o):
        return [(int(rank), int(buffer), int(first) + i) for i in range(int(self.program.count[o]))]

    def _began(self, o) -> bool:
        p = self.program
        if not all(self.done[n] for n in p.need[p.need_start[o] : p.need_start[o + 1]]):
            return False
        kind, rank, peer = int(p.kind[o]), int(p.rank[o]), int(p.peer[o])
        source = self._slots(rank, p.source_buffer[o], p.source[o], o)
        target = self._slots(rank, p.target_buffer[o], p.target[o], o)
        link = (peer, rank, int(p.channel[o]))
        if kind in (RECEIVE, RECEIVE_ADD):
            if not self.fifo[link]:
                return False
            data = self.fifo[link].popleft()
            if len(data) != int(p.count[o]):
                raise UncleanError("a count is not that of the send")
        elif kind == WAIT:
            if not self.counter[link]:
                return False
            self.counter[link] -= 1
            data = []
        elif kind == GET:
            data = [self.memory[s] for s in self._slots(peer, p.target_buffer[o], p.target[o], o)]
        else:
            data = [self.memory[s] for s in source] if kind in (SEND, COPY, ADD, PUT) else []
        if kind in (RECEIVE_ADD, ADD):
            data = [(a + self.memory[s]) % MODULUS for a, s in zip(data, target, strict=True)]
        self.under_way[o] = data
        return True

    def _ended(self, o) -> bool:
        p, data = self.program, self.under_way[o]
        kind, rank, peer = int(p.kind[o]), int(p.rank[o]), int(p.peer[o])
        link = (rank, peer, int(p.channel[o]))
        if kind == SEND:
            if self.depth is not None and len(self.fifo[link]) >= self.depth:
                return False
            self.fifo[link].append(data)
        elif kind == SIGNAL:
            self.counter[link] += 1
        elif kind in (RECEIVE, RECEIVE_ADD, COPY, ADD):
            slots = self._slots(rank, p.target_buffer[o], p.target[o], o)
            self.memory.update(zip(slots, data, strict=True))
        elif kind == PUT:
            slots = self._slots(peer, p.target_buffer[o], p.target[o], o)
            self.memory.update(zip(slots, data, strict=True))
        elif kind == GET:
            slots = self._slots(rank, p.source_buffer[o], p.source[o], o)
            self.memory.update(zip(slots, data, strict=True))
        else:
            assert kind in (NOP, WAIT)
        return True
