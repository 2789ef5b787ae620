"""From what an MSCCL file says to a program of ranks, exactly, so that it can be checked."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.plans import (
    ADD,
    COLUMNS,
    COPY,
    NOP,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    RankProgram,
)
from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.msccl.order import levels
from ocs_codesign.interop.msccl.read import (
    DIALECTS,
    MAX_CHUNKS,
    MAX_FILE_BYTES,
    PROTOCOLS,
    RECEIVING,
    SENDING,
    FilePlaces,
    MscclAlgorithm,
    MscclGpu,
    MscclStep,
    ThreadBlock,
    check_limits,
    check_slots,
    parsed,
    rooted,
    units_and_factor,
)

if TYPE_CHECKING:
    from pathlib import Path


_COLLECTIVES = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "alltoall": "alltoall",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "reduce_scatter": "reduce-scatter",
    "reducescatter": "reduce-scatter",
}


def read_msccl(path: Path, **options: object) -> RankProgram:
    """The program that an MSCCL file holds, options as of ``program_of``; OSError if unreadable."""
    return parse_msccl(read_limited(path, MAX_FILE_BYTES), str(path), **options)


def parse_msccl(data: bytes, name: str, **options: object) -> RankProgram:
    """The program that the content of an MSCCL file holds, options as of ``program_of``."""
    return program_of(parsed(data, name), name, **options)  # type: ignore[arg-type]


def program_of(
    algorithm: MscclAlgorithm,
    name: str,
    *,
    collective: Collective | None = None,
    in_place: bool | None = None,
    dialect: str = "msccl",
) -> RankProgram:
    """The program of an MSCCL file by any author, called ``name`` in errors.

    A threadblock is a stream. What a fused step does is written out: a receive, a sum or a copy, a
    send; sums that are not made where they stay are made in scratch, which the threadblock has
    besides. The step that a dependency waits for is the first one from there on that tells. What
    is for use in place and out of place is read as the latter, unless ``in_place`` says
    otherwise. A ``collective`` is needed for what is ``custom``, and where the root is not plain.

    Raises ValueError, with the gpu, the tb and the step, for what loader ``dialect`` refuses or
    would do otherwise than it reads, and for steps that wait for ever with FIFOs as deep as those
    of the protocol: a step that receives and sends takes no message before there is room for it.
    """
    try:
        check_limits(algorithm, DIALECTS[dialect])
        if collective is None:
            collective = _collective(algorithm)
        return _Writer(algorithm, collective, in_place).program()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _collective(algorithm: MscclAlgorithm) -> Collective:
    if algorithm.coll not in _COLLECTIVES:
        known = ", ".join(_COLLECTIVES)
        raise ValueError(f"coll is {algorithm.coll!r}: without a collective given it is {known}")
    name = _COLLECTIVES[algorithm.coll]
    if name not in ("broadcast", "reduce"):
        return Collective(name)
    counts = [
        [sum(s.type in types for b in gpu.blocks for s in b.steps) for gpu in algorithm.gpus]
        for types in (SENDING, RECEIVING)
    ]
    return rooted(name, *counts)


class _Row(NamedTuple):
    """An operation in the order of the columns of a program."""

    rank: int
    stream: int
    kind: int
    peer: int = -1
    channel: int = 0
    source_buffer: int = 0
    source: int = 0
    target_buffer: int = 0
    target: int = 0
    num_chunks: int = 0
    step: int = 0


@final
class _Writer:
    """The steps of a file, numbered over all GPUs and threadblocks, and the program they make."""

    def __init__(
        self, algorithm: MscclAlgorithm, collective: Collective, in_place: bool | None
    ) -> None:
        ranks = len(algorithm.gpus)
        self.algorithm, self.collective = algorithm, collective
        units, factor = units_and_factor(collective, ranks, algorithm.num_chunks)
        self.units, self.factor = units, factor
        if in_place is None:
            in_place = algorithm.inplace and not algorithm.outofplace
        self.in_place = in_place
        self.places = FilePlaces(collective, units // factor, factor, in_place)
        self.first = [0]
        self.owner: list[tuple[int, int]] = []
        for g, gpu in enumerate(algorithm.gpus):
            _check_chunks(g, gpu, algorithm.num_chunks, collective, ranks)
            for b, block in enumerate(gpu.blocks):
                self.owner.append((g, b))
                self.first.append(self.first[-1] + len(block.steps))
        self.number = {place: at for at, place in enumerate(self.owner)}
        self.waits = [
            self._wait(at, s, step)
            for at, (g, b) in enumerate(self.owner)
            for s, step in enumerate(algorithm.gpus[g].blocks[b].steps)
        ]
        for at in range(len(self.owner)):
            self._check_block(at)

    def _block(self, at: int) -> ThreadBlock:
        g, b = self.owner[at]
        return self.algorithm.gpus[g].blocks[b]

    def _where(self, at: int, s: int) -> str:
        g, b = self.owner[at]
        return f"gpu {g}, tb {b}, step {s}"

    def _wait(self, at: int, s: int, step: MscclStep) -> int:
        """The number of the step that one waits for, -1 if none."""
        if step.depid < 0:
            return -1
        g, b = self.owner[at]
        where = self._where(at, s)
        if step.depid == b:
            raise ValueError(f"{where}: depid is {b}, its own tb")
        if step.depid >= len(self.algorithm.gpus[g].blocks):
            raise ValueError(f"{where}: depid is {step.depid}, which is no tb of the gpu")
        other = self.number[g, step.depid]
        steps = self._block(other).steps
        for t in range(max(step.deps, 0), len(steps)):
            if steps[t].hasdep and steps[t].type != "nop":
                return self.first[other] + t
        raise ValueError(
            f"{where}: it waits for ever: tb {step.depid} has no step from {step.deps} on that "
            "has hasdep 1"
        )

    def _check_block(self, at: int) -> None:
        block, gpu = self._block(at), self.algorithm.gpus[self.owner[at][0]]
        sizes = dict(zip("ios", gpu.chunks, strict=True))
        for s, step in enumerate(block.steps):
            if step.type == "nop":
                _check_nop(self._where(at, s), step, block.steps[s + 1 : s + 2])
                continue
            if not step.cnt:
                raise ValueError(f"{self._where(at, s)}: cnt is 0: a {step.type} is of 1 or more")
            for end in _used_ends(step.type):
                buffer, offset = step[1:3] if end == "src" else step[3:5]
                if not 0 <= offset <= sizes[buffer] - step.cnt:
                    raise ValueError(
                        f"{self._where(at, s)}: {end}off {offset} and cnt {step.cnt} are outside "
                        f"of the {sizes[buffer]} chunks of {buffer}"
                    )
        for s, (step, after) in enumerate(pairwise(block.steps)):
            fused = step.type == after.type == "re" and not step.hasdep and after.depid < 0
            if fused and step[1] == after[1] and step[3:5] == after[3:5] and step.cnt != after.cnt:
                raise ValueError(
                    f"{self._where(at, s + 1)}: loaders fuse it with the step before, of another "
                    "cnt: both sums would have its cnt"
                )

    def program(self) -> RankProgram:
        """The program; ValueError for steps that wait for ever."""
        level = self._levels()
        rows: list[_Row] = []
        needs: list[list[int]] = []
        scratch = []
        last: dict[int, int] = {}
        for g, gpu in enumerate(self.algorithm.gpus):
            blocks = range(self.number.get((g, 0), 0), self.number.get((g, 0), 0) + len(gpu.blocks))
            size, work = gpu.chunks[2] * self.factor, {}
            for at in blocks:
                apart = [s.cnt for s in self._block(at).steps if _made_apart(s)]
                work[at] = size
                size += max(apart, default=0) * self.factor
            scratch.append(size)
            steps = [(level[n], at, n) for at in blocks for n in self._steps(at)]
            for _, at, n in sorted(steps):
                step = self._block(at).steps[n - self.first[at]]
                made = self._rows(at, step, work[at])
                needs += [[last[self.waits[n]]] if self.waits[n] >= 0 else []]
                needs += [[] for _ in made[1:]]
                rows += made
                last[n] = len(rows) - 1
        check_slots([scratch, [2 * len(scratch) * self.units * len(scratch)]])
        table = np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS))
        starts = starts_of(np.array([len(need) for need in needs], dtype=np.int64))
        return RankProgram(
            self.collective,
            len(self.algorithm.gpus),
            self.units,
            self.in_place,
            scratch,
            dict(zip(COLUMNS, table.T, strict=True)),
            starts,
            np.array([n for need in needs for n in need], dtype=np.int64),
        )

    def _steps(self, at: int) -> range:
        return range(self.first[at], self.first[at + 1])

    def _levels(self) -> list[int]:
        """A level for every step, above those of all that it waits for, rooms in FIFOs included."""
        edges = [(wait, n) for n, wait in enumerate(self.waits) if wait >= 0]
        sent: dict[tuple[int, int, int], list[int]] = {}
        received: dict[tuple[int, int, int], list[int]] = {}
        for at, (g, _) in enumerate(self.owner):
            block = self._block(at)
            edges += pairwise(self._steps(at))
            for n, step in zip(self._steps(at), block.steps, strict=True):
                if step.type in SENDING:
                    sent.setdefault((g, block.send, block.chan), []).append(n)
                if step.type in RECEIVING:
                    received.setdefault((block.recv, g, block.chan), []).append(n)
        depth = PROTOCOLS[self.algorithm.proto]
        for link, sends in sent.items():
            receives = received.get(link, [])
            edges += zip(sends, receives, strict=False)
            edges += zip(receives, sends[depth:], strict=False)
        ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        level = levels(self.first[-1], ends[0], ends[1])
        if (level < 0).any():
            n = int((level < 0).argmax())
            at = int(np.searchsorted(self.first, n, side="right")) - 1
            raise ValueError(
                f"{self._where(at, n - self.first[at])}: it waits for ever: links hold {depth} "
                f"messages of protocol {self.algorithm.proto}"
            )
        return level.tolist()  # type: ignore[no-any-return]

    def _rows(self, at: int, step: MscclStep, work: int) -> list[_Row]:
        """What a step does, one operation after the other."""
        g, _ = self.owner[at]
        block = self._block(at)
        count = step.cnt * self.factor
        source = self.places.of(g, step.srcbuf, step.srcoff)
        target = self.places.of(g, step.dstbuf, step.dstoff)
        made_at = (SCRATCH, work) if _made_apart(step) else target

        def local(kind: int, source: tuple[int, int], target: tuple[int, int]) -> _Row:
            return _Row(g, at, kind, -1, 0, *source, *target, count)

        def receive(kind: int, target: tuple[int, int]) -> _Row:
            return _Row(g, at, kind, block.recv, block.chan, 0, 0, *target, count)

        def send(source: tuple[int, int]) -> _Row:
            return _Row(g, at, SEND, block.send, block.chan, *source, 0, 0, count, step.step)

        match step.type:
            case "nop":
                return [_Row(g, at, NOP)]
            case "s":
                return [send(source)]
            case "r":
                return [receive(RECEIVE, target)]
            case "rcs":
                return [receive(RECEIVE, target), send(target)]
            case "cpy":
                return [local(COPY, source, target)]
            case "re":
                return [local(ADD, source, target)]
        if made_at == target:
            made = [receive(RECEIVE_ADD, target)]
        else:
            made = [receive(RECEIVE, made_at), local(ADD, source, made_at)]
            made += [local(COPY, made_at, target)] * (step.type != "rrs")
        return made + [send(made_at)] * (step.type != "rrc")


def _made_apart(step: MscclStep) -> bool:
    """Whether a step makes a sum elsewhere than in the place where it found one part of it."""
    return step.type == "rrs" or (step.type in ("rrc", "rrcs") and step[1:3] != step[3:5])


def _used_ends(kind: str) -> tuple[str, ...]:
    if kind in ("s", "rrs"):
        return ("src",)
    return ("dst",) if kind in ("r", "rcs") else ("src", "dst")


def _check_nop(where: str, step: MscclStep, after: tuple[MscclStep, ...]) -> None:
    if step.depid < 0:
        raise ValueError(f"{where}: a nop is there to wait, but it has no depid")
    if not after or after[0].depid < 0:
        raise ValueError(f"{where}: the step after a nop must have a depid itself")


def _check_chunks(
    number: int, gpu: MscclGpu, chunks: int, collective: Collective, ranks: int
) -> None:
    """ValueError for buffers that the loaders refuse."""
    parts = {"allgather": (ranks, 1), "reduce-scatter": (1, ranks)}.get(collective.name, (1, 1))
    for name, size, times in zip(("i_chunks", "o_chunks"), gpu.chunks, parts, strict=False):
        if size and size * times != chunks:
            raise ValueError(
                f"gpu {number}: {name} is {size}: of {chunks} chunks of {collective.name} there "
                f"must be 0 or {chunks // times}"
            )
    if gpu.chunks[2] > MAX_CHUNKS:
        raise ValueError(
            f"gpu {number}: s_chunks is {gpu.chunks[2]}: at most {MAX_CHUNKS} are read"
        )
