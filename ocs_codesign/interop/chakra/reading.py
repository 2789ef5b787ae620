"""Execution traces of anyone read: ``PREFIX.0.et``, ``PREFIX.1.et`` and so on, one a rank.

What ASTRA-sim's reader aborts on is refused: files without a node, waits for nodes that the file
does not have, sends and receives without a peer, a size or a tag.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.chakra import schema
from ocs_codesign.interop.chakra.graph import EtGraph
from ocs_codesign.interop.chakra.schema import VERSION

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path


MAX_TRACE_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 2**30
MAX_NODES = 2**22
MAX_WAITS = 2**25
MAX_FRAME_BYTES = 2**22
MAX_RANKS = 2**16
MAX_NAME = 4096

_FILE = re.compile(r"(.+)\.(0|[1-9][0-9]{0,6})\.et")
_LIMIT = 2**62
_KNOWN = (schema.COMP, schema.SEND, schema.RECV, schema.COLL)
_GROUP = "pg_name"
_WORK = ("num_ops", "tensor_size")
_READ = ("comm_src", "comm_dst", "comm_size", "comm_tag", "comm_type", *_WORK)
_ON_PROCESSOR = "is_cpu_op"
MISSING = "missing-dependencies"
"""What of traces may be ignored, beside computations on processors."""


def read_graph(path: Path, *, for_job: bool = False, ignore: Collection[str] = ()) -> EtGraph:
    """The traces in a directory, or those of the same prefix as a file.

    With ``for_job`` nodes of metadata, and collectives on processors that say no kind, are read as
    metadata: they pass on who waits. MISSING in ``ignore`` leaves out waits for nodes that are not
    there.

    Raises OSError if one cannot be read and ValueError, with the file and the rule, for what is no
    complete set of traces, and, with what to install, where protobuf is missing. Whether they end
    is for ``check`` to say.
    """
    files, total = {}, 0
    for rank, file in enumerate(_paths(path)):
        files[rank] = (str(file), read_limited(file, MAX_TRACE_BYTES))
        total += len(files[rank][1])
        if total > MAX_TOTAL_BYTES:
            raise ValueError(f"{file}: more than {MAX_TOTAL_BYTES // 2**20} MiB are not read")
    return parse_graph(files, for_job=for_job, ignore=ignore)


def groups_beside(path: Path) -> dict[str, list[int]]:
    """Process groups in PREFIX.json beside the traces, by name; none where there is no such file.

    ValueError for a file that is no map of names to lists of ranks.
    """
    first = _paths(path)[0]
    file = first.with_name(first.name.removesuffix(".0.et") + ".json")
    if not file.exists():
        return {}
    data = read_limited(file, MAX_TRACE_BYTES)
    value = read_plain_text(data, str(file), is_json=True).value
    listed = value.items() if isinstance(value, dict) else [("", value)]
    for name, ranks in listed:
        if not (isinstance(ranks, list) and ranks and all(type(one) is int for one in ranks)):
            raise ValueError(f"{file}: group {shown(name)} is {shown(ranks)}: a list of ranks")
    return dict(listed)


def _paths(path: Path) -> list[Path]:
    """The traces of all ranks, by rank."""
    told = None if path.is_dir() else _FILE.fullmatch(path.name)
    if not path.is_dir() and told is None:
        raise ValueError(f"{path}: a trace is called PREFIX.RANK.et")
    directory = path if path.is_dir() else path.parent
    found: dict[str, dict[int, Path]] = {}
    for one in sorted(directory.iterdir()):
        match = _FILE.fullmatch(one.name)
        if match is not None and (told is None or match[1] == told[1]):
            found.setdefault(match[1], {})[int(match[2])] = one
    if told is not None and not path.exists():
        raise FileNotFoundError(None, "there is no such file", str(path))
    if len(found) != 1:
        rule = "there are no traces PREFIX.RANK.et" if not found else "name one of them"
        raise ValueError(f"{path}: {len(found)} sets of traces: {rule}")
    ((prefix, ranks),) = found.items()
    if len(ranks) > MAX_RANKS:
        raise ValueError(f"{path}: more than {MAX_RANKS} traces are not read")
    for rank in range(len(ranks)):
        if rank not in ranks:
            raise ValueError(
                f"{path}: {len(ranks)} traces, but no {prefix}.{rank}.et: ranks count from 0"
            )
    return [ranks[rank] for rank in range(len(ranks))]


def parse_graph(
    files: Mapping[int, tuple[str, bytes]], *, for_job: bool = False, ignore: Collection[str] = ()
) -> EtGraph:
    """The graph of the contents of all ranks' files, each with what errors call it."""
    gathered = _Gathered(for_job=for_job, ignores_missing=MISSING in ignore)
    for rank in range(len(files)):
        name, data = files[rank]
        try:
            gathered.add_rank(rank, len(files), data)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return gathered.graph(len(files))


def frames(data: bytes) -> Iterator[bytes]:
    """The messages of a content, each behind its length as a varint; ValueError if it is cut off.

    >>> list(frames(b"\\x01a\\x02bc"))
    [b'a', b'bc']
    """
    at, end = 0, len(data)
    while at < end:
        length = shift = 0
        while True:
            if at >= end or shift > 28:
                raise ValueError(f"byte {at}: the length of a message is cut off or too long")
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if length > MAX_FRAME_BYTES or at + length > end:
            raise ValueError(
                f"byte {at}: a message of {length} bytes is cut off or longer than "
                f"{MAX_FRAME_BYTES}"
            )
        yield data[at : at + length]
        at += length


class _Gathered:
    """Columns of nodes, filled file by file."""

    def __init__(self, *, for_job: bool, ignores_missing: bool) -> None:
        self.classes = schema.schema()
        self.for_job, self.ignores_missing = for_job, ignores_missing
        self.columns = {name: array("q") for name in _COLUMNS}
        self.names: list[str] = []
        self.groups: list[str] = []
        self.wait, self.is_data = array("q"), array("b")
        self.wait_count = array("q")

    def add_rank(self, rank: int, num_ranks: int, data: bytes) -> None:
        """Append the nodes of a rank's file; ValueError for what is none."""
        first = len(self.names)
        content = frames(data)
        _parsed(self.classes.metadata, next(content, None), "the head of the trace")
        place: dict[int, int] = {}
        waits: list[tuple[Any, Any]] = []
        for frame in content:
            node = _parsed(self.classes.node, frame, f"message {len(place) + 1}")
            if node.id in place:
                raise ValueError(f"two nodes have the id {node.id}")
            if len(self.names) >= MAX_NODES:
                raise ValueError(f"more than {MAX_NODES} nodes are not read")
            place[node.id] = len(self.names)
            try:
                self._add(rank, num_ranks, node)
            except ValueError as error:
                raise ValueError(f"node {node.id}: {error}") from None
            waits.append((list(node.ctrl_deps), list(node.data_deps)))
        if len(self.names) == first:
            raise ValueError("there is no node: ASTRA-sim aborts on a trace without any")
        waits = self._known_waits(place, waits)
        for ctrl, data_waits in waits:
            self.wait.extend(place[whom] for whom in (*ctrl, *data_waits))
            self.is_data.extend([0] * len(ctrl) + [1] * len(data_waits))
            self.wait_count.append(len(ctrl) + len(data_waits))
        if len(self.wait) > MAX_WAITS:
            raise ValueError(f"more than {MAX_WAITS} waits are not read")
        if not self.for_job and all(ctrl or data_waits for ctrl, data_waits in waits):
            raise ValueError("every node waits for another: ASTRA-sim aborts on such a trace")

    def _known_waits(
        self, place: Mapping[int, int], waits: list[tuple[Any, Any]]
    ) -> list[tuple[Any, Any]]:
        """The waits for nodes that are there; ValueError for others, unless they are ignored."""
        missing = [
            (number, whom)
            for number, (ctrl, data) in zip(place, waits, strict=True)
            for whom in (*ctrl, *data)
            if whom not in place
        ]
        if not missing:
            return waits
        if not self.ignores_missing:
            (number, whom), more = missing[0], ""
            if self.for_job:
                more = f" ({len(missing)} such waits: --ignore {MISSING} leaves them out)"
            raise ValueError(f"node {number} waits for {whom}, which this file lacks{more}")
        return [
            ([one for one in ctrl if one in place], [one for one in data if one in place])
            for ctrl, data in waits
        ]

    def _add(self, rank: int, num_ranks: int, node: Any) -> None:
        on_processor = _on_processor(node)
        kind = node.type
        if self.for_job and on_processor and kind == schema.COLL and not _has(node, "comm_type"):
            kind = schema.METADATA  # a record of a call
        if kind not in (*_KNOWN, schema.METADATA if self.for_job else schema.COLL):
            raise ValueError(
                f"type {node.type}: computations, sends, receives, collectives are read"
            )
        if len(node.name) > MAX_NAME:
            raise ValueError(f"a name of more than {MAX_NAME} characters")
        given = _integers(node)
        row = dict.fromkeys(_COLUMNS, -1)
        row |= {"rank": rank, "id": node.id, "kind": kind, "micros": node.duration_micros}
        row |= {name: given.get(name, 0) for name in _WORK} | {_ON_PROCESSOR: int(on_processor)}
        if node.type in (schema.SEND, schema.RECV):
            mine, other = ("comm_src", "comm_dst")[:: 1 if node.type == schema.SEND else -1]
            if given.get(mine, rank) != rank:
                raise ValueError(f"{mine} is {given[mine]}, but this is the trace of rank {rank}")
            row["peer"] = _within(given, other, 0, num_ranks - 1)
            row["size"] = _within(given, "comm_size", 1, _LIMIT)
            row["tag"] = _within(given, "comm_tag", 0, 2**31 - 1)
            if row["peer"] == rank:
                raise ValueError(f"{other} is {rank}, its own rank")
        elif kind == schema.COLL:
            _check_even(node)
            row["comm_type"] = _within(given, "comm_type", 0, len(schema.COMM_TYPES) - 1)
            row["size"] = _within(given, "comm_size", 1, _LIMIT)
        if not (0 <= row["id"] < _LIMIT and 0 <= row["micros"] < _LIMIT):
            raise ValueError("ids and times are below 2^62")
        for name, column in self.columns.items():
            column.append(row[name])
        self.names.append(node.name)
        self.groups.append(_group(node) if kind == schema.COLL else "")

    def graph(self, num_ranks: int) -> EtGraph:
        """What was gathered."""
        columns: dict[str, Any] = {
            name: np.frombuffer(column, dtype=np.int64).astype(_COLUMNS[name])
            for name, column in self.columns.items()
        }
        work = {"num_ops": columns.pop("num_ops"), "num_bytes": columns.pop("tensor_size")}
        lane = columns.pop(_ON_PROCESSOR)
        start = np.concatenate([[0], np.cumsum(np.frombuffer(self.wait_count, dtype=np.int64))])
        return EtGraph(
            num_ranks,
            **columns,
            name=tuple(self.names),
            wait_start=start,
            wait=np.array(self.wait, dtype=np.int64),
            is_data=np.array(self.is_data, dtype=bool),
            group=tuple(self.groups) if any(self.groups) else (),
            **(work if self.for_job else {}),
            lane=lane if self.for_job else None,
        )


_COLUMNS: dict[str, type] = {
    **{"rank": np.int32, "id": np.int64, "kind": np.int8, "peer": np.int32, "tag": np.int64},
    **{"size": np.int64, "comm_type": np.int8, "micros": np.int64},
    **{"num_ops": np.int64, "tensor_size": np.int64, _ON_PROCESSOR: np.int32},
}


def _parsed(kind: Any, frame: bytes | None, what: str) -> Any:
    """A message of a kind; ValueError, naming what it should be, if it is none."""
    from google.protobuf.message import DecodeError

    if frame is None:
        raise ValueError("the file is empty: a trace begins with its head")
    try:
        return kind.FromString(frame)
    except (DecodeError, UnicodeDecodeError):
        raise ValueError(f"{what} is none of Chakra's schema") from None


def _integers(node: Any) -> dict[str, int]:
    """The integers among the attributes that are read, of whatever type they are."""
    given: dict[str, int] = {}
    for attribute in node.attr:
        if attribute.name not in _READ:
            continue
        if attribute.name in given:
            raise ValueError(f"{attribute.name} is given twice")
        field = attribute.WhichOneof("value")
        if attribute.name in _WORK and field in ("float_val", "double_val"):
            value = getattr(attribute, field)
            if not 0 <= value < _LIMIT:
                raise ValueError(f"{attribute.name} is {shown(value)}: from 0 to 2^62")
            given[attribute.name] = int(value)
            continue
        if field not in schema.INTEGER_FIELDS:
            kind = "nothing" if field is None else field.partition("_")[0]
            raise ValueError(f"{attribute.name} is {kind}: ASTRA-sim takes integers only")
        given[attribute.name] = getattr(attribute, field)
    return given


def _check_even(node: Any) -> None:
    """ValueError for a collective of unequal parts, which a size alone does not tell."""
    for attribute in node.attr:
        if "split" in attribute.name.lower():
            field = attribute.WhichOneof("value")
            value = getattr(attribute, field) if field else ""
            text = value if isinstance(value, str) else str(list(getattr(value, "values", [value])))
            if len({part.strip() for part in text.strip("[] ").split(",")}) > 1:
                raise ValueError(
                    f"{attribute.name} is {shown(text)}: unequal parts of a collective are not read"
                )


def _has(node: Any, name: str) -> bool:
    return any(attribute.name == name for attribute in node.attr)


def _on_processor(node: Any) -> bool:
    """Whether a node runs on the processor; what does not say does not."""
    told = [attribute for attribute in node.attr if attribute.name == _ON_PROCESSOR]
    return any(attribute.bool_val for attribute in told)


def _group(node: Any) -> str:
    """The name of the process group of a collective, "" if it has none."""
    named = [attribute for attribute in node.attr if attribute.name == _GROUP]
    if not named:
        return ""
    if len(named) > 1 or named[0].WhichOneof("value") != "string_val":
        raise ValueError(f"{_GROUP} is one text: the name of a process group")
    name: str = named[0].string_val
    if len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(f"{_GROUP} is no line of at most {MAX_NAME} printable characters")
    return name


def _within(given: Mapping[str, int], name: str, least: int, most: int) -> int:
    if name not in given:
        raise ValueError(f"{name} is missing")
    if not least <= given[name] <= most:
        raise ValueError(f"{name} is {shown(given[name])}: it is from {least} to {most}")
    return given[name]


# Execution traces on disk: length-delimited messages, a file ``PREFIX.RANK.et`` for every rank.


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
