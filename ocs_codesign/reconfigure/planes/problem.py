"""Planes that change their circuits one by one: the problem, and the plan that answers it.

A fabric has k planes, and every node has one port of each. Step i of a collective needs
configuration c_i and moves m_i bytes a node, split over planes that hold c_i. Which planes do is a
fact about what every plane **holds**: the configuration that it last changed to, however long ago.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from operator import index
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.quantities import exact, exact_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.timeline import Timeline

MAX_PLANES = 16
MAX_STEPS = 100_000
MAX_CONFIGURATIONS = 1024
MAX_MATRIX = 512
"""Configurations of which every two may differ in another number of circuits."""

Usage = tuple[tuple[int, ...], ...]
"""The planes that serve each step, in ascending order."""

_ROUNDING = Fraction(1, 10**6)
_GIVEN = (
    *("configurations", "step_bytes", "num_planes", "plane_bandwidth_Bps", "cost", "latency_s"),
    *("held", "changed_circuits"),
)


@final
@dataclass(frozen=True, slots=True, init=False)
class PlaneProblem:
    """Steps with the configuration that each needs, planes and what they hold, the cost of change.

    ``configurations[i]`` is the configuration (from 0) that step i needs, ``step_bytes[i]`` what a
    node sends in it. A plane that serves a step is busy for ``latency_s`` + its bytes /
    ``plane_bandwidth_Bps``. ``held[j]`` is what plane j holds at time 0; None: nothing, and its
    first configuration pays dead time if ``cost.cold_start``, else it was made in time.
    ``changed_circuits[a][b]`` circuits change from a to b; the last row, one more than there are
    columns, is for a plane that holds nothing. A whole number instead of a matrix: as many in every
    change. What ``overlap`` and ``barrier`` of the cost mean: a plane changes while others
    send, or the whole fabric stops between two steps and its planes change together; and a step
    begins when the one before has arrived everywhere, or every plane goes on to its next part.
    A plane never profits from a detour, so circuits have to be counted as sets are: no more change
    from a to b than from a over c to b.

    Times are exact: a float is read as the decimal that it prints as. Raises ValueError for
    anything that is no such problem.

    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> problem = PlaneProblem((0, 1, 1, 0), (4e6, 2e6, 2e6, 4e6), 2, 50e9,
    ...                        ReconfigurationCost(200e-6))
    >>> problem.num_steps, problem.num_configurations, problem.send_s[0]
    (4, 2, Fraction(1, 12500))
    """

    configurations: tuple[int, ...]
    step_bytes: tuple[Fraction, ...]
    num_planes: int
    plane_bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    cost: ReconfigurationCost
    latency_s: Fraction
    held: tuple[int | None, ...]
    num_configurations: int
    changed_circuits: tuple[tuple[int, ...], ...] | int = field(repr=False)
    send_s: tuple[Fraction, ...] = field(repr=False, compare=False)
    """Seconds that one plane alone would send in each step."""

    def __init__(
        self,
        configurations: Sequence[int],
        step_bytes: Sequence[Fraction | float],
        num_planes: int,
        plane_bandwidth_Bps: Fraction | float,  # noqa: N803
        cost: ReconfigurationCost,
        *,
        latency_s: Fraction | float = 0,
        held: Sequence[int | None] | None = None,
        changed_circuits: Sequence[Sequence[int]] | int = 1,
    ) -> None:
        if not 1 <= num_planes <= MAX_PLANES:
            raise ValueError(f"{num_planes} planes: there must be 1 to {MAX_PLANES}")
        needed = tuple(index(one) for one in configurations)
        sizes = _sizes(step_bytes, len(needed))
        bandwidth = exact(plane_bandwidth_Bps, "plane_bandwidth_Bps")
        if bandwidth <= 0:
            raise ValueError(f"plane_bandwidth_Bps is {plane_bandwidth_Bps}: it must be positive")
        latency = exact_time(latency_s, "latency_s")
        holding = (None,) * num_planes if held is None else tuple(held)
        if len(holding) != num_planes:
            raise ValueError(f"{len(holding)} held configurations for {num_planes} planes")
        known = [*needed, *(one for one in holding if one is not None)]
        circuits = _circuits(changed_circuits)
        number = max(known) + 1 if isinstance(circuits, int) else len(circuits[0])
        _check_indices(needed, holding, number)
        send = tuple(size / bandwidth for size in sizes)
        values = (needed, sizes, num_planes, bandwidth, cost, latency, holding, number, circuits)
        for name, value in zip(self.__slots__, (*values, send), strict=True):
            object.__setattr__(self, name, value)

    @property
    def num_steps(self) -> int:
        """How many steps there are."""
        return len(self.configurations)

    def part(self, first: int, last: int) -> PlaneProblem:
        """The same planes with the steps ``first`` to ``last`` alone (from 0, end excluded)."""
        configurations = self.configurations[first:last]
        return self._with(configurations=configurations, step_bytes=self.step_bytes[first:last])

    def with_cost(self, cost: ReconfigurationCost) -> PlaneProblem:
        """The same problem at another cost of change."""
        return self._with(cost=cost)

    def _with(self, **changed: Any) -> PlaneProblem:
        return PlaneProblem(**{name: getattr(self, name) for name in _GIVEN} | changed)

    def circuits_changed(self, held: int | None, target: int) -> int:
        """Circuits that change when a plane goes from what it holds to another configuration.

        None do where a plane that holds nothing was made in time.
        """
        if held == target or (held is None and not self.cost.cold_start):
            return 0
        if isinstance(self.changed_circuits, int):
            return self.changed_circuits
        return self.changed_circuits[-1 if held is None else held][target]

    def dead_time_s(self, held: int | None, target: int) -> Fraction:
        """Seconds without light when a plane changes on its own; 0 if it was made in time."""
        return self.cost.dead_time_s(self.circuits_changed(held, target))


@final
@dataclass(frozen=True, slots=True)
class PlanePlan:
    """How the planes serve the steps in ``total_s`` seconds, and the least that is proven.

    ``usage[i]`` are the planes that serve step i. No plan takes less than ``lower_bound_s``;
    ``status`` says in a sentence how that is known. The timeline has been checked.
    """

    problem: PlaneProblem = field(repr=False)
    total_s: Fraction
    lower_bound_s: Fraction
    method: str
    status: str
    usage: Usage = field(repr=False)
    timeline: Timeline = field(repr=False)

    @property
    def gap(self) -> Fraction:
        """By what part of itself the total may be above the least."""
        return 1 - self.lower_bound_s / self.total_s

    @property
    def is_optimal(self) -> bool:
        """Whether no plan is faster but for a 1e-6 part, the tolerance of solvers."""
        return self.gap <= _ROUNDING


@final
@dataclass(frozen=True, slots=True)
class Draft:
    """Which planes serve which step, a proven lower bound, and how it came about, in a sentence.

    A bound of None is the total itself: the usage is optimal.
    """

    usage: Usage
    lower_bound_s: Fraction | None
    status: str


def _sizes(step_bytes: Sequence[Fraction | float], num_steps: int) -> tuple[Fraction, ...]:
    """The bytes of the steps, checked."""
    if not 1 <= num_steps <= MAX_STEPS:
        raise ValueError(f"{num_steps} steps: there must be 1 to {MAX_STEPS}")
    if len(step_bytes) != num_steps:
        raise ValueError(f"{num_steps} configurations for {len(step_bytes)} sizes of steps")
    sizes = tuple(exact(size, f"bytes of step {i}") for i, size in enumerate(step_bytes, 1))
    for i, size in enumerate(sizes, 1):
        if size <= 0:
            raise ValueError(f"step {i} moves {step_bytes[i - 1]} bytes: it must be more than 0")
    return sizes


def _circuits(changed: Sequence[Sequence[int]] | int) -> tuple[tuple[int, ...], ...] | int:
    """The matrix of changed circuits, or the number that they all are, checked."""
    if isinstance(changed, int):
        if changed < 1:
            raise ValueError(f"{changed} circuits change in a change: it must be at least 1")
        return changed
    size = len(changed[0]) if len(changed) else 0
    if not 1 <= size <= MAX_MATRIX:
        raise ValueError(f"a matrix for {size} configurations: there must be 1 to {MAX_MATRIX}")
    if len(changed) != size + 1 or any(len(row) != size for row in changed):
        raise ValueError(
            f"the matrix of changed circuits has {len(changed)} rows for {size} configurations: "
            "it needs one for each and a last one for a plane that holds nothing, all as long"
        )
    matrix = tuple(tuple(index(entry) for entry in row) for row in changed)
    _check_triangles(matrix)
    return matrix


def _check_indices(needed: Sequence[int], held: Sequence[int | None], size: int) -> None:
    if size > MAX_CONFIGURATIONS:
        raise ValueError(
            f"configuration {size - 1}: at most {MAX_CONFIGURATIONS}, from 0, are known"
        )
    for i, one in enumerate(needed, 1):
        if not 0 <= one < size:
            raise ValueError(f"step {i} needs configuration {one}: there are {size}, from 0")
    for plane, holds in enumerate(held):
        if holds is not None and not 0 <= holds < size:
            raise ValueError(f"plane {plane} holds configuration {holds}: there are {size}, from 0")


def _check_triangles(matrix: tuple[tuple[int, ...], ...]) -> None:
    import numpy as np

    changed = np.array(matrix, dtype=np.int64)
    size = changed.shape[1]
    if changed.min() < 0 or np.diagonal(changed).any():
        raise ValueError("changed circuits are counts, and none from a configuration to itself")
    for over in range(size):
        longer = changed[:, over, None] + changed[over]
        a, b = np.unravel_index(int((changed - longer).argmax()), changed.shape)
        if changed[a, b] > longer[a, b]:
            start = "nothing" if a == size else f"configuration {a}"
            raise ValueError(
                f"{changed[a, b]} circuits change from {start} to {b}, but {longer[a, b]} over "
                f"{over}: no count of circuits is like that"
            )
