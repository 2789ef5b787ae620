"""Reference: what MPI's own collective makes of the same data, each group by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, final

import numpy as np

from ocs_codesign.collective import CUSTOM
from ocs_codesign.demand import SUM
from ocs_codesign.execute.layout import piece_elements
from ocs_codesign.runs import places, starts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.demand import Demand
    from ocs_codesign.execute.layout import Place
    from ocs_codesign.rank_program import RankProgram


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What a rank tells MPI's own collective.

    ``group`` (-1 for none) and ``place`` are the group that the rank is in and its number there,
    ``root`` that of the root. ``sends`` and ``receives`` (int64) are the elements for and from each
    rank of the group; of an allgather and of sums both are the parts of all. A demand without a
    name is exchanged over all ranks: the elements ``take`` of the input are what is sent, and what
    is received is added to the elements ``put`` of the output.
    """

    collective: str
    group: int
    place: int
    root: int = 0
    sends: NDArray[np.int64] = field(default_factory=_nothing)
    receives: NDArray[np.int64] = field(default_factory=_nothing)
    take: NDArray[np.int64] = field(default_factory=_nothing)
    put: NDArray[np.int64] = field(default_factory=_nothing)

    @property
    def is_root(self) -> bool:
        """Whether the rank is the root of its group."""
        return self.place == self.root

    @property
    def is_even(self) -> bool:
        """Whether what the rank sends to each, and receives from each, is equally much."""
        parts = (self.sends, self.receives)
        return all(len(part) == 0 or int(part.min()) == int(part.max()) for part in parts)


def reference_of(
    program: RankProgram, rank: int, sizes: NDArray[np.int64], given: Place, wanted: Place
) -> Reference:
    """What a rank must tell MPI, given the elements of every chunk and where its data are."""
    collective, demand = program.collective, program.demands[0]
    name, units = collective.name, program.chunks_per_unit
    elements = piece_elements(demand, units, sizes)
    if name == CUSTOM:
        return _exchange(demand, units, rank, sizes, elements, given, wanted)
    groups = collective.ranks(program.num_ranks)
    number = next((at for at, group in enumerate(groups) if rank in group), -1)
    if number < 0:
        return Reference(name, -1, 0)
    group = np.array(groups[number])
    root = demand.root[demand.item_of_piece()]
    if name in ("alltoall", "scatter", "gather"):
        target = demand.member[demand.group_start[demand.group]]
        sends = _per_rank(target[root == rank], elements[root == rank], group)
        receives = _per_rank(root[target == rank], elements[target == rank], group)
    else:
        sends = receives = _per_rank(root, elements, group)
    place = groups[number].index(rank)
    return Reference(name, number, place, collective.root or 0, sends, receives)


def _per_rank(
    rank: NDArray[Any], elements: NDArray[np.int64], group: NDArray[Any]
) -> NDArray[np.int64]:
    """Elements added up for each rank of a group, in its order."""
    total = np.zeros(int(max(group.max(), rank.max(initial=0))) + 1, dtype=np.int64)
    np.add.at(total, rank, elements)
    of_group: NDArray[np.int64] = total[group]
    return of_group


def _exchange(
    demand: Demand,
    units: int,
    rank: int,
    sizes: NDArray[np.int64],
    elements: NDArray[np.int64],
    given: Place,
    wanted: Place,
) -> Reference:
    """Of a demand without a name: every piece from where it is to where it is wanted or added."""
    first = demand.group_start[demand.group]
    piece, at = places(first, demand.group_start[demand.group + 1] - first)
    item = demand.item_of_piece()[piece]
    ends = demand.root[item], demand.member[at]
    summed = demand.kind[item] == SUM
    source, target = np.where(summed, ends[::-1], ends)
    parts = []
    for mine, other, place in ((source, target, given), (target, source, wanted)):
        rows = np.flatnonzero(mine == rank)
        rows = rows[np.lexsort((piece[rows], other[rows]))]
        start = _starts(demand, units, sizes, place)[piece[rows]]
        count = _per_rank(other[rows], elements[piece[rows]], np.arange(demand.num_hosts))
        parts.append((count, places(start, elements[piece[rows]])[1]))
    (sends, take), (receives, put) = parts
    return Reference(CUSTOM, 0, rank, 0, sends, receives, take, put)


def _starts(
    demand: Demand, units: int, sizes: NDArray[np.int64], place: Place
) -> NDArray[np.int64]:
    """Elements before every piece in a buffer, 0 for pieces that are not in it."""
    piece = np.searchsorted(demand.first_units() * units, place.chunk, side="right") - 1
    start = np.zeros(demand.num_pieces, dtype=np.int64)
    start[piece[::-1]] = starts_of(sizes[place.chunk])[:-1][::-1]  # the first chunk is the last
    return start


def _allgather(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Allgather(given, result)
    else:
        on.Allgatherv(given, [result, told.receives])


def _reduce_scatter(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Reduce_scatter_block(given, result)
    else:
        on.Reduce_scatter(given, result, told.sends)


def _allreduce(on: Any, _: Reference, given: NDArray[Any], result: NDArray[Any], __: bool) -> None:
    on.Allreduce(given, result)


def _alltoall(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Alltoall(given, result)
    else:
        on.Alltoallv([given, told.sends], [result, told.receives])


def _broadcast(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool
) -> None:
    if told.is_root:
        result[:] = given
    on.Bcast(result, told.root)


def _reduce(on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool) -> None:
    on.Reduce(given, result if told.is_root else None, root=told.root)


def _scatter(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Scatter(given if told.is_root else None, result, told.root)
    else:
        on.Scatterv([given, told.sends] if told.is_root else None, result, told.root)


def _gather(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], even: bool
) -> None:
    if even:
        on.Gather(given, result if told.is_root else None, told.root)
    else:
        on.Gatherv(given, [result, told.receives] if told.is_root else None, told.root)


def _exchange_and_add(
    on: Any, told: Reference, given: NDArray[Any], result: NDArray[Any], _: bool
) -> None:
    received = np.empty(len(told.put), dtype=given.dtype)
    on.Alltoallv([given[told.take], told.sends], [received, told.receives])
    np.add.at(result, told.put, received)


Call: TypeAlias = "Callable[[Any, Reference, NDArray[Any], NDArray[Any], bool], None]"
"""Of a communicator: what to tell MPI, the input, the output to fill, whether parts are equal."""

CALLS: dict[str, tuple[Call, str, str]] = {
    "allgather": (_allgather, "MPI_Allgather", "MPI_Allgatherv"),
    "reduce-scatter": (_reduce_scatter, "MPI_Reduce_scatter_block", "MPI_Reduce_scatter"),
    "allreduce": (_allreduce, "MPI_Allreduce", "MPI_Allreduce"),
    "alltoall": (_alltoall, "MPI_Alltoall", "MPI_Alltoallv"),
    "broadcast": (_broadcast, "MPI_Bcast", "MPI_Bcast"),
    "reduce": (_reduce, "MPI_Reduce", "MPI_Reduce"),
    "scatter": (_scatter, "MPI_Scatter", "MPI_Scatterv"),
    "gather": (_gather, "MPI_Gather", "MPI_Gatherv"),
    CUSTOM: (_exchange_and_add, "MPI_Alltoallv and sums", "MPI_Alltoallv and sums"),
}
"""MPI's own of every collective, and its names for equal parts and for unequal ones."""
