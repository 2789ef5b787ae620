"""Aggregation in switches: what adding up in the network has of memory, arithmetic and time."""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import exact, parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


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


# Profiles of aggregation in switches; every number with where it comes from.


_WHOLE = ("num_slots", "slot_bytes", "header_bytes", "window", "copies")
_RATIONAL = ("rate_Bps", "latency_s", "conversion_Bps", "expansion")
_MAX_TEXT = 500


def _profile(name: str, arithmetic: str, **sourced: Any) -> AggregationProfile:
    """``sourced`` are numbers, each with where it comes from."""
    values = {field: number for field, (number, _) in sourced.items()}
    sources = tuple((field, text) for field, (_, text) in sourced.items())
    return AggregationProfile(name=name, arithmetic=arithmetic, sources=sources, **values)


AGGREGATION_PROFILES: Mapping[str, AggregationProfile] = {
    name: _profile(name, **fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""Every profile by its name, in the order of ``aggregation_profiles.toml``."""


def aggregation_named(text: str) -> AggregationProfile:
    """The profile that a text names, with other numbers where it says so.

    Raises ValueError for an unknown name or number, with those that there are.
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text[:_MAX_TEXT], re.DOTALL)
    if match is None or match[1] not in AGGREGATION_PROFILES:
        shown = repr((match[1] if match else text)[:60])
        known = ", ".join(AGGREGATION_PROFILES)
        raise ValueError(f"no aggregation is named {shown}: known are {known}")
    profile = AGGREGATION_PROFILES[match[1]]
    given: dict[str, Any] = {}
    for part in filter(None, map(str.strip, (match[2] or "").split(","))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in _WHOLE + _RATIONAL or name in given:
            known = ", ".join(_WHOLE + _RATIONAL)
            raise ValueError(f"{part[:60]!r} of {match[1]} is not one of {known}, once, as in a=1")
        given[name] = _number(name, value)
    if not given:
        return profile
    # A window that nobody named is the pool, also another one.
    follows = "num_slots" in given and profile.window == profile.num_slots
    changed = {"window": 0, **given} if follows else given
    sources = tuple(pair for pair in profile.sources if pair[0] not in given)
    sources += tuple((name, "as given") for name in given)
    told = ", ".join(f"{name}={value}" for name, value in given.items())
    return replace(profile, **changed, sources=sources, name=f"{profile.name}({told})")


def _number(name: str, value: str) -> int | Fraction | None:
    if value == "None" and name.endswith("_Bps"):
        return None
    try:
        return int(value) if name in _WHOLE else parse_number(value)
    except ValueError:
        kind = "whole number" if name in _WHOLE else "number, such as 1e-6 or 3/4"
        raise ValueError(f"{name} is {value[:40]!r}: it is a {kind}") from None


# AggregationTree: who sends to which switch or host that adds up, and over which links.


MAX_NODES = 2**30


@final
@dataclass(frozen=True, slots=True, eq=False)
class AggregationTree:
    """Who sends to which node that adds up.

    ``child`` (int32) are hosts and then what adds up, each below ``parent`` (int32); what comes to
    a parent is added up there, and goes on when all has come. Nodes from ``first_adder`` on are
    hosts that add up what others send with their own: host h is ``first_adder + h``, and its own
    data is below that. ``up`` and ``down`` are the links from each child to its parent and back, in
    order, none for a host's own data; between them switches only forward. ``bandwidth`` is what
    the tree has of its narrowest link, in the network's unit.
    """

    root: int
    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    up: tuple[tuple[int, ...], ...]
    down: tuple[tuple[int, ...], ...]
    bandwidth: Fraction
    first_adder: int = MAX_NODES

    def __post_init__(self) -> None:
        for column in (self.child, self.parent):
            column.setflags(write=False)

    @property
    def adders(self) -> tuple[int, ...]:
        """Switches and hosts that add up."""
        return tuple(dict.fromkeys(self.parent.tolist()))

    @property
    def switches(self) -> tuple[int, ...]:
        """Switches that add up."""
        return tuple(node for node in self.adders if node < self.first_adder)

    @property
    def adding_hosts(self) -> tuple[int, ...]:
        """Hosts that add up what others send with their own, ascending."""
        return tuple(sorted(self.place(node) for node in self.adders if node >= self.first_adder))

    def place(self, node: int) -> int:
        """The node of the network that one of the tree is at."""
        return node - self.first_adder if node >= self.first_adder else node

    @property
    def num_steps(self) -> int:
        """Links that a packet crosses from the farthest host to the root, and back."""
        below = dict(zip(self.child.tolist(), range(len(self.child)), strict=True))
        most = 0
        for child in self.child.tolist():
            links, node = 0, child
            while node != self.root:
                at = below[node]
                links += len(self.up[at]) + len(self.down[at])
                node = int(self.parent[at])
            most = max(most, links)
        return most

    def link_loads(self) -> dict[int, int]:
        """How often a packet crosses every link: more than once where a switch only forwards."""
        loads: dict[int, int] = {}
        for links in (*self.up, *self.down):
            for link in links:
                loads[link] = loads.get(link, 0) + 1
        return loads


def of_ways(
    pairs: dict[tuple[int, int], int],
    root: int,
    ways: dict[int, tuple[int, ...]],
    left: list[Fraction],
    first_adder: int,
) -> AggregationTree:
    """The tree of the way of every child, in order, and the bandwidth that links have for it."""
    up, down = [], []
    for way in ways.values():
        nodes = [node - first_adder if node >= first_adder else node for node in way]
        steps = [pair for pair in itertools.pairwise(nodes) if pair[0] != pair[1]]
        up.append(tuple(pairs[pair] for pair in steps))
        down.append(tuple(pairs[pair[::-1]] for pair in steps)[::-1])
    child = np.array(list(ways), dtype=np.int32)
    parent = np.array([way[-1] for way in ways.values()], dtype=np.int32)
    made = AggregationTree(root, child, parent, tuple(up), tuple(down), Fraction(1), first_adder)
    width = min(left[link] / load for link, load in made.link_loads().items())
    return replace(made, bandwidth=width)
