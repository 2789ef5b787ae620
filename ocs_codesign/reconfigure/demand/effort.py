"""How much work goes into a plan for a demand."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import final

_ROUNDS, _ROUNDS_NODES, _ROUNDS_POWER = 20_000, 16, 2.2


@final
@dataclass(frozen=True, slots=True)
class DemandEffort:
    """Without a time limit the same effort gives the same plan.

    ``rounds`` of local search are made, by default as many as take some seconds. A demand that is
    small enough is searched through ``search_nodes`` nodes, a second per few hundred thousand.
    ``programs`` linear programs are solved for a bound where they are small enough.
    ``time_limit_s`` ends whatever is not over then. Raises ValueError for numbers below 0.
    """

    seed: int = 0
    rounds: int | None = None
    search_nodes: int = 500_000
    programs: int = 60
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("seed", "rounds", "search_nodes", "programs", "time_limit_s"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}: it must be at least 0")

    def rounds_for(self, num_nodes: int, num_configurations: int) -> int:
        """Rounds of local search for a demand of so many nodes and a plan of that size."""
        if self.rounds is not None:
            return self.rounds
        share = (_ROUNDS_NODES / max(num_nodes, _ROUNDS_NODES)) ** _ROUNDS_POWER
        return int(_ROUNDS * share * min(1.0, 2 * num_nodes / max(1, num_configurations)))


@final
@dataclass(frozen=True, slots=True)
class Clock:
    """How much of a time limit is left."""

    limit_s: float | None
    began_s: float = field(default_factory=time.monotonic)

    def left_s(self, share: float = 1.0) -> float | None:
        """Seconds until a share of the limit is over, None without a limit."""
        if self.limit_s is None:
            return None
        return max(0.0, share * self.limit_s - (time.monotonic() - self.began_s))

    def is_over(self, share: float = 1.0) -> bool:
        """Whether a share of the limit is over."""
        return self.left_s(share) == 0.0
