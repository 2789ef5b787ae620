"""``ocs-codesign deploy``: recipes on a fabric, as a directory that an engineer can work from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.refusal import refusal_json, refusal_text
from ocs_codesign.cli.deployed import (
    archive_option,
    bundle_option,
    read,
    where_to,
    write,
)
from ocs_codesign.cli.file_options import DIRECTORY, INPUT
from ocs_codesign.cli.message_options import message_option
from ocs_codesign.cli.options import ALLTOALL, GATHERING, json_option, prefer_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.fabric.deployments.deployment import Deployment, NamedRecipe

_NAMED = re.compile(r"\s*([^=()]+)=(.*)", re.DOTALL)


@click.command(short_help="Write cables, cross-connects and schedules for a fabric.")
@click.argument("recipes", nargs=-1, metavar="RECIPE...")
@click.option(
    *("--fabric", "fabric_path"),
    type=INPUT,
    metavar="FILE",
    help="The fabric file, for new cables; - is standard input.",
)
@bundle_option
@click.option("--remove", metavar="NAME", multiple=True, help="Tear down one of a bundle.")
@click.option(
    "--collective",
    "collectives",
    type=click.Choice([*GATHERING, ALLTOALL], case_sensitive=False),
    multiple=True,
    default=["allreduce"],
    show_default=True,
    help="A collective to schedule; give it again for more.",
)
@message_option
@prefer_option
@click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    help="Where to put the bundle (default: that of --bundle).",
)
@archive_option
@json_option
def deploy(
    recipes: tuple[str, ...],
    fabric_path: str | None,
    bundle: str | None,
    remove: tuple[str, ...],
    collectives: tuple[str, ...],
    message: float | None,
    prefer: str,
    directory: str | None,
    archive_path: str | None,
    json_path: str | None,
) -> int:
    """Put every RECIPE, as a configuration, on a fabric and write all that is needed to build it.

    DIR gets cables, cross-connects of every switch, link budgets, ports, ranks, prices, NetBox
    imports, graphs, verified schedules, the plans between configurations, checksums and a report to
    open in a browser, whole or not at all. DIR must be new, empty or hold an earlier bundle, which
    is replaced. The first configuration is the one that is up.

    Schedules are those of the designs, or, with --message, what select counts for messages of that
    size: forests where the fabric's cost model says that these are faster.

    With --bundle the cables are those that are laid: every RECIPE is added to the configurations
    of the bundle, and those of --remove are torn down. NAME=RECIPE names a configuration. Exit
    code 1 if they do not fit.

    With --archive FILE the bundle is one file, to send or to open in the explorer on a phone, alone
    or beside DIR; with --bundle and no RECIPE the bundle stays what it is. All that reads a bundle
    reads this file too.

    \b
    Example:
      ocs-codesign fabric example --hosts 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign deploy --bundle bundle 'other=GeneralizedKautz(2, 8)'
    """
    if (fabric_path is None) == (bundle is None):
        raise click.UsageError("give --fabric FILE for new cables, or --bundle for laid ones")
    if not recipes and not remove and (bundle is None or archive_path is None):
        raise click.UsageError("give at least one RECIPE")
    if remove and bundle is None:
        raise click.UsageError("--remove is for configurations of a --bundle")
    if bundle is None and directory is None and archive_path is None:
        raise click.UsageError("--out DIR is missing: where to put the bundle")
    check_outputs(json_path)
    from ocs_codesign.answers.deploy import deployment_json, deployment_sections
    from ocs_codesign.bundle.write.names import check_names
    from ocs_codesign.fabric.infeasible import InfeasibleError

    wanted = named_recipes(recipes)
    with progress("Reading files") as shown:
        place = where_to(bundle, directory, archive_path, json_path)
        kinds = tuple(dict.fromkeys(collectives))
        wishes: dict[str, Any] = {"prefer": prefer, "message_bytes": message}
        try:
            if bundle is None:
                deployment = _new(fabric_path or "", wanted, kinds, wishes, shown)
            else:
                deployment = _changed(read(bundle, shown), remove, wanted, kinds, wishes, shown)
        except InfeasibleError as error:
            emit(refusal_json(error), json_path, [refusal_text(error)])
            return 1
        check_names(deployment.fabric, deployment.names)
        manifest = write(deployment, place, shown)
    answer = deployment_json(deployment, manifest, place)
    emit(answer, json_path, deployment_sections(answer, deployment))
    return 0


def _new(
    fabric_path: str,
    wanted: Sequence[NamedRecipe],
    kinds: Sequence[str],
    wishes: dict[str, Any],
    shown: Progress,
) -> Deployment:
    """On new cables."""
    from ocs_codesign.bundle.write.names import check_names
    from ocs_codesign.fabric.deployments.deploy import deploy as deploy_on
    from ocs_codesign.formats.fabric.fabric_files import load_fabric

    described = load_fabric(fabric_path)
    check_names(described, [named.name for named in wanted])
    return deploy_on(described, wanted, kinds, on_phase=shown.tell_phase, **wishes)


def _changed(
    deployment: Deployment,
    remove: Sequence[str],
    wanted: Sequence[NamedRecipe],
    kinds: Sequence[str],
    wishes: dict[str, Any],
    shown: Progress,
) -> Deployment:
    """On laid cables: some torn down, then some added."""
    from ocs_codesign.bundle.write.names import check_names
    from ocs_codesign.fabric.deployments.day_two import extended, torn_down

    for name in remove:
        deployment = torn_down(deployment, name)
    names = dict.fromkeys([*deployment.names, *(named.name for named in wanted)])
    check_names(deployment.fabric, names)
    if not wanted:
        return deployment
    return extended(deployment, wanted, kinds, on_phase=shown.tell_phase, **wishes)


def named_recipes(texts: Sequence[str]) -> list[NamedRecipe]:
    """The recipes that were given, those without a name called ``configuration1`` and so on."""
    from ocs_codesign.cli.handles import recipe_of
    from ocs_codesign.fabric.deployments.deployment import NamedRecipe

    named = []
    for number, text in enumerate(texts, 1):
        match = _NAMED.fullmatch(text)
        name, recipe = match.groups() if match else (f"configuration{number}", text)
        named.append(NamedRecipe(name.strip(), recipe_of(recipe)))
    return named
