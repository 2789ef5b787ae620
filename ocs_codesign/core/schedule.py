"""Schedule: which chunks of which item cross which link at which step, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.given import TopologyLike


from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.collective import CUSTOM, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.demand import MOVE, Demand, demands_of, mirrored_demand, mirrored_pieces
from ocs_codesign.core.given import as_topology, whole
from ocs_codesign.core.shown import Tabular
from ocs_codesign.core.topology import MAX_STEPS, Topology

COLUMNS = ("item", "lo", "hi", "link", "step")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Schedule(Tabular):
    """Sends of a collective on a topology: equally long int32 columns sorted by (step, link).

    At ``step`` (from 1) chunks [``lo``, ``hi``) of ``item`` cross ``link``. What the items are is
    for the demand to say: shard i of an allgather (at host i first) or a reduce-scatter (its sum is
    for host i), all that host i sends in an all-to-all, piece after piece. The largest item has
    ``num_chunks`` chunks, a multiple of its weight; a unit of weight has ``chunks_per_unit``. An
    allreduce has a sixth column ``phase``, the half that a send is of, and two demands. The nodes
    are ``num_hosts`` hosts, all by default, and then switches. A Demand instead of a
    Collective is one that has no name. Columns are copied to read-only and sorted stably. Raises
    ValueError for values out of range or columns of unequal length; whether the sends do what is
    demanded is for ``verification.schedules.verify`` to say.

    >>> pair = Topology(2, [0, 1], [1, 0])
    >>> swap = Schedule(pair, Collective.ALLGATHER, 1, [1, 0], [0, 0], [1, 1], [1, 0], [1, 1])
    >>> swap.item.tolist(), swap.synchronous_cost(), swap.reversed().collective.name
    ([0, 1], Cost(steps=1, t_b=Fraction(1, 2)), 'reduce-scatter')
    """

    topology: Topology
    collective: Collective
    demands: tuple[Demand, ...]
    num_chunks: int
    item: NDArray[np.int32]
    lo: NDArray[np.int32]
    hi: NDArray[np.int32]
    link: NDArray[np.int32]
    step: NDArray[np.int32]
    phase: NDArray[np.int32] | None = None

    def __init__(
        self,
        topology: TopologyLike,
        collective: Collective | Demand,
        num_chunks: int,
        item: ArrayLike,
        lo: ArrayLike,
        hi: ArrayLike,
        link: ArrayLike,
        step: ArrayLike,
        phase: ArrayLike | None = None,
        *,
        num_hosts: int | None = None,
    ) -> None:
        topology = as_topology(topology)
        if isinstance(collective, Demand):
            demands: tuple[Demand, ...] = (collective,)
            collective = Collective(CUSTOM)
        else:
            hosts = topology.num_nodes if num_hosts is None else num_hosts
            demands = demands_of(collective, hosts)
        _check_demands(topology, demands, num_chunks, phase is not None)
        for name, value in (
            ("topology", topology),
            ("collective", collective),
            ("demands", demands),
            ("num_chunks", int(num_chunks)),
        ):
            object.__setattr__(self, name, value)
        columns = [_column(v, n) for n, v in zip(COLUMNS, (item, lo, hi, link, step), strict=True)]
        if phase is not None:
            columns.append(_column(phase, "phase"))
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of a schedule must be equally long")
        _check_ranges(topology, demands, self.chunks_per_unit, columns)
        columns = _sorted_by_step_and_link(columns)
        for name, column in zip((*COLUMNS, "phase"), columns, strict=False):
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        if phase is None:
            object.__setattr__(self, "phase", None)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and self.demands == other.demands
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
            f"Schedule({self.collective.name}, {self.num_sends} sends in {self.num_steps} steps, "
            f"{self.num_chunks} chunks a shard, {self.topology!r})"
        )

    @property
    def num_sends(self) -> int:
        """Number of sends (rows)."""
        return len(self.item)

    @property
    def num_steps(self) -> int:
        """The last step in use, 0 for an empty schedule."""
        return int(self.step[-1]) if self.num_sends else 0

    @property
    def num_hosts(self) -> int:
        """Number of hosts; the nodes of the topology from there on are switches."""
        return self.demands[0].num_hosts

    @property
    def root(self) -> NDArray[np.int32]:
        """The root of every send's item, shape (sends,)."""
        if self.phase is None:
            return self.demands[0].root[self.item]
        roots = [demand.root[self.item] for demand in self.demands]
        return np.choose(self.phase, roots)

    @property
    def chunks_per_unit(self) -> int:
        """Chunks of a unit of weight, in which loads are counted: in all the named collectives of
        equal sizes a shard's, in an all-to-all a piece's.
        """
        return self.num_chunks // _largest_weight(self.demands)

    def columns(self) -> list[NDArray[np.int32]]:
        """The columns in the order item, lo, hi, link, step and, for an allreduce, phase."""
        columns = [self.item, self.lo, self.hi, self.link, self.step]
        return columns if self.phase is None else [*columns, self.phase]

    def max_loads(self) -> tuple[Fraction, ...]:
        """Largest link load of every step, in units of weight a unit of link speed."""
        busiest = self._busiest(self.step)
        return tuple(load / self.chunks_per_unit for load in busiest)

    def synchronous_cost(self) -> Cost:
        """Steps and t_b when every step waits for the one before: the sum of its busiest links."""
        return Cost(self.num_steps, self.t_b(sum(self._busiest(self.step), Fraction(0))))

    def steady_state_t_b(self) -> Fraction:
        """t_b of the busiest link over all steps: what a pipeline of many such messages takes."""
        return self.t_b(sum(self._busiest(np.ones_like(self.step)), Fraction(0)))

    def _busiest(self, step: NDArray[np.int32]) -> tuple[Fraction, ...]:
        chunks = self.hi.astype(np.int64) - self.lo
        return busiest_links(step, self.link, chunks, self.topology.speeds())

    def t_b(self, chunks: Fraction, node_speed: int | None = None) -> Fraction:
        """So many chunks a unit of link speed as time in M/B; B is the largest egress of a host."""
        units = max(demand.message_units for demand in self.demands) * self.chunks_per_unit
        speed = self.topology.node_speed(self.num_hosts) if node_speed is None else node_speed
        return chunks * speed / units

    def reversed(self) -> Schedule:
        """The schedule with time and links reversed: allgather and reduce-scatter change places.

        It runs on the transpose, whose link ids are the same; reversing twice gives the original.
        What is moved goes from its destination to its root: in an all-to-all, what root r sends to
        node v becomes what v sends to r. A send for several nodes is split into one for each.
        """
        turns = self.num_steps + 1
        start = np.searchsorted(self.step, np.arange(1, turns + 1))
        # Steps are contiguous and sorted by link, so reversing the blocks keeps the order.
        order = np.concatenate(
            [np.arange(start[i], start[i + 1]) for i in range(turns - 2, -1, -1)] or [np.arange(0)]
        )
        columns = [column[order] for column in self.columns()]
        demands = tuple(mirrored_demand(demand) for demand in self.demands[::-1])
        mirrored: Collective | Demand = demands[0]
        if self.collective.name != CUSTOM:
            mirrored = self.collective.mirrored
            demands = demands_of(mirrored, self.num_hosts)
        if (demands[0].kind == MOVE).any():
            units = self.chunks_per_unit
            columns = mirrored_pieces(self.demands[0], demands[0], units, columns)
            num_chunks = units * _largest_weight(demands)
        else:
            num_chunks = self.num_chunks
        item, lo, hi, link, step, *phase = columns
        return Schedule(
            self.topology.transpose(),
            mirrored,
            num_chunks,
            item,
            lo,
            hi,
            link,
            turns - step,
            1 - phase[0] if phase else None,
            num_hosts=self.num_hosts,
        )

    def then(self, allgather: Schedule) -> Schedule:
        """The allreduce that runs this reduce-scatter and then the allgather, steps counted on."""
        halves = (self.collective, allgather.collective)
        both = replace(self.collective, name="allreduce") if halves[0].name != CUSTOM else None
        if both is None or both.halves() != halves:
            raise ValueError(
                "an allreduce is a reduce-scatter and then an allgather, "
                f"not {halves[0].name} and then {halves[1].name}"
            )
        if self.topology != allgather.topology or self.num_hosts != allgather.num_hosts:
            raise ValueError("both halves of an allreduce must run on the same topology")
        chunks = int(np.lcm(self.num_chunks, allgather.num_chunks))
        first, second = self.with_chunks(chunks), allgather.with_chunks(chunks)
        pairs = zip(first.columns(), second.columns(), strict=True)
        item, lo, hi, link, step = (np.concatenate(pair) for pair in pairs)
        step[self.num_sends :] += self.num_steps
        phase = np.repeat(np.array([0, 1], dtype=np.int32), [first.num_sends, second.num_sends])
        return Schedule(
            *(self.topology, both, chunks, item, lo, hi, link, step, phase),
            num_hosts=self.num_hosts,
        )

    def with_chunks(self, num_chunks: int) -> Schedule:
        """The same sends with items cut into ``num_chunks``, a multiple of the present number."""
        factor, rest = divmod(num_chunks, self.num_chunks)
        if rest or factor < 1:
            raise ValueError(f"{num_chunks} is not a multiple of {self.num_chunks} chunks")
        if factor == 1:
            return self
        lo, hi = self.lo.astype(np.int64) * factor, self.hi.astype(np.int64) * factor
        return self._with(self.topology, num_chunks, lo, hi, self.link)

    def on_links_of(self, topology: TopologyLike) -> Schedule:
        """The same sends on a topology with the same nodes and multiset of links, renumbered.

        Parallel links of one speed are matched in order. Raises ValueError if the links differ.
        """
        topology = as_topology(topology)
        mine, theirs = _link_order(self.topology), _link_order(topology)
        same = self.topology.num_nodes == topology.num_nodes and all(
            np.array_equal(getattr(self.topology, end)[mine], getattr(topology, end)[theirs])
            for end in ("tail", "head")
        )
        if not (same and np.array_equal(self.topology.speeds()[mine], topology.speeds()[theirs])):
            raise ValueError("the two topologies do not have the same links")
        new_of_old = np.empty(topology.num_links, dtype=np.int32)
        new_of_old[mine] = theirs
        return self._with(topology, self.num_chunks, self.lo, self.hi, new_of_old[self.link])

    def _with(
        self, topology: Topology, num_chunks: int, lo: ArrayLike, hi: ArrayLike, link: ArrayLike
    ) -> Schedule:
        """The same items and steps on a topology, in these chunks over these links."""
        demanded = self.demands[0] if self.collective.name == CUSTOM else self.collective
        return Schedule(
            *(topology, demanded, num_chunks, self.item, lo, hi, link, self.step, self.phase),
            num_hosts=self.num_hosts,
        )


def _largest_weight(demands: Sequence[Demand]) -> int:
    return max(int(demand.item_weight().max()) for demand in demands)


def _check_demands(
    topology: Topology, demands: Sequence[Demand], num_chunks: int, has_phase: bool
) -> None:
    if not isinstance(num_chunks, int | np.integer) or not 1 <= num_chunks < 2**31:
        raise ValueError(f"num_chunks is {num_chunks}: it must be an integer from 1 to 2^31 - 1")
    if has_phase != (len(demands) > 1):
        raise ValueError("an allreduce, and only an allreduce, has a phase for every send")
    if demands[0].num_hosts > topology.num_nodes:
        raise ValueError(
            f"{demands[0].num_hosts} hosts, but {topology.num_nodes} nodes: hosts are nodes"
        )
    units = _largest_weight(demands)
    if num_chunks % units:
        raise ValueError(
            f"num_chunks is {num_chunks}: it must be a multiple of the {units} units of the "
            "largest item (in an all-to-all a piece for each node)"
        )


def _column(values: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"column {name} must be a one-dimensional array of integers")
    if array.size and not (array.min() >= 0 and array.max() < 2**31):
        raise ValueError(f"column {name} must hold integers from 0 to 2^31 - 1")
    return array.astype(np.int32)


def _check_ranges(
    topology: Topology, demands: Sequence[Demand], chunks: int, columns: list[NDArray[Any]]
) -> None:
    item, lo, hi, link, step, *phase = columns
    items = demands[0].num_items
    held = demands[0].item_weight() * chunks
    known = np.minimum(item, items - 1)
    rules = [
        (item >= items, "item", item, f"items are 0 to {items - 1}"),
        (hi > held[known], "hi", hi, "item {item} has {chunks} chunks"),
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
            reason = rule.format(item=known[row], chunks=held[known[row]])
            raise ValueError(f"send {row}: {name} is {int(column[row])}, but {reason}")


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


# Messages: which ranks send which items to which others in every step, on whatever network.


SUMMING = ("reduce-scatter", "allreduce", "reduce")
_PER_RANK = ("allgather", "reduce-scatter", "scatter", "gather")
_COLUMNS = ("step", "source", "target", "item", "adds")


@final
@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """A collective of equal parts on N ranks, as one row for every item that is sent.

    At ``step`` (from 1) rank ``source`` sends ``item`` to rank ``target``, which adds it to its own
    part of the sum if ``adds`` (bool), and else keeps it as it is; all that is sent in a step is
    what was held before it. Columns are equally long, int32 but for ``adds``, and sorted by (step,
    source, target, item).

    The data is cut into ``num_items`` items of equal size. With c items a shard, item i is of the
    shard of rank i // c in an allgather, a reduce-scatter, a scatter and a gather; in an
    all-to-all of the piece p = i // c, which is what rank p // N has for rank p % N, so that a
    rank's piece for itself has numbers too. All ranks hold or want every item of an allreduce, a
    broadcast and a reduce. Raises ValueError for values out of range, columns of unequal length,
    the same send twice, and collectives with unequal sizes or several groups.

    >>> from ocs_codesign.core.collective import Collective
    >>> swap = Messages(2, Collective.ALLGATHER, 2, [1, 1], [1, 0], [0, 1], [1, 0], [False, False])
    >>> swap.source.tolist(), swap.item_size, swap.one_port_loads()
    ([0, 1], Fraction(1, 2), (Fraction(1, 1),))
    """

    num_ranks: int
    collective: Collective
    num_items: int
    step: NDArray[np.int32]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    item: NDArray[np.int32]
    adds: NDArray[np.bool_]

    def __init__(
        self,
        num_ranks: int,
        collective: Collective,
        num_items: int,
        step: ArrayLike,
        source: ArrayLike,
        target: ArrayLike,
        item: ArrayLike,
        adds: ArrayLike,
    ) -> None:
        ranks, items = whole(num_ranks, "num_ranks"), whole(num_items, "num_items")
        _check_sizes(ranks, collective, items)
        columns = [
            _integers(step, "step", 1, MAX_STEPS),
            _integers(source, "source", 0, ranks - 1),
            _integers(target, "target", 0, ranks - 1),
            _integers(item, "item", 0, items - 1),
            np.array(adds, dtype=bool),
        ]
        if len({column.shape for column in columns}) > 1:
            raise ValueError("the columns of messages must be equally long")
        columns = _in_order(columns, ranks, items)
        _check_rows(collective, columns)
        named = {"num_ranks": ranks, "collective": collective, "num_items": items}
        for column in columns:
            column.setflags(write=False)
        for name, value in {**named, **dict(zip(_COLUMNS, columns, strict=True))}.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Messages)
            and (self.num_ranks, self.num_items) == (other.num_ranks, other.num_items)
            and self.collective == other.collective
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in zip(self.columns(), other.columns(), strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Messages({self.collective.text} of {self.num_ranks} ranks, {len(self.step)} sends "
            f"in {self.num_steps} steps, {self.num_items} items)"
        )

    @property
    def num_steps(self) -> int:
        """The last step in use, 0 if nothing is sent."""
        return int(self.step[-1]) if len(self.step) else 0

    @property
    def item_size(self) -> Fraction:
        """An item as a part of M, the buffer of a rank: in an all-to-all its N pieces."""
        return item_size(self.collective.name, self.num_ranks, self.num_items)

    @property
    def item_shards(self) -> Fraction:
        """An item in shards (M/N), the unit of loads."""
        return self.item_size * self.num_ranks

    def renumbered(self, number: ArrayLike) -> Messages:
        """The same messages where rank r is called ``number[r]``, shards with their ranks."""
        rank = np.asarray(number, dtype=np.int64)
        if sorted(rank.tolist()) != list(range(self.num_ranks)):
            raise ValueError(f"{self.num_ranks} ranks: each has a number of its own among them")
        item, collective = self.item.astype(np.int64), self.collective
        if collective.name == "alltoall":
            piece, part = np.divmod(item, self.num_items // self.num_ranks**2)
            source, target = np.divmod(piece, self.num_ranks)
            piece = rank[source] * self.num_ranks + rank[target]
            item = piece * (self.num_items // self.num_ranks**2) + part
        elif collective.name in _PER_RANK:
            shard, part = np.divmod(item, self.num_items // self.num_ranks)
            item = rank[shard] * (self.num_items // self.num_ranks) + part
        if collective.root is not None:
            collective = replace(collective, root=int(rank[collective.root]))
        ends = rank[self.source], rank[self.target]
        return Messages(
            self.num_ranks, collective, self.num_items, self.step, *ends, item, self.adds
        )

    def columns(self) -> list[NDArray[Any]]:
        """The columns step, source, target, item and adds."""
        return [self.step, self.source, self.target, self.item, self.adds]

    def one_port_loads(self) -> tuple[Fraction, ...]:
        """The most that any rank sends or receives in every step, in shards."""
        size = (self.num_steps + 1) * self.num_ranks
        most = np.zeros(self.num_steps + 1, dtype=np.int64)
        for end in (self.source, self.target):
            count = np.bincount(self.step.astype(np.int64) * self.num_ranks + end, minlength=size)
            np.maximum(most, count.reshape(-1, self.num_ranks).max(axis=1), out=most)
        return tuple(load * self.item_shards for load in most[1:].tolist())


def item_size(collective: str, num_ranks: int, num_items: int) -> Fraction:
    """An item of so many as a part of M."""
    return Fraction(num_ranks if collective == "alltoall" else 1, num_items)


def _check_sizes(ranks: int, collective: Collective, items: int) -> None:
    if ranks < 1:
        raise ValueError(f"num_ranks is {ranks}: there must be one")
    if collective.sizes is not None or collective.groups is not None:
        raise ValueError("messages are of equal items and one group: no sizes, no groups")
    collective.ranks(ranks)
    name = collective.name
    unit = ranks**2 if name == "alltoall" else ranks if name in _PER_RANK else 1
    if not 1 <= items < 2**31 or items % unit:
        raise ValueError(
            f"num_items is {items}: {name} of {ranks} ranks has a multiple of {unit} items, "
            "below 2^31"
        )


def _integers(values: ArrayLike, name: str, least: int, most: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"column {name} must be a one-dimensional array of integers")
    outside = (array < least) | (array > most)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(f"send {row}: {name} is {int(array[row])}: it is from {least} to {most}")
    return array.astype(np.int32)


def _in_order(columns: list[NDArray[Any]], ranks: int, items: int) -> list[NDArray[Any]]:
    """The columns sorted; by one number a row where it fits, in a third of the time."""
    step, source, target, item, _ = columns
    if int(step.max(initial=0)) * ranks * ranks * items < 2**62:
        key = (step.astype(np.int64) * ranks + source) * ranks + target
        key *= items
        key += item
        if not (key[1:] < key[:-1]).any():
            return columns
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((item, target, source, step))
    return [column[order] for column in columns]


def _check_rows(collective: Collective, columns: list[NDArray[Any]]) -> None:
    """ValueError for rows, already sorted, that cannot be."""
    _, source, target, _, adds = columns
    twice = np.ones(max(len(source) - 1, 0), dtype=bool)
    for column in columns[:4]:
        twice &= column[1:] == column[:-1]
    rules = (
        (source == target, "goes from rank {source} to itself"),
        (np.append(twice, False)[: len(source)], "from rank {source} to {target} is there twice"),
        (adds & (collective.name not in SUMMING), "adds, but {name} has no sums"),
    )
    for broken, rule in rules:
        if broken.any():
            row = int(broken.argmax())
            ends = {"source": int(source[row]), "target": int(target[row])}
            told = rule.format(name=collective.name, **ends)
            at, item = int(columns[0][row]), int(columns[3][row])
            raise ValueError(f"step {at}: the send of item {item} {told}")


def busiest_links(
    step: NDArray[np.int32],
    link: NDArray[np.int32],
    chunks: NDArray[np.int64],
    speed: NDArray[np.int64],
) -> tuple[Fraction, ...]:
    """Largest chunks / speed of a link in every step from 1 on; the columns are of equal length.

    ``speed`` is that of every link. Links of one speed compare by their chunks alone.

    >>> columns = [np.array(column) for column in ([1, 1, 3], [0, 0, 1], [2, 3, 4], [1, 8])]
    >>> [str(load) for load in busiest_links(*columns)]
    ['5', '0', '1/2']
    """
    steps = int(step.max(initial=0))
    loads = [Fraction(0)] * steps
    keys, at = np.unique(step.astype(np.int64) * len(speed) + link, return_inverse=True)
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, at, chunks)
    in_step, on_link = np.divmod(keys, len(speed))
    for value in np.unique(speed[on_link]).tolist():
        top = np.zeros(steps + 1, dtype=np.int64)
        here = speed[on_link] == value
        np.maximum.at(top, in_step[here], total[here])
        pairs = enumerate(top[1:].tolist())
        loads = [max(loads[number], Fraction(load, value)) for number, load in pairs]
    return tuple(loads)
