"""Network files: the formats of networks by name, and the network in a file."""

from __future__ import annotations

import json
import re
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.naming import text_of_line
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.files.records import EDGE_LISTS, XML, Format, both, read_file
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks import graph_files
from ocs_codesign.core.networks.records import network_of, network_record
from ocs_codesign.core.registry import later
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from ocs_codesign.core.networks.attributed import AttributedGraph
    from ocs_codesign.core.topology import Topology


MAX_FILE_BYTES = 2**26

_GRAPHS = f"{__package__}.networkx_network"

FORMATS: dict[str, Format[Network]] = {
    "json": Format("JSON", *both(__name__, "json"), (".json",), (b"{",)),
    "edgelist": Format("edge list", *both(__name__, "edge_list"), EDGE_LISTS),
    "yaml": Format("YAML", *both(__name__, "yaml"), (".yaml", ".yml")),
    "node-link": Format(
        "node-link JSON", later(f"{__name__}.read_json"), later(f"{_GRAPHS}.write_node_link")
    ),
    "graphml": Format(
        "GraphML",
        later(f"{__name__}.read_graphml"),
        later(f"{_GRAPHS}.write_graphml"),
        (".graphml", ".xml"),
        XML,
    ),
}
"""Every format of networks by name."""


def import_network(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    speed_attribute: str | None = None,
) -> Network:
    """The network in a file of the format of that name, or of the one that the file tells.

    ``speed_attribute`` names the attribute of edges that is their bandwidth, or "none" if all are
    alike; without it, it is bandwidth, capacity, speed or LinkSpeedRaw (bit/s). Raises OSError if
    the file cannot be read and ValueError, with the file and the place, for anything else.
    """
    found = read_file(FORMATS, Path(path), format, MAX_FILE_BYTES, speed_attribute=speed_attribute)
    return found[0]


def _linked(
    data: bytes, name: str, kind: str, *, is_graph: bool = False
) -> Network | AttributedGraph:
    """The network in a content, or the graph, which it also is if it has no marks of either."""
    if kind == "graphml":
        return graph_files.read_graphml(data, name)
    if kind == "edgelist":
        is_network = _OF_NETWORKS.search(data) is not None
        return _read_edge_list(data, name) if is_network else graph_files.read_edge_list(data, name)
    record = read_plain_text(data, name, is_json=kind == "json").value
    keys: dict[str, Any] = record if isinstance(record, dict) else {}
    is_graph = is_graph and not keys.keys() & {"num_hosts", "hosts"}
    if is_graph or isinstance(keys.get("nodes"), list) or "edges" in keys:
        return graph_files.node_link_graph(record, name)
    with errors_at(name):
        return network_of(record)


def _network(
    data: bytes, name: str, speed_attribute: str | None = None, *, kind: str = "json"
) -> Network:
    found = _linked(data, name, kind)
    if isinstance(found, Network):
        if speed_attribute is not None:
            raise ValueError(f"{name}: links have bandwidths, and no attributes to name")
        return found
    return found.network(speed_attribute)


def _topology(data: bytes, name: str, speed_attribute: str | None = None, *, kind: str) -> Topology:
    found = _linked(data, name, kind, is_graph=True)
    if not isinstance(found, Network):
        return found.topology(speed_attribute)
    if found.num_hosts < found.num_nodes:
        switches = found.num_nodes - found.num_hosts
        raise ValueError(f"{name}: {switches} of its nodes are switches: it is a network")
    return found.topology()


topology_of_json, topology_of_yaml, topology_of_graphml, topology_of_edge_list = (
    partial(_topology, kind=kind) for kind in ("json", "yaml", "graphml", "edgelist")
)
"""The topology in a content, speeds relative; ValueError as for networks, and if it has switches.

>>> topology_of_edge_list(b"a b\\nb,a", "pair.txt")
Topology(2 nodes, 2 links, degree 1)
"""


# Networks as JSON and YAML.


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


read_json, read_yaml, read_graphml, read_edge_list = (
    partial(_network, kind=kind) for kind in ("json", "yaml", "graphml", "edgelist")
)
"""The network in a content; ValueError with the file's name and the rule if there is none."""


# Networks as edge lists: a line a host, a switch with what it can do, or a link with its numbers.
#
# ``host NAME``, ``switch NAME [multicast] [aggregate]``, ``link TAIL HEAD BANDWIDTH [LATENCY
# [DIMENSION]]``, and before them ``unit UNIT`` and ``tick SECONDS``; ``#`` begins a comment.


_INTEGER = re.compile(r"[0-9]{1,18}")
_OF_NETWORKS = re.compile(rb"\A\s*(?:#[^\n]*\s+)*(?:host|switch|unit|tick)[ \t]")
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


def _read_edge_list(data: bytes, name: str) -> Network:
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
