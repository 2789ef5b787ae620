"""Pipelines: in which order a stage passes microbatches forward and backward."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Pass(NamedTuple):
    """A microbatch through a chunk of a stage."""

    is_forward: bool
    microbatch: int
    chunk: int


def gpipe(stage: int, num_stages: int, num_microbatches: int, chunks: int) -> list[Pass]:
    """All forward, then all backward.

    >>> [each.microbatch for each in gpipe(0, 2, 2, 1)]
    [0, 1, 0, 1]
    """
    return breadth_first(stage, num_stages, num_microbatches, chunks)


def breadth_first(stage: int, num_stages: int, num_microbatches: int, chunks: int) -> list[Pass]:
    """All microbatches through a chunk before the next one (Lamy-Poirier)."""
    del stage, num_stages
    numbers = range(num_microbatches)
    forward = [Pass(True, number, chunk) for chunk in range(chunks) for number in numbers]
    backward = [
        Pass(False, number, chunk) for chunk in reversed(range(chunks)) for number in numbers
    ]
    return forward + backward


def one_forward_one_backward(
    stage: int, num_stages: int, num_microbatches: int, chunks: int
) -> list[Pass]:
    """Backward as soon as it can be, so that few microbatches are held (PipeDream-Flush).

    >>> "".join("BF"[each.is_forward] for each in one_forward_one_backward(0, 3, 4, 1))
    'FFFBFBBB'
    """
    del chunks
    first = min(num_microbatches, _warm_up_of_one(stage, num_stages, 1))
    return _alternating(
        [Pass(True, number, 0) for number in range(num_microbatches)],
        [Pass(False, number, 0) for number in range(num_microbatches)],
        first,
    )


def interleaved(stage: int, num_stages: int, num_microbatches: int, chunks: int) -> list[Pass]:
    """One forward, one backward over several chunks; as many microbatches in turn as stages.

    >>> [each.chunk for each in interleaved(1, 2, 2, 2) if each.is_forward]
    [0, 0, 1, 1]
    """
    turns = [
        (chunk, turn + number)
        for turn in range(0, num_microbatches, num_stages)
        for chunk in range(chunks)
        for number in range(num_stages)
    ]
    first = _warm_up_of_several(stage, num_stages, chunks)
    return _alternating(
        [Pass(True, number, chunk) for chunk, number in turns],
        [Pass(False, number, chunks - 1 - chunk) for chunk, number in turns],
        min(len(turns), first),
    )


def _alternating(forward: list[Pass], backward: list[Pass], first: int) -> list[Pass]:
    passes = forward[:first]
    for one, other in zip(forward[first:], backward, strict=False):
        passes += [one, other]
    return passes + backward[len(forward) - first :]


SCHEDULES: dict[str, Callable[[int, int, int, int], list[Pass]]] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
    "breadth-first": breadth_first,
}
"""Passes of (stage, stages, microbatches, chunks)."""


def most_held(
    schedule: str, stage: int, num_stages: int, num_microbatches: int, chunks: int
) -> int:
    """Passes of chunks that a stage holds the activations of at once, the most there are.

    >>> most_held("1f1b", 1, 4, 8, 1), most_held("gpipe", 1, 4, 8, 1)
    (3, 8)
    >>> most_held("interleaved", 0, 4, 8, 2)
    11
    """
    every = num_microbatches * chunks
    if schedule not in _WARM_UPS:  # all forward, then all backward
        return every
    return min(every, _WARM_UPS[schedule](stage, num_stages, chunks) + 1)


def _warm_up_of_one(stage: int, num_stages: int, chunks: int) -> int:
    """Passes forward before the first one backward, if there are so many."""
    del chunks
    return num_stages - 1 - stage


def _warm_up_of_several(stage: int, num_stages: int, chunks: int) -> int:
    return 2 * (num_stages - 1 - stage) + (chunks - 1) * num_stages


_WARM_UPS = {"1f1b": _warm_up_of_one, "interleaved": _warm_up_of_several}
