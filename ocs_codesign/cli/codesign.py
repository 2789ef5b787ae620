"""``ocs-codesign codesign``: the fastest way to run a job on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.compare_policies import NAMES
from ocs_codesign.cli.deployed import check_directory
from ocs_codesign.cli.file_options import DIRECTORY, INPUT, plot_option
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.answers.codesign import CodesignAnswer
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.formats.jobs.handover import Handover
    from ocs_codesign.workload.codesign.planning import CodesignPlan

USUAL_DIRECTORY = "codesigned"


@click.command(short_help="Choose division, mapping, fabric and policy for a job.")
@click.argument("job", type=INPUT, metavar="JOB")
@click.argument("cluster", type=INPUT, metavar="CLUSTER")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(NAMES),
    multiple=True,
    help="Try the best under this policy only; may be repeated (default: all).",
)
@click.option(
    "--simulations",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="Candidates to simulate at most, of a million nodes together.",
)
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="Rows to show.")
@click.option(
    "--out",
    "directory",
    type=DIRECTORY,
    metavar="DIR",
    help="Where to write the fabric's file that 'deploy' reads.",
)
@click.option(
    *("--deploy", "bundle"), type=DIRECTORY, metavar="DIR", help="Write the winner's bundle there."
)
@plot_option("where the time goes, and the winner on the clock")
@json_option
def codesign(
    job: str,
    cluster: str,
    policies: tuple[str, ...],
    simulations: int,
    top: int,
    directory: str | None,
    bundle: str | None,
    plot: str | None,
    json_path: str | None,
) -> int:
    """Choose how the model in JOB is divided and run on the cluster in CLUSTER.

    JOB is a job file with a model; its machine and accelerator are not used, and its own division
    is a baseline. CLUSTER describes servers of accelerators, their optical ports and switches.

    All divisions (data, tensor, pipeline, expert, microbatches, ZeRO, and the chunks of interleaved
    pipelines that 'search' in JOB has) that the model allows and memory holds are searched, with
    every order of them on ranks, every way to divide ports among their groups, one topology for all
    groups, and circuits that change before and after gradients. Topologies and their times are
    those of 'select'. Candidates go by ascending lower bound, and those whose bound is not below
    the best are skipped. The best are tried under every policy of communication. Torus, ring, a fat
    tree of equal cost, and pure data parallelism as DDP does it
    stand beside the ranking. The answer depends on no seed.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign codesign resnet50.yaml cluster256.yaml --policy ddp
    """
    check_outputs(json_path, plot)
    if bundle is not None:
        check_directory(bundle, json_path)
    if directory is not None and Path(directory).exists() and not Path(directory).is_dir():
        raise ValueError(f"{directory} is a file: --out is a directory")
    from ocs_codesign.answers.codesign import codesign_json, codesign_sections
    from ocs_codesign.formats.jobs.job_cluster_files import load_job_cluster
    from ocs_codesign.formats.jobs.training_files import load_training
    from ocs_codesign.workload.codesign.planning import codesign as planned

    trained, described = load_training(job), load_job_cluster(cluster)
    with progress("Bounding divisions") as shown:
        plan = planned(
            trained,
            described,
            policies or None,
            max_simulated=simulations,
            on_progress=shown.tell_phase,
        )
        answer = _answer(plan, directory)
        files = _files(plan, plot, top)
        for handed in answer.handed if directory is not None else ():
            files |= handed.files(directory or "")
        if bundle is not None:
            _deploy(answer.handed, bundle, shown)
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
    emit(codesign_json(answer, top), json_path, codesign_sections(answer, top), files)
    return 0


def _answer(plan: CodesignPlan, directory: str | None) -> CodesignAnswer:
    from ocs_codesign.answers.codesign import CodesignAnswer
    from ocs_codesign.formats.jobs.handover import handovers

    handed = handovers(plan.best.candidate, plan.best_traffic, plan.cluster)
    return CodesignAnswer(plan, handed, directory or USUAL_DIRECTORY, directory is not None)


def _files(plan: CodesignPlan, plot: str | None, top: int) -> dict[str, bytes]:
    if plot is None:
        return {}
    from ocs_codesign.answers.codesign_texts import picture_rows
    from ocs_codesign.plot.codesign import codesign_figure
    from ocs_codesign.plot.files import figure_bytes
    from ocs_codesign.workload.codesign.running import run_of

    title = f"{plan.trained.name} on {plan.cluster.name}"
    figure = codesign_figure(picture_rows(plan, top), run_of(plan), title)
    return {plot: figure_bytes(figure, Path(plot).suffix)}


def _deploy(handed: Sequence[Handover], directory: str, shown: Progress) -> None:
    """Write the bundle, or one in a directory of its own for each of several configurations."""
    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.cli.deployed import write
    from ocs_codesign.fabric.deployments.deploy import deploy
    from ocs_codesign.fabric.deployments.deployment import NamedRecipe

    if not handed:
        raise ValueError("the winner needs no light, so there is nothing to deploy")
    for one in handed:
        place = BundlePlace(directory if len(handed) == 1 else f"{directory}/{one.name}")
        deployment = deploy(
            one.fabric,
            [NamedRecipe(one.name, one.recipe)],
            one.collectives,
            message_bytes=one.message_bytes,
            on_phase=shown.tell_phase,
        )
        write(deployment, place, shown)
