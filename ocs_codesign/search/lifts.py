"""Local search for lifts: fills the steps at which a frontier has no bandwidth-optimal design yet.

Where groups are few (prime N, or N with a large prime factor) Cayley digraphs need many steps.
Lifts of small voltage digraphs are nearly as cheap to score and far more plentiful; over the
trivial group they are all digraphs, and the moves are link swaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.graphs.families.lift import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.kernels import compiled
from ocs_codesign.search.draws import words_of
from ocs_codesign.search.lift_kernels import climb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.cost import Cost
    from ocs_codesign.question import Question
    from ocs_codesign.search.effort import Effort

MAX_SWAPPED_NODES = 128
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

    >>> from ocs_codesign.question import Question
    >>> gaps(Question(100, 2), [])
    [7, 8, 9]
    """
    nodes = question.num_nodes
    optimal = min(
        (cost.steps for cost in costs if cost.t_b == Fraction(nodes - 1, nodes)), default=nodes
    )
    room = (k for k in range(1, optimal) if 2 * nodes <= _reachable(question, k))
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


def _reachable(question: Question, steps: int) -> int:
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
