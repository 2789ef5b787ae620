"""Optimal exchanges as schedules: flows of fewest hops, taken apart into paths, in parts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.lp import DEFAULT_OPTIONS, Status, solve
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import before, places, starts_of
from ocs_codesign.schedules.exchange.optimum import (
    balanced_exchange,
    program_options,
    solved_exchange,
)
from ocs_codesign.schedules.exchange.path_kernels import take_apart
from ocs_codesign.schedules.exchange.refinement_kernels import row_colours
from ocs_codesign.schedules.simulate.clocked import fewest_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.exchange.optimum import (
        BalancedExchange,
        ExchangeOptimum,
        SolvedExchange,
    )


MAX_SENDS = 2**22
"""Sends up to which parts are added for steps."""

MAX_PARTS = 128
ENOUGH = Fraction(51, 50)
"""Times the optimum that a schedule in parts may take, by steps and by the clock."""

_SLACK = 1e-7
_OVER_A_SWITCH = 2.0**-10
_LEAST = 1e-6
_CLOSE = 1e-4
_CHUNKS = (1, 2, 3, 4, 6, 8, 12, 60, 420, 840, 2520, 5040)
_MAX_CHUNKS = 2**24
"""Of an item in one part, of 31 bits that there are for all."""


@final
class ExchangePaths:
    """Paths whose loads are those of an optimal exchange, or nearly.

    Path p takes ``amount[p]`` (float64) of what ``source[p]`` has for ``target[p]`` over the links
    ``link[start[p] : start[p + 1]]`` of the network; ``hop`` (int64, a link of a path) are the
    hosts that it has passed before.
    """

    def __init__(
        self,
        optimum: ExchangeOptimum,
        source: NDArray[np.int64],
        target: NDArray[np.int64],
        amount: NDArray[np.float64],
        start: NDArray[np.int64],
        link: NDArray[np.int64],
    ) -> None:
        """The paths are sorted by source and target, so that those of a pair are side by side."""
        self.optimum, self.source, self.target, self.amount = optimum, source, target, amount
        self.start, self.link, self.network = start, link, optimum.network
        is_relayed = self.network.tail[link] < self.network.num_hosts
        is_relayed[start[:-1]] = False
        passed = np.cumsum(is_relayed)
        self.hop: NDArray[np.int64] = passed - np.repeat(passed[start[:-1]], np.diff(start))

    @property
    def num_paths(self) -> int:
        """How many there are."""
        return len(self.source)

    @cached_property
    def _loads(self) -> NDArray[np.float64]:
        """Time on every link of every hop (hops x links)."""
        loads = np.zeros((int(self.hop.max()) + 1, self.network.num_links))
        carried = np.repeat(self.amount, np.diff(self.start)) / self.network.bandwidth[self.link]
        np.add.at(loads, (self.hop, self.link), carried)
        return loads

    def busiest_links(self) -> NDArray[np.int64]:
        """Ids of links that are as busy as any."""
        of_link = self._loads.sum(axis=0)
        return np.flatnonzero(of_link >= (1 - _CLOSE) * of_link.max())

    def time(self, num_parts: int) -> float:
        """About what it takes in so many parts, when every step waits for the one before."""
        hops = len(self._loads)
        windows = (
            self._loads[max(0, step - num_parts + 1) : step + 1].sum(axis=0).max()
            for step in range(hops + num_parts - 1)
        )
        return float(sum(windows)) / num_parts

    def parts_within(self, over: Fraction = ENOUGH) -> int:
        """The fewest parts, a power of 2, of at most ``over`` times the optimum, if sends allow.

        That is by steps, and among switches by the clock as well: no step shows what waits for
        others on its way between two hosts.
        """
        enough = float(self.optimum.value * over)
        return fewest_parts(
            *(self.network, len(self.link), self.schedule, lambda num: self.time(num) <= enough),
            *(float(self.optimum.t_b * over), MAX_SENDS, MAX_PARTS),
        )

    @cached_property
    def _chunks(self) -> tuple[int, NDArray[np.int64]]:
        """Chunks of a unit in one part, and of every path: the fewest that its share is whole in.

        Where there are no few that all shares are whole in, the largest rests are rounded up.
        """
        pair = self.source * self.network.num_hosts + self.target
        begins = np.flatnonzero(np.diff(pair, prepend=-1))
        sizes = np.diff(np.append(begins, len(pair)))
        number = np.repeat(np.arange(len(begins)), sizes)
        demand = self.optimum.demand
        wanted = np.ones(len(begins)) if demand is None else demand.ravel()[pair[begins]]
        share = self.amount / np.add.reduceat(self.amount, begins)[number] * wanted[number]
        largest = int(wanted.max()) * self.network.num_hosts
        few = [each for each in _CHUNKS if each * largest <= _MAX_CHUNKS] or [1]
        chunks = next((c for c in few if np.abs(share * c - np.rint(share * c)).max() < _CLOSE), 0)
        chunks = chunks or few[-1]
        whole = np.floor(share * chunks + _CLOSE).astype(np.int64)
        short = (wanted * chunks).astype(np.int64) - np.add.reduceat(whole, begins)
        order = np.lexsort((whole - share * chunks, number))
        whole[order] += np.arange(len(pair)) - np.repeat(begins, sizes) < short[number]
        return chunks, whole

    def schedule(self, num_parts: int, topology: Topology | None = None) -> Schedule:
        """The schedule in so many parts: part p makes its k-th hop between hosts in step p + k."""
        hosts, network, demand = self.network.num_hosts, self.network, self.optimum.demand
        pair = self.source * hosts + self.target
        sizes = np.ones(hosts * hosts, dtype=np.int64) if demand is None else demand.ravel()
        each, chunks = self._chunks
        # What has most hops to make first, then to the next hosts, so that not all send to one.
        most = np.maximum.reduceat(self.hop, self.start[:-1])
        path = np.lexsort(((self.target - self.source) % hosts, -most))
        path = np.tile(path[chunks[path] > 0], num_parts)
        part = np.repeat(np.arange(num_parts), len(path) // num_parts)
        first = before(np.repeat(np.arange(hosts), hosts), sizes)[pair] * num_parts * each
        lo = (first + before(pair, chunks))[path] + part * (sizes[pair] * each)[path]
        row, link = places(self.start[path], np.diff(self.start)[path])
        collective = Collective.ALLTOALL
        if demand is not None:
            collective = Collective(collective.name, sizes=demand.tolist())
        largest = int(sizes.reshape(hosts, hosts).sum(axis=1).max())
        return Schedule(
            network.topology() if topology is None else topology,
            collective,
            largest * num_parts * each,
            self.source[path][row],
            lo[row],
            (lo + chunks[path])[row],
            self.link[link],
            part[row] + self.hop[link] + 1,
            num_hosts=hosts,
        )


def exchange_paths(
    network: NetworkLike,
    demand: NDArray[np.int64] | None = None,
    relays: Collection[int] | None = None,
    options: Options = DEFAULT_OPTIONS,
    phases: Sequence[NDArray[np.int64]] | None = None,
) -> ExchangePaths:
    """Paths of fewest hops between hosts that an optimal exchange takes; errors as of its optimum.

    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> paths = exchange_paths(h100_rail(2))
    >>> paths.num_paths, paths.schedule(2).num_steps
    (240, 3)
    """
    given = as_network(network)
    if demand is not None and relays is None and phases is None:
        over_rails = balanced_exchange(given, demand)
        if over_rails is not None:
            return _over_rails(over_rails, demand)
    found = solved_exchange(given, demand, relays, options, phases)
    flow = _fewest_hops(found, options)
    parts = list(_paths(found, flow))
    source, target, amount, sizes, arc = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    wire = found.exchange.wire[arc]
    sizes = np.add.reduceat(wire >= 0, starts_of(sizes)[:-1]).astype(np.int64)
    link = found.exchange.link[wire[wire >= 0]]
    order = np.lexsort((target, source))
    begins = starts_of(sizes)[:-1]
    _, place = places(begins[order], sizes[order])
    return ExchangePaths(
        found.optimum,
        source[order],
        target[order],
        amount[order] * float(found.small.demand_unit * found.exchange.size),
        starts_of(sizes[order]),
        link[place],
    )


def _over_rails(found: BalancedExchange, demand: NDArray[np.int64]) -> ExchangePaths:
    """Paths over all rails of every pair."""
    wanted = np.where(np.eye(len(demand), dtype=bool), 0, demand).astype(np.int64)
    source, target, sizes, link = found.rails.paths(wanted)
    pair = source * found.optimum.network.num_hosts + target
    _, row, alike = np.unique(pair, return_inverse=True, return_counts=True)
    amount = wanted[source, target] / alike[row]
    return ExchangePaths(found.optimum, source, target, amount, starts_of(sizes), link)


def _fewest_hops(found: SolvedExchange, options: Options) -> NDArray[np.float64]:
    """Flows of all columns that load no link more than the optimum does and pass few hosts."""
    program, small = found.small.program, found.small
    upper = program.col_upper.copy()
    upper[-1] = float(found.optimum.value / small.scale) * (1 + _SLACK)
    cost = np.append(np.where(small.from_host, 1.0, _OVER_A_SWITCH) * small.copies, 0.0)
    program = replace(program, cost=cost / cost.max(), col_upper=upper)
    solution = solve(program, options=program_options(program, options)).taken()
    if solution.values is None or solution.status is not Status.OPTIMAL:
        raise ValueError(f"the exchange's paths are not found: {solution.message}")
    return np.maximum(solution.values[:-1], 0)


def _paths(
    found: SolvedExchange, values: NDArray[np.float64]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Source, target, amount, number of arcs, and arcs of the paths of every source."""
    exchange, colours = found.exchange, found.colours
    hosts, arcs = exchange.num_hosts, np.arange(len(exchange.tail))
    by_head = np.argsort(exchange.head, kind="stable")
    start = starts_of(np.bincount(exchange.head, minlength=exchange.num_nodes))
    order = np.argsort(found.small.name)
    ask, split = compiled(row_colours), compiled(take_apart)
    here = np.empty(len(arcs), dtype=np.uint64)
    room = 4
    for source in range(hosts):
        ask(colours.colour, exchange.tail, exchange.head, colours.arc_colour, source, arcs, here)
        column = order[np.searchsorted(found.small.name, here, sorter=order)]
        wanted = exchange.demand[source]
        # The nearest hosts behind the source first, so that sources differ in what comes first.
        targets = (source + np.arange(1, hosts)) % hosts
        targets = targets[wanted[targets] > 0]
        if not len(targets):
            continue
        amounts = wanted[targets] / found.small.demand_unit
        while True:
            rows = np.zeros((room * (len(targets) + 8), 3))
            flat = np.empty(room * 4 * (len(targets) + len(arcs)), dtype=np.int64)
            flow = values[column]
            count = split(
                *(source, exchange.sink[targets], amounts, exchange.tail, start, by_head),
                *(flow, _LEAST, rows, flat),
            )
            if count != -2:
                break
            room *= 2
        if count < 0:
            raise RuntimeError(f"the flow of host {source} falls short of what it has to send")
        ends = np.append(rows[:count, 2], rows[count, 2]).astype(np.int64)
        place = np.empty(exchange.num_nodes, dtype=np.int64)
        place[exchange.sink] = np.arange(hosts)
        yield (
            np.full(count, source),
            place[rows[:count, 0].astype(np.int64)],
            rows[:count, 1],
            np.diff(ends),
            flat[: ends[-1]],
        )
