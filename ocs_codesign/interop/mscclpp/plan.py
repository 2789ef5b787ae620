"""What an MSCCL++ execution plan says: JSON of strangers, checked and with indices resolved."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.msccl.read import MAX_CHUNKS
from ocs_codesign.interop.mscclpp.blocks import (
    MAX_BARRIERS,
    MAX_CHANNELS,
    MAX_CHANNELS_PER_OPERATION,
    MAX_OPERATIONS,
    MAX_SEMAPHORES,
)

if TYPE_CHECKING:
    from collections.abc import Callable


WORDS = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "reduce-scatter": "reducescatter",
    "alltoall": "alltoall",
}
"""The collectives of plans, by our names."""

MAX_FILE_BYTES = 2**26
MAX_GPUS = 1024

TELLING = ("signal", "wait", "rlxsignal", "rlxwait")
LOCAL = ("copy", "re")
"""Operations on buffers of the rank alone."""

REMOTE = ("put", "get", "rre", "res", "rres")
"""Operations that read or write buffers of peers."""

_OTHERS = {
    "pws": "it is of port channels",
    "pwsf": "it is of port channels",
    "flush": "it is of port channels",
    "pipeline": "what it repeats depends on the size of messages",
    "glres": "it is of switch channels",
    "gstore": "it is of switch channels",
}


class PlanChunks(NamedTuple):
    """Chunks of a buffer (i, o or s) of a rank, -1 for the rank itself."""

    rank: int
    type: str
    offset: int
    size: int


@final
@dataclass(frozen=True, slots=True)
class PlanOperation:
    """An operation of a threadblock: channels are (peer, number among those to the peer).

    ``step`` is that of a schedule, 0 if it was not said.
    """

    name: str
    channels: tuple[tuple[int, int], ...] = ()
    source: tuple[PlanChunks, ...] = ()
    target: tuple[PlanChunks, ...] = ()
    barrier: tuple[int, int] = (0, 0)
    step: int = 0
    semaphores: tuple[int, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class _Gpu:
    """Chunks of input, output and scratch of a GPU, first values of semaphores, and its blocks."""

    chunks: tuple[int, int, int]
    semaphores: tuple[int, ...]
    blocks: tuple[tuple[PlanOperation, ...], ...]


@final
@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """A whole plan of the Simple protocol."""

    name: str
    collective: str
    inplace: bool
    gpus: tuple[_Gpu, ...]


def parsed_plan(data: bytes, name: str) -> ExecutionPlan:
    """What the content of a plan says; ValueError with file, gpu, threadblock and operation."""
    value = read_plain_text(data, name, is_json=True).value
    try:
        return checked_plan(_whole(value, "the file"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def checked_plan(plan: dict[str, Any]) -> ExecutionPlan:
    """What the JSON value of a plan says; ValueError with gpu, threadblock and operation."""
    protocol = _text(plan, "protocol", "the plan")
    if protocol != "Simple":
        raise ValueError(f"protocol is {shown(protocol)}: only plans of Simple are read")
    gpus = _list(plan, "gpus", "the plan", MAX_GPUS)
    read = [_gpu(_whole(gpu, f"gpu {rank}"), rank, len(gpus)) for rank, gpu in enumerate(gpus)]
    if not read:
        raise ValueError("there are no gpus in this plan")
    names = _text(plan, "name", "the plan"), _text(plan, "collective", "the plan")
    in_place = plan.get("inplace")
    if not isinstance(in_place, bool):
        raise ValueError(f"inplace is {shown(in_place)}: it must be true or false")
    return ExecutionPlan(*names, in_place, tuple(read))


def _gpu(gpu: dict[str, Any], rank: int, gpus: int) -> _Gpu:
    where = f"gpu {rank}"
    if _integer(gpu, "id", where, 0) != rank:
        raise ValueError(f"{where}: its id is {gpu['id']}: gpus are in the order of their ids")
    chunks = [_integer(gpu, f"{name}_chunks", where, 0, MAX_CHUNKS) for name in _BUFFERS]
    if not (chunks[0] and chunks[1]):
        raise ValueError(f"{where}: input_chunks and output_chunks must be above 0")
    channels: list[tuple[int, int]] = []
    counts: dict[int, int] = {}
    for entry in _list(gpu, "channels", where):
        channel = _whole(entry, f"{where}, channels")
        if _text(channel, "channel_type", where) != "memory":
            continue
        for peer in _list(channel, "connected_to", f"{where}, channels"):
            peer = _peer(peer, f"{where}, connected_to", rank, gpus)
            counts[peer] = counts.get(peer, -1) + 1
            channels.append((peer, counts[peer]))
    buffers: list[tuple[int, str]] = []
    for entry in _list(gpu, "remote_buffers", where):
        at = f"{where}, remote_buffers[{len(buffers)}]"
        buffer = _whole(entry, at)
        owner = _peer(buffer.get("rank"), f"{at}.rank", rank, gpus)
        buffers.append((owner, _type(buffer, at)))
    blocks = []
    for number, entry in enumerate(_list(gpu, "threadblocks", where)):
        at = f"{where}, threadblock {number}"
        block = _whole(entry, at)
        if _integer(block, "id", at, 0) != number:
            raise ValueError(f"{at}: its id is {block['id']}: they are in the order of their ids")
        blocks.append(_Block(at, block, channels, buffers).operations())
    semaphores = [
        _integer(_whole(one, f"{where}, semaphores"), "init_value", where, 0, 64)
        for one in _list({"semaphores": [], **gpu}, "semaphores", where, MAX_SEMAPHORES)
    ]
    return _Gpu((chunks[0], chunks[1], chunks[2]), tuple(semaphores), tuple(blocks))


_BUFFERS = ("input", "output", "scratch")


@final
class _Block:
    """A threadblock with its own lists of channels and remote buffers."""

    def __init__(
        self,
        where: str,
        block: dict[str, Any],
        channels: list[tuple[int, int]],
        buffers: list[tuple[int, str]],
    ) -> None:
        self.where, self.block = where, block
        self.channels = self._listed("channels", "channel_type", "channel_ids", channels)
        refs = "remote_buffer_refs", "access_channel_type", "remote_buffer_ids"
        self.buffers = self._listed(*refs, buffers)

    def _listed(self, key: str, kind: str, ids: str, of: list[Any]) -> list[Any]:
        listed = []
        for entry in _list({key: [], **self.block}, key, self.where):
            group = _whole(entry, f"{self.where}, {key}")
            if _text(group, kind, self.where) == "memory":
                listed += [
                    of[_index(number, f"{self.where}, {ids}", len(of))]
                    for number in _list(group, ids, self.where)
                ]
        if len(listed) > MAX_CHANNELS:
            raise ValueError(
                f"{self.where}: {len(listed)} {key}: at most {MAX_CHANNELS} are loaded"
            )
        return listed

    def operations(self) -> tuple[PlanOperation, ...]:
        """The operations of the block; ValueError for more than are loaded."""
        entries = _list(self.block, "ops", self.where)
        if len(entries) > MAX_OPERATIONS:
            raise ValueError(
                f"{self.where}: {len(entries)} operations, at most {MAX_OPERATIONS} are loaded"
            )
        return tuple(
            self._operation(_whole(entry, self.where), f"{self.where}, op {at}")
            for at, entry in enumerate(entries)
        )

    def _operation(self, op: dict[str, Any], where: str) -> PlanOperation:
        name = _text(op, "name", where)
        where = f"{where} ({name[:20] if name.isprintable() else shown(name)})"
        if op.get("channel_type", "memory") not in ("memory", "none"):
            raise ValueError(
                f"{where}: only memory channels are read, not {shown(op['channel_type'])}"
            )
        if "tbg_info" in op:
            raise ValueError(f"{where}: groups of threadblocks (tbg_info) are not read")
        if name == "nop":
            return PlanOperation(name)
        if name == "barrier":
            number = _integer(op, "barrier_id", where, 0, MAX_BARRIERS - 1)
            return PlanOperation(name, barrier=(number, _integer(op, "num_threadblocks", where, 1)))
        if name in ("sem_release", "sem_acquire"):
            ids = _list(op, "semaphore_ids", where, MAX_SEMAPHORES)
            numbers = [_index(n, f"{where}: semaphore_ids", MAX_SEMAPHORES) for n in ids]
            return PlanOperation(name, semaphores=tuple(numbers))
        if name in TELLING:
            ids = _list(op, "channel_ids", where, MAX_CHANNELS_PER_OPERATION)
            places = [_index(n, f"{where}: channel_ids", len(self.channels)) for n in ids]
            return PlanOperation(name, tuple(self.channels[place] for place in places))
        if name not in (*LOCAL, *REMOTE):
            reason = _OTHERS.get(name, "only Simple operations are known")
            raise ValueError(f"{where}: this operation is not read: {reason}")
        source, target = (
            self._chunks(_list(op, key, where, MAX_CHANNELS_PER_OPERATION + 1), f"{where}, {key}")
            for key in ("src_buff", "dst_buff")
        )
        _check_shape(name, source, target, where)
        step = _integer({"step": 0, **op}, "step", where, 0)
        return PlanOperation(name, source=source, target=target, step=step)

    def _chunks(self, entries: list[Any], where: str) -> tuple[PlanChunks, ...]:
        chunks = []
        for entry in entries:
            buffer = _whole(entry, where)
            rank, kind = -1, ""
            if "buffer_id" in buffer:
                number = _integer(buffer, "buffer_id", where, 0)
                rank, kind = self.buffers[_index(number, f"{where}: buffer_id", len(self.buffers))]
            else:
                kind = _type(buffer, where)
            offset = _integer(buffer, "index", where, 0, MAX_CHUNKS)
            size = _integer(buffer, "size", where, 1, MAX_CHUNKS)
            chunks.append(PlanChunks(rank, kind, offset, size))
        return tuple(chunks)


_SHAPES = {
    # Whether every source and every target is at a peer.
    "copy": lambda s, t: s == [False] and t == [False],
    "re": lambda s, t: s and not any(s) and t == [False],
    "put": lambda s, t: s and len(s) == len(t) and not any(s) and all(t),
    "get": lambda s, t: s and len(s) == len(t) and all(s) and not any(t),
    "rre": lambda s, t: s and not s[0] and all(s[1:]) and t == [False],
    "res": lambda s, t: s and not any(s) and t and not t[0] and all(t[1:]),
    "rres": lambda s, t: s and not s[0] and all(s[1:]) and t and not t[0] and all(t[1:]),
}


def _check_shape(
    name: str, source: tuple[PlanChunks, ...], target: tuple[PlanChunks, ...], where: str
) -> None:
    shape: Callable[[list[bool], list[bool]], bool] = _SHAPES[name]
    if not shape([c.rank >= 0 for c in source], [c.rank >= 0 for c in target]):
        raise ValueError(f"{where}: its src_buff and dst_buff are not what it takes here and there")
    pairwise = zip(source, target, strict=True) if name in ("put", "get") else None
    sizes = (
        [(s.size, t.size) for s, t in pairwise]
        if pairwise is not None
        else [(source[0].size, chunks.size) for chunks in (*source, *target)]
    )
    for one, other in sizes:
        if one != other:
            raise ValueError(
                f"{where}: it is of {one} and of {other} chunks, which are to be equal"
            )


def _whole(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {shown(value)}: it must be a map of keys to values")
    return value


def _list(value: dict[str, Any], key: str, where: str, most: int = 2**31) -> list[Any]:
    found = value.get(key)
    if not isinstance(found, list):
        raise ValueError(f"{where}: {key} is {shown(found)}: it must be a list")
    if len(found) > most:
        raise ValueError(f"{where}: {len(found)} {key}: at most {most} are read")
    return found


def _text(value: dict[str, Any], key: str, where: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ValueError(f"{where}: {key} is {shown(found)}: it must be text")
    return found


def _type(value: dict[str, Any], where: str) -> str:
    kind = _text(value, "type", where)
    if kind not in ("i", "o", "s"):
        raise ValueError(f"{where}: type is {shown(kind)}: it must be i, o or s")
    return kind


def _integer(value: dict[str, Any], key: str, where: str, least: int, most: int = 2**31 - 1) -> int:
    found = value.get(key)
    if type(found) is not int or not least <= found <= most:
        raise ValueError(
            f"{where}: {key} is {shown(found)}: it must be an integer from {least} to {most}"
        )
    return found


def _index(value: object, where: str, count: int) -> int:
    if type(value) is not int or not 0 <= value < count:
        raise ValueError(f"{where} names {shown(value)}, of {count}")
    return value


def _peer(value: object, where: str, rank: int, gpus: int) -> int:
    peer = _index(value, where, gpus)
    if peer == rank:
        raise ValueError(f"{where} names the gpu itself")
    return peer


# Who joins the barriers of an MSCCL++ plan, and which signals are counted apart.


RELAXED = 2**20
"""Channels from here on are of relaxed signals after data, one each."""


def joined_blocks(rank: int, blocks: tuple[tuple[PlanOperation, ...], ...]) -> dict[int, int]:
    """How many blocks join every barrier; ValueError unless it is the same ones every time."""
    members: dict[int, set[int]] = defaultdict(set)
    for number, block in enumerate(blocks):
        for op in block:
            if op.name == "barrier":
                members[op.barrier[0]].add(number)
    for number, block in enumerate(blocks):
        for at, op in enumerate(block):
            of = len(members[op.barrier[0]]) if op.name == "barrier" else 0
            if op.name == "barrier" and op.barrier[1] != of:
                raise ValueError(
                    f"gpu {rank}, threadblock {number}, op {at}: barrier {op.barrier[0]} is for "
                    f"{op.barrier[1]} threadblocks, but {of} use it"
                )
    return {number: len(of) for number, of in members.items()}


def relaxed_counters(plan: ExecutionPlan) -> dict[tuple[int, int, int, int], int]:
    """The counters of relaxed signals after data: by rank, peer, channel and number of the signal.

    A wait that is relaxed is as little of an order.
    """
    found: set[tuple[int, int, int, int]] = set()
    count: dict[tuple[int, int, int, bool], int] = defaultdict(int)
    for rank, gpu in enumerate(plan.gpus):
        for block in gpu.blocks:
            data = False
            for op in block:
                data = data or op.name not in (*TELLING, "nop", "barrier")
                for peer, channel in op.channels:
                    signals = op.name.endswith("signal")
                    key = (rank, peer, channel) if signals else (peer, rank, channel)
                    number = count[*key, signals]
                    count[*key, signals] += 1
                    if data and op.name.startswith("rlx"):
                        found.add((*key, number))
    return {key: RELAXED + at for at, key in enumerate(sorted(found))}
