"""Trace: the collectives of a job in order, with the computation between them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

MAX_JOBS = 2**20
"""Largest number of collectives in a trace, repetitions counted."""


@final
@dataclass(frozen=True, slots=True, init=False)
class Job:
    """A collective of M = ``message_bytes``, ``count`` times in a row, and computation around it.

    ``gap_before_s`` and ``gap_after_s`` are the seconds before and after every single one in which
    no circuits are needed. Numbers are exact: a float is read as the decimal that it prints as.
    Raises ValueError for negative numbers, a count below 1 or above MAX_JOBS, and an unknown
    collective.

    >>> Job("all-to-all", 2**20, gap_before_s=0.5, count=3).gap_before_s
    Fraction(1, 2)
    """

    collective: Collective
    message_bytes: Fraction
    gap_before_s: Fraction
    gap_after_s: Fraction
    count: int

    def __init__(
        self,
        collective: Collective | str,
        message_bytes: Fraction | float,
        *,
        gap_before_s: Fraction | float = 0,
        gap_after_s: Fraction | float = 0,
        count: int = 1,
    ) -> None:
        object.__setattr__(self, "collective", Collective.parse(collective))
        for name, value in (
            ("message_bytes", message_bytes),
            ("gap_before_s", gap_before_s),
            ("gap_after_s", gap_after_s),
        ):
            number = exact(value, name)
            if number < 0:
                raise ValueError(f"{name} is {value}: it cannot be negative")
            object.__setattr__(self, name, number)
        object.__setattr__(self, "count", _times(count, "count"))


@final
@dataclass(frozen=True, slots=True)
class TracedDemand:
    """A collective of ``message_bytes`` that is asked for ``gap_s`` after the one before it."""

    collective: Collective
    message_bytes: Fraction
    gap_s: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class TraceSteps:
    """A trace one collective at a time: step i asks for ``demands[rows[i]]`` (rows int64)."""

    demands: tuple[TracedDemand, ...]
    rows: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, init=False)
class Trace:
    """Jobs one after the other, all of them ``repeat`` times.

    Raises ValueError if there are none, or more than MAX_JOBS with all repetitions.

    >>> trace = Trace([Job("allreduce", 100), Job("alltoall", 300, gap_after_s=2)], repeat=3)
    >>> trace.num_jobs, trace.steps().rows.tolist(), trace.compute_s
    (6, [0, 1, 2, 1, 2, 1], Fraction(6, 1))
    """

    jobs: tuple[Job, ...]
    repeat: int

    def __init__(self, jobs: Iterable[Job], repeat: int = 1) -> None:
        object.__setattr__(self, "jobs", tuple(jobs))
        object.__setattr__(self, "repeat", _times(repeat, "repeat"))
        if not self.jobs:
            raise ValueError("the trace is empty: it needs at least one job")
        if self.num_jobs > MAX_JOBS:
            raise ValueError(
                f"the trace has {self.num_jobs} jobs with all repetitions: at most {MAX_JOBS} are "
                "planned"
            )

    @property
    def num_jobs(self) -> int:
        """Collectives, repetitions counted."""
        return self.repeat * sum(job.count for job in self.jobs)

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The different collectives, in the order in which they first appear."""
        return tuple(dict.fromkeys(job.collective for job in self.jobs))

    @property
    def compute_s(self) -> Fraction:
        """Seconds of all gaps together."""
        gaps = (job.count * (job.gap_before_s + job.gap_after_s) for job in self.jobs)
        return self.repeat * sum(gaps, Fraction(0))

    def steps(self) -> TraceSteps:
        """The trace one collective at a time, each with the whole gap since the one before."""
        number: dict[TracedDemand, int] = {}
        rounds: list[NDArray[np.int64]] = []
        after = Fraction(0)
        for _ in range(min(self.repeat, 2)):  # from the second on all are alike
            rows, times = [], []
            for job in self.jobs:
                inside = job.gap_after_s + job.gap_before_s
                for gap, count in ((after + job.gap_before_s, 1), (inside, job.count - 1)):
                    if count:
                        demand = TracedDemand(job.collective, job.message_bytes, gap)
                        rows.append(number.setdefault(demand, len(number)))
                        times.append(count)
                after = job.gap_after_s
            rounds.append(np.repeat(rows, times))
        rounds += rounds[-1:] * (self.repeat - len(rounds))
        return TraceSteps(tuple(number), np.concatenate(rounds))


def _times(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} is {value!r}: it must be a whole number")
    if not 1 <= value <= MAX_JOBS:
        raise ValueError(f"{name} is {value}: it must be from 1 to {MAX_JOBS}")
    return int(value)
