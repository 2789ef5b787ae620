"""Programs of others on the command line: verified, and saved as designs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.answers.sections import Section

NEGATIVE = 1
IMPORTED = "imported"
"""The maker of a design that came from others."""


def verify_program(path: str, format_name: str, json_path: str | None) -> int:
    """Say whether a program in a file does what it says, and what it costs."""
    with progress("Verifying"):
        answer, sections = _verified(Path(path), format_name)
    emit(answer, json_path, sections)
    return 0 if answer["ok"] else NEGATIVE


def verify_export(directory: str, json_path: str | None) -> int:
    """The same of every plan in a directory that ``export`` wrote."""
    from ocs_codesign.formats.programs.exports import programs_in

    answers: list[dict[str, Any]] = []
    shown: list[Section] = []
    with progress("Verifying") as told:
        files = programs_in(directory)
        for path, format_name in files:
            answer, sections = _verified(path, format_name)
            name = path.relative_to(directory).as_posix()
            answers.append({"file": name, **answer})
            shown += [f"{name}:", *sections, ""]
            told.tell(len(answers), len(files))
    valid = all(answer["ok"] for answer in answers)
    emit({"ok": valid, "files": answers}, json_path, shown)
    return 0 if valid else NEGATIVE


def _verified(path: Path, format_name: str) -> tuple[dict[str, Any], list[Section]]:
    """What is found of a file, as JSON and as text; checked for what it has if it has no data."""
    from ocs_codesign.answers.programs import (
        checked_json,
        checked_sections,
        imported_json,
        imported_sections,
    )
    from ocs_codesign.formats.programs.imports import imported
    from ocs_codesign.formats.programs.registry import FORMATS

    check = FORMATS[format_name].check
    if check is None:
        found = imported(path, format_name)
        return imported_json(found), list(imported_sections(found))
    checked = check(path)
    return checked_json(checked, format_name), list(checked_sections(checked, format_name))


def import_program(
    path: str, format_name: str, directory: str | None, json_path: str | None
) -> int:
    """The same, and save it as a design if it is right."""
    check_outputs(json_path)
    from ocs_codesign.answers.programs import imported_json, imported_sections
    from ocs_codesign.formats.designs.design_files import check_design_directory, save_design
    from ocs_codesign.formats.programs.imports import imported

    if directory is not None:
        check_design_directory(directory)
    with progress("Reading the schedule"):
        found = imported(Path(path), format_name)
        if directory is not None and found.witness is None and found.schedule is not None:
            from ocs_codesign.design import verified

            design = verified(None, found.schedule, IMPORTED)
            save_design(design, directory, Path(path).name)
    emit(imported_json(found), json_path, imported_sections(found))
    return 0 if found.witness is None else NEGATIVE
