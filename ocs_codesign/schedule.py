"""Schedule: who sends which chunks of whose shard over which link at which step, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

COLUMNS = ("root", "lo", "hi", "link", "step")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Sends of a collective on a topology: equally long int32 columns sorted by (step, link).

    At ``step`` (from 1) chunks [``lo``, ``hi``) of ``root``'s shard cross ``link``; a shard has
    ``num_chunks`` equal chunks. ``root`` is the shard's owner: its source in an allgather, the node
    that ends with its sum in a reduce-scatter. An allreduce has a sixth column ``phase``: 0 for a
    send of its reduce-scatter, 1 for one of its allgather. In an all-to-all ``root`` is the source
    and its shard is N pieces of M/N, piece v for node v: chunk c belongs to node
    c // chunks_per_unit, so ``num_chunks`` is a multiple of N. Columns are copied to read-only and
    sorted stably. Raises ValueError for values out of range or columns of unequal length; whether
    the sends achieve the collective is for ``verification.schedules.verify`` to say.

    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [1, 0], [0, 0], [1, 1], [1, 0], [1, 1])
    >>> swap.root.tolist(), swap.num_steps, swap.reversed().collective.value
    ([0, 1], 1, 'reduce-scatter')
    """

    topology: Topology
    collective: Collective
    num_chunks: int
    root: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    link: NDArray[np.int32]
    step: NDArray[np.int32]
    phase: NDArray[np.int32] | None = None

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        num_chunks: int,
        root: ArrayLike,
        lo: ArrayLike,
        hi: ArrayLike,
        link: ArrayLike,
        step: ArrayLike,
        phase: ArrayLike | None = None,
    ) -> None:
        if not isinstance(num_chunks, int | np.integer) or not 1 <= num_chunks < 2**31:
            raise ValueError(
                f"num_chunks is {num_chunks}: it must be an integer from 1 to 2^31 - 1"
            )
        if (phase is not None) != (collective is Collective.ALLREDUCE):
            raise ValueError("an allreduce, and only an allreduce, has a phase for every send")
        if collective is Collective.ALLTOALL and num_chunks % topology.num_nodes:
            raise ValueError(
                f"num_chunks is {num_chunks}: in an all-to-all it must be a multiple of the "
                f"{topology.num_nodes} nodes, as every shard has a piece for each"
            )
        for name, value in (
            ("topology", topology),
            ("collective", collective),
            ("num_chunks", int(num_chunks)),
        ):
            object.__setattr__(self, name, value)
        columns = [_column(v, n) for n, v in zip(COLUMNS, (root, lo, hi, link, step), strict=True)]
        if phase is not None:
            columns.append(_column(phase, "phase"))
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of a schedule must be equally long")
        _check_ranges(topology, self.num_chunks, columns)
        columns = _sorted_by_step_and_link(columns)
        for name, column in zip((*COLUMNS, "phase"), columns, strict=False):
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        if phase is None:
            object.__setattr__(self, "phase", None)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and self.collective is other.collective
            and self.num_chunks == other.num_chunks
            and self.topology == other.topology
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(self.columns(), other.columns(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Schedule({self.collective.value}, {self.num_sends} sends in {self.num_steps} steps, "
            f"{self.num_chunks} chunks a shard, {self.topology!r})"
        )

    @property
    def num_sends(self) -> int:
        """Number of sends (rows)."""
        return len(self.root)

    @property
    def num_steps(self) -> int:
        """The last step in use, 0 for an empty schedule."""
        return int(self.step[-1]) if self.num_sends else 0

    @property
    def chunks_per_unit(self) -> int:
        """Chunks that make M/N bytes, the unit of loads: a shard's, in an all-to-all a piece's."""
        if self.collective is Collective.ALLTOALL:
            return self.num_chunks // self.topology.num_nodes
        return self.num_chunks

    def columns(self) -> list[NDArray[np.int32]]:
        """The columns in the order root, lo, hi, link, step and, for an allreduce, phase."""
        columns = [self.root, self.lo, self.hi, self.link, self.step]
        return columns if self.phase is None else [*columns, self.phase]

    def max_loads(self) -> tuple[Fraction, ...]:
        """Largest link load of every step, in shards (all-to-all: pieces) a unit of link speed."""
        busiest: list[Fraction] = []
        unit = self.chunks_per_unit
        start = np.searchsorted(self.step, np.arange(1, self.num_steps + 2))
        speeds = self.topology.speeds()
        # Links of one speed compare by load alone: one exact maximum a speed, then fractions.
        classes = [(int(speed), np.flatnonzero(speeds == speed)) for speed in np.unique(speeds)]
        for first, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
            load = np.bincount(
                self.link[first:last],
                weights=self.hi[first:last] - self.lo[first:last],
                minlength=self.topology.num_links,
            ).astype(np.int64)
            busiest.append(
                max(Fraction(int(load[links].max()), unit * speed) for speed, links in classes)
            )
        return tuple(busiest)

    def reversed(self) -> Schedule:
        """The schedule with time and links reversed: allgather and reduce-scatter change places.

        It runs on the transpose, whose link ids are the same; reversing twice gives the original.
        In an all-to-all, roots and destinations change places: what root r sends to node v becomes
        what v sends to r. A send for several nodes is split into one for each.
        """
        turns = self.num_steps + 1
        start = np.searchsorted(self.step, np.arange(1, turns + 1))
        # Steps are contiguous and sorted by link, so reversing the blocks keeps the order.
        order = np.concatenate(
            [np.arange(start[i], start[i + 1]) for i in range(turns - 2, -1, -1)] or [np.arange(0)]
        )
        columns = [column[order] for column in self.columns()]
        if self.collective is Collective.ALLTOALL:
            columns = _mirrored_pieces(columns, self.chunks_per_unit)
        root, lo, hi, link, step, *phase = columns
        return Schedule(
            self.topology.transpose(),
            self.collective.mirrored,
            self.num_chunks,
            root,
            lo,
            hi,
            link,
            turns - step,
            1 - phase[0] if phase else None,
        )

    def then(self, allgather: Schedule) -> Schedule:
        """The allreduce that runs this reduce-scatter and then the allgather, steps counted on."""
        if (self.collective, allgather.collective) != (
            Collective.REDUCE_SCATTER,
            Collective.ALLGATHER,
        ):
            raise ValueError(
                "an allreduce is a reduce-scatter and then an allgather, "
                f"not {self.collective.value} and then {allgather.collective.value}"
            )
        if self.topology != allgather.topology:
            raise ValueError("both halves of an allreduce must run on the same topology")
        chunks = int(np.lcm(self.num_chunks, allgather.num_chunks))
        first, second = self.with_chunks(chunks), allgather.with_chunks(chunks)
        pairs = zip(first.columns(), second.columns(), strict=True)
        root, lo, hi, link, step = (np.concatenate(pair) for pair in pairs)
        step[self.num_sends :] += self.num_steps
        phase = np.repeat(np.array([0, 1], dtype=np.int32), [first.num_sends, second.num_sends])
        return Schedule(
            self.topology, Collective.ALLREDUCE, chunks, root, lo, hi, link, step, phase
        )

    def with_chunks(self, num_chunks: int) -> Schedule:
        """The same sends with shards cut into ``num_chunks``, a multiple of the present number."""
        factor, rest = divmod(num_chunks, self.num_chunks)
        if rest or factor < 1:
            raise ValueError(f"{num_chunks} is not a multiple of {self.num_chunks} chunks")
        if factor == 1:
            return self
        lo, hi = self.lo.astype(np.int64) * factor, self.hi.astype(np.int64) * factor
        return Schedule(
            self.topology,
            self.collective,
            num_chunks,
            self.root,
            lo,
            hi,
            self.link,
            self.step,
            self.phase,
        )

    def on_links_of(self, topology: Topology) -> Schedule:
        """The same sends on a topology with the same nodes and multiset of links, renumbered.

        Parallel links of one speed are matched in order. Raises ValueError if the links differ.
        """
        mine, theirs = _link_order(self.topology), _link_order(topology)
        same = self.topology.num_nodes == topology.num_nodes and all(
            np.array_equal(getattr(self.topology, end)[mine], getattr(topology, end)[theirs])
            for end in ("tail", "head")
        )
        if not (same and np.array_equal(self.topology.speeds()[mine], topology.speeds()[theirs])):
            raise ValueError("the two topologies do not have the same links")
        new_of_old = np.empty(topology.num_links, dtype=np.int32)
        new_of_old[mine] = theirs
        return Schedule(
            topology,
            self.collective,
            self.num_chunks,
            self.root,
            self.lo,
            self.hi,
            new_of_old[self.link],
            self.step,
            self.phase,
        )


def _column(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"column {name} must be a one-dimensional array of integers")
    if array.size and not (array.min() >= 0 and array.max() < 2**31):
        raise ValueError(f"column {name} must hold integers from 0 to 2^31 - 1")
    return array.astype(np.int32)


def _check_ranges(topology: Topology, num_chunks: int, columns: list[NDArray[Any]]) -> None:
    root, lo, hi, link, step, *phase = columns
    rules = [
        (root >= topology.num_nodes, "root", root, f"nodes are 0 to {topology.num_nodes - 1}"),
        (hi > num_chunks, "hi", hi, f"a shard has {num_chunks} chunks"),
        (lo >= hi, "lo", lo, "lo must be below hi"),
        (link >= topology.num_links, "link", link, f"links are 0 to {topology.num_links - 1}"),
        (step < 1, "step", step, "steps count from 1"),
        (step > MAX_STEPS, "step", step, f"a schedule has at most {MAX_STEPS} steps"),
    ]
    if phase:
        rules.append((phase[0] > 1, "phase", phase[0], "phases are 0 and 1"))
    for broken, name, column, rule in rules:
        if broken.any():
            row = int(np.argmax(broken))
            raise ValueError(f"send {row}: {name} is {int(column[row])}, but {rule}")


def _mirrored_pieces(columns: list[NDArray[Any]], chunks: int) -> list[NDArray[Any]]:
    """All-to-all columns cut at pieces of so many chunks, roots and destinations swapped."""
    first, last = columns[1] // chunks, (columns[2] - 1) // chunks
    count = (last - first + 1).astype(np.int64)
    row = np.repeat(np.arange(len(count)), count)
    piece = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    root, lo, hi, link, step = (column[row].astype(np.int64) for column in columns)
    lo = np.maximum(lo - piece * chunks, 0) + root * chunks
    hi = np.minimum(hi - piece * chunks, chunks) + root * chunks
    return [piece, lo, hi, link, step]


def _sorted_by_step_and_link(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    link, step = columns[3], columns[4]
    ahead = step[1:] > step[:-1]
    ahead |= (step[1:] == step[:-1]) & (link[1:] >= link[:-1])
    if ahead.all():
        return columns
    order = np.lexsort((link, step))
    return [column[order] for column in columns]


def _link_order(topology: Topology) -> NDArray[np.int64]:
    return np.lexsort((topology.speeds(), topology.head, topology.tail))
