"""What ``cost --scheduler late`` does: the best of more and more steps over any routes."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.late import LateWalk, late_walk_json, late_walk_sections
from ocs_codesign.cli.exact import LIMIT_S, MORE_STEPS
from ocs_codesign.cli.output import emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.cli.options import GivenGraph, SolverChoice
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.schedulers.late.answers import LateAnswer


def cost_of_late(
    source: GivenGraph,
    collective: str,
    max_steps: int | None,
    asked: MessageSizes | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Find, print and write late schedules of the fewest steps and more; they share the time."""
    from ocs_codesign.bounds import topology_bound
    from ocs_codesign.design import measure_topology
    from ocs_codesign.schedulers.late.answers import late_schedule

    topology = source.topology()
    least = topology_bound(topology, collective)
    most = least.steps + MORE_STEPS if max_steps is None else max_steps
    if most < least.steps:
        raise click.UsageError(
            f"--max-steps is {most}: {collective} takes at least {least.steps} here"
        )
    answers: list[LateAnswer] = []
    with progress("Solving for the fewest steps") as shown, choice.solving(LIMIT_S) as options:
        began = monotonic()
        for steps in range(least.steps, most + 1):
            left = options.after(monotonic() - began)
            if left.time_limit_s is not None:
                left = replace(left, time_limit_s=left.time_limit_s / (most + 1 - steps))
            answers.append(late_schedule(topology, steps, collective, left))
            if answers[-1].cost.t_b == least.t_b:
                break
            shown.tell_phase(f"Solving for {steps + 1} steps", len(answers), most + 1 - least.steps)
    eager = measure_topology(topology, collective).cost
    walk = LateWalk(collective, most, least, eager, tuple(answers), asked)
    subject = source.subject(topology)
    emit(late_walk_json(subject, walk), json_path, late_walk_sections(subject, walk))
