"""Between the fewest steps and the least t_b: searches for designs of every size.

Round sizes have Cayley digraphs, lifts and line digraphs; for the rest, primes above all, affine
digraphs, neighbouring sizes with nodes taken out or put in, and swaps of links fill what lies
between the design of the fewest steps and the first bandwidth-optimal one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.bounds import bound, fewest_steps
from ocs_codesign.collective import Collective
from ocs_codesign.graphs.expansions.edits import Swap
from ocs_codesign.search.affine import affine_recipes
from ocs_codesign.search.edited import edited_recipes
from ocs_codesign.search.pareto import pareto
from ocs_codesign.search.swaps import annealed, moves_within, swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question
    from ocs_codesign.search.effort import Effort

    Measure = Callable[[list[Recipe]], list[Design]]
    Progress = Callable[[str, int, int], None]

MAX_NODES = 2048
MAX_DEGREE = 8
MAX_ANNEALED_NODES = 64
_CLOSE, _CLOSE_AT_FEWEST = Fraction(1, 200), Fraction(1, 10)
_MAX_GAPS = 4
_EDIT_WORDS, _SWAP_WORDS, _ANNEAL_WORDS = 2**9, 2**9, 2**8
"""Words of reach sets to look at for a unit of work: in all, and in every annealing."""
_MAX_MOVES, _MOVES_A_NODE, _LEAST_MOVES = 2**16, 2**11, 32
_SEEDS = 3


def filled(
    question: Question,
    scored: list[Design],
    near: list[Design],
    effort: Effort,
    measure: Measure,
    on_progress: Progress | None = None,
) -> list[Design]:
    """Measured designs for the steps at which the known ones are not close to the least t_b.

    ``near`` are designs of neighbouring sizes. Each search starts from what those before it found.
    """
    if not (2 <= question.degree <= MAX_DEGREE and question.num_nodes <= MAX_NODES):
        return []
    if not effort.work or question.num_nodes <= question.degree + 1:
        return []
    found: list[Design] = []
    for number, search in enumerate((_affine, _edited, _annealed, _swapped)):
        steps = open_steps([*scored, *found], question)
        if not steps:
            break
        if on_progress is not None:
            on_progress("searches between the fewest steps and the least t_b", number, 4)
        recipes = search(question, [*scored, *found], near, effort, steps)
        known = {design.recipe for design in (*scored, *found)}
        found += measure([recipe for recipe in recipes if recipe not in known])
    return found


def open_steps(scored: list[Design], question: Question) -> list[int]:
    """The fewest steps for which nothing known is close to the least t_b, of the allgather.

    Of more than MAX_ANNEALED_NODES nodes a tenth above it is close for the fewest steps there can
    be, where half a minute of search seldom finds better.

    >>> from ocs_codesign.design import measure
    >>> from ocs_codesign.question import Question
    >>> open_steps([measure("DirectedCirculant(61, (1, 7, 31, 48))", "allreduce")], Question(61, 4))
    [3, 4]
    """
    nodes, degree = question.num_nodes, question.degree
    enough = bound(nodes, degree).t_b * (1 + _CLOSE)
    costs = [design.cost_of(Collective.ALLGATHER) for design in scored]
    first = min((cost.steps for cost in costs if cost.t_b <= enough), default=nodes)
    fewest = fewest_steps(nodes, degree, bidirectional=question.bidirectional)
    if nodes > MAX_ANNEALED_NODES:
        close = bound(nodes, degree).t_b * (1 + _CLOSE_AT_FEWEST)
        fewest += any(cost.steps == fewest and cost.t_b <= close for cost in costs)
    return list(range(fewest, first))[:_MAX_GAPS]


def _affine(
    question: Question, _s: list[Design], _n: list[Design], effort: Effort, _k: list[int]
) -> list[Recipe]:
    return list(affine_recipes(question, effort))


def _edited(
    question: Question, scored: list[Design], near: list[Design], effort: Effort, _k: list[int]
) -> list[Recipe]:
    known = [design.cost_of(Collective.ALLGATHER) for design in scored]
    return edited_recipes(question, near, effort.work * _EDIT_WORDS, effort.seed, known)


def _annealed(
    question: Question, _s: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """From random digraphs, where these are few enough to search among them all."""
    if question.num_nodes > MAX_ANNEALED_NODES:
        return []
    found: list[Recipe] = []
    for at_most in steps:
        moves = _moves(question, at_most, effort.work * _ANNEAL_WORDS)
        for attempt in range(_SEEDS):
            recipe = annealed(question, at_most, moves, effort.seed + attempt)
            found += [] if recipe is None else [recipe]
    return found


def _swapped(
    question: Question, scored: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """From the best of so many steps, and from the best of one more."""
    found: list[Recipe] = []
    front = [design for design in pareto(scored, Collective.ALLGATHER)[0] if design.measured]
    for at_most in steps:
        starts: dict[Recipe, None] = {}
        for most in (at_most, at_most + 1):
            within = [one for one in front if one.cost_of(Collective.ALLGATHER).steps <= most]
            starts.update({within[-1].recipe: None} if within else {})
        words = effort.work * _SWAP_WORDS // (len(steps) * max(1, len(starts)))
        moves = _moves(question, at_most, words)
        for start in starts:
            recipe = swapped(question, start, at_most, moves, effort.seed)
            found += [recipe] if isinstance(recipe, Swap) else []
    return found


def _moves(question: Question, steps: int, words: int) -> int:
    moves = moves_within(question, steps, words)
    most = min(_MAX_MOVES, _MOVES_A_NODE * question.num_nodes)
    return min(moves, most) if moves >= _LEAST_MOVES else 0
