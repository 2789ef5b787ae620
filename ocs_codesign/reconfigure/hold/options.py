"""FabricOption: a design that a fabric can hold, and what every collective costs on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import measure
from ocs_codesign.schedulers.alltoall.throughput import throughput
from ocs_codesign.search.baselines import fat_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ocs_codesign.cost import CostModel
    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.hold.trace import Trace
    from ocs_codesign.schedulers.forest.choice import Contenders
    from ocs_codesign.search.pareto import Frontier
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class FabricOption:
    """A named design with its costs; None for a collective that it cannot serve.

    The all-to-all's steps are the diameter, its t_b that of the best routing found when messages
    may split; no routing beats ``alltoall_bound``. ``topology`` has the circuits, whose changes are
    counted; None where no change is counted by circuits. ``contenders`` of a reduce-scatter and an
    allgather are there where forests may be faster. Raises ValueError without a name.
    """

    name: str
    allgather: Cost | None = None
    reduce_scatter: Cost | None = None
    alltoall: Cost | None = None
    topology: Topology | None = None
    recipe: Recipe | None = None
    alltoall_bound: Fraction | None = None
    contenders: tuple[Contenders, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError("a design needs a name")

    @property
    def label(self) -> str:
        """The short name of the recipe, or the name."""
        return self.name if self.recipe is None else self.recipe.label()

    def cost(self, collective: Collective) -> Cost | None:
        """Cost of a collective; an allreduce is reduce-scatter, then allgather."""
        if collective == Collective.ALLREDUCE:
            if self.reduce_scatter is None or self.allgather is None:
                return None
            return self.reduce_scatter + self.allgather
        return {
            Collective.ALLGATHER: self.allgather,
            Collective.REDUCE_SCATTER: self.reduce_scatter,
            Collective.ALLTOALL: self.alltoall,
        }[collective]

    def fastest(
        self, collective: Collective, model: CostModel, message_bytes: Fraction
    ) -> tuple[Cost | None, tuple[int, ...]]:
        """The cost of what is fastest for a message, and the parts of its forests, 0 without.

        Of an allreduce they are those of its halves; there are none where no forest is compared.
        """
        if not self.contenders or collective not in GATHERING:
            return self.cost(collective), ()
        halves = Collective.ALLREDUCE.halves()
        best = [
            field.choice(model, message_bytes).best
            for half, field in zip(halves, self.contenders, strict=True)
            if half in collective.halves()
        ]
        parts = tuple(0 if one.pipeline is None else one.num_parts for one in best)
        return sum((one.cost for one in best[1:]), best[0].cost), parts * any(parts)


def recipe_option(recipe: Recipe, collectives: Iterable[Collective]) -> FabricOption:
    """The option of a recipe, measured for the collectives that are wanted.

    >>> from ocs_codesign.graphs.text import parse
    >>> from ocs_codesign.collective import WITHOUT_PARAMETERS
    >>> option = recipe_option(parse("CompleteBipartite(4)"), WITHOUT_PARAMETERS)
    >>> option.cost(Collective.ALLREDUCE), option.alltoall
    (Cost(steps=4, t_b=Fraction(7, 4)), Cost(steps=2, t_b=Fraction(5, 4)))
    """
    wanted = set(collectives)
    topology = recipe.topology()
    allgather = reduce_scatter = alltoall = bound = None
    if wanted & set(GATHERING):
        design = measure(recipe)
        allgather = design.cost_of(Collective.ALLGATHER)
        reduce_scatter = design.cost_of(Collective.REDUCE_SCATTER)
    if Collective.ALLTOALL in wanted:
        found = throughput(topology)
        alltoall, bound = Cost(topology.diameter(), found.time), found.bound
    return FabricOption(repr(recipe), allgather, reduce_scatter, alltoall, topology, recipe, bound)


def recipe_options(
    recipes: Sequence[Recipe],
    collectives: Iterable[Collective],
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[FabricOption, ...]:
    """The options of several recipes of one size, each recipe once.

    Raises ValueError if they differ in nodes or ports.
    """
    distinct = list(dict.fromkeys(recipes))
    check_alike(distinct)
    options = []
    wanted = tuple(collectives)
    for done, recipe in enumerate(distinct):
        if on_progress is not None:
            on_progress(done, len(distinct))
        options.append(recipe_option(recipe, wanted))
    return tuple(options)


def check_alike(recipes: Sequence[Recipe]) -> None:
    """ValueError if recipes differ in nodes or ports."""
    for recipe in recipes:
        first = recipes[0]
        if (recipe.num_nodes, recipe.degree) != (first.num_nodes, first.degree):
            raise ValueError(
                f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}, {first!r} has "
                f"{first.num_nodes} of degree {first.degree}: one fabric holds all designs"
            )


def design_option(design: Design, collectives: Collection[Collective]) -> FabricOption:
    """The option of a design whose costs are known, with those of the collectives that are wanted.

    Raises ValueError if one of them is not.
    """
    gather = scatter = alltoall = bound = None
    if not set(GATHERING).isdisjoint(collectives):
        gather = design.cost_of(Collective.ALLGATHER)
        scatter = design.cost_of(Collective.REDUCE_SCATTER)
    if Collective.ALLTOALL in collectives:
        exchange = design.of(Collective.ALLTOALL)
        alltoall, bound = exchange.cost, exchange.least_t_b
    recipe = design.recipe
    return FabricOption(repr(recipe), gather, scatter, alltoall, recipe.topology(), recipe, bound)


def serving_options(serving: Frontier, collectives: Collection[Collective]) -> list[FabricOption]:
    """The options of the designs that serve some collectives best, and of ring and torus."""
    every = dict.fromkeys([*serving.candidates, *serving.baselines])
    return [design_option(design, collectives) for design in every if design.measured]


def fat_tree_time_s(num_nodes: int, trace: Trace, model: CostModel) -> Fraction:
    """Seconds that a trace's collectives take at least on a fat tree of as many ports a node."""
    once = (
        job.count * fat_tree(num_nodes, job.collective).cost.time_s(model, job.message_bytes)
        for job in trace.jobs
    )
    return trace.repeat * sum(once, Fraction(0))
