"""Ping-pong between all pairs of MPI ranks: latency, overhead and rate by class, as a machine.

Every pair is measured alone. Groups of near ranks are found from the latencies: where these part
into short and long ones, ranks that short ones join are of one group.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from ocs_codesign.core.compute.components import connected
from ocs_codesign.core.machines.machine import Number, RealMachine
from ocs_codesign.interop.run.launch import check_available, command, ended_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RANKS: Final = 64
SMALL_BYTES, LARGE_BYTES = 8, 2**20
REPEATS: Final = 40
_WARM: Final = 5
_LARGE_REPEATS: Final = 8
APART: Final = 1.5
"""Times by which the next longer latency differs where ranks part into groups."""

_ANSWER: Final = "measured.json"
_LIMIT_S, _LIMIT_S_A_PAIR = 60.0, 2.0


@final
@dataclass(frozen=True, slots=True, eq=False)
class Probes:
    """Seconds of pings between all pairs: half a round trip, repeats last; and of sends alone.

    ``small`` and ``large`` are (ranks, ranks, repeats), ``sends`` (ranks, repeats).
    """

    small: NDArray[np.float64]
    large: NDArray[np.float64]
    sends: NDArray[np.float64]
    library: str

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
        "protocols": ["MPI"],
        "library": probes.library,
        "ranks_a_node": int(np.bincount(group).max()),
    }
    return RealMachine(name, texts, numbers)


def measured(ranks: int) -> Probes:
    """Probes of so many ranks that are started here; see ``launch`` for what is raised."""
    if not 2 <= ranks <= MAX_RANKS:
        raise ValueError(f"{ranks} ranks: all pairs of 2 to {MAX_RANKS} are measured")
    check_available()
    with tempfile.TemporaryDirectory(prefix="ocs-codesign-") as name:
        directory = Path(name)
        words = command(ranks, directory, __name__)
        told = ended_ranks(words, _LIMIT_S + _LIMIT_S_A_PAIR * ranks * ranks)
        answer = directory / _ANSWER
        if not answer.exists():
            raise RuntimeError(told)
        return probes_of(json.loads(answer.read_text(encoding="utf-8")))


def probes_of(record: dict[str, Any]) -> Probes:
    """The probes of a record that ranks have written."""
    arrays = (np.array(record[name], dtype=np.float64) for name in ("small", "large", "sends"))
    small, large, sends = arrays
    return Probes(small, large, sends, str(record["library"]))


def probe(world: Any) -> dict[str, Any] | None:
    """Measure all pairs of a communicator one after the other; the record on rank 0."""
    from mpi4py import MPI

    ranks, mine = world.size, world.rank
    small = np.zeros((ranks, ranks, REPEATS))
    large = np.zeros((ranks, ranks, _LARGE_REPEATS))
    sends = np.zeros((ranks, REPEATS))
    for one in range(ranks):
        for other in range(one + 1, ranks):
            world.Barrier()
            if mine in (one, other):
                peer = other if mine == one else one
                small[one, other] = _pings(world, peer, mine == one, SMALL_BYTES, REPEATS)
                large[one, other] = _pings(world, peer, mine == one, LARGE_BYTES, _LARGE_REPEATS)
    world.Barrier()
    sends[mine] = _sends(world, mine ^ 1) if mine ^ 1 < ranks else _sends(world, MPI.PROC_NULL)
    gathered = [world.gather(each) for each in (small, large, sends)]
    if mine:
        return None
    small, large, sends = (np.max(each, axis=0) for each in gathered)
    small, large = (each + each.transpose(1, 0, 2) for each in (small, large))
    library = MPI.Get_library_version().partition(",")[0].strip("\0 \n")
    named = {"small": small, "large": large, "sends": sends}
    return {"library": library, **{name: each.tolist() for name, each in named.items()}}


def _pings(world: Any, peer: int, first: bool, num_bytes: int, repeats: int) -> NDArray[Any]:
    """Half of each round trip, on the rank that begins; zeros on the other."""
    data, times = bytearray(num_bytes), np.zeros(repeats)
    for turn in range(-_WARM, repeats):
        begin = perf_counter()
        if first:
            world.Send(data, peer)
            world.Recv(data, peer)
            times[max(turn, 0)] = (perf_counter() - begin) / 2
        else:
            world.Recv(data, peer)
            world.Send(data, peer)
    return times


def _sends(world: Any, peer: int) -> NDArray[Any]:
    """What a send takes its processor: a small message that is only handed over."""
    data, into, times = bytearray(SMALL_BYTES), bytearray(SMALL_BYTES), np.zeros(REPEATS)
    for turn in range(-_WARM, REPEATS):
        begin = perf_counter()
        request = world.Isend(data, peer)
        times[max(turn, 0)] = perf_counter() - begin
        world.Recv(into, peer)
        request.Wait()
    return times


def main(directory: Path) -> None:
    """Measure, as a rank that ``measured`` has started; rank 0 writes the record."""
    from mpi4py import MPI

    record = probe(MPI.COMM_WORLD)
    if record is not None:
        part = directory / f"{_ANSWER}.part"
        part.write_text(json.dumps(record), encoding="utf-8")
        part.rename(directory / _ANSWER)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
