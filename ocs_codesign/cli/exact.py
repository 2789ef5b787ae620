"""What ``cost --exact`` does: the best of more and more steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.exact import (
    Walk,
    refusal_json,
    refusal_sections,
    walk_json,
    walk_sections,
)
from ocs_codesign.cli.interruption import interruptions
from ocs_codesign.cli.output import emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.cli.options import GivenGraph, SolverChoice
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.schedulers.exact.answers import ExactAnswer
    from ocs_codesign.schedulers.task import Made
    from ocs_codesign.topology import Topology

NEGATIVE, STOPPED, INTERRUPTED = 1, 2, 130
LIMIT_S = 60.0
MORE_STEPS = 2

chunks_option = click.option(
    "--chunks",
    type=click.IntRange(min=1),
    help="Chunks of a shard in an exact schedule (default: the degree).",
)


def refuse(made: Made, json_path: str | None) -> int:
    """Say that there is no schedule at all, and return the exit code for it."""
    if made.exact is None:
        emit({"schedule": None, "status": made.maker}, json_path, [f"No schedule: {made.maker}."])
    else:
        emit(refusal_json(made.exact), json_path, refusal_sections(made.exact))
    return NEGATIVE


def walked(
    topology: Topology, max_steps: int, num_chunks: int, collective: str, choice: SolverChoice
) -> tuple[tuple[ExactAnswer, ...], str | None, int]:
    """The answers, what stopped them if anything, and the exit code.

    If something stops it, what was found before stands.
    """
    from ocs_codesign.schedulers.exact.answers import exact_answers

    answers: list[ExactAnswer] = []
    try:
        with (
            interruptions(),
            progress("Solving for the fewest steps") as shown,
            choice.solving(LIMIT_S) as given,
        ):
            for answer in exact_answers(topology, max_steps, num_chunks, collective, given):
                answers.append(answer)
                last = max_steps - answers[0].num_steps + 1
                phase = f"Solving for {answer.num_steps + 1} steps"
                shown.tell_phase(phase, len(answers), last)
    except (KeyboardInterrupt, click.ClickException, ValueError, MemoryError) as error:
        if not answers:
            raise
        if isinstance(error, KeyboardInterrupt):
            return tuple(answers), "interrupted", INTERRUPTED
        return tuple(answers), str(error) or "not enough memory", STOPPED
    return tuple(answers), None, 0


def cost_exactly(
    source: GivenGraph,
    collective: str,
    max_steps: int | None,
    chunks: int | None,
    asked: MessageSizes | None,
    choice: SolverChoice,
    json_path: str | None,
) -> int:
    """Find, print and write the exact frontier of steps and t_b; the exit code.

    If something stops it, the points so far are printed and written, and said to be not all.
    """
    from ocs_codesign.bounds import topology_bound
    from ocs_codesign.collective import Collective
    from ocs_codesign.design import measure_topology
    from ocs_codesign.schedulers.registry import made_by
    from ocs_codesign.schedulers.task import Task

    topology = source.topology()
    least = topology_bound(topology, collective)
    most = least.steps + MORE_STEPS if max_steps is None else max_steps
    num_chunks = chunks or topology.degree
    if most < least.steps:
        with choice.solving(LIMIT_S) as options:
            task = Task(topology, Collective.parse(collective), None, most, chunks, None, options)
            return refuse(made_by("exact", task), json_path)
    answers, stopped, code = walked(topology, most, num_chunks, collective, choice)
    eager = measure_topology(topology, collective).cost
    walk = Walk(collective, num_chunks, most, least, eager, answers, asked, stopped)
    subject = source.subject(topology)
    emit(walk_json(subject, walk), json_path, walk_sections(subject, walk))
    if code == STOPPED:
        click.echo(f"Error: {walk.stop_sentence}: {stopped}", err=True)
    elif code == INTERRUPTED:
        click.echo("Interrupted: what was found so far stands.", err=True)
    return code
