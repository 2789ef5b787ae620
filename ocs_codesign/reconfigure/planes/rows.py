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
        self._cost: list[float] = []
        self._bounds: list[tuple[float, float]] = []
        self._integer: list[bool] = []
        self._start = [0]
        self._index: list[int] = []
        self._values: list[float] = []
        self._sides: list[tuple[float, float]] = []

    def column(
        self, cost: float = 0.0, lower: float = 0.0, upper: float = inf, *, integer: bool = False
    ) -> int:
        """The number of a new column."""
        self._cost.append(cost)
        self._bounds.append((lower, upper))
        self._integer.append(integer)
        return len(self._cost) - 1

    def row(self, terms: Iterable[Term], lower: float = -inf, upper: float = inf) -> None:
        """Add a row; coefficients of the same column are added up."""
        total: dict[int, float] = {}
        for column, value in terms:
            total[column] = total.get(column, 0.0) + value
        self._index += total
        self._values += total.values()
        self._start.append(len(self._index))
        self._sides.append((lower, upper))

    def program(self) -> LinearProgram:
        """The program: minimise the cost over the rows."""
        bounds = np.array(self._bounds, dtype=float).reshape(-1, 2)
        sides = np.array(self._sides, dtype=float).reshape(-1, 2)
        integer = np.array(self._integer, dtype=bool)
        return LinearProgram(
            np.array(self._cost, dtype=float),
            np.array(self._start, dtype=np.int64),
            np.array(self._index, dtype=np.int64),
            np.array(self._values, dtype=float),
            sides[:, 0],
            sides[:, 1],
            bounds[:, 0],
            bounds[:, 1],
            integer if integer.any() else None,
        )
