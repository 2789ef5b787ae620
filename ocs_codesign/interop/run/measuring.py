"""Ping-pong between all pairs of ranks: latency, overhead and rate by class, as a machine.

Every pair is measured alone. Groups of near ranks are found from the latencies: where these part
into short and long ones, ranks that short ones join are of one group.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.machines.machine import Number, RealMachine
from ocs_codesign.interop.run.launch import answer_of, check_available, command, leave

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RANKS: Final = 64
SMALL_BYTES, LARGE_BYTES = 8, 2**20
REPEATS: Final = 40
_WARM: Final = 5
_LARGE_REPEATS: Final = 8
APART: Final = 1.5
"""Times by which the next longer latency differs where ranks part into groups."""

_LIMIT_S, _LIMIT_S_A_PAIR = 60.0, 2.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Seconds of pings between all pairs: half a round trip, repeats last; and of sends alone.

    ``small`` and ``large`` are (ranks, ranks, repeats), ``sends`` (ranks, repeats). The protocol is
    how the library of the ranks is called where a machine has one.
    """

    small: NDArray[np.float64]
    large: NDArray[np.float64]
    sends: NDArray[np.float64]
    library: str
    protocol: str = "MPI"

    @property
    def latency_s(self) -> NDArray[np.float64]:
        """The middle latency of every pair, symmetric."""
        middle = np.median(self.small, axis=2)
        return np.asarray((middle + middle.T) / 2)


def groups_of(latency_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """The group of every rank: of near ones, numbered by their first rank.

    >>> far = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0]])
    >>> groups_of(far).tolist()
    [0, 0, 1, 1]
    """
    ranks = len(latency_s)
    above = np.triu_indices(ranks, 1)
    listed = np.sort(latency_s[above])
    if len(listed) < 2:
        return np.zeros(ranks, dtype=np.int64)
    ratio = listed[1:] / np.maximum(listed[:-1], 1e-12)
    place = int(ratio.argmax())
    if ratio[place] < APART:
        return np.zeros(ranks, dtype=np.int64)
    near = latency_s[above] <= listed[place]
    part = connected(above[0][near], above[1][near], ranks)
    _, first, number = np.unique(part, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number], dtype=np.int64)


def machine_of_probes(probes: Probes, name: str = "measured") -> RealMachine:
    """The machine of probes, every number measured, with the middle half of its values."""
    latency, group = probes.latency_s, groups_of(probes.latency_s)
    ranks = len(group)
    above = np.triu_indices(ranks, 1)
    near = group[above[0]] == group[above[1]]
    source = f"ping-pong of {ranks} ranks, {probes.library}"
    overhead = 1e6 * float(np.median(probes.sends))
    spread = np.percentile(1e6 * probes.sends, [25, 75])
    numbers = {
        "launch_us": Number((0.0,), "a message is sent at once", "assumed"),
        "overhead_us": Number((overhead,), source, "measured", (spread[0], spread[1])),
        "nic_us": Number(0.0, "in the latency", "measured"),
    }
    wanted = [("net", ~near if (~near).any() else near)]
    if (~near).any() and near.any():
        wanted.append(("inside", near))
    for kind, chosen in wanted:
        one, other = above[0][chosen], above[1][chosen]
        small = 1e6 * probes.small[one, other].ravel()
        rate = LARGE_BYTES / probes.large[one, other].ravel() / 1e9
        flight = max(0.0, float(np.median(1e6 * latency[one, other])) - 2 * overhead)
        low, high = np.maximum(np.percentile(small, [25, 75]) - 2 * overhead, 0)
        numbers[f"{kind}_latency_us"] = Number((flight,), source, "measured", (low, high))
        low, high = np.percentile(rate, [25, 75])
        peak = Number(float(np.median(rate)), source, "measured", (float(low), float(high)))
        numbers[f"{kind}_peak_GBps"] = peak
        numbers[f"{kind}_share"] = Number((1.0,), "of the measured rate", "measured")
    texts = {
        "title": f"{ranks} ranks in {len(np.unique(group))} groups of near ones",
        "protocols": [probes.protocol],
        "library": probes.library,
        "ranks_a_node": int(np.bincount(group).max()),
    }
    return RealMachine(name, texts, numbers)


class Pings(Protocol):
    """Ranks that send each other bytes, over MPI or another library, and what it is called."""

    rank: int
    size: int
    protocol: str
    library: str

    def room(self, num_bytes: int) -> Any:
        """A buffer."""

    def start(self, data: Any, peer: int) -> Any:
        """Begin to send; what is begun has ``wait``."""

    def send(self, data: Any, peer: int) -> None:
        """Send."""

    def receive(self, data: Any, peer: int) -> None:
        """Receive."""

    def meet(self) -> None:
        """Wait for all ranks."""

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of every value the largest of all ranks."""


def probe(wire: Pings) -> Probes:
    """Measure all pairs of ranks one after the other; every rank has the probes of all."""
    ranks, mine = wire.size, wire.rank
    check_ranks(ranks)
    small = np.zeros((ranks, ranks, REPEATS))
    large = np.zeros((ranks, ranks, _LARGE_REPEATS))
    sends = np.zeros((ranks, REPEATS))
    for one in range(ranks):
        for other in range(one + 1, ranks):
            wire.meet()
            if mine in (one, other):
                peer = other if mine == one else one
                small[one, other] = _pings(wire, peer, mine == one, SMALL_BYTES, REPEATS)
                large[one, other] = _pings(wire, peer, mine == one, LARGE_BYTES, _LARGE_REPEATS)
    wire.meet()
    sends[mine] = _sends(wire, (mine + 1) % ranks, (mine - 1) % ranks)
    small, large, sends = (wire.largest(each) for each in (small, large, sends))
    small, large = (each + each.transpose(1, 0, 2) for each in (small, large))
    return Probes(small, large, sends, wire.library, wire.protocol)


def check_ranks(ranks: int) -> None:
    """ValueError for fewer ranks than a pair, or more than are measured in time."""
    if not 2 <= ranks <= MAX_RANKS:
        raise ValueError(f"{ranks} ranks: all pairs of 2 to {MAX_RANKS} are measured")


def limit_s(ranks: int) -> float:
    """Time for ranks to start and for all pairs."""
    return _LIMIT_S + _LIMIT_S_A_PAIR * ranks * ranks


def _pings(wire: Pings, peer: int, first: bool, num_bytes: int, repeats: int) -> NDArray[Any]:
    """Half of each round trip, on the rank that begins; zeros on the other."""
    data, times = wire.room(num_bytes), np.zeros(repeats)
    for turn in range(-_WARM, repeats):
        begin = perf_counter()
        if first:
            wire.send(data, peer)
            wire.receive(data, peer)
            times[max(turn, 0)] = (perf_counter() - begin) / 2
        else:
            wire.receive(data, peer)
            wire.send(data, peer)
    return times


def _sends(wire: Pings, target: int, source: int) -> NDArray[Any]:
    """What a send takes its processor: a small message that is only handed over."""
    data, into, times = wire.room(SMALL_BYTES), wire.room(SMALL_BYTES), np.zeros(REPEATS)
    for turn in range(-_WARM, REPEATS):
        begin = perf_counter()
        started = wire.start(data, target)
        times[max(turn, 0)] = perf_counter() - begin
        wire.receive(into, source)
        started.wait()
    return times


# Over MPI.


@final
class MpiPings:
    """Ranks of a communicator of MPI."""

    protocol = "MPI"

    def __init__(self, world: Any) -> None:
        from mpi4py import MPI

        self._world, self.rank, self.size = world, world.rank, world.size
        self.library = MPI.Get_library_version().partition(",")[0].strip("\0 \n")

    def room(self, num_bytes: int) -> bytearray:
        """A buffer."""
        return bytearray(num_bytes)

    def start(self, data: bytearray, peer: int) -> Any:
        """Begin to send."""
        return self._world.Isend(data, peer)

    def send(self, data: bytearray, peer: int) -> None:
        """Send."""
        self._world.Send(data, peer)

    def receive(self, data: bytearray, peer: int) -> None:
        """Receive."""
        self._world.Recv(data, peer)

    def meet(self) -> None:
        """Wait for all ranks."""
        self._world.Barrier()

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of every value the largest of all ranks."""
        from mpi4py import MPI

        found = np.empty_like(values)
        self._world.Allreduce(values, found, MPI.MAX)
        return found


def measured(ranks: int | None) -> Probes | None:
    """Probes of so many ranks that are started here, or of mpirun's, of which only rank 0 has them.

    See ``launch`` for what is raised.
    """
    check_available(launcher=ranks is not None)
    if ranks is None:
        from mpi4py import MPI

        probes = probe(MpiPings(MPI.COMM_WORLD))
        return None if MPI.COMM_WORLD.rank else probes
    check_ranks(ranks)
    found: Probes = answer_of(lambda place: command(ranks, place, __name__), None, limit_s(ranks))
    return found


def main(directory: Path) -> None:
    """Measure, as a rank that ``measured`` has started; rank 0 leaves the probes."""
    from mpi4py import MPI

    # Not those of __main__, whose probes nobody else could read.
    from ocs_codesign.interop.run.measuring import MpiPings, probe

    probes = probe(MpiPings(MPI.COMM_WORLD))
    if not MPI.COMM_WORLD.rank:
        leave(probes, directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
