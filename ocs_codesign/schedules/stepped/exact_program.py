"""The bound of an allgather by linear programming with cuts, its schedule by branch and bound."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from math import ceil, inf, lcm
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.lp import LinearProgram, Options, Solution, Status, exact_vertex, solve
from ocs_codesign.core.lp.program import IPX_NO_CROSSOVER, SIMPLEX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


_PARTS = 2**20
_NEARLY_ALL = _PARTS - 2**6
"""Floats are asked for cuts in parts of a shard, and a cut may be short of a shard by some."""
_WEIGHT = 2**26
CLOSE = 1e-6
"""What integers may be off in floats."""


@final
class Relaxation(NamedTuple):
    """The least sum of times in shards for any number of chunks, in 1 / ``model.unit``; proven.

    ``solver`` is the one that solved it.
    """

    model: Broadcasts
    least: Fraction
    solver: str


@final
class Found(NamedTuple):
    """What branch and bound found: sends (chunks x sends, boolean), and what none can be below.

    ``end`` says how the ``solver`` ended.
    """

    sends: NDArray[np.bool_] | None
    least: int
    end: Status
    solver: str


def relaxation(model: Broadcasts, options: Options, max_rounds: int | None = None) -> Relaxation:
    """The least sum of times if every node could be served on its own.

    Any cuts prove a bound, so running out of time or rounds costs quality only. The points that
    cuts are asked of are in the middle of the optimal ones, where fewer cuts are violated than at
    vertices: N = 16, d = 2 in 5 steps took 7 s that way and 60 s with vertices. Raises
    SolverUnavailableError if the solver cannot take the program.
    """
    began = time.monotonic()
    cuts = model.first_cuts()
    least = weighted_bound(model, cuts, np.ones(len(cuts)))
    for done in count(1):
        program = model.relaxed_program(cuts)
        solution = middle_point(program, options.after(time.monotonic() - began))
        least = max(least, _proven_by_duals(model, cuts, solution))
        if solution.status is not Status.OPTIMAL or solution.values is None:
            break
        amounts = np.rint(solution.values[: model.num_sends] * _PARTS).astype(np.int64)
        new = model.violated_cuts(amounts, _NEARLY_ALL)
        if not len(new):
            break
        if done == max_rounds:
            return Relaxation(model, least, solution.solver)
        cuts = np.unique(np.concatenate([cuts, new]), axis=0)
    left = options.after(time.monotonic() - began)
    solution = solve(program, options=replace(left, method=SIMPLEX)).taken()
    vertex = exact_vertex(program, solution)
    if vertex is not None:
        return Relaxation(model, vertex.objective, solution.solver)
    least = max(least, _proven_by_duals(model, cuts, solution))
    return Relaxation(model, least, solution.solver)


def search(model: Broadcasts, num_chunks: int, least: int, most: int, options: Options) -> Found:
    """The sends of whole chunks with the least sum of times, from ``least`` to ``most``.

    Raises SolverUnavailableError if the solver cannot take the program.
    """
    solution = solve(model.program(num_chunks, least, most), options=options).taken()
    end, solver = solution.status, solution.solver
    if end is Status.INFEASIBLE:
        return Found(None, most + 1, end, solver)
    if solution.bound is not None:
        least = max(least, ceil(solution.bound - CLOSE))
    if solution.values is None or (solution.violation or 0.0) > CLOSE:
        return Found(None, least, end, solver)
    sends = solution.values[: num_chunks * model.num_sends] > 0.5
    return Found(sends.reshape(num_chunks, -1), least, end, solver)


def middle_point(program: LinearProgram, options: Options) -> Solution:
    """An optimum in the middle of all of them, or a vertex where interior point fails."""
    solution = solve(program, options=replace(options, method=IPX_NO_CROSSOVER)).taken()
    if solution.status in (Status.FAILED, Status.MEMORY):
        solution = solve(program, options=replace(options, method=SIMPLEX)).taken()
    return solution


def _proven_by_duals(model: Broadcasts, cuts: NDArray[np.int64], solution: Solution) -> Fraction:
    """What the rounded duals of the cuts prove, 0 if there are none."""
    duals = None if solution.row_duals is None else solution.row_duals[-len(cuts) :]
    if duals is None or not (duals > 0).any():
        return Fraction(0)
    return weighted_bound(model, cuts, np.maximum(duals, 0))


def weighted_bound(
    model: Broadcasts, cuts: NDArray[np.int64], weights: NDArray[np.float64]
) -> Fraction:
    """What non-negative weights of cuts prove about the sum of times: weak duality, in integers.

    A shard crosses every cut. If a send pays the weights of the cuts that it crosses, what a class
    of links carries at a step pays at most its time * the dearest send * speed / unit.
    """
    whole = np.rint(weights * (_WEIGHT / weights.max())).astype(np.int64)
    paid = np.zeros(model.num_sends, dtype=np.int64)
    for cut, weight in zip(cuts[whole > 0], whole[whole > 0], strict=True):
        paid[model.crossing(cut)] += weight
    dearest = np.zeros((int(model.link_class.max()) + 1, model.num_steps), dtype=np.int64)
    speed = model.topology.speeds()[model.link]
    np.maximum.at(dearest, (model.link_class[model.link], model.step - 1), paid * speed)
    return Fraction(int(whole.sum()) * model.unit, int(dearest.sum(axis=0).max()))


# Flows of one root's shard through the time-expanded graph, and the cuts that limit them.
#
# Node v after step t is vertex v * (T + 1) + t; it leads to v after step t + 1 without limit.


_NO_LIMIT = 2**30


@final
@dataclass(frozen=True, slots=True, eq=False)
class _TimeExpanded:
    """What leads where, whatever it carries: arcs for links x steps, then for staying."""

    num_nodes: int
    num_steps: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]

    @classmethod
    def of(cls, topology: Topology, num_steps: int) -> _TimeExpanded:
        """The graph of a topology over so many steps."""
        width = num_steps + 1
        before = np.arange(num_steps)
        stay = (np.arange(topology.num_nodes)[:, None] * width + before).ravel()
        tail = (topology.tail.astype(np.int64)[:, None] * width + before).ravel()
        head = (topology.head.astype(np.int64)[:, None] * width + before + 1).ravel()
        return cls(topology.num_nodes, num_steps, np.append(tail, stay), np.append(head, stay + 1))

    def violated_cuts(
        self, root: int, carried: NDArray[np.int64], demand: int
    ) -> list[NDArray[np.int64]]:
        """Cuts that less than ``demand`` crosses, as the step after which every node is inside.

        ``carried`` (links x steps) are integers. For each receiver the smallest and the largest set
        with a least cut: with both, fewer rounds find all that matter.
        """
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_flow

        width = self.num_steps + 1
        stay = np.full(len(self.tail) - carried.size, _NO_LIMIT)
        limit = np.append(carried.ravel(), stay).astype(np.int32)
        capacity = csr_matrix((limit, (self.tail, self.head)), shape=(self.num_nodes * width,) * 2)
        cuts: dict[bytes, NDArray[np.int64]] = {}
        for node in range(self.num_nodes):
            if node == root:
                continue
            sink = node * width + self.num_steps
            found = maximum_flow(capacity, root * width, sink)
            if found.flow_value >= demand:
                continue
            for inside in _least_cuts(capacity - found.flow, root * width, sink):
                # Who is inside stays inside, so the steps spent outside say when it came in.
                since = width - inside.reshape(-1, width).sum(axis=1)
                cuts[since.tobytes()] = since
        return list(cuts.values())


def _least_cuts(residual: Any, source: int, sink: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest set of vertices, as booleans, that no more flow can leave."""
    from scipy.sparse.csgraph import breadth_first_order

    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(residual.shape[0], dtype=bool)
    reached[breadth_first_order(residual, source, return_predecessors=False)] = True
    is_open = np.zeros(residual.shape[0], dtype=bool)
    backwards = residual.T.tocsr()
    is_open[breadth_first_order(backwards, sink, return_predecessors=False)] = True
    return reached, ~is_open


# The allgather of a few steps as programs: which chunk of which root crosses a link at a step.
#
# The linear program asks only for amounts of every root's shard on links and steps, such that
# every node on its own can be sent all of it: in the time-expanded graph, where a node leads to
# itself a step later without limit, every cut between root and node carries a shard (max-flow =
# min-cut, the cut-set bound of network coding). All schedules satisfy that, so its optimum is a
# bound whatever the number of chunks; but amounts that do need not be those of a schedule. The
# integer program tells the chunks apart: each comes to every node once and leaves it only later.


MAX_UNIT = 2**16
"""Largest least common multiple of link speeds, so that 64 bits and floats hold all times."""


@final
class SendRows(NamedTuple):
    """Some constraints: entries, rows counted from 0 in the order of ``lower`` and ``upper``."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Broadcasts:
    """Possible sends: ``root`` (a position in ``roots``), ``link`` and ``step`` of each.

    ``roots`` are all nodes, or one of every orbit when the schedule is to be invariant under the
    declared symmetry; ``link_class`` numbers the links that are then equally loaded. ``unit`` is
    the least common multiple of the link speeds: a link of speed s that carries c chunks takes
    c * unit / s. ``send_of`` (roots x links x steps) numbers the sends; it is -1 where one is of no
    use: into the root, over a self-loop, or before the sender can hold anything.
    """

    topology: Topology
    num_steps: int
    graph: _TimeExpanded
    roots: NDArray[np.int64]
    link_class: NDArray[np.int64]
    unit: int
    root: NDArray[np.int64]
    link: NDArray[np.int64]
    step: NDArray[np.int64]
    send_of: NDArray[np.int64]

    @property
    def num_sends(self) -> int:
        """How many sends are possible for each chunk."""
        return len(self.root)

    @property
    def tail(self) -> NDArray[np.int32]:
        """The sender of every send."""
        return self.topology.tail[self.link]

    @property
    def head(self) -> NDArray[np.int32]:
        """The receiver of every send."""
        return self.topology.head[self.link]

    def violated_cuts(self, amounts: NDArray[np.int64], demand: int) -> NDArray[np.int64]:
        """Cuts that less than ``demand`` crosses if sends carry these amounts.

        Shape (cuts, 1 + N). A cut is a root's position, then for every node the step after which it
        is inside, beyond the last one if never.
        """
        rows = []
        for at, root in enumerate(self.roots.tolist()):
            carried = np.append(amounts, 0).take(self.send_of[at], mode="wrap")
            cuts = self.graph.violated_cuts(root, carried, demand)
            rows += [np.append(at, since) for since in cuts]
        return np.array(rows, dtype=np.int64).reshape(-1, 1 + self.topology.num_nodes)

    def crossing(self, cut: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sends that cross a cut: by a node that is inside to one not inside after the step."""
        since = cut[1:]
        crosses = (since[self.tail] < self.step) & (self.step < since[self.head])
        return np.flatnonzero(crosses & (self.root == cut[0]))

    def first_cuts(self) -> NDArray[np.int64]:
        """One cut a root and receiver: all that enters the receiver."""
        outside = np.eye(self.topology.num_nodes, dtype=np.int64) * (self.num_steps + 1)
        cuts = [
            np.append(at, outside[node])
            for at, root in enumerate(self.roots.tolist())
            for node in range(self.topology.num_nodes)
            if node != root
        ]
        return np.array(cuts, dtype=np.int64)

    def relaxed_program(self, cuts: NDArray[np.int64]) -> LinearProgram:
        """Minimise the sum of the steps' times: amounts in shards, then the time of every step."""
        return self._program([self._loads(1), self._cuts(cuts)], 1, integral=False)

    def program(self, num_chunks: int, least: int, most: float) -> LinearProgram:
        """The same with sends of whole chunks, chunk after chunk; a sum from ``least`` to ``most``.

        Neither cuts nor an order of the chunks of a root help branch and bound: 40 random 2-regular
        digraphs of 6 to 8 nodes took 27 s without, 36 s with the cuts, 43 s with an order.
        """
        step = np.arange(self.num_steps)
        times = num_chunks * self.num_sends + step
        total = SendRows(0 * step, times, np.ones(len(step)), np.array([least]), np.array([most]))
        rows = [total, self._loads(num_chunks), self._arrivals(num_chunks)]
        return self._program([*rows, self._causes(num_chunks)], num_chunks, integral=True)

    def of_root(self, position: int) -> Broadcasts:
        """The sends of the root at this position alone, in the same order."""
        own = self.root == position
        here = self.send_of[position : position + 1]
        return replace(
            self,
            roots=self.roots[position : position + 1],
            root=self.root[own] - position,
            link=self.link[own],
            step=self.step[own],
            send_of=np.where(here < 0, -1, here - int(np.argmax(own))),
        )

    def priced_program(self, prices: NDArray[np.float64]) -> LinearProgram:
        """The cheapest sends that bring one whole shard a root to every node, at a price a send."""
        rows = [self._arrivals(1), self._causes(1)]
        ones = np.ones(self.num_sends)
        return assembled(rows, prices, ones, integral=True)

    def _loads(self, num_chunks: int) -> SendRows:
        """What a class of links carries at a step takes at most the step's time."""
        num = (int(self.link_class.max()) + 1) * self.num_steps
        row = self.link_class[self.link] * self.num_steps + self.step - 1
        sends = np.arange(num_chunks * self.num_sends)
        times = len(sends) + np.arange(num) % self.num_steps
        takes = self.unit / self.topology.speeds()[self.link]
        return SendRows(
            np.append(np.tile(row, num_chunks), np.arange(num)),
            np.append(sends, times),
            np.append(np.tile(takes, num_chunks), np.full(num, -1.0)),
            np.full(num, -inf),
            np.zeros(num),
        )

    def _cuts(self, cuts: NDArray[np.int64]) -> SendRows:
        """A shard crosses every cut."""
        crossing = [self.crossing(cut) for cut in cuts]
        row = np.repeat(np.arange(len(cuts)), [len(sends) for sends in crossing])
        ones = np.ones(len(cuts))
        return SendRows(row, np.concatenate(crossing), np.ones(len(row)), ones, inf * ones)

    def _arrivals(self, num_chunks: int) -> SendRows:
        """Every chunk comes to every node once."""
        shape = (num_chunks, len(self.roots), self.topology.num_nodes)
        once = np.ones(shape)
        once[:, np.arange(len(self.roots)), self.roots] = 0
        row = _copies(self.root * self.topology.num_nodes + self.head, num_chunks, once[0].size)
        column = np.arange(num_chunks * self.num_sends)
        return SendRows(row, column, np.ones(len(row)), once.ravel(), once.ravel())

    def _causes(self, num_chunks: int) -> SendRows:
        """A chunk leaves over a link up to a step only if it came to the sender before the step."""
        effect, cause, value = [], [], []
        for at, root in enumerate(self.roots.tolist()):
            here = np.flatnonzero(self.root == at)
            link, step = self.link[here], self.step[here]
            tail, head = self.tail[here, None], self.head[here]
            leaves = (link[:, None] == link) & (step <= step[:, None]) & (tail != root)
            comes = (tail == head) & (step < step[:, None]) & (tail != root)
            for matters, sign in ((leaves, 1.0), (comes, -1.0)):
                late, early = np.nonzero(matters)
                effect.append(here[late])
                cause.append(here[early])
                value.append(np.full(len(late), sign))
        num = num_chunks * self.num_sends
        return SendRows(
            _copies(np.concatenate(effect), num_chunks, self.num_sends),
            _copies(np.concatenate(cause), num_chunks, self.num_sends),
            np.tile(np.concatenate(value), num_chunks),
            np.full(num, -inf),
            np.zeros(num),
        )

    def _program(self, rows: list[SendRows], num_chunks: int, *, integral: bool) -> LinearProgram:
        """The rows under the sum of times; sends are from 0 to 1."""
        sends, steps = num_chunks * self.num_sends, self.num_steps
        cost = np.append(np.zeros(sends), np.ones(steps))
        upper = np.append(np.ones(sends), np.full(steps, inf))
        return assembled(rows, cost, upper, integral=integral)


def assembled(
    rows: list[SendRows], cost: NDArray[np.float64], upper: NDArray[np.float64], *, integral: bool
) -> LinearProgram:
    """The program of these rows, one kind after the other, of columns from 0 to ``upper``."""
    first = np.cumsum([0] + [len(some.lower) for some in rows])
    row = np.concatenate([some.row + at for some, at in zip(rows, first, strict=False)])
    column = np.concatenate([some.column for some in rows])
    order = np.lexsort((column, row))
    return LinearProgram(
        cost,
        np.searchsorted(row[order], np.arange(first[-1] + 1)),
        column[order],
        np.concatenate([some.value for some in rows])[order],
        np.concatenate([some.lower for some in rows]).astype(float),
        np.concatenate([some.upper for some in rows]).astype(float),
        np.zeros(len(cost)),
        upper,
        np.full(len(cost), True) if integral else None,
    )


def broadcasts(topology: Topology, num_steps: int, *, invariant: bool) -> Broadcasts:
    """The sends of an allgather in at most so many steps; invariant ones if there is a symmetry."""
    roots = np.arange(topology.num_nodes)
    link_class = np.arange(topology.num_links)
    if invariant and topology.symmetry is not None:
        roots = topology.symmetry.representatives()
        link_class = topology.symmetry.link_orbit.astype(np.int64)
    unit = lcm(*topology.speeds().tolist())
    if unit > MAX_UNIT:
        raise ValueError(
            f"the least common multiple of the link speeds is {unit}: exact schedules take at most "
            f"{MAX_UNIT}"
        )
    distance = topology.distances()[roots]
    useful = (topology.head != topology.tail) & (topology.head != roots[:, None])
    before = distance[:, topology.tail, None] < np.arange(1, num_steps + 1)
    can_send = useful[:, :, None] & before
    send_of = np.where(can_send, np.cumsum(can_send).reshape(can_send.shape) - 1, -1)
    root, link, at_step = np.nonzero(can_send)
    graph = _TimeExpanded.of(topology, num_steps)
    return Broadcasts(
        topology, num_steps, graph, roots, link_class, unit, root, link, at_step + 1, send_of
    )


def _copies(numbers: NDArray[np.int64], num_copies: int, stride: int) -> NDArray[np.int64]:
    """The numbers once a copy, each copy a stride after the one before."""
    copies: NDArray[np.int64] = (np.arange(num_copies)[:, None] * stride + numbers).ravel()
    return copies
