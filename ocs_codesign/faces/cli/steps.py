"""A training step on a cluster of packets: what ``iterate``, ``codesign`` and ``calibrate`` do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.faces.answers.step import division_text
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.jobs.training.room import Room


def step_on(job: str, cluster: str) -> Answer:
    """The step in a job file on the cluster in another."""
    from ocs_codesign.jobs.files.job_cluster_files import load_room
    from ocs_codesign.jobs.files.step_files import load_step

    name, room = load_room(cluster)
    trained = load_step(job)
    step = trained.on(room)
    figure = ("steps.steps_figure", [(trained.name, step)], f"{trained.name} on {name}")
    return answered("step.step", trained.name, name, step, figure=figure)


def divisions_on(job: str, name: str, room: Room, top: int) -> Answer:
    """Divisions of the step in a job file on the accelerators of a cluster, ranked."""
    from ocs_codesign.jobs.files.step_files import load_step
    from ocs_codesign.jobs.training.search import rank_divisions

    trained = load_step(job)
    with progress("Bounding divisions"):
        ranking = rank_divisions(trained, room, top)
    rows = [(division_text(step.division), step) for step in ranking.ranked]
    # A bar of many times the length, as of few ranks, would hide the parts of the others.
    if ranking.given is not None and ranking.given.seconds < 4 * ranking.ranked[0].seconds:
        rows.append((f"{division_text(ranking.given.division)} (file)", ranking.given))
    figure = ("steps.steps_figure", rows, f"{trained.name} on {name}")
    return answered("step.step_ranking", trained.name, name, ranking, figure=figure)


def calibrated_step(files: Sequence[str], path: str | None) -> Answer:
    """Factors of the software of a job file, fitted to measured steps on the cluster in another."""
    from ocs_codesign.jobs.files.step_files import measured_steps, with_factors
    from ocs_codesign.jobs.training.fitting import calibrate_steps

    if len(files) < 3:
        raise click.UsageError("give JOB, CLUSTER and what was measured: tables and logs")
    measured = measured_steps(files[0], files[1], files[2:])
    with progress("Fitting"):
        found = calibrate_steps(measured)
    written = {} if path is None else {path: with_factors(files[0], found.factors)}
    steps = [(division_text(each.step.division), each.estimate) for each in found.steps]
    figure = ("steps.steps_figure", steps, f"{measured[0].step.name}, calibrated")
    return answered("step.step_calibration", found, out=path, files=written, figure=figure)
