"""MSCCL XML read with a streaming parser that admits no entities, into what the file says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from ocs_codesign.files.limited import read_limited
from ocs_codesign.files.naming import shown
from ocs_codesign.formats.programs.msccl_algo import (
    BUFFERS,
    PROTOCOLS,
    RECEIVING,
    SENDING,
    TYPES,
    MscclAlgorithm,
    MscclGpu,
    MscclStep,
    ThreadBlock,
)

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 2**28
MAX_STEPS = 1_000_000
_INSIDE = {"": "algo", "algo": "gpu", "gpu": "tb", "tb": "step", "step": ""}
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MAX_VALUE = 2**31 - 1


def read_algorithm(path: Path) -> MscclAlgorithm:
    """What an MSCCL file says; OSError if it cannot be read, ValueError as of ``parsed``."""
    return parsed(read_limited(path, MAX_FILE_BYTES), str(path))


def parsed(data: bytes, name: str) -> MscclAlgorithm:
    """What the content of an MSCCL file says.

    Raises ValueError with the file, the gpu, the tb and the step for what is no MSCCL XML, also
    for a document type or entities.
    """
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
        return reader.algorithm()
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "unreadable")
        raise ValueError(f"{name}, line {error.lineno}: this is not XML ({reason})") from None
    except ValueError as error:
        raise ValueError(f"{name}{reader.place()}: {error}") from None
    except LookupError as error:  # the declared encoding
        raise ValueError(f"{name}, line 1: {error}") from None


class _Reader:
    """What has been read so far, filled by the calls of the parser."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate()
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartDoctypeDeclHandler = self._doctype
        self.open = [""]
        self.head: dict[str, str] = {}
        self.gpus: dict[int, MscclGpu] = {}
        self.gpu = -1
        self.chunks = (0, 0, 0)
        self.blocks: dict[int, ThreadBlock] = {}
        self.block = -1
        self.served: set[tuple[str, int, int]] = set()
        self.ends = (-1, -1, 0)
        self.steps: list[MscclStep] = []
        self.num_steps = 0
        self.within = 0

    def place(self) -> str:
        """Where the reader is, for errors."""
        numbers = (self.gpu, self.block, len(self.steps))
        places = zip(("gpu", "tb", "step"), numbers, strict=True)
        return "".join(f", {word} {number}" for word, number in list(places)[: self.within])

    def algorithm(self) -> MscclAlgorithm:
        """All that was read, once the file has ended."""
        self.within = 0
        head = self.head
        channels, gpus = self._integer(head, "nchannels", 1), self._integer(head, "ngpus", 1)
        if len(self.gpus) != gpus or max(self.gpus) != gpus - 1:
            raise ValueError(f"ngpus is {gpus}, but there are {len(self.gpus)} gpus: ids count on")
        proto = self._text(head, "proto")
        if proto not in PROTOCOLS:
            raise ValueError(f"proto is {shown(proto)}: it must be one of {', '.join(PROTOCOLS)}")
        in_place = self._flag(head, "inplace", "0")
        made = MscclAlgorithm(
            self._text(head, "name"),
            proto,
            self._integer(head, "nchunksperloop", 1),
            self._text(head, "coll"),
            in_place,
            self._flag(head, "outofplace", "0" if in_place else "1"),
            self._integer({"minBytes": "0", **head}, "minBytes", 0, 2**63 - 1),
            self._integer({"maxBytes": str(2**27), **head}, "maxBytes", 0, 2**63 - 1),
            tuple(self.gpus[number] for number in range(gpus)),
        )
        if made.num_channels > channels:
            raise ValueError(
                f"nchannels is {channels}, but channel {made.num_channels - 1} is used"
            )
        return made

    def _doctype(self, *_: Any) -> None:
        raise ValueError("a document type, and with it any entity, is refused")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        expected = _INSIDE[self.open[-1]]
        if tag != expected or (tag == "algo" and self.head):
            inside = f"in a {self.open[-1]}" if self.open[-1] else "at the top"
            raise ValueError(
                f"a {shown(tag)} {inside}: "
                + (f"a {expected} is meant to be there" if expected else "a step holds nothing")
            )
        self.open.append(tag)
        match tag:
            case "algo":
                self.head = attributes
            case "gpu":
                self._start_gpu(attributes)
            case "tb":
                self._start_block(attributes)
            case _:
                self._start_step(attributes)

    def _end(self, tag: str) -> None:
        self.open.pop()
        if tag == "gpu":
            if set(self.blocks) != set(range(len(self.blocks))):
                raise ValueError("the ids of its threadblocks have gaps: they count from 0")
            blocks = tuple(self.blocks[number] for number in range(len(self.blocks)))
            self.gpus[self.gpu] = MscclGpu(self.chunks, blocks)
            self.within = 0
        elif tag == "tb":
            self.blocks[self.block] = ThreadBlock(*self.ends, tuple(self.steps))
            self.within = 1
        elif tag == "step":
            self.within = 2

    def _start_gpu(self, attributes: dict[str, str]) -> None:
        self.gpu = self._integer(attributes, "id", 0)
        self.within, self.blocks, self.served = 1, {}, set()
        if self.gpu in self.gpus:
            raise ValueError("a second gpu has this id")
        names = ("i_chunks", "o_chunks", "s_chunks")
        chunks = [self._integer(attributes, name, 0) for name in names]
        self.chunks = (chunks[0], chunks[1], chunks[2])

    def _start_block(self, attributes: dict[str, str]) -> None:
        self.block = self._integer(attributes, "id", 0)
        self.within, self.steps = 2, []
        if self.block in self.blocks:
            raise ValueError("a second tb of this gpu has this id")
        gpus = self._integer(self.head, "ngpus", 1)
        send, recv = (self._integer(attributes, name, -1) for name in ("send", "recv"))
        for name, peer in (("send", send), ("recv", recv)):
            if peer == self.gpu or peer >= gpus:
                raise ValueError(f"{name} is {peer}: it must be another gpu, of {gpus}, or -1")
        self.ends = (send, recv, self._integer(attributes, "chan", 0))
        for name, peer in (("send", send), ("recv", recv)):
            end = name, peer, self.ends[2]
            if peer >= 0 and end in self.served:
                raise ValueError(f"a second tb has {name} {peer} on channel {self.ends[2]}")
            self.served.add(end)

    def _start_step(self, attributes: dict[str, str]) -> None:
        self.within = 3
        self.num_steps += 1
        if self.num_steps > MAX_STEPS:
            raise ValueError(f"more than {MAX_STEPS} steps in a file are not read")
        number = self._integer(attributes, "s", 0)
        if number != len(self.steps):
            raise ValueError(f"s is {number}: the steps of a tb count from 0 without gaps")
        kind = self._text(attributes, "type")
        if kind == "ra":
            raise ValueError("type is ra: it adds tensors from outside of the collective")
        if kind not in TYPES:
            raise ValueError(f"type is {shown(kind)}: it must be one of {', '.join(TYPES)}")
        for name, types, peer in (
            ("send", SENDING, self.ends[0]),
            ("recv", RECEIVING, self.ends[1]),
        ):
            if kind in types and peer < 0:
                raise ValueError(f"type is {kind}, but the tb has no {name} peer")
        places = [self._place(attributes, end) for end in ("src", "dst")]
        count = self._integer(attributes, "cnt", 0)
        wait = [self._integer(attributes, name, -1) for name in ("depid", "deps")]
        flag = int(self._flag(attributes, "hasdep"))
        step = self._integer({"step": "0", **attributes}, "step", 0)
        self.steps.append(
            MscclStep(kind, *places[0], *places[1], count, wait[0], wait[1], flag, step)
        )

    def _place(self, attributes: dict[str, str], end: str) -> tuple[str, int]:
        buffer = self._text(attributes, f"{end}buf")
        if buffer not in tuple(BUFFERS):
            raise ValueError(f"{end}buf is {shown(buffer)}: it must be i, o or s")
        return buffer, self._integer(attributes, f"{end}off", -1)

    def _text(self, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise ValueError(f"there is no {name}")
        return attributes[name]

    def _flag(self, attributes: dict[str, str], name: str, default: str | None = None) -> bool:
        text = (
            attributes.get(name, default) if default is not None else self._text(attributes, name)
        )
        if text not in ("0", "1"):
            raise ValueError(f"{name} is {shown(text)}: it must be 0 or 1")
        return text == "1"

    def _integer(
        self, attributes: dict[str, str], name: str, least: int, most: int = _MAX_VALUE
    ) -> int:
        text = self._text(attributes, name)
        if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(f"{name} is {shown(text)}: it must be an integer of at least {least}")
        return int(text)
