"""NCCL's graph file: in which order rings visit the GPUs of one node.

NCCL reads it from ``NCCL_GRAPH_FILE``, a file a node, and takes what it does not understand for
something else: the reader here refuses that instead. Graphs that are not in the file are searched
by NCCL as usual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, final
from xml.parsers import expat

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.schedule import Messages
from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import places
from ocs_codesign.interop.registry import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Plan
    from ocs_codesign.interop.registry import Contents, Export


# The rings of a plan: Hamiltonian cycles along which every chunk of it goes round.


RINGED = ("allgather", "reduce-scatter", "allreduce")
"""Collectives that a ring does."""

MAX_PLACES = 2**26


def rings_of(plan: Plan) -> list[list[int]]:
    """Rings, each as ranks from 0 on, that split all data evenly, in ascending order.

    A ring that takes twice as much as another is there twice. Raises ValueError, with what is in
    the way, unless every chunk of the plan goes from rank to rank along one cycle of all of them,
    and every shard is split over the cycles alike.
    """
    name = plan.collective.name
    chunk: NDArray[Any]
    if name not in RINGED or plan.collective.groups is not None:
        raise ValueError(f"{plan.collective.text}: rings do {', '.join(RINGED)} of all ranks")
    if isinstance(plan, Messages):
        ranks, parts = plan.num_ranks, plan.num_items
        shards = 1 if name == "allreduce" else ranks
        chunk, source, target = plan.item, plan.source, plan.target
    else:
        ranks, parts = plan.num_hosts, plan.num_hosts * plan.num_chunks
        shards = ranks
        if ranks < plan.topology.num_nodes:
            raise ValueError("the plan names switches: a ring is of ranks alone")
        if plan.collective.sizes is not None:
            raise ValueError("shards of unequal sizes: a ring has equal ones")
        count = plan.hi.astype(np.int64) - plan.lo
        send, chunk = places(plan.item.astype(np.int64) * plan.num_chunks + plan.lo, count)
        links = plan.link[send]
        source, target = plan.topology.tail[links], plan.topology.head[links]
    if ranks < 2 or parts * ranks > MAX_PLACES:
        raise ValueError(f"{ranks} ranks, {parts} chunks: rings are sought of 2 ranks and more")
    cycles = _cycles(_followers(ranks, parts, chunk, source, target))
    different, number = np.unique(cycles, axis=0, return_inverse=True)
    shares = np.zeros((shards, len(different)), dtype=np.int64)
    np.add.at(shares, (np.arange(parts) // (parts // shards), number.ravel()), 1)
    if (shares != shares[0]).any():
        shard = int((shares != shares[0]).any(axis=1).argmax())
        raise ValueError(f"shard {shard} is split over the rings otherwise than shard 0")
    unit = gcd(*shares[0].tolist())
    return [
        ring
        for ring, times in zip(different.tolist(), (shares[0] // unit).tolist(), strict=True)
        for _ in range(times)
    ]


def _followers(
    ranks: int,
    parts: int,
    chunk: NDArray[Any],
    source: NDArray[np.int32],
    target: NDArray[np.int32],
) -> NDArray[np.int32]:
    """To which rank each rank passes every chunk, shape (chunks, ranks); -1 if to nobody."""
    following = np.full((parts, ranks), -1, dtype=np.int32)
    following[chunk, source] = target
    branches = following[chunk, source] != target
    if branches.any():
        row = int(branches.argmax())
        raise ValueError(
            f"this is no ring: rank {source[row]} sends the same chunk to {target[row]} and to "
            f"{following[chunk[row], source[row]]}"
        )
    open_ends = (following < 0).sum(axis=1)
    if (open_ends > 1).any():
        part = int((open_ends > 1).argmax())
        idle = np.flatnonzero(following[part] < 0)[:2].tolist()
        raise ValueError(
            f"this is no ring: neither rank {idle[0]} nor {idle[1]} passes on chunk {part}, but a "
            "ring has one last rank"
        )
    return following


def _cycles(following: NDArray[np.int32]) -> NDArray[np.int32]:
    """The order in which every chunk's ring visits ranks, from 0 on, shape (chunks, ranks)."""
    parts, ranks = following.shape
    own = np.arange(parts)
    open_part = np.flatnonzero((following < 0).any(axis=1))
    reached = np.zeros((parts, ranks + 1), dtype=bool)
    reached[own[:, np.newaxis], following] = True  # -1 marks the extra place
    last = (following[open_part] < 0).argmax(axis=1)
    following = following.copy()
    following[open_part, last] = (~reached[open_part, :ranks]).argmax(axis=1)
    cycle = np.zeros((parts, ranks), dtype=np.int32)
    for hop in range(1, ranks):
        cycle[:, hop] = following[own, cycle[:, hop - 1]]
    whole = np.sort(cycle, axis=1) == np.arange(ranks)
    if not whole.all():
        part = int((~whole.all(axis=1)).argmax())
        raise ValueError(
            f"this is no ring: chunk {part} goes round over "
            f"{len(np.unique(cycle[part]))} of {ranks} ranks"
        )
    return cycle


MAX_GRAPH_BYTES = 2**20
MAX_CHANNELS = 32
MAX_GPUS = 256
SPEED = 20
"""GB/s of a channel."""
TYPES = ("LOC", "NVL", "NVB", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""Ways between two devices, as NCCL calls them."""

RING_ID, RING_PATTERN = 0, 4
_PATTERNS = {0: (4,), 1: (1, 2, 3), 2: (1, 2, 3, 4), 3: (1, 2, 3, 4, 5), 4: (1, 2, 3, 4, 5)}
_GRAPH = (
    *("id", "pattern", "crossnic", "nchannels", "speedintra", "speedinter"),
    *("latencyinter", "typeintra", "typeinter", "samechannels"),
)
_OPTIONAL = ("latencyinter",)
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_WHOLE = re.compile(r"[0-9]{1,6}")
_DEVICE = re.compile(r"0x[0-9a-fA-F]{1,6}|0")


@final
@dataclass(frozen=True, slots=True)
class _GpuOrder:
    """A graph of the file: its ``graph_id`` and ``pattern``, and of every channel its ranks."""

    graph_id: int
    pattern: int
    channels: tuple[tuple[int, ...], ...]
    devices: Mapping[int, int]


def write_graph_file(export: Export) -> Contents:
    """``graph.xml`` of the rings of a plan, whose ranks are the GPUs of one node, by number.

    Raises ValueError for a plan that is no ring, and for more rings than NCCL has channels.
    """
    return {"graph.xml": graph_text(rings_of(export.plan)).encode()}


def graph_text(rings: Sequence[Sequence[int]], *, speed: int = SPEED, way: str = "NVL") -> str:
    """The graph file of rings, at a ``speed`` in GB/s of every channel, over ways of a type.

    >>> graph_text([[0, 1]]).splitlines()[3]
    '      <gpu dev="0x0" rank="0"/>'
    """
    if not 1 <= len(rings) <= MAX_CHANNELS:
        raise ValueError(f"{len(rings)} rings: NCCL has from 1 to {MAX_CHANNELS} channels")
    if way not in TYPES:
        raise ValueError(f"a way is one of {', '.join(TYPES)}, not {shown(way)}")
    lines = [
        '<graphs version="1">',
        f'  <graph id="{RING_ID}" pattern="{RING_PATTERN}" crossnic="0" nchannels="{len(rings)}" '
        f'speedintra="{speed}" speedinter="{speed}" latencyinter="0" typeintra="{way}" '
        'typeinter="PIX" samechannels="1">',
    ]
    for ring in rings:
        gpus = (f'      <gpu dev="{rank:#x}" rank="{rank}"/>' for rank in ring)
        lines += ["    <channel>", *gpus, "    </channel>"]
    return "\n".join([*lines, "  </graph>", "</graphs>\n"])


def checked_graph_file(path: Path) -> CheckedFile:
    """The graphs of a file in numbers.

    Raises OSError if it cannot be read and ValueError as ``parse_graph_file`` does.
    """
    graphs = parse_graph_file(read_limited(path, MAX_GRAPH_BYTES), str(path))
    facts = [("graphs", len(graphs)), ("GPUs", max(len(each.devices) for each in graphs))]
    facts += [(f"channels of graph {each.graph_id}", len(each.channels)) for each in graphs]
    return CheckedFile(tuple(facts), "a graph file orders GPUs, and has no schedule")


def parse_graph_file(data: bytes, name: str) -> tuple[_GpuOrder, ...]:
    """The graphs of a content.

    Raises ValueError, with the name, the line and the rule, for what NCCL would refuse, and for
    what it would take for something else: numbers of channels that are not there, ranks twice or
    missing in a channel, unknown types, attributes and patterns.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
        reader.finish()
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        raise ValueError(f"{name}, line {error.lineno}: this is not XML ({reason})") from None
    except LookupError as error:  # the declared encoding
        raise ValueError(f"{name}, line 1: {error}") from None
    except ValueError as error:
        line = reader.parser.CurrentLineNumber
        raise ValueError(f"{name}, line {line}: {error}") from None
    return tuple(reader.graphs)


class _Reader:
    """What has been read so far, filled by the calls of the parser."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        self.graphs: list[_GpuOrder] = []
        self.open: list[str] = []
        self.given: dict[str, str] = {}
        self.channels: list[list[int]] = []
        self.devices: dict[int, int] = {}
        self.ended_in_net = False

    def _doctype(self, *_: Any) -> None:
        raise ValueError("a document type, and with it any entity, is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self.open[-1] if self.open else ""
        self.open.append(tag)
        match parent, tag:
            case "", "graphs":
                _check(attributes, ("version",))
                if attributes["version"] != "1":
                    raise ValueError(f"version is {shown(attributes['version'])}: NCCL reads 1")
            case "graphs", "graph":
                _check_graph(attributes)
                self.given, self.channels, self.devices = attributes, [], {}
            case "graph", "channel":
                _check(attributes, ())
                self.channels.append([])
                self.ended_in_net = False
            case "channel", "net":
                _check(attributes, ("dev",))
                # A network card stands before the first GPU, or after the last.
                self.ended_in_net = bool(self.channels[-1])
            case "channel", "gpu":
                _check(attributes, ("dev", "rank"), ("rank",))
                self._add_gpu(attributes)
            case _:
                raise ValueError(f"a {shown(tag)} in a {shown(parent or 'document')} is unknown")

    def _add_gpu(self, attributes: dict[str, str]) -> None:
        channel = self.channels[-1]
        # Without a rank, as NCCL dumps them, a GPU is told by its device.
        device, rank = attributes["dev"], attributes.get("rank")
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"dev is {shown(device)}: it is hexadecimal, write 0x first")
        if rank is not None and not _WHOLE.fullmatch(rank):
            raise ValueError(f"rank is {shown(rank)}: it is a whole number")
        number = int(device, 16) if rank is None else int(rank)
        if number in channel:
            raise ValueError(f"rank {number} is in a channel twice")
        if self.devices.setdefault(number, int(device, 16)) != int(device, 16):
            raise ValueError(f"rank {number} is another device in another channel")
        if self.ended_in_net:
            raise ValueError("a net between GPUs: it stands before the first or after the last")
        if len(channel) >= MAX_GPUS:
            raise ValueError(f"more than {MAX_GPUS} GPUs in a channel")
        channel.append(number)

    def _end(self, tag: str) -> None:
        self.open.pop()
        if tag == "graph":
            self._end_graph()

    def _end_graph(self) -> None:
        number, pattern = int(self.given["id"]), int(self.given["pattern"])
        if any(graph.graph_id == number for graph in self.graphs):
            raise ValueError(f"two graphs have the id {number}: NCCL takes the first")
        told = int(self.given["nchannels"])
        if told != len(self.channels):
            raise ValueError(f"nchannels is {told}, but there are {len(self.channels)} channels")
        for channel in self.channels:
            if sorted(channel) != sorted(self.channels[0]):
                raise ValueError("all channels of a graph visit the same GPUs")
        if len(set(self.devices.values())) < len(self.devices):
            raise ValueError("two ranks are one device")
        if told and not self.channels[0]:
            raise ValueError(f"graph {number} has no channel with a GPU")
        channels = tuple(map(tuple, self.channels))
        self.graphs.append(_GpuOrder(number, pattern, channels, self.devices))

    def finish(self) -> None:
        """ValueError if there was no graph."""
        if not self.graphs:
            raise ValueError("there is no graph")


def _check(
    attributes: Mapping[str, str], names: Sequence[str], optional: Sequence[str] = ()
) -> None:
    """ValueError unless these attributes are there, and no others."""
    for name in attributes:
        if name not in names:
            raise ValueError(f"the attribute {shown(name)} is unknown")
    for name in names:
        if name not in attributes and name not in optional:
            raise ValueError(f"{name} is missing")


def _check_graph(attributes: Mapping[str, str]) -> None:
    _check(attributes, _GRAPH, _OPTIONAL)
    for name, value in attributes.items():
        if name in ("typeintra", "typeinter"):
            if value not in TYPES:
                raise ValueError(f"{name} is {shown(value)}: it is one of {', '.join(TYPES)}")
        elif not (_NUMBER if name.startswith(("speed", "latency")) else _WHOLE).fullmatch(value):
            raise ValueError(f"{name} is {shown(value)}: it is a number")
        elif name.startswith("speed") and float(value) == 0:
            raise ValueError(f"{name} is 0: NCCL would not use it")
    number, pattern = int(attributes["id"]), int(attributes["pattern"])
    if number not in _PATTERNS:
        raise ValueError(f"id is {number}: it is from 0 (ring) to 4 (collnet direct)")
    if pattern not in _PATTERNS[number]:
        told = ", ".join(map(str, _PATTERNS[number]))
        raise ValueError(f"pattern is {pattern}: of graph {number} it is {told}")
    if int(attributes["nchannels"]) > MAX_CHANNELS:
        raise ValueError(f"nchannels is {attributes['nchannels']}: from 0 to {MAX_CHANNELS}")
    for name in ("crossnic", "samechannels"):
        if int(attributes[name]) > (2 if name == "crossnic" else 1):
            raise ValueError(f"{name} is {attributes[name]}: it is 0 or 1")
