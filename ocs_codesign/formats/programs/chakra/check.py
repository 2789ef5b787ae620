"""What can be said of execution traces without data: that they meet, end, and move so many bytes.

Shares nothing with what makes graphs but the value itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.formats.programs.chakra import check_kernels, schema
from ocs_codesign.formats.programs.chakra.graph import MAX_TAG
from ocs_codesign.kernels import for_work
from ocs_codesign.messages import Messages
from ocs_codesign.runs import starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.book import Plan
    from ocs_codesign.formats.programs.chakra.graph import EtGraph


@final
@dataclass(frozen=True, slots=True)
class GraphVerdict:
    """What a check of traces found: how much they send, and the first thing wrong, if any.

    That nothing is wrong is a word on time alone: traces carry no data.
    """

    num_ranks: int
    num_nodes: int
    num_messages: int
    num_bytes: int
    witness: str | None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.witness is None


def check_graph(graph: EtGraph) -> GraphVerdict:
    """Whether every send meets a receive and the reverse, and all nodes end.

    A send and a receive meet by tag, ranks and size. Two messages that share all of them are
    refused, because the order in which ASTRA-sim issues them would decide which is which, and so
    are tags of 5 * 10^8 and more, which are ASTRA-sim's own.
    """
    sends = np.flatnonzero(graph.kind == schema.SEND)
    receives = np.flatnonzero(graph.kind == schema.RECV)
    keys = [
        np.stack([graph.tag[rows], source[rows], target[rows], graph.size[rows]])
        for rows, source, target in (
            (sends, graph.rank, graph.peer),
            (receives, graph.peer, graph.rank),
        )
    ]
    orders = [np.lexsort(key[::-1]) for key in keys]
    sends, receives = sends[orders[0]], receives[orders[1]]
    keys = [key[:, order] for key, order in zip(keys, orders, strict=True)]
    witness = _unmatched(graph, sends, receives, keys[0], keys[1])
    if witness is None:
        witness = _endless(graph, sends, receives)
    total = sum(graph.size[sends].tolist())
    return GraphVerdict(graph.num_ranks, graph.num_nodes, len(sends), total, witness)


def _unmatched(
    graph: EtGraph,
    sends: NDArray[np.int64],
    receives: NDArray[np.int64],
    sent: NDArray[np.int64],
    received: NDArray[np.int64],
) -> str | None:
    """The first send or receive, sorted by what they must share, that is alone or not unique."""
    high = np.flatnonzero(sent[0] >= MAX_TAG)
    if len(high):
        row = int(sends[high[0]])
        return f"{graph.place(row)}: tag {graph.tag[row]} is ASTRA-sim's own: below {MAX_TAG}"
    for rows, key in ((sends, sent), (receives, received)):
        twice = (np.diff(key, axis=1) == 0).all(axis=0)
        if twice.any():
            row = int(rows[int(twice.argmax()) + 1])
            return (
                f"{graph.place(row)}: another message to or from rank {graph.peer[row]} has the "
                f"same tag {graph.tag[row]} and size"
            )
    length = min(len(sends), len(receives))
    unlike = (sent[:, :length] != received[:, :length]).any(axis=0)
    at = int(unlike.argmax()) if unlike.any() else length
    if at >= max(len(sends), len(receives)):
        return None
    # Of both, what sorts first has no partner.
    send = tuple(sent[:, at].tolist()) if at < len(sends) else None
    receive = tuple(received[:, at].tolist()) if at < len(receives) else None
    if receive is None or (send is not None and send < receive):
        row = int(sends[at])
        return f"{graph.place(row)}: rank {graph.peer[row]} never receives what it sends there"
    row = int(receives[at])
    return f"{graph.place(row)}: rank {graph.peer[row]} never sends what it waits for"


def _endless(graph: EtGraph, sends: NDArray[np.int64], receives: NDArray[np.int64]) -> str | None:
    """The first node that never ends, because it waits in a circle or for one who does."""
    who = np.concatenate([graph.waiting(), receives])
    whom = np.concatenate([graph.wait, sends])
    order = np.argsort(whom, kind="stable")
    start = starts_of(np.bincount(whom, minlength=graph.num_nodes))
    waits = np.bincount(who, minlength=graph.num_nodes)
    ended = np.zeros(graph.num_nodes, dtype=bool)
    walked = for_work(check_kernels.walked, graph.num_nodes + len(who))
    num = walked(start, who[order], waits, ended)
    if num == graph.num_nodes:
        return None
    row = int((~ended).argmax())
    return f"{graph.place(row)}: it waits in a circle, and never begins"


def check_bytes(graph: EtGraph, plan: Plan, message_bytes: int) -> str | None:
    """What is wrong with the bytes from rank to rank, if they are not those of the plan.

    Every message may have up to a byte more than its chunks. Only for plans of hosts alone: None,
    too, for one whose switches pass on what they get.
    """
    if isinstance(plan, Messages):
        ranks, source, target = plan.num_ranks, plan.source, plan.target
        chunks = np.ones(len(source), dtype=np.int64)
        chunk_bytes = message_bytes * plan.item_size
    else:
        if plan.num_hosts < plan.topology.num_nodes:
            return None
        ranks, links = plan.num_hosts, plan.topology
        source, target = links.tail[plan.link], links.head[plan.link]
        chunks = plan.hi.astype(np.int64) - plan.lo
        units = max(demand.message_units for demand in plan.demands) * plan.chunks_per_unit
        chunk_bytes = Fraction(message_bytes, units)
    if ranks != graph.num_ranks:
        return f"{graph.num_ranks} traces, but a plan of {ranks} ranks"
    sends = np.flatnonzero(graph.kind == schema.SEND)
    pair = graph.rank[sends].astype(np.int64) * ranks + graph.peer[sends]
    planned = source.astype(np.int64) * ranks + target
    pairs, number = np.unique(np.concatenate([pair, planned]), return_inverse=True)
    wanted, sent, messages = (np.zeros(len(pairs), dtype=np.int64) for _ in range(3))
    np.add.at(wanted, number[len(sends) :], chunks)
    np.add.at(sent, number[: len(sends)], graph.size[sends])
    np.add.at(messages, number[: len(sends)], 1)
    for at, (count, real, parts) in enumerate(
        zip(wanted.tolist(), sent.tolist(), messages.tolist(), strict=True)
    ):
        exact = count * chunk_bytes
        if not exact <= real < exact + max(parts, 1):
            tail, head = divmod(int(pairs[at]), ranks)
            return f"rank {tail} sends {real} bytes to {head}, but the plan has {float(exact):.12g}"
    return None
