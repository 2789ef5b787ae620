"""How much an allreduce can gain from changing circuits inside, whatever the circuits are."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.quantities import exact
from ocs_codesign.reconfigure.hold.inside import fewest_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.cost import Cost, CostModel


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
    """What changing circuits can save on the best static allreduce of N nodes of degree d.

    ``static`` is the bandwidth-optimal static cost with the fewest steps, None if none is known;
    ``steps_saved`` the most that changes can save on it, whatever circuits they make.
    """

    num_nodes: int
    degree: int
    static: Cost | None

    @property
    def fewest_steps(self) -> int:
        """L, the steps of an allgather over any circuits."""
        return fewest_steps(self.num_nodes, self.degree)

    @property
    def steps_saved(self) -> int | None:
        """2 (D - L), None without a bandwidth-optimal static design."""
        if self.static is None:
            return None
        return most_steps_saved(self.num_nodes, self.degree, self.static.steps // 2)

    def most_saved_s(
        self, costs: Iterable[Cost], model: CostModel, message_bytes: Fraction | float
    ) -> Fraction:
        """Seconds by which anything can beat the fastest of these static costs for a message.

        An allreduce that reduce-scatters and allgathers takes 2 L steps and its least t_b.
        """
        alpha, bandwidth = exact(model.alpha_s), exact(model.node_bandwidth_Bps)
        message = exact(message_bytes, "message_bytes")
        least = bound(self.num_nodes, self.degree, Collective.ALLREDUCE)
        saved = (
            alpha * (cost.steps - 2 * self.fewest_steps)
            + (cost.t_b - least.t_b) * message / bandwidth
            for cost in costs
        )
        return min(saved)


def allreduce_gain(num_nodes: int, degree: int, costs: Iterable[Cost]) -> AllreduceGain:
    """What changing circuits can save on the bandwidth-optimal one of these static costs.

    >>> from ocs_codesign.cost import Cost
    >>> allreduce_gain(8, 4, [Cost(4, Fraction(7, 4))]).steps_saved
    0
    """
    least = bound(num_nodes, degree, Collective.ALLREDUCE)
    optimal = [cost for cost in costs if cost.t_b == least.t_b]
    static = min(optimal, key=lambda cost: cost.steps, default=None)
    return AllreduceGain(num_nodes, degree, static)
