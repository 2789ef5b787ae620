"""Messages as a Schedule: where every send crosses one link, and nobody is sent a thing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.network import shortest_routes
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology, starts_of
from ocs_codesign.schedules.classic.placement import PairLinks, checked_ranks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.schedule import Messages


def schedule_of(
    messages: Messages, topology: Topology, rank_to_node: ArrayLike | None = None
) -> Schedule:
    """The schedule that sends what the messages send, over parallel links in equal parts.

    Raises ValueError where there is none: for ends without a link between them, an item that a rank
    gets again or a part of a sum that it sends twice, and an allreduce whose sums do not end in
    equal numbers at all ranks.
    """
    if messages.num_ranks != topology.num_nodes:
        raise ValueError(f"{messages.num_ranks} ranks for {topology.num_nodes} nodes: one on each")
    node = checked_ranks(messages.num_ranks, topology.num_nodes, rank_to_node)
    _check_once(messages)
    row, link, part, ways = _links(messages, topology, node)
    root, chunk, chunks = _chunks(messages, node)
    finer = int(np.lcm.reduce(ways)) if len(ways) else 1
    item = messages.item[row]
    first = chunk[item].astype(np.int64) * finer
    collective = messages.collective
    if collective.root is not None:
        collective = replace(collective, root=int(node[collective.root]))
    is_allreduce = collective.name == "allreduce"
    return Schedule(
        topology,
        collective,
        chunks * finer,
        root[item],
        first + part * (finer // ways),
        first + (part + 1) * (finer // ways),
        link,
        messages.step[row],
        (~messages.adds[row]).astype(np.int32) if is_allreduce else None,
    )


def schedule_through(messages: Messages, network: Network) -> Schedule:
    """The same over a network with switches, by shortest routes: a send is the hops of its path.

    Rank r is host r. Raises ValueError as ``schedule_of`` does, and where a path leads through a
    host.
    """
    ranks = network.num_hosts
    pairs = np.unique(messages.source.astype(np.int64) * ranks + messages.target)
    topology = Topology(ranks, *np.divmod(pairs, ranks))
    return shortest_routes(topology, network).through(schedule_of(messages, topology))


def _links(
    messages: Messages, topology: Topology, node: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Row and link of every part of a send, its number, and how many the send has."""
    tail, head = node[messages.source], node[messages.target]
    row, link = PairLinks(topology).between(tail, head)
    ways = np.bincount(row, minlength=len(tail))
    if (ways == 0).any():
        at = int((ways == 0).argmax())
        raise ValueError(
            f"step {messages.step[at]} sends from node {tail[at]} to node {head[at]}, but no link "
            "leads there: in a schedule a send crosses one link, cost prices longer paths"
        )
    part = np.arange(len(row)) - starts_of(ways)[row]
    return row, link, part, ways[row]


def _chunks(messages: Messages, node: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Item of the schedule and first chunk in it of every item, and the chunks of the largest."""
    ranks, item = messages.num_ranks, np.arange(messages.num_items)
    name = messages.collective.name
    if name == "alltoall":
        piece, part = np.divmod(item, messages.num_items // ranks**2)
        source, target = np.divmod(piece, ranks)
        each = messages.num_items // ranks**2
        return node[source], node[target] * each + part, each * ranks
    if messages.collective.root is not None:
        return np.zeros_like(item), item, messages.num_items
    each = messages.num_items // ranks
    owner = _ends_of_sums(messages) if name == "allreduce" else item // max(1, each)
    if name == "allreduce" and (np.bincount(owner, minlength=ranks) * ranks != len(item)).any():
        raise ValueError(
            "its sums do not end in equal numbers at all ranks: an allreduce is a schedule if it "
            "is a reduce-scatter and then an allgather, cost prices others"
        )
    order = np.argsort(owner, kind="stable")
    chunk = np.empty_like(item)
    chunk[order] = item % max(1, each)
    return node[owner], chunk, each


def _ends_of_sums(messages: Messages) -> NDArray[np.int64]:
    """The rank that never sends its part of an item, of every item of an allreduce."""
    keeps = np.ones((messages.num_ranks, messages.num_items), dtype=bool)
    keeps[messages.source[messages.adds], messages.item[messages.adds]] = False
    ends: NDArray[np.int64] = keeps.argmax(axis=0)
    return ends


def _check_once(messages: Messages) -> None:
    """ValueError for what a rank gets again, or a part of a sum that it sends twice."""
    item, adds = messages.item.astype(np.int64), messages.adds
    cases = (
        (adds, messages.source, "sends its part of the sum of item {item} twice"),
        (~adds, messages.target, "is sent item {item} twice"),
    )
    for rows, rank, rule in cases:
        key = rank[rows] * messages.num_items + item[rows]
        known, count = np.unique(key, return_counts=True)
        if (count > 1).any():
            who, what = divmod(int(known[count > 1][0]), messages.num_items)
            raise ValueError(
                f"rank {who} {rule.format(item=what)}: in a schedule that happens once, "
                "cost prices what is repeated"
            )
