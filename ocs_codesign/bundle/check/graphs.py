"""The graphs that a bundle claims, compared with the topology that the light makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.files.naming import shown
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from ocs_codesign.bundle.check.files import BundleFiles


def first_difference(made: Topology, claimed: Topology) -> str | None:
    """What light makes that is not claimed, or the reverse; None if they have the same links."""
    if made.num_nodes != claimed.num_nodes:
        return f"there are {claimed.num_nodes} nodes: it must be {made.num_nodes}"
    mine, theirs = (
        np.sort(one.tail.astype(np.int64) * one.num_nodes + one.head) for one in (made, claimed)
    )
    if np.array_equal(mine, theirs):
        return None
    known, counts = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
    first = len(mine)
    size = len(known)
    difference = np.bincount(counts[first:], minlength=size) - np.bincount(
        counts[:first], minlength=size
    )
    at = int(np.flatnonzero(difference)[0])
    tail, head = divmod(int(known[at]), made.num_nodes)
    more = int(np.count_nonzero(difference))
    others = f" (and {more - 1} more pairs of nodes differ)" if more > 1 else ""
    if difference[at] > 0:
        return f"no light makes the claimed link {tail} -> {head}{others}"
    return f"light makes a link {tail} -> {head} that is not claimed{others}"


def check_graphs(
    files: BundleFiles, configuration: str, made: Topology, ordered: Topology | None
) -> None:
    """Both graph files hold the derived links, in the order of the table of links."""
    from ocs_codesign.formats.graphs.graphml import read_graphml

    path = f"graphs/{configuration}.json"
    value = files.json(path)
    if value is not None:
        try:
            _check_graph(files, path, _node_link(value), made, ordered)
        except ValueError as error:
            files.findings.add(path, None, str(error))
    path = f"graphs/{configuration}.graphml"
    data = files.read(path)
    if data is not None:
        try:
            _check_graph(files, path, read_graphml(data, path), made, ordered)
        except ValueError as error:
            files.findings.add(path, None, str(error).removeprefix(f"{path}: "))


def _check_graph(
    files: BundleFiles, path: str, graph: Topology, made: Topology, ordered: Topology | None
) -> None:
    difference = first_difference(made, graph)
    if difference is not None:
        files.findings.add(path, None, difference)
    elif ordered is not None and graph != ordered:
        files.findings.add(path, None, "links are not in the order of the table of links")


def _node_link(value: Any) -> Topology:
    """Nodes 0 to N - 1 and edges whose keys are the numbers of links; ValueError if it is not."""
    if not isinstance(value, dict) or value.get("directed") is not True:
        raise ValueError("this is not node-link JSON of a directed graph")
    nodes, edges = value.get("nodes"), value.get("edges")
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise ValueError("nodes and edges must be lists")
    for at, node in enumerate(nodes):
        if node != {"id": at}:
            raise ValueError(f"nodes[{at}] is {shown(node)}: its id must be {at}")
    for at, edge in enumerate(edges):
        ends = [edge.get(end) if isinstance(edge, dict) else None for end in ("source", "target")]
        if not all(type(end) is int and 0 <= end < len(nodes) for end in ends):
            raise ValueError(f"edges[{at}] is {shown(edge)}: source and target must be nodes")
        if edge != {"source": ends[0], "target": ends[1], "key": at}:
            raise ValueError(f"edges[{at}] is {shown(edge)}: its key must be {at}")
    return Topology(len(nodes), [one["source"] for one in edges], [one["target"] for one in edges])
