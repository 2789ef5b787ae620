"""Wires: what a foreign file says is joined to what, and the network that it makes.

Accelerators are hosts, everything else forwards. What forwards and leads nowhere is left out, what
forwards between two neighbours alone becomes a wire between these: rates stay exactly what they
are, and the program is small. Widths become whole numbers of one unit; what the file does not say
is asked for, and never taken as 1 or 0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from ocs_codesign.core.compute.components import strong_components
from ocs_codesign.core.network import MAX_BANDWIDTH, Network
from ocs_codesign.core.quantities import exact, format_bandwidth, parse_bandwidth

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_NODES = 2**21
MAX_HOSTS = 2**20
_NUMBERS = re.compile(r"(\d+)")
_SHOWN = 6
_UNITS = ("Gbps", "Mbps", "kbps", "B/s")


def natural(name: str) -> list[Any]:
    """What names are sorted by, h2 before h10.

    >>> sorted(["h" + "9" * 5000, "h10", "h2"], key=natural)[:2]
    ['h2', 'h10']
    """
    parts = _NUMBERS.split(name)
    # Numbers by their length first: int() does not read those of thousands of digits.
    return [
        (len(part.lstrip("0")), part.lstrip("0")) if number % 2 else part
        for number, part in enumerate(parts)
    ]


class Wire(NamedTuple):
    """One way from a node to another: bytes a second and seconds, None where it is not said.

    A speed that is given is that of one of its ``lanes``.
    """

    tail: str
    head: str
    link: str
    width_Bps: Fraction | None  # noqa: N815 - units keep their case
    latency_s: Fraction | None = None
    lanes: int = 1


class ReadOptions(NamedTuple):
    """What is said beside a file: ``speeds`` of links by name, in B/s, and what is left out.

    ``speed_attribute`` names the attribute of the edges of a graph that is their bandwidth.
    """

    speeds: Mapping[str, Fraction] = MappingProxyType({})
    without: tuple[str, ...] = ()
    speed_attribute: str | None = None

    @classmethod
    def of(
        cls, speeds: Sequence[str], without: Sequence[str], speed_attribute: str | None = None
    ) -> ReadOptions:
        """From texts such as xpu_fabric=50GB/s; ValueError for what is none."""
        found = {}
        for text in speeds:
            name, sign, value = text.rpartition("=")
            if not sign or not name:
                raise ValueError(f"a speed is LINK=QUANTITY, such as nvlink=50GB/s, not {text!r}")
            found[name] = exact(parse_bandwidth(value))
        return cls(found, tuple(without), speed_attribute)


@final
@dataclass
class Reading:
    """What was read of a file: counts, widths by link, what was guessed.

    ``nodes_joined`` are hosts and what joins them, ``nodes_kept`` those of them that have more than
    two neighbours.
    """

    format: str
    hosts: int = 0
    nodes: int = 0
    nodes_joined: int = 0
    nodes_kept: int = 0
    links: dict[str, str] = field(default_factory=dict)
    guesses: list[str] = field(default_factory=list)


class Wires:
    """Nodes and wires as a file names them, gathered one by one."""

    def __init__(self, format: str) -> None:  # noqa: A002
        self.reading = Reading(format)
        self.hosts: dict[str, None] = {}
        self.others: dict[str, None] = {}
        self.wires: list[Wire] = []

    def node(self, name: str, *, is_host: bool) -> None:
        """Add a node; ValueError for one too many."""
        (self.hosts if is_host else self.others)[name] = None
        if len(self.hosts) + len(self.others) > MAX_NODES or len(self.hosts) > MAX_HOSTS:
            raise ValueError(f"more than {MAX_HOSTS:,} hosts or {MAX_NODES:,} nodes")

    def cable(
        self,
        one: str,
        other: str,
        link: str,
        width_Bps: Fraction | None,  # noqa: N803 - units keep their case
        latency_s: Fraction | None = None,
        lanes: int = 1,
    ) -> None:
        """Add a wire each way."""
        self.wires.append(Wire(one, other, link, width_Bps, latency_s, lanes))
        self.wires.append(Wire(other, one, link, width_Bps, latency_s, lanes))

    def guess(self, text: str) -> None:
        """Say what the file does not and was taken."""
        if text not in self.reading.guesses:
            self.reading.guesses.append(text)

    def network(self, asked: ReadOptions, order: Sequence[str] | None = None) -> Network:
        """The network; hosts in ``order``, or by name.

        Raises ValueError for links without a speed, all named, for names of links that are none,
        for hosts that are not joined, and where no host is.
        """
        wires = _with_speeds(self.wires, asked)
        if not self.hosts:
            raise ValueError("there are no hosts: no accelerators, and nothing else that computes")
        self.reading.hosts = len(self.hosts)
        self.reading.nodes = len(self.hosts) + len(self.others)
        self._tell_widths(wires)
        wires = _pruned(wires, self.hosts)
        joined = {end for wire in wires for end in wire[:2]}
        self.reading.nodes_joined = len(joined | set(self.hosts))
        wires = _spliced(wires, self.hosts)
        hosts = list(order) if order is not None else sorted(self.hosts, key=natural)
        kept = {end for wire in wires for end in wire[:2]} - set(self.hosts)
        others = [name for name in self.others if name in kept]
        self.reading.nodes_kept = len(hosts) + len(others)
        return self._made(wires, hosts, sorted(others, key=natural))

    def _made(self, wires: list[Wire], hosts: list[str], others: list[str]) -> Network:
        number = {name: at for at, name in enumerate([*hosts, *others])}
        widths: dict[tuple[int, int, Fraction], Fraction] = defaultdict(Fraction)
        for wire in wires:
            latency = Fraction(0) if wire.latency_s is None else wire.latency_s
            key = number[wire.tail], number[wire.head], latency
            widths[key] += Fraction(wire.width_Bps or 0)
        ends = np.array([key[:2] for key in widths], dtype=np.int64).reshape(-1, 2).T
        _check_joined(ends, hosts, len(number))
        unit, text = _unit_of(widths.values())
        bandwidth = [int(width / unit) for width in widths.values()]
        if max(bandwidth, default=1) > MAX_BANDWIDTH:
            raise ValueError(f"links differ too much: {max(bandwidth)} times the unit they share")
        if any(wire.latency_s is None for wire in wires):
            self.guess(
                "no latency is said for some links: times are of bytes alone unless --latency"
            )
        latency_ns = [round(key[2] * 10**9) for key in widths]
        names = [*hosts, *others]
        return Network(
            *(len(hosts), len(number), *ends, bandwidth, latency_ns),
            unit=text,
            names=None if names == [str(at) for at in range(len(names))] else names,
        )

    def _tell_widths(self, wires: list[Wire]) -> None:
        found: dict[str, set[Fraction]] = defaultdict(set)
        for wire in wires:
            found[wire.link].add(Fraction(wire.width_Bps or 0))
        for link, widths in found.items():
            texts = [format_bandwidth(width) for width in sorted(widths)]
            more = f" and {len(texts) - _SHOWN} more" * (len(texts) > _SHOWN)
            self.reading.links[link] = ", ".join(texts[:_SHOWN]) + more


def _with_speeds(wires: list[Wire], asked: ReadOptions) -> list[Wire]:
    """Wires without those that are left out, with the speeds that were given."""
    names = dict.fromkeys(wire.link for wire in wires)
    for name in (*asked.without, *asked.speeds):
        if name not in names:
            raise ValueError(f"no link is called {name!r}: links are {', '.join(names) or 'none'}")
    kept = [wire for wire in wires if wire.link not in asked.without]
    given = asked.speeds
    kept = [
        wire._replace(width_Bps=given[wire.link] * wire.lanes) if wire.link in given else wire
        for wire in kept
    ]
    missing = dict.fromkeys(wire.link for wire in kept if not wire.width_Bps)
    if missing:
        shown = " ".join(f"--speed {name}=QUANTITY" for name in missing)
        raise ValueError(
            f"no bandwidth is said for links called {', '.join(missing)}: give {shown}, "
            "such as 50GB/s, or --without them"
        )
    return kept


def _pruned(wires: list[Wire], hosts: Mapping[str, None]) -> list[Wire]:
    """Without nodes that forward and have one neighbour, again and again."""
    beside: dict[str, set[str]] = defaultdict(set)
    for wire in wires:
        beside[wire.tail].add(wire.head)
        beside[wire.head].add(wire.tail)
    leaves = [name for name, others in beside.items() if len(others) < 2 and name not in hosts]
    gone = set(leaves)
    while leaves:
        name = leaves.pop()
        for other in beside[name]:
            beside[other].discard(name)
            if len(beside[other]) < 2 and other not in hosts and other not in gone:
                gone.add(other)
                leaves.append(other)
    return [wire for wire in wires if wire.tail not in gone and wire.head not in gone]


def _spliced(wires: list[Wire], hosts: Mapping[str, None]) -> list[Wire]:
    """Nodes that forward between two neighbours become wires between these, as wide as allowed."""
    merged: dict[tuple[str, str], list[Wire]] = defaultdict(list)
    out: dict[str, dict[str, None]] = defaultdict(dict)
    for wire in wires:
        merged[wire.tail, wire.head].append(wire)
        out[wire.tail][wire.head] = None
        out[wire.head][wire.tail] = None
    waiting = [name for name in out if name not in hosts and len(out[name]) == 2]
    while waiting:
        name = waiting.pop()
        if len(out[name]) != 2:
            continue
        ends = list(out[name])
        for tail, head in (ends, ends[::-1]):
            before, after = merged.pop((tail, name), []), merged.pop((name, head), [])
            if before and after:
                width = min(_width(before), _width(after))
                link = before[0].link if before[0].link == after[0].link else f"{before[0].link}+"
                merged[tail, head].append(Wire(tail, head, link, width, _longest(before, after)))
        for end in ends:
            del out[end][name]
        del out[name]
        out[ends[0]][ends[1]] = out[ends[1]][ends[0]] = None
        waiting += [end for end in ends if end not in hosts and len(out[end]) == 2]
    found = [wire for each in merged.values() for wire in each]
    # What led from a node back to itself is no way to anybody, and may leave a leaf behind.
    straight = [wire for wire in found if wire.tail != wire.head]
    return straight if len(straight) == len(found) else _spliced(_pruned(straight, hosts), hosts)


def _width(wires: list[Wire]) -> Fraction:
    return sum((Fraction(wire.width_Bps or 0) for wire in wires), Fraction(0))


def _longest(*sides: list[Wire]) -> Fraction | None:
    """The latency over both sides, None where one does not say."""
    told = [[wire.latency_s for wire in side] for side in sides]
    if any(one is None for side in told for one in side):
        return None
    return sum((max(one for one in side if one is not None) for side in told), Fraction(0))


def _check_joined(ends: Any, hosts: list[str], num_nodes: int) -> None:
    part = strong_components(ends[0], ends[1], num_nodes)[: len(hosts)]
    groups = [np.flatnonzero(part == one).tolist() for one in np.unique(part)]
    if len(groups) > 1:
        shown = [
            f"{len(group)} with {', '.join(hosts[at] for at in group[:3])}"
            for group in sorted(groups, key=len, reverse=True)[:4]
        ]
        more = f"; {len(groups) - 4} more parts" * (len(groups) > 4)
        raise ValueError(
            f"the hosts are not joined, they are in {len(groups)} parts: {'; '.join(shown)}{more}"
        )


def _unit_of(widths: Iterable[Fraction]) -> tuple[Fraction, str]:
    """Bytes a second of the unit that all are whole multiples of, and its name: Gb/s if it can."""
    found = list(widths)
    for text in _UNITS:
        unit = exact(parse_bandwidth(f"1{text}"))
        if all((width / unit).denominator == 1 for width in found):
            return unit, text
    below = lcm(*(width.denominator for width in found))
    unit = Fraction(gcd(*(int(width * below) for width in found)), below)
    return unit, f"{float(unit)!r} B/s"
