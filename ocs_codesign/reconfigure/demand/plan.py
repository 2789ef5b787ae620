"""DemandPlan: configurations of circuit switches that serve a demand, and the check that they do.

The check shares no code with what makes plans: it adds up fractions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.reconfigure.demand.matrix import DemandMatrix


@final
@dataclass(frozen=True, slots=True, eq=False)
class DemandPlan:
    """Configurations that serve a demand, in the order in which each switch makes them.

    Configuration k is made on switch ``switch[k]`` (int32), which takes ``delta_s``, and then holds
    circuits from every node i to ``permutations[k, i]`` (int32) for ``durations_s[k]``; a node may
    have a circuit to itself or one that it needs no more. A circuit carries ``bandwidth_Bps``; a
    node has one on every switch. ``total_s`` is when the last switch is done, ``bound_s`` what no
    plan can beat. ``proof`` says why, ``method`` what found the plan.
    """

    demand: DemandMatrix = field(repr=False)
    bandwidth_Bps: Fraction  # noqa: N815 - the unit keeps its case
    delta_s: Fraction
    num_switches: int
    permutations: NDArray[np.int32] = field(repr=False)
    durations_s: tuple[Fraction, ...]
    switch: NDArray[np.int32] = field(repr=False)
    total_s: Fraction
    bound_s: Fraction
    proof: str
    method: str

    @property
    def num_configurations(self) -> int:
        """How many configurations are made, on all switches."""
        return len(self.durations_s)

    @property
    def is_optimal(self) -> bool:
        """Whether no plan takes less time, proven."""
        return self.total_s == self.bound_s

    @property
    def gap(self) -> Fraction:
        """How far the total may be above the least possible, relative to the bound."""
        return self.total_s / self.bound_s - 1 if self.bound_s else Fraction(0)

    @property
    def served_share(self) -> Fraction:
        """The share of all circuits' time that sends demanded bytes."""
        return self._share(self.demand.total_bytes / self.bandwidth_Bps)

    @property
    def idle_share(self) -> Fraction:
        """The share of all circuits' time between nodes that have nothing for each other."""
        idle = self.demand.units == 0
        return self._share(sum((time for time in self.served_s()[idle].tolist()), Fraction(0)))

    @property
    def overserved_share(self) -> Fraction:
        """The share of all circuits' time between nodes that were done before."""
        return 1 - self.served_share - self.idle_share if self.durations_s else Fraction(0)

    @property
    def dark_share(self) -> Fraction:
        """The share of all switches' time that configurations are made in."""
        if not self.total_s:
            return Fraction(0)
        return self.num_configurations * self.delta_s / (self.num_switches * self.total_s)

    def served_s(self) -> NDArray[np.object_]:
        """How long there is a circuit from every node to every node (Fractions, n by n)."""
        return _served(self.demand.num_nodes, self.permutations, self.durations_s)

    def up_from_s(self) -> list[Fraction]:
        """When the circuits of every configuration are up, delta after its switch is free."""
        free_s, up_from = [Fraction(0)] * self.num_switches, []
        for switch, duration_s in zip(self.switch.tolist(), self.durations_s, strict=True):
            up_from.append(free_s[switch] + self.delta_s)
            free_s[switch] = up_from[-1] + duration_s
        return up_from

    def used_circuits(self, configuration: int) -> list[tuple[int, int]]:
        """The circuits of a configuration between nodes with a demand: source and target."""
        circuits = enumerate(self.permutations[configuration].tolist())
        return [pair for pair in circuits if self.demand.units[pair]]

    def _share(self, time_s: Fraction) -> Fraction:
        whole = self.demand.num_nodes * sum(self.durations_s, Fraction(0))
        return time_s / whole if whole else Fraction(0)


def check_demand_plan(
    demand: DemandMatrix,
    bandwidth_Bps: Fraction,  # noqa: N803 - the unit keeps its case
    delta_s: Fraction,
    num_switches: int,
    permutations: NDArray[np.int32],
    durations_s: Sequence[Fraction],
    switch: NDArray[np.int32],
) -> Fraction:
    """When the last switch is done, in seconds, if the plan serves the demand.

    Raises ValueError with the first configuration that is no permutation, lasts less than no time
    or is on no switch, or else the first pair of nodes that has less than its demand.

    >>> from ocs_codesign.reconfigure.demand.matrix import DemandMatrix
    >>> demand = DemandMatrix([[0, 3], [6, 0]])
    >>> swap, switch = np.array([[1, 0]]), np.array([0])
    >>> check_demand_plan(demand, Fraction(1), Fraction(1, 2), 1, swap, [Fraction(6)], switch)
    Fraction(13, 2)
    >>> check_demand_plan(demand, Fraction(1), Fraction(1, 2), 1, swap, [Fraction(5)], switch)
    Traceback (most recent call last):
    ValueError: from 1 to 0 there are 5 bytes served of 6
    """
    nodes = demand.num_nodes
    if not len(permutations) == len(durations_s) == len(switch):
        raise ValueError(
            f"{len(permutations)} configurations with {len(durations_s)} durations "
            f"on {len(switch)} switches do not fit"
        )
    busy_s = [Fraction(0)] * num_switches
    for at, (circuits, duration_s, on) in enumerate(
        zip(permutations.tolist(), durations_s, switch.tolist(), strict=True)
    ):
        if sorted(circuits) != list(range(nodes)):
            raise ValueError(f"configuration {at} is no permutation of {nodes} nodes")
        if duration_s < 0:
            raise ValueError(f"configuration {at} lasts {duration_s} s: it cannot be negative")
        if not 0 <= on < num_switches:
            raise ValueError(f"configuration {at} is on switch {on} of {num_switches}")
        busy_s[on] += duration_s + delta_s
    served = _served(nodes, permutations, durations_s)
    for source in range(nodes):
        for target in range(nodes):
            wanted = demand.entry_bytes(source, target)
            if served[source, target] * bandwidth_Bps < wanted:
                raise ValueError(
                    f"from {source} to {target} there are "
                    f"{served[source, target] * bandwidth_Bps} bytes served of {wanted}"
                )
    return max(busy_s)


def _served(
    nodes: int, permutations: NDArray[np.int32], durations_s: Sequence[Fraction]
) -> NDArray[np.object_]:
    served = np.full((nodes, nodes), Fraction(0), dtype=object)
    for circuits, duration_s in zip(permutations, durations_s, strict=True):
        served[np.arange(nodes), circuits] += duration_s
    return served
