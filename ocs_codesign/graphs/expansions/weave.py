"""Woven product of two bandwidth-optimal allgathers: bandwidth-optimal again, without solving.

In a bandwidth-optimal BFB schedule every node receives exactly n_t = d U_t shards at step t, spread
evenly over its links. At step t of the product the sources at distances (t, 0) and (0, t) must come
along their dimension; of each source at distances (t1, t2), both positive, t1 + t2 = t, the first
f_t of the shard comes along dimension 1 exactly as dimension 1 delivers it, the rest along
dimension 2. All links carry the same if

    f_t = (d1/(d1 + d2) * (all shards of step t) - n1_t) / (shards with both distances positive),

a number that must lie in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from math import lcm
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.graphs.expansions.cartesian import cartesian
from ocs_codesign.graphs.shape import Shape
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAX_CHUNKS = 2**31 - 1


@final
@dataclass(frozen=True, slots=True)
class Profile:
    """Shape of a factor and the largest link load, in shards, of every step of its allgather.

    All links have equal speed and all nodes ``shape.degree`` of them.

    >>> Profile(Shape(4, 3), (Fraction(1),)).is_bw_optimal
    True
    """

    shape: Shape
    loads: tuple[Fraction, ...]

    @classmethod
    def of(cls, schedule: Schedule) -> Profile:
        """Profile of an allgather that has been made."""
        topology = schedule.topology
        return cls(Shape(topology.num_nodes, topology.degree), schedule.max_loads())

    @property
    def is_bw_optimal(self) -> bool:
        """Whether the loads add up to (N - 1)/d, the least that any allgather can do."""
        return sum(self.loads) * self.shape.degree == self.shape.num_nodes - 1

    def arrivals(self) -> NDArray[np.object_]:
        """Shards that every node receives at step 0 (its own), 1, ..., as Fractions."""
        return np.array([Fraction(1), *(load * self.shape.degree for load in self.loads)])


def woven(profiles: Sequence[Profile]) -> tuple[Fraction, ...] | None:
    """Loads of the woven product of two or more factors, or None if a step cannot be balanced."""
    product = profiles[0]
    for factor in profiles[1:]:
        if _shares(product, factor) is None:
            return None
        degree = product.shape.degree + factor.shape.degree
        shape = Shape(product.shape.num_nodes * factor.shape.num_nodes, degree)
        arrivals = np.convolve(product.arrivals(), factor.arrivals())
        product = Profile(shape, tuple(shards / degree for shards in arrivals[1:]))
    return product.loads


def weave(one: Schedule, other: Schedule) -> Schedule:
    """The woven allgather on the product of two topologies, ``other``'s coordinate fastest.

    Both must be BFB allgathers whose profiles ``woven`` accepts; ValueError otherwise.
    """
    shares = _shares(Profile.of(one), Profile.of(other))
    if shares is None:
        raise ValueError("the two schedules cannot be woven: a step cannot be balanced")
    chunks = _num_chunks(shares, one.num_chunks, other.num_chunks)
    cut = np.array([share.numerator * (chunks // share.denominator) for share in shares])
    side = other.topology.num_nodes
    halves = (
        _along(one, other, (side, 1), np.zeros_like(cut), cut, chunks),
        _along(other, one, (1, side), cut, chunks - cut, chunks),
    )
    root, lo, hi, link, step = (np.concatenate(pair) for pair in zip(*halves, strict=True))
    link[len(halves[0][0]) :] += one.topology.num_links * side
    product = cartesian((one.topology, other.topology))
    return Schedule(product, one.collective, chunks, root, lo, hi, link, step)


def _along(
    moving: Schedule,
    resting: Schedule,
    strides: tuple[int, int],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    chunks: int,
) -> list[NDArray[np.int64]]:
    """Columns of the sends along one factor's links, which are numbered from 0.

    At step t the factor delivers chunks [start[t], start[t] + length[t]) of the shards that both
    factors could, and all chunks of those whose resting coordinate is already right. The strides
    are those of the moving and of the resting coordinate in the numbers of nodes.
    """
    arrival = _arrival_steps(resting)
    step = moving.step[:, None, None] + arrival  # send, resting coordinates of root and of here
    own = arrival == 0
    first, width = np.where(own, 0, start[step]), np.where(own, chunks, length[step])
    lo, hi = (
        first + column.astype(np.int64)[:, None, None] * width // moving.num_chunks
        for column in (moving.lo, moving.hi)
    )
    nodes = np.arange(resting.topology.num_nodes)
    moving_root = moving.root.astype(np.int64)[:, None, None] * strides[0]
    link = moving.link[:, None, None] + nodes * moving.topology.num_links
    columns = (moving_root + nodes[:, None] * strides[1], lo, hi, link, step)
    return [np.broadcast_to(column, step.shape)[lo < hi] for column in columns]


def _arrival_steps(schedule: Schedule) -> NDArray[np.int64]:
    """Step at which root's shard (row) arrives at a node (column), 0 for its own."""
    nodes = schedule.topology.num_nodes
    steps = np.zeros((nodes, nodes), dtype=np.int64)
    steps[schedule.root, schedule.topology.head[schedule.link]] = schedule.step
    return steps


def _shares(one: Profile, other: Profile) -> list[Fraction] | None:
    """f_t for t = 0 .. last step, or None if the product cannot be balanced."""
    if not (one.is_bw_optimal and other.is_bw_optimal):
        return None
    first, second = one.arrivals(), other.arrivals()
    weight = Fraction(one.shape.degree, one.shape.degree + other.shape.degree)
    totals = np.convolve(first, second)
    shares = [Fraction(0)]
    for total, n1, n2 in zip_longest(totals[1:], first[1:], second[1:], fillvalue=Fraction(0)):
        mixed, missing = total - n1 - n2, weight * total - n1
        if not 0 <= missing <= mixed:
            return None
        shares.append(missing / mixed if mixed else Fraction(0))
    # The chunks of both factors' shards are not known here; loads' denominators stand for them.
    chunks = [lcm(*(load.denominator for load in profile.loads)) for profile in (one, other)]
    return shares if _num_chunks(shares, *chunks) <= _MAX_CHUNKS else None


def _num_chunks(shares: list[Fraction], first_chunks: int, second_chunks: int) -> int:
    """Fewest chunks in which every share cuts into the chunks of both factors."""
    denominators = [1]
    for share in shares:
        denominators.append((share / first_chunks).denominator)
        denominators.append(((1 - share) / second_chunks).denominator)
        denominators.append(share.denominator)
    return lcm(*denominators)
