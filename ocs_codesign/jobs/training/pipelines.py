"""How long a pipeline takes: stages that differ, interleaved chunks, any number of microbatches.

Past three microbatches a stage every further one adds what the slowest stage takes for it, so that
no more are ever walked.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.jobs.models.building import SCHEDULES, interleaved
from ocs_codesign.jobs.training import pipeline_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Times = Sequence[Sequence[Fraction]]

TURNS_WALKED = 3
"""Microbatches a stage that are walked before the rest is added."""


def pipeline_time(
    forward: Times,
    backward: Times,
    num_microbatches: int,
    order: str = "1f1b",
    group: int | None = None,
    weights: Times | None = None,
) -> Fraction:
    """The exact time of a pipeline, walked whole; times are those of stages x chunks.

    ``weights`` are those of gradients of weights, apart from ``backward``, which zero-bubble orders
    need. Raises ValueError if the order deadlocks.

    >>> third = [[Fraction(1, 3)] * 3] * 4, [[Fraction(2, 3)] * 3] * 4
    >>> pipeline_time(*third, 9, "interleaved", 5)
    Fraction(30, 1)
    >>> pipeline_time(*third, 9, "interleaved", 4)
    Traceback (most recent call last):
    ValueError: 9 microbatches of 4 stages in turns of 4 deadlock: each waits for another
    """
    sides = (backward, forward) if weights is None else (backward, forward, weights)
    unit = lcm(*(Fraction(time).denominator for side in sides for stage in side for time in stage))
    times = np.array(sides) * unit
    ticks = np.moveaxis(times.astype(np.int64), 0, -1)
    return Fraction(int(_walked(ticks, num_microbatches, order, group)), unit)


def pipeline_seconds(
    times: NDArray[np.float64], num_microbatches: int, order: str = "1f1b", group: int | None = None
) -> float:
    """Seconds of a pipeline of ``times`` (stages x chunks x (backward, forward[, weights])).

    What is past TURNS_WALKED microbatches a stage adds the slowest stage's time each; where all
    forward passes come first, the slowest forward and the slowest backward.

    >>> times = np.array([[[2.0, 1]], [[5, 3]], [[4, 2]], [[3, 2]]])
    >>> pipeline_seconds(times, 24), pipeline_seconds(times, 10**9)
    (201.0, 8000000009.0)
    """
    walked = TURNS_WALKED * len(times)
    if group is not None:  # whole turns, and the same rest
        walked = -(-walked // group) * group + num_microbatches % group
    if num_microbatches <= walked:
        return float(_walked(times, num_microbatches, order, group))
    more = num_microbatches - walked
    if order in ("gpipe", "breadth-first"):
        each = float(times.sum(1).max(0).sum())
    else:
        each = float(times.sum((1, 2)).max())
    return float(_walked(times, walked, order, group)) + more * each


def dualpipe_seconds(
    times: NDArray[np.float64], weights: NDArray[np.float64], num_microbatches: int
) -> float:
    """Seconds of DualPipe: a rank has a stage of either direction, which take half of them each.

    ``times`` (stages x (backward, forward)) with ``weights`` in backward. Between them ranks wait
    (p / 2 - 1)(F&B + B - 3W), F&B forward and backward of two microbatches against each other
    (DeepSeek-V3, 2024).

    >>> dualpipe_seconds(np.array([[2.0, 1.0]] * 4), np.ones(4), 8)
    26.0
    """
    ranks = (times + times[::-1]) / 2
    both, apart = ranks.sum(1), (weights + weights[::-1]) / 2
    idle = max(0.0, float((both + ranks[:, 0] - 3 * apart).max()))
    return num_microbatches * float(both.max()) + (len(times) / 2 - 1) * idle


BACKWARD, FORWARD, WEIGHTS = range(3)
ZERO_BUBBLE = {"zb-h1": 1, "zb-h2": 2}
"""Times of 1F1B's memory that zero-bubble orders hold."""


def zero_bubble(
    stage: int, num_stages: int, num_microbatches: int, times: int
) -> list[tuple[int, int, int]]:
    """Passes (kind, microbatch, chunk) of a stage, with gradients of weights put off.

    Those of a stage lag its backward passes by as many microbatches as the stages before it, so
    that every stage holds at most what the first of 1F1B does, or ``times`` as much, less one.
    """
    ahead = num_stages - stage if times == 1 else 2 * (num_stages - stage) - 1
    lag = stage if times == 1 else 2 * stage
    passes: list[tuple[int, int, int]] = []
    passes += [(FORWARD, number, 0) for number in range(min(ahead, num_microbatches))]
    for number in range(num_microbatches):
        passes.append((BACKWARD, number, 0))
        if number >= lag:
            passes.append((WEIGHTS, number - lag, 0))
        if number + ahead < num_microbatches:
            passes.append((FORWARD, number + ahead, 0))
    left = range(max(0, num_microbatches - lag), num_microbatches)
    return passes + [(WEIGHTS, number, 0) for number in left]


@lru_cache(maxsize=256)
def _passes(
    num_stages: int, num_microbatches: int, chunks: int, order: str, group: int | None
) -> NDArray[np.int64]:
    each, stages = (num_stages, num_microbatches, chunks), range(num_stages)
    passes: list[Any]
    if order in ZERO_BUBBLE:
        count = ZERO_BUBBLE[order]
        passes = [zero_bubble(stage, num_stages, num_microbatches, count) for stage in stages]
    elif order == "interleaved":
        passes = [interleaved(stage, *each, group) for stage in stages]
    else:
        passes = [SCHEDULES[order](stage, *each) for stage in stages]
    return np.array(passes, dtype=np.int64)


def _walked(times: NDArray[Any], num_microbatches: int, order: str, group: int | None) -> Any:
    num_stages, chunks = times.shape[:2]
    passes = _passes(num_stages, num_microbatches, chunks, order, group)
    ends = np.full((3, num_microbatches, num_stages * chunks), -1, times.dtype)
    walk = for_work(kernels.walk, num_stages * passes.shape[1])
    if not walk(passes, times, ends):
        raise ValueError(
            f"{num_microbatches} microbatches of {num_stages} stages in turns of {group} "
            "deadlock: each waits for another"
        )
    return ends.max()
