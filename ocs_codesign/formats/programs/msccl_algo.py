"""What an MSCCL file says, as values, and the limits of those who load it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple, final

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
    "rccl": MscclDialect(64, 64, "reducescatter"),
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
    """A whole file. ``coll`` is the loader's word for the collective."""

    name: str
    proto: str
    num_chunks: int
    coll: str
    inplace: bool
    outofplace: bool
    min_bytes: int
    max_bytes: int
    gpus: tuple[MscclGpu, ...]

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
