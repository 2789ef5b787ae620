"""What commands do with a deployed bundle: options, reading it, and writing what it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import BUNDLE, FILE
from ocs_codesign.cli.output import STDOUT, check_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.fabric.deployments.deployment import Deployment, Failures

COMPONENT = "host:NAME, switch:NAME, plane:0, port:SWITCH:1A or cable:C00001"

bundle_option = click.option(
    "--bundle",
    type=BUNDLE,
    metavar="DIR|ZIP",
    help="The deployed bundle or its zip; it is replaced by what it becomes.",
)
archive_option = click.option(
    *("--archive", "archive_path"),
    type=FILE,
    metavar="FILE",
    help="Write the bundle as one file, a zip: beside the directory, or in place of a given zip.",
)
what_if_option = click.option(
    "--what-if",
    is_flag=True,
    help="Only ask: of a bundle nothing is written, without one the embedding is invented.",
)


def check_asked(bundle: str | None, what_if: bool, invented: Sequence[str]) -> None:
    """UsageError without a bundle, but for a question, and for options that a bundle answers."""
    if bundle is None and not what_if:
        raise click.UsageError(
            "give --bundle DIR or ZIP to work on what is deployed, or --what-if to ask about an "
            "embedding that is invented for the question"
        )
    if bundle is not None and invented:
        raise click.UsageError(f"{invented[0]} cannot be given with --bundle, which says it")


def asked_place(
    bundle: str, out: str | None, archive: str | None, json_path: str | None, *, what_if: bool
) -> BundlePlace | None:
    """Where the changed bundle goes, None for a question; refused before any long work."""
    if not what_if:
        return where_to(bundle, out, archive, json_path)
    for option, path in (("--out", out), ("--archive", archive)):
        if path is not None:
            raise click.UsageError(f"--what-if writes no bundle: leave out {option}")
    return None


def where_to(
    bundle: str | None, out: str | None, archive: str | None, json_path: str | None
) -> BundlePlace:
    """Where a bundle goes: to where it was, unless the options say; refused before any long work.

    A zip is left alone if another or a directory is given, a directory if another is.
    """
    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.files.archives import only_folder

    if archive == STDOUT:
        raise click.UsageError("a zip is a file: --archive cannot go to standard output")
    folder, directory = "", out
    if bundle is not None and not Path(bundle).is_file():
        directory = bundle if out is None else out
    elif bundle is not None and out is None:
        archive = bundle if archive is None else archive
        folder = only_folder(Path(bundle), "a bundle")
    check_outputs(json_path, archive)
    if directory is not None:
        check_directory(directory, json_path)
        check_outside(directory, "--archive", archive)
    return BundlePlace(directory, archive, folder)


def check_directory(directory: str, json_path: str | None) -> None:
    """UsageError or ValueError if no bundle can be written there, or the answer would be in it."""
    from ocs_codesign.bundle.write.bundle import check_bundle_directory

    if directory == STDOUT:
        raise click.UsageError("a bundle is a directory: it cannot go to standard output")
    check_outside(directory, "--json", json_path)
    check_bundle_directory(directory)


def check_outside(directory: str, option: str, path: str | None) -> None:
    """UsageError for a file of an option that would be in the bundle."""
    if path not in (None, STDOUT) and (
        Path(directory).resolve() in Path(path or "").resolve().parents
    ):
        raise click.UsageError(f"{option} cannot go into the bundle: its manifest lists all files")


def read(bundle: str, shown: Progress) -> Deployment:
    """The deployment in a directory or a zip, after it has been checked."""
    from ocs_codesign.bundle.read import read_bundle

    return read_bundle(bundle, shown.tell_phase)


def write(deployment: Deployment, place: BundlePlace, shown: Progress) -> dict[str, Any]:
    """The manifest of the bundle that is written."""
    from ocs_codesign.web.report.writing import write_bundle

    shown.tell_phase("Writing the bundle")
    return place.write(lambda directory: write_bundle(deployment, directory))


def components(texts: Sequence[str], deployment: Deployment | None = None) -> Failures:
    """What is named by ``texts``, see COMPONENT; planes and cables are those of a deployment.

    A cable stands for the switch port that it is plugged into.
    """
    from ocs_codesign.fabric.deployments.deployment import Failures
    from ocs_codesign.fabric.port_use import port_of_cable

    hosts: list[str] = []
    switches: list[str] = []
    ports = []
    for text in texts:
        what, _, name = text.partition(":")
        if what in ("host", "switch") and name:
            (hosts if what == "host" else switches).append(name)
        elif what == "plane" and deployment is not None and name.isdecimal():
            switches += _of_plane(deployment, name)
        elif what == "cable" and deployment is not None:
            ports.append(port_of_cable(deployment.cabling, name))
        elif what == "port":
            ports.append(_port(text, name))
        else:
            raise click.UsageError(f"{text!r} is no component: it must be {COMPONENT}")
    return Failures(tuple(hosts), tuple(ports), tuple(switches))


def _port(text: str, name: str) -> Any:
    from ocs_codesign.fabric.wiring import Port

    switch, _, end = name.rpartition(":")
    number = end.rstrip("ABab")
    side = end[len(number) :].upper()
    if not switch or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise click.UsageError(f"{text!r} is no port: it must be as port:SWITCH:1A")
    return Port(switch, side, int(number))


def _of_plane(deployment: Deployment, number: str) -> list[str]:
    """The switches of a plane that have not failed yet."""
    plane, fabric = int(number), deployment.fabric
    if plane >= fabric.num_planes:
        raise ValueError(f"there is no plane {plane}: planes are 0 to {fabric.num_planes - 1}")
    failed = deployment.failures.switches
    return [each.name for each in fabric.switches_of(plane) if each.name not in failed]
