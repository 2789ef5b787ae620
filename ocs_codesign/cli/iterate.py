"""``ocs-codesign iterate``: the iterations of a job on a clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import INPUT, plot_option
from ocs_codesign.cli.job_options import machine_options
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.formats.jobs.job_files import GivenMachine


@click.command(short_help="Simulate the iterations of a training job.")
@click.argument("job", type=INPUT, metavar="FILE")
@machine_options
@plot_option("what ranks compute and send when")
@json_option
def iterate(job: str, given: GivenMachine | None, plot: str | None, json_path: str | None) -> int:
    """Simulate the job in FILE, iteration after iteration, with ASTRA-sim's rule.

    A rank computes one node at a time, and sends one message at a time: of those that are ready,
    the first in the order of priorities. FILE holds, in YAML or JSON, the layers of a job, its
    nodes one by one, or a model with how it is divided among ranks, whose like ranks are simulated
    as classes; or give a trace of collectives, one of PyTorch's profiler, or a directory of
    Chakra's. Messages take alpha-beta costs of the level of the machine that they stay in.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign iterate layers.yaml
    """
    check_outputs(json_path, plot)
    from ocs_codesign.answers.iteration import JobIteration, iteration_json, iteration_sections
    from ocs_codesign.formats.jobs.job_files import load_job
    from ocs_codesign.workload.period import period_bound_s, steady

    with progress("Simulating"):
        loaded = load_job(job, given)
        done = steady(loaded.graph)
        bound_s = period_bound_s(loaded.graph)
        answer = JobIteration(loaded.name, loaded.text, loaded.graph, done, bound_s)
        files = {}
        if plot is not None:
            from ocs_codesign.plot.files import figure_bytes
            from ocs_codesign.plot.jobs import job_figure

            times = done.job_run.graph.num_nodes // loaded.graph.num_nodes
            figure = job_figure(done.job_run, f"{loaded.name}, {times} iterations")
            files[plot] = figure_bytes(figure, Path(plot).suffix)
    emit(iteration_json(answer), json_path, iteration_sections(answer), files)
    return 0
