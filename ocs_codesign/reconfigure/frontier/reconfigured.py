"""The frontier with reconfiguration: steps, t_b and configurations, static designs always in it.

Static designs are what the finder knows. All-to-all adds sequences of Cayley digraphs with the best
routing over them and Bruck's algorithm on circuits that serve several steps; allreduce adds
step-matched algorithms and products of small topologies, one factor after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, split_dominated
from ocs_codesign.question import Question
from ocs_codesign.reconfigure.frontier.sources import (
    allreduce_candidates,
    alltoall_candidates,
)
from ocs_codesign.reconfigure.hold.inside import fewest_steps
from ocs_codesign.reconfigure.phases.alltoall import sequence_bound, tree_bound
from ocs_codesign.reconfigure.phases.message_times import break_even_delta_s, paying_messages
from ocs_codesign.reconfigure.ranges import OpenRange, merged
from ocs_codesign.search.pareto import Frontier, point_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.cost import CostModel
    from ocs_codesign.design import Design
    from ocs_codesign.search.effort import Effort

CRITERIA = ("configurations", "steps", "t_b")
MAX_CONFIGURATIONS = 16


def t_b_bound(frontier: Frontier, num_configurations: int) -> Fraction:
    """What no design that holds so many configurations in turn can beat, in M/B."""
    if frontier.collective == Collective.ALLTOALL:
        return sequence_bound(frontier.num_nodes, frontier.degree, num_configurations)
    return frontier.bound.t_b


def t_b_tree_bound(frontier: Frontier, num_configurations: int) -> Fraction:
    """The weaker bound of an all-to-all by a full (C d)-ary tree, else ``t_b_bound``."""
    if frontier.collective == Collective.ALLTOALL:
        return tree_bound(frontier.num_nodes, frontier.degree, num_configurations)
    return t_b_bound(frontier, num_configurations)


def best_static(frontier: Frontier, model: CostModel, message_bytes: Fraction | float) -> Design:
    """The fastest candidate that never changes circuits."""
    return min(frontier.static, key=lambda design: design.cost.time_s(model, message_bytes))


def break_even_of(
    frontier: Frontier, model: CostModel, message_bytes: Fraction | float
) -> tuple[Fraction, Design] | None:
    """Below which dead time (s) changing circuits pays for a message, and what it pays for.

    The one with the fewest configurations of those that pay last; None if nothing that changes
    circuits is faster, even at no dead time. Whether the start is cold is the same to all.
    """
    static = [design.cost for design in frontier.static]
    deltas = [
        (break_even_delta_s(static, design.cost, model, message_bytes), design)
        for design in frontier.switching
    ]
    last = max(deltas, key=lambda pair: pair[0], default=None)
    return None if last is None or last[0] <= 0 else last


def messages_that_pay(
    frontier: Frontier, model: CostModel, delta_s: Fraction | float
) -> tuple[OpenRange, ...]:
    """Message sizes for which changing circuits pays at a dead time, as ascending ranges."""
    static = [design.cost for design in frontier.static]
    sizes = (paying_messages(static, design.cost, model, delta_s) for design in frontier.switching)
    return merged(those for those in sizes if those is not None)


def reconfigured_frontier(
    num_nodes: int,
    degree: int,
    collective: Collective | str = Collective.ALLTOALL,
    *,
    max_configurations: int = MAX_CONFIGURATIONS,
    effort: Effort | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Frontier:
    """The frontier of static designs and of those that hold up to so many configurations in turn.

    Costs leave out dead times: C configurations take C - 1 of them, and one more from a cold start.
    An all-to-all's steps and t_b are a pair that one schedule has; where its program is too large,
    a static design has a bound on both, and one that changes circuits is left ``unsolved``.
    ``effort`` limits the search for sequences. The same question always has the same answer. Raises
    ValueError for other collectives than allreduce and all-to-all, for sizes that the finder or the
    search for sequences does not take, and for fewer than 1 configuration.

    >>> found = reconfigured_frontier(8, 2, max_configurations=4)
    >>> [(one.cost.num_configurations, str(one.cost.t_b)) for one in found.candidates]
    [(1, '5/3'), (2, '5/4'), (3, '1'), (4, '7/8')]
    """
    collective = Collective.parse(collective)
    if collective not in (Collective.ALLREDUCE, Collective.ALLTOALL):
        raise ValueError(
            "the frontier with reconfiguration is for allreduce and alltoall, "
            f"not {collective.name}"
        )
    if max_configurations < 1:
        raise ValueError(f"{max_configurations} configurations: there must be at least 1")
    if collective == Collective.ALLTOALL:
        found = alltoall_candidates(num_nodes, degree, max_configurations, effort, on_progress)
    else:
        found = allreduce_candidates(num_nodes, degree, max_configurations, on_progress)
    known = [design for design in found if design.measured or not design.changes]
    front, rest = split_dominated(known, lambda design: point_of(design, CRITERIA))
    unsolved = tuple(design for design in found if not design.measured and design.changes)
    return Frontier(
        Question(num_nodes, degree),
        collective,
        tuple(front),
        tuple(rest),
        CRITERIA,
        max_configurations,
        unsolved,
    )


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
        least = Cost(2 * self.fewest_steps, t_b).time_s(model, message_bytes)
        return min(cost.time_s(model, message_bytes) for cost in self.costs) - least
