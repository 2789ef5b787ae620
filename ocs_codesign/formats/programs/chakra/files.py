"""What leaves as Chakra: the traces of an export, checked before they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.formats.programs.chakra import schema
from ocs_codesign.formats.programs.chakra.check import check_bytes, check_graph
from ocs_codesign.formats.programs.chakra.making import graph_of_program
from ocs_codesign.formats.programs.chakra.reading import read_graph
from ocs_codesign.formats.programs.chakra.writing import write_graph
from ocs_codesign.formats.programs.export import CheckedFile
from ocs_codesign.rank_program import SEND

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.formats.programs.chakra.graph import EtGraph
    from ocs_codesign.formats.programs.export import Contents, Export


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
    by_rank = not sends_directly(export)
    graph = graph_of_program(export.program, message_bytes, by_rank=by_rank)
    witness = check_graph(graph).witness or check_bytes(graph, export.plan, message_bytes)
    if witness is not None:
        raise RuntimeError(f"the traces of {export.name} fail: {witness}")
    return graph


def sends_directly(export: Export) -> bool:
    """Whether every send of the program has a link of its own in the network, and no path."""
    program, network = export.program, export.network
    rows = program.kind == SEND
    wanted = program.rank[rows].astype(np.int64) * network.num_nodes + program.peer[rows]
    links = network.tail.astype(np.int64) * network.num_nodes + network.head
    return bool(np.isin(wanted, links).all())


def checked_traces(path: Path) -> CheckedFile:
    """Whether the sends and receives of all ranks meet, and all nodes end.

    Raises OSError if a trace cannot be read and ValueError, with the file and the rule, for what is
    no complete set of them.
    """
    graph = read_graph(path)
    verdict = check_graph(graph)
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
