"""Node-link JSON, as networkx writes and reads it."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.naming import NamedLinks, speed_of
from ocs_codesign.core.shown import shown
from ocs_codesign.graphs.formats.edge_list import link_rows

if TYPE_CHECKING:
    import networkx

    from ocs_codesign.core.topology import Topology


def write_node_link(topology: Topology, name: str) -> str:
    """A directed multigraph as ``networkx.node_link_data(graph, edges="edges")`` has it.

    Edges are in link order and their keys are the link ids; ``speed`` is given if speeds differ.

    >>> from ocs_codesign.core.topology import Topology
    >>> print(write_node_link(Topology(2, [0, 1], [1, 0]), "pair"), end="")
    {"directed": true, "multigraph": true, "graph": {"name": "pair"},
    "nodes": [{"id": 0},
    {"id": 1}],
    "edges": [{"source": 0, "target": 1, "key": 0},
    {"source": 1, "target": 0, "key": 1}]}
    """
    edges = [
        {"source": tail, "target": head, "key": link, **({"speed": speeds[0]} if speeds else {})}
        for link, (tail, head, *speeds) in enumerate(link_rows(topology))
    ]
    head = json.dumps({"directed": True, "multigraph": True, "graph": {"name": name}})
    nodes = ",\n".join(f'{{"id": {node}}}' for node in range(topology.num_nodes))
    links = ",\n".join(map(json.dumps, edges))
    return f'{head[:-1]},\n"nodes": [{nodes}],\n"edges": [{links}]}}\n'


def read_node_link(data: bytes, name: str) -> Topology:
    """The topology of node-link JSON; edges may be under ``edges`` or ``links``.

    As in networkx, a graph without ``directed`` is undirected, and each of its edges becomes two
    links; one without ``multigraph`` may have parallel edges, and one where it is false must not.
    Integer or text ids; ``speed`` of an edge is its relative link speed, other attributes are
    ignored. Raises ValueError with the file's name and the place.

    >>> read_node_link(b'{"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}',
    ...     "pair.json")
    Topology(2 nodes, 2 links, degree 1)
    """
    try:
        return _topology(_object(data))
    except ValueError as error:
        raise ValueError(f"{name}{_place(error)}") from None
    except RecursionError:
        raise ValueError(f"{name}: the JSON is nested too deeply") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise ValueError("an integer has more than 4300 digits") from None
    if not isinstance(value, dict):
        raise ValueError("node-link JSON is an object with nodes and edges")
    return value


def _topology(graph: dict[str, Any]) -> Topology:
    if "edges" in graph and "links" in graph:
        raise ValueError("both edges and links are given: which are the graph's edges?")
    directed = _flag(graph, "directed", default=False)
    multigraph = _flag(graph, "multigraph", default=True)
    links, seen = NamedLinks(), set[tuple[str, str]]()
    for at, node in enumerate(_objects(graph, "nodes")):
        known, place = len(links.number), f"nodes[{at}]"
        links.node(_name(node, "id", place))
        if len(links.number) == known:
            raise ValueError(f"{place}: a second node is named {shown(node['id'])}")
    key = "links" if "links" in graph else "edges"
    for at, edge in enumerate(_objects(graph, key)):
        place = f"{key}[{at}]"
        ends = _end(edge, "source", place, links), _end(edge, "target", place, links)
        if not multigraph:
            pair = ends if directed else (min(ends), max(ends))
            if pair in seen:
                raise ValueError(f"{place}: a parallel edge, although multigraph is false")
            seen.add(pair)
        (links.link if directed else links.edge)(*ends, _speed(edge, place))
    return links.topology()


def _flag(graph: dict[str, Any], key: str, *, default: bool) -> bool:
    value = graph.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {shown(value)}: it must be true or false")
    return value


def _objects(graph: dict[str, Any], key: str) -> list[dict[str, Any]]:
    values = graph.get(key)
    if not isinstance(values, list):
        raise ValueError(f"{key} must be a list: node-link JSON has nodes and edges (or links)")
    for at, value in enumerate(values):
        if not isinstance(value, dict):
            raise ValueError(f"{key}[{at}] is {shown(value)}: it must be an object")
    return values


def _name(entry: dict[str, Any], key: str, place: str) -> str:
    value = entry.get(key)
    if type(value) not in (int, str):
        raise ValueError(f"{place}: {key} is {shown(value)}: it must be an integer or a text")
    try:
        return str(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        raise ValueError(f"{place}: {key} is too long an integer") from None


def _end(edge: dict[str, Any], key: str, place: str, links: NamedLinks) -> str:
    name = _name(edge, key, place)
    if name not in links.number:
        raise ValueError(f"{place}: {key} {shown(edge[key])} is not among the nodes")
    return name


def _speed(edge: dict[str, Any], place: str) -> int:
    with errors_at(place):
        return speed_of(edge.get("speed", 1))


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f", line {error.lineno}: this is not JSON ({error.msg.lower()})"
    if isinstance(error, UnicodeDecodeError):
        return ": this is not UTF-8 text"
    return f": {error}"


# Topologies to and from networkx graphs; networkx is imported when a graph is asked for.


def to_networkx(topology: Topology, name: str = "") -> networkx.MultiDiGraph:
    """A MultiDiGraph on 0 to N - 1; edge keys are link ids, with ``speed`` if speeds differ."""
    import networkx

    graph = networkx.MultiDiGraph(name=name) if name else networkx.MultiDiGraph()
    graph.add_nodes_from(range(topology.num_nodes))
    graph.add_edges_from(
        (tail, head, link, {"speed": speeds[0]} if speeds else {})
        for link, (tail, head, *speeds) in enumerate(link_rows(topology))
    )
    return graph


def from_networkx(graph: Any) -> Topology:
    """The topology of any networkx graph: each undirected edge becomes two links.

    Nodes are numbered in ascending order if all are integers, else in the graph's order; links come
    in the graph's order, or in that of their keys if these are exactly 0 to E - 1, as
    ``to_networkx`` makes them. The edge attribute ``speed`` is the relative link speed; where edges
    have no ``speed``, but weights or capacities that differ, it warns that these are not read.
    Raises ValueError for an empty graph, a bad speed or names that are not printable.

    >>> import networkx
    >>> from_networkx(networkx.cycle_graph(4))
    Topology(4 nodes, 8 links, degree 2)
    """
    links = NamedLinks()
    for node in graph:
        links.node(str(node))
    if len(links.number) < len(graph):
        raise ValueError("two nodes of the graph have the same name as text")
    edges = list(graph.edges(data=True))
    if graph.is_multigraph():
        keys = [key for _, _, key in graph.edges(keys=True)]
        if all(type(key) is int for key in keys) and sorted(keys) == list(range(len(keys))):
            edges = [edges[at] for at in np.argsort(keys).tolist()]
    _warn_of_unread([attributes for *_, attributes in edges])
    add = links.link if graph.is_directed() else links.edge
    for tail, head, attributes in edges:
        speed = attributes.get("speed", 1)
        value = speed.item() if isinstance(speed, np.generic) else speed
        add(str(tail), str(head), speed_of(value))
    return links.topology()


def _warn_of_unread(attributes: list[dict[str, Any]]) -> None:
    """Warn of edge attributes that may be meant as speeds, which only ``speed`` is."""
    if any("speed" in each for each in attributes):
        return
    for name in ("bandwidth", "capacity", "weight"):
        if len({repr(each.get(name)) for each in attributes}) > 1:
            warnings.warn(
                f"edges differ in {name!r}, which is not read: links are alike; set 'speed' to "
                "the relative speed of a link",
                stacklevel=3,
            )
            return
