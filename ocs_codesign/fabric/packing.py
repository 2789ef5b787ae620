"""Blocks into switches: a vector bin packing of ports on side A and side B, exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.lp import LinearProgram, Options, Status, solve

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
    program = _program(kinds, count, rooms)
    solution = solve(program, options=Options(time_limit_s=TIME_LIMIT_S)).taken()
    if solution.status is Status.INFEASIBLE:
        raise InfeasibleError(
            Reason.PACKING,
            f"{len(sizes)} blocks, the largest of {sizes.max()} ports a side, fit into no choice "
            f"of {len(rooms)} switches, though all together have ports enough (integer program)",
        )
    if solution.values is None or program.violation(np.rint(solution.values)) > 0:
        raise InfeasibleError(Reason.NOT_FOUND, f"packing blocks: {solution.message}")
    into = np.rint(solution.values).astype(np.int64).reshape(len(kinds), len(rooms))
    bins = np.empty(len(sizes), dtype=np.int64)
    for kind in range(len(kinds)):
        bins[kind_of.ravel() == kind] = np.repeat(np.arange(len(rooms)), into[kind])
    return bins


def _program(
    kinds: NDArray[np.int64], count: NDArray[np.int64], rooms: NDArray[np.int64]
) -> LinearProgram:
    from scipy.sparse import csr_matrix

    num_kinds, num_bins = len(kinds), len(rooms)
    kind, at = np.divmod(np.arange(num_kinds * num_bins), num_bins)
    rows = np.concatenate([kind, num_kinds + at, num_kinds + num_bins + at])
    columns = np.tile(np.arange(len(kind)), 3)
    values = np.concatenate([np.ones(len(kind)), kinds[kind, 0], kinds[kind, 1]]).astype(float)
    a = csr_matrix((values, (rows, columns)), shape=(num_kinds + 2 * num_bins, len(kind)))
    upper = np.concatenate([count, rooms[:, 0], rooms[:, 1]]).astype(float)
    lower = np.concatenate([count.astype(float), np.full(2 * num_bins, -np.inf)])
    return LinearProgram(
        np.zeros(len(kind)),
        a.indptr.astype(np.int64),
        a.indices.astype(np.int64),
        a.data,
        lower,
        upper,
        np.zeros(len(kind)),
        count[kind].astype(float),
        np.ones(len(kind), dtype=bool),
    )
