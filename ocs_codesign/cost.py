"""The alpha-beta cost of a schedule, exact, and its time for a message."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar, final

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class CostModel:
    """What a step and a byte cost: T = alpha_s * steps + t_b * M / node_bandwidth_Bps, exactly.

    ``alpha_s`` is the time of one communication step (s), ``node_bandwidth_Bps`` the total egress
    of a node over all its ports (bytes per second); a float is read as the decimal it prints as.
    M is the buffer of a rank (see ``Collective``). Raises ValueError unless alpha_s >= 0 and the
    bandwidth is positive.

    >>> CostModel(10e-6, 12.5e9)
    CostModel(alpha_s=Fraction(1, 100000), node_bandwidth_Bps=Fraction(12500000000, 1))
    >>> CostModel(10e-6, 12.5e9).time_s(3, Fraction(7, 8), 1_000_000)
    Fraction(1, 10000)
    """

    alpha_s: Fraction
    node_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case

    def __init__(
        self,
        alpha_s: Fraction | float,
        node_bandwidth_Bps: Fraction | float,  # noqa: N803
    ) -> None:
        alpha, bandwidth = (
            exact(alpha_s, "alpha_s"),
            exact(node_bandwidth_Bps, "node_bandwidth_Bps"),
        )
        if alpha < 0:
            raise ValueError(f"alpha_s is {alpha_s}: it must be a finite time >= 0")
        if bandwidth <= 0:
            raise ValueError(
                f"node_bandwidth_Bps is {node_bandwidth_Bps}: it must be finite and positive"
            )
        object.__setattr__(self, "alpha_s", alpha)
        object.__setattr__(self, "node_bandwidth_Bps", bandwidth)

    def time_s(self, steps: int, t_b: Fraction, message_bytes: Fraction | float) -> Fraction:
        """Seconds of so many steps and so many M/B for M = ``message_bytes``."""
        message = exact(message_bytes, "message_bytes")
        if message < 0:
            raise ValueError(f"message_bytes is {message_bytes}: it must be finite and >= 0")
        return self.alpha_s * steps + t_b * message / self.node_bandwidth_Bps


@final
@dataclass(frozen=True, slots=True)
class Cost:
    """Number of steps (T_L in units of alpha) and t_b (T_B in units of M/B), both exact.

    >>> cost = Cost(3, Fraction(7, 8))
    >>> cost.dominates(Cost(3, Fraction(1)))
    True
    >>> float(cost.time_s(CostModel(10e-6, 12.5e9), 1_000_000))
    0.0001
    """

    steps: int
    t_b: Fraction

    def __add__(self, other: Cost) -> Cost:
        """The cost of one schedule after the other."""
        return Cost(self.steps + other.steps, self.t_b + other.t_b)

    def dominates(self, other: Cost) -> bool:
        """Whether this cost is no worse in both coordinates and better in one (no tolerance)."""
        return self.steps <= other.steps and self.t_b <= other.t_b and self != other

    def time_s(self, model: CostModel, message_bytes: Fraction | float) -> Fraction:
        """Seconds for a collective of ``message_bytes`` (M, the buffer of a rank)."""
        return model.time_s(self.steps, self.t_b, message_bytes)


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
