"""RunJob: a program to be run on real processes, and where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from ocs_codesign.circuits import CircuitProgram
    from ocs_codesign.rank_program import RankProgram


@final
@dataclass(frozen=True, slots=True, eq=False)
class RunJob:
    """A program to be run, on ``elements`` elements of M drawn with ``seed``.

    All ranks meet before every step of ``barriers``, as they do where circuits change.
    """

    name: str
    program: RankProgram
    elements: int
    barriers: tuple[int, ...] = ()
    seed: int = 0


def steps_of_changes(circuits: CircuitProgram) -> tuple[int, ...]:
    """The steps before which circuits come up, or go down while others stay.

    >>> from ocs_codesign.circuits import CircuitProgram
    >>> from ocs_codesign.topology import Topology
    >>> swap = Topology(4, [0, 1, 2, 3, 0, 2], [1, 0, 3, 2, 2, 0])
    >>> rows = [0, 1, 2, 3, 4, 5], [1] * 4 + [2] * 2, [1] * 4 + [3] * 2
    >>> steps_of_changes(CircuitProgram(swap, [0] * 6, *rows, pauses=[2]))
    (2,)
    """
    last = int(circuits.last_step.max())
    steps = np.unique(np.concatenate([circuits.first_step, circuits.last_step + 1]))
    return tuple(steps[(steps > 1) & (steps <= last)].tolist())
