"""Effort: how hard the finder searches, and from which seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a search; larger ones cost time and can only improve what is found.

    ``seed`` draws all samples; ``work`` bounds the sets of generators tried in each group (as sets
    * N * 2^d) and the local search; ``num_groups`` the groups of an order; ``num_measured`` the
    candidates of a question that are measured when N is small. Zero work leaves the searches out,
    ``num_measured`` 0 all but predictions: what is left is a finder of closed forms.
    """

    seed: int = 1
    work: int = 2**24
    num_groups: int = 12
    num_measured: int = 40

    def __post_init__(self) -> None:
        if min(self.seed, self.work, self.num_groups, self.num_measured) < 0:
            raise ValueError(f"{self}: the seed and the limits must be at least 0")

    def groups_to_search(self, num_nodes: int) -> int:
        """Groups of that order to search; their tables take N^2 time and space."""
        return max(min(4, self.num_groups), self.num_groups * 1024 // max(1024, num_nodes))

    def num_sets(self, num_nodes: int, degree: int) -> int:
        """Generator sets to try in one group of that order."""
        return min(4000, max(64, self.work // (num_nodes << degree))) if self.work else 0

    def climb_visits(self, num_nodes: int) -> int:
        """Node visits to spend on the local search for one size, degree and number of steps."""
        return self.work * max(1, min(8, 2048 // num_nodes))


ALLTOALL_SHARE = 16
"""The search for all-to-all has this part of the work of a whole one."""
CLOSED_FORMS = Effort(work=0, num_measured=0)
"""What the published finder does: bases of theory and named graphs, ranked by formula alone."""
