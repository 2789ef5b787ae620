"""The simulator: transfers on a network under rules, event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.simulate import kernels
from ocs_codesign.simulate.simulated import Simulated
from ocs_codesign.simulate.transfers import ADD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.simulate.rules import TimingRules
    from ocs_codesign.simulate.transfers import Transfers

_ROUNDS = 10
"""What the loop does for a hop or a wait, in rounds of a simple loop."""


def simulate_transfers(transfers: Transfers, rules: TimingRules) -> Simulated:
    """When every transfer runs, if each begins as soon as it may and links serve in that order.

    What begins at the same tick does so in the order of the events that let it begin, transfers
    that one event lets begin in ascending order: the same input gives the same ticks. Raises
    ValueError if transfers wait for each other in a circle.

    >>> from ocs_codesign.network import Network
    >>> from ocs_codesign.simulate.rules import TimingRules
    >>> from ocs_codesign.simulate.transfers import Transfers
    >>> line = Network(3, 3, [0, 1], [1, 2], [1, 1], [5, 5])
    >>> relay = Transfers(line, 8, [1, 1], [0, 1, 2], [0, 1], [0, 0, 1], [0])
    >>> done = simulate_transfers(relay, TimingRules(unit_Bps=10**9))
    >>> done.start.tolist(), done.end.tolist()
    ([0, 13], [13, 26])
    """
    network, num = transfers.network, transfers.num_transfers
    sizes, size_class = _classes(transfers.size)
    busy, flight, link_class = rules.link_ticks(network, transfers.chunk_bytes, sizes)
    injection, addition = rules.node_ticks(transfers, sizes)
    rounds = _ROUNDS * (num + len(transfers.path_link) + len(transfers.wait_for))
    inverted = for_work(kernels.inverted, rounds)
    after_start, after = inverted(transfers.wait_start, transfers.wait_for, num)
    has_previous = transfers.previous >= 0
    following = np.full(num, -1, dtype=np.int32)
    following[transfers.previous[has_previous]] = np.flatnonzero(has_previous)
    waits = np.diff(transfers.wait_start) + has_previous
    hop_start = np.zeros(len(transfers.path_link), dtype=np.int64)
    arrival, end = np.zeros(num, dtype=np.int64), np.zeros(num, dtype=np.int64)
    ended = for_work(kernels.run, rounds)(
        *(transfers.path_start, transfers.path_link, waits, after_start, after, following),
        *(transfers.compute, transfers.kind == ADD, size_class, link_class),
        *(network.tail, network.head, busy, flight, injection, addition),
        *(rules.overhead_ticks, rules.blocking, rules.cut_through, rules.pipelined),
        np.zeros(network.num_links, dtype=np.int64),
        np.zeros((3, network.num_nodes), dtype=np.int64),
        *(hop_start, arrival, end),
    )
    if ended < num:
        stuck = int((waits > 0).argmax())
        raise ValueError(
            f"{num - ended} transfers wait for each other in a circle: transfer {stuck} of step "
            f"{transfers.step[stuck]} never begins"
        )
    return Simulated(transfers, rules, hop_start, arrival, end)


def _classes(size: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The different sizes, ascending, and which each transfer has."""
    most = int(size.max(initial=0))
    if most > max(len(size), 2**16):
        sizes, number = np.unique(size, return_inverse=True)
        return sizes, number.astype(np.int32)
    is_used = np.zeros(most + 1, dtype=bool)
    is_used[size] = True
    number_of = (np.cumsum(is_used) - 1).astype(np.int32)
    return np.flatnonzero(is_used), number_of[size]
