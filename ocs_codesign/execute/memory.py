"""Memory: the buffers of one rank while a program runs, and how operations read and write them.

A program runs on Numbers first, where every slot holds the number of its chunk. That tells how many
elements every operation moves when chunks have different sizes, through whatever slots they go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from ocs_codesign.runs import starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.execute.layout import Place
    from ocs_codesign.execute.share import Share

EMPTY, MIXED = -1, -2
"""Numbers of what is in a slot into which nothing came, and of a sum of different chunks."""


class Memory(Protocol):
    """Buffers of a rank: what operations, named by their row in its share, read and write."""

    dtype: np.dtype[Any]

    def room(self, count: int) -> NDArray[Any]:
        """A new buffer for a message of so many chunks."""

    def taken(self, row: int) -> NDArray[Any]:
        """What an operation reads from its source."""

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write ``content`` to an operation's target, or add it; ValueError for another length."""


@final
@dataclass(frozen=True, slots=True)
class _Slots:
    """Where operations read and write: the slots of their ends among those of all buffers."""

    source: list[int]
    target: list[int]
    count: list[int]

    @classmethod
    def of(cls, share: Share) -> _Slots:
        first, columns = starts_of(np.array(share.slots)), share.columns
        source, target = (
            (first[columns[f"{end}_buffer"]] + columns[end]).tolist()
            for end in ("source", "target")
        )
        return cls(source, target, columns["count"].tolist())

    def read(self, row: int) -> slice:
        """What an operation reads."""
        return slice(self.source[row], self.source[row] + self.count[row])

    def written(self, row: int) -> slice:
        """What it writes."""
        return slice(self.target[row], self.target[row] + self.count[row])


def _rows(share: Share, place: Place) -> NDArray[np.int64]:
    """The slots of a place among those of all buffers."""
    return place.slot + sum(share.slots[: place.buffer])


@final
@dataclass(slots=True)
class Numbers:
    """Buffers whose slots hold the numbers of chunks, and what every operation has moved."""

    share: Share
    held: NDArray[np.int64]
    moved: dict[int, NDArray[np.int64]]
    slots: _Slots
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, share: Share) -> Numbers:
        """The buffers before a program runs."""
        held = np.full(sum(share.slots), EMPTY, dtype=np.int64)
        held[_rows(share, share.given)] = share.given.chunk
        return cls(share, held, {}, _Slots.of(share), held.dtype)

    def room(self, count: int) -> NDArray[Any]:
        """A number a chunk."""
        return np.empty(count, dtype=self.dtype)

    def taken(self, row: int) -> NDArray[Any]:
        """The chunks that an operation reads."""
        content = self.held[self.slots.read(row)]
        self.moved[row] = content.copy()
        return content

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write chunks, or add them to what must be the same chunks."""
        target = self.held[self.slots.written(row)]
        if len(content) != len(target):
            raise ValueError(f"{len(content)} chunks came, not {len(target)}")
        self.moved[row] = content.copy()
        target[:] = np.where(target == content, content, MIXED) if adds else content

    def result(self) -> NDArray[np.int64]:
        """The chunks in the slots of the output."""
        return self.held[_rows(self.share, self.share.wanted)]


@final
@dataclass(slots=True)
class Data:
    """Buffers of data: slots of ``width`` elements, of which a chunk fills as many as it has.

    ``sizes`` are the elements of the chunks that every operation moves, None where all are full.
    """

    share: Share
    held: NDArray[Any]
    sizes: dict[int, NDArray[np.int64] | None]
    slots: _Slots
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, share: Share, numbers: Numbers, given: NDArray[Any], rest: NDArray[Any]) -> Data:
        """The buffers with ``given`` as input, chunk after chunk, and ``rest`` elsewhere."""
        width = max(int(share.sizes.max(initial=0)), 1)
        held = np.resize(rest, (sum(share.slots), width))
        elements = np.append(share.sizes, [0, 0])  # of MIXED and EMPTY
        sizes: dict[int, NDArray[np.int64] | None] = {}
        for row, chunks in numbers.moved.items():
            size = elements[chunks]
            sizes[row] = None if (size == width).all() else size
        rows = _rows(share, share.given)
        block = held[rows]
        block[_filled(share.sizes[share.given.chunk], width)] = given
        held[rows] = block
        return cls(share, held, sizes, numbers.slots, held.dtype)

    def room(self, count: int) -> NDArray[Any]:
        """Full slots."""
        return np.empty(count * self.held.shape[1], dtype=self.dtype)

    def taken(self, row: int) -> NDArray[Any]:
        """The elements that an operation reads: of full slots as they stand, else packed."""
        block, sizes = self.held[self.slots.read(row)], self.sizes[row]
        return block.reshape(-1) if sizes is None else block[_filled(sizes, block.shape[1])]

    def put(self, row: int, content: NDArray[Any], *, adds: bool) -> None:
        """Write elements, or add them."""
        block, sizes = self.held[self.slots.written(row)], self.sizes[row]
        expected = block.size if sizes is None else int(sizes.sum())
        if len(content) != expected:
            raise ValueError(
                f"{len(content)} elements came, but {expected} when the program ran before: what "
                "is sent depends on who is first"
            )
        if sizes is not None:
            filled = _filled(sizes, block.shape[1])
            block[filled] = block[filled] + content if adds else content
        elif adds:
            block += content.reshape(block.shape)
        else:
            block[:] = content.reshape(block.shape)

    def result(self) -> NDArray[Any]:
        """The elements of the output, chunk after chunk."""
        block = self.held[_rows(self.share, self.share.wanted)]
        packed: NDArray[Any] = block[
            _filled(self.share.sizes[self.share.wanted.chunk], self.held.shape[1])
        ]
        return packed


def _filled(sizes: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
    """Which elements of slots are of their chunks, shape (slots, width)."""
    filled: NDArray[np.bool_] = np.arange(width) < sizes[:, None]
    return filled


def chunk_of_element(sizes: NDArray[np.int64], element: int) -> tuple[int, int]:
    """The chunk in a row of chunks, and the place in it, of an element of them all.

    >>> chunk_of_element(np.array([2, 0, 3]), 2)
    (2, 0)
    """
    start = starts_of(sizes)
    chunk = int(np.searchsorted(start, element, side="right")) - 1
    return chunk, element - int(start[chunk])
