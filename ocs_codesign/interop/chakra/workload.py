"""Workload graphs: chains of computations and whole collectives, the same at every rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.given import whole
from ocs_codesign.core.topology import starts_of
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.graph import EtGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.collective import Collective


NAMES = {"allgather": "ag", "reduce-scatter": "rs", "allreduce": "ar", "alltoall": "a2a"}
"""Collectives that ASTRA-sim runs as a node, by what their nodes are called."""

MAX_MICROS = 2**53


@final
@dataclass(frozen=True, slots=True)
class ComputationNode:
    """A computation of so many microseconds; one of 0 takes ASTRA-sim a nanosecond."""

    micros: int


@final
@dataclass(frozen=True, slots=True)
class CollectiveNode:
    """A collective of all ranks, where M, the buffer of a rank, has so many bytes."""

    collective: Collective
    message_bytes: int


def workload_graph(nodes: Sequence[ComputationNode | CollectiveNode], num_ranks: int) -> EtGraph:
    """The traces of a chain of nodes, each after the one before, at every rank.

    Node ids count from 0. ASTRA-sim takes the shard of an allgather for its size, M / N rounded up,
    and M of the others. Raises ValueError for a chain without nodes, and for collectives that
    are no nodes of ASTRA-sim: those with a root, sizes or groups.
    """
    if not nodes or num_ranks < 1:
        raise ValueError("a workload has a node, and a rank that runs it")
    rows = [_row(node, number, num_ranks) for number, node in enumerate(nodes)]
    length, total = len(nodes), len(nodes) * num_ranks
    name, kind, size, comm_type, micros = zip(*rows, strict=True)
    number = np.tile(np.arange(length), num_ranks)
    nothing = np.full(total, -1)
    follows = np.flatnonzero(number > 0)
    return EtGraph(
        num_ranks,
        np.repeat(np.arange(num_ranks, dtype=np.int32), length),
        number,
        np.tile(np.array(kind, dtype=np.int8), num_ranks),
        name * num_ranks,
        nothing.astype(np.int32),
        nothing,
        np.tile(np.array(size, dtype=np.int64), num_ranks),
        np.tile(np.array(comm_type, dtype=np.int8), num_ranks),
        np.tile(np.array(micros, dtype=np.int64), num_ranks),
        starts_of((number > 0).astype(np.int64)),
        follows - 1,
        np.ones(len(follows), dtype=bool),
    )


def _row(
    node: ComputationNode | CollectiveNode, number: int, num_ranks: int
) -> tuple[str, int, int, int, int]:
    """Name, kind, size, comm_type and microseconds of a node."""
    if isinstance(node, ComputationNode):
        if not 0 <= whole(node.micros, "micros") <= MAX_MICROS:
            raise ValueError(f"a computation of {node.micros} microseconds: from 0 to 2^53")
        return f"c{number}", schema.COMP, -1, -1, node.micros
    collective = node.collective
    plain = collective.sizes is None and collective.groups is None and collective.root is None
    if collective.name not in NAMES or not plain:
        raise ValueError(
            f"{collective.text} is no node of ASTRA-sim: these are {', '.join(NAMES)} of all ranks"
        )
    size = whole(node.message_bytes, "message_bytes")
    if not 1 <= size < 2**62:
        raise ValueError(f"message_bytes is {size}: it is from 1 to 2^62 - 1")
    if collective.name == "allgather":
        size = -(-size // num_ranks)
    comm_type = schema.COMM_TYPES.index(collective.name)
    return NAMES[collective.name], schema.COLL, size, comm_type, 0
