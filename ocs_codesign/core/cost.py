"""The alpha-beta cost of a schedule, exact, and its time for a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar, final

from ocs_codesign.core.quantities import exact, exact_time, format_size

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

    On a machine what has steps takes ``launch_s`` besides, once, bytes pass at a ``share`` of the
    bandwidth, and a message goes by the fastest protocol: this one, or one of ``others``.

    >>> CostModel(10e-6, 12.5e9)
    CostModel(alpha_s=Fraction(1, 100000), node_bandwidth_Bps=Fraction(12500000000, 1))
    >>> CostModel(10e-6, 12.5e9).time_s(3, Fraction(7, 8), 1_000_000)
    Fraction(1, 10000)
    """

    alpha_s: Fraction
    node_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    launch_s: Fraction = field(repr=False)
    share: Fraction = field(repr=False)
    others: tuple[CostModel, ...] = field(repr=False)

    def __init__(
        self,
        alpha_s: Fraction | float,
        node_bandwidth_Bps: Fraction | float,  # noqa: N803
        launch_s: Fraction | float = 0,
        share: Fraction | float = 1,
        others: tuple[CostModel, ...] = (),
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
        object.__setattr__(self, "launch_s", exact_time(launch_s, "launch_s"))
        object.__setattr__(self, "share", exact(share, "share"))
        object.__setattr__(self, "others", others)

    def time_s(self, steps: int, t_b: Fraction, message_bytes: Fraction | float) -> Fraction:
        """Seconds of so many steps and so many M/B for M = ``message_bytes``."""
        return sum(self.parts_s(steps, t_b, message_bytes), Fraction(0))

    def parts_s(
        self, steps: int, t_b: Fraction, message_bytes: Fraction | float
    ) -> tuple[Fraction, Fraction]:
        """The same apart: of launch and steps, and of bytes.

        >>> fine = CostModel(1, 1, others=(CostModel(2, 8, 1, Fraction(1, 2)),))
        >>> fine.parts_s(1, Fraction(1), 1), fine.parts_s(1, Fraction(1), 8)
        ((Fraction(1, 1), Fraction(1, 1)), (Fraction(3, 1), Fraction(2, 1)))
        """
        message = exact(message_bytes, "message_bytes")
        if message < 0:
            raise ValueError(f"message_bytes is {message_bytes}: it must be finite and >= 0")
        own = (
            self.alpha_s * steps + (self.launch_s if steps else 0),
            t_b * message / (self.node_bandwidth_Bps * self.share),
        )
        ways = [each.parts_s(steps, t_b, message) for each in self.others]
        return min([own, *ways], key=sum)

    @property
    def protocols(self) -> tuple[CostModel, ...]:
        """This model alone, and each of the others."""
        own = self.alpha_s, self.node_bandwidth_Bps, self.launch_s, self.share
        return CostModel(*own), *self.others

    def faster(self, times: int) -> CostModel:
        """The same with so many times the bandwidth."""
        others = tuple(each.faster(times) for each in self.others)
        bandwidth = times * self.node_bandwidth_Bps
        return CostModel(self.alpha_s, bandwidth, self.launch_s, self.share, others)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """Steps (T_L in units of alpha), t_b (T_B in units of M/B) and configurations held, all exact.

    A collective whose circuits change holds several configurations in turn. The fabric stops for
    every change, so C of them take C - 1 dead times, and one more if the first has to be made as
    well. Raises ValueError for fewer than 1 configuration.

    >>> cost = Cost(3, Fraction(7, 8))
    >>> cost.dominates(Cost(3, Fraction(1))), cost.dominates(Cost(3, Fraction(7, 8), 2))
    (True, True)
    >>> float(cost.time_s(CostModel(10e-6, 12.5e9), 1_000_000))
    0.0001
    >>> Cost(7, Fraction(7, 8), 7).time_s(CostModel(0, 1e9), 8_000_000, delta_s=10e-6)
    Fraction(353, 50000)
    """

    steps: int
    t_b: Fraction
    num_configurations: int = 1

    def __post_init__(self) -> None:
        if self.num_configurations < 1:
            raise ValueError(
                f"{self.num_configurations} configurations: at least 1 carries the collective"
            )

    def __repr__(self) -> str:
        several = self.num_configurations > 1
        more = f", num_configurations={self.num_configurations}" if several else ""
        return f"Cost(steps={self.steps!r}, t_b={self.t_b!r}{more})"

    def __add__(self, other: Cost) -> Cost:
        """The cost of one schedule after the other, which starts on the circuits it leaves."""
        configurations = self.num_configurations + other.num_configurations - 1
        return Cost(self.steps + other.steps, self.t_b + other.t_b, configurations)

    def point(self) -> tuple[int, int, Fraction]:
        """What costs are compared by: configurations, steps, t_b."""
        return self.num_configurations, self.steps, self.t_b

    def dominates(self, other: Cost) -> bool:
        """Whether this cost is no worse in every coordinate and better in one (no tolerance)."""
        return self != other and no_worse(self.point(), other.point())

    def time_s(
        self,
        model: CostModel,
        message_bytes: Fraction | float,
        delta_s: Fraction | float = 0,
        *,
        cold_start: bool = False,
    ) -> Fraction:
        """Seconds for ``message_bytes`` (M, the buffer of a rank) if a change takes ``delta_s``."""
        delta = exact_time(delta_s, "delta_s")
        changes = self.num_configurations - (not cold_start)
        return model.time_s(self.steps, self.t_b, message_bytes) + changes * delta


@final
@dataclass(frozen=True, slots=True)
class MessageSizes:
    """Sizes of messages (M, the buffer of a rank, in bytes) that times are asked for, and a model.

    >>> MessageSizes(CostModel(10e-6, 12.5e9), (0, 1_000_000)).times_s(Cost(3, Fraction(7, 8)))
    (Fraction(3, 100000), Fraction(1, 10000))
    """

    model: CostModel
    sizes_bytes: tuple[float, ...]

    def times_s(self, cost: Cost) -> tuple[Fraction, ...]:
        """Seconds of every size."""
        return tuple(cost.time_s(self.model, size) for size in self.sizes_bytes)

    def columns(self, alone: str) -> tuple[str, ...]:
        """What times are called in a table: each after its size, one of one size ``alone``."""
        sizes = tuple(f"at {format_size(size)}" for size in self.sizes_bytes)
        return sizes if len(sizes) > 1 else (alone,)


Point = tuple[Fraction | int, ...]
"""What is compared, coordinate by coordinate; less is better."""


def no_worse(one: Point, other: Point) -> bool:
    """Whether a point is at most the other in every coordinate."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def split_dominated(items: Iterable[T], point_of: Callable[[T], Point]) -> tuple[list[T], list[T]]:
    """Items that no other is no worse than, the first of equals, and the rest; ascending in point.

    >>> split_dominated(["ab", "b", "ba", "a"], lambda text: (len(text), ord(text[0])))
    (['a'], ['b', 'ab', 'ba'])
    """
    front: list[tuple[Point, T]] = []
    rest: list[T] = []
    points = [(point_of(item), item) for item in items]
    for point, item in sorted(points, key=itemgetter(0)):  # what is no worse comes before
        if any(no_worse(other, point) for other, _ in reversed(front)):
            rest.append(item)
        else:
            front.append((point, item))
    return [item for _, item in front], rest


def undominated(items: Iterable[T], cost_of: Callable[[T], Cost]) -> list[T]:
    """Items whose cost no other's dominates, one a cost (the first of equals), ascending."""
    return split_dominated(items, lambda item: cost_of(item).point())[0]


def total(loads: Iterable[Fraction]) -> Fraction:
    """Their sum, in a thirtieth of the time of ``sum`` where denominators are few.

    >>> total([Fraction(1, 2), Fraction(1, 3), Fraction(3, 2)])
    Fraction(7, 3)
    """
    numerators: dict[int, int] = {}
    for _, alike in groupby(loads, id):  # a ring of a thousand nodes has one object for its steps
        load, *more = alike
        numerators.setdefault(load.denominator, 0)
        numerators[load.denominator] += load.numerator * (1 + len(more))
    return sum((Fraction(*parts[::-1]) for parts in numerators.items()), Fraction(0))
