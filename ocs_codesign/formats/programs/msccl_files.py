"""What leaves as MSCCL XML and MSCCL++ plans: each file read again and run by the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.formats.programs.msccl import write_msccl
from ocs_codesign.formats.programs.msccl_programs import parse_msccl, read_msccl
from ocs_codesign.formats.programs.mscclpp import write_mscclpp
from ocs_codesign.formats.programs.mscclpp_programs import parse_mscclpp
from ocs_codesign.verification.rank_programs import check_program

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.formats.programs.export import Contents, Export
    from ocs_codesign.rank_program import RankProgram

_FIFO_DEPTH = 2
"""How many messages a link of protocol Simple holds, in which all is written."""


def export_msccl(export: Export) -> Contents:
    """The MSCCL file of a plan for microsoft's loader; ValueError for what it does not take."""
    return _msccl(export, "msccl", ".msccl.xml")


def export_rccl(export: Export) -> Contents:
    """The MSCCL file of a plan for RCCL's loader; ValueError for what it does not take."""
    return _msccl(export, "rccl", ".rccl.xml")


def export_mscclpp(export: Export) -> Contents:
    """The MSCCL++ execution plan of a plan; ValueError for what a plan cannot hold."""
    data = write_mscclpp(export.program, export.name).encode()
    name = f"{export.name}.mscclpp.json"
    _check(parse_mscclpp(data, name), name)
    return {name: data}


def read_rccl(path: Path) -> RankProgram:
    """The program of an MSCCL file that RCCL's loader takes; ValueError for what it does not."""
    return read_msccl(path, dialect="rccl")


def _msccl(export: Export, dialect: str, suffix: str) -> Contents:
    program = export.program
    data = write_msccl(program, export.name, dialect=dialect).encode()
    name = export.name + suffix
    options = {"collective": program.collective, "in_place": program.in_place}
    _check(parse_msccl(data, name, dialect=dialect, **options), name)
    return {name: data}


def _check(program: RankProgram, name: str) -> None:
    """RuntimeError if what was written does not do what is demanded."""
    witness = check_program(program, fifo_depth=_FIFO_DEPTH).witness
    if witness is not None:
        raise RuntimeError(f"{name} fails: {witness}")
