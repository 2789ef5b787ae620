"""The messages of Chakra's execution traces, described by their field numbers at run time.

They are those of the schema that MLCommons publishes; the protobuf library makes the classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, final

INVALID, METADATA, LOAD, STORE, COMP, SEND, RECV, COLL = range(8)
"""Types of nodes."""

COMM_TYPES = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast", "alltoall"),
    *("reduce-scatter", "reduce-scatter-block", "barrier"),
)
"""Collectives by the number that ``comm_type`` has."""

VERSION = "0.0.4"

_PACKAGE = "ChakraProtoMsg"
_NODE_TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE"),
    *("COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
_SCALARS = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
_FIRST_VALUE = 3
INTEGER_FIELDS = frozenset(f"{name}_val" for name in _SCALARS[2:12])
"""Values of attributes that hold an integer of any kind."""


@final
@dataclass(frozen=True, slots=True)
class Schema:
    """The classes of the messages of a trace: its head, a node, an attribute of either."""

    metadata: Any
    node: Any
    attribute: Any


@cache
def schema() -> Schema:
    """The classes; ValueError, with what to install, where protobuf is missing.

    >>> schema().node(id=3, name="s").SerializeToString()
    b'\\x08\\x03\\x12\\x01s'
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise ValueError("Chakra files need the extra chakra: pip install protobuf") from None
    file = descriptor_pb2.FileDescriptorProto()
    file.name, file.package, file.syntax = "et_def.proto", _PACKAGE, "proto3"
    kinds = descriptor_pb2.FieldDescriptorProto
    for name in _SCALARS:
        listed = file.message_type.add(name=f"{name.capitalize()}List")
        _add(kinds, listed, "values", 1, name, repeated=True)
    _describe_attribute(kinds, file)
    head = file.message_type.add(name="GlobalMetadata")
    _add(kinds, head, "version", 1, "string")
    _add(kinds, head, "attr", 2, "AttributeProto", repeated=True)
    _describe_node(kinds, file)
    pool = descriptor_pool.DescriptorPool()  # its own: others may have loaded the same schema
    pool.Add(file)
    head_class, node_class, attribute_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in ("GlobalMetadata", "Node", "AttributeProto")
    )
    return Schema(head_class, node_class, attribute_class)


def _describe_attribute(kinds: Any, file: Any) -> None:
    attribute = file.message_type.add(name="AttributeProto")
    _add(kinds, attribute, "name", 1, "string")
    _add(kinds, attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for number, name in enumerate(_SCALARS):
        at = _FIRST_VALUE + 2 * number
        _add(kinds, attribute, f"{name}_val", at, name, is_value=True)
        listed = f"{name.capitalize()}List"
        _add(kinds, attribute, f"{name}_list", at + 1, listed, is_value=True)


def _describe_node(kinds: Any, file: Any) -> None:
    types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        types.value.add(name=name, number=number)
    ports = file.message_type.add(name="IOInfo")
    for number, name in enumerate(("values", "shapes", "types"), 1):
        _add(kinds, ports, name, number, "string")
    node = file.message_type.add(name="Node")
    _add(kinds, node, "id", 1, "uint64")
    _add(kinds, node, "name", 2, "string")
    _add(kinds, node, "type", 3, "NodeType")
    _add(kinds, node, "ctrl_deps", 4, "uint64", repeated=True)
    _add(kinds, node, "data_deps", 5, "uint64", repeated=True)
    _add(kinds, node, "start_time_micros", 6, "uint64")
    _add(kinds, node, "duration_micros", 7, "uint64")
    _add(kinds, node, "inputs", 8, "IOInfo")
    _add(kinds, node, "outputs", 9, "IOInfo")
    _add(kinds, node, "attr", 10, "AttributeProto", repeated=True)


def _add(
    kinds: Any,
    message: Any,
    name: str,
    number: int,
    kind: str,
    *,
    repeated: bool = False,
    is_value: bool = False,
) -> None:
    """Describe a field of a message; ``is_value`` makes it one of which there is one only."""
    label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = getattr(kinds, f"TYPE_{kind.upper()}")
    else:
        field.type = kinds.TYPE_ENUM if kind == "NodeType" else kinds.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    if is_value:
        field.oneof_index = 0
