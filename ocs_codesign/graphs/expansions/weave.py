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
from math import lcm
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.cost import total
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
        return total(self.loads) * self.shape.degree == self.shape.num_nodes - 1

    @property
    def chunks(self) -> int:
        """Chunks of a shard of which every step carries whole ones, if all links carry the same."""
        return lcm(*{load.denominator for load in self.loads})

    def arrivals(self) -> NDArray[np.object_]:
        """``chunks`` that every node receives at step 0 (its own), 1, ..., as Python integers."""
        whole = self.chunks
        loads = [load.numerator * (whole // load.denominator) for load in self.loads]
        return np.array([whole, *(load * self.shape.degree for load in loads)], dtype=object)


def woven(profiles: Sequence[Profile]) -> tuple[Fraction, ...] | None:
    """Loads of the woven product of two or more factors, or None if a step cannot be balanced."""
    product = profiles[0]
    for factor in profiles[1:]:
        if _shares(product, factor) is None:
            return None
        degree = product.shape.degree + factor.shape.degree
        shape = Shape(product.shape.num_nodes * factor.shape.num_nodes, degree)
        arrivals = _product_of_sums(product.arrivals(), factor.arrivals())
        whole = product.chunks * factor.chunks * degree
        product = Profile(shape, tuple(Fraction(chunks, whole) for chunks in arrivals[1:].tolist()))
    return product.loads


def _product_of_sums(one: NDArray[np.object_], other: NDArray[np.object_]) -> NDArray[Any]:
    """Their convolution, exactly: in 64 bits where no sum can be larger."""
    fits = sum(one.tolist()) * sum(other.tolist()) < 2**63
    kind = np.int64 if fits else object
    return np.convolve(one.astype(kind), other.astype(kind)).astype(object)


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
    degree = one.shape.degree + other.shape.degree
    arrived = _product_of_sums(first, second)
    n1, n2 = np.zeros_like(arrived), np.zeros_like(arrived)
    n1[: len(first)], n2[: len(second)] = first * other.chunks, second * one.chunks
    mixed, missing = degree * (arrived - n1 - n2), one.shape.degree * arrived - degree * n1
    if not all((missing[1:] >= 0) & (missing[1:] <= mixed[1:])):
        return None
    pairs = zip(missing[1:].tolist(), mixed[1:].tolist(), strict=True)
    shares = [
        Fraction(0),
        *(Fraction(part, whole) if whole else Fraction(0) for part, whole in pairs),
    ]
    # The chunks of both factors' shards are not known here; loads' denominators stand for them.
    return shares if _num_chunks(shares, one.chunks, other.chunks) <= _MAX_CHUNKS else None


def _num_chunks(shares: list[Fraction], first_chunks: int, second_chunks: int) -> int:
    """Fewest chunks in which every share cuts into the chunks of both factors.

    Where they are more than _MAX_CHUNKS, a number that is too.
    """
    fewest = 1
    for share in set(shares):
        parts = (share / first_chunks, (1 - share) / second_chunks, share)
        fewest = lcm(fewest, *(part.denominator for part in parts))
        if fewest > _MAX_CHUNKS:
            break
    return fewest
