"""Transfers: what crosses which links of a network, and what each has to wait for, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.network import Network

COPY, ADD, BARRIER, DARK = range(4)
"""What a transfer is: a message that is kept or added, or nothing that is sent: a barrier, or the
time in which ports change their circuits."""

MAX_TRANSFERS = 2**31 - 2


@final
@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Messages over paths of a network, and what they wait for; equally long columns in id order.

    Transfer i carries ``size[i]`` chunks (int64) of ``chunk_bytes`` over the links
    ``path_link[path_start[i] : path_start[i + 1]]`` (int32). It begins when the transfers
    ``wait_for[wait_start[i] : wait_start[i + 1]]`` (int32) have ended and after ``previous[i]``
    (int32, -1 if there is none), the one before it on its pair of ranks and thus on its first link.
    It ends
    ``compute[i]`` ticks (int64) after it has arrived. ``kind`` (int8) is COPY or ADD, or BARRIER
    or DARK for what has no path and takes its ``compute`` alone; ``step`` (int32) is the step it
    was made for. Columns are copied to read-only. Raises ValueError for what is no such thing.

    >>> from ocs_codesign.network import Network
    >>> line = Network(3, 3, [0, 1], [1, 2], [1, 1])
    >>> relay = Transfers(line, 8, [1, 1], [0, 1, 2], [0, 1], [0, 0, 1], [0])
    >>> relay.num_transfers, relay.num_bytes
    (2, Fraction(16, 1))
    """

    network: Network
    chunk_bytes: Fraction
    size: NDArray[np.int64]
    path_start: NDArray[np.int32]
    path_link: NDArray[np.int32]
    wait_start: NDArray[np.int32]
    wait_for: NDArray[np.int32]
    previous: NDArray[np.int32]
    compute: NDArray[np.int64]
    kind: NDArray[np.int8]
    step: NDArray[np.int32]

    def __init__(
        self,
        network: Network,
        chunk_bytes: Fraction | int,
        size: ArrayLike,
        path_start: ArrayLike,
        path_link: ArrayLike,
        wait_start: ArrayLike,
        wait_for: ArrayLike,
        previous: ArrayLike | None = None,
        compute: ArrayLike | None = None,
        kind: ArrayLike | None = None,
        step: ArrayLike | None = None,
    ) -> None:
        if chunk_bytes < 0:
            raise ValueError(f"chunk_bytes is {chunk_bytes}: it cannot be negative")
        num = np.size(size)
        if num > MAX_TRANSFERS:
            raise ValueError(f"{num} transfers: at most {MAX_TRANSFERS} are supported")
        columns: dict[str, tuple[ArrayLike, type, int]] = {
            "size": (size, np.int64, num),
            "path_start": (path_start, np.int32, num + 1),
            "path_link": (path_link, np.int32, np.size(path_link)),
            "wait_start": (wait_start, np.int32, num + 1),
            "wait_for": (wait_for, np.int32, np.size(wait_for)),
            "previous": (np.full(num, -1) if previous is None else previous, np.int32, num),
            "compute": (np.zeros(num, np.int8) if compute is None else compute, np.int64, num),
            "kind": (np.zeros(num, np.int8) if kind is None else kind, np.int8, num),
            "step": (np.ones(num, np.int8) if step is None else step, np.int32, num),
        }
        object.__setattr__(self, "network", network)
        object.__setattr__(self, "chunk_bytes", Fraction(chunk_bytes))
        for name, (values, dtype, length) in columns.items():
            object.__setattr__(self, name, _column(values, name, dtype, length))
        _check(self)

    def __repr__(self) -> str:
        return f"Transfers({self.num_transfers} of {self.num_steps} steps on {self.network!r})"

    @property
    def num_transfers(self) -> int:
        """How many there are, barriers and changes of circuits included."""
        return len(self.size)

    @property
    def num_steps(self) -> int:
        """The last step that any was made for."""
        return int(self.step.max(initial=0))

    @property
    def num_bytes(self) -> Fraction:
        """Bytes of all messages, each counted once however long its path is."""
        return self.chunk_bytes * int(self.size.sum())

    def with_chunk_bytes(self, chunk_bytes: Fraction | int) -> Transfers:
        """The same transfers of a message of another size."""
        columns = (getattr(self, field.name) for field in fields(self)[2:])
        return Transfers(self.network, chunk_bytes, *columns)


def _column(values: ArrayLike, name: str, dtype: type, length: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (length,) or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be {length} whole numbers")
    limits = np.iinfo(dtype)
    if array.size and not (limits.min <= array.min() and array.max() <= limits.max):
        raise ValueError(f"{name} must hold numbers from {limits.min} to {limits.max}")
    is_ours = array.dtype == dtype and not array.flags.writeable
    column = array if is_ours else array.astype(dtype)
    column.setflags(write=False)
    return column


def _check(transfers: Transfers) -> None:
    """ValueError with the first transfer that breaks a rule."""
    network, num = transfers.network, transfers.num_transfers
    for start, entries, limit, what in (
        (transfers.path_start, transfers.path_link, network.num_links, "links"),
        (transfers.wait_start, transfers.wait_for, num, "transfers waited for"),
    ):
        if start[0] != 0 or start[-1] != len(entries) or (start[1:] < start[:-1]).any():
            raise ValueError("every link of a path and every wait is of one transfer, in order")
        if len(entries) and not (entries.min() >= 0 and entries.max() < limit):
            raise ValueError(f"{what} are from 0 to {limit - 1}")
    for broken, rule in _broken_rules(transfers):
        if broken.any():
            raise ValueError(f"transfer {int(broken.argmax())}: {rule}")
    _check_chains(transfers)
    _check_paths(transfers)


def _broken_rules(transfers: Transfers) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """Which transfers break each rule, one rule after the other to save memory."""
    num, kind, previous = transfers.num_transfers, transfers.kind, transfers.previous
    yield transfers.size < 0, "a size is at least 0"
    yield transfers.compute < 0, "compute is at least 0 ticks"
    yield (kind < COPY) | (kind > DARK), "kinds are 0 to 3"
    has_path = transfers.path_start[1:] > transfers.path_start[:-1]
    yield has_path != (kind <= ADD), "what is sent has a path, and nothing else has"
    yield (previous < -1) | (previous >= num), "previous is a transfer or -1"
    yield previous == np.arange(num, dtype=np.int32), "no transfer is before itself"
    yield transfers.step < 0, "steps count from 1"


def _check_chains(transfers: Transfers) -> None:
    """What follows on a pair follows one transfer alone, which begins on the same link."""
    chained = np.flatnonzero(transfers.previous >= 0).astype(np.int32)
    before = transfers.previous[chained]
    apart = np.zeros(len(chained), dtype=bool)
    links, start = transfers.path_link, transfers.path_start
    if len(links):
        first = np.minimum(start[:-1], len(links) - 1)
        apart = links[first[chained]] != links[first[before]]
        apart |= (start[before] == start[before + 1]) | (start[chained] == start[chained + 1])
    else:
        apart[:] = True
    if apart.any():
        raise ValueError(
            f"transfer {chained[apart.argmax()]}: its previous one begins on another link"
        )
    is_followed = np.zeros(transfers.num_transfers, dtype=bool)
    is_followed[before] = True
    if is_followed.sum() < len(before):
        twice = int(np.bincount(before).argmax())
        raise ValueError(f"transfer {twice} is the previous one of several")


def _check_paths(transfers: Transfers) -> None:
    network, links, start = transfers.network, transfers.path_link, transfers.path_start
    inner = np.ones(len(links) + 1, dtype=bool)
    inner[start] = False
    at = np.flatnonzero(inner[:-1])
    broken = at[network.head[links[at - 1]] != network.tail[links[at]]]
    if len(broken):
        owner = int(np.searchsorted(start, broken[0], side="right")) - 1
        raise ValueError(f"transfer {owner}: its path is not end to end")
