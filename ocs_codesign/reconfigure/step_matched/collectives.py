"""Collectives whose every step wants one permutation of circuits, and circuits that serve several.

A step sends the same number of bytes from every node v to the node pi(v) of a permutation. A
circuit configuration sigma serves it directly if sigma = pi, and in h hops if pi is the h-th power
of sigma: ring circuits v -> v + 2^a serve the shift by 2^k, k >= a, in 2^(k - a) hops. All ports of
a node hold the same circuit, so a step takes hops * fraction of M/B.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import exact
from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import CostModel

MAX_NODES = 2048
CANNOT = 0
"""Hops of a step on a configuration that does not serve it."""


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
    their position. Message fractions are of M as costs count it: the data of a node in an
    all-to-all, the whole data otherwise.
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

        >>> matched("bruck", 8).hops().tolist()
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

    def step_costs_s(
        self, model: CostModel, message_bytes: Fraction | float
    ) -> tuple[tuple[Fraction | float, ...], ...]:
        """Seconds of every step (row) on every configuration, infinity where it cannot serve.

        Every hop takes alpha and the transmission of the step's bytes: what ``SwitchProblem`` takes
        as its costs.
        """
        alpha, bandwidth = exact(model.alpha_s), exact(model.node_bandwidth_Bps)
        hop_s = [alpha + size / bandwidth for size in self.bytes_per_node(message_bytes)]
        return tuple(
            tuple(hops * step_s if hops else float("inf") for hops in row)
            for row, step_s in zip(self.hops().tolist(), hop_s, strict=True)
        )


def matched(name: str, num_nodes: int) -> MatchedCollective:
    """The algorithm of ``CLASSIC`` with that name, as permutations and shares of M.

    Raises ValueError for N out of range, N that the algorithm has no steps for, and a step in which
    some node does not send or receive.

    >>> [(step.configuration, str(step.fraction)) for step in matched("halving-doubling", 4).steps]
    [(0, '1/2'), (1, '1/4'), (1, '1/4'), (0, '1/2')]
    """
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: step-matched collectives have 2 to {MAX_NODES}")
    algorithm = CLASSIC[name]
    known: dict[bytes, int] = {}
    heads: list[NDArray[np.int64]] = []
    steps: list[MatchedStep] = []
    for step in algorithm.steps(num_nodes):
        configuration = known.setdefault(step.peer.tobytes(), len(known))
        if configuration == len(heads):
            if not step.is_permutation:
                raise ValueError(f"step {len(steps) + 1} of {name} is no permutation of the nodes")
            heads.append(step.peer)
        fraction = Fraction(step.items.shape[1], num_nodes * algorithm.chunks)
        steps.append(MatchedStep(configuration, fraction))
    nodes = np.arange(num_nodes)
    topologies = tuple(Topology(num_nodes, nodes, head) for head in heads)
    return MatchedCollective(algorithm.name, algorithm.collective, topologies, tuple(steps))


MATCHED: dict[str, Callable[[int], MatchedCollective]] = {
    name: partial(matched, name) for name in CLASSIC
}
"""Every step-matched collective by name, by its number of nodes."""
