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

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.families.shape import Shape
from ocs_codesign.expansions.profile import Profile
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_CHUNKS = 2**31 - 1


def woven_loads(one: Profile, other: Profile) -> tuple[Fraction, ...] | None:
    """Loads of the woven product, or None if a step cannot be balanced."""
    if _shares(one, other) is None:
        return None
    degree = one.shape.degree + other.shape.degree
    first, second = _arrivals(one), _arrivals(other)
    totals = [Fraction(0)] * (len(first) + len(second) - 1)
    for i, shards in enumerate(first):
        for j, more in enumerate(second):
            totals[i + j] += shards * more
    return tuple(total / degree for total in totals[1:])


def weave(one: Schedule, other: Schedule) -> Schedule:
    """The woven allgather on the product of two topologies, ``other``'s coordinate fastest.

    Both must be BFB allgathers whose profiles ``woven_loads`` accepts; ValueError otherwise.
    """
    from ocs_codesign.expansions.product import product

    shares = _shares(_profile(one), _profile(other))
    if shares is None:
        raise ValueError("the two schedules cannot be woven: a step cannot be balanced")
    chunks = _num_chunks(shares, one.num_chunks, other.num_chunks)
    topology = product((one.topology, other.topology))
    side = other.topology.num_nodes
    first_links = one.topology.num_links
    along_first = _along(one, other, shares, chunks, first=True)
    along_second = _along(other, one, shares, chunks, first=False)
    root1, lo1, hi1, link1, step1, there1 = along_first
    root2, lo2, hi2, link2, step2, there2 = along_second
    kept1, kept2 = lo1 < hi1, lo2 < hi2
    columns = (
        (root1[0] * side + root1[1], root2[1] * side + root2[0]),
        (lo1, lo2),
        (hi1, hi2),
        (
            there1 * first_links + link1,
            first_links * side + there2 * other.topology.num_links + link2,
        ),
        (step1, step2),
    )
    return Schedule(
        topology,
        one.collective,
        chunks,
        *(np.concatenate([a[kept1], b[kept2]]) for a, b in columns),
    )


def _along(moving, resting, shares, chunks, *, first):  # type: ignore[no-untyped-def]
    """Sends along one factor's links, for every pair of a root and a node of the resting factor."""
    distance = _arrival_steps(resting)
    nodes = resting.topology.num_nodes
    shape = (moving.num_sends, nodes, nodes)
    waited = np.broadcast_to(distance[None], shape)
    step = moving.step[:, None, None] + waited
    numerator = np.array([share.numerator * (chunks // share.denominator) for share in shares])
    cut = np.where(waited == 0, chunks if first else 0, numerator[step])
    start, length = (0, cut) if first else (cut, chunks - cut)
    lo, hi = (
        start + column[:, None, None] * length // moving.num_chunks
        for column in (moving.lo.astype(np.int64), moving.hi.astype(np.int64))
    )
    root = np.broadcast_to(moving.root.astype(np.int64)[:, None, None], shape)
    rest_root = np.broadcast_to(np.arange(nodes)[:, None], shape)
    here = np.broadcast_to(np.arange(nodes), shape)
    link = np.broadcast_to(moving.link.astype(np.int64)[:, None, None], shape)
    return (root.ravel(), rest_root.ravel()), *(
        column.ravel() for column in (lo, hi, link, step, here)
    )


def _arrival_steps(schedule: Schedule) -> NDArray[np.int64]:
    """Step at which root's shard (row) arrives at a node (column), 0 for its own."""
    nodes = schedule.topology.num_nodes
    steps = np.zeros((nodes, nodes), dtype=np.int64)
    steps[schedule.root, schedule.topology.head[schedule.link]] = schedule.step
    return steps


def _profile(schedule: Schedule) -> Profile:
    topology = schedule.topology
    return Profile(Shape(topology.num_nodes, topology.degree), schedule.max_loads())


def _arrivals(profile: Profile) -> list[Fraction]:
    """Shards that every node receives at step 0 (its own), 1, ..."""
    return [Fraction(1), *(load * profile.shape.degree for load in profile.loads)]


def _shares(one: Profile, other: Profile) -> list[Fraction] | None:
    """f_t for t = 0 .. last step, or None if the product cannot be balanced."""
    if not (one.is_bw_optimal and other.is_bw_optimal):
        return None
    first, second = _arrivals(one), _arrivals(other)
    weight = Fraction(one.shape.degree, one.shape.degree + other.shape.degree)
    shares = [Fraction(0)]
    for step in range(1, len(first) + len(second) - 1):
        alone = [n[step] if step < len(n) else Fraction(0) for n in (first, second)]
        mixed = sum(
            (
                first[i] * second[step - i]
                for i in range(max(1, step - len(second) + 1), min(step, len(first)))
            ),
            start=Fraction(0),
        )
        missing = weight * (alone[0] + alone[1] + mixed) - alone[0]
        if mixed == 0:
            if missing:
                return None
            shares.append(Fraction(0))
        elif 0 <= missing <= mixed:
            shares.append(missing / mixed)
        else:
            return None
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
