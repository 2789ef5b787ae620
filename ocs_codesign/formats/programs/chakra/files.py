"""What leaves as Chakra: the traces of an export, checked before they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.formats.programs.chakra.check import check_bytes, check_graph
from ocs_codesign.formats.programs.chakra.making import graph_of_program
from ocs_codesign.formats.programs.chakra.writing import write_graph

if TYPE_CHECKING:
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
    graph = graph_of_program(export.program, message_bytes)
    witness = check_graph(graph).witness or check_bytes(graph, export.plan, message_bytes)
    if witness is not None:
        raise RuntimeError(f"the traces of {export.name} fail: {witness}")
    return graph
