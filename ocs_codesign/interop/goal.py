"""GOAL: what ranks send, receive and calculate, as text, of LogGOPSim and ATLAHS.

``num_ranks 2`` and a block a rank: ``rank 0 {`` ... ``}`` with ``a: send 1024b to 1 tag 7``, ``b:
recv 1024b from 1 tag 7``, ``c: calc 5000`` (nanoseconds), all perhaps with ``cpu`` and ``nic``, ``a
requires b`` (begins when b is over) and ``a irequires b`` (when b has begun). It has messages and
times, and no data: sums are calculations, and no collective is one.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import decoded
from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.check import check_graph
from ocs_codesign.interop.chakra.graph import EtGraph
from ocs_codesign.interop.chakra.jobs import job_of_traces
from ocs_codesign.interop.chakra.making import graph_of_program
from ocs_codesign.interop.registry import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ocs_codesign.interop.registry import Contents, Export
    from ocs_codesign.jobs.job_graph import JobGraph

MAX_BYTES = 2**28
MAX_RANKS = 2**16
MAX_NODES = 2**22
MAX_LANES = 64
_LIMIT = 2**50

_HEAD = re.compile(r"num_ranks\s+([0-9]{1,9})")
_RANK = re.compile(r"rank\s+([0-9]{1,9})\s*\{")
_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_TASK = re.compile(
    rf"({_LABEL})\s*:\s*(?:(send|recv)\s+([0-9]+)b\s+(?:to|from)\s+(-?[0-9]+)"
    r"(?:\s+tag\s+(-?[0-9]+))?|(calc)\s+([0-9]+))(?:\s+cpu\s+([0-9]+))?(?:\s+nic\s+([0-9]+))?"
)
_WAIT = re.compile(rf"({_LABEL})\s+(i?requires)\s+({_LABEL})")
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def write_goal(export: Export) -> Contents:
    """The file of an export: a send and a receive a message, what adds up is a calculation of 1 ns.

    Messages of a pair of ranks follow each other, as on a link.
    """
    graph = graph_of_program(export.program, export.checked_message_bytes())
    text = goal_text(graph)
    again = parse_goal(text.encode(), export.name)
    if _messages(again) != _messages(graph):
        raise RuntimeError(f"the GOAL file of {export.name} is not read back as it was written")
    return {f"{export.name}.goal": text.encode()}


def goal_text(graph: EtGraph) -> str:
    """Traces as GOAL; ValueError for collectives, of which it has none."""
    if (graph.kind == schema.COLL).any():
        raise ValueError("GOAL has sends, receives and calculations, and no collectives")
    lines = [f"num_ranks {graph.num_ranks}"]
    start, waits = graph.wait_start.tolist(), graph.wait.tolist()
    columns = (graph.rank, graph.kind, graph.size, graph.peer, graph.tag, graph.micros)
    nodes = list(zip(*(column.tolist() for column in columns), strict=True))
    first = np.searchsorted(graph.rank, np.arange(graph.num_ranks + 1)).tolist()
    for rank in range(graph.num_ranks):
        lines += ["", f"rank {rank} {{"]
        mine = range(first[rank], first[rank + 1])
        for row in mine:
            _, kind, size, peer, tag, micros = nodes[row]
            label = f"n{row - first[rank]}"
            if kind == schema.COMP:
                lines.append(f"{label}: calc {max(1, 1000 * micros)}")
            else:
                way = ("send", "to") if kind == schema.SEND else ("recv", "from")
                lines.append(f"{label}: {way[0]} {size}b {way[1]} {peer} tag {tag}")
        for row in mine:
            for whom in waits[start[row] : start[row + 1]]:
                lines.append(f"n{row - first[rank]} requires n{whom - first[rank]}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _messages(graph: EtGraph) -> Counter[tuple[int, ...]]:
    """Messages by source, target, tag and size."""
    sends = np.flatnonzero(graph.kind == schema.SEND)
    columns = (graph.rank[sends], graph.peer[sends], graph.tag[sends], graph.size[sends])
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def load_goal_job(path: Path) -> JobGraph:
    """The job in a file: every rank an owner, calculations on another ``cpu`` beside it.

    Raises OSError if it cannot be read and ValueError, with the line and the rule, for what is no
    GOAL, receives from anyone, and messages without a partner or of another size.
    """
    data = read_limited(path, MAX_BYTES)
    try:
        return job_of_traces(parse_goal(data, str(path)))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def checked_goal(path: Path) -> CheckedFile:
    """What is in a file, and whether its messages meet."""
    verdict = check_graph(parse_goal(read_limited(path, MAX_BYTES), str(path)))
    facts = (
        ("ranks", verdict.num_ranks),
        ("nodes", verdict.num_nodes),
        ("messages", verdict.num_messages),
        ("bytes", verdict.num_bytes),
    )
    return CheckedFile(facts, "messages meet and end: GOAL carries no data", verdict.witness)


def parse_goal(data: bytes, name: str) -> EtGraph:
    """The nodes of all ranks; ValueError with the line and the rule for what is no GOAL."""
    gathered = _Gathered(name)
    for number, line in _lines(decoded(data, name)):
        try:
            gathered.take(line)
        except ValueError as error:
            raise ValueError(f"{name}, line {number}: {error}") from None
    try:
        return gathered.graph()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers, without comments."""
    if "/" in text:
        text = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, line.strip()


class _Gathered:
    """Ranks as they are read, one after the other in the file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_ranks = 0
        self.rank = -1
        self.rows: dict[int, list[tuple[int, ...]]] = {}
        self.waits: dict[int, list[list[int]]] = {}
        self.labels: dict[str, int] = {}
        self.count = 0

    def take(self, line: str) -> None:
        """A line; ValueError for one that is none."""
        if not self.num_ranks:
            head = _HEAD.fullmatch(line)
            if head is None or not 1 <= int(head[1]) <= MAX_RANKS:
                raise ValueError(f"a file begins with num_ranks, from 1 to {MAX_RANKS:,}")
            self.num_ranks = int(head[1])
        elif self.rank < 0:
            rank = _RANK.fullmatch(line)
            if rank is None or int(rank[1]) >= self.num_ranks or int(rank[1]) in self.rows:
                raise ValueError(f"{shown(line)}: here begins a rank below {self.num_ranks}, once")
            self.rank, self.labels = int(rank[1]), {}
            self.rows[self.rank], self.waits[self.rank] = [], []
        elif line == "}":
            self.rank = -1
        elif (task := _TASK.fullmatch(line)) is not None:
            self._task(task)
        elif (wait := _WAIT.fullmatch(line)) is not None:
            self._wait(wait[1], wait[3], has_begun=wait[2] == "irequires")
        else:
            raise ValueError(f"{shown(line)} is no send, recv, calc, requires or irequires")

    def _task(self, task: re.Match[str]) -> None:
        label = task[1]
        if label in self.labels:
            raise ValueError(f"the label {label} is there twice")
        self.count += 1
        if self.count > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES:,} nodes are not read")
        lane = int(task[8] or 0)
        if lane >= MAX_LANES:
            raise ValueError(f"cpu {lane}: they are below {MAX_LANES}")
        amount = int(task[3] or task[7])
        if amount >= _LIMIT:
            raise ValueError(f"{amount}: sizes and times are below 2^50")
        if task[6]:
            row = (schema.COMP, -1, -1, -1, amount, lane)
        else:
            peer, tag = int(task[4]), int(task[5] or 0)
            if not 0 <= peer < self.num_ranks or peer == self.rank or not 0 <= tag < _LIMIT:
                raise ValueError(
                    f"{label} is of rank {peer}, tag {tag}: another rank, no wildcards"
                )
            kind = schema.SEND if task[2] == "send" else schema.RECV
            row = (kind, peer, tag, amount, 0, 0)
        self.labels[label] = len(self.rows[self.rank])
        self.rows[self.rank].append(row)
        self.waits[self.rank].append([])

    def _wait(self, who: str, whom: str, *, has_begun: bool) -> None:
        for label in (who, whom):
            if label not in self.labels:
                raise ValueError(f"{label} is no label of rank {self.rank} so far")
        mine = self.waits[self.rank]
        # Who waits until another has begun waits for what that one waits for.
        # A send is over for its own rank when its bytes have left it: what is sent next only
        # queues behind it.
        kinds = [self.rows[self.rank][self.labels[one]][0] for one in (who, whom)]
        queues = kinds == [schema.SEND, schema.SEND]
        before = mine[self.labels[whom]] if has_begun or queues else [self.labels[whom]]
        mine[self.labels[who]] += before

    def graph(self) -> EtGraph:
        """All ranks together, those that are not there without a node."""
        if self.rank >= 0 or not self.count:
            raise ValueError("the file ends within a rank" if self.count else "there is no rank")
        ranks = sorted(self.rows)
        rows = np.array([row for rank in ranks for row in self.rows[rank]], dtype=np.int64)
        sizes = [len(self.rows[rank]) for rank in ranks]
        first = dict(zip(ranks, starts_of(np.array(sizes)).tolist(), strict=False))
        each = [
            [first[rank] + one for one in dict.fromkeys(own)]
            for rank in ranks
            for own in self.waits[rank]
        ]
        kind, peer, tag, size, nanos, lane = rows.T
        count = np.array([len(one) for one in each], dtype=np.int64)
        return EtGraph(
            self.num_ranks,
            np.repeat(ranks, sizes).astype(np.int32),
            np.concatenate([np.arange(one) for one in sizes]),
            kind.astype(np.int8),
            ("",) * len(rows),
            peer.astype(np.int32),
            tag,
            size,
            np.full(len(rows), -1, dtype=np.int8),
            np.zeros(len(rows), dtype=np.int64),
            starts_of(count).astype(np.int64),
            np.array([one for own in each for one in own], dtype=np.int64),
            np.ones(int(count.sum()), dtype=bool),
            lane=lane.astype(np.int32),
            nanos=nanos,
        )
