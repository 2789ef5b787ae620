"""What collectives with several configurations take, and from when on changing circuits pays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar, final

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ocs_codesign.cost import Cost, CostModel

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class SwitchedCost:
    """Steps and t_b of a collective, and how many configurations are held in turn for it.

    The fabric stops for every change, so C configurations take C - 1 dead times, and one more if
    the first has to be made as well. Raises ValueError for fewer than 1 configuration.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> direct = SwitchedCost(Cost(7, Fraction(7, 8)), 7)
    >>> direct.time_s(CostModel(0, 1e9), 8_000_000, 10e-6)
    Fraction(353, 50000)
    """

    cost: Cost
    num_configurations: int

    def __post_init__(self) -> None:
        if self.num_configurations < 1:
            raise ValueError(
                f"{self.num_configurations} configurations: at least 1 carries the collective"
            )

    def time_s(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        delta_s: Fraction | float,
        *,
        cold_start: bool = False,
    ) -> Fraction:
        """Seconds for ``message_bytes`` (M, the whole data) when a change takes ``delta_s``."""
        changes = self.num_configurations - (not cold_start)
        message = _message(message_bytes)
        return transmission_s(self.cost, model, message) + changes * _delta(delta_s)

    def dominates(self, other: SwitchedCost) -> bool:
        """Whether it is no worse in steps, t_b and configurations, and better in one of them."""
        return self != other and (
            self.cost.steps <= other.cost.steps
            and self.cost.t_b <= other.cost.t_b
            and self.num_configurations <= other.num_configurations
        )

    def point(self) -> tuple[int, Fraction, int]:
        """Steps, t_b and configurations."""
        return self.cost.steps, self.cost.t_b, self.num_configurations


def split_dominated(
    items: Iterable[T], cost_of: Callable[[T], SwitchedCost]
) -> tuple[list[T], list[T]]:
    """Undominated items, the first of equals, and the rest; by configurations, steps, t_b.

    >>> from ocs_codesign.cost import Cost
    >>> costs = [SwitchedCost(Cost(2, Fraction(t_b)), number) for t_b, number in ((1, 2), (1, 1))]
    >>> [[cost.num_configurations for cost in part] for part in split_dominated(costs, lambda c: c)]
    [[1], [2]]
    """
    ordered = sorted(
        items, key=lambda item: (cost_of(item).num_configurations, *cost_of(item).point())
    )
    front: list[T] = []
    rest: list[T] = []
    for item in ordered:  # what dominates or equals an item comes before it
        mine = cost_of(item)
        beaten = any(cost_of(other) == mine or cost_of(other).dominates(mine) for other in front)
        (rest if beaten else front).append(item)
    return front, rest


@final
@dataclass(frozen=True, slots=True)
class MessageRange:
    """Message sizes strictly between two numbers of bytes; ``end_bytes`` None is without limit."""

    begin_bytes: Fraction
    end_bytes: Fraction | None


def merged(ranges: Iterable[MessageRange]) -> tuple[MessageRange, ...]:
    """The sizes that lie in any of the ranges, as ranges that do not touch, ascending.

    >>> some = [MessageRange(Fraction(5), None), MessageRange(Fraction(1), Fraction(2))]
    >>> [(str(sizes.begin_bytes), sizes.end_bytes) for sizes in merged(some)]
    [('1', Fraction(2, 1)), ('5', None)]
    """
    found: list[MessageRange] = []
    for sizes in sorted(ranges, key=lambda sizes: sizes.begin_bytes):
        last = found[-1] if found else None
        if last is None or (last.end_bytes is not None and last.end_bytes < sizes.begin_bytes):
            found.append(sizes)
        elif last.end_bytes is not None:
            end = None if sizes.end_bytes is None else max(last.end_bytes, sizes.end_bytes)
            found[-1] = MessageRange(last.begin_bytes, end)
    return tuple(found)


def transmission_s(cost: Cost, model: CostModel, message_bytes: Fraction | float) -> Fraction:
    """alpha * steps + t_b * M / B in seconds, exact."""
    alpha, bandwidth = exact(model.alpha_s), exact(model.node_bandwidth_Bps)
    return alpha * cost.steps + cost.t_b * exact(message_bytes) / bandwidth


def break_even_delta_s(
    static: Iterable[SwitchedCost],
    switched: SwitchedCost,
    model: CostModel,
    message_bytes: Fraction | float,
) -> Fraction:
    """The dead time below which ``switched`` is faster than all of ``static``; never if negative.

    All of ``static`` have fewer configurations; whether the start is cold is the same to all.
    Raises ValueError if one has not, or for a message that is negative or not finite.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> ring, direct = Cost(7, Fraction(7, 2)), Cost(7, Fraction(7, 8))
    >>> model = CostModel(0, 1e9)
    >>> break_even_delta_s([SwitchedCost(ring, 1)], SwitchedCost(direct, 7), model, 8e6)
    Fraction(7, 2000)
    """
    message = _message(message_bytes)
    own = transmission_s(switched.cost, model, message)
    deltas = []
    for other in static:
        more = switched.num_configurations - other.num_configurations
        if more < 1:
            raise ValueError(
                f"{switched.num_configurations} configurations against "
                f"{other.num_configurations}: only more of them have a break-even dead time"
            )
        deltas.append((transmission_s(other.cost, model, message) - own) / more)
    if not deltas:
        raise ValueError("there is nothing to compare with: at least one other cost is needed")
    return min(deltas)


def paying_messages(
    static: Iterable[SwitchedCost],
    switched: SwitchedCost,
    model: CostModel,
    delta_s: Fraction | float,
) -> MessageRange | None:
    """Messages for which ``switched`` is faster than all of ``static``; None if there are none.

    Raises ValueError for a dead time that is negative or not finite.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> ring, direct = Cost(7, Fraction(7, 2)), Cost(7, Fraction(7, 8))
    >>> static, switched = [SwitchedCost(ring, 1)], SwitchedCost(direct, 7)
    >>> found = paying_messages(static, switched, CostModel(0, 1e9), 10e-6)
    >>> float(found.begin_bytes), found.end_bytes
    (22857.14285714286, None)
    """
    delta = _delta(delta_s)
    alpha, bandwidth = exact(model.alpha_s), exact(model.node_bandwidth_Bps)
    begin, end = Fraction(0), None
    for other in static:
        # Faster where the time lost in steps and dead times is less than rate * M.
        lost = alpha * (switched.cost.steps - other.cost.steps)
        lost += delta * (switched.num_configurations - other.num_configurations)
        rate = (other.cost.t_b - switched.cost.t_b) / bandwidth
        if rate > 0:
            begin = max(begin, lost / rate)
        elif lost >= 0:
            return None
        elif rate < 0:
            end = lost / rate if end is None else min(end, lost / rate)
    return MessageRange(begin, end) if end is None or begin < end else None


def _message(message_bytes: Fraction | float) -> Fraction:
    message = exact(message_bytes, "message_bytes")
    if message < 0:
        raise ValueError(f"message_bytes is {message_bytes}: it must be finite and >= 0")
    return message


def _delta(delta_s: Fraction | float) -> Fraction:
    delta = exact(delta_s, "delta_s")
    if delta < 0:
        raise ValueError(f"delta_s is {delta_s}: a time cannot be negative")
    return delta
