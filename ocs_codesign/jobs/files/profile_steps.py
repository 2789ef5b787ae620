"""Steps of a PyTorch profile: which kernels are whose, how long one takes, and which is the median.

A kernel belongs to the step in which it was launched, whenever it ran: processors run ahead. An
iteration is from the end of the last kernel of the step before to that of the last of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_STEP = re.compile(r"ProfilerStep#\d+")
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime")
_NCCL = "nccl:"
Interval = tuple[int, int]


class ProfiledStep(NamedTuple):
    """The step that a job is of: seconds of it, and what of them something ran.

    ``period_s`` is the median iteration, from the first to the last kernel if there is one step
    alone; ``busy_s`` that some kernel ran, ``compute_s`` one that is no collective, ``exposed_s``
    collectives alone, ``idle_s`` none. ``num_steps`` are those that were measured. ``as_measured``
    are kernels that communicate in ways no job has, and their seconds: they count as computation.
    """

    step: str
    num_steps: int
    period_s: float
    busy_s: float
    compute_s: float
    collectives_s: float
    exposed_s: float
    idle_s: float
    kernels: int
    collectives: int
    as_measured: tuple[tuple[str, float], ...] = ()

    @property
    def text(self) -> str:
        """It in a few words."""
        whole = self.period_s or 1.0
        name = self.step or "no steps are marked"
        told = f"{name}, {self.idle_s / whole:.1%} idle of {1e3 * self.period_s:.6g} ms"
        kept = [f"{kernel} ({seconds / whole:.1%})" for kernel, seconds in self.as_measured]
        return told + (f", as long as measured: {', '.join(kept)}" if kept else "")


class Launches(NamedTuple):
    """When kernels were launched by correlation, steps by their begin, operations by their id."""

    time_of: dict[Any, float]
    steps: list[tuple[float, float, str]]
    operation_of: dict[Any, dict[str, Any]]

    @classmethod
    def of(cls, events: Sequence[Any]) -> Launches:
        """Those among the events of a trace."""
        time_of: dict[Any, float] = {}
        steps, operations = [], {}
        for event in events:
            if not isinstance(event, dict) or event.get("ph") != "X":
                continue
            kind, name = str(event.get("cat")).lower(), str(event.get("name"))
            args = event.get("args")
            args = args if isinstance(args, dict) else {}
            begin, lasts = event.get("ts"), event.get("dur")
            if not (isinstance(begin, int | float) and isinstance(lasts, int | float)):
                continue
            if kind in _LAUNCHES and "correlation" in args:
                time_of[_key(args["correlation"])] = float(begin)
            elif kind == "user_annotation" and _STEP.fullmatch(name):
                steps.append((float(begin), float(begin + lasts), name))
            elif name.startswith(_NCCL) and "Input Dims" in args:
                operations[_key(args.get("External id"))] = {"name": name, **args}
        return cls(time_of, sorted(steps), operations)

    def step_of(self, correlation: Any) -> int | None:
        """The number of the step in which a kernel was launched, None if in none."""
        launched = self.time_of.get(_key(correlation))
        if launched is None:
            return None
        at = bisect_right(self.steps, (launched, float("inf"), "")) - 1
        return at if at >= 0 and launched < self.steps[at][1] else None


def _key(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


def union(intervals: Iterable[Interval]) -> int:
    """How long some of the intervals last.

    >>> union([(0, 4), (2, 5), (7, 8)])
    6
    """
    total, until = 0, None
    for begin, end in sorted(intervals):
        if until is None or begin > until:
            total, until = total + end - begin, end
        elif end > until:
            total, until = total + end - until, end
    return total


def median_step(ends: dict[int, int]) -> tuple[int, int | None]:
    """The step of the median iteration, by when the last kernel of each ended, and its beginning.

    None for the beginning where there is one step alone.
    """
    steps = sorted(ends)
    if len(steps) == 1:
        return steps[0], None
    lasts = {step: ends[step] - ends[before] for before, step in pairwise(steps)}
    middle = median_low(lasts.values())
    chosen = next(step for step in steps[1:] if lasts[step] == middle)
    return chosen, ends[steps[steps.index(chosen) - 1]]
