"""Why a topology does not fit a fabric: the bound that fails, for people and for programs."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.lp import LinearProgram, Options, Solution, Status, solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


@final
class Reason(Enum):
    """The bound that fails; the value says it in a few words.

    All but NOT_FOUND are proofs: no embedding exists under the rules that the sentence names.
    """

    HOSTS = "more nodes than hosts"
    SPEED = "links differ in speed"
    ONE_WAY = "a link has no reverse"
    LOOP = "a switch cannot join a port with itself"
    PLANES = "fewer planes than the links at a node need"
    PORTS = "fewer ports than nodes"
    BLOCK = "a block larger than every switch"
    PACKING = "blocks that together fit into no choice of switches"
    LOSS = "more loss than the budget"
    STATES = "a link that no switch state offers"
    CABLING = "a link that the cables do not allow"
    NOT_FOUND = "the search ended without an embedding and without a proof"


@final
class InfeasibleError(ValueError):
    """A topology does not fit; ``reason`` says which bound fails, the message says it in full."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[Reason, str]]:
        return InfeasibleError, (self.reason, str(self))


# Small integer programs: a solution that was checked, a proof that none exists, or neither.


def least_integers(
    entries: Sequence[tuple[NDArray[np.integer], NDArray[np.integer], ArrayLike]],
    bounds: Sequence[tuple[ArrayLike, ArrayLike]],
    most: ArrayLike,
    cost: ArrayLike = 0.0,
    *,
    doing: str,
    time_limit_s: float = 60.0,
) -> tuple[NDArray[np.int64], Solution] | None:
    """The cheapest whole numbers from 0 to ``most`` that keep every row between its bounds.

    ``entries`` are rows, columns and values of the matrix in parts, those of one place add up, and
    ``bounds`` the least and most of its rows in parts. None if it is proven that there are none.
    Raises InfeasibleError (NOT_FOUND), which says what one was ``doing``, if the time is over.

    >>> entry = np.array([0, 0]), np.array([0, 1]), [3, 2]
    >>> least_integers([entry], [([7], [8])], [9, 9], [2.0, 1.0], doing="a sum")[0]
    array([0, 4])
    """
    program = program_of(entries, bounds, most, cost)
    program = replace(program, integer=np.ones(program.num_columns, dtype=bool))
    solution = solve(program, options=Options(time_limit_s=time_limit_s)).taken()
    if solution.status is Status.INFEASIBLE:
        return None
    if solution.values is None or program.violation(np.rint(solution.values)) > 0:
        raise InfeasibleError(Reason.NOT_FOUND, f"{doing}: {solution.message}")
    return np.rint(solution.values).astype(np.int64), solution


def program_of(
    entries: Sequence[tuple[NDArray[np.integer], NDArray[np.integer], ArrayLike]],
    bounds: Sequence[tuple[ArrayLike, ArrayLike]],
    most: ArrayLike,
    cost: ArrayLike = 0.0,
) -> LinearProgram:
    """The program of ``least_integers`` in numbers that need not be whole."""
    from scipy.sparse import csr_matrix

    rows, columns = (np.concatenate([part[side] for part in entries]) for side in (0, 1))
    values = np.concatenate([np.broadcast_to(part[2], len(part[0])) for part in entries])
    lower, upper = (
        np.concatenate([np.asarray(part[side], dtype=np.float64) for part in bounds])
        for side in (0, 1)
    )
    upper_of = np.asarray(most, dtype=np.float64)
    shape = len(lower), len(upper_of)
    matrix = csr_matrix((values.astype(np.float64), (rows, columns)), shape=shape)
    return LinearProgram(
        np.broadcast_to(np.asarray(cost, dtype=np.float64), shape[1:]),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        lower,
        upper,
        np.zeros(shape[1]),
        upper_of,
    )
