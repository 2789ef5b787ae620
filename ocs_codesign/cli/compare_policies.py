"""``ocs-codesign compare-policies``: one job under every policy of communication."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import INPUT, plot_option
from ocs_codesign.cli.job_options import machine_options
from ocs_codesign.cli.options import json_option, quantity_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from ocs_codesign.answers.policies import PolicyComparison
    from ocs_codesign.formats.jobs.job_files import GivenMachine

# Spelled out, since importing the policies for a help text would take too long.
NAMES = (
    *("serial", "fifo", "lifo", "priority", "p3", "tictac", "bytescheduler", "pace", "lina"),
    *("centauri", "dear", "ddp", "ooo", "decompose"),
)


@click.command("compare-policies", short_help="Compare what is sent first: a job's period.")
@click.argument("job", type=INPUT, metavar="FILE")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(NAMES),
    multiple=True,
    help="Only this one; may be repeated (default: all).",
)
@quantity_option(
    "--slice", parse_time, "Time of a slice, for policies that cut (default: they choose)."
)
@machine_options
@plot_option("the periods as bars")
@json_option
def compare_policies(
    job: str,
    policies: tuple[str, ...],
    slice: float | None,  # noqa: A002 - the option's name
    given: GivenMachine | None,
    plot: str | None,
    json_path: str | None,
) -> int:
    """Compare policies of communication for the job in FILE, iteration after iteration.

    A rank computes one node at a time and sends one message at a time. Policies say which gradient
    is sent first, whether they are cut, merged, summed in two halves or level by level, and which
    computation goes first or is cut for them. The period is that of the steady state, exact; what
    is sent while nothing is computed is exposed. The bound is what none of them is below, whatever
    the order. FILE holds layers, nodes or a model, as iterate takes it.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign compare-policies layers.yaml
    """
    check_outputs(json_path, plot)
    from ocs_codesign.answers.policies import policies_json, policies_sections

    with progress("Comparing policies"):
        answer = _comparison(job, policies, slice, given)
        files = {}
        if plot is not None:
            from ocs_codesign.plot.files import figure_bytes
            from ocs_codesign.plot.jobs import policies_figure

            figure = policies_figure(answer.outcomes, answer.bound_s, answer.name)
            files[plot] = figure_bytes(figure, Path(plot).suffix)
    emit(policies_json(answer), json_path, policies_sections(answer), files)
    return 0


def _comparison(
    path: str, policies: tuple[str, ...], slice_s: float | None, given: GivenMachine | None
) -> PolicyComparison:
    from ocs_codesign.answers.policies import PolicyComparison
    from ocs_codesign.formats.jobs.job_files import load_job
    from ocs_codesign.workload.policies import compare_policies as compared

    job = load_job(path, given)
    outcomes = compared(job.graph, policies or None, slice_s, job.machine)
    bound_s = min(outcome.bound_s for outcome in outcomes)
    asked = tuple(name for name in NAMES if not policies or name in policies)
    return PolicyComparison(job.name, job.text, job.graph, bound_s, tuple(outcomes), asked)
