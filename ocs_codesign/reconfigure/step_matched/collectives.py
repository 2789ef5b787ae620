"""Collectives whose every step wants one permutation of circuits, and circuits that serve several.

A step sends the same number of bytes from every node v to the node pi(v) of a permutation. A
circuit configuration sigma serves it directly if sigma = pi, and in h hops if pi is the h-th power
of sigma: ring circuits v -> v + 2^a serve the shift by 2^k, k >= a, in 2^(k - a) hops. All ports of
a node hold the same circuit, so a step takes hops * fraction of M/B.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.quantities import exact
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

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

        >>> bruck(8).hops().tolist()
        [[1, 0, 0], [2, 1, 0], [4, 2, 1]]
        """
        table = np.zeros((len(self.configurations), len(self.configurations)), dtype=np.int64)
        heads = [_head_of(topology) for topology in self.configurations]
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
        sent = [alpha + size / bandwidth for size in self.bytes_per_node(message_bytes)]
        return tuple(
            tuple(hops * one if hops else float("inf") for hops in row)
            for row, one in zip(self.hops().tolist(), sent, strict=True)
        )


def bruck(num_nodes: int) -> MatchedCollective:
    """Bruck's all-to-all: at step k what still has to go a distance with bit k shifts by 2^k.

    Source: Bruck, Ho, Kipnis, Upfal, Weathersby (1997).

    >>> [str(step.fraction) for step in bruck(6).steps]
    ['1/2', '1/3', '1/3']
    """
    _check_nodes(num_nodes)
    shifts = [2**k for k in range((num_nodes - 1).bit_length())]
    fractions = [
        Fraction(sum(1 for distance in range(num_nodes) if distance & shift), num_nodes)
        for shift in shifts
    ]
    return _collective(
        "Bruck",
        Collective.ALLTOALL,
        [_shift(num_nodes, shift) for shift in shifts],
        enumerate(fractions),
    )


def direct_exchange(num_nodes: int) -> MatchedCollective:
    """All-to-all in N - 1 steps: at step k every node sends to the node k further.

    >>> len(direct_exchange(5).steps)
    4
    """
    _check_nodes(num_nodes)
    return _collective(
        "direct exchange",
        Collective.ALLTOALL,
        [_shift(num_nodes, shift) for shift in range(1, num_nodes)],
        ((k, Fraction(1, num_nodes)) for k in range(num_nodes - 1)),
    )


def ring(num_nodes: int, collective: Collective | str = Collective.ALLREDUCE) -> MatchedCollective:
    """The ring algorithm: N - 1 steps of a shard to the next node, twice for an allreduce.

    >>> len(ring(8).steps), len(ring(8, "allgather").steps)
    (14, 7)
    """
    collective = Collective.parse_gathering(collective)
    _check_nodes(num_nodes)
    rounds = (num_nodes - 1) * (1 + (collective == Collective.ALLREDUCE))
    steps = ((0, Fraction(1, num_nodes)) for _ in range(rounds))
    return _collective("ring", collective, [_shift(num_nodes, 1)], steps)


def halving_doubling(num_nodes: int) -> MatchedCollective:
    """Allreduce by recursive halving, then doubling: 2 log2 N exchanges along a hypercube's axes.

    The first exchange moves M/2 and every next one half as much, then back. Source: Thakur,
    Rabenseifner, Gropp (2005). Raises ValueError unless N is a power of 2.

    >>> [(step.configuration, str(step.fraction)) for step in halving_doubling(4).steps]
    [(0, '1/2'), (1, '1/4'), (1, '1/4'), (0, '1/2')]
    """
    axes = _axes(num_nodes, "recursive halving and doubling")
    halving = [(axis, Fraction(1, 2 ** (axis + 1))) for axis in range(axes)]
    return _collective(
        "halving-doubling",
        Collective.ALLREDUCE,
        [_exchange(num_nodes, 2 ** (axes - 1 - axis)) for axis in range(axes)],
        [*halving, *reversed(halving)],
    )


def recursive_doubling(num_nodes: int) -> MatchedCollective:
    """Allreduce in log2 N exchanges of all of M: few steps, for small messages.

    Source: Thakur, Rabenseifner, Gropp (2005). Raises ValueError unless N is a power of 2.

    >>> [(step.configuration, str(step.fraction)) for step in recursive_doubling(4).steps]
    [(0, '1'), (1, '1')]
    """
    axes = _axes(num_nodes, "recursive doubling")
    return _collective(
        "recursive doubling",
        Collective.ALLREDUCE,
        [_exchange(num_nodes, 2**axis) for axis in range(axes)],
        [(axis, Fraction(1)) for axis in range(axes)],
    )


MATCHED: dict[str, Callable[[int], MatchedCollective]] = {
    "bruck": bruck,
    "direct-exchange": direct_exchange,
    "ring": ring,
    "halving-doubling": halving_doubling,
    "recursive-doubling": recursive_doubling,
}
"""Every step-matched collective by name, by its number of nodes."""


def _collective(
    name: str,
    collective: Collective,
    heads: Sequence[NDArray[np.int64]],
    steps: Iterable[tuple[int, Fraction]],
) -> MatchedCollective:
    nodes = np.arange(len(heads[0]))
    return MatchedCollective(
        name,
        collective,
        tuple(Topology(len(nodes), nodes, head) for head in heads),
        tuple(MatchedStep(configuration, fraction) for configuration, fraction in steps),
    )


def _shift(num_nodes: int, shift: int) -> NDArray[np.int64]:
    return (np.arange(num_nodes) + shift) % num_nodes


def _exchange(num_nodes: int, bit: int) -> NDArray[np.int64]:
    return np.arange(num_nodes) ^ bit


def _head_of(topology: Topology) -> NDArray[np.int64]:
    head = np.empty(topology.num_nodes, dtype=np.int64)
    head[topology.tail] = topology.head
    return head


def _axes(num_nodes: int, name: str) -> int:
    _check_nodes(num_nodes)
    if num_nodes & (num_nodes - 1):
        raise ValueError(f"{name} of {num_nodes} nodes: their number must be a power of 2")
    return num_nodes.bit_length() - 1


def _check_nodes(num_nodes: int) -> None:
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: step-matched collectives have 2 to {MAX_NODES}")
