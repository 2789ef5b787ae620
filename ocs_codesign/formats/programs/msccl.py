"""MSCCL XML: schedules as threadblocks of steps, for the loaders of microsoft and of RCCL."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from ocs_codesign.formats.programs.msccl_algo import (
    DIALECTS,
    PROTOCOLS,
    MscclAlgorithm,
    MscclGpu,
    check_limits,
    without_steps,
)
from ocs_codesign.formats.programs.msccl_programs import program_of
from ocs_codesign.formats.programs.msccl_steps import blocks_of
from ocs_codesign.formats.programs.steps_told import steps_follow, steps_hold
from ocs_codesign.rank_program import GET, PUT, SIGNAL, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ocs_codesign.rank_program import RankProgram

MAX_BYTES = 2**30
"""The largest message that a written file is for, unless told: 0 means none at all to microsoft."""

_WORDS = {
    "allgather": "allgather",
    "allreduce": "allreduce",
    "reduce": "reduce",
    "broadcast": "broadcast",
    "alltoall": "alltoall",
}


def write_msccl(
    program: RankProgram,
    name: str,
    *,
    dialect: str = "msccl",
    proto: str = "Simple",
    max_bytes: int = MAX_BYTES,
) -> str:
    """The MSCCL file of a program of sends and receives, for loader ``msccl`` or ``rccl``.

    The format knows no steps of a schedule. Where they do not follow from what waits for what, and
    a cost with them would be another, steps that send have one attribute more than loaders ask for.
    Raises ValueError for what the loader does not take, naming the limit and the link, and for
    collectives that the format has no word for.

    >>> from ocs_codesign.rank_program import OUTPUT, RECEIVE, SEND, RankProgram
    >>> from ocs_codesign.collective import Collective
    >>> swap = RankProgram(Collective.ALLGATHER, 2, 1, True, [0, 0],
    ...     {"rank": [0, 0, 1, 1], "stream": [0, 1, 0, 1], "kind": [SEND, RECEIVE] * 2,
    ...      "peer": [1, 1, 0, 0], "source_buffer": [OUTPUT] * 4, "source": [0, 0, 1, 0],
    ...      "target_buffer": [OUTPUT] * 4, "target": [0, 1, 0, 0], "count": [1] * 4})
    >>> write_msccl(swap, "swap").count("<step ")
    4
    """
    algorithm = algorithm_of(program, name, dialect=dialect, proto=proto, max_bytes=max_bytes)
    return "".join(_lines(algorithm))


def algorithm_of(
    program: RankProgram,
    name: str,
    *,
    dialect: str = "msccl",
    proto: str = "Simple",
    max_bytes: int = MAX_BYTES,
) -> MscclAlgorithm:
    """What the MSCCL file of a program says; ValueError as of ``write_msccl``."""
    if dialect not in DIALECTS:
        raise ValueError(f"dialect is {dialect!r}: it must be one of {', '.join(DIALECTS)}")
    if proto not in PROTOCOLS:
        raise ValueError(f"proto is {proto!r}: it must be one of {', '.join(PROTOCOLS)}")
    if not 1 <= max_bytes < 2**63:
        raise ValueError(f"max_bytes is {max_bytes}: it must be from 1 to 2^63 - 1")
    coll, collective = _word(program, dialect), program.collective
    loader = DIALECTS[dialect]
    _check_kinds(program)
    sizes = [size.tolist() for size in program.buffer_sizes()]
    units = 1 if coll in ("reduce", "broadcast") else program.num_ranks
    in_place = program.in_place
    head = name, proto, units * program.chunks_per_unit, coll, in_place, not in_place, 0, max_bytes

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
    return without_steps(algorithm) if steps_follow(told) else algorithm


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
