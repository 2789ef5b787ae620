"""Late schedules of topologies: the least t_b of so many steps over any routes, with its bound."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, inf, isfinite, lcm
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import Options, Status, exact_vertex, solve
from ocs_codesign.core.lp.program import SIMPLEX
from ocs_codesign.core.progress import tell
from ocs_codesign.schedules.breadth_first.assembly import bfb_of_chunks
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, num_chunks_for
from ocs_codesign.schedules.stepped.answers import SteppedAnswer
from ocs_codesign.schedules.stepped.arrivals import late_arrivals, ways_to_search
from ocs_codesign.schedules.stepped.exact import MINUTE, allgather_of
from ocs_codesign.schedules.stepped.exact_program import (
    CLOSE,
    MAX_UNIT,
    SendRows,
    assembled,
    broadcasts,
    middle_point,
    relaxation,
)
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.lp import ExactSolution, LinearProgram, Options
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.stepped.exact_program import Broadcasts


# From amounts of arrivals to whole chunks.


MAX_CHUNKS = 64
"""Most chunks a shard unless others are asked for."""

_CHUNKS_SHARE = 0.25
"""Of the time that is left, for each number of chunks."""
_NODE_LIMIT = 50
"""Of each number of chunks, unless the options name another: others come soon, and where time does
not run out the answer is the same on every machine."""


def cut_into_chunks(found: Mixed, max_chunks: int, options: Options) -> list[Schedule]:
    """Allgathers in whole chunks, each with a lower t_b than the one before; the last is the best.

    Numbers of chunks are tried in ascending order by integer programs, as long as time suffices and
    more could be better; what an exact vertex needs is whole without one.
    """
    began, master = time.monotonic(), found.master
    options = replace(options, node_limit=options.node_limit or _NODE_LIMIT)
    left = options.after(0.0)
    vertex = _vertex(master, left)
    goal = found.least if vertex is None else vertex.objective
    needed = 0 if vertex is None else lcm(*(value.denominator for value in vertex.values))
    made: list[Schedule] = []
    best: Fraction | None = None
    for num_chunks in _numbers(max_chunks):
        if best is not None and best <= goal:
            return made
        left = options.after(time.monotonic() - began)
        if left.time_limit_s == 0:
            break
        # Times are whole numbers of chunks, so a sum of them is.
        if best is not None and Fraction(ceil(goal * num_chunks), num_chunks) >= best:
            continue
        if left.time_limit_s is not None:
            left = replace(left, time_limit_s=_CHUNKS_SHARE * left.time_limit_s)
        schedule, total = _in_chunks(master, num_chunks, left)
        if schedule is not None and (best is None or total < best):
            made, best = [*made, schedule], total
    if vertex is not None and needed <= max_chunks and (best is None or goal < best):
        whole = np.array([int(value * needed) for value in vertex.values])
        made.append(allgather_of(master.model, master.sends_of(whole, needed)))
    return made


def _vertex(master: Master, options: Options) -> ExactSolution | None:
    program = master.program()
    return exact_vertex(program, solve(program, options=replace(options, method=SIMPLEX)))


def _in_chunks(
    master: Master, num_chunks: int, options: Options
) -> tuple[Schedule | None, Fraction]:
    """The best in so many chunks that the time limit allows, and its sum of times."""
    solution = solve(master.program(num_chunks, integral=True), options=options).taken()
    if solution.values is None or (solution.violation or 0.0) > CLOSE:
        return None, Fraction(0)
    values = np.rint(solution.values).astype(np.int64)
    schedule = allgather_of(master.model, master.sends_of(values, num_chunks))
    return schedule, sum(schedule.max_loads(), Fraction(0)) * master.model.unit


def _numbers(max_chunks: int) -> Iterator[int]:
    """Numbers of chunks to try: all up to 12, then those with many divisors."""
    more = (14, 15, 16, 18, 20, 24, 28, 30, 32, 36, 40, 42, 45, 48, 54, 56, 60, 64)
    return (number for number in (*range(1, 13), *more) if number <= max_chunks)


# Allgathers mixed from arrivals: for parts of every root's shard, the step at which nodes get it.
#
# Where it is given when every node gets a part of a shard, nodes choose their in-links on their
# own: any in-neighbour that got it earlier will do. So a schedule is, for every root, arrivals
# with how much of the shard follows each, and for every node how that is spread over its
# in-links. All of that is linear, and with all arrivals that there are it is every schedule there
# is, in any chunks.
#
# With whole amounts of the arrivals and whole times, amounts on links need not be asked to be
# whole: each is in one sum of a node and in one of a link and step, so the vertices are (a
# transportation problem), if all links are as fast.


@final
class Arrivals(NamedTuple):
    """Of the root at a position of the model, the step at which every node gets a part, 0 for it.

    ``sends`` are those of the model that may bring it: from who has it earlier.
    """

    position: int
    step: NDArray[np.int64]
    sends: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Master:
    """The program of some arrivals: columns are times of steps, amounts of arrivals, of sends.

    ``arrival`` and ``send`` say whose the amounts of sends are.
    """

    model: Broadcasts
    arrivals: tuple[Arrivals, ...]
    arrival: NDArray[np.int64]
    send: NDArray[np.int64]

    @classmethod
    def of(cls, model: Broadcasts, arrivals: list[Arrivals]) -> Master:
        """The master of these arrivals; every root needs one at least."""
        arrival = np.repeat(np.arange(len(arrivals)), [len(some.sends) for some in arrivals])
        return cls(
            model, tuple(arrivals), arrival, np.concatenate([some.sends for some in arrivals])
        )

    def program(self, num_chunks: int = 1, *, integral: bool = False) -> LinearProgram:
        """Minimise the sum of the times of the steps, of shards of so many chunks."""
        model, steps, kinds = self.model, self.model.num_steps, len(self.arrivals)
        position = np.array([some.position for some in self.arrivals])
        roots, nodes = len(model.roots), model.topology.num_nodes
        amount, send = steps + np.arange(kinds), steps + kinds + np.arange(len(self.send))
        whole = np.full(roots, float(num_chunks))
        shards = SendRows(position, amount, np.ones(kinds), whole, whole)
        # A node gets of every arrival what there is of it.
        into = self.arrival * nodes + model.head[self.send]
        got = np.arange(kinds * nodes).reshape(kinds, nodes)
        others = np.arange(nodes) != model.roots[position][:, None]
        nothing = np.zeros(kinds * nodes)
        parts = SendRows(
            np.append(into, got[others]),
            np.append(send, np.broadcast_to(amount[:, None], others.shape)[others]),
            np.append(np.ones(len(send)), np.full(int(others.sum()), -1.0)),
            nothing,
            nothing,
        )
        row = model.link_class[model.link[self.send]] * steps + model.step[self.send] - 1
        num = self._num_loads
        loads = SendRows(
            np.append(row, np.arange(num)),
            np.append(send, np.arange(num) % steps),
            np.append(takes_of(model)[self.send], np.full(num, -1.0)),
            np.full(num, -inf),
            np.zeros(num),
        )
        columns = steps + kinds + len(send)
        cost = np.append(np.ones(steps), np.zeros(kinds + len(send)))
        return assembled([shards, parts, loads], cost, np.full(columns, inf), integral=integral)

    def prices(self, row_duals: NDArray[Any]) -> NDArray[Any]:
        """What a unit of time of a class of links at a step is worth: (classes, steps)."""
        duals = np.maximum(-row_duals[-self._num_loads :], 0)
        prices: NDArray[Any] = duals.reshape(-1, self.model.num_steps)
        return prices

    def sends_of(self, values: NDArray[np.int64], num_chunks: int) -> NDArray[np.bool_]:
        """The sends (chunks x sends) of a point with whole amounts of so many chunks a shard.

        Every arrival has consecutive chunks, and so has every in-link over which a node gets them.
        """
        model, steps, kinds = self.model, self.model.num_steps, len(self.arrivals)
        parts, carried = values[steps : steps + kinds], values[steps + kinds :]
        found = np.zeros((num_chunks, model.num_sends), dtype=bool)
        filled = np.zeros(len(model.roots), dtype=np.int64)
        for at, some in enumerate(self.arrivals):
            lo = np.full(model.topology.num_nodes, filled[some.position])
            filled[some.position] += parts[at]
            mine = np.flatnonzero((self.arrival == at) & (carried > 0))
            for send, count in zip(self.send[mine].tolist(), carried[mine].tolist(), strict=True):
                head = model.head[send]
                found[lo[head] : lo[head] + count, send] = True
                lo[head] += count
        return found

    @property
    def _num_loads(self) -> int:
        return (int(self.model.link_class.max()) + 1) * self.model.num_steps


def takes_of(model: Broadcasts) -> NDArray[np.int64]:
    """The time that a shard takes on the link of every send."""
    takes: NDArray[np.int64] = model.unit // model.topology.speeds()[model.link]
    return takes


def arrivals_at(model: Broadcasts, position: int, step: NDArray[np.int64]) -> Arrivals:
    """The arrivals of a root by the step of every node, 0 for the root itself."""
    lands = model.step == step[model.head]
    usable = (model.root == position) & lands & (step[model.tail] < model.step)
    return Arrivals(position, step, np.flatnonzero(usable))


# The least sum of times whatever the chunks: columns are priced in until none is worth it.
#
# The prices of a master say what every send costs; the cheapest way to bring a shard to all nodes
# at these prices, one integer program a root, is a column that it lacks, or proves that it lacks
# none. Any prices prove a bound: what all roots cost at least, over the most that a unit of time
# pays.


_PRICE_BITS = 16
"""Prices are integers up to 2**_PRICE_BITS: a bound loses some parts in 2**_PRICE_BITS."""
_MAX_DENOMINATOR = 2**20


@final
class Mixed(NamedTuple):
    """A master, and a sum of times in shards that no schedule has less than, in 1 / unit."""

    master: Master
    least: Fraction


def mixed(model: Broadcasts, least: Fraction, options: Options) -> Mixed:
    """Columns enough for the least sum of times, or as many as the time limit allows.

    ``least`` is what is proven already. Raises SolverUnavailableError if the solver cannot take a
    program.
    """
    search = _Search(model, least, options)
    while not search.improve():
        tell(search.rounds, search.rounds + 1)
    return Mixed(search.master(), search.least)


class _Search:
    """The arrivals found so far, which grow."""

    def __init__(self, model: Broadcasts, least: Fraction, options: Options) -> None:
        self.model, self.least, self.rounds = model, least, 0
        self._options, self._began = options, time.monotonic()
        self._roots = [model.of_root(position) for position in range(len(model.roots))]
        self._held: dict[tuple[int, bytes], Arrivals] = {}
        for position, hops in enumerate(model.topology.distances()[model.roots]):
            self._add(position, hops.astype(np.int64))

    def master(self) -> Master:
        """That of what is held, roots in order."""
        held = sorted(self._held.values(), key=lambda some: some.position)
        return Master.of(self.model, held)

    def improve(self) -> bool:
        """Price in what the master lacks; whether that was nothing, or all that time allows."""
        self.rounds += 1
        master, left = self.master(), self._left()
        if left.time_limit_s == 0:
            return True
        solution = middle_point(master.program(), left)
        if solution.status is not Status.OPTIMAL or solution.objective is None:
            return True
        if solution.objective <= float(self.least) * (1 + CLOSE):
            return True
        _, duals = solution.point_and_duals()
        return not (self._grows(_rounded(master.prices(duals))) or self._grows_at_vertex(master))

    def _grows_at_vertex(self, master: Master) -> bool:
        """Whether exact duals find what those of the middle did not; if not, they prove the best.

        Only here is the bound that is proven the optimum itself.
        """
        program = master.program()
        vertex = exact_vertex(
            program, solve(program, options=replace(self._left(), method=SIMPLEX))
        )
        if vertex is None:
            return False
        duals = np.array(vertex.row_duals, dtype=object)
        unit = lcm(*(dual.denominator for dual in vertex.row_duals))
        if unit > _MAX_DENOMINATOR:
            return False
        return self._grows(master.prices(duals * unit).astype(np.int64))

    def _grows(self, prices: NDArray[np.int64]) -> bool:
        """Whether arrivals were missing at these prices, or time that says so ran out."""
        num = len(self._held)
        self._price(prices)
        return len(self._held) > num

    def _price(self, prices: NDArray[np.int64]) -> None:
        """Add the cheapest arrivals of every root at these prices, and see what they prove."""
        model, total = self.model, 0
        most = int(prices.sum(axis=0).max())
        cost = prices[model.link_class[model.link], model.step - 1] * takes_of(model)
        for position, one in enumerate(self._roots):
            program = one.priced_program(cost[model.root == position].astype(float))
            solution = solve(program, options=self._left()).taken()
            if solution.bound is not None and isfinite(solution.bound):
                # Branch and bound is in floats, of integers.
                total += max(0, ceil(solution.bound - CLOSE * max(1.0, abs(solution.bound))))
            if solution.values is not None and (solution.violation or 0.0) <= CLOSE:
                step = np.zeros(model.topology.num_nodes, dtype=np.int64)
                chosen = solution.values > 0.5
                step[one.head[chosen]] = one.step[chosen]
                self._add(position, step)
        if most:
            self.least = max(self.least, Fraction(total, most))

    def _add(self, position: int, step: NDArray[np.int64]) -> None:
        self._held.setdefault((position, step.tobytes()), arrivals_at(self.model, position, step))

    def _left(self) -> Options:
        return self._options.after(time.monotonic() - self._began)


def _rounded(prices: NDArray[np.float64]) -> NDArray[np.int64]:
    """The prices as integers, such that the dearest step has about 2**_PRICE_BITS."""
    most = float(prices.sum(axis=0).max())
    scale = 2**_PRICE_BITS / most if most > 0 else 1.0
    rounded: NDArray[np.int64] = np.rint(prices * scale).astype(np.int64)
    return rounded


MAX_SENDS = 2_000_000
"""Largest problem: roots that no symmetry maps onto each other * links * steps."""

_MAX_LINKS = 2**14
"""Of a program: so few nodes have more only where many links are parallel."""

_MAX_SENDS_OF_ORBITS = 4_000
_MOST_ROUNDS = 4
"""Of cuts: bounds beside searches, which take seconds so, and mostly rise in the first."""

_SHARE = 0.75
"""Of the time limit, for columns."""

WHOLE_ITEMS = 32
"""Nodes from which on items arrive whole, by a search: with fewer, parts of them must be late."""


@takes_topology
def late_schedule(
    topology: Topology,
    num_steps: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
    max_chunks: int = MAX_CHUNKS,
) -> SteppedAnswer:
    """The schedule of at most so many steps with the least t_b, in up to ``max_chunks`` a shard.

    Data may take longer paths than BFB's shortest ones, and arrive later: from WHOLE_ITEMS nodes on
    every item in one step, by a search of so many moves, with a bound of so many steps where few
    orbits make it small; with fewer in parts, by a program and its time limit, with that bound.
    An allreduce is the best reduce-scatter and then allgather that take so many steps in all. When
    the time limit is reached, the answer holds the best that was found, BFB at worst. Raises
    ValueError for an all-to-all, too few steps, fewer than two nodes, a topology that is not
    strongly connected or is too large, SolverUnavailableError if the solver cannot take a program.
    """
    collective = Collective.parse_gathering(collective)
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if max_chunks < 1:
        raise ValueError(f"max_chunks is {max_chunks}: it must be at least 1")
    halves = _Halves(topology, options, max_chunks)
    diameter = topology.diameter()
    least = diameter * len(collective.halves())
    if num_steps < least:
        raise ValueError(f"{num_steps} steps: {collective.name} takes at least {least} here")
    if collective != Collective.ALLREDUCE:
        schedule, bound = halves.half(collective == Collective.REDUCE_SCATTER, num_steps, 1)
        return _answer(num_steps, schedule, bound)
    splits = range(diameter, num_steps - diameter + 1)
    answers = []
    for done, steps in enumerate(splits):
        left = 2 * (len(splits) - done)
        scatter, first = halves.half(True, steps, left)
        gather, second = halves.half(False, num_steps - steps, left - 1)
        answers.append((scatter.then(gather), first + second))
    schedule = min((made for made, _ in answers), key=_rank)
    bound = min(bound for _, bound in answers)
    return _answer(num_steps, schedule, bound)


def _answer(num_steps: int, schedule: Schedule, bound: Fraction) -> SteppedAnswer:
    t_b = schedule.synchronous_cost().t_b
    return SteppedAnswer(t_b, bound, num_steps=num_steps, schedule=schedule)


class _Halves:
    """Allgathers and reduce-scatters of a topology, which share the time limit."""

    def __init__(self, topology: Topology, options: Options, max_chunks: int) -> None:
        self._topology, self._options, self._max_chunks = topology, options, max_chunks
        self._began = time.monotonic()

    def half(self, is_mirrored: bool, num_steps: int, num_left: int) -> tuple[Schedule, Fraction]:
        """The best schedule found, verified, and the least t_b; one of so many that share."""
        options = self._options.after(time.monotonic() - self._began)
        if options.time_limit_s is not None:
            options = replace(options, time_limit_s=options.time_limit_s / num_left)
        graph = self._topology.transpose() if is_mirrored else self._topology
        gather, bound = _allgather(graph, num_steps, options, self._max_chunks)
        made = gather.reversed() if is_mirrored else gather
        verdict = verify(made)
        if not verdict.ok:
            raise RuntimeError(f"the late schedule is wrong: {verdict.witness}")
        # The busiest node of the transpose may be another, so its t_b is in another unit.
        return made, self._topology.t_b(bound / graph.t_b(Fraction(1)))


def _allgather(
    topology: Topology, num_steps: int, options: Options, max_chunks: int
) -> tuple[Schedule, Fraction]:
    """The best allgather found in so many steps, and the least t_b of any."""
    began = time.monotonic()
    if topology.num_nodes < WHOLE_ITEMS:  # before anything is made
        _check_program(topology, num_steps)
    loads = bfb_loads(topology)
    plain = bfb_of_chunks(topology, min(num_chunks_for(loads), max_chunks))
    least = topology_bound(topology, Collective.ALLGATHER, len(loads)).t_b
    if plain.synchronous_cost().t_b == least:
        return plain, least
    if topology.num_nodes >= WHOLE_ITEMS:
        ways = ways_to_search(topology.num_nodes, is_tight=num_steps == topology.diameter())
        late = [
            late_arrivals(topology, num_steps, all_sets=way, first_cut=cut) for way, cut in ways
        ]
        best = min(plain, *(table.schedule(max_chunks) for table in late), key=_rank)
        if best.synchronous_cost().t_b > least:
            least = max(least, _bound_of_orbits(topology, num_steps, options))
        return best, least
    model = broadcasts(topology, num_steps, invariant=True)
    # t_b of a sum of times that is 1 / unit of a shard.
    unit = topology.t_b(Fraction(1)) / model.unit
    # Columns that time does not suffice to cut into chunks are of no use.
    limit_s = options.time_limit_s
    share = options if limit_s is None else replace(options, time_limit_s=_SHARE * limit_s)
    found = mixed(model, least / unit, share)
    left = options.after(time.monotonic() - began)
    made = cut_into_chunks(found, max_chunks, left)
    return min([plain, *made], key=_rank), found.least * unit


def _check_program(topology: Topology, num_steps: int) -> None:
    """ValueError for a program of more links, or of more sends, than are solved."""
    roots, links = quotient(topology).num_sources, topology.num_links
    number = roots * links * num_steps
    if links > _MAX_LINKS:
        raise ValueError(
            f"{links:,} links: late schedules on fewer than {WHOLE_ITEMS} nodes take at most "
            f"{_MAX_LINKS:,}"
        )
    if number > MAX_SENDS:
        raise ValueError(
            f"{roots} roots, {links} links and {num_steps} steps have a "
            f"product of {number:,}: late schedules take at most {MAX_SENDS:,}"
        )


def _bound_of_orbits(topology: Topology, num_steps: int, options: Options) -> Fraction:
    """The least t_b of so many steps by cuts of one root an orbit; 0 where that takes too long."""
    if topology.symmetry is None or lcm(*topology.speeds().tolist()) > MAX_UNIT:
        return Fraction(0)
    num_roots = len(topology.symmetry.representatives())
    if num_roots * topology.num_links * num_steps > _MAX_SENDS_OF_ORBITS:
        return Fraction(0)
    model = broadcasts(topology, num_steps, invariant=True)
    return relaxation(model, options, _MOST_ROUNDS).least * topology.t_b(Fraction(1)) / model.unit


def _rank(schedule: Schedule) -> tuple[Fraction, int, int]:
    cost = schedule.synchronous_cost()
    return cost.t_b, cost.steps, schedule.num_chunks
