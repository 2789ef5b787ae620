"""Passes of pipeline stages put on a clock, in plain loops; see ``for_work``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def walk(passes: NDArray[Any], times: NDArray[Any], ends: NDArray[Any]) -> bool:
    """Put every pass as early as it can be; False if stages wait for each other for ever.

    ``passes`` (int64, stages x passes x 3) are (kind, microbatch, chunk) in the order of a stage,
    of kind 0 backward, 1 forward, 2 gradients of weights; ``times`` (stages x chunks x kinds) what
    a pass takes, ``ends`` (3 x microbatches x virtual stages), full of -1, is filled with when each
    pass is over.
    """
    num_stages, num_passes = passes.shape[0], passes.shape[1]
    virtual_stages = ends.shape[2]
    at = np.zeros(num_stages, np.int64)
    free = np.zeros(num_stages, times.dtype)
    done, moved = 0, True
    while moved:
        moved = False
        for stage in range(num_stages):
            # A stage goes on until what it waits for is not there yet.
            while at[stage] < num_passes:
                kind, number, chunk = passes[stage, at[stage]]
                here = chunk * num_stages + stage
                ready = free[stage]
                if kind == 2:
                    before = ends[0, number, here]
                elif kind == 1 and here > 0:
                    before = ends[1, number, here - 1]
                elif kind == 1:
                    before = ready
                elif here == virtual_stages - 1:
                    before = ends[1, number, here]
                else:
                    before = ends[0, number, here + 1]
                if before < 0:
                    break
                ready = max(ready, before) + times[stage, chunk, kind]
                ends[kind, number, here] = ready
                free[stage] = ready
                at[stage] += 1
                done += 1
                moved = True
    return bool(done == num_stages * num_passes)
