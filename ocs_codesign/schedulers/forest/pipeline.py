"""Forests as schedules: data cut into parts that follow each other up and down the trees."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from math import isqrt, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cost import Cost, total
from ocs_codesign.demand import demands_of
from ocs_codesign.given import as_topology
from ocs_codesign.quantities import exact
from ocs_codesign.runs import before
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import CostModel
    from ocs_codesign.demand import Demand
    from ocs_codesign.forest import Forest
    from ocs_codesign.given import TopologyLike

MAX_PARTS = 4096
MAX_CHUNKS = 2**31 - 1
"""Chunks that a schedule can count."""

MAX_SENDS = 2**21
"""Sends up to which parts are added."""


@final
class Pipeline:
    """The sends of one part of all data: part p makes them p steps later.

    Sums go up their trees, and then, in an allreduce, copies go down theirs, while the next parts
    are summed up. A path makes all its hops in one step where it leads through switches; a host of
    another group that it leads through passes on in the next step.
    """

    def __init__(self, forests: Sequence[Forest], collective: Collective) -> None:
        """The forests are those of the groups of a collective that copies, adds up, or both."""
        self.forests, self.collective = tuple(forests), collective
        self.network = forests[0].network
        self.trees_a_unit = lcm(*(forest.num_trees for forest in forests))
        sends = [self._sends(forest) for forest in forests]
        columns = (np.concatenate(column) for column in zip(*sends, strict=True))
        self.root, self.first, self.units, self.link, self.step, self.is_sum = columns
        # Sums were taken from the root on as well: time goes the other way, and then come copies.
        summing = int(self.step[self.is_sum].max(initial=-1)) + 1
        self.step = np.where(self.is_sum, summing - 1 - self.step, summing + self.step)
        self._totals: dict[int, Fraction] = {}

    def _sends(self, forest: Forest) -> tuple[NDArray[np.int64], ...]:
        """Root, first unit, units, link, step from 0 and whether it sums up, of every hop."""
        part, link = forest.hops()
        ends = (self.network.tail, self.network.head)
        tail = ends[forest.is_sum][link]
        starts = np.zeros(len(part), dtype=bool)
        starts[np.flatnonzero(np.diff(part, prepend=-1))] = True
        passed = np.cumsum(~starts & (tail < self.network.num_hosts))
        runs = np.diff(np.append(np.flatnonzero(starts), len(part)))
        relayed: NDArray[np.int64] = passed - np.repeat(passed[starts], runs)
        most = np.zeros(len(forest.tree), dtype=np.int64)
        # A switch at which a tree branches passes on in the step in which it gets.
        begins = forest.from_hosts().astype(np.int64)
        np.maximum.at(most, part, relayed + begins[part])
        step = forest.hops_before(most)[part] + relayed + begins[part] - 1
        arc = forest.tree * self.network.num_nodes + forest.head
        tree, factor = forest.tree[part], self.trees_a_unit // forest.num_trees
        first = before(forest.root, forest.multiplicity)[tree] + before(arc, forest.units)[part]
        is_sum = np.full(len(part), forest.is_sum)
        units = forest.units[part]
        return forest.root[tree], factor * first, factor * units, link, step, is_sum

    @cached_property
    def num_steps(self) -> int:
        """Steps of one part."""
        return int(self.step.max()) + 1

    @cached_property
    def _carried(self) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
        """Units of one part that links have carried before every step and after the last.

        Shape (steps + 1, links), links sorted by bandwidth; then where a bandwidth begins, and all.
        """
        order = np.argsort(self.network.bandwidth, kind="stable")
        widths, begins = np.unique(self.network.bandwidth[order], return_index=True)
        column = np.empty_like(order)
        column[order] = np.arange(len(order))
        units = np.zeros((self.num_steps + 1, len(order)), dtype=np.int64)
        np.add.at(units, (self.step + 1, column[self.link]), self.units)
        return np.cumsum(units, axis=0), begins, widths.tolist()

    def _total(self, num_parts: int) -> Fraction:
        """Units over bandwidth of the busiest link of every step, summed up.

        From as many parts as one has steps, each more adds a step with every link in it.
        """
        steps, (until, begins, widths) = self.num_steps, self._carried
        known = self._totals.get(num_parts)
        if known is not None:
            return known
        if num_parts > steps:
            return self._total(steps) + (num_parts - steps) * self._total(0)
        step = np.arange(1, steps + num_parts)
        sent = until[np.minimum(step, steps)] - until[np.maximum(step - num_parts, 0)]
        busiest = np.maximum.reduceat(sent if num_parts else until[-1:], begins, axis=1)
        each = (max(map(Fraction, row, widths)) for row in busiest.tolist())
        return self._totals.setdefault(num_parts, total(each))

    def cost(self, num_parts: int) -> Cost:
        """Steps and exact t_b in so many parts when every step waits for the one before."""
        units = self._message_units * num_parts
        t_b = self._total(num_parts) * self.network.host_bandwidth() / units
        return Cost(self.num_steps + num_parts - 1, t_b)

    @property
    def steady_state_t_b(self) -> Fraction:
        """What t_b comes near to in many parts: the time of the busiest link's bytes."""
        return self._total(0) * self.network.host_bandwidth() / self._message_units

    @cached_property
    def _message_units(self) -> int:
        return self._demand.message_units * self.trees_a_unit

    @cached_property
    def _demand(self) -> Demand:
        """What is demanded, of an allreduce either half: they have the same items."""
        return demands_of(self.collective, self.network.num_hosts)[0]

    def num_chunks(self, num_parts: int) -> int:
        """Chunks of the largest item of a schedule in so many parts."""
        largest = int(self._demand.item_weight().max())
        return largest * self.trees_a_unit * num_parts

    def chunk_bytes(self, message_bytes: Fraction | float, num_parts: int = 1) -> Fraction:
        """What a chunk of a message has in so many parts: no send is of less."""
        return exact(message_bytes, "message_bytes") / (self._message_units * num_parts)

    def most_parts(self, message_bytes: Fraction | float, min_chunk_bytes: Fraction | float) -> int:
        """Parts of a message whose chunks are not smaller and sends not too many; at least 1."""
        chunks = int(self.chunk_bytes(message_bytes) / exact(min_chunk_bytes, "min_chunk_bytes"))
        return max(1, min(chunks, MAX_SENDS // len(self.link), MAX_PARTS))

    def best_parts(self, model: CostModel, message_bytes: Fraction | float, max_parts: int) -> int:
        """The fewest of the numbers of parts up to ``max_parts`` with which a message takes least.

        From num_steps parts on the time is that of so many steps, of the fullest step as often, and
        of filling and draining, which is the same divided by the parts: its least is a square root.
        Below, ranges are halved as long as they may hold a better number.
        """
        steps, full = self.num_steps, self._total(0)
        unit_s = self.network.host_bandwidth() * self.chunk_bytes(message_bytes)
        unit_s /= model.node_bandwidth_Bps

        many = max_parts
        if model.alpha_s:
            fill = self._total(steps) - steps * full
            many = isqrt(int(fill * unit_s / model.alpha_s))
        few = min(steps, max_parts)
        known: dict[int, Fraction] = {}
        for parts in (1, few, max(few, min(many, max_parts)), max(few, min(many + 1, max_parts))):
            known[parts] = self.cost(parts).time_s(model, message_bytes)
        ranges = [(1, few)]
        while ranges:
            low, high = ranges.pop()
            if high - low < 2:
                continue
            # More parts send no less in all, and every part no less than the fullest link carries.
            sent = max(self._total(low) / (high - 1), full)
            if model.alpha_s * (steps + low) + sent * unit_s <= min(known.values()):
                middle = (low + high) // 2
                known[middle] = self.cost(middle).time_s(model, message_bytes)
                ranges += [(low, middle), (middle, high)]
        return min(sorted(known), key=lambda parts: known[parts])

    def parts_within(self, over: Fraction) -> int:
        """The fewest parts, a power of 2, with which t_b is at most ``over`` times that of many.

        Fewer where that takes more than MAX_SENDS.
        """
        parts = 1
        while (
            self.cost(parts).t_b > over * self.steady_state_t_b
            and 2 * parts * len(self.link) <= MAX_SENDS
            and 2 * parts <= MAX_PARTS
        ):
            parts *= 2
        return parts

    def schedule(self, num_parts: int, topology: TopologyLike | None = None) -> Schedule:
        """The schedule in so many parts, on a topology that has the network's links or on its own.

        Raises ValueError if that makes more chunks than a schedule can have.
        """
        columns = (self.root, self.first, self.units, self.link, self.step, self.is_sum)
        root, first, units, link, step, is_sum = (np.tile(each, num_parts) for each in columns)
        parts = np.repeat(np.arange(num_parts), len(self.link))
        hosts = self.network.num_hosts
        item = np.full(hosts, -1)
        item[self._demand.root] = np.arange(self._demand.num_items)
        low = parts * self._demand.item_weight()[item[root]] * self.trees_a_unit + first
        return Schedule(
            self.network.topology() if topology is None else as_topology(topology),
            self.collective,
            self.num_chunks(num_parts),
            item[root],
            low,
            low + units,
            link,
            step + parts + 1,
            (~is_sum).astype(np.int32) if self.collective.name == "allreduce" else None,
            num_hosts=hosts,
        )
