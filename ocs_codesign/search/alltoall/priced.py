"""General digraphs of few nodes for all-to-all, annealed by what prices of links prove of it.

Up to MAX_NODES nodes a digraph need not be a lift to be found. An estimate in a few rounds of
prices sees what hops and evenly split shortest paths do not: that longer paths relieve links.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.graphs.families.lift import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.kernels import compiled
from ocs_codesign.lp import DEFAULT_OPTIONS
from ocs_codesign.schedulers.alltoall.throughput import throughput
from ocs_codesign.search.alltoall.priced_kernels import NEVER, anneal_priced
from ocs_codesign.search.draws import words_of

if TYPE_CHECKING:
    from ocs_codesign.question import Question
    from ocs_codesign.search.effort import Effort

MAX_NODES = 64
_ROUNDS, _HEAT = 24, 1.0
_SHORTER = (1, 4, 16, 1, 4, 16)
"""Each annealing is so many times shorter: the least estimate is not always the least time."""
_VISITS = 2**5
"""Looks of a root at a pair of nodes for a unit of work."""
_MAX_MOVES, _LEAST_MOVES = 40_000, 100


def priced_recipes(question: Question, effort: Effort) -> list[Lift]:
    """The digraphs that annealings from several seeds find, the least exact time first.

    >>> from ocs_codesign.question import Question
    >>> from ocs_codesign.search.effort import Effort
    >>> best = priced_recipes(Question(7, 2), Effort(work=2**20))[0]
    >>> throughput(best.topology()).time
    Fraction(11, 7)
    """
    nodes = question.num_nodes
    if nodes > MAX_NODES or (question.bidirectional and nodes * question.degree % 2):
        return []
    moves = min(_MAX_MOVES, effort.work * _VISITS // nodes**3)
    if moves < _LEAST_MOVES:
        return []
    found: dict[Lift, Fraction] = {}
    for attempt, shorter in enumerate(_SHORTER):
        recipe = priced(question, moves // shorter, effort.seed + attempt)
        if recipe is not None and recipe not in found:
            found[recipe] = throughput(recipe.topology(), DEFAULT_OPTIONS).time
    return sorted(found, key=found.__getitem__)


def priced(question: Question, moves: int, seed: int) -> Lift | None:
    """The best that annealing from a random digraph finds, None if none is strongly connected."""
    nodes, degree = question.num_nodes, question.degree
    slots = nodes * degree
    rng = np.random.default_rng((seed, nodes, degree, question.bidirectional))
    mate = np.full(slots, -1, dtype=np.int64)
    to = rng.permutation(np.arange(slots, dtype=np.int64) // degree)
    if question.bidirectional:
        pairs = rng.permutation(slots).reshape(-1, 2)
        mate[pairs] = pairs[:, ::-1]
        to = mate // degree
    best = to.copy()
    with words_of(rng, 3 * moves, 2 * moves) as drawn:
        sizes = (degree, _ROUNDS, _HEAT, moves, 0.0)
        score = compiled(anneal_priced)(to, mate, *sizes, *drawn, best)
    if score >= NEVER:
        return None
    rows = np.sort(best.reshape(nodes, degree), axis=1).tolist()
    return Lift(Cyclic(1), tuple(map(tuple, rows)))
