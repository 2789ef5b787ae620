"""Loads: how much the busiest link carries, step by step."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def busiest_links(
    step: NDArray[np.int32],
    link: NDArray[np.int32],
    chunks: NDArray[np.int64],
    speed: NDArray[np.int64],
) -> tuple[Fraction, ...]:
    """Largest chunks / speed of a link in every step from 1 on; the columns are of equal length.

    ``speed`` is that of every link. Links of one speed compare by their chunks alone.

    >>> columns = [np.array(column) for column in ([1, 1, 3], [0, 0, 1], [2, 3, 4], [1, 8])]
    >>> [str(load) for load in busiest_links(*columns)]
    ['5', '0', '1/2']
    """
    steps = int(step.max(initial=0))
    loads = [Fraction(0)] * steps
    keys, at = np.unique(step.astype(np.int64) * len(speed) + link, return_inverse=True)
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, at, chunks)
    in_step, on_link = np.divmod(keys, len(speed))
    for value in np.unique(speed[on_link]).tolist():
        top = np.zeros(steps + 1, dtype=np.int64)
        here = speed[on_link] == value
        np.maximum.at(top, in_step[here], total[here])
        pairs = enumerate(top[1:].tolist())
        loads = [max(loads[number], Fraction(load, value)) for number, load in pairs]
    return tuple(loads)
