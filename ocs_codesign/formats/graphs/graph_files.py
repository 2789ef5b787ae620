"""Graph files: the formats of topologies by name, and the topology in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.formats.file_format import Format, read_file
from ocs_codesign.formats.graphs.dot import write_dot
from ocs_codesign.formats.graphs.edge_list import read_edge_list, write_edge_list
from ocs_codesign.formats.graphs.graphml import read_graphml, write_graphml
from ocs_codesign.formats.graphs.node_link import read_node_link, write_node_link

if TYPE_CHECKING:
    from ocs_codesign.topology import Topology

MAX_FILE_BYTES = 512 * 2**20

FORMATS: dict[str, Format[Topology]] = {
    "edgelist": Format(
        "edge list",
        read_edge_list,
        write_edge_list,
        suffixes=(".edges", ".edgelist", ".csv", ".tsv"),
    ),
    "json": Format(
        "node-link JSON", read_node_link, write_node_link, suffixes=(".json",), marks=(b"{",)
    ),
    "graphml": Format(
        "GraphML",
        read_graphml,
        write_graphml,
        suffixes=(".graphml", ".xml"),
        marks=(b"<", b"\xff\xfe", b"\xfe\xff"),
    ),
    "dot": Format("DOT", write=write_dot),
}
"""Every format of topologies by name: what is listed here works in all commands and is tested."""


def import_graph(path: str | Path, format: str | None = None) -> Topology:  # noqa: A002
    """The topology in a graph file; see the readers of FORMATS.

    The format is told by the suffix, or by the content under any other. Nodes named by integers
    are numbered in ascending order (so 0 to N - 1 keep their numbers), others in order of
    appearance. An undirected edge becomes two links. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    return read_file(FORMATS, Path(path), format, MAX_FILE_BYTES)
