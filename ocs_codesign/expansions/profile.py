"""Profile: what an expansion needs to know of a part in order to predict."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.families.shape import Shape

if TYPE_CHECKING:
    from ocs_codesign.schedule import Schedule


@final
@dataclass(frozen=True, slots=True)
class Profile:
    """Shape of a part and the largest link load, in shards, of every step of its allgather.

    All links have equal speed and all nodes ``shape.degree`` of them.

    >>> from ocs_codesign.families.shape import Shape
    >>> Profile(Shape(4, 3), (Fraction(1),)).is_bw_optimal
    True
    """

    shape: Shape
    loads: tuple[Fraction, ...]

    @property
    def is_bw_optimal(self) -> bool:
        """Whether the loads add up to (N - 1)/d, the least that any allgather can do."""
        return sum(self.loads) * self.shape.degree == self.shape.num_nodes - 1


def profile_of(schedule: Schedule) -> Profile:
    """Profile of an allgather that has been made."""
    topology = schedule.topology
    return Profile(Shape(topology.num_nodes, topology.degree), schedule.max_loads())
