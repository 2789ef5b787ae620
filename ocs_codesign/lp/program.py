"""Linear and mixed-integer programs as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Minimise ``cost @ x`` subject to row_lower <= A x <= row_upper, col_lower <= x <= col_upper.

    A is stored by rows: row i has ``values[start[i] : start[i + 1]]`` in the columns
    ``index[start[i] : start[i + 1]]``, each column at most once. Bounds may be infinite. Columns
    where ``integer`` is true take integers only. Raises ValueError for shapes that do not fit and
    for numbers that are none.
    """

    cost: NDArray[np.float64]
    start: NDArray[np.int64]
    index: NDArray[np.int64]
    values: NDArray[np.float64]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    col_lower: NDArray[np.float64]
    col_upper: NDArray[np.float64]
    integer: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        rows, columns = self.num_rows, self.num_columns
        fits = (
            len(self.row_upper) == rows
            and len(self.start) == rows + 1
            and len(self.col_lower) == len(self.col_upper) == columns
            and len(self.index) == len(self.values) == (self.start[-1] if len(self.start) else 0)
            and self.start[0] == 0
            and bool((np.diff(self.start) >= 0).all())
            and (not len(self.index) or 0 <= self.index.min() <= self.index.max() < columns)
            and (self.integer is None or len(self.integer) == columns)
        )
        if not fits:
            raise ValueError(f"arrays of a program with {rows} rows, {columns} columns do not fit")
        for name in ("cost", "values"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} of a program must be finite")
        for side in ("row", "col"):
            lower, upper = getattr(self, f"{side}_lower"), getattr(self, f"{side}_upper")
            if not ((lower < np.inf).all() and (upper > -np.inf).all()):
                raise ValueError(
                    f"{side} bounds must be numbers, inf only above and -inf only below"
                )

    @property
    def num_rows(self) -> int:
        """How many constraints there are."""
        return len(self.row_lower)

    @property
    def num_columns(self) -> int:
        """How many variables there are."""
        return len(self.cost)

    @property
    def is_mixed_integer(self) -> bool:
        """Whether some column takes integers only."""
        return self.integer is not None and bool(np.any(self.integer))

    def matrix(self) -> Any:
        """A as a scipy sparse matrix by rows."""
        from scipy.sparse import csr_matrix

        shape = (self.num_rows, self.num_columns)
        return csr_matrix((self.values, self.index, self.start), shape=shape)

    def violation(self, values: NDArray[np.float64]) -> float:
        """By how much ``values`` miss the worst of all rows, bounds and integrality conditions."""
        activity = self.matrix() @ values
        misses = [
            self.row_lower - activity,
            activity - self.row_upper,
            self.col_lower - values,
            values - self.col_upper,
        ]
        if self.integer is not None:
            misses.append(np.abs(values - np.rint(values))[np.asarray(self.integer, dtype=bool)])
        return float(max([0.0, *(miss.max() for miss in misses if len(miss))]))
