"""Options of classic algorithms, and what one costs on a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.answers.cost import ClassicCost, Subject
from ocs_codesign.faces.cli.commands import option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.faces.cli.options import GivenGraph


ROOTED = ("broadcast", "reduce")
"""Collectives with a root that classic algorithms make."""


option_option = option(
    *("--option", "options"),
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of a classic algorithm, such as radix=3, dims=4,4 or first=near, or its rank map: "
    "rank_to_node=identity, snake, gray, search (with seed=1) or the node of every rank.",
)


routing_option = option(
    "--routing",
    type=click.Choice(["even", "lowest"]),
    help="Of a classic algorithm's messages: split over all shortest paths (default), or take the "
    "lowest-numbered neighbour.",
)


def classic_names() -> Mapping[str, Any]:
    """All classic algorithms by name."""
    from ocs_codesign.schedules.classic.registry import CLASSIC

    return CLASSIC


def cost_of_classic(
    source: GivenGraph,
    scheduler: str,
    collective_name: str,
    texts: tuple[str, ...],
    routing: str,
    asked: MessageSizes | None,
) -> Answer:
    """Place a classic algorithm on a topology or network, and say what it costs."""
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.classic.algorithm import read_options
    from ocs_codesign.schedules.classic.alltoall import in_network_bound
    from ocs_codesign.schedules.classic.placement import messages_on, place

    options = read_options(texts)
    topology, network = source.topology(), source.network
    graph = topology if network is None else network
    sides = getattr(source.recipe, "sides", None)
    root = options.get("root", 0) if collective_name in ROOTED else None
    collective = Collective(collective_name, root=root)
    with progress("Placing the messages"):
        messages, nodes = messages_on(graph, scheduler, collective, options, sides, routing)
        placed = place(messages, graph, routing, nodes)
    subject, bound = source.subject(topology), None
    if network is not None:
        subject = Subject(None, source.graph_name, network.num_hosts, topology.degree)
        has_switches = network.num_hosts < network.num_nodes
        if has_switches and collective == Collective.ALLREDUCE:
            bound = in_network_bound(network)
    found = ClassicCost(scheduler, routing, messages, placed, bound, options.get("note"))
    return answered("cost.classic", subject, found).timed(asked, placed.cut_through)
