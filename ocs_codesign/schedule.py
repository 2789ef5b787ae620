"""Schedule: which chunks of which item cross which link at which step, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.collective import CUSTOM, Collective
from ocs_codesign.cost import Cost
from ocs_codesign.demand import MOVE, Demand, demands_of
from ocs_codesign.given import as_topology
from ocs_codesign.loads import busiest_links
from ocs_codesign.mirror import mirrored_demand, mirrored_pieces
from ocs_codesign.shown import Tabular
from ocs_codesign.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.given import TopologyLike

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
