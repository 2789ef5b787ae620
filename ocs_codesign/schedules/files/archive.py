"""Schedules as npz archives.

An archive holds one-dimensional integer arrays ``tail`` and ``head`` (and ``link_speed`` if link
speeds differ), the columns ``root``, ``lo``, ``hi``, ``link`` and ``step`` (and ``phase`` for an
allreduce), and two scalars: the integer ``num_chunks`` (chunks of a shard; in an ``alltoall`` a
multiple of the number of nodes) and the text ``collective``. The number of nodes is the largest
endpoint plus one; where only the first ones are hosts, ``num_hosts`` says how many. What a
collective has beside its name is in ``collective_root``, ``size`` (of an all-to-all row by row) and
``collective_group`` with ``collective_group_start``; a ``custom`` one is a demand, whose arrays
begin with ``demand_``. ``multicast`` and ``aggregate`` are the switches that copy what they get to
several and those that add it up. Where circuits change, ``plane`` says in which plane each link's
is, and row i of ``up_link``, ``up_first``, ``up_last`` that it is up from one step to another;
before the steps ``pauses`` everything stops. ``numpy.load`` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import IO, TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.collective import CUSTOM, Collective
from ocs_codesign.core.demand import MAX_PIECES, Demand
from ocs_codesign.core.files.npz import Layout, read_npz, write_npz
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import MAX_LINKS, Topology
from ocs_codesign.verification.sends import FORWARD_ONLY, Abilities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


# What a collective has beside its name, as arrays: a root, sizes, groups, or a whole demand.


_DEMAND = ("kind", "root", "piece_start", "weight", "group", "group_start", "member")

DEMAND_COLUMNS = (
    *("size", "collective_group", "collective_group_start"),
    *(f"demand_{name}" for name in _DEMAND),
)
DEMAND_SCALARS = ("collective_root", "message_units")


def demand_arrays(
    collective: Collective, demands: Sequence[Demand]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """What is to be said of a collective beside its name; of a custom one, its demand."""
    if collective.name == CUSTOM:
        (demand,) = demands
        yield "message_units", np.array(demand.message_units, dtype=np.int64)
        for name in _DEMAND:
            yield f"demand_{name}", getattr(demand, name)
    if collective.root is not None:
        yield "collective_root", np.array(collective.root, dtype=np.int64)
    if collective.sizes is not None:
        yield "size", np.ravel(np.array(collective.sizes, dtype=np.int64))
    if collective.groups is not None:
        yield "collective_group", np.concatenate([np.array(each) for each in collective.groups])
        starts = np.cumsum([0, *map(len, collective.groups)], dtype=np.int64)
        yield "collective_group_start", starts


def demanded(arrays: Mapping[str, NDArray[Any]], num_hosts: int) -> Collective | Demand:
    """What arrays demand of so many hosts; ValueError for what is no collective."""
    name = str(arrays["collective"])
    if name == CUSTOM:
        return _demand(arrays, num_hosts)
    if name == "alltoall" and num_hosts**2 > MAX_PIECES:
        raise ValueError(f"{num_hosts} hosts: an all-to-all has at most {MAX_PIECES} pieces")
    groups = _parts(arrays, "collective_group")
    sizes = arrays["size"].tolist() if "size" in arrays else None
    if sizes is not None and name == "alltoall":
        ranks = isqrt(len(sizes))
        sizes = [sizes[at : at + ranks] for at in range(0, len(sizes), max(ranks, 1))]
    root = int(arrays["collective_root"]) if "collective_root" in arrays else None
    if (root, sizes, groups) == (None, None, None):
        return Collective.parse(name)
    return Collective(name, root, sizes, groups)


def _demand(arrays: Mapping[str, NDArray[Any]], num_hosts: int) -> Demand:
    for array in (*(f"demand_{column}" for column in _DEMAND), "message_units"):
        if array not in arrays:
            raise ValueError(f"the array {array} is missing: a custom collective needs it")
    kind, root, start, weight, group, group_start, member = (
        arrays[f"demand_{column}"] for column in _DEMAND
    )
    units = int(arrays["message_units"])
    return Demand(num_hosts, kind, root, start, weight, group, group_start, member, units)


def _parts(arrays: Mapping[str, NDArray[Any]], name: str) -> list[list[int]] | None:
    """A column cut up where another says, None if both are missing."""
    column, start = arrays.get(name), arrays.get(f"{name}_start")
    if column is None and start is None:
        return None
    if column is None or start is None or not len(start):
        raise ValueError(f"the arrays {name} and {name}_start belong together")
    if start[0] != 0 or start[-1] != len(column) or (np.diff(start.astype(np.int64)) < 1).any():
        raise ValueError(f"{name}_start does not cut up {name}")
    return [part.tolist() for part in np.split(column, start[1:-1].astype(np.int64))]


_ENDS = ("tail", "head")
_SENDS = ("root", "lo", "hi", "link", "step")
_ROWS = (*_SENDS, "phase")
_LINKS = (*_ENDS, "link_speed")
_INTERVALS = ("up_link", "up_first", "up_last")
_CIRCUITS = ("plane", *_INTERVALS, "pauses")
_PARAMETERS = (*DEMAND_COLUMNS[:3], "collective_root", "num_hosts")
_ABLE = ("multicast", "aggregate")
LAYOUT = Layout(
    what="a schedule",
    columns=(*_LINKS, *_ROWS, *_CIRCUITS, *_ABLE, *DEMAND_COLUMNS),
    scalars=("num_chunks", "num_hosts", *DEMAND_SCALARS),
    texts=("collective",),
    required=(*_ENDS, *_SENDS, "num_chunks", "collective"),
    alike=(_LINKS, _ROWS, ("tail", "plane"), _INTERVALS),
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Archive:
    """What an archive holds: a schedule, its circuits if they change, what its switches can do."""

    schedule: Schedule
    circuits: CircuitProgram | None
    abilities: Abilities


def write_schedule(
    file: IO[bytes],
    schedule: Schedule,
    circuits: CircuitProgram | None = None,
    abilities: Abilities = FORWARD_ONLY,
) -> None:
    """Write a schedule with its topology, its circuits if they change, what its switches can do.

    The same values always give the same bytes. Raises ValueError if the circuits are not those of
    the schedule's links.
    """
    write_npz(file, schedule_arrays(schedule, circuits, abilities))


def schedule_arrays(
    schedule: Schedule, circuits: CircuitProgram | None = None, abilities: Abilities = FORWARD_ONLY
) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, by name and in their order; ValueError as ``write_schedule``."""
    if circuits is not None and circuits.topology != schedule.topology:
        raise ValueError("the links of the schedule are not those of the program's circuits")
    topology = schedule.topology
    arrays: dict[str, NDArray[Any]] = {"tail": topology.tail, "head": topology.head}
    if topology.link_speed is not None:
        arrays["link_speed"] = topology.link_speed
    arrays.update(zip(_ROWS, schedule.columns(), strict=False))
    arrays["num_chunks"] = np.array(schedule.num_chunks, dtype=np.int64)
    arrays["collective"] = np.array(schedule.collective.name)
    is_custom = schedule.collective.name == CUSTOM
    if is_custom or schedule.num_hosts < topology.num_nodes:
        arrays["num_hosts"] = np.array(schedule.num_hosts, dtype=np.int64)
    arrays.update(demand_arrays(schedule.collective, schedule.demands))
    for name in _ABLE:
        if getattr(abilities, name):
            arrays[name] = np.array(sorted(getattr(abilities, name)), dtype=np.int64)
    if circuits is not None:
        arrays.update(zip(_CIRCUITS, circuits.columns(), strict=True))
    return arrays


def read_archive(path: Path) -> Archive:
    """The schedule of an archive, which may come from anyone, and its circuits if they change.

    Raises OSError if the file cannot be read and ValueError for anything that is not a schedule;
    whether it is a correct one is for ``verification`` to say.
    """
    return read_npz(path, LAYOUT, check_lengths, archive_of)


def check_lengths(lengths: Mapping[str, int]) -> None:
    """ValueError for arrays of lengths that no archive has."""
    missing = [name for name in _CIRCUITS if name not in lengths]
    if 0 < len(missing) < len(_CIRCUITS):
        raise ValueError(f"the array {missing[0]} is missing: circuits that change need it")
    links = lengths["tail"]
    if not 1 <= links <= MAX_LINKS:
        raise ValueError(f"{links} links: a topology has from 1 to {MAX_LINKS}")


def archive_of(arrays: Mapping[str, NDArray[Any]]) -> Archive:
    """What arrays by name hold; ValueError for what is no schedule."""
    ends = [arrays[name] for name in _ENDS]
    num_nodes = max(int(end.max()) for end in ends) + 1
    plain = not any(name in arrays for name in _PARAMETERS)
    # Where everybody sends and receives, every node has a link in; else a link at least.
    if num_nodes > len(ends[0]) * (1 if plain else 2):
        what = "in-link" if plain else "link"
        raise ValueError(
            f"{num_nodes} nodes but only {len(ends[0])} links: some node has no {what}"
        )
    topology = Topology(num_nodes, ends[0], ends[1], arrays.get("link_speed"))
    sends = len(arrays["step"])
    last = int(arrays["step"].max(initial=0))
    if last > sends:
        raise ValueError(f"the last step is {last}, but there are only {sends} sends")
    columns = [arrays[name] for name in _ROWS if name in arrays]
    num_hosts = int(arrays.get("num_hosts", num_nodes))
    if not 1 <= num_hosts <= num_nodes:
        raise ValueError(f"{num_hosts} hosts of {num_nodes} nodes")
    collective = demanded(arrays, num_hosts)
    chunks = int(arrays["num_chunks"])
    schedule = Schedule(topology, collective, chunks, *columns, num_hosts=num_hosts)
    abilities = Abilities(*(_switches(arrays, name, schedule) for name in _ABLE))
    if "plane" not in arrays:
        return Archive(schedule, None, abilities)
    circuits = CircuitProgram(topology, *(arrays[name] for name in _CIRCUITS))
    return Archive(schedule, circuits, abilities)


def _switches(arrays: Mapping[str, NDArray[Any]], name: str, schedule: Schedule) -> frozenset[int]:
    switches = arrays.get(name, np.zeros(0, dtype=np.int64)).tolist()
    for node in switches:
        if not schedule.num_hosts <= node < schedule.topology.num_nodes:
            raise ValueError(f"{name} names node {node}, which is no switch")
    return frozenset(switches)


# Messages as npz archives: integer columns ``step``, ``source``, ``target``, ``item``, ``adds``.
#
# Scalars beside them are ``num_ranks``, ``num_items`` and, where there is one,
# ``collective_root``; the text ``collective`` names the collective. ``numpy.load`` reads it.


MAX_SENDS = 2**28
COLUMNS = ("step", "source", "target", "item", "adds")
MESSAGES_LAYOUT = Layout(
    what="messages",
    columns=COLUMNS,
    scalars=("num_ranks", "num_items", "collective_root"),
    texts=("collective",),
    required=(*COLUMNS, "num_ranks", "num_items", "collective"),
    alike=(COLUMNS,),
)


def write_messages(file: IO[bytes], messages: Messages) -> None:
    """Write messages; the same values always give the same bytes."""
    write_npz(file, message_arrays(messages))


def message_arrays(messages: Messages) -> dict[str, NDArray[Any]]:
    """The arrays of an archive, by name and in their order."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(messages, name) for name in COLUMNS}
    arrays["adds"] = messages.adds.astype(np.int8)
    arrays["num_ranks"] = np.array(messages.num_ranks, dtype=np.int64)
    arrays["num_items"] = np.array(messages.num_items, dtype=np.int64)
    arrays["collective"] = np.array(messages.collective.name)
    if messages.collective.root is not None:
        arrays["collective_root"] = np.array(messages.collective.root, dtype=np.int64)
    return arrays


def read_messages(path: Path) -> Messages:
    """The messages of an archive, which may come from anyone.

    Raises OSError if the file cannot be read and ValueError for anything that is no messages;
    whether they do what is demanded is for ``verification.messages`` to say.
    """
    return read_npz(path, MESSAGES_LAYOUT, check_message_lengths, messages_of)


def check_message_lengths(lengths: Mapping[str, int]) -> None:
    """ValueError for arrays of lengths that no archive has."""
    if lengths["step"] > MAX_SENDS:
        raise ValueError(f"{lengths['step']} sends: at most {MAX_SENDS} are read")


def messages_of(arrays: Mapping[str, NDArray[Any]]) -> Messages:
    """What arrays by name hold; ValueError for what is no messages."""
    root = int(arrays["collective_root"]) if "collective_root" in arrays else None
    name, adds = str(arrays["collective"]), arrays["adds"]
    if adds.size and not (adds.min() >= 0 and adds.max() <= 1):
        raise ValueError("adds is 1 where a receiver adds, else 0")
    step, source, target, item = (arrays[name] for name in COLUMNS[:-1])
    collective = Collective.parse(name) if root is None else Collective(name, root)
    ranks, items = int(arrays["num_ranks"]), int(arrays["num_items"])
    return Messages(ranks, collective, items, step, source, target, item, adds.astype(bool))
