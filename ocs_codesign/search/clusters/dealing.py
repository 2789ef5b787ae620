"""Rails that differ: a circulant each, whose offsets together lead from server to server fast."""

from __future__ import annotations

from itertools import count, cycle, islice
from typing import TYPE_CHECKING

from ocs_codesign.graphs.families.rings import Circulant, DirectedCirculant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.graphs.recipe import Recipe


def dealt(num_servers: int, ports: Sequence[int], *, bidirectional: bool) -> tuple[Recipe, ...]:
    """A circulant of the servers for every rail, a rail's NICs having so many ports.

    Together their offsets are the digits of the servers' numbers to the smallest base that ports
    allow, so that as few links as digits lead anywhere, and then whatever is left. Empty if links
    both ways cannot take an odd number of ports, or ports are more than offsets.

    >>> dealt(16, (2, 2, 2), bidirectional=False)
    (DirectedCirculant(16, (1, 4)), DirectedCirculant(16, (2, 8)), DirectedCirculant(16, (3, 12)))
    """
    both = 2 if bidirectional else 1
    offsets = range(1, num_servers // 2 + 1 if bidirectional else num_servers)
    numbers = [each // both for each in ports]
    if any(each % both for each in ports) or max(numbers) > len(offsets):
        return ()
    digits = _digits(num_servers, sum(numbers), offsets, both == 2)
    order = [*digits, *(offset for offset in offsets if offset not in digits)]
    endless = cycle(order)
    rails = [list(islice(endless, each)) for each in numbers]
    if not bidirectional:
        return tuple(DirectedCirculant(num_servers, tuple(rail)) for rail in rails)
    # Half way round there is one link there and back, which takes both ports if it is doubled.
    doubled = [[*rail, *(one for one in rail if 2 * one == num_servers)] for rail in rails]
    return tuple(Circulant(num_servers, tuple(rail)) for rail in doubled)


def _digits(num_servers: int, most: int, offsets: range, signed: bool) -> list[int]:
    """Offsets such that a sum of the fewest, one of every place, is any difference of servers."""
    for places in count(1):
        base = next(base for base in count(2) if base**places >= num_servers)
        largest = base // 2 if signed else base - 1
        if places * largest <= most or places == most:
            break
    base = 2 * largest + 1 if signed else largest + 1
    found = [digit * base**place for digit in range(1, largest + 1) for place in range(places)]
    if signed:
        found = [min(one % num_servers, -one % num_servers) for one in found]
    return [one for one in dict.fromkeys(found) if one in offsets][:most]
