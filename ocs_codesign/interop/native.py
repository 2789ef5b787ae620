"""Our own formats, which carry everything: plans and programs as npz archives and as JSON.

``docs/formats/native.md`` has the keys. Both twins have the same names for the same arrays, and
``numpy.load`` reads the archives.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.npz import (
    MAX_JSON_BYTES,
    JsonTwin,
    Layout,
    npz_names,
    read_npz,
    read_twin,
    write_npz,
    write_twin,
)
from ocs_codesign.core.plans import COLUMNS, RankProgram
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.schedules.files import archive
from ocs_codesign.schedules.files.archive import (
    DEMAND_COLUMNS,
    DEMAND_SCALARS,
    demand_arrays,
    demanded,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.plans import Plan
    from ocs_codesign.interop.registry import Contents, Export
    from ocs_codesign.schedules.files.archive import Archive


SCHEDULE, MESSAGES, PROGRAM = "ocs-schedule", "ocs-messages", "ocs-program"
MAX_OPERATIONS = 2**28

_LISTS = ("need_start", "need")
_PROGRAM = Layout(
    what="a program of ranks",
    columns=(*COLUMNS, *_LISTS, "scratch", *DEMAND_COLUMNS),
    scalars=("chunks_per_unit", "in_place", *DEMAND_SCALARS),
    texts=("collective",),
    required=(*COLUMNS, *_LISTS, "scratch", "chunks_per_unit", "in_place", "collective"),
    alike=(COLUMNS,),
)


def program_arrays(program: RankProgram) -> dict[str, NDArray[Any]]:
    """The arrays of a program, by name and in their order."""
    arrays: dict[str, NDArray[Any]] = {
        "collective": np.array(program.collective.name),
        **dict(demand_arrays(program.collective, program.demands)),
        "chunks_per_unit": np.array(program.chunks_per_unit, dtype=np.int64),
        "in_place": np.array(int(program.in_place), dtype=np.int64),
        "scratch": program.scratch,
    }
    names = (*COLUMNS, *_LISTS)
    return arrays | {name: getattr(program, name) for name in names}


def program_of(arrays: Mapping[str, NDArray[Any]]) -> RankProgram:
    """What arrays by name hold; ValueError for what is no program."""
    ranks, in_place = len(arrays["scratch"]), int(arrays["in_place"])
    if in_place not in (0, 1):
        raise ValueError(f"in_place is {in_place}: it is 0 or 1")
    columns: dict[str, ArrayLike] = {name: arrays[name] for name in COLUMNS}
    return RankProgram(
        demanded(arrays, ranks),
        ranks,
        int(arrays["chunks_per_unit"]),
        bool(in_place),
        arrays["scratch"],
        columns,
        *(arrays[name] for name in _LISTS),
    )


def _check_lengths(lengths: Mapping[str, int]) -> None:
    if lengths["rank"] > MAX_OPERATIONS:
        raise ValueError(f"{lengths['rank']} operations: at most {MAX_OPERATIONS} are read")
    if not 1 <= lengths["scratch"] <= max(2 * lengths["rank"], 2):
        raise ValueError(
            f"{lengths['scratch']} ranks, but {lengths['rank']} operations: most ranks do nothing"
        )


def _check_nodes(found: Archive, extra: Mapping[str, int]) -> None:
    nodes = found.schedule.topology.num_nodes
    if extra["num_nodes"] != nodes:
        raise ValueError(f"num_nodes is {extra['num_nodes']}, but links name nodes to {nodes - 1}")


TWINS: dict[str, JsonTwin[Any]] = {
    SCHEDULE: JsonTwin(
        archive.LAYOUT,
        archive.check_lengths,
        archive.archive_of,
        ("collective", "num_nodes", "num_chunks"),
        ("num_nodes",),
        _check_nodes,
    ),
    MESSAGES: JsonTwin(
        archive.MESSAGES_LAYOUT,
        archive.check_message_lengths,
        archive.messages_of,
        ("collective", "collective_root", "num_ranks", "num_items"),
    ),
    PROGRAM: JsonTwin(
        _PROGRAM,
        _check_lengths,
        program_of,
        ("collective", "collective_root", "message_units", "chunks_per_unit", "in_place"),
    ),
}
"""The formats of JSON by what their files call themselves."""


def write_json(export: Export) -> Contents:
    """A plan as ``NAME.json``."""
    return {f"{export.name}.json": plan_json(export.plan)}


def plan_json(plan: Plan) -> bytes:
    """A schedule or messages as JSON; ValueError if they are too many for it."""
    if isinstance(plan, Messages):
        return write_twin(MESSAGES, TWINS[MESSAGES], archive.message_arrays(plan))
    arrays = archive.schedule_arrays(plan)
    return write_twin(SCHEDULE, TWINS[SCHEDULE], arrays, num_nodes=plan.topology.num_nodes)


def write_archive(export: Export) -> Contents:
    """A schedule as ``NAME.npz``, messages as ``NAME.messages.npz``."""
    file = io.BytesIO()
    if isinstance(export.plan, Messages):
        archive.write_messages(file, export.plan)
        return {f"{export.name}.messages.npz": file.getvalue()}
    archive.write_schedule(file, export.plan)
    return {f"{export.name}.npz": file.getvalue()}


def write_program_json(export: Export) -> Contents:
    """The program of a plan as ``NAME.program.json``."""
    return {f"{export.name}.program.json": program_json(export.program)}


def program_json(program: RankProgram) -> bytes:
    """A program as JSON; ValueError if it is too long for it."""
    return write_twin(PROGRAM, TWINS[PROGRAM], program_arrays(program))


def write_program_archive(export: Export) -> Contents:
    """The program of a plan as ``NAME.program.npz``."""
    file = io.BytesIO()
    write_npz(file, program_arrays(export.program))
    return {f"{export.name}.program.npz": file.getvalue()}


def read_json(path: Path) -> RankProgram | Plan:
    """The plan or program in a file of JSON, which may come from anyone.

    Raises OSError if the file cannot be read and ValueError, with the file and the rule, for
    anything else; whether what is read is right is for ``verification`` to say.
    """
    return parse_json(read_limited(path, MAX_JSON_BYTES), str(path))


def parse_json(data: bytes, name: str) -> RankProgram | Plan:
    """The plan or program of a content; errors begin with the name."""
    found = read_twin(data, name, TWINS)
    return found if isinstance(found, (RankProgram, Messages)) else _plain(found, name)


def read_native_archive(path: Path) -> RankProgram | Plan:
    """The plan or program in an npz archive, told apart by its arrays; errors as of the JSON."""
    names = npz_names(path, "a plan or a program")
    if "need_start" in names:
        return read_npz(path, _PROGRAM, _check_lengths, program_of)
    if "adds" in names:
        return archive.read_messages(path)
    return _plain(archive.read_archive(path), str(path))


def _plain(found: Archive, name: str) -> Schedule:
    """A schedule as it is; ValueError if it needs circuits that change or switches that add."""
    if found.circuits is not None:
        raise ValueError(f"{name}: its circuits change while it runs: verify reads it as a design")
    return found.schedule
