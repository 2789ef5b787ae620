"""Network files: the formats of networks by name, and the network in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.formats.file_format import Format, later, read_file

if TYPE_CHECKING:
    from ocs_codesign.network import Network

MAX_FILE_BYTES = 2**28

_ROOM = "ocs_codesign.formats.networks"

FORMATS: dict[str, Format[Network]] = {
    "json": Format(
        "JSON",
        later(f"{_ROOM}.record.read_json"),
        later(f"{_ROOM}.record.write_json"),
        suffixes=(".json",),
        marks=(b"{",),
    ),
    "edgelist": Format(
        "edge list",
        later(f"{_ROOM}.edge_list.read_edge_list"),
        later(f"{_ROOM}.edge_list.write_edge_list"),
        suffixes=(".edges", ".edgelist", ".txt"),
    ),
    "yaml": Format(
        "YAML",
        later(f"{_ROOM}.record.read_yaml"),
        later(f"{_ROOM}.record.write_yaml"),
        suffixes=(".yaml", ".yml"),
    ),
    "node-link": Format(
        "node-link JSON",
        later(f"{_ROOM}.networkx_network.read_node_link"),
        later(f"{_ROOM}.networkx_network.write_node_link"),
    ),
    "graphml": Format(
        "GraphML",
        later(f"{_ROOM}.networkx_network.read_graphml"),
        later(f"{_ROOM}.networkx_network.write_graphml"),
        suffixes=(".graphml", ".xml"),
        marks=(b"<",),
    ),
}
"""Every format of networks by name."""


def import_network(path: str | Path, format: str | None = None) -> Network:  # noqa: A002
    """The network in a file of the format of that name, or of the one that the file tells.

    Node-link JSON is told by its name only. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    return read_file(FORMATS, Path(path), format, MAX_FILE_BYTES)[0]
