"""Frontier: the mutually undominated designs of one question; exact comparison, no tolerance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, no_worse, split_dominated
from ocs_codesign.core.registry import provided
from ocs_codesign.core.shown import Tabular
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.families.dense import CompleteBipartite
from ocs_codesign.graphs.families.rings import BiRing, DirectedCirculant, Torus, UniRing
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.schedules.design import Design, Known
from ocs_codesign.search.bases import PUBLISHED_MODIFIED_DE_BRUIJN, optimal_circulant, tori

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ocs_codesign.core.cost import CostModel, MessageSizes, Point
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.catalogue.entry import Provenance


# Baselines: what a cluster would be built as without a search, to compare designs of a size with.
#
# A ring of all ports, the torus of least diameter, a double binary tree, and a bound on what a
# fat tree could do. Sources: P. Sanders, J. Speck, J. L. Traeff, Parallel Computing 35 (2009),
# for the trees; their costs here are closed forms.


TREE_PORTS = 4
"""Ports that both trees take: a node inside one, with two children, is a leaf of the other."""


def baseline_recipes(question: Question) -> tuple[Recipe, ...]:
    """The ring of all ports, two-way where it can be, and the torus of least diameter.

    >>> from ocs_codesign.schedules.design import Question
    >>> [recipe.label() for recipe in baseline_recipes(Question(64, 4))]
    ['BiRing(4,64)', 'Torus 8×8']
    """
    nodes, degree = question.num_nodes, question.degree
    two_way = degree % 2 == 0 and nodes > 2
    found: list[Recipe] = [BiRing(degree, nodes) if two_way else UniRing(degree, nodes)]
    found += sorted(tori(question), key=lambda torus: sum(side // 2 for side in torus.sides))[:1]
    return tuple(filter(question.is_answered_by, found))


def double_binary_tree(num_nodes: int, degree: int, pieces: int = 1) -> Design | None:
    """Allreduce by two binary trees, each of half of M, on links of their own; None below 4 ports.

    The height is h = ceil(log2 N). In so many ``pieces`` a half takes 2h - 1 + pieces steps, and
    every step carries a piece over floor(d / 4) links of B/d.

    >>> double_binary_tree(1024, 4).cost
    Cost(steps=20, t_b=Fraction(40, 1))
    """
    if degree < TREE_PORTS:
        return None
    steps = 2 * (num_nodes - 1).bit_length() - 1 + pieces
    cost = Cost(steps, Fraction(steps * degree, 2 * pieces * (degree // TREE_PORTS)))
    name = "double binary tree" + f", {pieces} pieces" * (pieces > 1)
    return Design(Collective.ALLREDUCE, cost, "closed form", Known.PREDICTED, name=name)


def pipelined_tree(
    num_nodes: int, degree: int, model: CostModel, message_bytes: Fraction | float
) -> Design | None:
    """The double binary tree in the number of pieces that suits a message; None below 4 ports."""
    whole = double_binary_tree(num_nodes, degree)
    if whole is None:
        return None
    pieces = 1
    if model.alpha_s:
        fixed, carried = whole.cost.steps, whole.cost.t_b / whole.cost.steps
        transfer = Cost(0, carried).time_s(model, message_bytes)
        pieces = max(1, isqrt(int((fixed - 1) * transfer / model.alpha_s)))
    designs = (double_binary_tree(num_nodes, degree, each) for each in (pieces, pieces + 1))
    return min(
        (one for one in designs if one is not None),
        key=lambda one: one.cost.time_s(model, message_bytes),
    )


def fat_tree(num_nodes: int, collective: Collective) -> Design:
    """What no fat tree of as many ports can beat: every byte crosses B once, a step a half.

    >>> fat_tree(64, Collective.ALLREDUCE).cost
    Cost(steps=2, t_b=Fraction(63, 32))
    """
    halves = 2 if collective == Collective.ALLREDUCE else 1
    cost = Cost(halves, halves * Fraction(num_nodes - 1, num_nodes))
    return Design(collective, cost, "bound", Known.BOUNDED, name="fat tree (bound)")


def closed_baselines(
    question: Question, collective: Collective, asked: MessageSizes | None = None
) -> tuple[Design, ...]:
    """The baselines of a collective that are closed forms: tree and fat tree.

    Where times of messages are asked for, the trees that suit them.
    """
    size = (question.num_nodes, question.degree)
    trees = [double_binary_tree(*size)]
    if asked is not None:
        trees = [pipelined_tree(*size, asked.model, each) for each in asked.sizes_bytes]
    if collective != Collective.ALLREDUCE:
        trees = []
    by_name = {tree.name: tree for tree in trees if tree is not None}
    return (*by_name.values(), fat_tree(question.num_nodes, collective))


# Designs of the literature for a size: what every frontier is compared with.
#
# Source: Zhao et al. (arXiv 2202.03356): generalized Kautz digraphs, line expansions of optimal
# circulants, complete bipartite graphs and powers of the Diamond and of modified de Bruijn
# digraphs, powers of ring products, tori.


def literature(num_nodes: int, degree: int) -> tuple[Recipe, ...]:
    """Recipes of the published families that have exactly this size.

    >>> [recipe.label() for recipe in literature(128, 4)]
    ['Π(4,128)', 'C(128,{8,9})', 'L(C(32,{4,5}))', 'L²(C(8,{2,3}))', 'L²(K4,4)']
    """
    return tuple(dict.fromkeys(_designs(num_nodes, degree)))


def _designs(num_nodes: int, degree: int) -> Iterator[Recipe]:
    if degree < 2:
        yield UniRing(degree, num_nodes)
        return
    yield GeneralizedKautz(degree, num_nodes)
    base, times = num_nodes, 0
    while base > degree:
        if degree == 4 and base >= 7:
            yield _line(optimal_circulant(base), times)
        if base == 2 * degree:
            yield _line(CompleteBipartite(degree), times)
        if degree % 2 == 0 and base == 8 ** (degree // 2):
            yield _line(_power(DirectedCirculant(8, (1, 3)), degree // 2), times)
        if base % degree:
            break
        base, times = base // degree, times + 1
    yield from _modified_de_bruijn(num_nodes, degree)
    yield from _rings(num_nodes, degree)


def _modified_de_bruijn(num_nodes: int, degree: int) -> Iterator[Recipe]:
    """Line expansions of powers of the digraphs of published cost: those of the least t_b."""
    base, times = num_nodes, 0
    while base > degree:
        for recipe in PUBLISHED_MODIFIED_DE_BRUIJN:
            exponent, rest = divmod(degree, recipe.degree)
            if not rest and base == recipe.num_nodes**exponent:
                # Every line expansion adds to t_b, so a smaller base costs more.
                yield _line(_power(recipe, exponent), times)
                return
        if base % degree:
            return
        base, times = base // degree, times + 1


def _rings(num_nodes: int, degree: int) -> Iterator[Recipe]:
    """The power of a product of two coprime-step rings, and the squarest torus."""
    if degree % 2:
        return
    axes = degree // 2
    side = round(num_nodes ** (1 / axes))
    if side**axes != num_nodes or side < 3:
        return
    if axes > 1:
        yield Torus((side,) * axes)
    divisors = [k for k in range(2, side) if side % k == 0]
    middle = [(a, b) for a, b in pairwise(divisors) if a * b == side]
    for a, b in middle:
        product = Product(UniRing(1, a), UniRing(1, b))
        yield _power(product, axes)


def _line(recipe: Recipe, times: int) -> Recipe:
    return Line(recipe, times) if times else recipe


def _power(recipe: Recipe, exponent: int) -> Recipe:
    return Power(recipe, exponent) if exponent > 1 else recipe


FOREST_T_B = "forest t_b"


def forest_t_b(design: Design) -> Fraction:
    """The t_b that no schedule on a design's topology beats and forests come near to.

    Nothing is built where the design's own t_b is the least of any topology.

    >>> from ocs_codesign.schedules.design import measure
    >>> design = measure("GeneralizedKautz(2, 9)")
    >>> design.cost.t_b, forest_t_b(design)
    (Fraction(14, 9), Fraction(8, 9))
    """
    if design.forest_t_b is not None:
        return design.forest_t_b
    cost = design.cost
    if design.bw_optimal:
        return cost.t_b
    topology = design.recipe.topology()
    return topology_bound(topology, design.collective, cost.steps, cost.t_b).t_b


CRITERIA: dict[str, Callable[[Design], Fraction | int]] = {
    "configurations": lambda design: design.cost.num_configurations,
    "steps": lambda design: design.cost.steps,
    "t_b": lambda design: design.cost.t_b,
    FOREST_T_B: forest_t_b,
    "allgather steps": lambda design: design.cost_of(Collective.ALLGATHER).steps,
    "allgather t_b": lambda design: design.cost_of(Collective.ALLGATHER).t_b,
    "reduce-scatter steps": lambda design: design.cost_of(Collective.REDUCE_SCATTER).steps,
    "reduce-scatter t_b": lambda design: design.cost_of(Collective.REDUCE_SCATTER).t_b,
    "allreduce steps": lambda design: design.cost_of(Collective.ALLREDUCE).steps,
    "allreduce t_b": lambda design: design.cost_of(Collective.ALLREDUCE).t_b,
}
"""What designs can be compared by; less is better."""

WITH_FORESTS = ("steps", "t_b", FOREST_T_B)


def criteria_of(collectives: Collection[Collective]) -> tuple[str, ...]:
    """All that counts for these collectives; ``steps`` and ``t_b`` are those of an all-to-all.

    >>> criteria_of([Collective.ALLTOALL, Collective.ALLREDUCE])
    ('allreduce steps', 'allreduce t_b', 'steps', 't_b')
    """
    wanted = [one for one in GATHERING if one in collectives]
    names = [f"{one.name} {what}" for one in wanted for what in ("steps", "t_b")]
    return (*names, *("steps", "t_b") * (Collective.ALLTOALL in collectives))


def point_of(design: Design, criteria: Iterable[str]) -> Point:
    """The design's values of some criteria."""
    return tuple(CRITERIA[name](design) for name in criteria)


def least_point_of(design: Design, criteria: Iterable[str]) -> Point:
    """The same with the t_b that is proven where that is less than what was found.

    What forests could do on a topology that was not asked for it is taken to be all that is
    possible.
    """
    at_best = replace(design.cost, t_b=proven_t_b(design))
    least = design.forest_t_b
    if least is None:
        least = design.bound.t_b if design.recipes else at_best.t_b
    return point_of(replace(design, cost=at_best, forest_t_b=least), criteria)


def proven_t_b(design: Design) -> Fraction:
    """The least t_b that is proven of a design, or what was found where nothing is."""
    return design.cost.t_b if design.least_t_b is None else design.least_t_b


@final
@dataclass(frozen=True, slots=True)
class Frontier(Tabular):
    """Answer to a question: which designs of this size trade the criteria off best?

    A sequence of its ``candidates``, of which none is no worse than another; they differ in
    the criteria, in whose order they ascend; ``dominated`` are all others that were looked at. With
    ``max_configurations`` above 1 designs may change circuits. ``unsolved`` are those that might
    belong to the frontier but were too large to solve, and ``stopped`` says why some are not solved
    as well as they could be, else None. ``origin`` says how the catalogue came to them, None if
    they were searched for; ``alltoall`` are exact all-to-all times, in M/B, that it has of some.
    """

    question: Question
    collective: Collective
    candidates: tuple[Design, ...]
    dominated: tuple[Design, ...]
    criteria: tuple[str, ...] = ("steps", "t_b")
    max_configurations: int = 1
    unsolved: tuple[Design, ...] = ()
    stopped: str | None = None
    origin: Provenance | None = None
    here: Provenance | None = None
    alltoall: Mapping[Recipe, Fraction] = field(default_factory=dict, hash=False)

    def __len__(self) -> int:
        return len(self.candidates)

    def __iter__(self) -> Iterator[Design]:
        return iter(self.candidates)

    def __getitem__(self, place: int) -> Design:
        return self.candidates[place]

    def plot(self, ax: Any = None) -> Any:
        """The axes of matplotlib, the given ones or new, with the picture of ``draw_frontier``."""
        return provided("picture of a frontier")(self, ax=ax)

    def __repr__(self) -> str:
        return (
            f"Frontier({self.num_nodes} nodes, degree {self.degree}, {self.collective.name}: "
            f"{len(self.candidates)} candidates, {len(self.dominated)} dominated)"
        )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.question.num_nodes

    @property
    def degree(self) -> int:
        """d, the ports of a node."""
        return self.question.degree

    @property
    def published(self) -> tuple[Design, ...]:
        """The designs of the literature that have this size, on the frontier or dominated."""
        return self._scored(literature(self.num_nodes, self.degree))

    @property
    def baselines(self) -> tuple[Design, ...]:
        """The ring and the torus of this size, on the frontier or dominated."""
        return self._scored(baseline_recipes(self.question))

    def _scored(self, recipes: Iterable[Recipe]) -> tuple[Design, ...]:
        scored = {design.recipe: design for design in self.looked_at}
        return tuple(scored[recipe] for recipe in recipes if recipe in scored)

    @property
    def looked_at(self) -> tuple[Design, ...]:
        """All designs that were compared; what is said of the best is said among these."""
        return (*self.candidates, *self.dominated, *self.unsolved)

    @property
    def static(self) -> tuple[Design, ...]:
        """The candidates that never change circuits."""
        return tuple(design for design in self.candidates if not design.changes)

    @property
    def switching(self) -> tuple[Design, ...]:
        """The candidates that do."""
        return tuple(design for design in self.candidates if design.changes)

    @property
    def bound(self) -> Cost:
        """Least steps and least t_b of any static topology that answers; no one need meet both."""
        size, both = (self.num_nodes, self.degree), self.question.bidirectional
        return bound(*size, self.collective, bidirectional=both)

    def best(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        delta_s: Fraction | float = 0,
        *,
        cold_start: bool = False,
    ) -> Design:
        """The candidate with the least time for a message, on a tie the first.

        >>> from ocs_codesign.core.cost import CostModel
        >>> from ocs_codesign.search.frontiers import frontier
        >>> answer = frontier(12, 4)
        >>> answer.best(CostModel(1e-5, 1e10), 1e6).cost.steps
        2
        """

        def time_s(design: Design) -> Fraction:
            return design.cost.time_s(model, message_bytes, delta_s, cold_start=cold_start)

        return min(self.candidates, key=time_s)

    def dominator(self, other: Design | Cost) -> Design | None:
        """The first candidate no worse than the least that is proven of the other, None if none is.

        A candidate is its own dominator. Anything is compared by its cost alone, if the allgather
        does not count beside another collective.
        """
        if isinstance(other, Cost):
            other = Design(self.collective, other, "given", Known.MEASURED)
        mine = least_point_of(other, self.criteria)
        for candidate in self.candidates:
            if no_worse(point_of(candidate, self.criteria), mine):
                return candidate
        return None


def with_forests(designs: Iterable[Design]) -> tuple[list[Design], list[Design]]:
    """Undominated designs in steps, t_b and what forests come near to, and the rest, ascending.

    The cuts of a topology are looked at only where it could be undominated.
    """
    front: list[Design] = []
    rest: list[Design] = []
    for design in sorted(designs, key=lambda one: (*one.cost.point(), not one.measured)):
        found = design
        if not _is_beaten(least_point_of(design, WITH_FORESTS), front):
            found = replace(design, forest_t_b=forest_t_b(design))
        is_beaten = _is_beaten(least_point_of(found, WITH_FORESTS), front)
        (rest if is_beaten else front).append(found)
    best, beaten = split_dominated(front, lambda design: point_of(design, WITH_FORESTS))
    return best, [*beaten, *rest]


def _is_beaten(point: Point, front: Iterable[Design]) -> bool:
    return any(no_worse(point_of(design, WITH_FORESTS), point) for design in front)


def pareto(
    designs: Iterable[Design], collective: Collective | None = None
) -> tuple[list[Design], list[Design]]:
    """Undominated designs, one a cost, and the rest, both ascending in (steps, t_b).

    By the cost of the collective, or of that for which they were scored. Of equal costs the first
    measured one stays.
    """
    measured_first = sorted(designs, key=lambda design: not design.measured)
    return split_dominated(
        measured_first,
        lambda design: (design.cost_of(collective) if collective else design.cost).point(),
    )
