"""Execution traces on our clock: what ASTRA-sim takes for them, by the rules it goes by."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.formats.programs.chakra import schema
from ocs_codesign.network import Network
from ocs_codesign.runs import starts_of
from ocs_codesign.simulate.engine import simulate_transfers
from ocs_codesign.simulate.rules import TimingRules
from ocs_codesign.simulate.transfers import BARRIER, COPY, Transfers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.formats.programs.chakra.graph import EtGraph
    from ocs_codesign.simulate.simulated import Simulated

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
    sends = np.flatnonzero(graph.kind == schema.SEND)
    receives = np.flatnonzero(graph.kind == schema.RECV)
    network, path = (_star if switched else _pairs)(graph, sends, latency_ns)
    keys = [
        np.lexsort((graph.size[rows], source[rows], target[rows], graph.tag[rows]))
        for rows, source, target in (
            (sends, graph.rank, graph.peer),
            (receives, graph.peer, graph.rank),
        )
    ]
    if len(sends) != len(receives):
        raise ValueError(f"{len(sends)} sends, but {len(receives)} receives: some never end")
    who = np.concatenate([graph.waiting(), receives[keys[1]]])
    whom = np.concatenate([graph.wait, sends[keys[0]]])
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
