"""Transfers: what crosses which links of a network, and what each has to wait for, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.network import MAX_LATENCY
from ocs_codesign.core.quantities import exact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.network import Network


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

    >>> from ocs_codesign.core.network import Network
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


# TimingRules: what a message costs on the links and at the nodes of a network, in whole ticks.


FINE_TICK_S = Fraction(1, 10**14)
"""What a byte takes is many of these."""


def with_fine_ticks(network: Network) -> Network:
    """The network with ticks so fine that cutting off what is less does not matter."""
    factor = ceil(network.tick_s / FINE_TICK_S)
    factor = max(1, min(factor, MAX_LATENCY // max(1, int(network.latency.max(initial=0)))))
    return network.changed(latency=network.latency * factor, tick_s=network.tick_s / factor)


MEMORY_ACCESSES = 3
"""A byte that is added is read twice and written once."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRules:
    """How long what takes; a unit of the network's bandwidth is ``unit_Bps`` bytes a second.

    A message of S bytes that begins at tick t on a link of latency a and rate r (bytes a tick)
    leaves it free at t + floor(S / r) and has arrived at t + floor(a + S / r). With ``blocking``
    the link is free when the message has arrived. The next of a pair of ranks waits until the one
    before has arrived, or, if ``pipelined``, only queues behind it. On a path of many links a
    message goes on when it has come whole, or, if ``cut_through``, as soon as its head has.
    ``in_doubles`` computes S / r in doubles, as ASTRA-sim does; if it ``rounds_up``, a part of a
    tick is all of it, so that nothing is faster than its links. A send and a receive each take the
    processor of their node ``overhead_ticks``; all ports of a node together inject
    ``injection_Bps``; a byte that is added takes MEMORY_ACCESSES at ``memory_Bps``; None is no
    limit. Raises ValueError for rates that are not positive and a negative overhead.
    """

    unit_Bps: Fraction | int  # noqa: N815 - units keep their case
    blocking: bool = False
    pipelined: bool = False
    cut_through: bool = False
    in_doubles: bool = False
    rounds_up: bool = False
    overhead_ticks: int = 0
    injection_Bps: Fraction | None = None  # noqa: N815
    memory_Bps: Fraction | None = None  # noqa: N815

    def __post_init__(self) -> None:
        for name in ("unit_Bps", "injection_Bps", "memory_Bps"):
            rate = getattr(self, name)
            if rate is not None and exact(rate, name) <= 0:
                raise ValueError(f"{name} is {rate}: it must be positive")
            object.__setattr__(self, name, None if rate is None else exact(rate, name))
        if self.overhead_ticks < 0:
            raise ValueError(f"overhead_ticks is {self.overhead_ticks}: it cannot be negative")

    @property
    def is_free_at_ends(self) -> bool:
        """Whether sending and receiving cost the nodes nothing."""
        return not self.overhead_ticks and self.injection_Bps is None and self.memory_Bps is None

    def link_ticks(
        self, network: Network, chunk_bytes: Fraction, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """Ticks of every size on every class of links until they are free, and until arrival.

        Both have the shape (sizes, classes); the third is the class of every link. Raises
        ValueError for ticks beyond 62 bits.
        """
        alike = np.stack([network.bandwidth, network.latency], axis=1)
        classes, of_link = np.unique(alike, axis=0, return_inverse=True)
        shape = len(sizes), len(classes)
        busy, flight = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for at, (bandwidth, latency) in enumerate(classes.tolist()):
            rate = bandwidth * self.unit_Bps * network.tick_s
            busy[:, at] = self._ticks(sizes, chunk_bytes, rate)
            # The sum is truncated once: in doubles it can round up where the parts do not.
            flight[:, at] = (
                self._ticks(sizes, chunk_bytes, rate, latency)
                if self.in_doubles
                else busy[:, at] + latency
            )
        return busy, flight, of_link.astype(np.int32).ravel()

    def node_ticks(
        self, transfers: Transfers, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ticks of every size at the ports of its sender, and in the memory of who adds it."""
        found = []
        for rate, accesses in ((self.injection_Bps, 1), (self.memory_Bps, MEMORY_ACCESSES)):
            if rate is None:
                found.append(np.zeros(len(sizes), dtype=np.int64))
            else:
                each = transfers.network.tick_s * rate / accesses
                found.append(self._ticks(sizes, transfers.chunk_bytes, each))
        return found[0], found[1]

    def _ticks(
        self, sizes: NDArray[np.int64], chunk_bytes: Fraction, rate: Fraction, latency: int = 0
    ) -> NDArray[np.int64]:
        """latency + size / rate of every size in chunks, in whole ticks; a rate is bytes a tick."""
        if self.in_doubles:
            each = [
                int(latency + float(size * chunk_bytes) / float(rate)) for size in sizes.tolist()
            ]
        else:
            a_chunk = chunk_bytes / rate
            over, under = a_chunk.numerator, a_chunk.denominator
            more = under - 1 if self.rounds_up else 0
            each = [latency + (size * over + more) // under for size in sizes.tolist()]
        if max(each, default=0) >= 2**62:
            raise ValueError(f"a message takes {max(each)} ticks of a link: at most 2^62 count")
        return np.array(each, dtype=np.int64)
