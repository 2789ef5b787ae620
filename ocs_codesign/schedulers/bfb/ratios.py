"""The largest of many ratios of integers, and sums over sets of columns."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def largest_ratio(counts: NDArray[Any], weights: NDArray[Any]) -> Fraction:
    """Largest counts / weights over all entries of positive weight, exactly; 0 if there is none."""
    counts, weights = np.broadcast_arrays(counts, weights)
    return largest_ratios(counts.reshape(1, -1), weights.reshape(1, -1))[0]


def largest_ratios(counts: NDArray[Any], weights: NDArray[Any]) -> tuple[Fraction, ...]:
    """The largest of every row, exactly."""
    ratios = np.divide(counts, weights, out=np.full(counts.shape, -1.0), where=weights > 0)
    best = [Fraction(0)] * len(counts)
    rows = np.arange(len(counts))
    while True:
        # Floats guess the largest, integers prove it: what is above the guess is looked at again.
        entry = np.arange(len(rows)), ratios.argmax(axis=1)
        top, bottom = counts[entry].astype(np.int64), weights[entry].astype(np.int64)
        for row, count, weight in zip(rows.tolist(), top.tolist(), bottom.tolist(), strict=True):
            best[row] = Fraction(count, weight) if weight > 0 else best[row]
        above = (counts * bottom[:, None] > weights * top[:, None]) & (weights > 0)
        again = np.flatnonzero(above.any(axis=1) & (bottom > 0))
        if not len(again):
            return tuple(best)
        rows, counts, weights = rows[again], counts[again], weights[again]
        ratios = np.where(above[again], ratios[again], -1.0)


def subset_sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum of the values over every set of columns, the set's bits its index; (n, k) to (n, 2^k)."""
    sums = np.zeros((len(values), 1), dtype=np.int64)
    for column in range(values.shape[1]):
        sums = np.concatenate([sums, sums + values[:, column : column + 1]], axis=1)
    return sums
