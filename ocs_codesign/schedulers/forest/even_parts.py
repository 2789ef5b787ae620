"""Even parts: what comes in spread over what goes out, as evenly as whole numbers can be."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.runs import before

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CAPACITY = 2**40
"""Capacities that even parts may make necessary; beyond, links are paired one by one."""


def exact_parts(
    into: NDArray[np.int64],
    out: NDArray[np.int64],
    may: NDArray[np.bool_],
    _from: NDArray[np.int64],
    _to: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int] | None:
    """Every ``into`` over the ``out`` that it ``may`` go to by capacity, times a scale."""
    weight = np.where(may, out, 0)
    total = weight.sum(axis=1)
    if not total.all():
        return None
    shares = into[:, None] * weight
    scale = lcm(*(total // np.gcd(total, np.gcd.reduce(shares, axis=1))).tolist())
    return (shares * scale // total[:, None], scale) if scale <= MAX_CAPACITY else None


def whole_parts(
    into: NDArray[np.int64],
    out: NDArray[np.int64],
    may: NDArray[np.bool_],
    from_kind: NDArray[np.int64],
    to_kind: NDArray[np.int64],
) -> tuple[NDArray[np.int64], int] | None:
    """The same rounded to whole parts, so that not all round up at the same place.

    Everyone deals to the kinds that follow its own, in turn, and begins where the one of its kind
    before it has left off in a round of them all: where all are alike, what comes out is even.
    """
    kinds, of = np.unique(np.concatenate([from_kind, to_kind]), return_inverse=True)
    mine, theirs = of[: len(into)], of[len(into) :]
    order = np.argsort(theirs, kind="stable")
    sorted_kind = theirs[order]
    # Column places turned so that the kind after one's own is the first.
    turn = np.searchsorted(sorted_kind, mine, side="right")
    column = order[(turn[:, None] + np.arange(len(out))) % len(out)]
    weight = np.take_along_axis(np.where(may, out, 0), column, axis=1)
    until = np.cumsum(weight, axis=1)
    total = until[:, -1]
    if not total.all():
        return None
    begin = before(mine, into)
    whole = np.bincount(mine, into, len(kinds)).astype(np.int64)[mine]
    if int(into.max()) * int(total.max()) * int(whole.max()) >= 2**61:
        return None
    line = (into * whole)[:, None] * np.pad(until, [(1, 0), (0, 0)][::-1])
    line = (line + (begin * total)[:, None]) // (total * whole)[:, None]
    amount = np.zeros(may.shape, dtype=np.int64)
    np.put_along_axis(amount, column, np.diff(line, axis=1), axis=1)
    return amount, 1
