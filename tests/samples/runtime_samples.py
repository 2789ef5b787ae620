"""Plans that others made, with the bits of their results, and ranks as threads that run them."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.interop.runtimes.moves import execute, moves_of, packed, put
from ocs_codesign.interop.runtimes.traffic import RankMessages, traffic_of

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "runtimes.json").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in KNOWN["cases"]}


def planned(plan: dict[str, Any]) -> Schedule:
    """A plan of the file, over a link for every pair that it uses."""
    sends = np.array(plan["sends"])
    step, _, _, item, lo, hi, adds = sends.T
    pairs, link = np.unique(sends[:, 1:3], axis=0, return_inverse=True)
    collective = Collective(plan["collective"], plan.get("root"))
    if plan["collective"] in ("broadcast", "reduce"):
        item = 0 * item
    phase = 1 - adds if plan["collective"] == "allreduce" else None
    topology = Topology(plan["num_nodes"], *pairs.T)
    return Schedule(topology, collective, plan["num_chunks"], item, lo, hi, link, step, phase)


@cache
def known_traffic(name: str) -> RankMessages:
    return traffic_of(planned(CASES[name]["plan"]))


def drawn(ranks: int, columns: int, seed: int, dtype: str) -> np.ndarray:
    """Inputs of all ranks: full mantissas and mixed exponents, so that the order of sums shows."""
    state, numbers, exponents = seed, [], []
    for _ in range(ranks * columns):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append((state >> 40) - 2**23)
        exponents.append(((state >> 37) & 7) - 23)
    whole = np.array(numbers, dtype=np.int64).reshape(ranks, columns)
    if dtype == "int64":
        return whole
    return np.ldexp(whole, np.array(exponents).reshape(ranks, columns)).astype(np.float32)


def inputs_of(case: dict[str, Any], run: dict[str, Any]) -> list[np.ndarray]:
    """What every rank has before a run of a case."""
    ranks, name = case["plan"]["num_nodes"], case["plan"]["collective"]
    columns = run["elements"] * (ranks if name in ("alltoall", "reduce-scatter") else 1)
    return list(drawn(ranks, columns, run["seed"], run["dtype"]))


def uneven_inputs_of(case: dict[str, Any], run: dict[str, Any]) -> list[np.ndarray]:
    """The same where items are of different numbers of elements."""
    start = np.cumsum([0, *run["items"]])
    rows = list(drawn(len(run["items"]), int(start[-1]), run["seed"], run["dtype"]))
    if case["plan"]["collective"] != "allgather":
        return rows
    return [row[start[rank] : start[rank + 1]] for rank, row in enumerate(rows)]


def bits(results: list[np.ndarray]) -> str:
    return hashlib.sha256(np.concatenate(results).tobytes()).hexdigest()[:16]


class QueueWire:
    """Ranks are threads; a message is what was held when it was sent."""

    def __init__(self, rank: int, dtype: Any, queues: dict[tuple[int, int, int], Queue]) -> None:
        self.rank, self.dtype, self.queues = rank, dtype, queues

    def _queue(self, source: int, target: int, tag: int) -> Queue:
        return self.queues.setdefault((source, target, tag), Queue())

    def room(self, size: int) -> np.ndarray:
        return np.empty(size, dtype=self.dtype)

    def send(self, content: np.ndarray, peer: int, tag: int) -> None:
        self._queue(self.rank, peer, tag).put(content.copy())

    def receive(self, room: np.ndarray, peer: int, tag: int) -> tuple[np.ndarray, Queue]:
        return room, self._queue(peer, self.rank, tag)

    def wait(self, started: Any, peer: int, step: int) -> None:
        if started is not None:
            room, queue = started
            content = queue.get(timeout=20)
            assert content.shape == room.shape, (peer, step)
            room[:] = content


def threaded(
    traffic: RankMessages, elements: Any, inputs: list[np.ndarray], combine: Callable = np.add
) -> list[np.ndarray]:
    """The output of every rank, each a thread."""
    sizes = elements if isinstance(elements, np.ndarray) else traffic.sizes(elements)
    results: dict[int, np.ndarray] = {}
    queues: dict[tuple[int, int, int], Queue] = {}

    def perform(rank: int) -> None:
        moves = moves_of(traffic, rank, sizes)
        wire = QueueWire(rank, inputs[rank].dtype, queues)
        buffer = wire.room(moves.size)
        put(buffer, moves.given, inputs[rank][: sum(hi - lo for lo, hi in moves.given)])
        execute(moves, buffer, wire, lambda one, other: combine(one, other, out=one), 7, 2**20)
        total = sum(hi - lo for lo, hi in moves.wanted)
        results[rank] = packed(buffer, moves.wanted, total, wire)

    threads = [Thread(target=perform, args=(rank,)) for rank in range(traffic.num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [results[rank] for rank in range(traffic.num_ranks)]
