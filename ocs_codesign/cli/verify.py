"""``ocs-codesign verify``: is this schedule right, and what does it really cost?"""

from __future__ import annotations

from pathlib import Path

import click

from ocs_codesign.cli.choices import LiveChoice, program_formats
from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.programs import NEGATIVE, verify_export, verify_program
from ocs_codesign.cli.progress import progress


@click.command(short_help="Check a design, book, export or schedule of others.")
@click.argument("path", type=FILE, metavar="DIR|FILE")
@click.option(
    "--from",
    "format_name",
    type=LiveChoice(program_formats("check")),
    help="The format of a file that others wrote, if its name and content do not tell.",
)
@json_option
def verify(path: str, format_name: str | None, json_path: str | None) -> int:
    """Replay a schedule send by send and recompute its cost.

    Where circuits change, every send must cross one that is up in its step, and every port needs a
    dark step or a pause to change. Of a design's directory, the claims of design.json are checked
    too; of a book, as compare writes it, every schedule is replayed. A program that export or
    another tool wrote is interpreted with symbolic data; what carries no data is checked for what
    it has. Exit code 1 if anything is wrong, with the first thing found wrong.

    \b
    Example:
      ocs-codesign build 'Line(CompleteBipartite(4))' --out design
      ocs-codesign verify design
    """
    check_outputs(json_path)
    from ocs_codesign.answers.verify import verify_json, verify_sections
    from ocs_codesign.formats.book_files import is_book
    from ocs_codesign.formats.designs.claims import verify_design
    from ocs_codesign.formats.designs.design_files import load_design
    from ocs_codesign.formats.programs.exports import is_export
    from ocs_codesign.formats.programs.registry import told_format

    if is_book(path):
        return _verify_book(path, json_path)
    if format_name is None and is_export(path):
        return verify_export(path, json_path)
    format_name = format_name or told_format(Path(path))
    if format_name is not None:
        return verify_program(path, format_name, json_path)
    with progress("Verifying"):
        loaded = load_design(path)
        found = verify_design(loaded)
    emit(verify_json(loaded, found), json_path, verify_sections(loaded, found))
    return 0 if found.witness is None else NEGATIVE


def _verify_book(path: str, json_path: str | None) -> int:
    from ocs_codesign.answers.book import book_json, book_sections
    from ocs_codesign.formats.book_files import load_book
    from ocs_codesign.verification.books import check_book

    with progress("Verifying") as shown:
        book = load_book(path)
        witnesses = check_book(book, shown.tell)
    emit(book_json(book, witnesses), json_path, book_sections(book, witnesses))
    return NEGATIVE if any(witnesses) else 0
