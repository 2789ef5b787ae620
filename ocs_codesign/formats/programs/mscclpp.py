"""MSCCL++ execution plans: puts, signals and waits of blocks over memory channels, as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.formats.programs.mscclpp_blocks import (
    MAX_CHANNELS,
    MAX_OPERATIONS,
    BlockCut,
    BlockWriter,
    cut_of,
)
from ocs_codesign.formats.programs.mscclpp_nodes import PlanNode, nodes_of
from ocs_codesign.formats.programs.mscclpp_plan import WORDS, checked_plan
from ocs_codesign.formats.programs.mscclpp_programs import plan_program
from ocs_codesign.formats.programs.steps_told import steps_follow
from ocs_codesign.rank_program import GET, PUT, SEND, SIGNAL, WAIT

if TYPE_CHECKING:
    from ocs_codesign.rank_program import RankProgram

_ADDRESSED_BYTES = 2**32
"""Offsets are 32 bit."""


def write_mscclpp(program: RankProgram, name: str, *, num_threads_per_block: int = 1024) -> str:
    """The execution plan of a program of sends and receives.

    Every message is a put, or more, and a signal; what is to be added is put into scratch and
    added by its receiver. A block of threads serves a link out and the link in whose data it
    passes on; it begins by telling who puts there that it may, and waits for every signal that it
    is sent. Blocks of a rank that wait for each other meet at barriers. Messages are at most so
    large that offsets stay below 4 GiB. Plans know no steps of a schedule: where they do not follow
    from what waits for what, puts have a key "step", which the executor passes. Raises ValueError,
    naming the limit and the link, for what a plan cannot hold, and for other collectives than the
    four that plans have.
    """
    return json.dumps(plan_of(program, name, num_threads_per_block=num_threads_per_block))


def plan_of(
    program: RankProgram, name: str, *, num_threads_per_block: int = 1024
) -> dict[str, Any]:
    """What the plan of a program says; ValueError as of ``write_mscclpp``."""
    collective = program.collective
    if collective.name not in WORDS or collective.sizes is not None or collective.groups:
        raise ValueError(
            f"MSCCL++ plans have no word for {collective.text}: they hold {', '.join(WORDS)} "
            "of equal parts among all ranks"
        )
    for kind in (PUT, GET, SIGNAL, WAIT):
        if (program.kind == kind).any():
            raise ValueError("a plan is made of sends and receives: this program is one-sided")
    nodes, scratch = nodes_of(program)
    own: list[list[int]] = [[] for _ in range(program.num_ranks)]
    for n, node in enumerate(nodes):
        own[node.rank].append(n)
    cuts = [cut_of(nodes, rank, of) for rank, of in enumerate(own)]
    gpus = _Gpus(nodes, cuts)
    shard, whole = program.chunks_per_unit, program.chunks_per_unit * program.num_ranks
    inputs = shard if collective.name == "allgather" else whole
    outputs = shard if collective.name == "reduce-scatter" else whole
    size = _ADDRESSED_BYTES // max(inputs, outputs, *scratch)
    plan: dict[str, Any] = {
        "name": name,
        "collective": WORDS[collective.name],
        "protocol": "Simple",
        "inplace": program.in_place,
        "reuse_resources": False,
        "num_threads_per_block": num_threads_per_block,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": size * (outputs if collective.name == "allgather" else inputs),
        "gpus": [
            {
                "id": rank,
                "input_chunks": inputs,
                "output_chunks": outputs,
                "scratch_chunks": scratch[rank],
                **gpus.written(rank),
            }
            for rank in range(program.num_ranks)
        ],
    }
    if steps_follow(plan_program(checked_plan(plan), name)):
        puts = (
            op
            for gpu in plan["gpus"]
            for block in gpu["threadblocks"]
            for op in block["ops"]
            if op["name"] == "put"
        )
        for op in puts:
            del op["step"]
    return plan


_End = tuple[int, int]
"""A rank and the number of one of its blocks."""


@final
@dataclass(slots=True)
class _Links:
    """The channels of a block by the block at the other end, those that it signals on first."""

    sends: dict[_End, list[int]] = field(default_factory=lambda: defaultdict(list))
    receives: dict[_End, list[int]] = field(default_factory=lambda: defaultdict(list))

    def ends(self) -> list[_End]:
        """The other ends in order."""
        return list(dict.fromkeys([*self.sends, *self.receives]))


@final
class _Gpus:
    """Blocks of all ranks, and the channels between them: one for each pair that has messages."""

    def __init__(self, nodes: list[PlanNode], cuts: list[BlockCut]) -> None:
        self.nodes, self.cuts = nodes, cuts
        block_of = {
            n: (rank, b)
            for rank, cut in enumerate(cuts)
            for b, block in enumerate(cut.blocks)
            for n in block.nodes
        }
        self.links: dict[_End, _Links] = {end: _Links() for end in block_of.values()}
        for n, node in enumerate(nodes):
            if node.kind == WAIT:
                here, there = block_of[n], block_of[node.message]
                self.links[here].receives[there].append(node.message)
                self.links[there].sends[here].append(node.message)

    def written(self, rank: int) -> dict[str, Any]:
        """The parts of a GPU in a plan: its channels, remote buffers and threadblocks."""
        cut = self.cuts[rank]
        listed = [
            (end, (rank, b)) for b in range(len(cut.blocks)) for end in self.links[rank, b].ends()
        ]
        number = _numbers(listed)
        remote: dict[tuple[int, int], int] = {}
        blocks = [self._block(rank, b, number, remote) for b in range(len(cut.blocks))]
        channels = [end[0] for end, _ in listed]
        return {
            "channels": [{"channel_type": "memory", "connected_to": channels}] if channels else [],
            "remote_buffers": [
                {"rank": peer, "type": "ios"[buffer], "access_channel_types": ["memory"]}
                for peer, buffer in remote
            ],
            "semaphores": [],
            "threadblocks": blocks,
        }

    def _block(
        self,
        rank: int,
        b: int,
        number: dict[tuple[_End, _End], int],
        remote: dict[tuple[int, int], int],
    ) -> dict[str, Any]:
        cut, links = self.cuts[rank], self.links[rank, b]
        own = [self.nodes[n] for n in cut.blocks[b].nodes]
        ends = links.ends()
        place = {end: at for at, end in enumerate(ends)}
        sends = {m: place[end] for end, messages in links.sends.items() for m in messages}
        receives = {m: place[end] for end, messages in links.receives.items() for m in messages}
        used = [(n.peer, p.target.buffer) for n in own if n.kind == SEND for p in n.puts]
        buffers = {key: at for at, key in enumerate(dict.fromkeys(used))}
        for key in buffers:
            remote.setdefault(key, len(remote))
        writer = BlockWriter(receives, sends, buffers)
        writer.start()
        age = cut.generation(cut.blocks[b])
        if age:
            writer.barrier(2 * age - 1, cut.members(age - 1, age))
        phase, last = cut.first[age], [*cut.first, max(cut.phase.values()) + 1][age + 1] - 1
        for n, node in zip(cut.blocks[b].nodes, own, strict=True):
            for _ in range(cut.phase[n] - phase):
                writer.barrier(2 * age, cut.members(age))
            phase = cut.phase[n]
            writer.node(node)
        for _ in range(last - phase):
            writer.barrier(2 * age, cut.members(age))
        if age + 1 < len(cut.first):
            writer.barrier(2 * age + 1, cut.members(age, age + 1))
        if writer.waiting:
            writer.sync()
        _check(rank, b, own, writer, len(ends), len(buffers))
        channels = [number[end, (rank, b)] for end in ends]
        ids = [remote[key] for key in buffers]
        listed = {"access_channel_type": "memory", "remote_buffer_ids": ids}
        return {
            "id": b,
            "channels": [{"channel_type": "memory", "channel_ids": channels}] if channels else [],
            "remote_buffer_refs": [listed] if ids else [],
            "ops": writer.operations,
        }


def _numbers(listed: list[tuple[_End, _End]]) -> dict[tuple[_End, _End], int]:
    """The channel of a rank for every pair of blocks (there, here).

    The k-th channel to a peer meets the peer's k-th channel back: both ends go by the pairs.
    """
    places: dict[int, list[int]] = defaultdict(list)
    pairs: dict[int, list[tuple[_End, _End]]] = defaultdict(list)
    for at, (there, here) in enumerate(listed):
        places[there[0]].append(at)
        pairs[there[0]].append((there, here))
    return {
        pair: at
        for peer, own in pairs.items()
        for pair, at in zip(sorted(own, key=sorted), places[peer], strict=True)
    }


def _check(
    rank: int, b: int, own: list[PlanNode], writer: BlockWriter, channels: int, buffers: int
) -> None:
    """ValueError, with a link, for a block beyond the limits of a plan."""
    limits = (
        (len(writer.operations), MAX_OPERATIONS, "operations"),
        (channels, MAX_CHANNELS, "channels"),
        (buffers, MAX_CHANNELS, "remote buffers"),
    )
    for count, most, what in limits:
        if count > most:
            node = next((node for node in own if node.kind == SEND), own[0])
            ends = (rank, node.peer) if node.kind == SEND else (node.peer, rank)
            raise ValueError(
                f"link {ends[0]} -> {ends[1]}: threadblock {b} would have {count} {what}, "
                f"a plan holds {most}"
            )
