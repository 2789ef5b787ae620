"""Workload: the collectives that a fabric is chosen for, and when its circuits may change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.reconfigure.hold.trace import Job, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective


@final
class AllowedChanges(Enum):
    """When circuits may change: never, between two collectives, or inside one as well."""

    NONE = "none"
    BETWEEN = "between-collectives"
    INSIDE = "inside"


@final
@dataclass(frozen=True, slots=True)
class Part:
    """A part of a workload with a name, as in ``expert dispatch``, and what it asks for."""

    name: str
    job: Job


@final
@dataclass(frozen=True, slots=True)
class Workload:
    """Parts one after the other, all of them ``repeat`` times.

    Raises ValueError for an empty name, parts of the same name, and what a Trace refuses.

    >>> mix = Workload("mix", (Part("sum", Job("allreduce", 8)), Part("swap", Job("alltoall", 1))))
    >>> mix.trace.num_jobs, mix.part_of_steps().tolist()
    (2, [0, 1])
    """

    name: str
    parts: tuple[Part, ...]
    repeat: int = 1
    allowed: AllowedChanges = AllowedChanges.NONE

    def __post_init__(self) -> None:
        if not self.name.strip() or not all(part.name.strip() for part in self.parts):
            raise ValueError("a name is empty: a workload and each of its parts have one")
        counts = Counter(part.name for part in self.parts)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            raise ValueError(f"two collectives have the name {twice[0]!r}: names are unique")
        Trace((part.job for part in self.parts), self.repeat)

    @classmethod
    def of(cls, collectives: Iterable[Collective], message_bytes: float) -> Workload:
        """Collectives one after the other, each of M = ``message_bytes``."""
        names = tuple(dict.fromkeys(collective.name for collective in collectives))
        return cls(", ".join(names), tuple(Part(name, Job(name, message_bytes)) for name in names))

    @property
    def trace(self) -> Trace:
        """The parts as a trace of jobs."""
        return Trace((part.job for part in self.parts), self.repeat)

    def part_of_steps(self) -> NDArray[np.int64]:
        """The part of every step of the trace (int64)."""
        counts = [part.job.count for part in self.parts]
        return np.tile(np.repeat(np.arange(len(counts)), counts), self.repeat)
