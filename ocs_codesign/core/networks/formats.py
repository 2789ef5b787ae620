"""Network files: the formats of networks by name, and the network in a file."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from io import BytesIO
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.naming import MAX_NAME, text_of_line
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.files.records import Format, both, read_file
from ocs_codesign.core.network import MAX_BANDWIDTH, NANOSECOND, Network
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_FILE_BYTES = 2**26

FORMATS: dict[str, Format[Network]] = {
    "json": Format("JSON", *both(__name__, "json"), (".json",), (b"{",)),
    "edgelist": Format("edge list", *both(__name__, "edge_list"), (".edges", ".edgelist", ".txt")),
    "yaml": Format("YAML", *both(__name__, "yaml"), (".yaml", ".yml")),
    "node-link": Format("node-link JSON", *both(f"{__package__}.networkx_network", "node_link")),
    "graphml": Format(
        "GraphML",
        *both(f"{__package__}.networkx_network", "graphml"),
        (".graphml", ".xml"),
        (b"<",),
    ),
}
"""Every format of networks by name."""


def import_network(path: str | Path, format: str | None = None) -> Network:  # noqa: A002
    """The network in a file of the format of that name, or of the one that the file tells.

    Node-link JSON is told by its name only. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    return read_file(FORMATS, Path(path), format, MAX_FILE_BYTES)[0]


# Networks as plain records, which JSON and YAML hold as they are and other formats are made of.


_KEYS = (
    *("num_hosts", "num_nodes", "links", "multicast", "aggregate"),
    *("unit", "tick_s", "names"),
)
_LINK = "[tail, head, bandwidth], perhaps with a latency and a dimension"
TICKS = "ticks"
"""The unit of a network whose links have, for a bandwidth, the ticks that a chunk occupies them."""


def network_record(network: Network) -> dict[str, Any]:
    """The plain form of a network; what has its usual value is left out.

    >>> from ocs_codesign.core.networks.builders import star
    >>> record = network_record(star(2, 10, unit="Gbps"))
    >>> record["links"], record["unit"]
    ([[0, 2, 10, 0, 0], [1, 2, 10, 0, 0], [2, 0, 10, 0, 0], [2, 1, 10, 0, 0]], 'Gbps')
    """
    width = network.bandwidth if network.chunk_ticks is None else network.chunk_ticks
    columns: list[NDArray[Any]] = [network.tail, network.head, width]
    if network.latency.any() or network.dimension is not None:
        columns.append(network.latency)
    if network.dimension is not None:
        columns.append(network.dimension)
    record: dict[str, Any] = {
        "num_hosts": network.num_hosts,
        "num_nodes": network.num_nodes,
        "unit": network.unit if network.chunk_ticks is None else TICKS,
        "links": np.stack(columns, axis=1).tolist(),
    }
    for name in ("multicast", "aggregate"):
        able = np.flatnonzero(getattr(network, name)).tolist()
        if able:
            record[name] = able
    if network.tick_s != NANOSECOND:
        record["tick_s"] = str(network.tick_s)
    if network.names is not None:
        record["names"] = list(network.names)
    return record


_ALWAYS_READ = 2**16
"""Nodes that are read even if links lead to few of them: more would take memory for nothing."""


def network_of(record: Any) -> Network:
    """The network of a plain record; ValueError with the place and the rule if it is none."""
    if not isinstance(record, dict):
        raise ValueError("a network is a map with num_hosts, num_nodes and links")
    if {"hosts", "nodes"} <= record.keys() and not record.keys() & {"num_hosts", "num_nodes"}:
        # Tables of known answers have networks so, among what else they have of a case.
        record = {"links": record.get("links"), "unit": record.get("unit", "")} | {
            f"num_{key}": record[key] for key in ("hosts", "nodes")
        }
    for key in record:
        if key not in _KEYS:
            raise ValueError(f"{shown(key)} is not known: a network has {', '.join(_KEYS)}")
    hosts, nodes = (_whole(record, key) for key in ("num_hosts", "num_nodes"))
    columns, unit = _columns(_list(record, "links")), _text(record, "unit")
    if nodes > max(_ALWAYS_READ, 2 * len(columns[0])):
        raise ValueError(f"{nodes} nodes but only {len(columns[0])} links: some node has no link")
    chunk_ticks = columns[2] if unit == TICKS else None
    if chunk_ticks is not None:
        columns[2], unit = _bandwidths(chunk_ticks), ""
    return Network(
        hosts,
        nodes,
        *columns,
        multicast=_list(record, "multicast", ()),
        aggregate=_list(record, "aggregate", ()),
        unit=unit,
        tick_s=_tick(record.get("tick_s")),
        names=_names(record),
        chunk_ticks=chunk_ticks,
    )


def write_json(network: Network, title: str) -> str:
    """A network as JSON, a link a line; ``title`` has no place in it."""
    del title
    record = network_record(network)
    links = ",\n  ".join(map(json.dumps, record.pop("links")))
    return f'{json.dumps(record)[:-1]},\n "links": [\n  {links}]}}\n'


def write_yaml(network: Network, title: str) -> str:
    """A network as YAML, a link a line, ``title`` as a comment."""
    record = network_record(network)
    links = [f"- {json.dumps(link)}" for link in record.pop("links")]
    lines = [f"{key}: {json.dumps(value)}" for key, value in record.items()]
    head = [f"# {title}"] if title.isprintable() and title else []
    return "\n".join([*head, *lines, "links:" if links else "links: []", *links]) + "\n"


def read_json(data: bytes, name: str, *, is_json: bool = True) -> Network:
    """The network in a JSON text; ValueError with the file's name and the rule if there is none."""
    record = read_plain_text(data, name, is_json=is_json).value
    with errors_at(name):
        return network_of(record)


def read_yaml(data: bytes, name: str) -> Network:
    """The network in a YAML text; ValueError as in ``read_json``."""
    return read_json(data, name, is_json=False)


def _columns(links: Sequence[Any]) -> list[Any]:
    """Tail, head, bandwidth, and latency and dimension if any link has them."""
    for at, link in enumerate(links):
        is_link = isinstance(link, (list, tuple)) and 3 <= len(link) <= 5
        if not is_link or not all(type(value) is int and abs(value) < 2**62 for value in link):
            raise ValueError(f"links[{at}] is {shown(link)}: a link is {_LINK}, in whole numbers")
    longest = max((len(link) for link in links), default=3)
    rows = [[*link, *[0] * (longest - len(link))] for link in links]
    table = np.array(rows, dtype=np.int64).reshape(-1, longest)
    return list(table.T)


def _bandwidths(chunk_ticks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Relative bandwidths of links that a chunk occupies for so many ticks."""
    if chunk_ticks.min(initial=1) < 1:
        at = int(chunk_ticks.argmin())
        raise ValueError(f"links[{at}] is occupied for {chunk_ticks[at]} ticks: at least 1")
    whole = lcm(*np.unique(chunk_ticks).tolist())
    if whole > MAX_BANDWIDTH:
        raise ValueError(
            f"the ticks of the links have no common multiple of at most {MAX_BANDWIDTH}"
        )
    return whole // chunk_ticks


def _whole(record: dict[str, Any], key: str) -> int:
    value = record.get(key)
    if type(value) is not int:
        raise ValueError(f"{key} is {shown(value)}: it must be a whole number")
    return value


def _list(record: dict[str, Any], key: str, default: Any = None) -> Any:
    value = record.get(key, default)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{key} is {shown(value)}: it must be a list")
    if key != "links" and not all(type(one) is int for one in value):
        raise ValueError(f"{key} must be numbers of switches")
    return value


def _text(record: dict[str, Any], key: str) -> str:
    value = record.get(key, "")
    if not isinstance(value, str) or len(value) > 40 or not value.isprintable():
        raise ValueError(f"{key} is {shown(value)}: it must be a short text such as Gbps")
    return value


def _tick(value: Any) -> Fraction:
    if value is None:
        return NANOSECOND
    try:
        return Fraction(value if isinstance(value, int) else str(value)[:60])
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"tick_s is {shown(value)}: it must be seconds such as 1/1000") from None


def _names(record: dict[str, Any]) -> list[str] | None:
    names = record.get("names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(
        isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() for name in names
    ):
        raise ValueError(f"names are printable texts of at most {MAX_NAME} letters, one a node")
    return names


# Networks as edge lists: a line a host, a switch with what it can do, or a link with its numbers.
#
# ``host NAME``, ``switch NAME [multicast] [aggregate]``, ``link TAIL HEAD BANDWIDTH [LATENCY
# [DIMENSION]]``, and before them ``unit UNIT`` and ``tick SECONDS``; ``#`` begins a comment.


_INTEGER = re.compile(r"[0-9]{1,18}")
_ABILITIES = ("multicast", "aggregate")


def write_edge_list(network: Network, title: str) -> str:
    """A network as an edge list, links in their order; names with blanks become h0, s0, ...

    >>> from ocs_codesign.core.networks.builders import star
    >>> print(write_edge_list(star(1, 10, multicast=True), "tiny"), end="")
    # tiny
    host h0
    switch s0 multicast
    link h0 s0 10 0 0
    link s0 h0 10 0 0
    """
    record = network_record(network)
    names = [network.name(node) for node in range(network.num_nodes)]
    if any(re.search(r"[\s#]", name) for name in names):
        names = [f"n{node}" for node in range(network.num_nodes)]
    lines = [f"# {title}"] if title and title.isprintable() else []
    lines += [f"unit {record['unit']}"] if record["unit"] else []
    lines += [f"tick {record['tick_s']}"] if "tick_s" in record else []
    for node, name in enumerate(names):
        able = [ability for ability in _ABILITIES if getattr(network, ability)[node]]
        kind = "switch" if network.is_switch(node) else "host"
        lines.append(" ".join([kind, name, *able]))
    lines += [
        " ".join(["link", names[tail], names[head], *map(str, numbers)])
        for tail, head, *numbers in record["links"]
    ]
    return "\n".join(lines) + "\n"


def read_edge_list(data: bytes, name: str) -> Network:
    """The network in an edge list; ValueError with the file's name, the line and the rule."""
    reader = _Reader()
    for number, line in enumerate(BytesIO(data), 1):
        with errors_at(f"{name}, line {number}"):
            words = text_of_line(line, number).partition("#")[0].split()
            if words:
                reader.read(words)
    with errors_at(name):
        return network_of(reader.record())


class _Reader:
    """What has been read so far."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.switches: list[str] = []
        self.able: dict[str, list[str]] = {ability: [] for ability in _ABILITIES}
        self.links: list[tuple[str, str, list[int]]] = []
        self.kinds: dict[str, str] = {}
        self.plain: dict[str, str] = {}

    def read(self, words: list[str]) -> None:
        """One line."""
        kind, *rest = words
        if kind in ("unit", "tick") and rest:
            self.plain["tick_s" if kind == "tick" else "unit"] = " ".join(rest)
        elif kind in ("host", "switch") and rest:
            self._node(kind, *rest)
        elif kind == "link":
            self._link(rest)
        else:
            raise ValueError(
                f"{shown(' '.join(words))}: a line is a host, a switch, a link, a unit or a tick"
            )

    def _node(self, kind: str, name: str, *able: str) -> None:
        if name in self.kinds:
            raise ValueError(f"a second node is named {shown(name)}")
        self.kinds[name] = kind
        (self.switches if kind == "switch" else self.hosts).append(name)
        for ability in able:
            if kind == "host" or ability not in _ABILITIES:
                raise ValueError(f"a {kind} is not said to {shown(ability)}")
            self.able[ability].append(name)

    def _link(self, words: list[str]) -> None:
        ends, numbers = words[:2], words[2:]
        if not 1 <= len(numbers) <= 3 or not all(map(_INTEGER.fullmatch, numbers)):
            raise ValueError("a link is a tail, a head, a bandwidth and perhaps two more numbers")
        for end in ends:
            if end not in self.kinds:
                raise ValueError(f"there is no node {shown(end)} above this line")
        self.links.append((ends[0], ends[1], [int(number) for number in numbers]))

    def record(self) -> dict[str, Any]:
        """All of it as a plain record, hosts first."""
        names = [*self.hosts, *self.switches]
        number = {name: node for node, name in enumerate(names)}
        usual = [f"h{node}" for node in range(len(self.hosts))]
        usual += [f"s{node}" for node in range(len(self.switches))]
        return {
            **self.plain,
            "num_hosts": len(self.hosts),
            "num_nodes": len(names),
            "links": [[number[tail], number[head], *rest] for tail, head, rest in self.links],
            **{ability: [number[name] for name in able] for ability, able in self.able.items()},
            **({} if names == usual else {"names": names}),
        }
