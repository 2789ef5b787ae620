"""Execution traces on disk: length-delimited messages, a file ``PREFIX.RANK.et`` for every rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.formats.programs.chakra import schema
from ocs_codesign.formats.programs.chakra.schema import VERSION

if TYPE_CHECKING:
    from ocs_codesign.formats.programs.chakra.graph import EtGraph


def trace_name(prefix: str, rank: int) -> str:
    """The name of a rank's file.

    >>> trace_name("ring4", 3)
    'ring4.3.et'
    """
    return f"{prefix}.{rank}.et"


def write_graph(graph: EtGraph, prefix: str) -> dict[str, bytes]:
    """The files of all ranks; the same graph gives the same bytes.

    Raises ValueError, with what to install, where protobuf is missing.
    """
    classes = schema.schema()
    head = delimited(classes.metadata(version=VERSION).SerializeToString())
    nodes = _nodes(graph, classes)
    start = np.searchsorted(graph.rank, np.arange(graph.num_ranks + 1)).tolist()
    return {
        trace_name(prefix, rank): head + b"".join(nodes[start[rank] : start[rank + 1]])
        for rank in range(graph.num_ranks)
    }


def delimited(content: bytes) -> bytes:
    """A message behind its length as a varint: seven bits a byte, the lowest first.

    >>> delimited(b"x" * 200)[:2].hex()
    'c801'
    """
    length, head = len(content), bytearray()
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + content


def _nodes(graph: EtGraph, classes: schema.Schema) -> list[bytes]:
    attribute = classes.attribute
    on_device = attribute(name="is_cpu_op", bool_val=False)
    numbers = graph.id[graph.wait].tolist()
    columns = (graph.rank, graph.id, graph.kind, graph.peer, graph.tag, graph.size)
    rows = zip(
        *(column.tolist() for column in (*columns, graph.comm_type, graph.micros)),
        graph.name,
        graph.group or [""] * graph.num_nodes,
        graph.wait_start[:-1].tolist(),
        graph.wait_start[1:].tolist(),
        strict=True,
    )
    is_data, content = graph.is_data.tolist(), []
    for rank, number, kind, peer, tag, size, comm_type, micros, name, group, first, last in rows:
        waits = range(first, last)
        attributes: list[Any] = [on_device]
        if kind in (schema.SEND, schema.RECV):
            source, target = (rank, peer) if kind == schema.SEND else (peer, rank)
            attributes += [
                attribute(name="comm_size", uint64_val=size),
                attribute(name="comm_src", uint32_val=source),
                attribute(name="comm_dst", uint32_val=target),
                attribute(name="comm_tag", uint32_val=tag),
            ]
        elif kind == schema.COLL:
            attributes += [
                *([attribute(name="pg_name", string_val=group)] if group else []),
                attribute(name="comm_type", int64_val=comm_type),
                attribute(name="comm_size", int64_val=size),
            ]
        node = classes.node(
            id=number,
            name=name,
            type=kind,
            ctrl_deps=[numbers[at] for at in waits if not is_data[at]],
            data_deps=[numbers[at] for at in waits if is_data[at]],
            duration_micros=micros,
            attr=attributes,
        )
        content.append(delimited(node.SerializeToString()))
    return content
