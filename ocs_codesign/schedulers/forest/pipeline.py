"""Forests as schedules: every tree's data cut into parts that follow each other down the tree."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.cost import Cost
from ocs_codesign.demand import demand_of
from ocs_codesign.runs import before, places
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import CostModel
    from ocs_codesign.forest import Forest
    from ocs_codesign.topology import Topology

MAX_PARTS = 4096


@final
class Pipeline:
    """The sends of one part of every tree's data: part p makes them p steps later.

    A path makes all its hops in one step where it leads through switches; a host of another group
    that it leads through passes on in the next step.
    """

    def __init__(self, forests: Sequence[Forest], collective: Collective) -> None:
        """The forests are those of the groups of a collective that copies or adds up."""
        self.forests, self.collective = tuple(forests), collective
        self.network = forests[0].network
        self.trees_a_unit = lcm(*(forest.num_trees for forest in forests))
        sends = [self._sends(forest) for forest in forests]
        self.root, self.first, self.units, self.link, self.step = (
            np.concatenate(columns) for columns in zip(*sends, strict=True)
        )
        # First unit and size of the tree that every send is of, for its place in a part.
        self.tree_first, self.tree_units = (
            np.concatenate(columns)
            for columns in zip(*(self._trees(forest) for forest in forests), strict=True)
        )

    def _factor(self, forest: Forest) -> int:
        return self.trees_a_unit // forest.num_trees

    def _rows(self, forest: Forest) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The part and the place in ``link`` of every hop of every part."""
        return places(forest.path_start[forest.path], np.diff(forest.path_start)[forest.path])

    def _trees(self, forest: Forest) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        tree = forest.tree[self._rows(forest)[0]]
        factor = self._factor(forest)
        return factor * before(forest.root, forest.multiplicity)[tree], (
            factor * forest.multiplicity[tree]
        )

    def _sends(self, forest: Forest) -> tuple[NDArray[np.int64], ...]:
        """Root, first unit within its tree, units, link and step of every hop, step from 0."""
        part, place = self._rows(forest)
        link = forest.link[place]
        ends = (self.network.tail, self.network.head)
        tail = ends[forest.is_sum][link]
        starts = np.zeros(len(part), dtype=bool)
        starts[np.flatnonzero(np.diff(part, prepend=-1))] = True
        passed = np.cumsum(~starts & (tail < self.network.num_hosts))
        runs = np.diff(np.append(np.flatnonzero(starts), len(part)))
        relayed: NDArray[np.int64] = passed - np.repeat(passed[starts], runs)
        most = np.zeros(len(forest.tree), dtype=np.int64)
        np.maximum.at(most, part, relayed + 1)
        step = forest.hops_before(most)[part] + relayed
        arc = forest.tree * self.network.num_hosts + forest.head
        factor = self._factor(forest)
        first = factor * before(arc, forest.units)[part]
        return forest.root[forest.tree[part]], first, factor * forest.units[part], link, step

    @property
    def num_steps(self) -> int:
        """Steps of one part."""
        return int(self.step.max()) + 1

    def cost(self, num_parts: int) -> Cost:
        """Steps and exact t_b in so many parts when every step waits for the one before."""
        widths = self.network.bandwidth
        chunks = np.zeros((self.num_steps + 1, self.network.num_links), dtype=np.int64)
        np.add.at(chunks, (self.step + 1, self.link), self.units)
        until = np.cumsum(chunks, axis=0)
        total = Fraction(0)
        for step in range(1, self.num_steps + num_parts):
            now = until[min(step, self.num_steps)] - until[max(0, step - num_parts)]
            total += max(
                Fraction(int(now[widths == width].max()), width)
                for width in np.unique(widths).tolist()
            )
        demand = demand_of(self.collective, self.network.num_hosts)
        units = demand.message_units * self.trees_a_unit * num_parts
        t_b = total * self.network.host_bandwidth() / units
        return Cost(self.num_steps + num_parts - 1, t_b)

    def best_parts(self, model: CostModel, message_bytes: float, max_parts: int) -> int:
        """The number of parts with which a message takes least, of all up to ``max_parts``.

        The time is convex but for rounding in steps: the best of a search by halves is taken.
        """
        low, high = 1, max_parts
        while high - low > 2:
            third = (high - low) // 3
            left, right = low + third, high - third
            times = [self.cost(parts).time_s(model, message_bytes) for parts in (left, right)]
            low, high = (low, right) if times[0] <= times[1] else (left, high)
        every = range(low, high + 1)
        return min(every, key=lambda parts: self.cost(parts).time_s(model, message_bytes))

    def parts_within(self, over: Fraction, max_sends: int) -> int:
        """The fewest parts, a power of 2, with which t_b is at most ``over`` times that of many.

        Fewer where that takes more sends than ``max_sends``.
        """
        worst = max(forest.inv_rate for forest in self.forests)
        demand = demand_of(self.collective, self.network.num_hosts)
        least = worst * self.network.host_bandwidth() / demand.message_units
        parts = 1
        while (
            self.cost(parts).t_b > over * least
            and 2 * parts * len(self.link) <= max_sends
            and 2 * parts <= MAX_PARTS
        ):
            parts *= 2
        return parts

    def schedule(self, num_parts: int, topology: Topology | None = None) -> Schedule:
        """The schedule in so many parts, on a topology that has the network's links or on its own.

        Raises ValueError if that makes more chunks than a schedule can have.
        """
        parts = np.repeat(np.arange(num_parts), len(self.link))
        root, first, units, link, step, tree_first, tree_units = (
            np.tile(column, num_parts)
            for column in (
                *(self.root, self.first, self.units, self.link, self.step),
                *(self.tree_first, self.tree_units),
            )
        )
        low = tree_first * num_parts + parts * tree_units + first
        is_sum = self.forests[0].is_sum
        collective = self.collective.mirrored if is_sum else self.collective
        hosts = self.network.num_hosts
        demand = demand_of(collective, hosts)
        item = np.full(hosts, -1)
        item[demand.root] = np.arange(demand.num_items)
        topology = topology or self.network.topology()
        made = Schedule(
            topology.transpose() if is_sum else topology,
            collective,
            int(demand.item_weight().max()) * self.trees_a_unit * num_parts,
            item[root],
            low,
            low + units,
            link,
            step + parts + 1,
            num_hosts=hosts,
        )
        return made.reversed() if is_sum else made
