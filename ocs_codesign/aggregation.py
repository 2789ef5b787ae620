"""Aggregation in switches: what adding up in the network has of memory, arithmetic and time."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import final

from ocs_codesign.quantities import exact

FIXED, FLOATING = "fixed point", "floating point"
LINK, POOL, SWITCH, HOST = "link", "pool and round trip", "adding in the switch", "conversion"
"""What can limit a stream of packets that switches add up."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationProfile:
    """How a switch adds up: packets of ``slot_bytes`` of data and ``header_bytes`` besides.

    A packet is added up in one of ``num_slots`` slots, and a worker has at most ``window`` packets
    on their way. Memory is ``copies`` times the slots. A switch adds up ``rate_Bps`` bytes of
    results a second (None: as fast as packets come), and every pass through it takes
    ``latency_s``. Where the ``arithmetic`` is fixed point, a host converts ``conversion_Bps`` bytes
    a second there, and as many back (None: at no cost). A byte of a message is ``expansion`` bytes
    of elements in packets: 2 for numbers of two bytes that are added up in four. ``sources`` are
    pairs of a field and where its value comes from. Raises ValueError for what no switch can have.

    >>> pool = AggregationProfile(name="pool", arithmetic=FIXED, num_slots=128, slot_bytes=256)
    >>> pool.window, pool.memory_bytes, pool.num_packets(1000)
    (128, 32768, 4)
    """

    name: str
    arithmetic: str
    num_slots: int
    slot_bytes: int
    header_bytes: int = 0
    window: int = 0
    copies: int = 1
    rate_Bps: Fraction | None = None  # noqa: N815 - units keep their case
    latency_s: Fraction = Fraction(0)
    conversion_Bps: Fraction | None = None  # noqa: N815
    expansion: Fraction = Fraction(1)
    sources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", self.window or self.num_slots)
        for name in ("num_slots", "slot_bytes", "window", "copies"):
            if not 1 <= getattr(self, name) <= 2**30:
                raise ValueError(f"{name} of {self.name} is {getattr(self, name)}: 1 to 2^30")
        if not 0 <= self.header_bytes <= 2**20:
            raise ValueError(f"header_bytes of {self.name} is {self.header_bytes}: 0 to 2^20")
        if self.arithmetic not in (FIXED, FLOATING):
            raise ValueError(
                f"arithmetic of {self.name} is {self.arithmetic!r}: {FIXED} or {FLOATING}"
            )
        for name in ("rate_Bps", "conversion_Bps", "expansion", "latency_s"):
            value = getattr(self, name)
            if value is None and name.endswith("_Bps"):
                continue
            number = exact(value, name)
            if number < 0 or (number == 0 and name != "latency_s"):
                raise ValueError(f"{name} of {self.name} is {value}: it must be positive")
            object.__setattr__(self, name, number)
        if self.arithmetic == FLOATING and self.conversion_Bps is not None:
            raise ValueError(f"{self.name} adds up floating point: nothing is converted")

    @property
    def packet_bytes(self) -> int:
        """What a packet is on a link."""
        return self.slot_bytes + self.header_bytes

    @property
    def memory_bytes(self) -> int:
        """Memory of the pool, all copies of its slots."""
        return self.num_slots * self.slot_bytes * self.copies

    def num_packets(self, message_bytes: Fraction | float) -> int:
        """Packets of a message; the last one is sent as long as the others."""
        return ceil(exact(message_bytes, "message_bytes") * self.expansion / self.slot_bytes)

    def in_flight(self, num_slots: int | None = None) -> int:
        """Packets that a worker has on their way where its job has so many slots, or all."""
        return min(self.window, self.num_slots if num_slots is None else num_slots)

    def round_trip_s(
        self,
        way_s: Fraction | float,
        link_Bps: Fraction,  # noqa: N803 - units keep their case
    ) -> Fraction:
        """Seconds of a packet to one switch and back, ``way_s`` being what links and switch take.

        Besides it is sent twice, converted there and back, added up, and passes once.

        >>> pool = AggregationProfile(name="p", arithmetic=FIXED, num_slots=16, slot_bytes=1000)
        >>> pool.round_trip_s(Fraction(1, 10**6), Fraction(10**9))
        Fraction(3, 1000000)
        """
        trip = exact(way_s) + self.latency_s + 2 * self.packet_bytes / exact(link_Bps)
        trip += Fraction(0) if self.rate_Bps is None else self.slot_bytes / self.rate_Bps
        if self.conversion_Bps is not None:
            trip += 2 * self.slot_bytes / self.conversion_Bps
        return trip

    def limits_Bps(  # noqa: N802
        self,
        link_Bps: Fraction,  # noqa: N803
        round_trip_s: Fraction,
        num_slots: int | None = None,
    ) -> dict[str, Fraction]:
        """Bytes of a message a second that each limit lets through; the least one decides.

        A stream is as fast as the link that has least for it (headers do not count), as its packets
        in flight go round, as the switch adds up, and as the host converts.

        >>> pool = AggregationProfile(name="p", arithmetic=FIXED, num_slots=16, slot_bytes=1000)
        >>> pool.limits_Bps(Fraction(10**10), Fraction(4, 10**6))[POOL]
        Fraction(4000000000, 1)
        """
        found = {LINK: link_Bps * Fraction(self.slot_bytes, self.packet_bytes)}
        if round_trip_s > 0:
            found[POOL] = self.in_flight(num_slots) * self.slot_bytes / exact(round_trip_s)
        if self.rate_Bps is not None:
            found[SWITCH] = self.rate_Bps
        if self.conversion_Bps is not None:
            found[HOST] = self.conversion_Bps
        return {name: rate / self.expansion for name, rate in found.items()}

    def stream_s(
        self,
        message_bytes: Fraction | float,
        link_Bps: Fraction,  # noqa: N803
        round_trip_s: Fraction,
        num_slots: int | None = None,
    ) -> Fraction:
        """Seconds of a message over links and switches that have all the same for it.

        The packets in flight leave one after the other, at the pace of what is slowest besides the
        pool; the next of them when the first is back.
        """
        packets = self.num_packets(message_bytes)
        if not packets:
            return Fraction(0)
        limits = self.limits_Bps(link_Bps, round_trip_s, num_slots)
        limits.pop(POOL, None)
        gap = self.slot_bytes / (min(limits.values()) * self.expansion)
        flying = self.in_flight(num_slots)
        rounds, rest = divmod(packets - 1, flying)
        return round_trip_s + rounds * max(round_trip_s, flying * gap) + rest * gap
