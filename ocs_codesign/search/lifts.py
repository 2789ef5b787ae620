"""Local search for lifts: fills the steps at which a frontier has no bandwidth-optimal design yet.

Where groups are few (prime N, or N with a large prime factor) Cayley digraphs need many steps.
Lifts of small voltage digraphs are nearly as cheap to score and far more plentiful; over the
trivial group they are all digraphs, and the moves are link swaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import cycle, islice, product
from math import exp, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.graphs.expansions.edits import Swap
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.search.generators import words_of
from ocs_codesign.search.move_kernels import anneal, anneal_hops, climb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.bases import Effort


MAX_SWAPPED_NODES = 128
MAX_LOADED_NODES = 64
MAX_LIFTED_NODES = 2048
MAX_LIFTED_DEGREE = 8
_MAX_ORBITS = 40
_WANTED_ORBITS = (4, 8, 12)
_MAX_GAPS = 3
_STARTS = 2
_LEAST_MOVES = 8


def climbed(
    question: Question, costs: Iterable[Cost], effort: Effort, *, both: bool
) -> Iterator[Lift]:
    """Lifts for the steps that lack a bandwidth-optimal design, given the costs known so far.

    Scored by the allgather, or with ``both`` by the allreduce. Half of the work of a number of
    steps goes to several starts, the other half to the best of them.
    """
    nodes, degree = question.num_nodes, question.degree
    if not 2 <= degree <= MAX_LIFTED_DEGREE or not degree < nodes <= MAX_LIFTED_NODES:
        return
    for steps in gaps(question, costs):
        best = _best_climb(question, steps, effort, both)
        if best is not None:
            yield best.recipe(degree)
            if best.is_optimal:
                break


def gaps(question: Question, costs: Iterable[Cost]) -> list[int]:
    """The fewest steps that the size leaves room for and no bandwidth-optimal design meets yet.

    >>> from ocs_codesign.schedules.design import Question
    >>> gaps(Question(100, 2), [])
    [7, 8, 9]
    """
    nodes = question.num_nodes
    optimal = min(
        (cost.steps for cost in costs if cost.t_b == Fraction(nodes - 1, nodes)), default=nodes
    )
    room = (k for k in range(1, optimal) if 2 * nodes <= reachable(question, k))
    return list(islice(room, _MAX_GAPS))


def orbit_counts(nodes: int) -> list[int]:
    """Numbers of nodes of the voltage digraphs to try, N itself among them while that is cheap.

    >>> [orbit_counts(nodes) for nodes in (900, 62, 127, 901, 1021)]
    [[4, 9, 12], [2, 62], [127], [17], []]
    """
    divisors = [b for b in range(2, min(nodes - 1, _MAX_ORBITS) + 1) if nodes % b == 0]
    chosen = {min(divisors, key=lambda b: abs(b - wanted)) for wanted in _WANTED_ORBITS if divisors}
    if nodes <= MAX_SWAPPED_NODES * (1 if divisors else 2):
        chosen.add(nodes)
    return sorted(chosen)


@final
@dataclass(slots=True)
class _Climb:
    """A voltage digraph under way: slots as in ``lift_kernels``, and its score so far."""

    tail: NDArray[np.int64]
    voltage: NDArray[np.int64]
    mate: NDArray[np.int64]
    order: int
    moves: int
    rng: np.random.Generator
    score: tuple[int, int, int] = (0, 0, 0)
    is_optimal: bool = False

    def recipe(self, degree: int) -> Lift:
        """The lift in its present state."""
        heads = np.arange(len(self.tail)) // degree * self.order + self.voltage
        by_tail = heads[np.lexsort((heads, self.tail))].reshape(-1, degree)
        return Lift(Cyclic(self.order), tuple(tuple(row) for row in by_tail.tolist()))


def _best_climb(question: Question, steps: int, effort: Effort, both: bool) -> _Climb | None:
    """The best lift found of at most so many steps, None if all found need more."""
    nodes, degree = question.num_nodes, question.degree
    unit = lcm(*range(1, degree + 1))
    share = np.array([0] + [unit // links.bit_count() for links in range(1, 1 << degree)])
    least = (nodes - 1) * unit // degree * (1 + both)

    def improve(state: _Climb, moves: int) -> None:
        arrays = (state.tail, state.voltage, state.mate)
        sizes = (degree, state.order, steps, share, both, least)
        with words_of(state.rng, 3 * moves, moves) as drawn:
            state.score = compiled(climb)(*arrays, *sizes, moves, *drawn)
        state.is_optimal = state.score[:2] == (0, least)

    states = list(_starts(question, steps, effort))
    for state in states:
        improve(state, state.moves // (2 * len(states)))
        if state.is_optimal:
            return state
    best = min(states, key=lambda state: state.score, default=None)
    if best is not None:
        improve(best, best.moves // 2)
    return best if best is not None and best.score[0] == 0 else None


def _starts(question: Question, steps: int, effort: Effort) -> Iterator[_Climb]:
    """Random voltage digraphs, with the moves that the effort allows for each if it were alone."""
    nodes, degree = question.num_nodes, question.degree
    for orbits, attempt in product(orbit_counts(nodes), range(_STARTS)):
        rng = np.random.default_rng((effort.seed, nodes, degree, steps, orbits, attempt))
        visits = orbits * (nodes * degree + (steps * degree << degree))
        moves = effort.climb_visits(nodes) // visits
        voltages = _random_voltages(question, orbits, rng)
        if voltages is not None and moves >= _LEAST_MOVES:
            yield _Climb(*voltages, nodes // orbits, moves, rng)


def reachable(question: Question, steps: int) -> int:
    """Moore bound: most nodes within so many steps of one."""
    degree = question.degree
    branches = degree - 1 if question.bidirectional else degree
    within: int = 1 + degree * sum(branches**k for k in range(steps))
    return within


def _random_voltages(
    question: Question, orbits: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """A random voltage digraph as tails, voltages and mates of the slots; None if none exists."""
    order, slots = question.num_nodes // orbits, orbits * question.degree
    node = np.arange(slots) // question.degree
    voltage = rng.integers(0, order, slots)
    if not question.bidirectional:
        return rng.permutation(node), voltage, np.full(slots, -1)
    mate = np.arange(slots)
    shuffled = rng.permutation(slots)
    pairs = shuffled[: slots // 2 * 2].reshape(-1, 2)
    mate[pairs] = pairs[:, ::-1]
    voltage[pairs[:, 1]] = -voltage[pairs[:, 0]] % order
    if slots % 2:
        # A link that is its own reverse: a loop whose voltage is an involution.
        if order % 2:
            return None
        voltage[shuffled[-1]] = order // 2
    return node[mate], voltage, mate


# Lifts of the fewest steps, whatever their loads: late schedules on them are mostly even.


_MOST_ORBITS, _MOST_ORBITS_WITH_SLACK, _BEST_ORBITS, _ORBIT_COUNTS = 256, 48, 12, 4
_HEAT_OF_HOPS, _MOVES_OF_HOPS, _MOST_ATTEMPTS = 3.0, 20_000, 24
_VISITS_OF_QUOTIENTS = 2**21
_MISSED = 2
"""Nodes that a random digraph may have out of a node's reach for annealing to bring them in."""


def has_room(question: Question, steps: int) -> bool:
    """Whether random graphs of so many steps are near enough for annealing to find one.

    A walk misses a node of N with chance 1 - 1/N, and all walks together with exp(-walks / N). Over
    links both ways, whose distances are the same in both directions, too few have been no obstacle.

    >>> from ocs_codesign.schedules.design import Question
    >>> [has_room(Question(nodes, 3), 8) for nodes in (1400, 1600)]
    [True, False]
    """
    walks, nodes = reachable(question, steps), question.num_nodes
    return question.bidirectional or nodes <= _MISSED * exp(walks / nodes)


def short_lifts(
    question: Question, steps: int, visits: int, seed: int, *, slack: bool = False
) -> Iterator[Lift]:
    """Lifts of at most so many steps, of some numbers of orbits in turn, by annealing.

    Over cyclic groups whose number of orbits is near a dozen: a move is looked at from a node an
    orbit, and of so many graphs as there are of these there is mostly one. With ``slack`` no node
    is that many links from another by a single walk.

    >>> from ocs_codesign.schedules.design import Question
    >>> lift = next(short_lifts(Question(396, 3, bidirectional=True), 9, 2**30, seed=1))
    >>> lift.topology().diameter(), len(lift.heads), lift.bidirectional
    (9, 12, True)
    """
    nodes, degree = question.num_nodes, question.degree
    most = min(nodes, _MOST_ORBITS_WITH_SLACK if slack else _MOST_ORBITS)
    counts = [count for count in range(2, most + 1) if nodes % count == 0]
    counts.sort(key=lambda count: max(count / _BEST_ORBITS, _BEST_ORBITS / count))
    for attempt, orbits in zip(range(_MOST_ATTEMPTS), cycle(counts[:_ORBIT_COUNTS]), strict=False):
        rng = np.random.default_rng((seed, nodes, degree, steps, orbits, attempt))
        voltages = _random_voltages(question, orbits, rng)
        moves = min(_MOVES_OF_HOPS, visits // (orbits * nodes * degree))
        if moves < _LEAST_MOVES:
            break
        if voltages is None:
            continue
        visits -= moves * orbits * nodes * degree
        state = _Climb(*voltages, nodes // orbits, moves, rng)
        _spread(state, degree)
        if not _anneal_hops(state, degree, steps, moves, slack=slack):
            yield state.recipe(degree)


def _spread(state: _Climb, degree: int) -> None:
    """Links between orbits as those of a digraph of small distances, whose cuts are large.

    Where few links lead out of some orbits, what is late does not help: all else passes them.
    """
    voltage, orbits = state.voltage, len(state.tail) // degree
    quotient = replace(state, voltage=np.zeros_like(voltage), order=1)
    _anneal_hops(quotient, degree, 0, _VISITS_OF_QUOTIENTS // (orbits * orbits * degree))
    if state.mate[0] >= 0:
        slots = np.flatnonzero(np.arange(len(state.mate)) < state.mate)
        voltage[state.mate[slots]] = -voltage[slots] % state.order


def _anneal_hops(state: _Climb, degree: int, steps: int, moves: int, *, slack: bool = False) -> int:
    """The hops beyond so many steps that are left, and with ``slack`` the single walks as long."""
    sizes = (degree, state.order, steps, slack, _HEAT_OF_HOPS, moves)
    with words_of(state.rng, 3 * moves, 2 * moves) as drawn:
        arrays = (state.tail, state.voltage, state.mate)
        return int(compiled(anneal_hops)(*arrays, *sizes, *drawn))


# Local search by swaps of links, among all digraphs of a degree, from a start or from scratch.


_LEAST_WIDTH = 3
_HEAT = 0.5


def moves_within(question: Question, steps: int, words: int) -> int:
    """Moves that look at so many words of reach sets if none is given up early.

    >>> from ocs_codesign.schedules.design import Question
    >>> moves_within(Question(64, 4), 3, 2**20)
    341
    """
    nodes, degree = question.num_nodes, max(question.degree, _LEAST_WIDTH)
    return words // (nodes * -(-nodes // 64) * steps << degree)


def swapped(question: Question, start: Recipe, steps: int, moves: int, seed: int) -> Recipe | None:
    """The best of at most so many steps that a climb from a start finds, None if none has so few.

    The start itself if it cannot be improved.
    """
    topology = start.topology()
    rng = np.random.default_rng((seed, question.num_nodes, question.degree, steps))
    slots, links = _slots(topology)
    mate = _mates(topology, links) if question.bidirectional else np.full(len(slots), -1)
    score, best = _annealed(question, slots, mate, steps, 0.0, moves, rng)
    if score[0]:
        return None
    heads = np.arange(len(best)) // (len(best) // question.num_nodes)
    real = links >= 0
    pairs = swaps_between(topology, best[real], heads[real])
    return Swap(start, pairs) if pairs else start


def annealed(question: Question, steps: int, moves: int, seed: int) -> Recipe | None:
    """The best of at most so many steps that annealing finds from a random digraph, None if none.

    >>> from ocs_codesign.schedules.design import Question
    >>> annealed(Question(9, 2), 3, 20_000, seed=1).predict()
    Cost(steps=3, t_b=Fraction(8, 9))
    """
    nodes, degree = question.num_nodes, question.degree
    if question.bidirectional and nodes * degree % 2:
        return None
    rng = np.random.default_rng((seed, nodes, degree, steps, question.bidirectional))
    width = max(degree, _LEAST_WIDTH)
    tail = np.repeat(np.arange(nodes, dtype=np.int64), width).reshape(nodes, width)
    mate = np.full((nodes, width), -1, dtype=np.int64)
    links = np.arange(nodes * degree)
    slots = links // degree * width + links % degree
    if question.bidirectional:
        pairs = rng.permutation(slots).reshape(-1, 2)
        mate.flat[pairs] = pairs[:, ::-1]
        tail.flat[pairs] = pairs[:, ::-1] // width
    else:
        tail.flat[slots] = rng.permutation(links // degree)
    unit = lcm(*range(1, degree + 1))
    score, best = _annealed(question, tail.ravel(), mate.ravel(), steps, _HEAT * unit, moves, rng)
    if score[0]:
        return None
    order = np.argsort(best[slots], kind="stable")
    rows = (slots[order] // width).reshape(nodes, degree)
    return Lift(Cyclic(1), tuple(tuple(row) for row in np.sort(rows, axis=1).tolist()))


def swaps_between(
    topology: Topology, tail: NDArray[np.int64], head: NDArray[np.int64]
) -> tuple[tuple[int, int], ...]:
    """Swaps of heads that make a topology's links these, as few as its links have changed heads.

    >>> from ocs_codesign.core.topology import Topology
    >>> ring = Topology(3, [0, 1, 2], [1, 2, 0])
    >>> swaps_between(ring, np.array([0, 1, 2]), np.array([2, 0, 1]))
    ((0, 1), (1, 2))
    """
    now, wanted = topology.head.tolist(), _heads_by_link(topology, tail, head)
    pairs = []
    places_of: dict[int, list[int]] = {}
    for link in range(len(now) - 1, -1, -1):
        if now[link] != wanted[link]:
            places_of.setdefault(now[link], []).append(link)
    for link, aim in enumerate(wanted):
        if now[link] == aim:
            continue
        other = next(place for place in reversed(places_of[aim]) if place > link)
        places_of[aim].remove(other)
        if now[link] != wanted[other]:
            places_of.setdefault(now[link], []).append(other)
            places_of[now[link]].sort(reverse=True)
        pairs.append((link, other))
        now[link], now[other] = aim, now[link]
    return tuple(pairs)


def _heads_by_link(
    topology: Topology, tail: NDArray[np.int64], head: NDArray[np.int64]
) -> list[int]:
    """New heads of all links such that tails stay, and as many heads as can."""
    left: list[list[int]] = [[] for _ in range(topology.num_nodes)]
    for u, v in zip(tail.tolist(), head.tolist(), strict=True):
        left[u].append(v)
    wanted = [-1] * topology.num_links
    links = list(enumerate(zip(topology.tail.tolist(), topology.head.tolist(), strict=True)))
    for link, (u, v) in links:
        if v in left[u]:
            left[u].remove(v)
            wanted[link] = v
    for link, (u, _) in links:
        if wanted[link] < 0:
            wanted[link] = left[u].pop(0)
    return wanted


def shares(degree: int, width: int) -> NDArray[np.int64]:
    """What a source adds to the load of every set of in-links, times lcm(1, ..., d).

    Sets are numbered by their bits, of ``width`` columns those from ``degree`` on are padding.

    >>> shares(2, 3).tolist()
    [0, 2, 2, 1, 0, 2, 2, 1]
    """
    unit, real = lcm(*range(1, degree + 1)), (1 << degree) - 1
    sizes = [(links & real).bit_count() for links in range(1 << width)]
    return np.array([unit // size if size else 0 for size in sizes], dtype=np.int64)


def _slots(topology: Topology) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tails by slot as in ``swap_kernels``, and the link of every slot, -1 in padding."""
    nodes, degree = topology.num_nodes, topology.degree
    width = max(degree, _LEAST_WIDTH)
    order = np.argsort(topology.head, kind="stable")
    tail = np.repeat(np.arange(nodes, dtype=np.int64), width).reshape(nodes, width)
    tail[:, :degree] = topology.tail[order].reshape(nodes, degree)
    links = np.full((nodes, width), -1, dtype=np.int64)
    links[:, :degree] = order.reshape(nodes, degree)
    return tail.ravel(), links.ravel()


def _mates(topology: Topology, links: NDArray[np.int64]) -> NDArray[np.int64]:
    """The slot of every slot's link in the other direction."""
    slots = np.flatnonzero(links >= 0)
    tail, head = (ends[links[slots]].astype(np.int64) for ends in (topology.tail, topology.head))
    forward = np.lexsort((slots, head, tail))
    backward = np.lexsort((slots, tail, head))
    mate = np.full(len(links), -1, dtype=np.int64)
    mate[slots[forward]] = slots[backward]
    return mate


def _annealed(
    question: Question,
    tail: NDArray[np.int64],
    mate: NDArray[np.int64],
    steps: int,
    heat: float,
    moves: int,
    rng: np.random.Generator,
) -> tuple[tuple[int, int], NDArray[np.int64]]:
    """The score and the tails of the best digraph found."""
    nodes, degree = question.num_nodes, question.degree
    unit, share = lcm(*range(1, degree + 1)), shares(degree, len(tail) // nodes)
    least = (nodes - 1) * unit // degree
    best = np.empty_like(tail)
    tail, mate = tail.copy(), mate.astype(np.int64)
    sizes_of_search = (degree, share, steps, heat, moves, least)
    with words_of(rng, 4 * moves, 2 * moves) as drawn, np.errstate(over="ignore"):
        far, total = compiled(anneal)(nodes, tail, mate, *sizes_of_search, *drawn, best)
    return (int(far), int(total)), best
