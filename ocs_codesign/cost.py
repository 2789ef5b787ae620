"""The alpha-beta cost of a schedule, exact, and its time for a message."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class CostModel:
    """What a step and a byte cost: T = alpha_s * steps + t_b * message_bytes / node_bandwidth_Bps.

    ``alpha_s`` is the time of one communication step (s), ``node_bandwidth_Bps`` the total egress
    of a node over all its ports (bytes per second). Raises ValueError unless alpha_s >= 0 and the
    bandwidth is positive.

    >>> CostModel(10e-6, 12.5e9)
    CostModel(alpha_s=1e-05, node_bandwidth_Bps=12500000000.0)
    """

    alpha_s: float
    node_bandwidth_Bps: float  # noqa: N815 - the unit keeps its case

    def __post_init__(self) -> None:
        if not 0 <= self.alpha_s < float("inf"):
            raise ValueError(f"alpha_s is {self.alpha_s}: it must be a finite time >= 0")
        if not 0 < self.node_bandwidth_Bps < float("inf"):
            raise ValueError(
                f"node_bandwidth_Bps is {self.node_bandwidth_Bps}: it must be finite and positive"
            )


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """Number of steps (T_L in units of alpha) and t_b (T_B in units of M/B), both exact.

    >>> cost = Cost(3, Fraction(7, 8))
    >>> cost.dominates(Cost(3, Fraction(1)))
    True
    >>> round(cost.time_s(CostModel(10e-6, 12.5e9), 1_000_000) * 1e6)  # microseconds
    100
    """

    steps: int
    t_b: Fraction

    def __add__(self, other: Cost) -> Cost:
        """The cost of one schedule after the other."""
        return Cost(self.steps + other.steps, self.t_b + other.t_b)

    def dominates(self, other: Cost) -> bool:
        """Whether this cost is no worse in both coordinates and better in one (no tolerance)."""
        return self.steps <= other.steps and self.t_b <= other.t_b and self != other

    def time_s(self, model: CostModel, message_bytes: float) -> float:
        """Seconds for a collective of ``message_bytes`` (M, the whole data, not the shard)."""
        if not 0 <= message_bytes < float("inf"):
            raise ValueError(f"message_bytes is {message_bytes}: it must be finite and >= 0")
        return model.alpha_s * self.steps + float(self.t_b) * message_bytes / (
            model.node_bandwidth_Bps
        )


def undominated(items: Iterable[T], cost_of: Callable[[T], Cost]) -> list[T]:
    """Items whose cost no other's dominates, one a cost (the first of equals), ascending in steps.

    >>> costs = [Cost(2, Fraction(1)), Cost(3, Fraction(1)), Cost(4, Fraction(7, 8))]
    >>> [cost.steps for cost in undominated(costs, lambda cost: cost)]
    [2, 4]
    """
    kept: list[T] = []
    for item in sorted(items, key=lambda one: (cost_of(one).steps, cost_of(one).t_b)):
        if not kept or cost_of(item).t_b < cost_of(kept[-1]).t_b:
            kept.append(item)
    return kept
