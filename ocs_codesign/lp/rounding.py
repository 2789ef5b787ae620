"""From a solver's floats to fractions, with the residual checked."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def as_fractions(
    values: NDArray[np.float64], max_denominator: int, tolerance: float = 1e-6
) -> list[Fraction]:
    """The nearest fractions of bounded denominator; ValueError if one is not within tolerance.

    >>> import numpy as np
    >>> as_fractions(np.array([0.33333333, 1.0]), 4)
    [Fraction(1, 3), Fraction(1, 1)]
    """
    fractions = [Fraction(float(v)).limit_denominator(max_denominator) for v in values]
    for value, fraction in zip(values.tolist(), fractions, strict=True):
        if abs(value - fraction) > tolerance:
            raise ValueError(
                f"{value} is not within {tolerance} of a fraction of denominator "
                f"at most {max_denominator}"
            )
    return fractions
