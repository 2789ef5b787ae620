"""Named graphs: the distance-regular and other single graphs stored in base_topologies/.

The index declares every graph's facts and the checksum of its file; a file that does not match is
refused, never used.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class NamedGraph:
    """An entry of the index: declared facts of one stored graph and where they come from."""

    name: str
    label: str
    nodes: int
    degree: int
    directed: bool
    steps: int
    t_b: Fraction
    distance_regular: bool
    source: str
    file: str
    sha256: str


def named_graphs() -> dict[str, NamedGraph]:
    """All entries of the index by name.

    >>> named_graphs()["petersen"].nodes
    10
    """
    return dict(_index())


def named_graph(name: str) -> NamedGraph:
    """The entry of that name; ValueError with the nearest names if there is none."""
    if not isinstance(name, str) or name not in _index():
        from difflib import get_close_matches

        near = get_close_matches(str(name), _index(), n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(_index())}"
        raise ValueError(f"no graph is named {name!r}: {hint}")
    return _index()[name]


def named_shape(name: str) -> Shape:
    """Declared N and d."""
    entry = named_graph(name)
    return Shape(entry.nodes, entry.degree)


def named(name: str) -> Topology:
    """The stored graph of that name; both directions of every edge unless it is directed.

    >>> named("petersen").diameter()
    2
    """
    entry = named_graph(name)
    path = base_topologies_path() / entry.file
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise ValueError(f"{path} does not match its checksum in index.json: the file is damaged")
    edges = np.array(json.loads(data)["edges"], dtype=np.int32)
    if not entry.directed:
        edges = np.concatenate([edges, edges[:, ::-1]])
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    return Topology(entry.nodes, edges[order, 0], edges[order, 1])


def base_topologies_path() -> Path:
    """The folder of the data files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "base_topologies", package.parent / "base_topologies"):
        if (folder / "index.json").is_file():
            return folder
    raise FileNotFoundError(f"base_topologies/index.json is missing beside {package}")


@cache
def _index() -> dict[str, NamedGraph]:
    content: dict[str, Any] = json.loads((base_topologies_path() / "index.json").read_bytes())
    if content["version"] != 1:
        raise ValueError(f"base_topologies/index.json has version {content['version']}, not 1")
    entries = ({**entry, "t_b": Fraction(entry["t_b"])} for entry in content["graphs"])
    return {entry["name"]: NamedGraph(**entry) for entry in entries}
