"""Graphs from text in one of the formats that are read."""

from __future__ import annotations

import json

from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.formats.graph_files import FORMATS


def read(kind: str, text: str | bytes) -> Topology:
    return FORMATS[kind].read(text.encode() if isinstance(text, str) else text, "x")


def json_graph(**changes):
    graph = {
        "directed": True,
        "multigraph": True,
        "nodes": [{"id": 0}, {"id": 1}],
        "edges": [{"source": 0, "target": 1}, {"source": 1, "target": 0}],
    }
    graph.update(changes)
    return json.dumps({key: value for key, value in graph.items() if value is not None})


def graphml(inside: str, head: str = "", default: str = 'edgedefault="directed"') -> str:
    return f"<graphml>\n{head}<graph {default}>\n{inside}\n</graph></graphml>"
