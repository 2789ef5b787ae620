"""What can be said of execution traces without data: that they meet, end, and move so many bytes.

Shares nothing with what makes graphs but the value itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.network import Network
from ocs_codesign.core.schedule import Messages
from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.chakra import kernels, schema
from ocs_codesign.interop.chakra.graph import MAX_TAG, collectives_of
from ocs_codesign.interop.chakra.making import graph_of_program
from ocs_codesign.interop.chakra.reading import groups_beside, read_graph, write_graph
from ocs_codesign.interop.registry import CheckedFile
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.transfers import BARRIER, COPY, TimingRules, Transfers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Plan
    from ocs_codesign.interop.chakra.graph import EtGraph
    from ocs_codesign.interop.registry import Contents, Export
    from ocs_codesign.schedules.simulate.engine import Simulated


@final
@dataclass(frozen=True, slots=True)
class _GraphVerdict:
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


def check_graph(graph: EtGraph, groups: Mapping[str, list[int]] | None = None) -> _GraphVerdict:
    """Whether every send meets a receive and the reverse, collectives meet, and all nodes end.

    A send and a receive meet by tag, ranks and size. Two messages that share all of them are
    refused, because the order in which ASTRA-sim issues them would decide which is which, and so
    are tags of 5 * 10^8 and more, which are ASTRA-sim's own.
    """
    sends, receives, *keys = _messages(graph)
    witness = _unmatched(graph, sends, receives, *keys)
    if witness is None:
        try:
            together = [rows for _, rows in collectives_of(graph, groups or {})]
        except ValueError as error:
            witness = str(error)
        else:
            witness = _endless(graph, sends, receives, together)
    total = sum(graph.size[sends].tolist())
    return _GraphVerdict(graph.num_ranks, graph.num_nodes, len(sends), total, witness)


def _messages(graph: EtGraph) -> tuple[NDArray[np.int64], ...]:
    """The sends and the receives, by what they must share, and that: tag, ranks and size."""
    rows, keys = [], []
    for kind, source, target in (
        (schema.SEND, graph.rank, graph.peer),
        (schema.RECV, graph.peer, graph.rank),
    ):
        mine = np.flatnonzero(graph.kind == kind)
        key = np.stack([graph.tag[mine], source[mine], target[mine], graph.size[mine]])
        order = np.lexsort(key[::-1])
        rows.append(mine[order])
        keys.append(key[:, order])
    return (*rows, *keys)


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


def _endless(
    graph: EtGraph,
    sends: NDArray[np.int64],
    receives: NDArray[np.int64],
    together: Sequence[tuple[int, ...]],
) -> str | None:
    """The first node that never ends, because it waits in a circle or for one who does.

    A collective begins when all of its rows could: a node of its own, for which they wait.
    """
    begins = np.full(graph.num_nodes, -1)
    for number, rows in enumerate(together, graph.num_nodes):
        begins[list(rows)] = number
    members = np.flatnonzero(begins >= 0)
    waiting = graph.waiting()
    of_all = begins[waiting] >= 0
    who = np.concatenate([waiting, receives, members, begins[waiting[of_all]]])
    whom = np.concatenate([graph.wait, sends, begins[members], graph.wait[of_all]])
    nodes = graph.num_nodes + len(together)
    order = np.argsort(whom, kind="stable")
    start = starts_of(np.bincount(whom, minlength=nodes))
    waits = np.bincount(who, minlength=nodes)
    ended = np.zeros(nodes, dtype=bool)
    walked = for_work(kernels.walked, nodes + len(who))
    num = walked(start, who[order], waits, ended)
    if num == nodes:
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


# Execution traces on our clock: what ASTRA-sim takes for them, by the rules it goes by.


GIB = 2**30
"""Bytes a second of what ASTRA-sim calls a GB/s."""


def clocked(
    graph: EtGraph, bandwidth: float, latency_ns: int, *, switched: bool = False
) -> Simulated:
    """When every node of a graph of sends and receives ran, row by row, on one link a pair.

    A link has ``bandwidth`` GiB/s. Where ranks are ``switched`` each has a link to a switch and one
    from it, and a message takes the second when it has crossed the first. A send is done on
    arrival, a receive when it was posted and its message has come, a computation of 0 microseconds
    after 1 ns. Raises ValueError for graphs with collectives, whose sends ASTRA-sim makes, and for
    those that do not end.
    """
    if (graph.kind == schema.COLL).any():
        row = int((graph.kind == schema.COLL).argmax())
        raise ValueError(f"{graph.place(row)} is a collective: sends and receives have a clock")
    sends, receives, _, _ = _messages(graph)
    network, path = (_star if switched else _pairs)(graph, np.sort(sends), latency_ns)
    if len(sends) != len(receives):
        raise ValueError(f"{len(sends)} sends, but {len(receives)} receives: some never end")
    who = np.concatenate([graph.waiting(), receives])
    whom = np.concatenate([graph.wait, sends])
    order = np.lexsort((whom, who))
    is_send = graph.kind == schema.SEND
    is_computation = graph.kind == schema.COMP
    transfers = Transfers(
        network,
        1,
        np.where(is_send, graph.size, 0),
        starts_of(is_send * path.shape[1]),
        path.ravel(),
        starts_of(np.bincount(who, minlength=graph.num_nodes)),
        whom[order],
        compute=np.where(is_computation, np.maximum(graph.micros * 1000, 1), 0),
        kind=np.where(is_send, COPY, BARRIER),
    )
    rules = TimingRules(unit_Bps=Fraction(bandwidth) * GIB, in_doubles=True)
    return simulate_transfers(transfers, rules)


def _pairs(
    graph: EtGraph, sends: NDArray[np.int64], latency_ns: int
) -> tuple[Network, NDArray[np.int64]]:
    """A link for every pair of ranks that send, and that of every send, shape (sends, 1)."""
    ranks = graph.num_ranks
    pair = graph.rank[sends].astype(np.int64) * ranks + graph.peer[sends]
    pairs, link = np.unique(pair, return_inverse=True)
    ones = np.ones(len(pairs), dtype=np.int64)
    network = Network(ranks, ranks, *np.divmod(pairs, ranks), ones, ones * latency_ns)
    return network, link.reshape(-1, 1)


def _star(
    graph: EtGraph, sends: NDArray[np.int64], latency_ns: int
) -> tuple[Network, NDArray[np.int64]]:
    """Links to a switch and then those from it, and both of every send, shape (sends, 2)."""
    ranks = graph.num_ranks
    own, switch = np.arange(ranks), np.full(ranks, ranks)
    ones = np.ones(2 * ranks, dtype=np.int64)
    ends = np.append(own, switch), np.append(switch, own)
    network = Network(ranks, ranks + 1, *ends, ones, ones * latency_ns)
    return network, np.stack([graph.rank[sends], ranks + graph.peer[sends]], axis=1)


# What leaves as Chakra: the traces of an export, checked before they do.


def write_chakra(export: Export) -> Contents:
    """A trace ``NAME.RANK.et`` for every rank, neighbouring sends of a step joined.

    Raises ValueError without a size of the message, for a program that traces cannot carry, and,
    with what to install, where protobuf is missing.
    """
    return write_graph(checked_graph(export), export.name)


def checked_graph(export: Export) -> EtGraph:
    """The graph of an export, which meets, ends, and moves the bytes of the plan.

    Raises RuntimeError, with what is wrong, for one that does not.
    """
    message_bytes = export.checked_message_bytes()
    graph = graph_of_program(export.program, message_bytes)
    witness = check_graph(graph).witness or check_bytes(graph, export.plan, message_bytes)
    if witness is not None:
        raise RuntimeError(f"the traces of {export.name} fail: {witness}")
    return graph


def checked_traces(path: Path) -> CheckedFile:
    """Whether the sends and receives of all ranks meet, and all nodes end.

    Raises OSError if a trace cannot be read and ValueError, with the file and the rule, for what is
    no complete set of them.
    """
    graph = read_graph(path)
    verdict = check_graph(graph, groups_beside(path))
    facts = (
        ("ranks", verdict.num_ranks),
        ("nodes", verdict.num_nodes),
        ("messages", verdict.num_messages),
        ("bytes sent", verdict.num_bytes),
        ("collectives", int((graph.kind == schema.COLL).sum())),
    )
    return CheckedFile(
        facts, "traces have sizes and no data, so this is a word on time alone", verdict.witness
    )
