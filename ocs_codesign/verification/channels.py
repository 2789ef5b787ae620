"""Whether paths over virtual channels can block each other: replayed on links times channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def check_channels(
    topology: Topology,
    start: NDArray[np.int64],
    link: NDArray[np.int64],
    channel: NDArray[np.int64],
) -> Witness | None:
    """The first path that is none or goes back to a lower channel, or a link in a cycle; else None.

    Path i takes ``link[start[i] : start[i + 1]]`` in these channels. What waits for nothing is
    taken away again and again: what is left has a cycle.

    >>> from ocs_codesign.topology import Topology
    >>> ring, start = Topology(3, [0, 1, 2], [1, 2, 0]), np.array([0, 2, 4, 6])
    >>> link = np.array([0, 1, 1, 2, 2, 0])
    >>> check_channels(ring, start, link, np.array([0, 0, 0, 0, 0, 1]))
    >>> check_channels(ring, start, link, np.zeros(6, dtype=np.int64)).rule
    'the dependencies of virtual channel 0 have a cycle'
    """
    inner = np.ones(len(link), dtype=bool)
    inner[start[1:] - 1] = False
    before = np.flatnonzero(inner)
    after = before + 1
    for broken, rule in (
        (topology.head[link[before]] != topology.tail[link[after]], "a path is not connected"),
        (channel[before] > channel[after], "a path goes back to a lower virtual channel"),
    ):
        if broken.any():
            hop = int(before[np.argmax(broken)])
            row = int(np.searchsorted(start, hop, "right")) - 1
            return Witness(rule, link=int(link[hop]), row=row)
    state = channel * topology.num_links + link
    count = int(state.max(initial=-1)) + 1
    pairs = np.unique(state[before] * count + state[after])
    tail, head = np.divmod(pairs, max(1, count))
    while len(tail):
        waits = np.bincount(tail, minlength=count) > 0
        kept = waits[head]
        if kept.all():
            at, lane = int(tail[0]) % topology.num_links, int(tail[0]) // topology.num_links
            return Witness(f"the dependencies of virtual channel {lane} have a cycle", link=at)
        tail, head = tail[kept], head[kept]
    return None
