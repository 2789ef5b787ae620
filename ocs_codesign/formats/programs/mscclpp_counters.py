"""Who joins the barriers of an MSCCL++ plan, and which signals are counted apart."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ocs_codesign.formats.programs.mscclpp_plan import TELLING

if TYPE_CHECKING:
    from ocs_codesign.formats.programs.mscclpp_plan import ExecutionPlan, PlanOperation

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
