"""What switching circuits inside a collective could gain at most on a bandwidth-optimal design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.reconfigure.hold.options import FabricOption


@final
@dataclass(frozen=True, slots=True)
class InsideBound:
    """Steps that switching saves at most in a collective, what they take, and the least price.

    No circuits give a lower t_b than a bandwidth-optimal design has, so all that changing them can
    save are steps, ``fewest_steps`` being the least for an allgather or reduce-scatter (an
    allreduce is taken to be one after the other); one change at least costs ``least_dead_s``.
    """

    option: str
    collective: Collective
    steps: int
    saved_steps: int
    saved_s: Fraction
    least_dead_s: Fraction

    @property
    def can_gain(self) -> bool:
        """Whether switching inside the collective is not ruled out."""
        return self.saved_s > self.least_dead_s


def fewest_steps(num_nodes: int, degree: int) -> int:
    """Least L with (d + 1)^L >= N: steps of an allgather over any circuits, however they change.

    In a step a node hears from d others at most, so what it knows of grows at most (d + 1)-fold.

    >>> [fewest_steps(*size) for size in ((16, 4), (64, 4), (1024, 8), (64, 2), (1024, 2))]
    [2, 3, 4, 4, 7]
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
    reconfiguration: ReconfigurationCost,
) -> tuple[InsideBound, ...]:
    """The bound of each gathering collective on the option with the fewest steps, if there is one.

    Of the options that are bandwidth-optimal, which other collectives have none.
    """
    quickest: list[InsideBound] = []
    least_dead_s = reconfiguration.dead_time_s(1)
    for collective in collectives:
        halves = 2 if collective == Collective.ALLREDUCE else 1
        known = []
        for option in options:
            cost, recipe = option.cost(collective), option.recipe
            if cost is None or recipe is None or collective not in GATHERING:
                continue
            if cost.t_b == bound(recipe.num_nodes, recipe.degree, collective).t_b:
                saved = cost.steps - halves * fewest_steps(recipe.num_nodes, recipe.degree)
                saved_s = saved * exact(model.alpha_s)
                known.append(
                    InsideBound(option.name, collective, cost.steps, saved, saved_s, least_dead_s)
                )
        quickest += sorted(known, key=lambda gain: gain.steps)[:1]
    return tuple(quickest)
