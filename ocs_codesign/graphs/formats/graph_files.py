"""Graph files: the formats of topologies by name, and the topology in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.core.files.records import EDGE_LISTS, XML, Format, read_file
from ocs_codesign.core.registry import later

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.topology import Topology


MAX_FILE_BYTES = 2**26

_ROOM = __package__


def _read(kind: str) -> Callable[..., Topology]:
    return later(f"ocs_codesign.core.networks.formats.topology_of_{kind}")


FORMATS: dict[str, Format[Topology]] = {
    "edgelist": Format(
        "edge list", _read("edge_list"), later(f"{_ROOM}.edge_list.write_edge_list"), EDGE_LISTS
    ),
    "json": Format(
        "node-link JSON",
        _read("json"),
        later(f"{_ROOM}.node_link.write_node_link"),
        (".json",),
        (b"{",),
    ),
    "graphml": Format(
        "GraphML",
        _read("graphml"),
        later(f"{_ROOM}.graphml.write_graphml"),
        (".graphml", ".xml"),
        XML,
    ),
    "yaml": Format("YAML", _read("yaml"), suffixes=(".yaml", ".yml")),
    "dot": Format("DOT", write=later(f"{_ROOM}.edge_list.write_dot"), suffixes=(".dot", ".gv")),
}
"""Every format of topologies by name: what is listed here works in all commands and is tested."""


def import_graph(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    speed_attribute: str | None = None,
) -> Topology:
    """The topology in a graph file; see the readers of FORMATS.

    ``speed_attribute`` names the attribute of edges that is their speed, or "none" if all are
    alike; without it, it is bandwidth, capacity, speed or LinkSpeedRaw.

    The format is told by the suffix, or by the content under any other. Nodes named by integers
    are numbered in ascending order (so 0 to N - 1 keep their numbers), others in order of
    appearance. An undirected edge becomes two links. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    return read_graph(path, format, speed_attribute=speed_attribute)[0]


def read_graph(
    path: str | Path,
    format: str | None = None,  # noqa: A002
    *,
    undirected: bool = False,
    speed_attribute: str | None = None,
) -> tuple[Topology, str]:
    """The same, and the format; with ``undirected`` every line of an edge list is a link each way.

    Raises ValueError if another format is to be ``undirected``: it says itself what its edges are.
    """
    graph, name = read_file(
        FORMATS, Path(path), format, MAX_FILE_BYTES, speed_attribute=speed_attribute
    )
    if not undirected:
        return graph, name
    if name != "edgelist":
        raise ValueError(
            f"{path}: {FORMATS[name].description} says itself whether its edges are directed"
        )
    import numpy as np

    ends = [graph.tail, graph.head]
    tail, head = (np.column_stack(pair).ravel() for pair in (ends, ends[::-1]))
    return type(graph)(graph.num_nodes, tail, head, np.repeat(graph.speeds(), 2)), name
