"""``ocs-codesign verify-bundle``: do cables and cross-connects make what the bundle claims?"""

from __future__ import annotations

import click

from ocs_codesign.cli.file_options import BUNDLE, INPUT
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

NEGATIVE = 1


@click.command("verify-bundle", short_help="Check a bundle from its cables and circuits up.")
@click.argument("bundle", type=BUNDLE, metavar="DIR|ZIP")
@click.option(
    "--observed",
    type=INPUT,
    metavar="NEIGHBOURS.csv",
    help="Neighbours that were heard: local_host,local_port,remote_host,remote_port.",
)
@click.option(
    "--limit", type=click.IntRange(1), default=1000, show_default=True, help="Findings to list."
)
@json_option
def verify_bundle(bundle: str, observed: str | None, limit: int, json_path: str | None) -> int:
    """Follow the light through the cables and cross-connects of the bundle in DIR or ZIP.

    The topology that it makes is compared with all graphs and tables, the schedules are replayed
    on it, and the plans are carried out port by port. A row of observed neighbours says that a
    host heard on a port (p0 is that of plane 0; on two-sided switches p0-a and p0-b) what a remote
    host sent from its own; they must be those of one of the configurations. Exit code 1 if
    anything is wrong, with all that was found; 2 if it is not a bundle, or the zip is broken.

    \b
    Example:
      ocs-codesign fabric example --hosts 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign verify-bundle bundle
    """
    check_outputs(json_path)
    from ocs_codesign.answers.verify_bundle import verify_bundle_json, verify_bundle_sections
    from ocs_codesign.bundle.verify import check_bundle

    with progress("Reading files") as on:
        verdict = check_bundle(bundle, observed, limit=limit, on_phase=on.tell_phase)
    emit(verify_bundle_json(verdict), json_path, verify_bundle_sections(verdict))
    return 0 if verdict.ok else NEGATIVE
