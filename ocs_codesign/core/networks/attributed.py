"""Attributed graphs: nodes and edges by name with what a file or networkx says of each.

All graph files and networkx graphs come through here, whether a topology or a network is wanted, so
that the speed of a link is the same in both.
"""

from __future__ import annotations

import re
from array import array
from contextlib import nullcontext
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.naming import check_name, numbers
from ocs_codesign.core.network import MAX_BANDWIDTH, Network
from ocs_codesign.core.networks.records import TICKS, network_of, read_tick
from ocs_codesign.core.quantities import (
    NUMBER,
    exact,
    parse_bandwidth,
    parse_number,
    parse_time,
    unit_of_bandwidth,
)
from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import MAX_LINKS, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


MAX_SPEED = 2**31 - 1
ALIKE = "none"
"""As the name of the attribute of speeds: there is none, and links are alike."""
SPEEDS = ("bandwidth", "capacity", "speed", "linkspeedraw")
"""Attributes that are speeds, in any case; the last one, of the Topology Zoo, in bit/s."""
_MAY_BE_SPEED = re.compile(r"weight|width|speed|rate|cap|band|bw|bps|throughput", re.IGNORECASE)
_UNITS = (("Gbps", 10**9), ("Mbps", 10**6), ("kbps", 10**3), ("bps", 1))
_SWITCH = "switch"
_ABILITIES = ("multicast", "aggregate")


@final
class AttributedGraph:
    """Nodes and edges by name with their attributes, gathered one by one.

    ``name`` is what errors begin with, and ``place`` what they have after it for an edge that was
    read ``at`` a line or position, as in ``", line {}"``; without one its ends tell it.
    """

    def __init__(self, name: str = "", place: str = "") -> None:
        self.name, self.place = name, place
        self.attributes: dict[str, Any] = {}
        self.number: dict[str, int] = {}
        self.of_nodes: dict[str, dict[int, Any]] = {}
        self.tail, self.head, self.at = array("i"), array("i"), array("q")
        self.both_ways = bytearray()
        self.of_edges: dict[str, list[Any]] = {}

    def node(self, name: str) -> int:
        """The node of that name, new if it was not seen before."""
        known = self.number.get(name)
        if known is not None:
            return known
        check_name(name)
        return self.number.setdefault(name, len(self.number))

    def new_node(self, name: str, attributes: Mapping[str, Any]) -> None:
        """A node that was not seen before; ValueError if it was."""
        known = len(self.number)
        node = self.node(name)
        if len(self.number) == known:
            raise ValueError(f"a second node is named {shown(name)}")
        for key, value in attributes.items():
            self.of_nodes.setdefault(key, {})[node] = value

    def edge(
        self, ends: tuple[str, str], at: int, attributes: Mapping[str, Any], *, both_ways: bool
    ) -> None:
        """Append an edge: a link, or one each way."""
        if len(self.tail) >= MAX_LINKS:
            raise ValueError(f"more than {MAX_LINKS} links: no more are supported")
        self.tail.append(self.node(ends[0]))
        self.head.append(self.node(ends[1]))
        self.at.append(at)
        self.both_ways.append(both_ways)
        for key, value in attributes.items():
            column = self.of_edges.setdefault(key, [])
            column.extend([None] * (len(self.tail) - 1 - len(column)))
            column.append(value)

    def topology(self, speed_attribute: str | None = None) -> Topology:
        """The topology, with relative speeds; ValueError if some nodes are switches.

        Nodes are numbered in ascending order if all names are integers, else in order of
        appearance. Links come in the order of the edges, or of their keys if these number them.
        """
        number, hosts = self._numbers()
        if hosts < len(number):
            raise self._wrong(f"{len(number) - hosts} of its nodes are switches: it is a network")
        tail, head, edge = self._links(number)
        rates, _ = self._rates(speed_attribute)
        speeds = None if rates is None else np.array(self._whole(rates, MAX_SPEED))[edge]
        return Topology(len(number), tail, head, speeds)

    def network(self, speed_attribute: str | None = None) -> Network:
        """The network: nodes of ``kind`` switch are switches, numbered behind all the hosts.

        Links without a speed have bandwidth 1; ``latency`` is in ticks or has a unit.
        """
        number, hosts = self._numbers()
        tail, head, edge = self._links(number)
        bandwidth, unit = self._bandwidths(speed_attribute)
        columns = [tail, head, *(np.array(each)[edge] for each in (bandwidth, self._latencies()))]
        columns += [np.array(each)[edge] for each in self._dimensions()]
        order = np.argsort(number).tolist()
        listed = list(self.number)
        named = self.of_nodes.get("name", {})
        names = [str(named.get(node, listed[node])) for node in order]
        able = {
            ability: sorted(int(number[node]) for node, is_able in marks.items() if is_able)
            for ability in _ABILITIES
            if (marks := self.of_nodes.get(ability))
        }
        with errors_at(self.name) if self.name else nullcontext():
            return network_of(
                {
                    "num_hosts": hosts,
                    "num_nodes": len(order),
                    "unit": unit,
                    "tick_s": self.attributes.get("tick_s"),
                    "links": np.stack(columns, axis=1).tolist(),
                    **able,
                    **({} if names == list(map(str, range(len(names)))) else {"names": names}),
                }
            )

    def _wrong(self, rule: str, edge: int | None = None) -> ValueError:
        """What is wrong, with the place."""
        if edge is not None and self.place:
            return ValueError(f"{self.name}{self.place.format(self.at[edge])}: {rule}")
        where = [self.name] * bool(self.name) + ([] if edge is None else [self._ends(edge)])
        return ValueError(": ".join([*where, rule]))

    def _missing(self, edge: int, what: str) -> ValueError:
        return self._wrong(f"{self._ends(edge)} has no {what}, as others have")

    def _ends(self, edge: int) -> str:
        names = list(self.number)
        return f"the edge {shown(names[self.tail[edge]])} to {shown(names[self.head[edge]])}"

    def _numbers(self) -> tuple[NDArray[np.int64], int]:
        """The number of every node, hosts first, and how many are hosts."""
        if not self.number:
            raise self._wrong("there are no nodes")
        kinds, types = self.of_nodes.get("kind", {}), self.of_nodes.get("type", {})
        if types and not kinds:  # As InfraGraph writes them: all would be hosts.
            told = ", ".join(sorted({shown(each) for each in types.values()})[:4])
            raise self._wrong(
                f"nodes have a type ({told}) but no kind: give each kind host or switch and "
                "links a bandwidth, or read the file that this was made of"
            )
        for node, kind in kinds.items():
            if kind not in ("host", _SWITCH):
                name = shown(list(self.number)[node])
                raise self._wrong(f"node {name} is a {shown(kind)}: host or switch")
        is_switch = np.zeros(len(self.number), dtype=bool)
        is_switch[[node for node, kind in kinds.items() if kind == _SWITCH]] = True
        order = np.lexsort((numbers(list(self.number)), is_switch))
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return number, int((~is_switch).sum())

    def _links(
        self, number: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Tail, head and edge of every link."""
        ends = [number[np.frombuffer(each, dtype=np.intc)] for each in (self.tail, self.head)]
        twice = np.frombuffer(self.both_ways, dtype=np.bool_)
        edge = np.repeat(self._edge_order(), 1 + twice)
        is_back = np.zeros(len(edge), dtype=bool)
        is_back[1:] = edge[1:] == edge[:-1]
        tail, head = (np.where(is_back, ends[1 - end][edge], ends[end][edge]) for end in (0, 1))
        return tail, head, edge

    def _edge_order(self) -> NDArray[np.int64]:
        """The edges by their keys if they are links and the keys are 0 to their number, less 1."""
        keys = [str(key) for key in self.of_edges.get("key", [])]
        if not any(self.both_ways) and sorted(keys) == sorted(map(str, range(len(self.tail)))):
            return np.argsort(np.array([int(key) for key in keys], dtype=np.int64))
        return np.arange(len(self.tail))

    def _speed_column(self, asked: str | None) -> str | None:
        """The attribute that is the speed of links, None if they are alike; ValueError if unsure.

        Only links that differ in what may be their speed leave a doubt.
        """
        if asked == ALIKE or not self.tail:
            return None
        if asked is not None:
            if asked not in self.of_edges:
                listed = ", ".join(shown(key) for key in self.of_edges if key != "key") or "none"
                rule = f"no edge has the attribute {shown(asked)}, they have: {listed}"
                raise self._wrong(rule)
            return asked
        known = [key for key in self.of_edges if key.lower() in SPEEDS]
        known.sort(key=lambda key: SPEEDS.index(key.lower()))
        if known:
            shares = [self._shares(key) for key in known]
            if any(share != shares[0] for share in shares):
                both = " and ".join(map(shown, known))
                raise self._wrong(f"edges have {both}, which differ: name the speed attribute")
            return known[0]
        for key, column in self.of_edges.items():
            values = {*map(str, column), *["None"] * (len(column) < len(self.tail))}
            if len(values) > 1 and _MAY_BE_SPEED.search(key):
                raise self._wrong(
                    f"edges differ in {shown(key)}, which may be their speed: name it as the "
                    f"speed attribute, or {ALIKE} if links are alike"
                )
        return None

    def _shares(self, key: str) -> list[Fraction]:
        """Speeds under a name as shares of the first."""
        rates, _ = self._rates_of(key)
        return [rate / rates[0] for rate in rates]

    def _rates(self, asked: str | None) -> tuple[list[Fraction] | None, bool]:
        """The speed of every edge, None if they are alike, and whether they are in B/s."""
        key = self._speed_column(asked)
        return (None, False) if key is None else self._rates_of(key)

    def _rates_of(self, key: str) -> tuple[list[Fraction], bool]:
        column = self.of_edges[key]
        is_raw = key.lower() == SPEEDS[-1]
        known: dict[Any, tuple[Fraction, bool]] = {}
        rates = []
        for edge, value in enumerate(column):
            if value is None:
                continue
            text = str(value) if isinstance(value, bool) or not value.__hash__ else value
            if text not in known:
                try:
                    rate, has_unit = _rate(value)
                except ValueError as error:
                    raise self._wrong(str(error), edge) from None
                known[text] = (rate / 8, True) if is_raw and not has_unit else (rate, has_unit)
                if known[text][1] != known[next(iter(known))][1]:
                    raise self._wrong(f"{shown(value)} is a speed with a unit, or without", edge)
            rates.append(known[text][0])
        if len(rates) < len(self.tail):
            missing = [*(value is None for value in column), True].index(True)
            raise self._missing(missing, shown(key))
        return rates, next(iter(known.values()), (None, False))[1]

    def _whole(self, rates: list[Fraction], most: int) -> list[int]:
        """Rates as they are if these are whole numbers, else in the largest common part of all."""
        distinct = set(rates)
        scale = 1
        for rate in distinct:
            scale = lcm(scale, rate.denominator)
            if scale > MAX_BANDWIDTH:
                break
        values = {rate: int(rate * scale) for rate in distinct}
        if scale > 1 or max(values.values()) > most:
            part = gcd(*values.values())
            values = {rate: value // part for rate, value in values.items()}
        if scale > MAX_BANDWIDTH or max(values.values()) > most:
            raise self._wrong(f"speeds have no common part that the largest is {most} times of")
        return [values[rate] for rate in rates]

    def _bandwidths(self, asked: str | None) -> tuple[list[int], str]:
        """The bandwidth of every edge, and its unit."""
        rates, in_bytes = self._rates(asked)
        unit = self.attributes.get("unit", "")
        if rates is None:
            return [1] * len(self.tail), unit
        if not in_bytes and any(rate.denominator > 1 for rate in set(rates)) and unit != TICKS:
            try:
                size = unit_of_bandwidth(unit) if unit else None
            except ValueError:
                size = None
            if size is not None:
                rates, in_bytes = [rate * size for rate in rates], True
        if not in_bytes:
            return self._whole(rates, MAX_BANDWIDTH), unit
        bits = [rate * 8 for rate in rates]
        fits = (each for each in _UNITS if not any(rate % each[1] for rate in set(bits)))
        unit, in_bits = next(fits, _UNITS[-1])
        return self._whole([rate / in_bits for rate in bits], MAX_BANDWIDTH), unit

    def _latencies(self) -> list[int]:
        """The latency of every edge in ticks, 0 if none has one."""
        column = self.of_edges.get("latency")
        if column is None:
            return [0] * len(self.tail)
        tick_s = read_tick(self.attributes.get("tick_s") or None)
        ticks = []
        for edge, value in enumerate(column + [None] * (len(self.tail) - len(column))):
            if value is None:
                raise self._missing(edge, "latency")
            try:
                time = _ticks(value, tick_s)
            except ValueError as error:
                raise self._wrong(f"latency: {error}", edge) from None
            ticks.append(time)
        return ticks

    def _dimensions(self) -> list[list[int]]:
        """The dimension of every edge, if they have any."""
        column = self.of_edges.get("dimension")
        if column is None:
            return []
        return [[_count(value) for value in column] + [0] * (len(self.tail) - len(column))]


def of_networkx(graph: Any) -> AttributedGraph:
    """The nodes and edges of any networkx graph; ValueError if two names are the same text."""
    found = AttributedGraph()
    found.attributes = dict(graph.graph)
    for node, attributes in graph.nodes(data=True):
        if str(node) in found.number:
            raise ValueError("two nodes of the graph have the same name as text")
        found.new_node(str(node), attributes)
    both_ways = not graph.is_directed()
    more = {"keys": True} if graph.is_multigraph() else {}
    for at, (tail, head, *key, attributes) in enumerate(graph.edges(data=True, **more)):
        own = {**attributes, "key": key[0]} if key else attributes
        found.edge((str(tail), str(head)), at, own, both_ways=both_ways)
    return found


def _rate(value: Any) -> tuple[Fraction, bool]:
    """A speed, and whether it has a unit and is in B/s therefore; ValueError if it is none."""
    number = _number(value)
    try:
        if isinstance(number, str):
            return exact(parse_bandwidth(number)), True
        rate = Fraction(0) if number is None else exact(number)
    except ValueError:
        rate = Fraction(0)
    if rate <= 0:
        raise ValueError(
            f"{shown(value)} is not a link speed: it must be a positive number, perhaps with a "
            "unit such as 100Gbps"
        )
    return rate, False


def _ticks(value: Any, tick_s: Fraction) -> int:
    """Whole ticks of a number of them, or of a text with a unit."""
    number = _number(value)
    if isinstance(number, str):
        time = exact(parse_time(number)) / tick_s
        if time.denominator > 1:
            raise ValueError(f"{shown(value)} is no whole number of ticks")
        return time.numerator
    return _count(value)


def _count(value: Any) -> int:
    """A whole number, however it is written; ValueError for anything else."""
    number = _number(value)
    if isinstance(number, (int, float, Fraction)) and exact(number).denominator == 1:
        return int(number)
    raise ValueError(f"{shown(value)} is no whole number")


def _number(value: Any) -> Fraction | float | str | None:
    """The number that a value is or writes, a text that is none, None for anything else."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str):
        text = plain.strip()
        return parse_number(text) if NUMBER.fullmatch(text) else text
    is_number = isinstance(plain, (int, float, Fraction)) and not isinstance(plain, bool)
    return plain if is_number else None
