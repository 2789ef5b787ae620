"""How much work goes into a plan for a demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

_ROUNDS, _ROUNDS_NODES, _ROUNDS_POWER = 8000, 16, 1.8
_ROUNDS_BEFORE_SEARCH = 2000
_SEARCH_NODES, _SEARCH_LEVELS = 1_000_000, 40
"""Nodes of a search that nobody asked for, and levels up to which there is one: it seldom ends
where there are more."""


@final
@dataclass(frozen=True, slots=True)
class DemandEffort:
    """Without a time limit the same effort gives the same plan.

    ``rounds`` of local search are made, by default as many as take some seconds. A demand of up to
    8 senders and receivers is searched through ``search_nodes`` nodes, a second per few hundred
    thousand; by default only where that is likely to end. ``programs`` linear programs are solved
    for a bound where they are small enough. ``time_limit_s`` ends whatever is not over then, and
    local search goes on until then; what is over sooner is as without a limit. Raises ValueError
    for numbers below 0.
    """

    seed: int = 0
    rounds: int | None = None
    search_nodes: int | None = None
    programs: int = 60
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "rounds", "search_nodes", "programs", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}: it must be at least 0")

    def nodes_for(self, levels: int) -> int:
        """Nodes to search; ``levels``: lines times the fewest configurations, 0 for no search."""
        if self.search_nodes is None:
            return _SEARCH_NODES if 0 < levels <= _SEARCH_LEVELS else 0
        return self.search_nodes if levels else 0

    def rounds_for(self, num_nodes: int, num_configurations: int, *, searched: bool) -> int:
        """Rounds of local search for a demand of so many nodes and a plan of that size."""
        if self.rounds is not None:
            return self.rounds
        if searched:
            return _ROUNDS_BEFORE_SEARCH
        share = (_ROUNDS_NODES / max(num_nodes, _ROUNDS_NODES)) ** _ROUNDS_POWER
        return int(_ROUNDS * share * min(1.0, 2 * num_nodes / max(1, num_configurations)))
