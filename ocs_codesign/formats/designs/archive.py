"""Schedules as npz archives.

An archive holds one-dimensional integer arrays ``tail`` and ``head`` (and ``link_speed`` if link
speeds differ), the columns ``root``, ``lo``, ``hi``, ``link`` and ``step`` (and ``phase`` for an
allreduce), and two scalars: the integer ``num_chunks`` (chunks of a shard; in an ``alltoall`` a
multiple of the number of nodes) and the text ``collective``. The number of nodes is the largest
endpoint plus one. Where circuits change, ``plane`` says in which plane each link's is, and row i of
``up_link``, ``up_first``, ``up_last`` that it is up from one step to another; before the steps
``pauses`` everything stops. ``numpy.load`` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.circuits import CircuitProgram
from ocs_codesign.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.files.npz import Layout, read_npz, write_npz
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import MAX_LINKS, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

_ENDS = ("tail", "head")
_SENDS = ("root", "lo", "hi", "link", "step")
_ROWS = (*_SENDS, "phase")
_LINKS = (*_ENDS, "link_speed")
_INTERVALS = ("up_link", "up_first", "up_last")
_CIRCUITS = ("plane", *_INTERVALS, "pauses")
_LAYOUT = Layout(
    what="a schedule",
    columns=(*_LINKS, *_ROWS, *_CIRCUITS),
    scalars=("num_chunks",),
    texts=("collective",),
    required=(*_ENDS, *_SENDS, "num_chunks", "collective"),
    alike=(_LINKS, _ROWS, ("tail", "plane"), _INTERVALS),
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Archive:
    """What an archive holds: a schedule, and its circuits if they change."""

    schedule: Schedule
    circuits: CircuitProgram | None


def collective_text(collective: Collective) -> str:
    """How files write a collective; ValueError for one with parameters, which they do not hold.

    >>> collective_text(Collective.ALLREDUCE)
    'allreduce'
    """
    if collective not in WITHOUT_PARAMETERS:
        raise ValueError(f"{collective!r} cannot be saved: files hold no roots, sizes or groups")
    return collective.name


def read_collective(text: str) -> Collective:
    """The collective that a file writes so; ValueError if there is none."""
    return Collective.parse(text)


def write_schedule(
    file: IO[bytes], schedule: Schedule, circuits: CircuitProgram | None = None
) -> None:
    """Write a schedule with its topology, and its circuits if they change.

    The same values always give the same bytes. Raises ValueError if the circuits are not those of
    the schedule's links, and for what files do not hold: switches and collectives with parameters.
    """
    if circuits is not None and circuits.topology != schedule.topology:
        raise ValueError("the links of the schedule are not those of the program's circuits")
    topology = schedule.topology
    if schedule.num_hosts < topology.num_nodes:
        raise ValueError("a schedule over switches cannot be saved: in files all nodes are hosts")
    arrays: dict[str, NDArray[Any]] = {"tail": topology.tail, "head": topology.head}
    if topology.link_speed is not None:
        arrays["link_speed"] = topology.link_speed
    arrays.update(zip(_ROWS, schedule.columns(), strict=False))
    arrays["num_chunks"] = np.array(schedule.num_chunks, dtype=np.int64)
    arrays["collective"] = np.array(collective_text(schedule.collective))
    if circuits is not None:
        arrays.update(zip(_CIRCUITS, circuits.columns(), strict=True))
    write_npz(file, arrays)


def read_archive(path: Path) -> Archive:
    """The schedule of an archive, which may come from anyone, and its circuits if they change.

    Raises OSError if the file cannot be read and ValueError for anything that is not a schedule;
    whether it is a correct one is for ``verification`` to say.
    """
    return read_npz(path, _LAYOUT, _check_lengths, _archive)


def _check_lengths(lengths: Mapping[str, int]) -> None:
    missing = [name for name in _CIRCUITS if name not in lengths]
    if 0 < len(missing) < len(_CIRCUITS):
        raise ValueError(f"the array {missing[0]} is missing: circuits that change need it")
    links = lengths["tail"]
    if not 1 <= links <= MAX_LINKS:
        raise ValueError(f"{links} links: a topology has from 1 to {MAX_LINKS}")


def _archive(arrays: dict[str, NDArray[Any]]) -> Archive:
    ends = [arrays[name] for name in _ENDS]
    # With as many links as nodes or fewer, every node that a schedule can serve has a link.
    num_nodes = max(int(end.max()) for end in ends) + 1
    if num_nodes > len(ends[0]):
        raise ValueError(
            f"{num_nodes} nodes but only {len(ends[0])} links: some node has no in-link"
        )
    topology = Topology(num_nodes, ends[0], ends[1], arrays.get("link_speed"))
    sends = len(arrays["step"])
    last = int(arrays["step"].max(initial=0))
    if last > sends:
        raise ValueError(f"the last step is {last}, but there are only {sends} sends")
    columns = [arrays[name] for name in _ROWS if name in arrays]
    collective = read_collective(str(arrays["collective"]))
    schedule = Schedule(topology, collective, int(arrays["num_chunks"]), *columns)
    if "plane" not in arrays:
        return Archive(schedule, None)
    return Archive(schedule, CircuitProgram(topology, *(arrays[name] for name in _CIRCUITS)))
