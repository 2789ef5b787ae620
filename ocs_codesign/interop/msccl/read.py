"""MSCCL XML read with a streaming parser that admits no entities, into what the file says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, final
from xml.parsers import expat

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.plans import INPUT, OUTPUT, SCRATCH
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What an MSCCL file says, as values, and the limits of those who load it.


TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop")
"""Types of steps; ``ra``, which adds tensors from outside of the collective, is refused."""

SENDING = ("s", "rcs", "rrs", "rrcs")
RECEIVING = ("r", "rcs", "rrs", "rrc", "rrcs")
BUFFERS = "ios"
PROTOCOLS = {"Simple": 2, "LL": 8, "LL128": 8}
"""How many messages the FIFO of a link holds, by protocol."""

MAX_FUSED_SUMS = 16


@final
@dataclass(frozen=True, slots=True)
class MscclDialect:
    """What one loader of MSCCL files takes, and its word for a reduce-scatter."""

    max_steps: int
    max_threads: int
    reduce_scatter: str
    required: tuple[str, ...] = ()
    max_channels: int = 32
    max_threads_per_channel: int = 32
    max_count: int = 71
    max_dependency: int = 127
    max_offset: int = 32767
    max_elements: int = 4096
    max_children: int = 1024
    max_name: int = 63


DIALECTS = {
    "msccl": MscclDialect(256, 216, "reduce_scatter"),
    "rccl": MscclDialect(
        64, 64, "reducescatter", ("minBytes", "maxBytes", "inplace", "outofplace")
    ),
}


class MscclStep(NamedTuple):
    """A step of a threadblock; buffers are i, o or s, ``depid`` and ``deps`` -1 if none.

    ``step`` is that of a schedule in which it sends, 0 if it was not said: ours, loaders pass it.
    """

    type: str
    srcbuf: str
    srcoff: int
    dstbuf: str
    dstoff: int
    cnt: int
    depid: int = -1
    deps: int = -1
    hasdep: int = 0
    step: int = 0


@final
@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """A threadblock: the peers that it sends to and receives from (-1 is none) and its steps."""

    send: int
    recv: int
    chan: int
    steps: tuple[MscclStep, ...]


@final
@dataclass(frozen=True, slots=True)
class MscclGpu:
    """Chunks of the input, output and scratch of a GPU, and its threadblocks by number."""

    chunks: tuple[int, int, int]
    blocks: tuple[ThreadBlock, ...]


@final
@dataclass(frozen=True, slots=True)
class MscclAlgorithm:
    """A whole file. ``coll`` is the loader's word for the collective.

    ``unsaid`` are attributes with usual values that the file does not have.
    """

    name: str
    proto: str
    num_chunks: int
    coll: str
    inplace: bool
    outofplace: bool
    min_bytes: int
    max_bytes: int
    gpus: tuple[MscclGpu, ...]
    unsaid: frozenset[str] = frozenset()

    @property
    def num_channels(self) -> int:
        """One more than the highest channel."""
        return 1 + max((block.chan for gpu in self.gpus for block in gpu.blocks), default=0)


def without_steps(algorithm: MscclAlgorithm) -> MscclAlgorithm:
    """The same, and nothing said of a schedule's steps."""
    gpus = [
        replace(
            gpu,
            blocks=tuple(
                replace(block, steps=tuple(step._replace(step=0) for step in block.steps))
                for block in gpu.blocks
            ),
        )
        for gpu in algorithm.gpus
    ]
    return replace(algorithm, gpus=tuple(gpus))


def check_limits(algorithm: MscclAlgorithm, dialect: MscclDialect) -> None:
    """ValueError, naming the place and the limit, for what a loader does not take."""
    missing = [name for name in dialect.required if name in algorithm.unsaid]
    if missing:
        raise ValueError(f"{missing[0]} is missing, which this loader needs")
    words = {one.reduce_scatter for one in DIALECTS.values()}
    if algorithm.coll in words and algorithm.coll != dialect.reduce_scatter:
        raise ValueError(
            f"coll is {shown(algorithm.coll)}: this loader's word is {dialect.reduce_scatter}"
        )
    if len(algorithm.name) > dialect.max_name:
        raise ValueError(f"the name has {len(algorithm.name)} characters, at most 63 are loaded")
    if len(algorithm.gpus) > dialect.max_children:
        raise ValueError(f"{len(algorithm.gpus)} gpus: at most {dialect.max_children} are loaded")
    if algorithm.num_channels > dialect.max_channels:
        raise ValueError(
            f"{algorithm.num_channels} channels: at most {dialect.max_channels} are loaded"
        )
    for number, gpu in enumerate(algorithm.gpus):
        _check_gpu(number, gpu, len(algorithm.gpus), dialect)


def _check_gpu(number: int, gpu: MscclGpu, gpus: int, dialect: MscclDialect) -> None:
    blocks = len(gpu.blocks)
    if blocks > dialect.max_threads:
        raise ValueError(
            f"gpu {number}: {blocks} threadblocks, at most {dialect.max_threads} are loaded"
        )
    channel, most = max(
        Counter(block.chan for block in gpu.blocks).items(), key=lambda c: c[1], default=(0, 0)
    )
    if most > dialect.max_threads_per_channel:
        raise ValueError(
            f"gpu {number}: {most} threadblocks on channel {channel}, at most "
            f"{dialect.max_threads_per_channel} are loaded"
        )
    elements = 1 + gpus + blocks + sum(len(block.steps) for block in gpu.blocks)
    if elements > dialect.max_elements:
        raise ValueError(
            f"gpu {number}: {elements} elements for its loader, at most "
            f"{dialect.max_elements} are loaded"
        )
    for at, block in enumerate(gpu.blocks):
        _check_block(f"gpu {number}, tb {at} ({link_name(number, block)})", block, dialect)


def link_name(gpu: int, block: ThreadBlock) -> str:
    """The links that a threadblock serves, for errors."""
    into = f"{block.recv} -> {gpu}" if block.recv >= 0 else ""
    out = f"{gpu} -> {block.send}" if block.send >= 0 else ""
    return " and ".join(filter(None, (into, out))) or "no link"


def _check_block(where: str, block: ThreadBlock, dialect: MscclDialect) -> None:
    if len(block.steps) > dialect.max_steps:
        raise ValueError(
            f"{where}: {len(block.steps)} steps, at most {dialect.max_steps} are loaded"
        )
    for at, step in enumerate(block.steps):
        limits = (
            ("cnt", step.cnt, dialect.max_count),
            ("depid", step.depid, dialect.max_dependency),
            ("srcoff", step.srcoff, dialect.max_offset),
            ("dstoff", step.dstoff, dialect.max_offset),
        )
        for name, value, most in limits:
            if value > most:
                raise ValueError(f"{where}, step {at}: {name} is {value}, at most {most} is loaded")


MAX_FILE_BYTES = 2**28
MAX_STEPS = 1_000_000
_INSIDE = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step", "step": ""}
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MAX_VALUE = 2**31 - 1


def parsed(data: bytes, name: str) -> MscclAlgorithm:
    """What the content of an MSCCL file says.

    Raises ValueError with the file, the gpu, the tb and the step for what is no MSCCL XML, also
    for a document type or entities.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
        return reader.algorithm()
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        raise ValueError(f"{name}, line {error.lineno}: this is not XML ({reason})") from None
    except ValueError as error:
        raise ValueError(f"{name}{reader.place()}: {error}") from None
    except LookupError as error:  # the declared encoding
        raise ValueError(f"{name}, line 1: {error}") from None


class _Reader:
    """What has been read so far, filled by the calls of the parser."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        self.open = [""]
        self.head: dict[str, str] = {}
        self.gpus: dict[int, MscclGpu] = {}
        self.gpu = -1
        self.chunks = (0, 0, 0)
        self.blocks: dict[int, ThreadBlock] = {}
        self.block = -1
        self.served: set[tuple[str, int, int]] = set()
        self.ends = (-1, -1, 0)
        self.steps: list[MscclStep] = []
        self.num_steps = 0
        self.within = 0

    def place(self) -> str:
        """Where the reader is, for errors."""
        numbers = (self.gpu, self.block, len(self.steps))
        places = zip(("gpu", "tb", "step"), numbers, strict=True)
        return "".join(f", {word} {number}" for word, number in list(places)[: self.within])

    def algorithm(self) -> MscclAlgorithm:
        """All that was read, once the file has ended."""
        self.within = 0
        head = self.head
        channels, gpus = self._integer(head, "nchannels", 1), self._integer(head, "ngpus", 1)
        if len(self.gpus) != gpus or max(self.gpus) != gpus - 1:
            raise ValueError(f"ngpus is {gpus}, but there are {len(self.gpus)} gpus: ids count on")
        proto = self._text(head, "proto")
        if proto not in PROTOCOLS:
            raise ValueError(f"proto is {shown(proto)}: it must be one of {', '.join(PROTOCOLS)}")
        in_place = self._flag(head, "inplace", "0")
        made = MscclAlgorithm(
            self._text(head, "name"),
            proto,
            self._integer(head, "nchunksperloop", 1),
            self._text(head, "coll"),
            in_place,
            self._flag(head, "outofplace", "0" if in_place else "1"),
            self._integer({"minBytes": "0", **head}, "minBytes", 0, 2**63 - 1),
            self._integer({"maxBytes": str(2**27), **head}, "maxBytes", 0, 2**63 - 1),
            tuple(self.gpus[number] for number in range(gpus)),
            frozenset(DIALECTS["rccl"].required) - head.keys(),
        )
        if made.num_channels > channels:
            raise ValueError(
                f"nchannels is {channels}, but channel {made.num_channels - 1} is used"
            )
        return made

    def _doctype(self, *_: Any) -> None:
        raise ValueError("a document type, and with it any entity, is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        expected = _INSIDE[self.open[-1]]
        if tag != expected or (tag == "algo" and self.head):
            inside = f"in a {self.open[-1]}" if self.open[-1] else "at the top"
            raise ValueError(
                f"a {shown(tag)} {inside}: "
                + (f"a {expected} is meant to be there" if expected else "a step holds nothing")
            )
        self.open.append(tag)
        match tag:
            case "algo":
                self.head = attributes
            case "gpu":
                self._start_gpu(attributes)
            case "tb":
                self._start_block(attributes)
            case _:
                self._start_step(attributes)

    def _end(self, tag: str) -> None:
        self.open.pop()
        if tag == "gpu":
            if set(self.blocks) != set(range(len(self.blocks))):
                raise ValueError("the ids of its threadblocks have gaps: they count from 0")
            blocks = tuple(self.blocks[number] for number in range(len(self.blocks)))
            self.gpus[self.gpu] = MscclGpu(self.chunks, blocks)
            self.within = 0
        elif tag == "tb":
            self.blocks[self.block] = ThreadBlock(*self.ends, tuple(self.steps))
            self.within = 1
        elif tag == "step":
            self.within = 2

    def _start_gpu(self, attributes: dict[str, str]) -> None:
        self.gpu = self._integer(attributes, "id", 0)
        self.within, self.blocks, self.served = 1, {}, set()
        if self.gpu in self.gpus:
            raise ValueError("a second gpu has this id")
        names = ("i_chunks", "o_chunks", "s_chunks")
        chunks = [self._integer(attributes, name, 0) for name in names]
        self.chunks = (chunks[0], chunks[1], chunks[2])

    def _start_block(self, attributes: dict[str, str]) -> None:
        self.block = self._integer(attributes, "id", 0)
        self.within, self.steps = 2, []
        if self.block in self.blocks:
            raise ValueError("a second tb of this gpu has this id")
        gpus = self._integer(self.head, "ngpus", 1)
        send, recv = (self._integer(attributes, name, -1) for name in ("send", "recv"))
        for name, peer in (("send", send), ("recv", recv)):
            if peer == self.gpu or peer >= gpus:
                raise ValueError(f"{name} is {peer}: it must be another gpu, of {gpus}, or -1")
        self.ends = (send, recv, self._integer(attributes, "chan", 0))
        for name, peer in (("send", send), ("recv", recv)):
            end = name, peer, self.ends[2]
            if peer >= 0 and end in self.served:
                raise ValueError(f"a second tb has {name} {peer} on channel {self.ends[2]}")
            self.served.add(end)

    def _start_step(self, attributes: dict[str, str]) -> None:
        self.within = 3
        self.num_steps += 1
        if self.num_steps > MAX_STEPS:
            raise ValueError(f"more than {MAX_STEPS} steps in a file are not read")
        number = self._integer(attributes, "s", 0)
        if number != len(self.steps):
            raise ValueError(f"s is {number}: the steps of a tb count from 0 without gaps")
        kind = self._text(attributes, "type")
        if kind == "ra":
            raise ValueError("type is ra: it adds tensors from outside of the collective")
        if kind not in TYPES:
            raise ValueError(f"type is {shown(kind)}: it must be one of {', '.join(TYPES)}")
        for name, types, peer in (
            ("send", SENDING, self.ends[0]),
            ("recv", RECEIVING, self.ends[1]),
        ):
            if kind in types and peer < 0:
                raise ValueError(f"type is {kind}, but the tb has no {name} peer")
        places = [self._place(attributes, end) for end in ("src", "dst")]
        count = self._integer(attributes, "cnt", 0)
        wait = [self._integer(attributes, name, -1) for name in ("depid", "deps")]
        flag = int(self._flag(attributes, "hasdep"))
        step = self._integer({"step": "0", **attributes}, "step", 0)
        self.steps.append(
            MscclStep(kind, *places[0], *places[1], count, wait[0], wait[1], flag, step)
        )

    def _place(self, attributes: dict[str, str], end: str) -> tuple[str, int]:
        buffer = self._text(attributes, f"{end}buf")
        if buffer not in tuple(BUFFERS):
            raise ValueError(f"{end}buf is {shown(buffer)}: it must be i, o or s")
        return buffer, self._integer(attributes, f"{end}off", -1)

    def _text(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise ValueError(f"there is no {name}")
        return attributes[name]

    def _flag(self, attributes: dict[str, str], name: str, default: str | None = None) -> bool:
        text = (
            attributes.get(name, default) if default is not None else self._text(attributes, name)
        )
        if text not in ("0", "1"):
            raise ValueError(f"{name} is {shown(text)}: it must be 0 or 1")
        return text == "1"

    def _integer(
        self, attributes: dict[str, str], name: str, least: int, most: int = _MAX_VALUE
    ) -> int:
        text = self._text(attributes, name)
        if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"{name} is {shown(text)}: it must be an integer of at least {least}")
        return int(text)


# Places in the buffers of runtimes, whose input and output may be one, as places of a program.


MAX_CHUNKS = 2**20
"""Chunks of a buffer; loaders of runtimes take far fewer."""

MAX_SLOTS = 2**26
"""Chunks of all buffers of all ranks that are read."""

_PARTS = {"allgather": (OUTPUT, True), "reduce-scatter": (INPUT, True)}
_WHOLE = {"allreduce": INPUT, "reduce": INPUT, "broadcast": OUTPUT}
_CODES = {"i": INPUT, "o": OUTPUT, "s": SCRATCH}


@final
class FilePlaces:
    """Where what a file calls i, o or s stands in the buffers of a program.

    In place the input is the output or a part of it, or the reverse, and all of it stands in the
    larger. ``factor`` chunks of the program are one of the file.
    """

    def __init__(self, collective: Collective, chunks: int, factor: int, in_place: bool) -> None:
        self.factor = factor
        self.codes = dict(_CODES)
        self.part = ""
        self.part_chunks = chunks
        if in_place and collective.name in _PARTS:
            place = _PARTS[collective.name][0]
            self.part = "i" if place == OUTPUT else "o"
            self.codes[self.part] = place
        elif in_place and collective.name in _WHOLE:
            self.codes["i"] = self.codes["o"] = _WHOLE[collective.name]

    def of(self, rank: int, buffer: str, offset: int) -> tuple[int, int]:
        """The buffer and slot of a program for a rank's chunk of the file."""
        moved = rank * self.part_chunks if buffer == self.part else 0
        return self.codes[buffer], (offset + moved) * self.factor


def units_and_factor(collective: Collective, num_ranks: int, chunks: int) -> tuple[int, int]:
    """Chunks a unit of a program whose whole buffer has so many, and how many are one of these.

    An allreduce need not be of a multiple of the number of ranks: its chunks are then cut.

    >>> units_and_factor(Collective.ALLREDUCE, 4, 6)
    (3, 2)
    """
    from math import gcd

    if not 1 <= chunks <= MAX_CHUNKS:
        raise ValueError(f"{chunks} chunks in a buffer: there are from 1 to {MAX_CHUNKS}")
    if collective.name in ("broadcast", "reduce"):
        return chunks, 1
    factor = num_ranks // gcd(num_ranks, chunks)
    if factor > 1 and collective.name != "allreduce":
        raise ValueError(
            f"{chunks} chunks are no multiple of {num_ranks} ranks: {collective.name} has a part "
            "of equal size for each"
        )
    return chunks * factor // num_ranks, factor


def check_slots(sizes: Iterable[Iterable[int]]) -> None:
    """ValueError for more chunks in all buffers of all ranks than are read."""
    total = sum(sum(size) for size in sizes)
    if total > MAX_SLOTS:
        raise ValueError(f"{total} chunks in all buffers: at most {MAX_SLOTS} are read")


def rooted(name: str, sends: Sequence[int], receives: Sequence[int]) -> Collective:
    """The broadcast or reduce of ranks that send and receive so often: its root is the end of all.

    Raises ValueError if more than one rank, or none, receives (a reduce: sends) nothing.
    """
    told, verb = (receives, "receives") if name == "broadcast" else (sends, "sends")
    roots = [rank for rank, times in enumerate(told) if not times]
    if len(roots) != 1:
        raise ValueError(
            f"the root of this {name} cannot be told: {len(roots)} ranks {verb.removesuffix('s')} "
            "nothing; name the collective with its root"
        )
    return Collective(name, roots[0])
