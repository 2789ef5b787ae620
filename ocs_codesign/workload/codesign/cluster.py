"""JobCluster: servers of accelerators with optical ports, as a job is planned on them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.cost import CostModel

if TYPE_CHECKING:
    from ocs_codesign.workload.fused import Accelerator

FAT_TREE_RADIX = 64
"""Ports of a packet switch, which say how many tiers a fat tree has."""


@final
@dataclass(frozen=True, slots=True)
class PortPrices:
    """US dollars of what a port of an accelerator hangs on: list estimates, no quotes."""

    ocs_port: Fraction
    transceiver: Fraction
    nic: Fraction
    packet_port: Fraction

    def optical(self) -> Fraction:
        """A port on an optical switch: card, transceiver, and the port of the switch."""
        return self.nic + self.transceiver + self.ocs_port

    def fat_tree(self, num_tiers: int) -> Fraction:
        """A port on a fat tree without blocking: every tier adds a link and two switch ports."""
        transceivers, ports = 2 * num_tiers, 2 * num_tiers - 1
        return self.nic + transceivers * self.transceiver + ports * self.packet_port


@final
@dataclass(frozen=True, slots=True)
class JobCluster:
    """Servers alike, whose accelerators share a switch inside and have optical ports outside.

    ``scale_up`` is what messages inside a server cost, None where a server is one accelerator.
    Accelerators of the same number in their servers are on one rail; only these have light between
    them. ``delta_s`` is the dead time of a change of circuits, ``switch`` the make of the optical
    switches. Raises ValueError for what does not fit.

    >>> from ocs_codesign.workload.fused import Accelerator
    >>> dollars = PortPrices(*map(Fraction, (520, 99, 659, 187)))
    >>> cluster = JobCluster("c", 4, 1, Accelerator(1e12, 1e12), 10**10, None, 2, Fraction(10**9),
    ...                      Fraction(1, 10**6), Fraction(0), "polatis-384", dollars)
    >>> cluster.num_accelerators, cluster.fat_tree_tiers, float(cluster.fat_tree_share)
    (4, 1, 1.22...)
    """

    name: str
    num_servers: int
    accelerators_a_server: int
    accelerator: Accelerator
    memory_bytes: int
    scale_up: CostModel | None
    num_ports: int
    port_Bps: Fraction  # noqa: N815 - the unit keeps its case
    alpha_s: Fraction
    delta_s: Fraction
    switch: str
    prices: PortPrices

    def __post_init__(self) -> None:
        for name in ("num_servers", "accelerators_a_server", "memory_bytes", "num_ports"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it is at least 1")
        if self.accelerators_a_server > 1 and self.scale_up is None:
            raise ValueError(
                f"a server has {self.accelerators_a_server} accelerators: say what joins them"
            )
        if self.port_Bps <= 0 or self.alpha_s < 0 or self.delta_s < 0:
            raise ValueError("a port has a bandwidth, and times are not negative")

    @property
    def num_accelerators(self) -> int:
        """Accelerators of all servers."""
        return self.num_servers * self.accelerators_a_server

    @property
    def fat_tree_tiers(self) -> int:
        """Tiers of packet switches that a fat tree of all ports has."""
        tiers = 1
        while 2 * (FAT_TREE_RADIX // 2) ** tiers < self.num_accelerators * self.num_ports:
            tiers += 1
        return tiers

    @property
    def fat_tree_share(self) -> Fraction:
        """Bandwidth of a fat tree that costs as much as the optical ports, as a share of theirs."""
        return self.prices.optical() / self.prices.fat_tree(self.fat_tree_tiers)

    def ports_model(self, num_ports: int | Fraction) -> CostModel:
        """What messages over so many ports of an accelerator cost."""
        return CostModel(self.alpha_s, num_ports * self.port_Bps)
