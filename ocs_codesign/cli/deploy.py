"""``ocs-codesign deploy``: recipes on a fabric, as a directory that an engineer can work from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.refusal import refusal_json, refusal_text
from ocs_codesign.cli.file_options import DIRECTORY
from ocs_codesign.cli.options import ALLTOALL, GATHERING, fabric_option, json_option, prefer_option
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ocs_codesign.bundle.write.html import Picture
    from ocs_codesign.fabric.deployment import Deployment, NamedRecipe

_NAMED = re.compile(r"\s*([^=()]+)=(.*)", re.DOTALL)


@click.command(short_help="Write cables, cross-connects and schedules for a fabric.")
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
@fabric_option
@click.option(
    "--collective",
    "collectives",
    type=click.Choice([*GATHERING, ALLTOALL], case_sensitive=False),
    multiple=True,
    default=["allreduce"],
    show_default=True,
    help="A collective to schedule; give it again for more.",
)
@prefer_option
@click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    required=True,
    help="Where to put the bundle.",
)
@json_option
def deploy(
    recipes: tuple[str, ...],
    fabric_path: str,
    collectives: tuple[str, ...],
    prefer: str,
    directory: str,
    json_path: str | None,
) -> int:
    """Put every RECIPE, as a configuration, on a fabric and write all that is needed to build it.

    DIR gets cables, cross-connects of every switch, link budgets, ports, ranks, prices, NetBox
    imports, graphs, verified schedules, the plans between configurations, checksums and a report to
    open in a browser, whole or not at all. DIR must be new, empty or hold an earlier bundle, which
    is replaced.

    NAME=RECIPE names a configuration. All share their cables. Exit code 1 if they do not fit.

    \b
    Example:
      ocs-codesign fabric example --hosts 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
    """
    check_outputs(json_path)
    from pathlib import Path

    from ocs_codesign.answers.deploy import deployment_json, deployment_sections
    from ocs_codesign.bundle.write.bundle import check_bundle_directory, write_bundle
    from ocs_codesign.bundle.write.names import check_names
    from ocs_codesign.fabric.deployment import deploy as deploy_on
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.formats.fabric.fabric_files import load_fabric

    _check_apart(json_path, Path(directory))
    wanted = named_recipes(recipes)
    described = load_fabric(fabric_path)
    check_names(described, [named.name for named in wanted])
    check_bundle_directory(directory)
    kinds = tuple(dict.fromkeys(collectives))
    with progress("Laying cables") as shown:
        try:
            deployment = deploy_on(
                described, wanted, kinds, prefer=prefer, on_phase=shown.tell_phase
            )
        except InfeasibleError as error:
            emit(refusal_json(error), json_path, [refusal_text(error)])
            return 1
        shown.tell_phase("Writing the bundle")
        manifest = write_bundle(deployment, directory, _pictures(deployment))
    answer = deployment_json(deployment, manifest, directory)
    emit(answer, json_path, deployment_sections(answer, deployment))
    return 0


def named_recipes(texts: Sequence[str]) -> list[NamedRecipe]:
    """The recipes that were given, those without a name called ``configuration1`` and so on."""
    from ocs_codesign.fabric.deployment import NamedRecipe
    from ocs_codesign.graphs.text import parse

    named = []
    for number, text in enumerate(texts, 1):
        match = _NAMED.fullmatch(text)
        name, recipe = match.groups() if match else (f"configuration{number}", text)
        named.append(NamedRecipe(name.strip(), parse(recipe.strip())))
    return named


def _check_apart(json_path: str | None, directory: Path) -> None:
    """UsageError if the answer is to be written into the bundle, which lists all of its files."""
    from pathlib import Path

    if json_path is None or json_path == STDOUT:
        return
    if directory.resolve() in Path(json_path).resolve().parents:
        raise click.UsageError("--json cannot go into the bundle: its manifest lists all files")


def _pictures(deployment: Deployment) -> list[Picture]:
    from ocs_codesign.bundle.write.html import Picture
    from ocs_codesign.plot.deployment import loads_figure, margins_figure, ports_figure
    from ocs_codesign.plot.files import figure_bytes

    return [
        Picture(title, figure_bytes(figure(deployment), ".svg"))
        for title, figure in (
            ("Largest load of a link in every step", loads_figure),
            ("Ports of every plane", ports_figure),
            ("Margins of the links to the loss budget", margins_figure),
        )
    ]
