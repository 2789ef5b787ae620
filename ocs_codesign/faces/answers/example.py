"""The example files as an answer: what each is, and a command to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.faces.answers.declared import lines_of, made
from ocs_codesign.faces.answers.sections import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocs_codesign.faces.answers.sections import Section


EXAMPLES = {
    name: (what, command)
    for name, what, command in (line.split(" | ") for line in lines_of("examples.txt"))
}
"""What every file is, and a command that reads it."""


def _files(_: str, written: Iterable[str]) -> list[dict[str, Any]]:
    """The files and which of them were written now."""
    new = {Path(path).name for path in written}
    return [
        {"file": name, "what": what, "command": f"ocs-codesign {command}", "new": name in new}
        for name, (what, command) in EXAMPLES.items()
    ]


made("example.example", files=_files)


def example_sections(directory: str, written: Iterable[str]) -> Iterator[Section]:
    """The same to read."""
    del written
    rows = [(name, what) for name, (what, _) in EXAMPLES.items()]
    yield Table(("file", "what it is"), rows, texts=1)
    yield "\nTry:"
    yield from (f"ocs-codesign {command}" for _, command in EXAMPLES.values())
    yield f"\nThe files are in {directory}"
