"""Which transfers messages become on a configuration: those of the ways that the formula counts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.design import build, build_topology
from ocs_codesign.workload.job_graph import COLLECTIVES, FIRST_COLLECTIVE, SEND
from ocs_codesign.workload.patterns import algorithm_pattern, message_pattern, plan_pattern
from ocs_codesign.workload.reconfigured.group_prices import (
    INSIDE,
    Reach,
    fastest_way,
    links_inside,
    topology_of,
)

if TYPE_CHECKING:
    from ocs_codesign.cost import CostModel
    from ocs_codesign.network import Network
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.workload.patterns import GroupPattern

_DIRECT, _RING, _SCHEDULE = "direct", "ring", "schedule"


@final
@dataclass(frozen=True, slots=True)
class WayPlans:
    """What sends on a configuration, rank r at node r; the schedules of its recipe for all ranks.

    Smaller groups go the fastest way of the formula: by BFB over the links between them, directly,
    or round a ring. An all-to-all is direct. What is not between neighbours takes a shortest path,
    where the formula divides it evenly among all of them. A broadcast and a reduction are chains.
    """

    option: FabricOption
    model: CostModel

    def name(
        self,
        kind: int,
        ranks: tuple[int, ...],
        size_bytes: int,
        label: str = "",  # noqa: ARG002  (the formula does not ask it either)
    ) -> tuple[str, ...]:
        """What the transfers of a message are of, in words."""
        if kind == SEND:
            return ("send",)
        collective = COLLECTIVES[kind - FIRST_COLLECTIVE]
        if collective == Collective.ALLTOALL.name:
            return collective, _DIRECT
        if collective not in {one.name for one in GATHERING}:
            return collective, _RING
        if len(ranks) == topology_of(self.option).num_nodes:
            return collective, _SCHEDULE
        way = fastest_way(self.option, Reach(ranks), collective, self.model, Fraction(size_bytes))
        if way is None:
            raise ValueError(f"{self.option.name} does not lead to all of the ranks {ranks[:20]}")
        return (collective, INSIDE, *map(str, ranks)) if way[0] == INSIDE else (collective, way[0])

    def pattern(
        self,
        name: tuple[str, ...],
        num_ranks: int,
        network: Network | None = None,  # noqa: ARG002  (no links of its own)
    ) -> GroupPattern:
        """The transfers of that name, for so many ranks."""
        if name[0] == "send":
            return message_pattern()
        collective, way, *ranks = name
        if way == _SCHEDULE:
            return plan_pattern(build(self.option.name, collective).schedule)
        if way == INSIDE:
            own = links_inside(topology_of(self.option), tuple(map(int, ranks)))
            return plan_pattern(build_topology(own, collective).schedule)
        return algorithm_pattern(way, collective, num_ranks)
