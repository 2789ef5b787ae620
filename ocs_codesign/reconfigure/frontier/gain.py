"""How much an allreduce can gain from changing circuits inside, whatever the circuits are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.reconfigure.phases.message_times import transmission_s
from ocs_codesign.reconfigure.trace.inside import fewest_steps

if TYPE_CHECKING:
    from ocs_codesign.cost import CostModel


def most_steps_saved(num_nodes: int, degree: int, diameter: int) -> int:
    """2 (D - L): the steps that changing circuits can save on a static graph of diameter D.

    Of an allreduce that reduce-scatters and allgathers, each of which takes L steps at least; on a
    bandwidth-optimal static graph steps are all that can be saved. Raises ValueError for a diameter
    that no graph of the size has.

    >>> most_steps_saved(64, 4, 3), most_steps_saved(1024, 2, 10)
    (0, 6)
    """
    least = fewest_steps(num_nodes, degree)
    if diameter < least:
        raise ValueError(
            f"diameter {diameter} of {num_nodes} nodes of degree {degree}: it is at least {least}"
        )
    return 2 * (diameter - least)


@final
@dataclass(frozen=True, slots=True)
class AllreduceGain:
    """What changing circuits can save on static allreduces of N nodes of degree d of these costs.

    >>> from ocs_codesign.cost import Cost
    >>> AllreduceGain(8, 4, (Cost(4, Fraction(7, 4)),)).steps_saved
    0
    """

    num_nodes: int
    degree: int
    costs: tuple[Cost, ...]

    @property
    def static(self) -> Cost | None:
        """The bandwidth-optimal cost with the fewest steps, None if there is none."""
        least = bound(self.num_nodes, self.degree, Collective.ALLREDUCE).t_b
        optimal = [cost for cost in self.costs if cost.t_b == least]
        return min(optimal, key=lambda cost: cost.steps, default=None)

    @property
    def fewest_steps(self) -> int:
        """L, the steps of an allgather over any circuits."""
        return fewest_steps(self.num_nodes, self.degree)

    @property
    def steps_saved(self) -> int | None:
        """2 (D - L), what changes can save on ``static`` whatever circuits they make."""
        static = self.static
        return static and most_steps_saved(self.num_nodes, self.degree, static.steps // 2)

    def most_saved_s(self, model: CostModel, message_bytes: Fraction | float) -> Fraction:
        """Seconds by which anything can beat the fastest of the static costs for a message.

        An allreduce that reduce-scatters and allgathers takes 2 L steps and its least t_b.
        """
        t_b = bound(self.num_nodes, self.degree, Collective.ALLREDUCE).t_b
        least = transmission_s(Cost(2 * self.fewest_steps, t_b), model, message_bytes)
        return min(transmission_s(cost, model, message_bytes) for cost in self.costs) - least
