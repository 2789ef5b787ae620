"""Effort: how hard the finder searches, and from which seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of a search; larger ones cost time and can only improve what is found.

    ``seed`` draws the samples of generator sets; ``work`` bounds the sets tried in each group (as
    sets * N * 2^d); ``num_groups`` the groups of an order; ``num_measured`` the candidates of a
    question that are measured when N is small.
    """

    seed: int = 1
    work: int = 2**24
    num_groups: int = 12
    num_measured: int = 40

    def __post_init__(self) -> None:
        if self.seed < 0 or min(self.work, self.num_groups, self.num_measured) < 1:
            raise ValueError(f"{self}: the seed must be at least 0 and the limits at least 1")
