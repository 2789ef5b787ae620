"""MSCCL XML: schedules as threadblocks of steps, for the loaders of microsoft and of RCCL."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, final
from xml.sax.saxutils import quoteattr

import numpy as np

from ocs_codesign.core.plans import (
    ADD,
    COLUMNS,
    COPY,
    GET,
    NOP,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.interop.lowering.raising import steps_follow, steps_hold
from ocs_codesign.interop.msccl.order import (
    RECEIVES,
    LinkThread,
    Meetings,
    ProgramCauses,
    causes_of,
    edges_of,
    levels,
    link_text,
    messages_of,
    pass_over_nops,
    passes_on,
    space_edges,
    split,
    threads_of,
    with_columns,
)
from ocs_codesign.interop.msccl.programs import parse_msccl, program_of, read_msccl
from ocs_codesign.interop.msccl.read import (
    BUFFERS,
    DIALECTS,
    PROTOCOLS,
    MscclAlgorithm,
    MscclDialect,
    MscclGpu,
    MscclStep,
    ThreadBlock,
    check_limits,
    link_name,
    without_steps,
)
from ocs_codesign.interop.mscclpp.programs import parse_mscclpp
from ocs_codesign.interop.mscclpp.write import write_mscclpp
from ocs_codesign.verification.rank_programs import check_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.interop.registry import Contents, Export


# From a program to the threadblocks and steps of MSCCL: fused, ordered, within limits.


_TYPES = {SEND: "s", RECEIVE: "r", RECEIVE_ADD: "rrc", COPY: "cpy", ADD: "re"}
_FUSED = {RECEIVE: "rcs", RECEIVE_ADD: "rrcs"}
_LEAST_MESSAGES = 4
"""Messages of a link on a channel below which there is no use in more channels."""

_TRIES = 16
"""How often only the first of the fused steps that wait for ever are taken apart, then all."""


@final
class _TooLongError(ValueError):
    """A threadblock has more steps than are loaded: its links need more channels."""


def blocks_of(
    program: RankProgram, dialect: MscclDialect, proto: str, *, fused: bool = True
) -> list[list[ThreadBlock]]:
    """The threadblocks of every GPU that do what a program of sends and receives does.

    What is longer than a count or a threadblock may be is split, over channels in the second case.
    Steps are in the order of a run in which FIFOs hold as many messages as the protocol has room
    for, so that they end in any. Without ``fused`` a threadblock serves one link, as far as there
    may be so many: what goes on then never waits for room where it comes in. Raises ValueError if
    there is no such run, or for what cannot be split so that the loader takes it.
    """
    whole = split(program, dialect.max_count)
    most = dialect.max_steps
    while True:
        part = _on_channels(whole, most, dialect)
        try:
            return _Builder(part, dialect, PROTOCOLS[proto], fused).blocks()
        except _TooLongError:
            if most <= _LEAST_MESSAGES:
                raise
            most = most * 3 // 4


def _on_channels(program: RankProgram, most: int, dialect: MscclDialect) -> RankProgram:
    """The program with at most so many messages of a link on one channel, and not too many links.

    Order on a link stays: what one stream did after the other, it still does.
    """
    messages = messages_of(program)
    ends = np.concatenate([messages.send, messages.receive])
    if not len(ends):
        return program
    number = np.tile(messages.number, 2)
    rank, peer, channel = (getattr(program, c)[ends].astype(np.int64) for c in _ENDS)
    channels = int(channel.max()) + 1
    sends = np.repeat([True, False], len(messages.send))
    away = (np.where(sends, peer - rank, rank - peer) - 1) % program.num_ranks
    links = np.unique(np.stack([rank, channel, peer, sends]), axis=1)
    degree = np.unique(links[[0, 1, 3]], axis=1, return_counts=True)[1].max()
    width = dialect.max_threads_per_channel
    group = away // width if degree > width else np.zeros_like(away)
    groups = int(group.max()) + 1
    columns = {name: np.array(getattr(program, name)) for name in COLUMNS}
    columns["channel"][ends] = channel + channels * (group + groups * (number // most))
    highest = int(columns["channel"].max())
    if highest >= dialect.max_channels:
        at = int(ends[columns["channel"][ends].argmax()])
        raise ValueError(
            f"link {link_text(program, at)} would need channel {highest}: "
            f"at most {dialect.max_channels} channels are loaded"
        )
    return with_columns(program, columns, program.need_start, program.need)


_ENDS = ("rank", "peer", "channel")


@final
@dataclass(slots=True)
class _Node:
    """A step: one operation, or a receive and the send of what was received."""

    operations: tuple[int, ...]
    thread: int
    place: int = 0


@final
class _Builder:
    """The threads of a program, the nodes of each in order, and what every node waits for."""

    def __init__(
        self, program: RankProgram, dialect: MscclDialect, depth: int, fused: bool
    ) -> None:
        self.program, self.dialect = program, dialect
        self.messages: Meetings = messages_of(program)
        ends = [edges_of(program, self.messages), space_edges(self.messages, depth)]
        self.tail, self.head = (np.concatenate(part) for part in zip(*ends, strict=True))
        self.level = levels(program.num_operations, self.tail, self.head)
        if (self.level < 0).any():
            at = int((self.level < 0).argmax())
            raise ValueError(
                f"rank {int(program.rank[at])}, operation {at}: it never begins when links hold "
                f"{depth} messages"
            )
        self.causes: ProgramCauses = causes_of(program, ends[0], self.level)
        pass_over_nops(program, self.causes, self.level)
        self.threads = [
            thread
            for of_rank in threads_of(
                *(program, self.causes, dialect.max_threads, dialect.max_threads_per_channel),
                fused=fused,
            )
            for thread in of_rank
        ]
        for thread in self.threads:
            thread.operations.sort(key=self._when)

    def _when(self, o: int) -> tuple[int, bool, int]:
        return int(self.level[o]), self.program.kind[o] in RECEIVES, o

    def blocks(self) -> list[list[ThreadBlock]]:
        """The threadblocks of every GPU."""
        nodes, level = self._nodes()
        needs = self._needs(nodes, level)
        threads = [node.thread for node in nodes]
        start = np.searchsorted(threads, np.arange(len(self.threads) + 1)).tolist()
        numbers = _numbers(self.threads, nodes, needs)
        position = _positions(nodes, needs)
        waited = {c for need in needs for c in need}
        made: list[list[ThreadBlock]] = [[] for _ in range(self.program.num_ranks)]
        for t in sorted(range(len(self.threads)), key=lambda t: numbers[t]):
            steps: list[MscclStep] = []
            for n in range(start[t], start[t + 1]):
                places = [(numbers[nodes[c].thread], position[c]) for c in needs[n]]
                steps += [MscclStep("nop", "i", -1, "o", -1, 0, *place) for place in places[:-1]]
                steps.append(_step(self.program, nodes[n], places[-1:], n in waited))
            made[self.threads[t].rank].append(self._block(self.threads[t], steps))
        return made

    def _block(self, thread: LinkThread, steps: list[MscclStep]) -> ThreadBlock:
        ends = thread.send, thread.receive, thread.channel
        block = ThreadBlock(*ends, tuple(_apart(steps)))
        if len(steps) > self.dialect.max_steps:
            raise _TooLongError(
                f"link {link_name(thread.rank, block)}: a threadblock would have {len(steps)} "
                f"steps, at most {self.dialect.max_steps} are loaded"
            )
        return block

    def _nodes(self) -> tuple[list[_Node], list[int]]:
        """All nodes, thread after thread, and their levels; fused where they still end."""
        apart: set[int] = set()
        tries = 0
        while True:
            nodes = [
                node for t, thread in enumerate(self.threads) for node in self._fused(t, apart)
            ]
            level = self._levels(nodes)
            stuck = [n for n, at in enumerate(level) if at < 0 and len(nodes[n].operations) > 1]
            if not stuck:
                return nodes, level
            # The first of them may be all that has to be taken apart.
            least = min(int(self.level[nodes[n].operations[0]]) for n in stuck)
            tries += 1
            apart.update(
                nodes[n].operations[1]
                for n in stuck
                if tries > _TRIES or self.level[nodes[n].operations[0]] == least
            )

    def _fused(self, number: int, apart: set[int]) -> list[_Node]:
        thread = self.threads[number]
        nodes: list[_Node] = []
        for o in thread.operations:
            if self.program.kind[o] == NOP:
                continue
            last = nodes[-1].operations if nodes else ()
            if len(last) == 1 and o not in apart and self._fuse(last[0], o, thread):
                nodes[-1].operations = (last[0], o)
            else:
                nodes.append(_Node((o,), number))
        for place, node in enumerate(nodes):
            node.place = place
        return nodes

    def _fuse(self, receive: int, send: int, thread: LinkThread) -> bool:
        before = self.causes.before[send]
        if receive not in before or not passes_on(self.program, receive, send):
            return False
        # Without the needs that follow from others left out, something else may have written.
        return self.causes.reduced or set(before) <= set(thread.operations)

    def _levels(self, nodes: list[_Node]) -> list[int]:
        of = np.full(self.program.num_operations, -1, dtype=np.int64)
        for n, node in enumerate(nodes):
            of[list(node.operations)] = n
        number = np.array([node.thread for node in nodes], dtype=np.int64)
        follows = np.flatnonzero(np.diff(number) == 0)
        own = [(of[p], n) for n, node in enumerate(nodes) for p in self._before(node) if of[p] != n]
        ends = np.array(own, dtype=np.int64).reshape(-1, 2).T
        # What streams and needs ask for is in `own`, with the waiting of nops in it.
        between = self.program.rank[self.tail] != self.program.rank[self.head]
        tail = np.concatenate([of[self.tail[between]], follows, ends[0]])
        head = np.concatenate([of[self.head[between]], follows + 1, ends[1]])
        differ = tail != head
        level: list[int] = levels(len(nodes), tail[differ], head[differ]).tolist()
        return level

    def _before(self, node: _Node) -> list[int]:
        return [p for o in node.operations for p in self.causes.before[o]]

    def _needs(self, nodes: list[_Node], level: list[int]) -> list[list[int]]:
        """The nodes of other threads that every node waits for: none that follow from others."""
        of = {o: n for n, node in enumerate(nodes) for o in node.operations}
        needs: list[list[int]] = [[] for _ in nodes]
        first: dict[int, int] = {}
        for t, thread in enumerate(self.threads):
            first.setdefault(thread.rank, t)
        width = max(np.bincount([t.rank for t in self.threads]).tolist(), default=0)
        done = np.full((len(nodes), width), -1, dtype=np.int32)
        for n in np.argsort(level, kind="stable").tolist():
            node = nodes[n]
            base = first[self.threads[node.thread].rank]
            clock = done[n]
            if node.place:
                clock[:] = done[n - 1]
            causes = {of[p] for p in self._before(node)} - {n}
            for c in sorted(causes, key=lambda c: (-level[c], c)):
                column = nodes[c].thread - base
                if nodes[c].thread != node.thread and clock[column] < nodes[c].place:
                    needs[n].append(c)
                    np.maximum(clock, done[c], out=clock)
            clock[node.thread - base] = node.place
        return needs


def _numbers(threads: list[LinkThread], nodes: list[_Node], needs: list[list[int]]) -> list[int]:
    """The id of every threadblock on its GPU: in order, or first those that others wait for."""
    waited = {nodes[c].thread for need in needs for c in need}
    numbers = [0] * len(threads)
    of_rank: dict[int, list[int]] = {}
    for t, thread in enumerate(threads):
        of_rank.setdefault(thread.rank, []).append(t)
    for members in of_rank.values():
        if len(members) > 128:
            members.sort(key=lambda t: t not in waited)
        for number, t in enumerate(members):
            numbers[t] = number
    return numbers


def _positions(nodes: list[_Node], needs: list[list[int]]) -> list[int]:
    """The number of every node among the steps of its threadblock, nops counted."""
    position: list[int] = []
    for node, need in zip(nodes, needs, strict=True):
        before = position[-1] if node.place else -1
        position.append(before + max(len(need), 1))
    return position


def _step(
    program: RankProgram, node: _Node, wait: list[tuple[int, int]], waited: bool
) -> MscclStep:
    o = node.operations[0]
    kind = int(program.kind[o])
    source = BUFFERS[program.source_buffer[o]], int(program.source[o])
    target = BUFFERS[program.target_buffer[o]], int(program.target[o])
    if kind == SEND:
        target = source
    elif kind in RECEIVES:
        source = target
    name = _FUSED[kind] if len(node.operations) > 1 else _TYPES[kind]
    depid, deps = wait[0] if wait else (-1, -1)
    sent = [int(program.step[p]) for p in node.operations if program.kind[p] == SEND]
    ends = int(program.count[o]), depid, deps, int(waited), max(sent, default=0)
    return MscclStep(name, *source, *target, *ends)


def _apart(steps: list[MscclStep]) -> list[MscclStep]:
    """The steps where no sums that loaders fuse have different counts: a flag keeps them apart."""
    for at, (step, after) in enumerate(pairwise(steps)):
        same = step.type == after.type == "re" and step[1] == after[1] and step[3:5] == after[3:5]
        if same and after.depid < 0 and step.cnt != after.cnt:
            steps[at] = step._replace(hasdep=1)
    return steps


MAX_BYTES = 2**30
"""The largest message that a written file is for: 0 means none at all to microsoft."""

_WORDS = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "alltoall",
}


def write_msccl(
    program: RankProgram, name: str, *, dialect: str = "msccl", proto: str = "Simple"
) -> str:
    """The MSCCL file of a program of sends and receives, for loader ``msccl`` or ``rccl``.

    The format knows no steps of a schedule. Where they do not follow from what waits for what, and
    a cost with them would be another, steps that send have one attribute more than loaders ask for.
    Raises ValueError for what the loader does not take, naming the limit and the link, and for
    collectives that the format has no word for.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}: it must be one of {', '.join(DIALECTS)}")
    if proto not in PROTOCOLS:
        raise ValueError(f"proto is {proto!r}: it must be one of {', '.join(PROTOCOLS)}")
    coll, collective = _word(program, dialect), program.collective
    loader = DIALECTS[dialect]
    _check_kinds(program)
    sizes = [size.tolist() for size in program.buffer_sizes()]
    units = 1 if coll in ("reduce", "broadcast") else program.num_ranks
    in_place = program.in_place
    head = name, proto, units * program.chunks_per_unit, coll, in_place, not in_place, 0, MAX_BYTES

    def made(fused: bool) -> tuple[MscclAlgorithm, RankProgram]:
        blocks = blocks_of(program, loader, proto, fused=fused)
        gpus = tuple(
            MscclGpu((chunks[0], chunks[1], chunks[2]), tuple(own))
            for *chunks, own in zip(*sizes, blocks, strict=True)
        )
        algorithm = MscclAlgorithm(*head, gpus)
        check_limits(algorithm, loader)
        read = program_of(
            algorithm, name, collective=collective, in_place=in_place, dialect=dialect
        )
        return algorithm, read

    algorithm, told = made(fused=True)
    if not steps_hold(told):  # one threadblock for two links put off what is sent
        with suppress(ValueError):  # there may be no room for so many threadblocks
            algorithm, told = made(fused=False)
    return "".join(_lines(without_steps(algorithm) if steps_follow(told) else algorithm))


def _word(program: RankProgram, dialect: str) -> str:
    collective = program.collective
    words = {**_WORDS, "reduce-scatter": DIALECTS[dialect].reduce_scatter}
    if collective.name not in words or collective.sizes is not None or collective.groups:
        raise ValueError(
            f"MSCCL files have no word for {collective.text}: they hold {', '.join(words)} "
            "of equal parts among all ranks"
        )
    return words[collective.name]


def _check_kinds(program: RankProgram) -> None:
    for kind in (PUT, GET, SIGNAL, WAIT):
        if (program.kind == kind).any():
            raise ValueError("MSCCL files hold sends and receives: this program is one-sided")


def _lines(algorithm: MscclAlgorithm) -> Iterator[str]:
    head = {
        "name": algorithm.name,
        "proto": algorithm.proto,
        "nchannels": algorithm.num_channels,
        "nchunksperloop": algorithm.num_chunks,
        "ngpus": len(algorithm.gpus),
        "coll": algorithm.coll,
        "inplace": int(algorithm.inplace),
        "outofplace": int(algorithm.outofplace),
        "minBytes": algorithm.min_bytes,
        "maxBytes": algorithm.max_bytes,
    }
    yield f"<algo{_attributes(head)}>"
    for number, gpu in enumerate(algorithm.gpus):
        chunks = zip(("i_chunks", "o_chunks", "s_chunks"), gpu.chunks, strict=True)
        yield f"<gpu{_attributes({'id': number, **dict(chunks)})}>"
        for at, block in enumerate(gpu.blocks):
            ends = {"id": at, "send": block.send, "recv": block.recv, "chan": block.chan}
            yield f"<tb{_attributes(ends)}>"
            for s, step in enumerate(block.steps):
                values = {"s": s, **step._asdict()}
                if not step.step:
                    del values["step"]
                yield f"<step{_attributes(values)} />"
            yield "</tb>"
        yield "</gpu>"
    yield "</algo>"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {key}={quoteattr(str(value))}" for key, value in values.items())


# What leaves as MSCCL XML and MSCCL++ plans: each file read again and run by the interpreter.


_FIFO_DEPTH = 2
"""How many messages a link of protocol Simple holds, in which all is written."""


def export_msccl(export: Export) -> Contents:
    """The MSCCL file of a plan for microsoft's loader; ValueError for what it does not take."""
    return _msccl(export, "msccl", ".msccl.xml")


def export_rccl(export: Export) -> Contents:
    """The MSCCL file of a plan for RCCL's loader; ValueError for what it does not take."""
    return _msccl(export, "rccl", ".rccl.xml")


def export_mscclpp(export: Export) -> Contents:
    """The MSCCL++ execution plan of a plan; ValueError for what a plan cannot hold."""
    data = write_mscclpp(export.program, export.name).encode()
    name = f"{export.name}.mscclpp.json"
    _check(parse_mscclpp(data, name), name)
    return {name: data}


def read_rccl(path: Path) -> RankProgram:
    """The program of an MSCCL file that RCCL's loader takes; ValueError for what it does not."""
    return read_msccl(path, dialect="rccl")


def _msccl(export: Export, dialect: str, suffix: str) -> Contents:
    program = export.program
    data = write_msccl(program, export.name, dialect=dialect).encode()
    name = export.name + suffix
    options = {"collective": program.collective, "in_place": program.in_place}
    _check(parse_msccl(data, name, dialect=dialect, **options), name)
    return {name: data}


def _check(program: RankProgram, name: str) -> None:
    """RuntimeError if what was written does not do what is demanded."""
    witness = check_program(program, fifo_depth=_FIFO_DEPTH).witness
    if witness is not None:
        raise RuntimeError(f"{name} fails: {witness}")
