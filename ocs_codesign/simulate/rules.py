"""TimingRules: what a message costs on the links and at the nodes of a network, in whole ticks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.network import Network
    from ocs_codesign.simulate.transfers import Transfers

MEMORY_ACCESSES = 3
"""A byte that is added is read twice and written once."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRules:
    """How long what takes; a unit of the network's bandwidth is ``unit_Bps`` bytes a second.

    A message of S bytes that begins at tick t on a link of latency a and rate r (bytes a tick)
    leaves it free at t + floor(S / r) and has arrived at t + floor(a + S / r). With ``blocking``
    the link is free when the message has arrived. The next of a pair of ranks waits until the one
    before has arrived, or, if ``pipelined``, only queues behind it. On a path of many links a
    message goes on when it has come whole, or, if ``cut_through``, as soon as its head has.
    ``in_doubles`` computes S / r in doubles, as ASTRA-sim does. A send and a receive each take the
    processor of their node ``overhead_ticks``; all ports of a node together inject
    ``injection_Bps``; a byte that is added takes MEMORY_ACCESSES at ``memory_Bps``; None is no
    limit. Raises ValueError for rates that are not positive and a negative overhead.
    """

    unit_Bps: Fraction | int  # noqa: N815 - units keep their case
    blocking: bool = False
    pipelined: bool = False
    cut_through: bool = False
    in_doubles: bool = False
    overhead_ticks: int = 0
    injection_Bps: Fraction | None = None  # noqa: N815
    memory_Bps: Fraction | None = None  # noqa: N815

    def __post_init__(self) -> None:
        for name in ("unit_Bps", "injection_Bps", "memory_Bps"):
            rate = getattr(self, name)
            if rate is not None and exact(rate, name) <= 0:
                raise ValueError(f"{name} is {rate}: it must be positive")
            object.__setattr__(self, name, None if rate is None else exact(rate, name))
        if self.overhead_ticks < 0:
            raise ValueError(f"overhead_ticks is {self.overhead_ticks}: it cannot be negative")

    @property
    def is_free_at_ends(self) -> bool:
        """Whether sending and receiving cost the nodes nothing."""
        return not self.overhead_ticks and self.injection_Bps is None and self.memory_Bps is None

    def link_ticks(
        self, network: Network, chunk_bytes: Fraction, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Ticks of every size on every class of links until they are free, and until arrival.

        Both have the shape (sizes, classes); the third is the class of every link. Raises
        ValueError for ticks beyond 62 bits.
        """
        alike = np.stack([network.bandwidth, network.latency], axis=1)
        classes, of_link = np.unique(alike, axis=0, return_inverse=True)
        shape = len(sizes), len(classes)
        busy, flight = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for at, (bandwidth, latency) in enumerate(classes.tolist()):
            rate = bandwidth * self.unit_Bps * network.tick_s
            busy[:, at] = self._ticks(sizes, chunk_bytes, rate)
            # The sum is truncated once: in doubles it can round up where the parts do not.
            flight[:, at] = (
                self._ticks(sizes, chunk_bytes, rate, latency)
                if self.in_doubles
                else busy[:, at] + latency
            )
        return busy, flight, of_link.astype(np.int32).ravel()

    def node_ticks(
        self, transfers: Transfers, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ticks of every size at the ports of its sender, and in the memory of who adds it."""
        found = []
        for rate, accesses in ((self.injection_Bps, 1), (self.memory_Bps, MEMORY_ACCESSES)):
            if rate is None:
                found.append(np.zeros(len(sizes), dtype=np.int64))
            else:
                each = transfers.network.tick_s * rate / accesses
                found.append(self._ticks(sizes, transfers.chunk_bytes, each))
        return found[0], found[1]

    def _ticks(
        self, sizes: NDArray[np.int64], chunk_bytes: Fraction, rate: Fraction, latency: int = 0
    ) -> NDArray[np.int64]:
        """floor(latency + size / rate) of every size in chunks; the rate is in bytes a tick."""
        if self.in_doubles:
            each = [
                int(latency + float(size * chunk_bytes) / float(rate)) for size in sizes.tolist()
            ]
        else:
            a_chunk = chunk_bytes / rate
            over, under = a_chunk.numerator, a_chunk.denominator
            each = [latency + size * over // under for size in sizes.tolist()]
        if max(each, default=0) >= 2**62:
            raise ValueError(f"a message takes {max(each)} ticks of a link: at most 2^62 count")
        return np.array(each, dtype=np.int64)
