"""The formats of programs by name: what is listed here can be exported, imported and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.formats.file_format import later
from ocs_codesign.formats.programs.export import ProgramFormat

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.book import Plan
    from ocs_codesign.rank_program import RankProgram

_HERE = "ocs_codesign.formats.programs"
_ANYONE = "everyone: all is exact, and the keys are documented"

FORMATS: dict[str, ProgramFormat] = {
    "msccl": ProgramFormat(
        "MSCCL XML, of microsoft's loader",
        "msccl-tools and research; the runtime is no longer kept up",
        write=later(f"{_HERE}.msccl_files.export_msccl"),
        read=later(f"{_HERE}.msccl_programs.read_msccl"),
        suffix=".msccl.xml",
        marks=(b"<algo",),
    ),
    "rccl": ProgramFormat(
        "MSCCL XML, of RCCL's loader",
        "RCCL up to the release that left it out in 2026",
        write=later(f"{_HERE}.msccl_files.export_rccl"),
        read=later(f"{_HERE}.msccl_files.read_rccl"),
        suffix=".rccl.xml",
        marks=(b"<algo",),
    ),
    "mscclpp": ProgramFormat(
        "MSCCL++ execution plan",
        "the executor of MSCCL++",
        write=later(f"{_HERE}.msccl_files.export_mscclpp"),
        read=later(f"{_HERE}.mscclpp_programs.read_mscclpp"),
        suffix=".mscclpp.json",
        marks=(b'"collective"',),
    ),
    "program-json": ProgramFormat(
        "native JSON of a program of ranks",
        _ANYONE,
        write=later(f"{_HERE}.native.write_program_json"),
        read=later(f"{_HERE}.native.read_json"),
        suffix=".program.json",
        marks=(b'"ocs-program"',),
    ),
    "program-npz": ProgramFormat(
        "native npz of a program of ranks",
        _ANYONE,
        write=later(f"{_HERE}.native.write_program_archive"),
        read=later(f"{_HERE}.native.read_native_archive"),
        suffix=".program.npz",
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
        write=later(f"{_HERE}.sends_csv_writing.write_sends"),
        read=later(f"{_HERE}.sends_csv.read_sends"),
        suffix=".sends.csv",
    ),
    "chakra": ProgramFormat(
        "Chakra execution traces",
        "ASTRA-sim and other tools of MLCommons Chakra",
        write=later(f"{_HERE}.chakra.files.write_chakra"),
        check=later(f"{_HERE}.chakra.files.checked_traces"),
        suffix=".et",
    ),
    "astra-sim": ProgramFormat(
        "inputs of ASTRA-sim",
        "ASTRA-sim, its congestion-aware analytical build: README.txt has the command",
        write=later(f"{_HERE}.astra_sim.write_astra_sim"),
    ),
    "nccl-graph": ProgramFormat(
        "NCCL graph XML",
        "NCCL, by NCCL_GRAPH_FILE: rings inside one node",
        write=later(f"{_HERE}.nccl_graph.write_graph_file"),
        check=later(f"{_HERE}.nccl_graph.checked_graph_file"),
        suffix=".xml",
        marks=(b"<graphs",),
    ),
    "nccl-tuner": ProgramFormat(
        "NCCL tuner CSV",
        "NCCL's example tuner plugin, by NCCL_TUNER_CONFIG_FILE",
        write_book=later(f"{_HERE}.nccl_tuner.write_tuner"),
        check=later(f"{_HERE}.nccl_tuner.checked_rules"),
        suffix=".tuner.csv",
    ),
}
"""Every format of programs; one whose suffix is the end of another's comes after it."""

_LONGEST_MARK = 4096


def told_format(path: Path) -> str | None:
    """The format that a file tells by its suffix and its beginning, None if it tells none."""
    if not path.is_file():
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
