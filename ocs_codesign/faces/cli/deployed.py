"""What commands do with a deployed bundle: options, reading it, and writing what it becomes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli.commands import option
from ocs_codesign.faces.cli.options import BUNDLE, FILE
from ocs_codesign.faces.cli.output import (
    STDOUT,
    Answer,
    asked_output,
    check_outputs,
    publish,
    refused,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.deployments.deploy import Deployment, Failures
    from ocs_codesign.fabric.repairs.splicing import SpliceChoice, SplicedConfiguration
    from ocs_codesign.fabric.wiring import Configuration


_MAX_STATE_BYTES = 64 * 2**20
COMPONENT = "host:NAME, switch:NAME, plane:0, port:SWITCH:1A or cable:C00001"

bundle_option = option(
    "--bundle",
    type=BUNDLE,
    metavar="DIR|ZIP",
    help="The deployed bundle or its zip; it is replaced by what it becomes.",
)
archive_option = option(
    *("--archive", "archive_path"),
    type=FILE,
    metavar="FILE",
    help="Write the bundle as one file, a zip: beside the directory, or in place of a given zip.",
)
what_if_option = option(
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
    bundle: str, out: str | None, archive: str | None, *, what_if: bool
) -> BundlePlace | None:
    """Where the changed bundle goes, None for a question; refused before any long work."""
    if not what_if:
        return where_to(bundle, out, archive)
    for name, path in (("--out", out), ("--archive", archive)):
        if path is not None:
            raise click.UsageError(f"--what-if writes no bundle: leave out {name}")
    return None


def where_to(bundle: str | None, out: str | None, archive: str | None) -> BundlePlace:
    """Where a bundle goes: to where it was, unless the options say; refused before any long work.

    A zip is left alone if another or a directory is given, a directory if another is.
    """
    from ocs_codesign.core.files.archives import only_folder
    from ocs_codesign.core.files.atomic import held_alone
    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace

    if archive == STDOUT:
        raise click.UsageError("a zip is a file: --archive cannot go to standard output")
    folder, directory = "", out
    if bundle is not None and not Path(bundle).is_file():
        directory = bundle if out is None else out
    elif bundle is not None and out is None:
        archive = bundle if archive is None else archive
        folder = only_folder(Path(bundle), "a bundle")
    check_outputs(asked_output("json"), archive)
    if directory is not None:
        check_directory(directory)
        check_outside(directory, "--archive", archive)
    if bundle is None or bundle not in (directory, archive):
        return BundlePlace(directory, archive, folder)
    # Held until the command ends, so that of two that change a bundle neither is lost.
    click.get_current_context().with_resource(held_alone(Path(bundle)))
    return BundlePlace(directory, archive, folder, bundle)


def check_directory(directory: str) -> None:
    """UsageError or ValueError if no bundle can be written there, or the answer would be in it."""
    from ocs_codesign.fabric.bundle.write.bundle import check_bundle_directory

    if directory == STDOUT:
        raise click.UsageError("a bundle is a directory: it cannot go to standard output")
    check_outside(directory, "--json", asked_output("json"))
    check_bundle_directory(directory)


def check_untouched(directory: str) -> None:
    """UsageError for a bundle with a history, which a new one in its place would forget."""
    import json

    from ocs_codesign.core.files.archives import read_limited

    try:
        state = json.loads(read_limited(Path(directory) / "state.json", _MAX_STATE_BYTES))
        failed = [name for kind in state["failed"].values() for name in kind]
        touched = failed or state["planned"] or state["last_work"] or state["unplugged"]
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return  # whether it is a bundle at all, others check
    if touched:
        raise click.UsageError(
            f"{directory} has a history of work and failures, which a new bundle would forget: "
            f"--bundle {directory} changes it, and --out takes another directory"
        )


def check_outside(directory: str, option: str, path: str | None) -> None:
    """UsageError for a file of an option that would be in the bundle."""
    if path not in (None, STDOUT) and (
        Path(directory).resolve() in Path(path or "").resolve().parents
    ):
        raise click.UsageError(f"{option} cannot go into the bundle: its manifest lists all files")


@contextmanager
def refusals(verdict: str = "fits") -> Iterator[None]:
    """Exit code 1, with the reason as the answer, for what cannot be done in here."""
    from ocs_codesign.fabric.infeasible import InfeasibleError

    try:
        yield
    except InfeasibleError as error:
        raise click.exceptions.Exit(publish(refused(error, verdict))) from None


def read(bundle: str) -> Deployment:
    """The deployment in a directory or a zip, after it has been checked."""
    from ocs_codesign.fabric.bundle.read import read_bundle

    return read_bundle(bundle)


def write(
    deployment: Deployment, place: BundlePlace, rehearsal: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The manifest of the bundle that is written."""
    from ocs_codesign.faces.web.report.report import write_bundle

    tell_phase("Writing the bundle")
    return place.write(lambda directory: write_bundle(deployment, directory, rehearsal))


def components(texts: Sequence[str], deployment: Deployment | None = None) -> Failures:
    """What is named by ``texts``, see COMPONENT; planes and cables are those of a deployment.

    A cable is none of its ports: those are sound.
    """
    from ocs_codesign.fabric.deployments.deploy import Failures
    from ocs_codesign.fabric.wiring import port_of_cable

    hosts: list[str] = []
    switches: list[str] = []
    cables: list[str] = []
    ports = []
    for text in texts:
        what, _, name = text.partition(":")
        if what in ("host", "switch") and name:
            (hosts if what == "host" else switches).append(name)
        elif what == "plane" and deployment is not None and name.isdecimal():
            switches += _of_plane(deployment, name)
        elif what == "cable" and deployment is not None:
            port_of_cable(deployment.cabling, name)
            cables.append(name)
        elif what == "port":
            ports.append(_port(text, name))
        else:
            raise click.UsageError(f"{text!r} is no component: it must be {COMPONENT}")
    return Failures(tuple(hosts), tuple(ports), tuple(switches), tuple(cables))


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


# Going on without lost hosts: the option, and what ``survive`` and ``rewire`` do with it.


# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
WHERE = ("in-place", "anywhere")
SCORED_FOR_AN_OFFER = 2_000

splice_option = option(
    *("--splice", "where"),
    type=click.Choice(WHERE),
    help="Go on without the lost hosts: join what led to them with what led from them, where both "
    "end in one switch (in-place, fewest ports), or anywhere, best cost.",
)


def spliced_bundle(
    deployment: Deployment, failed: Failures, where: str, place: BundlePlace | None, seed: int = 0
) -> Answer:
    """A bundle without hosts, written unless it is a question; 1 if circuits cannot be joined."""
    from ocs_codesign.fabric.deployments.held import spliced
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import change_sections, splice_sections

    done = spliced(deployment, failed, where, seed=seed)
    if place is not None:
        write(done.deployment, place)
    splice = {
        **records()["splice"].json(done.up, failed.hosts),
        "recipe": repr(done.deployment.configuration(done.deployment.up).recipe),
        "torn_down": [{"name": name, "reason": why} for name, why in done.torn_down],
    }
    change = records()["configuration_change"].json(done.change, done.deployment)
    words = {"repaired": True, "splice": splice, **change}
    words |= records()["deployed"].json(done.deployment, place)
    sections = splice_sections(done.up, failed.hosts, done.torn_down)
    changes = change_sections(done.deployment, done.change, place)
    return told("deploy.spliced", words, [*sections, "", *changes])


def spliced_question(
    configuration: Configuration, failed: Failures, where: str, collective: str, seed: int
) -> tuple[dict[str, Any], list[Any]]:
    """JSON and sections of a splice on an embedding that is invented for the question."""
    from ocs_codesign.fabric.repairs.splicing import spliced_configuration
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import splice_sections

    if failed.has_parts:
        raise ValueError(
            "circuits are joined in place of lost hosts: switches and ports have spares"
        )
    made = spliced_configuration(configuration, failed.hosts, collective, where, seed=seed)
    splice = records()["splice"].json(made, failed.hosts)
    return {"repaired": True, "splice": splice}, list(splice_sections(made, failed.hosts))


def offered_splice(
    make: Callable[[], SplicedConfiguration], failed: Failures
) -> tuple[dict[str, Any], list[str]]:
    """What going on without lost hosts would cost, joined in place, or why it cannot be."""
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import splice_text

    if failed.has_parts:
        return {}, []
    try:
        made = make()
    except ValueError as error:
        return {"splice": None}, [f"Without spares, nothing is joined in place: {error}."]
    splice = records()["splice"].json(made, failed.hosts)
    return {"splice": splice}, [splice_text(made, failed.hosts)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class LostNodes:
    """What is left of a topology without nodes: its name, itself, how it was chosen, who stays."""

    name: str
    topology: Topology
    choice: SpliceChoice
    stays: NDArray[np.bool_]


def splice_of(
    name: str, topology: Topology, nodes: Sequence[str], *, two_way: bool, seed: int = 0
) -> LostNodes:
    """A recipe or graph without nodes, by their numbers, their ends joined for the allgather."""
    import numpy as np

    from ocs_codesign.fabric.repairs.splicing import chosen
    from ocs_codesign.graphs.expansions.edits import spliced_topology
    from ocs_codesign.search.splices import best_splices, loose_ends

    for text in nodes:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"--without {text!r}: of a recipe or graph, give the number of a node")
    ends = loose_ends(topology, [int(text) for text in nodes], two_way=two_way)
    splices = best_splices(topology, ends, seed=seed)
    if not splices.found:
        raise ValueError(
            f"none of {splices.num_possible} ways to join the ends of nodes {', '.join(nodes)} "
            "leaves all others joined"
        )
    way = splices.found[0]
    new_name = f"{name} without nodes {', '.join(nodes)}"
    if "(" in name:
        new_name = f"Splice({name}, {ends.gone!r}, {way.joined!r})"
    stays = np.isin(np.arange(topology.num_nodes), ends.gone, invert=True)
    left = spliced_topology(topology, ends.gone, way.joined)
    return LostNodes(new_name, left, chosen(topology, splices, way), stays)
