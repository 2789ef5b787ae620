"""``ocs-codesign verify``: is this schedule right, and what does it really cost?"""

from __future__ import annotations

import click

from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

NEGATIVE = 1


@click.command(short_help="Check a saved design, trusting nothing in it.")
@click.argument("path", type=FILE, metavar="DIR|FILE.npz")
@json_option
def verify(path: str, json_path: str | None) -> int:
    """Replay a schedule send by send and recompute its cost.

    Where circuits change, every send must cross one that is up in its step, and every port needs a
    dark step or a pause to change. Of a design's directory, the claims of design.json are checked
    too. Exit code 1 if anything is wrong, with the first thing found wrong.

    \b
    Example:
      ocs-codesign build 'Line(CompleteBipartite(4))' --out design
      ocs-codesign verify design
    """
    check_outputs(json_path)
    from ocs_codesign.answers.verify import verify_json, verify_sections
    from ocs_codesign.formats.designs.claims import verify_design
    from ocs_codesign.formats.designs.design_files import load_design

    with progress("Verifying"):
        loaded = load_design(path)
        found = verify_design(loaded)
    emit(verify_json(loaded, found), json_path, verify_sections(loaded, found))
    return 0 if found.witness is None else NEGATIVE
