"""What all-to-all is found to take: a throughput between two proofs, or a table of paths."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.symmetry.quotient import Quotient
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True, eq=False)
class Throughput:
    """All-to-all time of a topology when flows may split over paths, in units of M/B.

    ``time`` is that of a routing that was found, ``bound`` what no routing can beat; both are exact
    and equal when the routing is optimal. ``prices`` (int64, a link orbit) prove the bound: any
    routing pays at least the cheapest path of every pair. ``loads`` are the messages of M/N that
    cross every link of each orbit. ``method`` says how they were found.
    """

    quotient: Quotient
    time: Fraction
    bound: Fraction
    prices: NDArray[np.int64]
    loads: tuple[Fraction, ...]
    method: str

    @property
    def gap(self) -> Fraction:
        """How far the time may be above the least possible, relative to the bound."""
        return self.time / self.bound - 1

    @property
    def is_optimal(self) -> bool:
        """Whether the routing is proven to be the best."""
        return self.time == self.bound

    def link_loads(self) -> list[Fraction]:
        """Messages that cross every link, in link order."""
        return [self.loads[orbit] for orbit in self.quotient.link_orbit.tolist()]


@final
@dataclass(frozen=True, slots=True, eq=False)
class PathTable:
    """Paths of every pair and the parts of its message that they carry, sorted by (source, node).

    Path i takes ``part[i]`` of ``num_parts`` equal parts of the message of ``source[i]`` for
    ``node[i]`` over the links ``link[start[i] : start[i + 1]]``; all columns are int64. ``bound``
    is the time, in M/B, that no routing of the same kind can beat. ``channel`` numbers the virtual
    channel of every link of a path from 0 on, None without any.
    """

    topology: Topology
    num_parts: int
    source: NDArray[np.int64]
    node: NDArray[np.int64]
    part: NDArray[np.int64]
    start: NDArray[np.int64]
    link: NDArray[np.int64]
    bound: Fraction
    channel: NDArray[np.int64] | None = None

    @property
    def num_paths(self) -> int:
        """Paths of all pairs."""
        return len(self.part)

    def hops(self) -> NDArray[np.int64]:
        """Links of every path."""
        return np.diff(self.start)

    def link_loads(self) -> NDArray[np.int64]:
        """Parts that cross every link, shape (links,)."""
        load = np.zeros(self.topology.num_links, dtype=np.int64)
        np.add.at(load, self.link, np.repeat(self.part, self.hops()))
        return load

    def busiest_link(self) -> int:
        """The link that is busy for longest, the first of equals."""
        loads, speeds = self.link_loads(), self.topology.speeds()
        of_speed = [np.flatnonzero(speeds == speed) for speed in np.unique(speeds)]
        tops = [int(links[np.argmax(loads[links])]) for links in of_speed]
        return max(sorted(tops), key=lambda link: Fraction(int(loads[link]), int(speeds[link])))

    @property
    def worst_load(self) -> Fraction:
        """Messages of M/N that cross the busiest link."""
        return Fraction(int(self.link_loads()[self.busiest_link()]), self.num_parts)

    @property
    def time(self) -> Fraction:
        """All-to-all time in M/B over these paths, exact."""
        speed = int(self.topology.speeds()[self.busiest_link()])
        return self.topology.t_b(self.worst_load / speed)

    def paths(self, source: int, node: int) -> list[tuple[Fraction, list[int]]]:
        """The paths of one pair: the share of its message and the links."""
        found = np.flatnonzero((self.source == source) & (self.node == node)).tolist()
        ends = [(self.start[at], self.start[at + 1]) for at in found]
        links = [self.link[first:last].tolist() for first, last in ends]
        parts = [Fraction(part, self.num_parts) for part in self.part[found].tolist()]
        return list(zip(parts, links, strict=True))
