"""All-to-alls on N ranks: every piece straight to its rank, in log N shifts, or round by round.

Piece s * N + t is what rank s has for rank t. Source of ``bruck``: J. Bruck, C. Ho, S. Kipnis,
E. Upfal, D. Weathersby (1997).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.cost import Cost
from ocs_codesign.schedules.classic.gathering import check_radix
from ocs_codesign.schedules.classic.grids import Grid
from ocs_codesign.schedules.classic.steps import Pattern, Step, ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.network import Network


def direct_exchange(num_ranks: int) -> Pattern:
    """Every piece straight to its rank, in one step."""
    rank = ranks(num_ranks)
    peer = (rank + np.arange(1, num_ranks)) % num_ranks
    return Pattern(num_ranks**2, [Step(rank, peer, rank * num_ranks + peer)])


def shift_exchange(num_ranks: int) -> Pattern:
    """At step s every rank sends to the rank s further.

    >>> [step.item.ravel().tolist() for step in shift_exchange(3).steps]
    [[1, 5, 6], [2, 3, 7]]
    """
    rank = ranks(num_ranks)
    peers = ((rank + s) % num_ranks for s in range(1, num_ranks))
    return Pattern(num_ranks**2, [Step(rank, peer, rank * num_ranks + peer) for peer in peers])


def pairwise(num_ranks: int) -> Pattern:
    """At step s ranks i and i xor s swap; shifts, if N is no power of two."""
    if num_ranks & (num_ranks - 1):
        return shift_exchange(num_ranks)
    rank = ranks(num_ranks)
    peers = (rank ^ s for s in range(1, num_ranks))
    return Pattern(num_ranks**2, [Step(rank, peer, rank * num_ranks + peer) for peer in peers])


def bruck_exchange(num_ranks: int, radix: int = 2) -> Pattern:
    """A piece with z in a digit of its distance, base r, goes z times that place, digit by digit.

    >>> [step.item.shape[1] for step in bruck_exchange(6).steps]
    [3, 2, 2]
    """
    check_radix(radix)
    rank, away = ranks(num_ranks), np.arange(num_ranks)
    steps, place = [], 1
    while place < num_ranks:
        moving = away[away // place % radix > 0]
        gone = moving % place  # how far a piece has come from its source
        source = (rank - gone) % num_ranks
        piece = source * num_ranks + (source + moving) % num_ranks
        jump = moving // place % radix * place
        steps.append(Step(rank, (rank + jump) % num_ranks, piece))
        place *= radix
    return Pattern(num_ranks**2, steps)


def ring_relay(num_ranks: int) -> Pattern:
    """Every piece that is not yet there goes on to the next rank."""
    rank, steps = ranks(num_ranks), []
    for s in range(1, num_ranks):
        source = (rank - s + 1) % num_ranks
        piece = source * num_ranks + (source + np.arange(s, num_ranks)) % num_ranks
        steps.append(Step(rank, (rank + 1) % num_ranks, piece))
    return Pattern(num_ranks**2, steps)


def grid_exchange(
    num_ranks: int, dims: Sequence[int] | None = None, order: Sequence[int] | None = None
) -> Pattern:
    """A dimension of a grid a step: all pieces straight to the right coordinate.

    >>> [step.num_sends for step in grid_exchange(6, (2, 3)).steps]
    [18, 24]
    """
    grid = Grid.of(num_ranks, dims)
    source, target = np.divmod(np.arange(num_ranks**2), num_ranks)
    at, steps = source, []
    for axis in grid.order(order):
        to = grid.moved(at, axis, grid.coordinate(target, axis) - grid.coordinate(at, axis))
        piece = np.flatnonzero(at != to)
        steps.append(Step(at[piece], to[piece], piece))
        at = to
    return Pattern(num_ranks**2, steps)


def two_phase_exchange(num_ranks: int, dims: Sequence[int] | None = None) -> Pattern:
    """Between boxes over rails, a message a box; ``dims`` are boxes and ranks of one.

    A rank has a rail of its own to the ranks in its place in other boxes. It sends what is for
    those, while its box brings it all else that goes over its rail; what is for its box goes last.

    >>> [step.num_sends for step in two_phase_exchange(6, (3, 2)).steps]
    [24, 12, 6]
    """
    sides = (1, num_ranks) if dims is None else tuple(dims)
    if len(sides) != 2:
        raise ValueError(f"dims are {list(sides)}: they are boxes and ranks of one")
    grid = Grid.of(num_ranks, sides)
    source, target = np.divmod(np.arange(num_ranks**2), num_ranks)
    box, place = (grid.coordinate(target, axis) for axis in (0, 1))
    is_near = grid.coordinate(source, 0) == box
    mate = source + place - grid.coordinate(source, 1)
    first = np.where(mate == source, target, mate)
    begins, goes_on = np.flatnonzero(~is_near), np.flatnonzero(~is_near & (mate != source))
    inside = np.flatnonzero(is_near & (source != target))
    # What goes over the own rail is asked for before anything that it is sent for others.
    begins = begins[np.argsort(first[begins] != target[begins], kind="stable")]
    steps = [
        Step(source[begins], first[begins], begins),
        Step(mate[goes_on], target[goes_on], goes_on),
        Step(source[inside], target[inside], inside),
    ]
    return Pattern(num_ranks**2, steps)


# Aggregation in the network: what no allreduce can beat whose switches add up and copy.


def in_network_bound(network: Network) -> Cost:
    """Steps and t_b that an allreduce takes at least, even if every switch adds up and copies.

    Every host sends its vector once and gets the sum once, so t_b is B over the least bandwidth out
    of or into a host: 1 if all are alike, where a ring takes 2 (N - 1) / N. A step is a hop here:
    up the switches and down again, as far as hosts are from each other. Raises ValueError if some
    host cannot reach another.
    """
    hosts = network.num_hosts
    if hosts == 1:
        return Cost(0, Fraction(0))
    hops = network.topology().distances()[:hosts, :hosts]
    if hops.min() < 0:
        source, target = np.argwhere(hops < 0)[0].tolist()
        raise ValueError(f"no path leads from host {source} to host {target}")
    least = network.host_bandwidth()
    for end in (network.tail, network.head):
        total = np.zeros(network.num_nodes, dtype=np.int64)
        np.add.at(total, end, network.bandwidth)
        least = min(least, int(total[:hosts].min()))
    return Cost(int(hops.max()), Fraction(network.host_bandwidth(), least))
