"""Collectives of JAX over schedules, for use inside ``shard_map``: steps are permutations.

A step is as many ``ppermute`` as its busiest rank has messages; where all steps had too many, they
are loops over those that they have in common. Shapes are static, so that the page is chosen by
bytes when a function is traced, and every size has a program of its own.
"""

from __future__ import annotations

import logging
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.runtimes.shelf import shelves_of
from ocs_codesign.interop.runtimes.tables import UNROLLED_ROUNDS, tables_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.interop.runtimes.shelf import Shelf
    from ocs_codesign.interop.runtimes.traffic import RankMessages

    Groups = Sequence[Sequence[int]] | None
    Sizes = Sequence[int] | None
    SizesOfPairs = Sequence[Sequence[int]] | None

_LOG = logging.getLogger("ocs_codesign")


class AxisRanks(NamedTuple):
    """The ranks of calls: places on an axis, or a tuple of axes, or in each of ``groups`` of it."""

    axis: Any
    groups: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(cls, axis: Any, groups: Sequence[Sequence[int]] | None) -> AxisRanks:
        """Those of an axis; ValueError for groups that are no parts of one size of all of it."""
        if groups is None:
            return cls(axis)
        found = tuple(tuple(map(int, group)) for group in groups)
        size = cls(axis).size
        if sorted(sum(found, ())) != list(range(size)) or len(set(map(len, found))) != 1:
            raise ValueError(
                f"axis_index_groups of axis {axis!r} are of one size and have each of its {size} "
                "places once"
            )
        return cls(axis, found)

    @property
    def size(self) -> int:
        """How many ranks call together."""
        import jax

        if self.groups is not None:
            return len(self.groups[0])
        names = self.axis if isinstance(self.axis, tuple) else (self.axis,)
        return prod(jax.lax.axis_size(name) for name in names)

    def mine(self) -> Any:
        """The place of a device in its group."""
        import jax
        import jax.numpy as jnp

        place = jax.lax.axis_index(self.axis)
        return place if self.groups is None else jnp.asarray(_ranks_in(self.groups))[place]

    def pairs(self, pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        """Pairs of ranks as pairs of places on the axis, of all groups."""
        if self.groups is None:
            return pairs
        return tuple((group[one], group[other]) for group in self.groups for one, other in pairs)

    @property
    def of_lax(self) -> dict[str, Any]:
        """The same for JAX's own collectives."""
        return {"axis_name": self.axis, "axis_index_groups": self.groups}


def _ranks_in(groups: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Of every place on an axis that in its group."""
    found = np.argsort(np.concatenate(groups)) % len(groups[0])
    return np.asarray(found, dtype=np.int32)


def performed(
    traffic: RankMessages, given: Any, ranks: AxisRanks, sizes: NDArray[np.int64], slots: Any = None
) -> Any:
    """The flat output of a rank, whose flat input is ``given``; ``sizes`` are those of chunks.

    Ranks that are given less, or want less, than others have padding behind. ``slots`` are the
    rows of the rank in all tables, else taken from constants.
    """
    import jax
    import jax.numpy as jnp

    none, width = traffic.most_slots, max(int(sizes.max(initial=0)), 1)
    mine = ranks.mine()
    first, last = (_Rows.of(traffic, each, sizes) for each in (traffic.given, traffic.wanted))
    zero = (0 * mine).astype(given.dtype)  # what a loop begins with differs by device, as its end
    buffer = jnp.broadcast_to(zero, (none + 1, width))
    rows = first.cut(given, mine, width)
    buffer = buffer.at[_own(first.slot, mine)].set(rows, mode="drop")
    steps = tables_of(traffic, UNROLLED_ROUNDS)
    if slots is None:
        slots = jax.tree.map(lambda table: _own(table, mine), [each[1:] for each in steps])
    for tables, own in zip(steps, slots, strict=True):
        step = partial(_stepped, [ranks.pairs(each) for each in tables.pairs], ranks.axis)
        if tables.num_steps > 1:
            buffer, _ = jax.lax.scan(step, buffer, own)
        else:
            buffer, _ = step(buffer, jax.tree.map(lambda table: table[0], own))
    return last.joined(buffer[_own(last.slot, mine)], mine)


def _own(table: NDArray[Any], mine: Any) -> Any:
    """A rank's row of a table, in which all may be alike."""
    import jax.numpy as jnp

    return jnp.asarray(table[0]) if (table == table[0]).all() else jnp.asarray(table)[mine]


def _stepped(pairs: Any, axis: Any, buffer: Any, slots: Any) -> tuple[Any, None]:
    """The buffer of a rank after a step, given its rows of ``StepTables``; as a scan wants it."""
    import jax
    import jax.numpy as jnp

    sources, order, adds, copies = slots
    longest, came = max(map(len, sources)), []
    for permutation, source in zip(pairs, sources, strict=True):
        sent = jax.lax.ppermute(buffer[source], axis, permutation)
        came.append(jnp.pad(sent, ((0, longest - len(source)), (0, 0))))
    stack = jnp.stack(came)
    for place in range(len(order)):
        message = stack[order[place]]
        if adds is not None:
            buffer = buffer.at[adds[place]].add(message, mode="drop")
        if copies is not None:
            buffer = buffer.at[copies[place]].set(message, mode="drop")
    return buffer, None


class _Rows(NamedTuple):
    """Of every rank the slots of what it has, or wants, with first elements and sizes, int32.

    A rank with fewer chunks than others has empty ones behind, in no slot. ``total`` is the longest
    of all inputs, or outputs.
    """

    slot: NDArray[np.int32]
    start: NDArray[np.int32]
    size: NDArray[np.int32]
    total: int

    @classmethod
    def of(cls, traffic: RankMessages, chunks_of: Any, sizes: NDArray[np.int64]) -> _Rows:
        chunks = [chunks_of(rank) for rank in range(traffic.num_ranks)]
        shape = (len(chunks), max(map(len, chunks)))
        slot = np.full(shape, traffic.most_slots + 1, dtype=np.int32)
        start, size = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        for rank, each in enumerate(chunks):
            slot[rank, : len(each)] = np.searchsorted(traffic.slots_of(rank), each)
            start[rank, : len(each)] = starts_of(sizes[each])[:-1]
            size[rank, : len(each)] = sizes[each]
        return cls(slot, start, size, int(size.sum(1).max(initial=0)))

    @classmethod
    def dense(cls, sizes: NDArray[np.int64]) -> _Rows:
        """Rows of so many elements by rank and row, whatever their slots."""
        start = (np.cumsum(sizes, axis=1) - sizes).astype(np.int32)
        return cls(0 * start, start, sizes.astype(np.int32), int(sizes.sum(1).max()))

    def _places(self, mine: Any, width: int) -> tuple[Any, Any]:
        """The elements of rows in what is flat, and which of them count."""
        import jax.numpy as jnp

        place = jnp.arange(width, dtype=jnp.int32)
        start, size = (_own(each, mine)[:, None] for each in (self.start, self.size))
        return start + place, place < size

    def cut(self, flat: Any, mine: Any, width: int) -> Any:
        """A row for every chunk; what is behind a shorter one does not count."""
        import jax.numpy as jnp

        if (self.size == width).all():
            return flat.reshape(self.slot.shape[1], width)
        return jnp.pad(flat, (0, width))[self._places(mine, width)[0]]

    def joined(self, rows: Any, mine: Any) -> Any:
        """The chunks of rows behind each other."""
        import jax.numpy as jnp

        if (self.size == rows.shape[1]).all():
            return rows.reshape(-1)
        place, counts = self._places(mine, rows.shape[1])
        where = jnp.where(counts, place, self.total)
        return jnp.zeros(self.total, rows.dtype).at[where].set(rows, mode="drop")


@final
class JaxCollectives:
    """Collectives by schedules: those of ``jax.lax``, broadcast and reduce.

    Arguments and results are those of ``jax.lax`` with ``tiled=True`` over axis 0. With
    ``axis_index_groups`` every group calls by itself, by the plan of as many ranks. ``sizes`` are
    the rows of every rank's part where they differ, of an all-to-all those of each rank for each:
    arrays have as many as the largest, those that do not count behind. What has no page is done by
    JAX's own, and counted so.
    """

    def __init__(self, shelves: dict[int, Shelf], tables: Any = None) -> None:
        self._shelves, self._tables = shelves, tables
        self.counts: dict[tuple[str, str], int] = {}

    def tables(self, places: int, axis_index_groups: Groups = None) -> Any:
        """Which slots ranks read and write in every plan, by place on an axis of so many.

        A function that is given them for ``by``, sharded by the axis, is a shorter program than
        one that has those of all ranks as constants.
        """
        import jax

        groups = [range(places)] if axis_index_groups is None else axis_index_groups
        ranks = _ranks_in(groups)
        pages = sum(self._shelf("tables are for", len(groups[0])).pages.values(), ())
        return {
            page.traffic.digest(): jax.tree.map(
                lambda table: table[ranks],
                [each[1:] for each in tables_of(page.traffic, UNROLLED_ROUNDS)],
            )
            for page in pages
        }

    def by(self, tables: Any) -> JaxCollectives:
        """The same inside ``shard_map``, by a device's own part of ``tables``."""
        import jax

        if any(len(each) != 1 for each in jax.tree.leaves(tables)):
            raise ValueError("tables are sharded by the axis: in_specs has its name for them")
        given = JaxCollectives(self._shelves, jax.tree.map(lambda table: table[0], tables))
        given.counts = self.counts
        return given

    def _shelf(self, whose: str, size: int) -> Shelf:
        if size not in self._shelves:
            known = ", ".join(map(str, sorted(self._shelves)))
            raise ValueError(f"{whose} {size} devices, but the plans are of {known} ranks")
        return self._shelves[size]

    def all_gather(
        self, x: Any, axis: Any, sizes: Sizes = None, axis_index_groups: Groups = None
    ) -> Any:
        """The parts of all devices behind each other; its derivative is ``psum_scatter``."""
        ranks = AxisRanks.of(axis, axis_index_groups)
        return _differentiated(self._all_gather, self._psum_scatter, x, ranks, sizes)

    def psum_scatter(
        self, x: Any, axis: Any, sizes: Sizes = None, axis_index_groups: Groups = None
    ) -> Any:
        """A device's part of the sum; its derivative is ``all_gather``."""
        ranks = AxisRanks.of(axis, axis_index_groups)
        return _differentiated(self._psum_scatter, self._all_gather, x, ranks, sizes)

    def psum(self, x: Any, axis: Any, axis_index_groups: Groups = None) -> Any:
        """The sum of all devices; its derivative is the sum of the derivatives of all."""
        ranks = AxisRanks.of(axis, axis_index_groups)
        return _differentiated(self._psum, self._psum, x, ranks)

    def all_to_all(
        self, x: Any, axis: Any, sizes: SizesOfPairs = None, axis_index_groups: Groups = None
    ) -> Any:
        """Every device's part for every other; its derivative is that of ``sizes`` transposed."""
        ranks = AxisRanks.of(axis, axis_index_groups)
        if sizes is None:
            return _differentiated(self._all_to_all, self._all_to_all, x, ranks)
        table = np.asarray(sizes)
        if table.shape != (ranks.size,) * 2 or table.dtype.kind not in "iu" or (table < 0).any():
            raise ValueError(
                "sizes are a table of rows, 0 or more, that each of "
                f"{ranks.size} devices has for each of them"
            )
        there, back = (partial(self._uneven_all_to_all, each) for each in (table, table.T))
        return _differentiated(there, back, x, ranks)

    def broadcast(self, x: Any, axis: Any, root: int = 0, axis_index_groups: Groups = None) -> Any:
        """What the root has, on all devices; its derivative is ``reduce``."""
        ranks = _rooted(axis, axis_index_groups, root)
        return _differentiated(self._broadcast, self._reduce, x, ranks, root)

    def reduce(self, x: Any, axis: Any, root: int = 0, axis_index_groups: Groups = None) -> Any:
        """The sum of all devices on the root, zeros elsewhere; its derivative is ``broadcast``."""
        ranks = _rooted(axis, axis_index_groups, root)
        return _differentiated(self._reduce, self._broadcast, x, ranks, root)

    def _done(
        self,
        name: str,
        ranks: AxisRanks,
        x: Any,
        message_bytes: int,
        elements: int | list[int],
        root: int | None = None,
    ) -> Any:
        """The flat output by a schedule, None if there is no page; elements as of ``sizes``."""
        whose = f"axis {ranks.axis!r} has" if ranks.groups is None else "groups have"
        shelf = self._shelf(whose, ranks.size)
        page = shelf.page(name, message_bytes, root) if x.size else None
        key = (name, "no page" if page is None else "schedule")
        if page is None and key not in self.counts:
            _LOG.warning("%s of %d devices by jax.lax: no page", name, ranks.size)
        self.counts[key] = self.counts.get(key, 0) + 1
        if page is None:
            return None
        traffic = page.traffic
        slots = None if self._tables is None else self._tables.get(traffic.digest())
        return performed(traffic, x.reshape(-1), ranks, traffic.sizes(elements), slots)

    def _all_gather(self, ranks: AxisRanks, sizes: Sizes, x: Any) -> Any:
        import jax
        import jax.numpy as jnp

        rows = _rows(sizes, ranks, x.shape[0])
        if x.shape[0] != max(rows):
            raise ValueError(f"sizes are at most {max(rows)}, but axis 0 has {x.shape[0]} rows")
        row = prod(x.shape[1:])
        message_bytes = sum(rows) * row * x.dtype.itemsize
        flat = self._done("allgather", ranks, x, message_bytes, [each * row for each in rows])
        if flat is not None:
            return flat.reshape(sum(rows), *x.shape[1:])
        if sizes is None:
            return jax.lax.all_gather(x, **ranks.of_lax, tiled=True)
        parts = jax.lax.all_gather(x, **ranks.of_lax)
        return jnp.concatenate([part[:each] for part, each in zip(parts, rows, strict=True)])

    def _psum_scatter(self, ranks: AxisRanks, sizes: Sizes, x: Any) -> Any:
        import jax
        import jax.numpy as jnp

        if sizes is None:
            _check_divides(x, ranks.size)
        rows = _rows(sizes, ranks, x.shape[0] // ranks.size)
        row, most = prod(x.shape[1:]), max(rows)
        if x.shape[0] != sum(rows):
            raise ValueError(f"sizes have {sum(rows)} rows, but axis 0 has {x.shape[0]}")
        flat = self._done("reduce-scatter", ranks, x, x.nbytes, [each * row for each in rows])
        if flat is not None:
            return flat.reshape(most, *x.shape[1:])
        if sizes is not None:
            rest = [(0, 0)] * (x.ndim - 1)
            parts = jnp.split(x, np.cumsum(rows)[:-1].tolist())
            x = jnp.concatenate([jnp.pad(each, [(0, most - len(each)), *rest]) for each in parts])
        return jax.lax.psum_scatter(x, **ranks.of_lax, tiled=True)

    def _psum(self, ranks: AxisRanks, x: Any) -> Any:
        import jax

        flat = self._done("allreduce", ranks, x, x.nbytes, x.size)
        return jax.lax.psum(x, **ranks.of_lax) if flat is None else flat.reshape(x.shape)

    def _all_to_all(self, ranks: AxisRanks, x: Any) -> Any:
        import jax

        _check_divides(x, ranks.size)
        flat = self._done("alltoall", ranks, x, x.nbytes, x.size // ranks.size)
        if flat is not None:
            return flat.reshape(x.shape)
        return jax.lax.all_to_all(x, **ranks.of_lax, split_axis=0, concat_axis=0, tiled=True)

    def _uneven_all_to_all(self, table: NDArray[np.int64], ranks: AxisRanks, x: Any) -> Any:
        import jax

        row, most = prod(x.shape[1:]), int(table.sum(0).max())
        if x.shape[0] != table.sum(1).max():
            raise ValueError(
                f"a device has at most {table.sum(1).max()} rows, but axis 0 has {x.shape[0]}"
            )
        flat = self._done("alltoall", ranks, x, x.nbytes, (table * row).ravel().tolist())
        if flat is None:  # as many as the largest part for each
            mine, width = ranks.mine(), max(int(table.max()) * row, 1)
            sent, got = (_Rows.dense(each * row) for each in (table, table.T))
            parts = sent.cut(x.reshape(-1), mine, width)
            parts = jax.lax.all_to_all(parts, **ranks.of_lax, split_axis=0, concat_axis=0)
            flat = got.joined(parts, mine)
        return flat.reshape(most, *x.shape[1:])

    def _broadcast(self, ranks: AxisRanks, root: int, x: Any) -> Any:
        import jax

        flat = self._done("broadcast", ranks, x, x.nbytes, x.size, root)
        if flat is None:
            return jax.lax.all_gather(x, **ranks.of_lax)[root]
        return flat.reshape(x.shape)

    def _reduce(self, ranks: AxisRanks, root: int, x: Any) -> Any:
        import jax
        import jax.numpy as jnp

        flat = self._done("reduce", ranks, x, x.nbytes, x.size, root)
        if flat is not None:
            return flat.reshape(x.shape)
        total = jax.lax.psum(x, **ranks.of_lax)
        return jnp.where(ranks.mine() == root, total, jnp.zeros_like(total))


def _differentiated(forward: Any, backward: Any, x: Any, *given: Any) -> Any:
    """Derivatives by schedules of their own: those of JAX would go over reversed links."""
    import jax

    call = jax.custom_vjp(partial(forward, *given))
    call.defvjp(lambda x: (call(x), None), lambda _, told: (backward(*given, told),))
    return call(x)


def _rooted(axis: Any, groups: Groups, root: int) -> AxisRanks:
    ranks = AxisRanks.of(axis, groups)
    if not 0 <= root < ranks.size:
        raise ValueError(f"root is {root}: the ranks are 0 to {ranks.size - 1}")
    return ranks


def _rows(sizes: Sizes, ranks: AxisRanks, most: int) -> list[int]:
    """The rows of every rank's part."""
    if sizes is None:
        return [most] * ranks.size
    rows = [int(each) for each in sizes]
    if len(rows) != ranks.size or min(rows) < 0:
        raise ValueError(f"sizes are a number of rows, 0 or more, for each of {ranks.size} devices")
    return rows


def _check_divides(x: Any, size: int) -> None:
    if x.ndim == 0 or x.shape[0] % size:
        raise ValueError(f"axis 0 of shape {x.shape} is shared by {size} devices: it must divide")


def collective(*plans: Any) -> JaxCollectives:
    """Collectives by these books, designs and plans, or the paths of saved ones.

    Raises what ``shelves_of`` raises.
    """
    return JaxCollectives(shelves_of(plans))


def mesh(topology: Topology | int, axis: str = "x", devices: Sequence[Any] | None = None) -> Any:
    """A mesh of one axis whose places are the nodes of a topology, in their order.

    Devices are taken as ``in_order`` has them. Raises ValueError for another number of devices.
    """
    import jax

    number = topology if isinstance(topology, int) else topology.num_nodes
    found = in_order(jax.devices() if devices is None else devices)
    if len(found) != number:
        raise ValueError(f"{len(found)} devices for {number} nodes: give as many with devices=")
    return jax.sharding.Mesh(np.array(found), (axis,))


def in_order(devices: Sequence[Any]) -> list[Any]:
    """Devices by their coordinates, the first running fastest, or as they are if they have none.

    The numbers of devices, and the meshes of JAX, need not follow the links of a torus.
    """
    if any(getattr(device, "coords", None) is None for device in devices):
        return list(devices)
    return sorted(devices, key=lambda each: (*reversed(each.coords), each.core_on_chip))
