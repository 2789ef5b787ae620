"""``ocs-codesign deploy``: recipes on a fabric, as a directory that an engineer can work from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.answers.texts import cost_json, cost_text
from ocs_codesign.cli.options import ALLTOALL, GATHERING, fabric_option, json_option, prefer_option
from ocs_codesign.cli.output import STDOUT, check_outputs, emit, show_facts
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from ocs_codesign.bundle.write.html import Picture
    from ocs_codesign.fabric.deployment import DeployedConfiguration, Deployment, NamedRecipe
    from ocs_codesign.fabric.infeasible import InfeasibleError

_NAMED = re.compile(r"\s*([^=()]+)=(.*)", re.DOTALL)
_DEFAULT = "allreduce"


@click.command(short_help="Write cables, cross-connects and schedules for a fabric.")
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
@fabric_option
@click.option(
    "--collective",
    "collectives",
    type=click.Choice([*GATHERING, ALLTOALL], case_sensitive=False),
    multiple=True,
    default=[_DEFAULT],
    show_default=True,
    help="A collective to schedule; give it again for more.",
)
@prefer_option
@click.option("--out", "directory", metavar="DIR", required=True, help="Where to put the bundle.")
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
    """
    if directory == STDOUT:
        raise click.UsageError("a bundle is a directory: it cannot go to standard output")
    check_outputs(json_path)
    from pathlib import Path

    from ocs_codesign.bundle.write.bundle import check_bundle_directory, write_bundle
    from ocs_codesign.bundle.write.names import check_names
    from ocs_codesign.fabric.deployment import deploy as deploy_on
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.formats.fabric.fabric_files import load_fabric

    _check_apart(json_path, Path(directory))
    wanted = named_recipes(recipes)
    described = load_fabric(fabric_path)
    check_names(described, [one.name for one in wanted])
    check_bundle_directory(directory)
    kinds = tuple(dict.fromkeys(collectives))
    with progress("Laying cables") as shown:
        try:
            deployment = deploy_on(
                described,
                wanted,
                kinds,
                prefer=prefer,
                on_phase=lambda phase: shown.tell_phase(phase, 0, 0),
            )
        except InfeasibleError as error:
            return _refuse(error, json_path)
        shown.tell_phase("Writing the bundle", 0, 0)
        manifest = write_bundle(deployment, directory, _pictures(deployment))
    answer = _answer(deployment, manifest, directory)
    emit(answer, json_path, lambda console: _show(console, answer, deployment))
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


def _refuse(error: InfeasibleError, json_path: str | None) -> int:
    answer = {"fits": False, "reason": error.reason.name.lower(), "sentence": str(error)}
    emit(answer, json_path, lambda _: click.echo(f"It does not fit: {error}."))
    return 1


def _answer(deployment: Deployment, manifest: dict[str, Any], directory: str) -> dict[str, Any]:
    from ocs_codesign.bundle.write.plans import plan_summary

    plans = [plan_summary(change) for change in deployment.changes]
    for plan in plans:
        for stage in plan["stages"]:
            del stage["certificate"]
    return {
        "fits": True,
        "fabric": deployment.fabric.name,
        "configurations": [_configuration(one) for one in deployment.configurations],
        "plans": plans,
        "num_files": len(manifest["files"]) + 1,
        "num_bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "out": directory,
    }


def _configuration(one: DeployedConfiguration) -> dict[str, Any]:
    from ocs_codesign.fabric.light_budget import light_paths

    planes = sorted(set(one.configuration.plane.tolist()))
    margins = [path.margin_db for path in light_paths(one.configuration)]
    return {
        "name": one.name,
        "recipe": repr(one.recipe),
        "nodes": one.topology.num_nodes,
        "degree": one.topology.degree,
        "circuits": one.configuration.num_circuits,
        "planes": len(planes),
        "stages": max((one.embedding.num_stages(plane) for plane in planes), default=0),
        "least_margin_db": float(min(margins)) if margins else None,
        "survives_plane_loss": one.embedding.plane_loss.stays_connected,
        "schedules": [
            {
                "collective": bounded.collective.name,
                "cost": cost_json(bounded.design.cost),
                "bound": cost_json(bounded.bound),
                "schedule": bounded.design.maker,
            }
            for bounded in one.designs
        ],
    }


def _show(console: Console, answer: dict[str, Any], deployment: Deployment) -> None:
    for fields, one in zip(answer["configurations"], deployment.configurations, strict=True):
        through = "one switch" if fields["stages"] == 1 else f"{fields['stages']} switches"
        show_facts(
            console,
            [
                ("configuration", one.name),
                ("recipe", fields["recipe"]),
                ("nodes, degree", f"{fields['nodes']}, {fields['degree']}"),
                (
                    "circuits",
                    f"{fields['circuits']} in {fields['planes']} planes, each through {through}",
                ),
                ("least margin", _margin(fields["least_margin_db"])),
                *(
                    (bounded.collective.name, f"{cost_text(bounded.design.cost)}, verified")
                    for bounded in one.designs
                ),
            ],
        )
        console.print()
    size = f"{answer['num_bytes'] / 1e6:.3g} MB in {answer['num_files']} files"
    show_facts(console, [("fabric", answer["fabric"]), ("bundle", f"{answer['out']}, {size}")])


def _margin(margin_db: float | None) -> str | None:
    return None if margin_db is None else f"{margin_db:g} dB below the loss budget"
