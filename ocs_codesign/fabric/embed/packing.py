"""Blocks into switches: a vector bin packing of ports on side A and side B, exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.integers import least_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIME_LIMIT_S = 30.0


def pack(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bin of every item (items x 2 sizes, bins x 2 rooms): first fit, else an integer program.

    Raises InfeasibleError: BLOCK if an item is larger than every bin, PORTS if all together are,
    PACKING if the program proves that no packing exists, NOT_FOUND if its time is over.
    """
    _check_sums(sizes, rooms)
    bins = _first_fit(sizes, rooms)
    if bins is None:
        bins = _by_program(sizes, rooms)
    return bins


def _check_sums(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> None:
    fits = np.array([bool((size <= rooms).all(axis=1).any()) for size in sizes], dtype=bool)
    if not fits.all():
        tails, heads = (int(size) for size in sizes[~fits][sizes[~fits].sum(axis=1).argmax()])
        largest = int(rooms.max(initial=0))
        if rooms[:, 1].any():
            sentence = f"a block has {tails} ports on side A and {heads} on side B, but the largest"
            sentence += f" switch has {largest} usable ports a side"
        else:
            sentence = f"a block has {tails} ports, but the largest switch has {largest} usable"
        raise InfeasibleError(Reason.BLOCK, sentence)
    for side, name in enumerate("AB"):
        needed, there = int(sizes[:, side].sum()), int(rooms[:, side].sum())
        if needed > there:
            raise InfeasibleError(
                Reason.PORTS, f"{needed} ports on side {name} are needed, but {there} are usable"
            )


def _first_fit(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Largest items first, each into the bin with least room in which it fits."""
    left = rooms.copy()
    bins = np.empty(len(sizes), dtype=np.int64)
    for item in np.lexsort((-sizes.min(axis=1), -sizes.max(axis=1))):
        fits = np.flatnonzero((left >= sizes[item]).all(axis=1))
        if not len(fits):
            return None
        chosen = fits[left[fits].sum(axis=1).argmin()]
        bins[item] = chosen
        left[chosen] -= sizes[item]
    return bins


def _by_program(sizes: NDArray[np.int64], rooms: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many items of each size go into each bin, as an integer program."""
    kinds, kind_of, count = np.unique(sizes, axis=0, return_inverse=True, return_counts=True)
    kind, at = np.indices((len(kinds), len(rooms))).reshape(2, -1)
    column = np.arange(len(kind))
    at_a = len(kinds) + at
    free = np.full(len(rooms), -np.inf)
    found = least_integers(
        [
            (kind, column, 1.0),
            (at_a, column, kinds[kind, 0]),
            (at_a + len(rooms), column, kinds[kind, 1]),
        ],
        [(count, count), (free, rooms[:, 0]), (free, rooms[:, 1])],
        count[kind],
        doing="packing blocks",
        time_limit_s=TIME_LIMIT_S,
    )
    if found is None:
        raise InfeasibleError(
            Reason.PACKING,
            f"{len(sizes)} blocks, the largest of {sizes.max()} ports a side, fit into no choice "
            f"of {len(rooms)} switches, though all together have ports enough (integer program)",
        )
    bins = np.empty(len(sizes), dtype=np.int64)
    for number, into in enumerate(found[0].reshape(len(kinds), len(rooms))):
        bins[kind_of.ravel() == number] = np.repeat(np.arange(len(rooms)), into)
    return bins
