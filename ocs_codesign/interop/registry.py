"""The formats of programs by name: what is listed here can be exported, imported and verified."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from ocs_codesign.core.registry import later

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Book, Plan, RankProgram


# What leaves: a plan with the program of ranks that it was lowered to, and for what message.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """A verified plan, its program, and what formats ask beside it.

    ``name`` is a plain name for files and algorithms. The plan runs on ``network``, of which a unit
    of bandwidth is ``unit_Bps`` bytes a second, None where it has no unit; M, the buffer of a rank,
    is ``message_bytes``, None if it was not said.
    """

    name: str
    plan: Plan
    program: RankProgram
    network: Network
    unit_Bps: Fraction | None = None  # noqa: N815 - units keep their case
    message_bytes: int | None = None

    def checked_message_bytes(self) -> int:
        """M; ValueError if it was not said."""
        if self.message_bytes is None:
            raise ValueError("this format has sizes in bytes: --message says which")
        return self.message_bytes

    def checked_unit_Bps(self) -> Fraction:  # noqa: N802
        """Bytes a second of a unit of bandwidth; ValueError if it was not said."""
        if self.unit_Bps is None:
            raise ValueError("this format has bandwidths: --bandwidth says which")
        return self.unit_Bps


Contents: TypeAlias = "Mapping[str, bytes]"
"""Files by their names relative to a directory."""


@final
@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a check of files that carry no data found: facts by name, and what is wrong, if it is.

    ``limit`` says in words what the check cannot see.
    """

    facts: tuple[tuple[str, int | str], ...]
    limit: str
    witness: str | None = None


@final
@dataclass(frozen=True, slots=True)
class ProgramFormat:
    """A way for plans and programs to leave, and to come.

    ``write`` gives the files of one plan, ``write_book`` those of a whole book at once, for formats
    that choose by size; ``read`` gives the program in a file or directory, or the plan where the
    format is one of plans; ``check`` is for formats that carry no data, so that what they hold is
    no plan. What they cannot take is a ValueError with the rule. A file whose name ends with
    ``suffix`` and begins with one of ``marks`` is told to be of this format. ``made_for`` says who
    reads it. ``keeps_operations``: its files have those of the program, one by one.
    """

    description: str
    made_for: str
    write: Callable[[Export], Contents] | None = None
    write_book: Callable[[Book, str], Contents] | None = None
    read: Callable[[Path], RankProgram | Plan] | None = None
    check: Callable[[Path], CheckedFile] | None = None
    suffix: str = ""
    marks: tuple[bytes, ...] = ()
    keeps_operations: bool = False


_HERE = "ocs_codesign.interop"
_ANYONE = "everyone: all is exact, and the keys are documented"

FORMATS: dict[str, ProgramFormat] = {
    "msccl": ProgramFormat(
        "MSCCL XML, of microsoft's loader",
        "msccl-tools and research; the runtime is no longer kept up",
        write=later(f"{_HERE}.msccl.write.export_msccl"),
        read=later(f"{_HERE}.msccl.programs.read_msccl"),
        suffix=".msccl.xml",
        keeps_operations=True,
        marks=(b"<algo",),
    ),
    "rccl": ProgramFormat(
        "MSCCL XML, of RCCL's loader",
        "RCCL up to the release that left it out in 2026",
        write=later(f"{_HERE}.msccl.write.export_rccl"),
        read=later(f"{_HERE}.msccl.write.read_rccl"),
        suffix=".rccl.xml",
        keeps_operations=True,
        marks=(b"<algo",),
    ),
    "mscclpp": ProgramFormat(
        "MSCCL++ execution plan",
        "the executor of MSCCL++",
        write=later(f"{_HERE}.msccl.write.export_mscclpp"),
        read=later(f"{_HERE}.mscclpp.programs.read_mscclpp"),
        suffix=".mscclpp.json",
        marks=(b'"collective"',),
    ),
    "program-json": ProgramFormat(
        "native JSON of a program of ranks",
        _ANYONE,
        write=later(f"{_HERE}.native.write_program_json"),
        read=later(f"{_HERE}.native.read_json"),
        suffix=".program.json",
        keeps_operations=True,
        marks=(b'"ocs-program"',),
    ),
    "program-npz": ProgramFormat(
        "native npz of a program of ranks",
        _ANYONE,
        write=later(f"{_HERE}.native.write_program_archive"),
        read=later(f"{_HERE}.native.read_native_archive"),
        suffix=".program.npz",
        keeps_operations=True,
    ),
    "json": ProgramFormat(
        "native JSON of a schedule",
        _ANYONE,
        write=later(f"{_HERE}.native.write_json"),
        read=later(f"{_HERE}.native.read_json"),
        suffix=".json",
        marks=(b'"ocs-schedule"', b'"ocs-messages"', b'"ocs-program"'),
    ),
    "npz": ProgramFormat(
        "native npz of a schedule",
        "numpy, and everyone: all is exact, and the arrays are documented",
        write=later(f"{_HERE}.native.write_archive"),
        read=later(f"{_HERE}.native.read_native_archive"),
        suffix=".messages.npz",
    ),
    "csv": ProgramFormat(
        "CSV of sends",
        "spreadsheets, scripts, people",
        write=later(f"{_HERE}.sends_csv.write_sends"),
        read=later(f"{_HERE}.sends_csv.read_sends"),
        suffix=".sends.csv",
    ),
    "chakra": ProgramFormat(
        "Chakra execution traces",
        "ASTRA-sim and other tools of MLCommons Chakra",
        write=later(f"{_HERE}.chakra.check.write_chakra"),
        check=later(f"{_HERE}.chakra.check.checked_traces"),
        suffix=".et",
    ),
    "astra-sim": ProgramFormat(
        "inputs of ASTRA-sim",
        "ASTRA-sim, its congestion-aware analytical build: README.txt has the command",
        write=later(f"{_HERE}.astra_sim.write_astra_sim"),
    ),
    "goal": ProgramFormat(
        "GOAL, messages and times of ranks",
        "LogGOPSim and ATLAHS",
        write=later(f"{_HERE}.goal.write_goal"),
        check=later(f"{_HERE}.goal.checked_goal"),
        suffix=".goal",
        marks=(b"num_ranks",),
    ),
    "nccl-graph": ProgramFormat(
        "NCCL graph XML",
        "NCCL, by NCCL_GRAPH_FILE: rings inside one node",
        write=later(f"{_HERE}.nccl.graph.write_graph_file"),
        check=later(f"{_HERE}.nccl.graph.checked_graph_file"),
        suffix=".xml",
        marks=(b"<graphs",),
    ),
    "nccl-tuner": ProgramFormat(
        "NCCL tuner CSV",
        "NCCL's example tuner plugin, by NCCL_TUNER_CONFIG_FILE",
        write_book=later(f"{_HERE}.nccl.tuner.write_tuner"),
        check=later(f"{_HERE}.nccl.tuner.checked_rules"),
        suffix=".tuner.csv",
    ),
    "nccl-plugin": ProgramFormat(
        "NCCL tuner plug-in in C",
        "NCCL, by NCCL_TUNER_PLUGIN, once cc has compiled it",
        write_book=later(f"{_HERE}.nccl.plugin.write_plugin"),
    ),
}
"""Every format of programs; one whose suffix is the end of another's comes after it."""

_LONGEST_MARK = 4096


def told_format(path: Path) -> str | None:
    """The format that a file tells by its suffix and its beginning, None if it tells none."""
    if not os.path.isfile(path):  # a recipe may be too long for a path
        return None
    with path.open("rb") as file:
        start = file.read(_LONGEST_MARK)
    for name, one in FORMATS.items():
        is_known = one.read is not None or one.check is not None
        by_name = is_known and one.suffix != "" and path.name.endswith(one.suffix)
        if by_name and (not one.marks or any(mark in start for mark in one.marks)):
            return name
    return None


def read_program(path: Path, name: str) -> RankProgram | Plan:
    """What a file or directory of the format of that name holds; nothing is verified yet.

    Raises OSError if it cannot be read and ValueError, with the file and the rule, if it is not of
    the format, or the format is one that cannot be read.
    """
    able = [known for known, one in FORMATS.items() if one.read is not None]
    reader = FORMATS[name].read if name in FORMATS else None
    if reader is None:
        raise ValueError(f"format is {name!r}: one that can be read is {', '.join(able)}")
    return reader(path)
