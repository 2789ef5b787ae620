"""Boxes on rails: an uneven exchange in equal parts over all rails, in closed form.

Every message to another box is cut into as many parts as there are rails, and part r goes over rail
r. What a rail carries is then what boxes have for each other over the number of rails, whatever the
matrix is: mostly that is what a cut has to let out, and no program is needed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.core.topology import starts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network


class Rails(NamedTuple):
    """Hosts in boxes, each on one rail: ``host`` (int64, boxes x rails) is who is where.

    ``up`` and ``down`` (int64, 2 x hosts) are the links of hosts to the switch of their box, in
    row 0, and of their rail, in row 1, and back; ``inner`` and ``outer`` their bandwidths.
    """

    host: NDArray[np.int64]
    up: NDArray[np.int64]
    down: NDArray[np.int64]
    inner: int
    outer: int

    @property
    def num_rails(self) -> int:
        """Rails, and hosts of a box."""
        return int(self.host.shape[1])

    @property
    def box(self) -> NDArray[np.int64]:
        """That of every host."""
        return np.argsort(self.host, axis=None) // self.num_rails

    def time(self, demand: NDArray[np.int64] | None) -> Fraction:
        """What a matrix (hosts x hosts, 0 on the diagonal) takes in equal parts over all rails.

        Without one everybody has a unit for everybody else, which goes over its target's rail.
        """
        size, boxes = self.num_rails, len(self.host)
        if demand is None:
            over_rail = Fraction(size * (boxes - 1), self.outer)
            return max(over_rail, Fraction(boxes * (size - 1), self.inner))
        box = self.box
        apart = box[:, None] != box[None, :]
        outside, inside = np.where(apart, demand, 0), np.where(apart, 0, demand)
        over_rails, over_inner = [], []
        for axis in (1, 0):
            mine, theirs = outside.sum(axis=axis), outside.sum(axis=1 - axis)
            over_rails.append(np.bincount(box, mine))
            passed = np.bincount(box, theirs)[box].astype(np.int64) - theirs
            over_inner.append(size * inside.sum(axis=axis) + (size - 1) * mine + passed)
        most = [int(np.max(each)) for each in (over_rails, over_inner)]
        return max(Fraction(most[0], size * self.outer), Fraction(most[1], size * self.inner))

    def paths(self, demand: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """Source, target, number of links and links of the paths; of a pair each takes as much."""
        size, box = self.num_rails, self.box
        source, target = np.nonzero(demand)
        is_near = box[source] == box[target]
        times = np.where(is_near, 1, size)
        pair = np.repeat(np.arange(len(source)), times)
        over = np.arange(len(pair)) - starts_of(times)[pair]
        here, there, is_near = source[pair], target[pair], is_near[pair]
        first, last = self.host[box[here], over], self.host[box[there], over]
        first, last = np.where(is_near, there, first), np.where(is_near, there, last)
        legs = np.stack(
            [
                *(self.up[0, here], self.down[0, first]),
                *(self.up[1, first], self.down[1, last]),
                *(self.up[0, last], self.down[0, there]),
            ],
            axis=1,
        )
        used = np.stack([first != here, ~is_near, (last != there) & ~is_near], axis=1)
        used = np.repeat(used, 2, axis=1)
        return here, there, used.sum(axis=1), legs[used]


def rails_of(network: Network) -> Rails | None:
    """The rails of a network that is nothing but boxes of a switch each on rails of a switch each.

    None unless every host has one link each way to either, all boxes' as wide, and all rails'.
    """
    hosts, tail, head = network.num_hosts, network.tail, network.head
    goes_up = tail < hosts
    ups, downs = np.flatnonzero(goes_up), np.flatnonzero(~goes_up)
    if len(ups) != 2 * hosts or len(downs) != 2 * hosts or (head[ups] < hosts).any():
        return None
    ups = ups[np.lexsort((head[ups], tail[ups]))]
    downs = downs[np.lexsort((tail[downs], head[downs]))]
    if (tail[ups] != np.repeat(np.arange(hosts), 2)).any() or (head[downs] != tail[ups]).any():
        return None
    is_wide = _is_wide(network, ups)
    if (tail[downs] != head[ups]).any() or is_wide is None:
        return None
    number, order = np.arange(hosts), np.where(is_wide, 0, 1)
    up, down = (
        np.stack([each.reshape(-1, 2)[number, way] for way in (order, 1 - order)])
        for each in (ups, downs)
    )
    widths = [np.unique(network.bandwidth[[up[row], down[row]]]) for row in (0, 1)]
    box, boxes = np.unique(head[up[0]], return_inverse=True)
    rail, rails = np.unique(head[up[1]], return_inverse=True)
    where = np.unique(boxes * len(rail) + rails)
    if len(box) * len(rail) != hosts or len(where) != hosts or any(len(one) > 1 for one in widths):
        return None
    host = np.empty((len(box), len(rail)), dtype=np.int64)
    host[boxes, rails] = number
    return Rails(host, up, down, int(widths[0][0]), int(widths[1][0]))


def _is_wide(network: Network, ups: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Whether the first switch of every host is its box: the wider one, or of the lower level."""
    width = network.bandwidth[ups].reshape(-1, 2)
    if (width[:, 0] != width[:, 1]).all():
        return width[:, 0] > width[:, 1]
    if network.dimension is None:
        return None
    level = network.dimension[ups].reshape(-1, 2)
    return level[:, 0] < level[:, 1] if (level[:, 0] != level[:, 1]).all() else None
