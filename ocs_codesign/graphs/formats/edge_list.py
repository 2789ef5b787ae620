"""Edge lists: a line a link, ``tail head`` and perhaps a relative speed."""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.files.naming import NamedLinks, speed_of, text_of_line
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from ocs_codesign.core.topology import Topology


_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_HEADERS = {("tail", "head"), ("source", "target")}


def link_rows(topology: Topology) -> list[tuple[int, ...]]:
    """(tail, head) of every link in order, or (tail, head, speed) if speeds differ.

    >>> from ocs_codesign.core.topology import Topology
    >>> link_rows(Topology(2, [0, 1], [1, 0])), link_rows(Topology(2, [0, 1], [1, 0], [1, 2]))
    ([(0, 1), (1, 0)], [(0, 1, 1), (1, 0, 2)])
    """
    columns = [topology.tail.tolist(), topology.head.tolist()]
    if topology.link_speed is not None:
        columns.append(topology.link_speed.tolist())
    return list(zip(*columns, strict=True))


def write_edge_list(topology: Topology, name: str) -> str:
    """The links in order, one a line, with the speed as third column if speeds differ.

    Raises ValueError if a node has no links at all, since an edge list could not hold it.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_edge_list(Topology(2, [0, 1], [1, 0], [1, 2]), "pair"), end="")
    # pair
    # 2 nodes, 2 directed links: tail head speed
    0 1 1
    1 0 2
    """
    touched = np.zeros(topology.num_nodes, dtype=bool)
    touched[topology.tail] = touched[topology.head] = True
    if not touched.all():
        node = int(np.argmin(touched))
        raise ValueError(
            f"node {node} has no links, so an edge list cannot hold it: use json or graphml"
        )
    names = "tail head" if topology.link_speed is None else "tail head speed"
    lines = [
        f"# {' '.join(name.split())}",
        f"# {topology.num_nodes} nodes, {topology.num_links} directed links: {names}",
        *(" ".join(map(str, row)) for row in link_rows(topology)),
    ]
    return "\n".join(lines) + "\n"


def read_edge_list(data: bytes, name: str) -> Topology:
    """The topology of an edge list; every line is one directed link.

    Columns are separated by spaces or, in a line with a comma, by commas; the third one, a positive
    integer, is the link's relative speed (1 if left out; networkx's ``{}`` is taken for none).
    ``#`` at the start of a line or after a space begins a comment; a first line ``tail head`` or
    ``source target`` is a heading. Raises ValueError with the file's name and the line.

    >>> read_edge_list(b"a b\\nb,a", "pair.txt")
    Topology(2 nodes, 2 links, degree 1)
    """
    links, headed = NamedLinks(), False
    line_number = 0
    try:
        for line_number, line in enumerate(BytesIO(data), 1):
            fields = _fields(line, line_number)
            if not fields:
                continue
            if not headed and _is_heading(fields):
                headed = True
                continue
            headed = True
            links.link(fields[0], fields[1], _speed(fields))
    except ValueError as error:
        raise ValueError(f"{name}, line {line_number}: {_reason(error)}") from None
    if not links.tail:
        raise ValueError(f"{name}: there are no links in this edge list")
    return links.topology()


def _fields(line: bytes, line_number: int) -> list[str]:
    """The columns of a line, none for an empty one."""
    text = text_of_line(line, line_number)
    if "#" in text:
        text = _COMMENT.sub("", text).rstrip()
    if not text:
        return []
    fields = text.split(",", 4) if "," in text else text.split(None, 3)
    fields = [field.strip() for field in fields]
    if not 2 <= len(fields) <= 3:
        raise ValueError(
            f"a line has two or three columns, tail, head and speed: {shown(text)} does not"
        )
    return fields


def _is_heading(fields: list[str]) -> bool:
    lower = [field.lower() for field in fields]
    return tuple(lower[:2]) in _HEADERS and lower[2:] in ([], ["speed"])


def _speed(fields: list[str]) -> int:
    return 1 if len(fields) == 2 or fields[2] == "{}" else speed_of(fields[2])


def _reason(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "this is not UTF-8 text"
    return str(error)


# DOT, the language of Graphviz; written only.


def write_dot(topology: Topology, name: str) -> str:
    """A ``digraph`` with the links in order; ``speed`` and a label are given if speeds differ.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_dot(Topology(2, [0, 1], [1, 0]), "pair"), end="")
    digraph "pair" {
      0;
      1;
      0 -> 1;
      1 -> 0;
    }
    """
    title = " ".join(name.split()).replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'digraph "{title}" {{', *(f"  {node};" for node in range(topology.num_nodes))]
    for tail, head, *speeds in link_rows(topology):
        labels = "".join(f" [speed={speed}, label={speed}]" for speed in speeds)
        lines.append(f"  {tail} -> {head}{labels};")
    return "\n".join([*lines, "}\n"])
