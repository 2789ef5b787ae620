"""Collectives whose every step wants one permutation of circuits, and circuits that serve several.

A step sends the same number of bytes from every node v to the node pi(v) of a permutation. A
circuit configuration sigma serves it directly if sigma = pi, and in h hops if pi is the h-th power
of sigma: ring circuits v -> v + 2^a serve the shift by 2^k, k >= a, in 2^(k - a) hops. All ports of
a node hold the same circuit, so a step takes hops * fraction of M/B.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import mul
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits.legs.plan import LegProblem, plan_with_few, price_plan
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.quantities import exact
from ocs_codesign.core.schedule import item_size
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic.registry import CLASSIC

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.circuits.legs.plan import LegPlan
    from ocs_codesign.schedules.classic.steps import Step


MAX_NODES = 2048
CANNOT = 0
"""Hops of a step on a configuration that does not serve it."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class MatchedCollective:
    """A collective as a list of steps, each matched by one permutation of circuits.

    ``configurations`` are different topologies of degree 1, one circuit a node. Step i is served in
    one hop by ``configurations[needed[i]]``; a node sends ``fractions[i]`` of M, the buffer of a
    rank.
    """

    name: str
    collective: Collective
    configurations: tuple[Topology, ...]
    needed: tuple[int, ...]
    fractions: tuple[Fraction, ...]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.configurations[0].num_nodes

    def bytes_per_node(self, message_bytes: Fraction | float) -> tuple[Fraction, ...]:
        """What every node sends at every step, for a message of M bytes."""
        message = exact(message_bytes, "message_bytes")
        return tuple(fraction * message for fraction in self.fractions)

    def cost(self, held: ArrayLike) -> Cost:
        """The cost of holding these configurations, one a step, in turn.

        Every hop is a step, in which the bytes are sent once more.
        """
        chosen = np.asarray(held)
        hops = self.hops()[np.arange(len(chosen)), chosen].tolist()
        t_b = sum(map(mul, hops, self.fractions), Fraction(0))
        return Cost(sum(hops), t_b, 1 + int(np.count_nonzero(np.diff(chosen))))

    def hops(self) -> NDArray[np.int64]:
        """Hops of every step (row) on every configuration (column), CANNOT where none will do."""
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
        return table[list(self.needed)]


def matched(name: str, collective: str, num_nodes: int, **options: Any) -> MatchedCollective:
    """What the algorithm of ``CLASSIC`` with that name makes, as permutations and shares of M.

    Raises ValueError for N out of range, what the algorithm does not make, and a step in which not
    every node sends as much to one other and receives from one.
    """
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: step-matched collectives have 2 to {MAX_NODES}")
    pattern = CLASSIC[name].pattern(collective, num_nodes, **options)
    share = item_size(collective, num_nodes, pattern.num_items)
    known: dict[bytes, int] = {}
    heads: list[NDArray[np.int64]] = []
    needed: list[int] = []
    fractions: list[Fraction] = []
    for step in pattern.steps:
        head = _peers(step, num_nodes)
        if head is None:
            raise ValueError(f"step {len(needed) + 1} of {name} is no permutation of the nodes")
        needed.append(known.setdefault(head.tobytes(), len(known)))
        if needed[-1] == len(heads):
            heads.append(head)
        fractions.append(step.num_sends // num_nodes * share)
    nodes = np.arange(num_nodes)
    topologies = tuple(Topology(num_nodes, nodes, head) for head in heads)
    made = Collective.parse(collective)
    title = CLASSIC[name].description
    return MatchedCollective(title, made, topologies, tuple(needed), tuple(fractions))


def _peers(step: Step, num_nodes: int) -> NDArray[np.int64] | None:
    """To whom every node sends, None unless all send as much to one and receive from one."""
    source, target, _ = (column.ravel() for column in np.broadcast_arrays(*step[:3]))
    peers = np.full(num_nodes, -1)
    peers[source] = target
    is_permutation = np.array_equal(np.sort(peers), np.arange(num_nodes))
    is_even = len(np.unique(np.bincount(source))) == 1
    return peers if is_permutation and is_even and (peers[source] == target).all() else None


def reuse_plan(matched: MatchedCollective, num_reconfigurations: int) -> LegPlan:
    """What is held at every step for the least t_b with at most so many changes, exactly.

    Of equals the plan has the fewest hops, then it changes early. The first configuration is held
    from the start; the costs are integers that compare plans. Raises ValueError for a negative
    number, and if so few configurations cannot serve all steps.

    >>> bruck = matched("bruck", "alltoall", 64)
    >>> [bruck.cost(reuse_plan(bruck, changes).choice).steps for changes in range(6)]
    [63, 14, 9, 8, 7, 6]
    """
    if num_reconfigurations < 0:
        raise ValueError(f"{num_reconfigurations} reconfigurations: it cannot be negative")
    hops = matched.hops()
    unit = lcm(*(fraction.denominator for fraction in matched.fractions))
    most_hops = int(hops.max(axis=1).sum()) + 1
    weight = [int(fraction * unit) * most_hops + 1 for fraction in matched.fractions]
    prices = hops.astype(object) * np.array(weight, dtype=object)[:, None]
    prices[hops == CANNOT] = np.inf
    try:
        # Backwards it costs the same, and of equals what is held last is held for long.
        backwards = plan_with_few(LegProblem(prices[::-1], 0, first=0), num_reconfigurations)
    except ValueError:
        raise ValueError(
            f"{matched.name} of {matched.num_nodes} nodes cannot be served with "
            f"{num_reconfigurations} reconfigurations: its steps want more configurations"
        ) from None
    return price_plan(LegProblem(prices, 0, first=0), backwards.choice[::-1])
