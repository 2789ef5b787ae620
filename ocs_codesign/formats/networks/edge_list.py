"""Networks as edge lists: a line a host, a switch with what it can do, or a link with its numbers.

``host NAME``, ``switch NAME [multicast] [aggregate]``, ``link TAIL HEAD BANDWIDTH [LATENCY
[DIMENSION]]``, and before them ``unit UNIT`` and ``tick SECONDS``; ``#`` begins a comment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ocs_codesign.files.naming import shown
from ocs_codesign.files.places import decoded, errors_at
from ocs_codesign.formats.networks.record import network_of, network_record

if TYPE_CHECKING:
    from ocs_codesign.network import Network

_INTEGER = re.compile(r"[0-9]{1,18}")
_ABILITIES = ("multicast", "aggregate")


def write_edge_list(network: Network, title: str) -> str:
    """A network as an edge list, links in their order; names with blanks become h0, s0, ...

    >>> from ocs_codesign.networks.switched import star
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
    for number, line in enumerate(decoded(data, name).splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            with errors_at(f"{name}, line {number}"):
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
