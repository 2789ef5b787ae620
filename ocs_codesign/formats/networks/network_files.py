"""Network files: the formats of networks by name, and the network in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.formats.file_format import Format, both, read_file

if TYPE_CHECKING:
    from ocs_codesign.network import Network

MAX_FILE_BYTES = 2**28

_ROOM = "ocs_codesign.formats.networks"

FORMATS: dict[str, Format[Network]] = {
    "json": Format("JSON", *both(f"{_ROOM}.record", "json"), (".json",), (b"{",)),
    "edgelist": Format(
        "edge list", *both(f"{_ROOM}.edge_list", "edge_list"), (".edges", ".edgelist", ".txt")
    ),
    "yaml": Format("YAML", *both(f"{_ROOM}.record", "yaml"), (".yaml", ".yml")),
    "node-link": Format("node-link JSON", *both(f"{_ROOM}.networkx_network", "node_link")),
    "graphml": Format(
        "GraphML", *both(f"{_ROOM}.networkx_network", "graphml"), (".graphml", ".xml"), (b"<",)
    ),
}
"""Every format of networks by name."""


def import_network(path: str | Path, format: str | None = None) -> Network:  # noqa: A002
    """The network in a file of the format of that name, or of the one that the file tells.

    Node-link JSON is told by its name only. Raises OSError if the file cannot be read and
    ValueError, with the file and the place, for anything else.
    """
    return read_file(FORMATS, Path(path), format, MAX_FILE_BYTES)[0]
