"""Exports as answers: which files were written, of which plan, and who reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.programs.export import Export, ProgramFormat


def export_json(
    format_name: str, exports: Sequence[Export], contents: Mapping[str, bytes], directory: str
) -> dict[str, Any]:
    """What was exported to where; ``of`` is also in the directory, as ``export.json``."""
    return {
        "of": {
            "to": format_name,
            "plans": [
                {
                    "name": one.name,
                    "collective": one.program.collective.name,
                    "ranks": one.program.num_ranks,
                    "operations": one.program.num_operations,
                    "in_place": one.program.in_place,
                    "message_bytes": one.message_bytes,
                }
                for one in exports
            ],
        },
        "files": {name: len(content) for name, content in sorted(contents.items())},
        "out": directory,
    }


def export_sections(answer: Mapping[str, Any], form: ProgramFormat) -> Iterator[Section]:
    """The same where people read it."""
    plans, files = answer["of"]["plans"], answer["files"]
    size = format_size(sum(files.values()))
    yield f"Exported to {answer['out']}: {counted(len(files), 'file')} of {form.description}."
    first = plans[0] if plans else None
    yield Facts(
        ("for", form.made_for),
        ("plans", len(plans) if len(plans) > 1 else None),
        ("collective", first and first["collective"]),
        ("ranks", first and first["ranks"]),
        ("operations", f"{sum(plan['operations'] for plan in plans):,}" if plans else None),
        ("size", size),
    )
    yield ""
    rows = [(format_size(num_bytes), name) for name, num_bytes in files.items()]
    yield Table(("size", "file"), rows, numbers=1, texts=1).shortened("files")
