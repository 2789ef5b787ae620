"""Neighbouring sizes: a good design of a few nodes more or less, nodes taken out or put in."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from math import ceil, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.bounds import bound, fewest_steps, least_t_b
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.cost import undominated
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.graphs.expansions.edits import Excise, Insert, Swap
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.generators import affine_recipes
from ocs_codesign.search.late import (
    late_recipes,
    late_within,
    led_on_recipes,
    spliced_recipes,
    within_steps,
)
from ocs_codesign.search.lifts import (
    MAX_LOADED_NODES,
    annealed,
    has_room,
    moves_within,
    shares,
    short_lifts,
    swapped,
)
from ocs_codesign.search.move_kernels import count_dependent, score_cuts, score_insertions
from ocs_codesign.search.pareto import pareto
from ocs_codesign.search.slack import a_line_less, slack_recipes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.bases import Effort

    Measure = Callable[[list[Recipe]], list[Design]]


MAX_DISTANCE = 8
"""Nodes that a neighbouring size has more or less at most."""
_NODES_AN_EDIT = 16
_MAX_OVER_BOUND = Fraction(21, 20)
_MAX_MORE_STEPS = 2
MAX_EDITED_DEGREE = 8
_MOST_TRIES, _LEAST_TRIES = 1024, 8
_WORDS_A_TRY = 2**2
_STARTS, _STARTS_IF_LARGE = 8, 2
_MORE_STEPS = 4
_LEAST_WIDTH, _LEAST_CHOICE = 3, 24
_NEVER = 1 << 60

Edited = Excise | Insert


def neighbours(
    question: Question,
    catalogue: str | Path | None = None,
    expanded: Callable[[Question, Catalogue], list[Design]] | None = None,
) -> list[Design]:
    """Stored designs of sizes near a question's, the nearest and best first.

    Where a size is not stored, those that are ``expanded`` from what is.

    Undominated in the allgather, of few more steps than any topology needs, and those within a
    twentieth of the least t_b first: what is far from both is no better a start than any.
    """
    found: list[Design] = []
    most = min(MAX_DISTANCE, question.num_nodes // _NODES_AN_EDIT)
    with Catalogue(catalogue) as store:
        for nodes in range(question.num_nodes - most, question.num_nodes + most + 1):
            if nodes == question.num_nodes or nodes <= question.degree + 1:
                continue
            near = Question(nodes, question.degree, question.bidirectional)
            designs = [entry.design() for entry in store.entries(near) if entry.measured]
            if expanded is not None and not designs:
                designs = expanded(near, store)
            found += undominated(designs, lambda one: one.cost_of(Collective.ALLGATHER))
    starts = filter(_has_few_steps, found)
    return sorted(starts, key=lambda one: (not _is_close(one), _promise(question, one)))


def edited_recipes(
    question: Question, near: list[Design], words: int, seed: int, known: Iterable[Cost] = ()
) -> list[Recipe]:
    """For every number of steps the best that single nodes, one after the other, lead to.

    At every node a seeded sample of places and permutations is scored; the least t_b goes on.
    ``words`` bounds the work on reach sets; what no more than meets ``known`` allgathers is left
    out.

    >>> from ocs_codesign.schedules.design import measure
    >>> start = measure("DirectedCirculant(8, (1, 3))", "allreduce")
    >>> [recipe] = edited_recipes(Question(7, 2), [start], 2**18, seed=1)
    >>> recipe.predict()
    Cost(steps=3, t_b=Fraction(1, 1))
    """
    if question.bidirectional or not 2 <= question.degree <= MAX_EDITED_DEGREE:
        return []
    least = _least_totals(question, known)
    best: dict[int, Edited] = {}
    starts = near[: _STARTS if question.num_nodes <= MAX_STORED_NODES else _STARTS_IF_LARGE]
    for number, design in enumerate(starts):
        rng = np.random.default_rng((seed, question.num_nodes, question.degree, number))
        chain = abs(design.recipe.num_nodes - question.num_nodes)
        steps = design.cost_of(Collective.ALLGATHER).steps
        tries = _tries(question, steps, words // len(starts) // chain)
        best.update(_led_to(question, design.recipe, tries, rng, least))
    return list(dict.fromkeys(best.values()))


def _led_to(
    question: Question,
    base: Recipe,
    tries: int,
    rng: np.random.Generator,
    least: NDArray[np.int64],
    at_most: int = 0,
) -> dict[int, Edited]:
    """Edits of a base that beat ``least`` at some number of steps, which is updated.

    Each starts from the best of one node less edited. Where so many steps ``at_most`` are wanted,
    those are edited on which the fewest nodes as far apart depend.
    """
    wanted, chosen = question.num_nodes, list[tuple[Any, ...]]()
    topology = base.topology()
    while True:
        is_last = abs(topology.num_nodes - wanted) == 1
        limits = least if is_last else np.full_like(least, _NEVER)
        dependent = _dependent(topology, at_most)
        rows = _sampled(base, topology, chosen, wanted, tries, rng, dependent)
        best = _scored(topology, rows, wanted, limits)
        places = {steps: int(best[steps]) for steps in np.flatnonzero(best >= 0).tolist()}
        if is_last or not places:
            return {
                steps: _edit(base, (*chosen, _row(base, chosen, rows[place], wanted)), wanted)
                for steps, place in places.items()
            }
        # The least total is that of the most steps, for it is the least in at most so many.
        chosen.append(_row(base, chosen, rows[places[max(places)]], wanted))
        topology = _edit(base, tuple(chosen), wanted).topology()


def _least_totals(question: Question, known: Iterable[Cost]) -> NDArray[np.int64]:
    """By number of steps, the least total load of known allgathers in at most so many."""
    steps = fewest_steps(question.num_nodes, question.degree) + _MORE_STEPS
    unit = lcm(*range(1, question.degree + 1))
    least = np.full(steps + 1, _NEVER, dtype=np.int64)
    for cost in known:
        # t_b is the total load over N / d.
        total = cost.t_b * unit * question.num_nodes / question.degree
        if cost.steps <= steps:
            least[cost.steps :] = np.minimum(least[cost.steps :], ceil(total))
    return least


def _sampled(
    base: Recipe,
    topology: Topology,
    chosen: list[tuple[Any, ...]],
    wanted: int,
    tries: int,
    rng: np.random.Generator,
    dependent: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Rows of ``edit_kernels``: nodes and permutations to take out, or links to divide.

    Of those on which the fewest depend. Where all nodes are alike, taking out any is the same.
    """
    degree = base.degree
    if base.num_nodes < wanted:
        few = _fewest(dependent)
        links = few[rng.integers(0, len(few), (tries, degree))]
        ordered = np.sort(links, axis=1)
        return links[(np.diff(ordered, axis=1) > 0).all(axis=1)]
    ends = np.concatenate([topology.tail, topology.head])
    few = _fewest(np.bincount(ends, np.tile(dependent, 2)))
    nodes = few[rng.integers(0, len(few), (tries, 1))]
    if not chosen and topology.symmetry is not None:
        nodes = topology.symmetry.representatives()[topology.symmetry.node_orbit[nodes]]
    ports = rng.permuted(np.tile(np.arange(degree), (tries, 1)), axis=1)
    rows = np.concatenate([nodes, ports], axis=1)
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)]


def _dependent(topology: Topology, steps: int) -> NDArray[np.int64]:
    """How many pairs of nodes so many steps apart depend on every link; all 0 for no steps."""
    dependent = np.zeros(topology.num_links, dtype=np.int64)
    if steps:
        order = np.argsort(topology.tail, kind="stable")
        sizes = topology.num_nodes, steps
        compiled(count_dependent)(topology.tail, topology.head, order, *sizes, dependent)
    return dependent


def _fewest(dependent: NDArray[Any]) -> NDArray[np.int64]:
    """Places of the least, of ties all, so that there is a choice."""
    few = min(_LEAST_CHOICE, len(dependent)) - 1
    return np.flatnonzero(dependent <= np.partition(dependent, few)[few])


def _scored(
    topology: Topology, rows: NDArray[np.int64], wanted: int, least: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By number of steps the row that beats ``least``, which is updated, -1 where none does."""
    nodes, degree = topology.num_nodes, topology.degree
    width = max(degree, _LEAST_WIDTH)
    by_head = np.argsort(topology.head, kind="stable")
    slots = np.empty(len(by_head), dtype=np.int64)
    slots[by_head] = np.arange(len(by_head)) // degree * width + np.arange(len(by_head)) % degree
    into = np.repeat(np.arange(nodes, dtype=np.int64), width).reshape(nodes, width)
    into[:, :degree] = topology.tail[by_head].reshape(nodes, degree)
    share = shares(degree, width)
    best = np.full(len(least), -1, dtype=np.int64)
    if wanted > nodes:
        compiled(score_insertions)(into, slots, rows, degree, share, least, best)
    else:
        out_slots = slots[np.argsort(topology.tail, kind="stable")].reshape(nodes, degree)
        compiled(score_cuts)(into, out_slots, rows, degree, share, least, best)
    return best


def _row(
    base: Recipe, chosen: list[tuple[Any, ...]], row: NDArray[np.int64], wanted: int
) -> tuple[Any, ...]:
    """A row as a recipe has it: nodes that are taken out have the base's numbers."""
    numbers = row.tolist()
    if base.num_nodes < wanted:
        return tuple(numbers)
    gone = {cut[0] for cut in chosen}
    left = [node for node in range(base.num_nodes) if node not in gone]
    return (left[numbers[0]], tuple(numbers[1:]))


def _edit(base: Recipe, rows: tuple[Any, ...], wanted: int) -> Edited:
    """The base after edits in the direction of a size."""
    return (Insert if base.num_nodes < wanted else Excise)(base, rows)


def _tries(question: Question, steps: int, words: int) -> int:
    """Edits of a node that may be tried."""
    nodes, width = question.num_nodes, max(_LEAST_WIDTH, question.degree)
    a_try = (nodes * -(-nodes // 64) << width) * steps + nodes * _WORDS_A_TRY * width
    return max(_LEAST_TRIES, min(_MOST_TRIES, words // a_try))


def _has_few_steps(design: Design) -> bool:
    recipe, cost = design.recipe, design.cost_of(Collective.ALLGATHER)
    return cost.steps <= bound(recipe.num_nodes, recipe.degree).steps + _MAX_MORE_STEPS


def _is_close(design: Design) -> bool:
    recipe, cost = design.recipe, design.cost_of(Collective.ALLGATHER)
    return cost.t_b <= bound(recipe.num_nodes, recipe.degree).t_b * _MAX_OVER_BOUND


def _promise(question: Question, design: Design) -> tuple[object, ...]:
    recipe, cost = design.recipe, design.cost_of(Collective.ALLGATHER)
    least = bound(recipe.num_nodes, recipe.degree)
    distance = abs(recipe.num_nodes - question.num_nodes)
    worse = cost.t_b / least.t_b - 1 + Fraction(cost.steps - least.steps, 50)
    return (worse + Fraction(distance, 400), distance, repr(recipe))


# Between the fewest steps and the least t_b: searches for designs of every size.
#
# Round sizes have Cayley digraphs, lifts and line digraphs; for the rest, primes above all,
# affine digraphs, neighbouring sizes with nodes taken out or put in, and swaps of links fill what
# lies between the design of the fewest steps and the first bandwidth-optimal one.


MAX_NODES = 2**14
MAX_DEGREE = 8
MAX_STORED_NODES = 2048
"""Above this size every score is long: few starts are edited, and links are not swapped."""
_CLOSE, _CLOSE_AT_FEWEST = Fraction(1, 200), Fraction(1, 10)
_MAX_GAPS = 4
_EDIT_WORDS, _SWAP_WORDS, _ANNEAL_WORDS, _LIFT_VISITS = 2**9, 2**9, 2**8, 2**14
"""Words of reach sets to look at for a unit of work: in all, and in every annealing."""
_MAX_MOVES, _MOVES_A_NODE, _LEAST_MOVES = 2**16, 2**11, 32
_SEEDS = 3
_FAR, _FAR_OF_LIFTS, _UNANSWERED = Fraction(3, 50), Fraction(1, 50), Fraction(100)
"""Above the bound: what late schedules are looked for on edited neighbours, what on lifts, and what
has none."""
_STEPS_LED_TO, _BASES, _LIFTS, _LATE_EDIT_WORDS, _BRIEF_WORK = 2, 8, 3, 2**12, 2**14


def filled(
    question: Question, scored: list[Design], near: list[Design], effort: Effort, measure: Measure
) -> list[Design]:
    """Measured designs for the steps at which the known ones are not close to the least t_b.

    ``near`` are designs of neighbouring sizes. Each search starts from what those before it found.
    """
    if not (2 <= question.degree <= MAX_DEGREE and question.num_nodes <= MAX_NODES):
        return []
    if not effort.work or question.num_nodes <= question.degree + 1:
        return []
    found: list[Design] = []
    is_large = question.num_nodes > MAX_STORED_NODES
    searches = [_affine, _edited, _late] if is_large else [*SEARCHES]
    for number, search in enumerate(searches):
        closely = search in _CLOSELY
        steps = open_steps([*scored, *found], question, closely=closely)
        if not steps:
            continue
        tell_phase("searches between the fewest steps and the least t_b", number, len(searches))
        recipes = search(question, [*scored, *found], near, effort, steps)
        known = {design.recipe for design in (*scored, *found)}
        found += measure([recipe for recipe in recipes if recipe not in known])
    return found


def open_steps(scored: list[Design], question: Question, *, closely: bool = False) -> list[int]:
    """The fewest steps for which nothing known is close to the least t_b, of the allgather.

    Unless ``closely``, of more than MAX_LOADED_NODES nodes a tenth above it is close for the
    fewest steps there can be, where half a minute of search seldom finds better.

    >>> from ocs_codesign.schedules.design import measure
    >>> from ocs_codesign.schedules.design import Question
    >>> open_steps([measure("DirectedCirculant(61, (1, 7, 31, 48))", "allreduce")], Question(61, 4))
    [3, 4]
    """
    nodes, degree = question.num_nodes, question.degree
    enough = bound(nodes, degree).t_b * (1 + _CLOSE)
    costs = [design.cost_of(Collective.ALLGATHER) for design in scored]
    first = min((cost.steps for cost in costs if cost.t_b <= enough), default=nodes)
    fewest = fewest_steps(nodes, degree, bidirectional=question.bidirectional)
    if nodes > MAX_LOADED_NODES and not closely:
        close = bound(nodes, degree).t_b * (1 + _CLOSE_AT_FEWEST)
        fewest += any(cost.steps == fewest and cost.t_b <= close for cost in costs)
    return list(range(fewest, first))[:_MAX_GAPS]


def _affine(
    question: Question, _s: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    spliced = spliced_recipes(question, steps)
    return [*affine_recipes(question, effort), *spliced, *led_on_recipes(question)]


def _edited(
    question: Question, scored: list[Design], near: list[Design], effort: Effort, _k: list[int]
) -> list[Recipe]:
    known = [design.cost_of(Collective.ALLGATHER) for design in scored]
    starts = [*filter(_is_close, near)]
    return edited_recipes(question, starts, effort.work * _EDIT_WORDS, effort.seed, known)


def _annealed(
    question: Question, _s: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """From random digraphs, where these are few enough to search among them all."""
    found: list[Recipe] = []
    if question.num_nodes <= MAX_LOADED_NODES:
        for at_most, attempt in product(steps, range(_SEEDS)):
            moves = _moves(question, at_most, effort.work * _ANNEAL_WORDS)
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


def _late(
    question: Question, scored: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """Items that arrive later than they could, on the best graphs of so many steps."""
    return [*late_recipes(question, scored, effort, steps)]


def _late_on_lifts(
    question: Question, scored: list[Design], _n: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """Items that arrive late on lifts annealed by their distances alone, where all else is far.

    Late schedules are next to the bound on most of them, whatever their loads under BFB.
    """
    if not MAX_LOADED_NODES < question.num_nodes <= MAX_STORED_NODES:
        return []
    found: list[Recipe] = []
    for at_most in _far_within(question, scored, steps, _FAR_OF_LIFTS):
        if has_room(question, at_most):
            visits = effort.work * _LIFT_VISITS
            lifts = [*islice(short_lifts(question, at_most, visits, effort.seed), _LIFTS)]
            late = late_within(question, lifts, at_most, effort)
            found += sorted(late, key=lambda one: one.predict().t_b)[:1]
    return found


def _late_on_neighbours(
    question: Question, scored: list[Design], near: list[Design], effort: Effort, steps: list[int]
) -> list[Recipe]:
    """Items that arrive late on graphs of a few nodes more or less, where all else is far.

    A graph with nodes put in or taken out is often a third above the bound, and its late schedule
    within a tenth: what decides is that it has the steps. A few of digraphs with slack are tried
    briefly, and a few of what is stored, and the best of each at length.
    """
    if question.bidirectional:
        return []
    found: list[Recipe] = []
    brief = replace(effort, work=min(effort.work, _BRIEF_WORK))
    for at_most, known in _far_within(question, scored, steps, _FAR).items():
        promise = {design: _promise_within(question, design, at_most) for design in near}
        bases = [one for one in sorted(near, key=promise.__getitem__) if promise[one] < known]
        for kind in (slack_recipes(question, at_most, effort), within_steps(bases, at_most)):
            starts = [
                edit
                for number, base in enumerate(kind[:_BASES])
                for edit in _edited_within(question, base, at_most, effort, number)
            ]
            tried = late_within(question, starts, at_most, brief)
            best = sorted(tried, key=lambda one: one.predict().t_b)[:1]
            found += late_within(question, [one.g for one in best], at_most, effort)
    return found


def _far_within(
    question: Question, scored: list[Design], steps: list[int], far: Fraction
) -> dict[int, Fraction]:
    """How far above the bound the best is at the first steps beyond the fewest, where it is far."""
    size, both = (question.num_nodes, question.degree), question.bidirectional
    fewest = fewest_steps(*size, bidirectional=both)
    costs = [design.cost_of(Collective.ALLGATHER) for design in scored]
    beyond = [one for one in steps if one > fewest][:_STEPS_LED_TO]
    excess = {at_most: _excess(question, costs, at_most) for at_most in beyond}
    return {at_most: over for at_most, over in excess.items() if over > far}


def _promise_within(question: Question, design: Design, at_most: int) -> Fraction:
    nodes, cost = design.recipe.num_nodes, design.cost_of(Collective.ALLGATHER)
    distance = Fraction(abs(nodes - question.num_nodes), 100)
    return _excess(Question(nodes, question.degree), [cost], at_most) + distance


def _edited_within(
    question: Question, base: Recipe, at_most: int, effort: Effort, number: int
) -> list[Recipe]:
    """The edit of a base with the least t_b in at most so many steps, if there is any.

    One of the size itself is left as it is. In a line digraph the graph of which it is one is
    edited first, so that a node put in there is as many as it has ports here.
    """
    if isinstance(base, Line):
        less = a_line_less(question, base.num_nodes)
        for one in _edited_within(less, base.g, at_most - 1, effort, number):
            base = Line(one)
    if base.num_nodes == question.num_nodes:
        return [base]
    rng = np.random.default_rng((effort.seed, question.num_nodes, question.degree, number))
    words = effort.work * _LATE_EDIT_WORDS // abs(base.num_nodes - question.num_nodes)
    least = np.full(at_most + 1, _NEVER, dtype=np.int64)
    led = _led_to(question, base, _tries(question, at_most, words), rng, least, at_most)
    return [led[max(led)]] if led else []


def _excess(question: Question, costs: list[Cost], at_most: int) -> Fraction:
    """The least t_b in at most so many steps above its bound, as a share of it."""
    size, both = (question.num_nodes, question.degree), question.bidirectional
    least = least_t_b(*size, at_most, bidirectional=both)
    within = [cost.t_b for cost in costs if cost.steps <= at_most]
    return min(within) / least - 1 if least and within else _UNANSWERED


_CLOSELY = (_late, _late_on_lifts, _late_on_neighbours)
SEARCHES = (_affine, _edited, _annealed, _swapped, *_CLOSELY)


def _moves(question: Question, steps: int, words: int) -> int:
    moves = moves_within(question, steps, words)
    most = min(_MAX_MOVES, _MOVES_A_NODE * question.num_nodes)
    return min(moves, most) if moves >= _LEAST_MOVES else 0
