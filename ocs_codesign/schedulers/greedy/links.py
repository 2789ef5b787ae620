"""Links as greedy synthesis sees them: the ticks that a chunk occupies one and is on the way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import parse_bandwidth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.topology import Symmetry, Topology

BLOCKING, PIPELINED = "blocking", "pipelined"
MODELS = (PIPELINED, BLOCKING)
"""A chunk holds its link until it has arrived, or until it has left: its latency is on the way."""

MAX_TICKS = 2**46
"""Ticks that a chunk may take on a link: sums of very many of them fit into 64 bits."""


@final
@dataclass(frozen=True, eq=False)
class TickLinks:
    """Links from ``tail`` to ``head`` (int64) that carry one chunk at a time.

    A chunk sent at tick s occupies link i until s + ``busy[i]`` and is there at s + ``busy[i]`` +
    ``delay[i]`` (int64). A tick is ``tick_s`` seconds, None where time has no unit. ``symmetry``
    may be declared, apart from times.
    """

    num_nodes: int
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    busy: NDArray[np.int64]
    delay: NDArray[np.int64]
    tick_s: Fraction | None = None
    symmetry: Symmetry | None = None

    @property
    def num_links(self) -> int:
        """Number of links."""
        return len(self.tail)

    @property
    def ticks(self) -> NDArray[np.int64]:
        """From the start of a transfer to its arrival, shape (links,)."""
        return self.busy + self.delay

    @cached_property
    def step_ticks(self) -> int | None:
        """Ticks of a transfer where all links are alike and free when it ends, None elsewhere."""
        alike = self.num_links and (self.busy == self.busy[0]).all() and not self.delay.any()
        return int(self.busy[0]) if alike else None

    def reversed(self) -> TickLinks:
        """The same links leading the other way."""
        return replace(self, tail=self.head, head=self.tail)

    def blocking(self) -> TickLinks:
        """The same links, each held until the chunk has arrived."""
        return replace(self, busy=self.ticks, delay=np.zeros_like(self.delay))

    def in_steps(self) -> tuple[TickLinks, int]:
        """The same in the longest ticks in which all times are whole, and how many make one."""
        common = int(np.gcd.reduce(np.concatenate([self.busy, self.delay]))) or 1
        return replace(self, busy=self.busy // common, delay=self.delay // common), common


def links_of_topology(topology: Topology) -> TickLinks:
    """Links of a topology, a chunk taking the less the faster a link is; no latency.

    >>> from ocs_codesign.topology import Topology
    >>> links_of_topology(Topology(2, [0, 1], [1, 0], [1, 3])).busy.tolist()
    [3, 1]
    """
    speeds = topology.speeds()
    whole = lcm(*np.unique(speeds).tolist())
    if whole > MAX_TICKS:
        raise ValueError(f"the speeds have a common multiple of {whole}: at most {MAX_TICKS}")
    ends = topology.num_nodes, topology.tail, topology.head
    return replace(_links(*ends, whole // speeds, 0 * speeds), symmetry=topology.symmetry)


def links_of_network(network: Network, chunk_bytes: Fraction | None) -> TickLinks:
    """Links of a network that carry chunks of so many bytes, in the longest ticks that are whole.

    A network of ``chunk_ticks`` says itself what a chunk takes. ``chunk_bytes`` of None leaves
    the latency out and counts time relative to the fastest link.

    >>> from ocs_codesign.networks.direct import mesh
    >>> links = links_of_network(mesh((2, 2), (100, 50), 500, "GB/s"), Fraction(10**6))
    >>> links.busy.tolist(), links.delay.tolist(), links.tick_s
    ([20, 20, 20, 20, 40, 40, 40, 40], [1, 1, 1, 1, 1, 1, 1, 1], Fraction(1, 2000000))
    """
    ends = network.num_nodes, network.tail, network.head
    if network.chunk_ticks is not None:
        if chunk_bytes is not None:
            raise ValueError("this network says how many ticks a chunk takes, of whatever size")
        return _links(*ends, network.chunk_ticks, network.latency, network.tick_s)
    widths, wide = np.unique(network.bandwidth, return_inverse=True)
    waits, wait = np.unique(network.latency, return_inverse=True)
    if chunk_bytes is None:
        busy = [Fraction(1, width) for width in widths.tolist()]
        delay, unit_s = [Fraction(0)] * len(waits), None
    elif not network.unit:
        raise ValueError("bandwidths without a unit, such as GB/s: a message takes no known time")
    else:
        rate = Fraction(parse_bandwidth(f"1{network.unit}"))
        busy = [chunk_bytes / (rate * width) for width in widths.tolist()]
        delay, unit_s = [network.tick_s * ticks for ticks in waits.tolist()], Fraction(1)
    tick = _common_tick(busy + delay)
    holds, ways = (np.array([int(time / tick) for time in times]) for times in (busy, delay))
    return _links(*ends, holds[wide], ways[wait], unit_s and tick * unit_s)


def _common_tick(times: list[Fraction]) -> Fraction:
    """The longest tick of which all times are whole numbers."""
    down = lcm(*(time.denominator for time in times))
    tick = Fraction(gcd(*(int(time * down) for time in times)) or 1, down)
    if max(times, default=Fraction(0)) / tick > MAX_TICKS:
        raise ValueError(
            f"the links' times have no common tick of which each takes at most {MAX_TICKS}"
        )
    return tick


def _links(
    num_nodes: int,
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    busy: NDArray[np.int64],
    delay: NDArray[np.int64],
    tick_s: Fraction | None = None,
) -> TickLinks:
    ends = tail.astype(np.int64), head.astype(np.int64)
    return TickLinks(num_nodes, *ends, busy.astype(np.int64), delay.astype(np.int64), tick_s)
