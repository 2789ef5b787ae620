"""FabricOption: a design that a fabric can hold, and what every collective costs on it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.progress import counted
from ocs_codesign.schedules.design import measure
from ocs_codesign.schedules.forest.choice import Contender, contenders
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.pareto import fat_tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.circuits.legs.trace import Trace
    from ocs_codesign.circuits.phases import PhasedAlltoall
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.forest.choice import Contenders
    from ocs_codesign.search.pareto import Frontier

    PhasedOptions = tuple[tuple["FabricOption", ...], PhasedAlltoall]


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
    """The option of a recipe, measured for the collectives that are wanted."""
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
    recipes: Sequence[Recipe], collectives: Iterable[Collective]
) -> tuple[FabricOption, ...]:
    """The options of several recipes of one size, each recipe once.

    Raises ValueError if they differ in nodes or ports.
    """
    distinct = list(dict.fromkeys(recipes))
    check_alike(distinct)
    wanted = tuple(collectives)
    return tuple(recipe_option(recipe, wanted) for recipe in counted(distinct))


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


# Forests of a design beside its own schedule: where cuts allow more than it reaches.


KNOWN = "known"
"""The design's own schedule among forests."""

MAX_FOREST_HOSTS = 128
"""Beyond, packing the trees of all designs takes longer than one wants to wait for a ranking."""


def with_contenders(
    option: FabricOption, model: CostModel, largest: Fraction | float
) -> FabricOption:
    """The option with the forests of an allreduce's halves, where messages may gain by them.

    That is where a schedule at the bound of the graph that takes one step more would be faster for
    the ``largest`` message, in bytes.
    """
    topology, costs = option.topology, (option.reduce_scatter, option.allgather)
    if option.contenders or topology is None or topology.num_nodes > MAX_FOREST_HOSTS:
        return option
    halves = {
        half: cost
        for half, cost in zip(Collective.ALLREDUCE.halves(), costs, strict=True)
        if cost is not None
    }

    def may_gain(half: Collective, cost: Cost) -> bool:
        least = topology_bound(topology, half, cost.steps, cost.t_b)
        return replace(least, steps=cost.steps + 1).time_s(model, largest) < cost.time_s(
            model, largest
        )

    if len(halves) < 2 or not any(may_gain(*known) for known in halves.items()):
        return option
    network = direct(topology, 1)
    fields = (
        replace(contenders(network, half, None, topology), others=(Contender(KNOWN, cost),))
        for half, cost in halves.items()
    )
    return replace(option, contenders=tuple(fields))


# What switching circuits inside a collective could gain at most on a bandwidth-optimal design.


@final
@dataclass(frozen=True, slots=True)
class InsideBound:
    """What changing circuits inside one collective saves at most, and the least that changes take.

    No circuits give a lower t_b than a bandwidth-optimal design has, so all that they can save on
    such an ``option`` are ``saved_steps``, ``fewest_steps`` being the least for an allgather or
    reduce-scatter (an allreduce is taken to be one after the other). An all-to-all is held against
    sequences of ``num_configurations`` of any topologies; ``sequences`` are those that were tried,
    each with the best routing over it.
    """

    collective: Collective
    saved_s: Fraction
    dead_s: Fraction
    num_configurations: int = 2
    option: str = ""
    steps: int = 0
    saved_steps: int = 0
    sequences: tuple[PhasedOptions, ...] = ()

    @property
    def can_gain(self) -> bool:
        """Whether changes inside the collective are not ruled out."""
        return self.saved_s > self.dead_s


def fewest_steps(num_nodes: int, degree: int) -> int:
    """Least L with (d + 1)^L >= N: steps of an allgather over any circuits, however they change.

    In a step a node hears from d others at most, so what it knows of grows at most (d + 1)-fold.
    """
    if num_nodes < 1 or degree < 1:
        raise ValueError(f"N = {num_nodes}, d = {degree}: both must be at least 1")
    steps, known = 0, 1
    while known < num_nodes:
        steps, known = steps + 1, known * (degree + 1)
    return steps


def inside_bounds(
    options: Sequence[FabricOption],
    collectives: Iterable[Collective],
    model: CostModel,
    reconfiguration: Change,
) -> tuple[InsideBound, ...]:
    """The bound of each gathering collective on the option with the fewest steps, if there is one.

    Of the options that are bandwidth-optimal, which other collectives have none.
    """
    quickest: list[InsideBound] = []
    dead_s = reconfiguration.dead_time_s(1)
    slowest_s = max(each.alpha_s for each in model.protocols)
    for collective in collectives:
        halves = 2 if collective == Collective.ALLREDUCE else 1
        known = []
        for option in options:
            cost, recipe = option.cost(collective), option.recipe
            if cost is None or recipe is None or collective not in GATHERING:
                continue
            if cost.t_b == bound(recipe.num_nodes, recipe.degree, collective).t_b:
                saved = cost.steps - halves * fewest_steps(recipe.num_nodes, recipe.degree)
                gain = InsideBound(collective, saved * slowest_s, dead_s)
                known.append(replace(gain, option=option.name, steps=cost.steps, saved_steps=saved))
        quickest += sorted(known, key=lambda gain: gain.steps)[:1]
    return tuple(quickest)


# Switching costs of topologies: how many circuits change between any two, and how long that
# takes.
#
# Node labels are fixed: a circuit is kept if both topologies have a link between the same two
# nodes.


def changed_circuits(topologies: Sequence[Topology]) -> NDArray[np.int64]:
    """Circuits of topology b that topology a does not hold, shape (K, K) for [a, b].

    Parallel links count as often as they are, self-loops are circuits too; what is only taken down
    does not count. Raises ValueError for no topologies and unequal numbers of nodes.
    """
    from scipy.sparse import coo_array

    if not topologies:
        raise ValueError("there is no topology to choose from: at least one is needed")
    size = topologies[0].num_nodes
    for at, topology in enumerate(topologies):
        if topology.num_nodes != size:
            raise ValueError(
                f"topology {at} has {topology.num_nodes} nodes and topology 0 has {size}: circuits "
                "are compared between the same nodes"
            )
    many = len(topologies)
    owner = np.repeat(np.arange(many), [topology.num_links for topology in topologies])
    links = [topology.tail.astype(np.int64) * size + topology.head for topology in topologies]
    circuits, column = np.unique(np.concatenate(links), return_inverse=True)
    ones = np.ones(len(owner), dtype=np.int64)
    shape = (many, max(len(circuits), 1))
    number = coo_array((ones, (owner, column.ravel())), shape=shape).tocsr()
    kept = np.zeros((many, many), dtype=np.int64)
    for parallel in range(1, int(number.max()) + 1):
        has = (number >= parallel).astype(np.int64)
        kept += (has @ has.T).toarray()
    return np.asarray(np.diag(kept)[None, :] - kept)


def dead_times(changed: NDArray[np.int64], reconfiguration: Change) -> NDArray[Any]:
    """Dead time in seconds for so many circuits changed, Fractions in the same shape."""
    numbers, which = np.unique(changed, return_inverse=True)
    times = [reconfiguration.dead_time_s(int(number)) for number in numbers]
    return np.array([*times, None], dtype=object)[which].reshape(changed.shape)
