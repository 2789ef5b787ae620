"""Programs of planes written column by column and row by row; a solver gets the arrays, whole."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.lp import LinearProgram

if TYPE_CHECKING:
    from collections.abc import Iterable

Term = tuple[int, float]
"""A column and its coefficient."""


class ProgramRows:
    """Columns and rows gathered one by one; ``program`` makes arrays of them.

    >>> rows = ProgramRows()
    >>> x = rows.column(cost=1.0)
    >>> rows.row([(x, 2.0)], lower=3.0)
    >>> rows.program().num_rows
    1
    """

    def __init__(self) -> None:
        self._columns: list[tuple[float, float, bool]] = []
        self._start = [0]
        self._terms: list[Term] = []
        self._sides: list[tuple[float, float]] = []

    def column(self, cost: float = 0.0, upper: float = inf, *, integer: bool = False) -> int:
        """The number of a new column, from 0 to ``upper``."""
        self._columns.append((cost, upper, integer))
        return len(self._columns) - 1

    def row(self, terms: Iterable[Term], lower: float = -inf, upper: float = inf) -> None:
        """Add a row; every column is in it once."""
        self._terms += terms
        self._start.append(len(self._terms))
        self._sides.append((lower, upper))

    def program(self) -> LinearProgram:
        """The program: minimise the cost over the rows."""
        cost, upper, integer = np.array(self._columns, dtype=float).reshape(-1, 3).T
        index, values = np.array(self._terms, dtype=float).reshape(-1, 2).T
        sides = np.array(self._sides, dtype=float).reshape(-1, 2)
        return LinearProgram(
            *(cost, np.array(self._start), index.astype(np.int64), values),
            *(sides[:, 0], sides[:, 1], np.zeros(len(cost)), upper),
            integer > 0 if integer.any() else None,
        )
