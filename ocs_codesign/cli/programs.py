"""Programs of others on the command line: verified, and saved as designs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.formats.programs.export import CheckedFile
    from ocs_codesign.formats.programs.imports import Imported

NEGATIVE = 1
IMPORTED = "imported"
"""The maker of a design that came from others."""


def verify_program(path: str, format_name: str, json_path: str | None) -> int:
    """Say whether a program in a file does what it says, and what it costs."""
    from ocs_codesign.formats.programs.imports import imported
    from ocs_codesign.formats.programs.registry import FORMATS

    check = FORMATS[format_name].check
    if check is not None:
        return _checked(check, Path(path), format_name, json_path)
    with progress("Verifying"):
        found = imported(Path(path), format_name)
    return _shown(found, json_path)


def _checked(
    check: Callable[[Path], CheckedFile], path: Path, format_name: str, json_path: str | None
) -> int:
    from ocs_codesign.answers.programs import checked_json, checked_sections

    with progress("Checking"):
        found = check(path)
    emit(checked_json(found, format_name), json_path, checked_sections(found, format_name))
    return 0 if found.witness is None else NEGATIVE


def import_program(
    path: str, format_name: str, directory: str | None, json_path: str | None
) -> int:
    """The same, and save it as a design if it is right."""
    check_outputs(json_path)
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
    return _shown(found, json_path)


def _shown(found: Imported, json_path: str | None) -> int:
    from ocs_codesign.answers.programs import imported_json, imported_sections

    emit(imported_json(found), json_path, imported_sections(found))
    return 0 if found.witness is None else NEGATIVE
