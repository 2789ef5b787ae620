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
from ocs_codesign.reconfigure.frontier.sources import (
    ReconfiguredCandidate,
    allreduce_candidates,
    alltoall_candidates,
)
from ocs_codesign.reconfigure.phases.alltoall import sequence_bound, tree_bound
from ocs_codesign.reconfigure.phases.message_times import (
    MessageRange,
    break_even_delta_s,
    merged,
    paying_messages,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.cost import Cost, CostModel
    from ocs_codesign.reconfigure.sequences.search import SequenceEffort

MAX_CONFIGURATIONS = 16


@final
@dataclass(frozen=True, slots=True)
class BreakEvenDelta:
    """The dead time below which changing circuits pays for a message, and what it pays for.

    ``delta_s`` is not positive if nothing that changes circuits is faster, even at no dead time.
    """

    candidate: ReconfiguredCandidate
    delta_s: Fraction

    @property
    def pays(self) -> bool:
        """Whether changing circuits pays at any dead time."""
        return self.delta_s > 0


@final
@dataclass(frozen=True, slots=True)
class PayingRange:
    """Message sizes for which a candidate is faster than all static designs at a dead time."""

    candidate: ReconfiguredCandidate
    messages: MessageRange


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReconfiguredFrontier:
    """Designs that do not dominate each other in steps, t_b and configurations held in turn.

    ``candidates`` ascend in configurations, so static designs, with one, come first; ``dominated``
    are all others that were looked at.
    """

    num_nodes: int
    degree: int
    collective: Collective
    max_configurations: int
    candidates: tuple[ReconfiguredCandidate, ...]
    dominated: tuple[ReconfiguredCandidate, ...]

    @property
    def static(self) -> tuple[ReconfiguredCandidate, ...]:
        """The candidates that never change circuits."""
        return tuple(one for one in self.candidates if one.switched.num_configurations == 1)

    @property
    def switching(self) -> tuple[ReconfiguredCandidate, ...]:
        """The candidates that do."""
        return tuple(one for one in self.candidates if one.switched.num_configurations > 1)

    @property
    def bound(self) -> Cost:
        """Least steps and least t_b of any static topology."""
        return bound(self.num_nodes, self.degree, self.collective)

    def t_b_bound(self, num_configurations: int) -> Fraction:
        """What no design that holds so many configurations in turn can beat, in M/B."""
        if self.collective == Collective.ALLTOALL:
            return sequence_bound(self.num_nodes, self.degree, num_configurations)
        return self.bound.t_b

    def t_b_tree_bound(self, num_configurations: int) -> Fraction:
        """The weaker bound of an all-to-all by a full (C d)-ary tree, else ``t_b_bound``."""
        if self.collective == Collective.ALLTOALL:
            return tree_bound(self.num_nodes, self.degree, num_configurations)
        return self.t_b_bound(num_configurations)

    def best(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        delta_s: Fraction | float,
        *,
        cold_start: bool = False,
    ) -> ReconfiguredCandidate:
        """The fastest candidate, on a tie the one with fewer configurations."""
        return min(
            self.candidates,
            key=lambda one: one.switched.time_s(
                model, message_bytes, delta_s, cold_start=cold_start
            ),
        )

    def best_static(
        self, model: CostModel, message_bytes: Fraction | float
    ) -> ReconfiguredCandidate:
        """The fastest candidate that never changes circuits."""
        return min(self.static, key=lambda one: one.switched.time_s(model, message_bytes, 0))

    def break_even(
        self, model: CostModel, message_bytes: Fraction | float
    ) -> BreakEvenDelta | None:
        """Below which dead time changing circuits pays for a message; None if nothing changes.

        The largest of all candidates that change circuits: the one with the fewest configurations
        of those that pay last. Whether the start is cold is the same to all.
        """
        static = [one.switched for one in self.static]
        found = [
            BreakEvenDelta(one, break_even_delta_s(static, one.switched, model, message_bytes))
            for one in self.switching
        ]
        return max(found, key=lambda one: one.delta_s, default=None)

    def paying(self, model: CostModel, delta_s: Fraction | float) -> tuple[PayingRange, ...]:
        """Message sizes for which some candidate that changes circuits beats all static ones.

        One range a candidate that has any, the one that begins first in front.
        """
        static = [one.switched for one in self.static]
        ranges = (
            (one, paying_messages(static, one.switched, model, delta_s)) for one in self.switching
        )
        found = [PayingRange(one, messages) for one, messages in ranges if messages is not None]
        return tuple(sorted(found, key=lambda one: one.messages.begin_bytes))

    def paying_messages(
        self, model: CostModel, delta_s: Fraction | float
    ) -> tuple[MessageRange, ...]:
        """Message sizes for which changing circuits pays at a dead time, as ascending ranges."""
        return merged(one.messages for one in self.paying(model, delta_s))


def reconfigured_frontier(
    num_nodes: int,
    degree: int,
    collective: Collective | str = Collective.ALLTOALL,
    *,
    max_configurations: int = MAX_CONFIGURATIONS,
    effort: SequenceEffort | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> ReconfiguredFrontier:
    """The frontier of static designs and of those that hold up to so many configurations in turn.

    Costs leave out dead times: C configurations take C - 1 of them, and one more from a cold start.
    ``effort`` limits the search for sequences. The same question always has the same answer. Raises
    ValueError for other collectives than allreduce and all-to-all, for sizes that the finder or the
    search for sequences does not take, and for fewer than 1 configuration.

    >>> found = reconfigured_frontier(8, 2, max_configurations=4)
    >>> [(one.switched.num_configurations, str(one.switched.cost.t_b)) for one in found.candidates]
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
    front, rest = _split(found)
    return ReconfiguredFrontier(
        num_nodes, degree, collective, max_configurations, tuple(front), tuple(rest)
    )


def _split(
    found: Iterable[ReconfiguredCandidate],
) -> tuple[list[ReconfiguredCandidate], list[ReconfiguredCandidate]]:
    """Undominated candidates, the first of equals, and the rest; in configurations, steps, t_b."""
    ordered = sorted(
        found,
        key=lambda one: (
            one.switched.num_configurations,
            one.switched.cost.steps,
            one.switched.cost.t_b,
        ),
    )
    front: list[ReconfiguredCandidate] = []
    rest: list[ReconfiguredCandidate] = []
    seen = set()
    for one in ordered:
        point = one.switched.point()
        beaten = any(other.switched.dominates(one.switched) for other in ordered)
        (rest if beaten or point in seen else front).append(one)
        seen.add(point)
    return front, rest
