"""Places in the buffers of runtimes, whose input and output may be one, as places of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.rank_program import INPUT, OUTPUT, SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
