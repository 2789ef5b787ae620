"""Allreduce over a product of small topologies, one after the other: a configuration a factor.

Reduce-scatter along the first coordinate on topologies of n_1 nodes, then what is left, M/n_1,
along the second, and so on; allgathers go back. Every configuration consists of disjoint copies of
one small topology with all ports in use. With complete graphs on d + 1 nodes that takes the fewest
steps possible; with factors of 2 it is recursive halving and doubling.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, split_dominated, undominated
from ocs_codesign.design import measure
from ocs_codesign.graphs.families.rings import BiRing, DirectedCirculant, UniRing
from ocs_codesign.search.frontier import frontier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe


@final
@dataclass(frozen=True, slots=True)
class FactoredAllreduce:
    """Factors in the order of the reduce-scatters; allgathers go through them backwards.

    With k factors 2k - 1 configurations are held in turn: the last factor's serves both halves.
    """

    factors: tuple[Design, ...]

    @property
    def num_nodes(self) -> int:
        """N, the product."""
        return prod(factor.recipe.num_nodes for factor in self.factors)

    @property
    def cost(self) -> Cost:
        """Steps of all factors; each one's t_b counts for the part of M that is left."""
        total, left = Cost(0, Fraction(0), 2 * len(self.factors) - 1), Fraction(1)
        for factor in self.factors:
            total = total + Cost(factor.cost.steps, factor.cost.t_b * left)
            left /= factor.recipe.num_nodes
        return total

    def label(self) -> str:
        """The factors in the field's notation."""
        return " then ".join(factor.recipe.label() for factor in self.factors)


def factored_allreduces(
    num_nodes: int,
    degree: int,
    max_configurations: int | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> tuple[FactoredAllreduce, ...]:
    """Allreduces over two or more factors, undominated in steps, t_b and configurations.

    Factors are the best topologies known for their sizes.

    >>> [(factored.label(), factored.cost.steps) for factored in factored_allreduces(9, 2)]
    [('K3 then K3', 4)]
    """
    most = None if max_configurations is None else (max_configurations + 1) // 2
    sizes = [size for size in range(2, num_nodes // 2 + 1) if num_nodes % size == 0]
    options: list[Design] = []
    for done, size in enumerate(sizes):
        if on_progress is not None:
            on_progress("factors", done, len(sizes))
        options += factor_options(size, degree)
    every = (
        FactoredAllreduce(tuple(sorted(chosen, key=_excess)))
        for chosen in _factorisations(num_nodes, options, most)
    )
    return tuple(split_dominated(every, lambda factored: factored.cost.point())[0])


def factor_options(num_nodes: int, degree: int) -> list[Design]:
    """Topologies of a size with d ports a node, undominated in the cost of an allreduce.

    Where a node has more ports than others to reach, ports are parallel.

    >>> [factor.cost for factor in factor_options(2, 4)]
    [Cost(steps=2, t_b=Fraction(1, 1))]
    """
    if num_nodes > degree:
        return list(frontier(num_nodes, degree, Collective.ALLREDUCE).candidates)
    recipes: list[Recipe] = [UniRing(degree, num_nodes)]
    if degree % 2 == 0 and num_nodes > 2:
        recipes.append(BiRing(degree, num_nodes))
    if num_nodes > 2:
        offsets = (1 + i % (num_nodes - 1) for i in range(degree))
        recipes.append(DirectedCirculant(num_nodes, tuple(sorted(offsets))))
    measured = [measure(recipe, Collective.ALLREDUCE) for recipe in recipes]
    return undominated(measured, lambda factor: factor.cost)


def _factorisations(
    num_nodes: int, options: Sequence[Design], most: int | None, first: int = 0
) -> Iterator[tuple[Design, ...]]:
    """Multisets of options whose sizes multiply to N, at most ``most`` of them.

    None has N nodes itself, so there are at least two.
    """
    for at in range(first, len(options)):
        rest, over = divmod(num_nodes, options[at].recipe.num_nodes)
        if over:
            continue
        if rest == 1:
            yield (options[at],)
            continue
        if most is None or most > 1:
            less = None if most is None else most - 1
            for others in _factorisations(rest, options, less, at):
                yield (options[at], *others)


def _excess(factor: Design) -> Fraction:
    """How far t_b is above the least: such factors come late, where less data is left."""
    nodes = factor.recipe.num_nodes
    return factor.cost.t_b * Fraction(nodes, nodes - 1)
