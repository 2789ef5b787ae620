"""Networks as networkx graphs, and with them as node-link JSON and GraphML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.networks.attributed import of_networkx
from ocs_codesign.core.networks.records import network_record

if TYPE_CHECKING:
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


def from_networkx(graph: nx.Graph, speed_attribute: str | None = None) -> Network:
    """The network of a graph: nodes of ``kind`` "switch" are switches, all others hosts.

    An undirected edge is a link each way. ``speed_attribute`` names the attribute that is the
    bandwidth of edges, or "none" if they are alike; without it, it is bandwidth, capacity, speed or
    LinkSpeedRaw (bit/s), and edges that differ in what may be meant as a speed are refused. Hosts,
    then switches, are numbered in ascending order if all names are integers, else in the graph's,
    links by their keys if these number them. Raises ValueError for what is no network.
    """
    return of_networkx(graph).network(speed_attribute)


def write_node_link(network: Network, title: str) -> str:
    """A network as node-link JSON, as networkx reads it."""
    import networkx as nx

    return (
        json.dumps(nx.node_link_data(to_networkx(network, title), edges="edges"), indent=1) + "\n"
    )


def write_graphml(network: Network, title: str) -> str:
    """A network as GraphML, as networkx reads it."""
    import networkx as nx

    return "\n".join(nx.generate_graphml(to_networkx(network, title))) + "\n"
