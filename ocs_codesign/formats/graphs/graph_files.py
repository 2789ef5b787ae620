"""Graph files: the formats that are written and read, and what is worth knowing of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.files.limited import first_mark, read_limited
from ocs_codesign.formats.graphs.dot import write_dot
from ocs_codesign.formats.graphs.edge_list import read_edge_list, write_edge_list
from ocs_codesign.formats.graphs.graphml import read_graphml, write_graphml
from ocs_codesign.formats.graphs.node_link import read_node_link, write_node_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.topology import Topology

MAX_FILE_BYTES = 512 * 2**20
MAX_DIAMETER_NODES = 2**14

EXPORTERS: dict[str, Callable[[Topology, str], str]] = {
    "edgelist": write_edge_list,
    "json": write_node_link,
    "graphml": write_graphml,
    "dot": write_dot,
}
"""Every format that is written: (topology, name) to the file's text."""

IMPORTERS: dict[str, Callable[[bytes, str], Topology]] = {
    "edgelist": read_edge_list,
    "json": read_node_link,
    "graphml": read_graphml,
}
"""Every format that is read: (content, name for errors) to the topology."""

_SUFFIXES = {
    ".edges": "edgelist",
    ".edgelist": "edgelist",
    ".csv": "edgelist",
    ".tsv": "edgelist",
    ".json": "json",
    ".graphml": "graphml",
    ".xml": "graphml",
}


def import_graph(path: str | Path, format: str | None = None) -> Topology:  # noqa: A002
    """The topology of an edge list, node-link JSON or GraphML file; see the readers in IMPORTERS.

    The format is told by the suffix, or by the content under any other. Nodes named by integers
    are numbered in ascending order (so 0 to N - 1 keep their numbers), others in order of
    appearance. An undirected edge becomes two links. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    path = Path(path)
    if format is not None and format not in IMPORTERS:
        raise ValueError(f"format is {format!r}: it must be one of {', '.join(IMPORTERS)}")
    data = read_limited(path, MAX_FILE_BYTES)
    if not data.strip():
        raise ValueError(f"{path}: the file is empty")
    kind = format or _SUFFIXES.get(path.suffix.lower()) or _sniffed(data)
    return IMPORTERS[kind](data, str(path))


def _sniffed(data: bytes) -> str:
    first = first_mark(data)
    if first == b"<" or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "graphml"
    return "json" if first == b"{" else "edgelist"


@final
@dataclass(frozen=True, slots=True)
class GraphFacts:
    """What decides whether and how well a graph can carry a collective.

    ``parallel_links`` counts the links beyond the first between the same two nodes; ``diameter`` is
    None if the graph is not strongly connected or has more than MAX_DIAMETER_NODES nodes.
    """

    num_nodes: int
    num_links: int
    degree: int
    regular: bool
    undirected: bool
    self_loops: int
    parallel_links: int
    strongly_connected: bool
    diameter: int | None
    link_speeds: tuple[int, ...]


def graph_facts(topology: Topology) -> GraphFacts:
    """The facts of a topology.

    >>> from ocs_codesign.topology import Topology
    >>> facts = graph_facts(Topology(2, [0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 1]))
    >>> facts.regular, facts.self_loops, facts.parallel_links, facts.diameter
    (True, 2, 2, 1)
    """
    pairs = topology.tail.astype(np.int64) * topology.num_nodes + topology.head
    connected = _strongly_connected(topology)
    small = topology.num_nodes <= MAX_DIAMETER_NODES
    return GraphFacts(
        topology.num_nodes,
        topology.num_links,
        topology.degree,
        topology.is_regular,
        topology.is_undirected(),
        int((topology.tail == topology.head).sum()),
        topology.num_links - len(np.unique(pairs)),
        connected,
        topology.diameter() if connected and small else None,
        tuple(np.unique(topology.speeds()).tolist()),
    )


def _strongly_connected(topology: Topology) -> bool:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    shape = (topology.num_nodes, topology.num_nodes)
    ones = np.ones(topology.num_links, dtype=np.int8)
    matrix = coo_array((ones, (topology.tail, topology.head)), shape=shape).astype(bool)
    return bool(connected_components(matrix.tocsr(), connection="strong")[0] == 1)
