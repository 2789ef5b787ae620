"""Networks as networkx graphs, and with them as node-link JSON and GraphML."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.networks.formats import network_of, network_record
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import networkx as nx

    from ocs_codesign.core.network import Network


_LINK = ("bandwidth", "latency", "dimension")


def to_networkx(network: Network, title: str = "") -> nx.MultiDiGraph:
    """A network as graph: ``kind`` of nodes and numbers of links are attributes, keys link ids."""
    import networkx as nx

    record = network_record(network)
    graph = nx.MultiDiGraph(name=title, unit=record["unit"], tick_s=str(network.tick_s))
    for node in range(network.num_nodes):
        attributes: dict[str, Any] = {"kind": "switch" if network.is_switch(node) else "host"}
        if network.names is not None:
            attributes["name"] = network.names[node]
        for ability in ("multicast", "aggregate"):
            if getattr(network, ability)[node]:
                attributes[ability] = True
        graph.add_node(node, **attributes)
    for link, (tail, head, *numbers) in enumerate(record["links"]):
        graph.add_edge(tail, head, key=link, **dict(zip(_LINK, numbers, strict=False)))
    return graph


def from_networkx(graph: nx.Graph) -> Network:
    """The network of a graph: nodes of ``kind`` "switch" are switches, all others hosts.

    An undirected edge is a link each way. ``bandwidth`` (or ``capacity``) of an edge is 1 where it
    is not given. Hosts, then switches, are numbered in the graph's order, links by their integer
    keys if all have one. Raises ValueError for what is no network.
    """
    nodes = list(graph.nodes(data=True))
    kinds = {attributes["type"] for _, attributes in nodes if "type" in attributes}
    if kinds and not any("kind" in attributes for _, attributes in nodes):
        # As InfraGraph writes them: all would be hosts, and all links as wide.
        told = ", ".join(sorted(map(shown, kinds))[:4])
        raise ValueError(
            f"nodes have a type ({told}) but no kind: give each kind host or switch and links a "
            "bandwidth, or read the file that this was made of"
        )
    for node, attributes in nodes:
        if attributes.get("kind", "host") not in ("host", "switch"):
            raise ValueError(f"node {shown(node)} is a {shown(attributes['kind'])}: host or switch")
    order = sorted(nodes, key=lambda entry: entry[1].get("kind") == "switch")
    number = {node: at for at, (node, _) in enumerate(order)}
    names = [str(attributes.get("name", node)) for node, attributes in order]
    usual = [str(at) for at in range(len(order))]
    record = {
        "num_hosts": sum(attributes.get("kind") != "switch" for _, attributes in nodes),
        "num_nodes": len(nodes),
        "unit": graph.graph.get("unit", ""),
        "tick_s": graph.graph.get("tick_s"),
        "links": [
            [number[tail], number[head], *_numbers(attributes)]
            for tail, head, attributes in _edges(graph)
        ],
        **{
            ability: [number[node] for node, attributes in order if attributes.get(ability)]
            for ability in ("multicast", "aggregate")
        },
        **({} if names == usual else {"names": names}),
    }
    return network_of(record)


def _edges(graph: nx.Graph) -> list[tuple[Any, Any, dict[str, Any]]]:
    """All links, by their keys where these number them."""
    edges = [
        (tail, head, key, attributes)
        for tail, neighbours in graph.adjacency()
        for head, found in neighbours.items()
        for key, attributes in (found.items() if graph.is_multigraph() else ((None, found),))
    ]
    keys = [str(key) for _, _, key, _ in edges]
    if graph.is_directed() and sorted(keys) == sorted(map(str, range(len(edges)))):
        edges.sort(key=lambda edge: int(str(edge[2])))
    return [(tail, head, attributes) for tail, head, _, attributes in edges]


def _numbers(attributes: dict[str, Any]) -> list[Any]:
    """Bandwidth, latency and dimension of a link, as far as they are given."""
    bandwidth = attributes.get("bandwidth", attributes.get("capacity", 1))
    numbers = [bandwidth, attributes.get("latency", 0)]
    return [*numbers, attributes["dimension"]] if "dimension" in attributes else numbers


def write_node_link(network: Network, title: str) -> str:
    """A network as node-link JSON, as networkx reads it."""
    import networkx as nx

    return (
        json.dumps(nx.node_link_data(to_networkx(network, title), edges="edges"), indent=1) + "\n"
    )


def read_node_link(data: bytes, name: str) -> Network:
    """The network in node-link JSON with ``edges`` or ``links``; ValueError if there is none."""
    import networkx as nx

    from ocs_codesign.core.files.plain_text import read_plain_text

    value = read_plain_text(data, name, is_json=True).value
    key = "links" if isinstance(value, dict) and "links" in value else "edges"
    if not isinstance(value, dict) or not {"nodes", key} <= set(value):
        raise ValueError(f"{name}: node-link JSON is an object with nodes and edges")
    return _network(name, lambda: nx.node_link_graph(value, edges=key))


def write_graphml(network: Network, title: str) -> str:
    """A network as GraphML, as networkx reads it."""
    import networkx as nx

    return "\n".join(nx.generate_graphml(to_networkx(network, title))) + "\n"


def read_graphml(data: bytes, name: str) -> Network:
    """The network in GraphML; ValueError if there is none, also for a document type or entities."""
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError(f"{name}: a document type, and with it any entity, is refused")
    text = decoded(data, name)
    try:
        with warnings.catch_warnings(action="ignore"):  # of keys without a type, which are texts
            return _network(name, lambda: nx.parse_graphml(text, force_multigraph=True))
    except ParseError as error:
        raise ValueError(f"{name}: this is not XML ({error})") from None


def _network(name: str, read: Callable[[], nx.Graph]) -> Network:
    """The network of a graph that networkx reads; ValueError, with the file, if there is none."""
    import networkx as nx

    wrong = (nx.NetworkXError, KeyError, TypeError, AttributeError)
    try:
        graph = read()
    except (*wrong, ValueError) as error:
        raise ValueError(f"{name}: networkx finds no graph ({type(error).__name__})") from None
    try:
        with errors_at(name):
            return from_networkx(graph)
    except wrong as error:
        raise ValueError(f"{name}: this is no network ({type(error).__name__})") from None
