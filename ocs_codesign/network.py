"""Network: hosts, switches and the links that messages physically cross, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.shown import Tabular
from ocs_codesign.topology import MAX_LINKS, Topology

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import ArrayLike, NDArray

MAX_BANDWIDTH = 2**40
MAX_LATENCY = 2**40
NANOSECOND = Fraction(1, 10**9)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Network(Tabular):
    """A directed multigraph of hosts 0 to ``num_hosts`` - 1 and the switches that follow them.

    Link i leads from ``tail[i]`` to ``head[i]`` (int32); its position is its id. ``bandwidth``
    (int64, positive) is in ``unit``, such as "Gbps"; "" is any common one. ``latency`` (int64) is
    in ticks of ``tick_s`` seconds. ``dimension`` (int32) says which level or axis a link is of,
    None if none does. A switch forwards; ``multicast`` and ``aggregate`` (bool, nodes) say which
    also send copies of what they get, or add it up. ``names`` has one a node, or is None. Arrays
    are copied to read-only. Where links are known by the ticks that a chunk occupies them,
    ``chunk_ticks`` (int64) has these, else it is None; bandwidths are in inverse proportion then.
    Raises ValueError for values out of range or of unequal length.

    >>> star = Network(2, 3, [0, 1, 2, 2], [2, 2, 0, 1], [10, 10, 10, 10], unit="Gbps")
    >>> star, star.is_switch(2), star.host_bandwidth()
    (Network(2 hosts, 1 switches, 4 links), True, 10)
    """

    num_hosts: int
    num_nodes: int
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    bandwidth: NDArray[np.int64]
    latency: NDArray[np.int64]
    dimension: NDArray[np.int32] | None
    multicast: NDArray[np.bool_]
    aggregate: NDArray[np.bool_]
    unit: str
    tick_s: Fraction
    names: tuple[str, ...] | None
    chunk_ticks: NDArray[np.int64] | None

    def __init__(
        self,
        num_hosts: int,
        num_nodes: int,
        tail: ArrayLike,
        head: ArrayLike,
        bandwidth: ArrayLike,
        latency: ArrayLike | None = None,
        dimension: ArrayLike | None = None,
        *,
        multicast: Collection[int] = (),
        aggregate: Collection[int] = (),
        unit: str = "",
        tick_s: Fraction = NANOSECOND,
        names: Sequence[str] | None = None,
        chunk_ticks: ArrayLike | None = None,
    ) -> None:
        if not 1 <= num_hosts <= num_nodes < 2**31:
            raise ValueError(f"{num_hosts} hosts among {num_nodes} nodes: hosts are nodes")
        if tick_s <= 0:
            raise ValueError(f"tick_s is {tick_s}: a tick takes some time")
        for name, number in (("num_hosts", num_hosts), ("num_nodes", num_nodes)):
            object.__setattr__(self, name, int(number))
        ends = [
            _integers(tail, "tail", 0, num_nodes - 1),
            _integers(head, "head", 0, num_nodes - 1),
        ]
        links = len(ends[0])
        columns: dict[str, NDArray[Any]] = {
            "tail": ends[0].astype(np.int32),
            "head": ends[1].astype(np.int32),
            "bandwidth": _integers(bandwidth, "bandwidth", 1, MAX_BANDWIDTH),
            "latency": _integers(
                np.zeros(links, np.int64) if latency is None else latency, "latency", 0, MAX_LATENCY
            ),
        }
        if dimension is not None:
            columns["dimension"] = _integers(dimension, "dimension", 0, 1023).astype(np.int32)
        if chunk_ticks is not None:
            columns["chunk_ticks"] = _integers(chunk_ticks, "chunk_ticks", 1, MAX_LATENCY)
        if len({len(column) for column in columns.values()}) > 1:
            raise ValueError("every link has a tail, a head, a bandwidth, a latency: one of each")
        columns["multicast"] = _switches(multicast, "multicast", num_hosts, num_nodes)
        columns["aggregate"] = _switches(aggregate, "aggregate", num_hosts, num_nodes)
        for name, column in columns.items():
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        for name in {"dimension", "chunk_ticks"} - columns.keys():
            object.__setattr__(self, name, None)
        if (
            self.chunk_ticks is not None
            and len(set((self.bandwidth.astype(object) * self.chunk_ticks).tolist())) > 1
        ):
            raise ValueError("bandwidths are not in inverse proportion to the ticks of a chunk")
        if names is not None and (len(names) != num_nodes or len(set(names)) < num_nodes):
            raise ValueError(f"names are {num_nodes} different texts, one a node")
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "tick_s", Fraction(tick_s))
        object.__setattr__(self, "names", None if names is None else tuple(names))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return False
        plain = ("num_hosts", "num_nodes", "unit", "tick_s", "names")
        arrays = (
            *("tail", "head", "bandwidth", "latency", "dimension", "multicast", "aggregate"),
            "chunk_ticks",
        )
        return all(getattr(self, name) == getattr(other, name) for name in plain) and all(
            np.array_equal(np.asarray(getattr(self, name)), np.asarray(getattr(other, name)))
            for name in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        switches = self.num_nodes - self.num_hosts
        return f"Network({self.num_hosts} hosts, {switches} switches, {self.num_links} links)"

    @property
    def num_links(self) -> int:
        """Number of directed links."""
        return len(self.tail)

    def is_switch(self, node: int) -> bool:
        """Whether a node is a switch."""
        return node >= self.num_hosts

    def name(self, node: int) -> str:
        """What a node is called: its name, or ``h3`` or ``s3`` for host and switch number 3."""
        if self.names is not None:
            return self.names[node]
        return f"s{node - self.num_hosts}" if self.is_switch(node) else f"h{node}"

    def host_bandwidth(self) -> int:
        """Largest total bandwidth out of a host, in ``unit``: what B stands for."""
        egress = np.zeros(self.num_nodes, dtype=np.int64)
        np.add.at(egress, self.tail, self.bandwidth)
        return int(egress[: self.num_hosts].max())

    def changed(
        self,
        bandwidth: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        *,
        latency: ArrayLike | None = None,
        tick_s: Fraction | None = None,
        with_dimension: bool = True,
    ) -> Network:
        """The network with other bandwidths, names, latencies or ticks, or without dimensions.

        >>> ring = Network(3, 3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
        >>> ring.changed(latency=[5, 5, 7]).latency.tolist()
        [5, 5, 7]
        """
        return Network(
            *(self.num_hosts, self.num_nodes, self.tail, self.head),
            self.bandwidth if bandwidth is None else bandwidth,
            self.latency if latency is None else latency,
            self.dimension if with_dimension else None,
            multicast=np.flatnonzero(self.multicast).tolist(),
            aggregate=np.flatnonzero(self.aggregate).tolist(),
            unit=self.unit,
            tick_s=self.tick_s if tick_s is None else tick_s,
            names=self.names if names is None else names,
            chunk_ticks=self.chunk_ticks if bandwidth is None else None,
        )

    def topology(self) -> Topology:
        """All nodes and links as a Topology, for schedules whose sends name every hop.

        Bandwidths are divided by their common divisor; ValueError if they are too large for speeds.
        """
        common = int(np.gcd.reduce(self.bandwidth)) if self.num_links else 1
        return Topology(self.num_nodes, self.tail, self.head, self.bandwidth // common)

    def with_latency(self, ticks: int) -> Network:
        """The same network with this latency on every link.

        >>> Network(2, 2, [0], [1], [1]).with_latency(500).latency.tolist()
        [500]
        """
        return Network(
            *(self.num_hosts, self.num_nodes, self.tail, self.head, self.bandwidth),
            np.full(self.num_links, ticks),
            self.dimension,
            multicast=np.flatnonzero(self.multicast).tolist(),
            aggregate=np.flatnonzero(self.aggregate).tolist(),
            unit=self.unit,
            tick_s=self.tick_s,
            names=self.names,
        )

    def without(self, links: Collection[int] = (), nodes: Collection[int] = ()) -> Network:
        """The network after these links, and these nodes with theirs, are lost; others move up.

        Raises ValueError if no host is left, or for what is not there.

        >>> ring = Network(3, 3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
        >>> ring.without(nodes=[1]).tail.tolist(), ring.without(links=[0]).num_links
        ([1], 2)
        """
        lost_links = _integers(sorted(links), "a lost link", 0, self.num_links - 1)
        lost_nodes = _integers(sorted(nodes), "a lost node", 0, self.num_nodes - 1)
        is_left = np.ones(self.num_nodes, dtype=bool)
        is_left[lost_nodes] = False
        if not is_left[: self.num_hosts].any():
            raise ValueError("no host is left")
        stays = is_left[self.tail] & is_left[self.head]
        stays[lost_links] = False
        number = np.cumsum(is_left) - 1
        kept = np.flatnonzero(is_left).tolist()
        return Network(
            int(is_left[: self.num_hosts].sum()),
            int(is_left.sum()),
            number[self.tail[stays]],
            number[self.head[stays]],
            self.bandwidth[stays],
            self.latency[stays],
            None if self.dimension is None else self.dimension[stays],
            multicast=number[np.flatnonzero(self.multicast & is_left)].tolist(),
            aggregate=number[np.flatnonzero(self.aggregate & is_left)].tolist(),
            unit=self.unit,
            tick_s=self.tick_s,
            names=None if self.names is None else [self.names[node] for node in kept],
            chunk_ticks=None if self.chunk_ticks is None else self.chunk_ticks[stays],
        )


def _integers(values: ArrayLike, name: str, least: int, most: int) -> NDArray[np.int64]:
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    if array.size > MAX_LINKS:
        raise ValueError(f"{name} has {array.size} entries: at most {MAX_LINKS} are supported")
    outside = (array < least) | (array > most)
    if outside.any():
        at = int(outside.argmax())
        raise ValueError(
            f"{name} is {int(array[at])} at position {at}: it is from {least} to {most}"
        )
    return np.array(array, dtype=np.int64)


def _switches(
    numbers: Collection[int], name: str, num_hosts: int, num_nodes: int
) -> NDArray[np.bool_]:
    is_able = np.zeros(num_nodes, dtype=bool)
    for node in numbers:
        if not num_hosts <= node < num_nodes:
            raise ValueError(
                f"{name} names node {node}: the switches are {num_hosts} to {num_nodes - 1}"
            )
        is_able[node] = True
    return is_able
