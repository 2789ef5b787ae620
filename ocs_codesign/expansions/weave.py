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
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.expansions.profile import Profile, profile_of
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

    shares = _shares(profile_of(one), profile_of(other))
    if shares is None:
        raise ValueError("the two schedules cannot be woven: a step cannot be balanced")
    chunks = _num_chunks(shares, one.num_chunks, other.num_chunks)
    cut = np.array([share.numerator * (chunks // share.denominator) for share in shares])
    side, first_links = other.topology.num_nodes, one.topology.num_links
    along_one = _along(one, other, np.zeros_like(cut), cut, chunks)
    along_other = _along(other, one, cut, chunks - cut, chunks)
    halves = (
        _columns(along_one, along_one.moving_root * side + along_one.resting_root, first_links, 0),
        _columns(
            along_other,
            along_other.resting_root * side + along_other.moving_root,
            other.topology.num_links,
            first_links * side,
        ),
    )
    return Schedule(
        product((one.topology, other.topology)),
        one.collective,
        chunks,
        *(np.concatenate(pair) for pair in zip(*halves, strict=True)),
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Sends:
    """Sends along one factor while the other coordinate rests at ``here``, as flat columns."""

    moving_root: NDArray[np.int64]
    resting_root: NDArray[np.int64]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]
    link: NDArray[np.int64]
    step: NDArray[np.int64]
    here: NDArray[np.int64]


def _along(
    moving: Schedule,
    resting: Schedule,
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    chunks: int,
) -> _Sends:
    """Sends along one factor's links, for every pair of a root and a node of the resting factor.

    At step t the factor delivers chunks [start[t], start[t] + length[t]) of the shards that both
    factors could, and all chunks of those whose resting coordinate is already right.
    """
    arrival = _arrival_steps(resting)
    nodes = resting.topology.num_nodes
    step = moving.step[:, None, None] + arrival
    own = np.broadcast_to(arrival == 0, step.shape)
    first = np.where(own, 0, start[step])
    width = np.where(own, chunks, length[step])
    lo, hi = (
        first + column.astype(np.int64)[:, None, None] * width // moving.num_chunks
        for column in (moving.lo, moving.hi)
    )
    kept = lo < hi
    spread = {
        "moving_root": moving.root.astype(np.int64)[:, None, None],
        "resting_root": np.arange(nodes)[:, None],
        "lo": lo,
        "hi": hi,
        "link": moving.link.astype(np.int64)[:, None, None],
        "step": step,
        "here": np.arange(nodes),
    }
    return _Sends(**{name: np.broadcast_to(x, step.shape)[kept] for name, x in spread.items()})


def _columns(
    sends: _Sends, root: NDArray[np.int64], num_links: int, first_link: int
) -> tuple[NDArray[np.int64], ...]:
    link = first_link + sends.here * num_links + sends.link
    return root, sends.lo, sends.hi, link, sends.step


def _arrival_steps(schedule: Schedule) -> NDArray[np.int64]:
    """Step at which root's shard (row) arrives at a node (column), 0 for its own."""
    nodes = schedule.topology.num_nodes
    steps = np.zeros((nodes, nodes), dtype=np.int64)
    steps[schedule.root, schedule.topology.head[schedule.link]] = schedule.step
    return steps


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
