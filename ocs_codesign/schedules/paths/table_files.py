"""Path tables as files: CSV for switches and scripts, JSON with the links that paths are made of.

Both are written block by block, so the text of a large table is never in memory as a whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.files.atomic import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.schedules.paths.certificates import PathTable


MAX_PATHS = 20_000_000
"""Largest table that is written: about 2 GB."""
COLUMNS = ("source", "destination", "share", "hops", "nodes", "links")
CHANNELS = "channels"

_BLOCK = 2**14


def csv_blocks(table: PathTable) -> Iterator[bytes]:
    """A heading and a line a path: source, destination, share, hops, nodes and links.

    The share of the message is a fraction; nodes and links are separated by spaces, links named by
    their position in the topology. A last column has the virtual channels of the links, if any.

    >>> from ocs_codesign.schedules.paths.tables import path_table
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> print(b"".join(csv_blocks(path_table(UniRing(1, 3).topology()))).decode().splitlines()[2])
    0,2,1,2,0 1 2,0 1
    """
    yield (",".join(COLUMNS if table.channel is None else (*COLUMNS, CHANNELS)) + "\n").encode()
    for paths in _blocks(table):
        lines = [
            f"{nodes[0]},{nodes[-1]},{share},{len(links)},{_spaced(nodes)},"
            f"{','.join(map(_spaced, (links, *channels)))}\n"
            for share, nodes, links, *channels in paths
        ]
        yield "".join(lines).encode()


def json_blocks(table: PathTable) -> Iterator[bytes]:
    """An object with the links of the topology and, line by line, the paths and their shares.

    ``links`` are [tail, head], or [tail, head, speed] if speeds differ, in link order; a path is
    [share, nodes, links], from its first node to its last, with the virtual channels if any.
    """
    from ocs_codesign.graphs.formats.edge_list import link_rows

    links = ",\n".join(map(_compact, link_rows(table.topology)))
    yield f'{{"nodes": {table.topology.num_nodes},\n"links": [\n{links}\n],\n'.encode()
    yield f'"t_b": "{table.time}", "bound": "{table.bound}",\n"paths": [\n'.encode()
    first = True
    for paths in _blocks(table):
        text = ",\n".join(map(_compact, paths))
        yield (text if first else ",\n" + text).encode()
        first = False
    yield b"\n]}\n"


FORMATS: dict[str, Callable[[PathTable], Iterator[bytes]]] = {
    "csv": csv_blocks,
    "json": json_blocks,
}
"""Every format by name, which is its suffix too: a path table to the blocks of the file."""


def path_format(path: str | Path) -> str:
    """The format that a file's suffix names; ValueError if it names none."""
    name = Path(path).suffix.lower().removeprefix(".")
    if name not in FORMATS:
        known = " or ".join(f".{one}" for one in FORMATS)
        raise ValueError(f"{path}: the suffix of a path table must be {known}")
    return name


def check_size(table: PathTable) -> None:
    """ValueError for a table that is too large to be written."""
    if table.num_paths > MAX_PATHS:
        raise ValueError(f"a table of {table.num_paths:,} paths: at most {MAX_PATHS:,} are written")


def save_path_table(table: PathTable, path: str | Path, name: str | None = None) -> None:
    """Write a table in the format of that name, or of the suffix, whole or not at all.

    Devices and pipes are written to directly. Raises ValueError for an unknown suffix or a table
    of more than MAX_PATHS paths, OSError if the file cannot be written.
    """
    path = Path(path)
    blocks = FORMATS[name or path_format(path)]
    check_size(table)
    write_files({path: blocks(table)})


def _blocks(table: PathTable) -> Iterator[list[tuple[Any, ...]]]:
    """Share, nodes, links and perhaps channels of path after path, some thousand at a time."""
    import numpy as np

    common = np.gcd(table.part, table.num_parts)
    for first in range(0, table.num_paths, _BLOCK):
        last = min(first + _BLOCK, table.num_paths)
        start = table.start[first : last + 1]
        link = table.link[start[0] : start[-1]]
        links, heads = link.tolist(), table.topology.head[link].tolist()
        columns = [links]
        if table.channel is not None:
            columns.append(table.channel[start[0] : start[-1]].tolist())
        ends = (start - start[0]).tolist()
        parts = (table.part[first:last] // common[first:last]).tolist()
        wholes = (table.num_parts // common[first:last]).tolist()
        yield [
            (
                str(part) if whole == 1 else f"{part}/{whole}",
                [source, *heads[begin:end]],
                *(column[begin:end] for column in columns),
            )
            for source, part, whole, begin, end in zip(
                table.source[first:last].tolist(), parts, wholes, ends[:-1], ends[1:], strict=True
            )
        ]


def _spaced(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def _compact(value: tuple[object, ...]) -> str:
    return json.dumps(value, separators=(",", ":"))
