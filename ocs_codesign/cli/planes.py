"""``ocs-codesign planes``: which planes serve which steps, and when they change their circuits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.file_options import INPUT, plot_option
from ocs_codesign.cli.options import (
    COLD,
    WARM,
    SolverChoice,
    alpha_option_of,
    bandwidth_option_of,
    delta_option,
    delta_per_circuit_option,
    json_option,
    overlap_option,
    printable,
    solver_options,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.formats.step_files import StepList
    from ocs_codesign.reconfigure.planes.problem import PlanePlan, PlaneProblem

# Spelled out, since importing ocs_codesign.reconfigure for a help text would take too long.
AUTO, MILP, FAST = "auto", "milp", "fast"
METHODS = (AUTO, "labels", MILP, FAST)


@click.command(short_help="Planes that change circuits while others send, for a list of steps.")
@click.argument("steps", type=INPUT, metavar="STEPS")
@click.option(
    *("--planes", "num_planes"),
    type=click.IntRange(min=1),
    required=True,
    help="Planes; a node has a port in each.",
)
@bandwidth_option_of("Bandwidth of a port in one plane, as 400Gb/s.", required=True)
@delta_option(required=True)
@delta_per_circuit_option
@alpha_option_of("Time that a step takes on a plane besides its bytes.")
@click.option(
    "--start",
    metavar="NAMES",
    default=COLD,
    show_default=True,
    help="What the planes hold, as in ring,star,cold; cold: nothing, and the first configuration "
    "takes its dead time too; warm: the first one is up already.",
)
@overlap_option
@click.option(
    "--barrier/--no-barrier",
    default=True,
    help="A step begins when the one before has arrived everywhere (default), or plane by plane.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS, case_sensitive=False),
    default=AUTO,
    show_default=True,
    help="How to plan; labels and milp prove the optimum, fast is for long lists.",
)
@plot_option("the planes over time")
@solver_options
@json_option
def planes(
    steps: str,
    method: str,
    plot: str | None,
    choice: SolverChoice,
    json_path: str | None,
    **fabric: Any,
) -> None:
    """Plan which planes serve the steps in STEPS, and when each changes its circuits.

    STEPS is CSV with the columns configuration and size, and count if a step comes several times,
    or JSON, which may also list the circuits of configurations. A plane keeps what it holds until
    it changes. The answer is proven optimal or says how far it may be from that, its timeline has
    been checked, and it is compared with a fabric that stops for every change, and with planes that
    never change.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign planes steps.csv --planes 2 --bandwidth 400Gb/s --delta 200us
    """
    if method not in (AUTO, MILP):
        choice.check_unused(f"--method {AUTO} or {MILP}")
    check_outputs(plot, json_path)
    from ocs_codesign.answers.planes import PlanesAnswer, planes_json, planes_sections
    from ocs_codesign.formats.step_files import read_steps

    holds, cold_start = _held(fabric.pop("start"), fabric["num_planes"])
    listed = read_steps(steps).with_held(name for name in holds if name is not None)
    plans = _plans(_problem(listed, holds, cold_start=cold_start, **fabric), method, choice)
    answer = PlanesAnswer(printable(Path(steps).name), listed, *plans)
    files: dict[str, bytes] = {}
    if plot is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.gantt import planes_figure

        figure = planes_figure(answer.plan, listed.names, answer.file)
        files[plot] = figure_bytes(figure, Path(plot).suffix)
    emit(planes_json(answer), json_path, planes_sections(answer), files)


def _held(text: str, num_planes: int) -> tuple[list[str | None], bool]:
    """The name of what every plane holds, None for nothing, and whether that costs a change."""
    names = [COLD if name.strip() == "-" else name.strip() for name in text.split(",")]
    if names in ([COLD], [WARM]):
        names *= num_planes
    if len(names) != num_planes:
        raise click.UsageError(
            f"--start names {len(names)} configurations for {num_planes} planes: "
            f"give one for each, {COLD} or {WARM} for a plane that holds nothing"
        )
    if COLD in names and WARM in names:
        raise click.UsageError(f"--start is {text}: planes that hold nothing are {COLD} or {WARM}")
    return [None if name in (COLD, WARM) else name for name in names], WARM not in names


def _problem(
    listed: StepList,
    holds: list[str | None],
    num_planes: int,
    bandwidth: float,
    delta: float,
    delta_per_circuit: float | None,
    alpha: float | None,
    cold_start: bool,
    overlap: bool | None,
    barrier: bool,
) -> PlaneProblem:
    """These steps on these planes; ValueError for what is no problem."""
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.reconfigure.planes.problem import PlaneProblem

    if delta_per_circuit and listed.changed_circuits is None:
        raise click.UsageError(
            "--delta-per-circuit needs to know the circuits: give STEPS as JSON with the "
            "circuits of its configurations"
        )
    cost = ReconfigurationCost(
        delta,
        delta_per_circuit or 0.0,
        cold_start=cold_start,
        overlap=overlap is not False,
        barrier=barrier,
    )
    try:
        held = [None if name is None else listed.index(name) for name in holds]
    except ValueError as error:
        raise click.UsageError(f"--start: {error}") from None
    return PlaneProblem(
        *(listed.configurations, listed.step_bytes, num_planes, bandwidth, cost),
        latency_s=alpha or 0.0,
        held=held,
        changed_circuits=1 if listed.changed_circuits is None else listed.changed_circuits,
    )


def _plans(
    problem: PlaneProblem, method: str, choice: SolverChoice
) -> tuple[PlanePlan, PlanePlan, PlanePlan | None]:
    """The plan, and what it is compared with: the other rule of changes, and no changes."""
    from ocs_codesign.reconfigure.planes.plan import plan_planes
    from ocs_codesign.reconfigure.planes.static import static_plan_of_planes

    other = problem.with_cost(replace(problem.cost, overlap=not problem.cost.overlap))
    with progress("Planning") as shown, choice.solving(default_limit_s=60.0) as options:
        plan = plan_planes(problem, method, options, shown.tell)
        shown.tell_phase("Comparing", 0, 0)
        compared = plan_planes(other, FAST if method == FAST else AUTO, options, shown.tell)
        return plan, compared, static_plan_of_planes(problem)
