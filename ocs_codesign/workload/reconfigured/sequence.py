"""The sequence of configurations round an iteration of least total time, as messages in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.reconfigure.hold.dynamic_program import switch_plan
from ocs_codesign.reconfigure.hold.problem import SwitchProblem

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True, eq=False)
class RoundPlan:
    """The configuration of every message of a round (int64), and what they and changes take."""

    choice: NDArray[np.int64]
    total: Fraction
    num_switches: int


def round_plan(
    costs: NDArray[Any], serves: NDArray[np.bool_], delta: NDArray[Any], gaps: NDArray[Any]
) -> RoundPlan | None:
    """The least total of messages one after the other, round and round; None if none serves all.

    Message i costs ``costs[i, k]`` on configuration k, if that ``serves[i, k]``; before it
    ``gaps[i]`` hide as much of a change, which takes ``delta[j, k]``. The first message follows the
    last one. For each configuration of the last message the rest is planned exactly, and the best
    taken: of equal ones that with the fewest changes.

    >>> costs, serves, gaps = np.array([[4, 9], [9, 4]]), np.ones((2, 2), bool), np.zeros(2, int)
    >>> changes = [np.array([[0, delay], [delay, 0]]) for delay in (2, 3)]
    >>> [str(round_plan(costs, serves, delta, gaps).total) for delta in changes]
    ['12', '13']
    """
    many = costs.shape[1]
    table = costs.astype(object)
    table[~serves] = float("inf")
    best: RoundPlan | None = None
    for last in range(many):
        if not serves[-1, last] or not serves.any(axis=1).all():
            continue
        row = table[-1].copy()
        row[[at for at in range(many) if at != last]] = float("inf")
        closed = np.concatenate([table[:-1], row[None]])
        unique, rows = _distinct_rows(np.column_stack([closed, gaps.astype(object)]))
        problem = SwitchProblem(
            unique[:, :-1], delta.astype(object), start=last, gaps=unique[:, -1], rows=rows
        )
        plan = switch_plan(problem)
        found = RoundPlan(plan.choice.astype(np.int64), plan.total, plan.num_switches)
        if best is None or (found.total, found.num_switches) < (best.total, best.num_switches):
            best = found
    return best


def _distinct_rows(table: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different rows, in the order in which they first appear, and which each one is."""
    number: dict[tuple[Any, ...], int] = {}
    rows = [number.setdefault(tuple(row), len(number)) for row in table.tolist()]
    return np.array(list(number), dtype=object), np.array(rows, dtype=np.int64)
