"""The formats of programs by name: what is listed here can be exported, imported and verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.formats.programs.export import ProgramFormat

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.book import Plan
    from ocs_codesign.rank_program import RankProgram

FORMATS: dict[str, ProgramFormat] = {}

_LONGEST_MARK = 4096


def told_format(path: Path) -> str | None:
    """The format that a file tells by its suffix and its beginning, None if it tells none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(_LONGEST_MARK)
    for name, one in FORMATS.items():
        by_name = one.read is not None and one.suffix != "" and path.name.endswith(one.suffix)
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
