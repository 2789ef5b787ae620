"""Collectives whose every step wants one permutation of circuits, and circuits that serve several.

A step sends the same number of bytes from every node v to the node pi(v) of a permutation. A
circuit configuration sigma serves it directly if sigma = pi, and in h hops if pi is the h-th power
of sigma: ring circuits v -> v + 2^a serve the shift by 2^k, k >= a, in 2^(k - a) hops. All ports of
a node hold the same circuit, so a step takes hops * fraction of M/B.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.schedule import item_size
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.registry import CLASSIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedules.classic.steps import Step


MAX_NODES = 2048
CANNOT = 0
"""Hops of a step on a configuration that does not serve it."""
_NEVER = 2**61


@final
@dataclass(frozen=True, slots=True)
class MatchedStep:
    """A step: the configuration that serves it in one hop, and what a node sends, of M."""

    configuration: int
    fraction: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatchedCollective:
    """A collective as a list of steps, each matched by one permutation of circuits.

    ``configurations`` are different topologies of degree 1, one circuit a node; steps name them by
    their position. Message fractions are of M, the buffer of a rank.
    """

    name: str
    collective: Collective
    configurations: tuple[Topology, ...]
    steps: tuple[MatchedStep, ...]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.configurations[0].num_nodes

    def order(self) -> tuple[int, ...]:
        """The configuration that matches every step."""
        return tuple(step.configuration for step in self.steps)

    def bytes_per_node(self, message_bytes: Fraction | float) -> tuple[Fraction, ...]:
        """What every node sends at every step, for a message of M bytes."""
        message = exact(message_bytes, "message_bytes")
        return tuple(step.fraction * message for step in self.steps)

    def hops(self) -> NDArray[np.int64]:
        """Hops of every step (row) on every configuration (column), CANNOT where none will do.

        >>> matched("bruck", "alltoall", 8).hops().tolist()
        [[1, 0, 0], [2, 1, 0], [4, 2, 1]]
        """
        table = np.zeros((len(self.configurations), len(self.configurations)), dtype=np.int64)
        heads = [topology.head[np.argsort(topology.tail)] for topology in self.configurations]
        known = {head.tobytes(): number for number, head in enumerate(heads)}
        for held, head in enumerate(heads):
            reached = head
            for hops in range(1, self.num_nodes + 1):
                wanted = known.get(reached.tobytes())
                if wanted is not None and table[wanted, held] == CANNOT:
                    table[wanted, held] = hops
                reached = head[reached]
                if np.array_equal(reached, head):
                    break
        return table[list(self.order())]


def matched(name: str, collective: str, num_nodes: int, **options: Any) -> MatchedCollective:
    """What the algorithm of ``CLASSIC`` with that name makes, as permutations and shares of M.

    Raises ValueError for N out of range, what the algorithm does not make, and a step in which not
    every node sends as much to one other and receives from one.

    >>> swaps = matched("recursive-doubling", "allreduce", 4)
    >>> [(step.configuration, str(step.fraction)) for step in swaps.steps]
    [(0, '1/2'), (1, '1/4'), (1, '1/4'), (0, '1/2')]
    """
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: step-matched collectives have 2 to {MAX_NODES}")
    pattern = CLASSIC[name].pattern(collective, num_nodes, **options)
    share = item_size(collective, num_nodes, pattern.num_items)
    known: dict[bytes, int] = {}
    heads: list[NDArray[np.int64]] = []
    steps: list[MatchedStep] = []
    for step in pattern.steps:
        head = _peers(step, num_nodes)
        if head is None:
            raise ValueError(f"step {len(steps) + 1} of {name} is no permutation of the nodes")
        configuration = known.setdefault(head.tobytes(), len(known))
        if configuration == len(heads):
            heads.append(head)
        steps.append(MatchedStep(configuration, step.num_sends // num_nodes * share))
    nodes = np.arange(num_nodes)
    topologies = tuple(Topology(num_nodes, nodes, head) for head in heads)
    made = Collective.parse(collective)
    return MatchedCollective(CLASSIC[name].description, made, topologies, tuple(steps))


def _peers(step: Step, num_nodes: int) -> NDArray[np.int64] | None:
    """To whom every node sends, None unless all send as much to one and receive from one."""
    source, target, _ = (column.ravel() for column in np.broadcast_arrays(*step[:3]))
    peers = np.full(num_nodes, -1)
    peers[source] = target
    is_permutation = np.array_equal(np.sort(peers), np.arange(num_nodes))
    is_even = len(np.unique(np.bincount(source))) == 1
    return peers if is_permutation and is_even and (peers[source] == target).all() else None


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReusePlan:
    """A step-matched collective with the configuration held at every step, and the hops it takes.

    ``cost`` counts every hop as a step, the bytes of a step once a hop, and what is held in turn.
    """

    matched: MatchedCollective
    held: tuple[int, ...]
    hops: tuple[int, ...]

    @property
    def num_reconfigurations(self) -> int:
        """How often the circuits change; the first configuration is held from the start."""
        return sum(before != after for before, after in pairwise(self.held))

    @property
    def hop_units(self) -> int:
        """Hops of all steps."""
        return sum(self.hops)

    @property
    def cost(self) -> Cost:
        """Steps, t_b, and the number of configurations held in turn."""
        steps = zip(self.hops, self.matched.steps, strict=True)
        t_b = sum((hops * step.fraction for hops, step in steps), Fraction(0))
        return Cost(self.hop_units, t_b, self.num_reconfigurations + 1)


def reuse_plan(matched: MatchedCollective, num_reconfigurations: int) -> ReusePlan:
    """The plan of least t_b, of those with the fewest hops, with at most so many changes.

    Exact, by dynamic programming over the step, the configuration held and the changes so far.
    Raises ValueError for a negative number, and if so few configurations cannot serve all steps.

    >>> [reuse_plan(matched("bruck", "alltoall", 64), changes).hop_units for changes in range(6)]
    [63, 14, 9, 8, 7, 6]
    """
    if num_reconfigurations < 0:
        raise ValueError(f"{num_reconfigurations} reconfigurations: it cannot be negative")
    hops = matched.hops()
    most = min(num_reconfigurations, len(matched.steps) - 1)
    price = _prices(matched, hops)
    value, came_from = _least(price, most)
    total = value.min(axis=1)
    if total.min() >= _NEVER:
        raise ValueError(
            f"{matched.name} of {matched.num_nodes} nodes cannot be served with "
            f"{num_reconfigurations} reconfigurations: its steps want more configurations"
        )
    changes = int(np.argmin(total))
    now = int(np.argmin(value[changes]))
    held = [now]
    for step in range(len(price) - 1, 0, -1):
        before = int(came_from[step, changes, now])
        changes -= before != now
        now = before
        held.append(now)
    held.reverse()
    used = hops[np.arange(len(held)), held]
    return ReusePlan(matched, tuple(held), tuple(used.tolist()))


def _prices(matched: MatchedCollective, hops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers that compare plans by t_b, then by hops; _NEVER where a step cannot be served."""
    unit = lcm(*(step.fraction.denominator for step in matched.steps))
    most_hops = int(hops.max(axis=1).sum()) + 1
    weight = np.array([int(step.fraction * unit) * most_hops + 1 for step in matched.steps])
    return np.where(hops == CANNOT, _NEVER, hops * weight[:, None])


def _least(price: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Least price (changes, configurations) after all steps, and what was held the step before."""
    steps, many = price.shape
    came_from = np.empty((steps, most + 1, many), dtype=np.int32)
    value = np.full((most + 1, many), _NEVER)
    value[0] = price[0]
    every = np.arange(many, dtype=np.int32)
    for step in range(1, steps):
        came_from[step] = every
        if most:
            best = value[:-1].argmin(axis=1)
            least = value[np.arange(most), best][:, None]
            switched = least < value[1:]
            value[1:] = np.where(switched, least, value[1:])
            came_from[step, 1:] = np.where(switched, best[:, None], every)
        value = np.minimum(value + price[step], _NEVER)
    return value, came_from
