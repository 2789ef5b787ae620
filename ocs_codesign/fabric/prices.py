"""Prices of a fabric from list estimates: what its ports, transceivers and NICs cost about.

The estimates serve to compare fabrics with each other; they are no quotes and leave out fibres,
racks, power, installation and whatever has no public price, which is listed without one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.quantities import exact

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.fabric.description import Fabric

TRANSCEIVERS_USD = {100: 99, 200: 239, 400: 659, 800: 1399}
"""List estimates of a transceiver by its Gbps."""

NICS_USD = {100: 659, 200: 1079, 400: 1499, 800: 2248}
"""List estimates of a network card, one a port, by its Gbps."""


@final
@dataclass(frozen=True, slots=True)
class PriceItem:
    """So many of an item at a price each; ``price_usd`` is None where no price is public."""

    name: str
    count: int
    price_usd: float | None

    @property
    def total_usd(self) -> float | None:
        """What all of them cost, or None."""
        return None if self.price_usd is None else self.count * self.price_usd


@final
@dataclass(frozen=True, slots=True)
class PriceList:
    """List estimates of everything that a fabric is made of."""

    items: tuple[PriceItem, ...]

    @property
    def total_usd(self) -> float:
        """The sum of the items that have a price."""
        return sum((item.total_usd or 0.0 for item in self.items), 0.0)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Names of the items that have none, so that the total is less than all costs."""
        return tuple(item.name for item in self.items if item.price_usd is None)


def fabric_price(fabric: Fabric) -> PriceList:
    """List estimates of a fabric: switch ports, and per port of a host a transceiver and a NIC.

    Spare ports and spare hosts are bought too. A port takes the slowest transceiver that is fast
    enough for its part of the host's bandwidth, or several of the fastest.
    """
    ports: Counter[tuple[str, float | None]] = Counter()
    for switch in fabric.switches:
        profile = switch.profile
        ports[profile.name, profile.price_usd_per_port] += switch.num_ports
    items = [PriceItem(f"{name} port", count, usd) for (name, usd), count in ports.items()]
    num_ports = len(fabric.hosts) * fabric.num_ports_per_host
    bits_per_s = exact(fabric.cost_model.node_bandwidth_Bps) * 8 / fabric.num_ports_per_host
    rate, each = _rate(bits_per_s / 10**9)
    items.append(PriceItem(f"{rate}G transceiver", num_ports * each, TRANSCEIVERS_USD[rate]))
    items.append(PriceItem(f"{rate}G NIC", num_ports * each, NICS_USD[rate]))
    models = {switch.plane: switch.profile.port_model for switch in fabric.switches}
    two_way = sum(model.ports_per_host for model in models.values() if model.is_bidirectional)
    if two_way:
        items.append(PriceItem("circulator", len(fabric.hosts) * two_way * each, None))
    return PriceList(tuple(items))


def _rate(gbps: Fraction) -> tuple[int, int]:
    enough = [rate for rate in TRANSCEIVERS_USD if rate >= gbps]
    fastest = max(TRANSCEIVERS_USD)
    return (min(enough), 1) if enough else (fastest, -(-gbps // fastest))
