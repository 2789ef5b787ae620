"""``ocs-codesign planes``: which planes serve which steps, and when they change their circuits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.options import (
    SolverChoice,
    json_option,
    printable,
    quantity_option,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_bandwidth, parse_time

if TYPE_CHECKING:
    from ocs_codesign.formats.step_files import StepList
    from ocs_codesign.reconfigure.planes.problem import PlanePlan, PlaneProblem

# Spelled out, since importing ocs_codesign.reconfigure for a help text would take too long.
AUTO, MILP, FAST = "auto", "milp", "fast"
METHODS = (AUTO, "labels", MILP, FAST)


@click.command(short_help="Planes that change circuits while others send, for a list of steps.")
@click.argument("steps", metavar="STEPS")
@click.option(
    "--planes", "num_planes", type=click.IntRange(min=1), help="Planes; a node has a port in each."
)
@quantity_option("--bandwidth", parse_bandwidth, "Bandwidth of a port in one plane, as 400Gb/s.")
@quantity_option("--delta", parse_time, "Dead time of a change of a plane, such as 200us.")
@quantity_option(
    "--delta-per-circuit", parse_time, "Dead time more for every circuit that changes."
)
@quantity_option("--latency", parse_time, "Time that a step takes on a plane besides its bytes.")
@click.option(
    "--held",
    metavar="NAMES",
    help="What the planes hold at the start, as in ring,star,-; - is nothing.",
)
@click.option(
    "--cold/--warm",
    "cold_start",
    default=True,
    help="Whether a plane that holds nothing pays for its first configuration (default: it does).",
)
@click.option(
    "--overlap/--serial",
    default=True,
    help="A plane changes while others send (default), or the whole fabric stops for every change.",
)
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
@click.option(
    "--plot", "plot_path", metavar="FILE", help="Draw the planes over time (png, svg, pdf)."
)
@solver_options
@json_option
def planes(
    steps: str,
    method: str,
    plot_path: str | None,
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
    """
    if None in (fabric["num_planes"], fabric["bandwidth"], fabric["delta"]):
        raise click.UsageError("a plan needs --planes, --bandwidth and --delta")
    if method not in (AUTO, MILP):
        choice.check_unused(f"--method {AUTO} or {MILP}")
    if plot_path is not None:
        from ocs_codesign.plot import check_suffix

        if plot_path == STDOUT:
            raise click.UsageError("a picture is a file: it cannot go to standard output")
        check_suffix(Path(plot_path).suffix)
    check_outputs(plot_path, json_path)
    from ocs_codesign.answers.planes import PlanesAnswer, planes_json, planes_sections
    from ocs_codesign.formats.step_files import read_steps

    holds = _held(fabric.pop("held"), fabric["num_planes"])
    listed = read_steps(steps).with_held(name for name in holds if name is not None)
    plans = _plans(_problem(listed, holds, **fabric), method, choice)
    answer = PlanesAnswer(printable(Path(steps).name), listed, *plans)
    files: dict[str, bytes] = {}
    if plot_path is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.gantt import planes_figure

        figure = planes_figure(answer.plan, listed.names, answer.file)
        files[plot_path] = figure_bytes(figure, Path(plot_path).suffix)
    emit(planes_json(answer), json_path, planes_sections(answer), files)


def _held(text: str | None, num_planes: int) -> list[str | None]:
    """The name of what every plane holds, None for nothing."""
    names = ["-"] * num_planes if text is None else [name.strip() for name in text.split(",")]
    if len(names) != num_planes:
        raise click.UsageError(
            f"--held names {len(names)} configurations for {num_planes} planes: "
            "give one for each, - for a plane that holds nothing"
        )
    return [None if name == "-" else name for name in names]


def _problem(
    listed: StepList,
    holds: list[str | None],
    num_planes: int,
    bandwidth: float,
    delta: float,
    delta_per_circuit: float | None,
    latency: float | None,
    cold_start: bool,
    overlap: bool,
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
        delta, delta_per_circuit or 0.0, cold_start=cold_start, overlap=overlap, barrier=barrier
    )
    try:
        held = [None if name is None else listed.index(name) for name in holds]
    except ValueError as error:
        raise click.UsageError(f"--held: {error}") from None
    return PlaneProblem(
        *(listed.configurations, listed.step_bytes, num_planes, bandwidth, cost),
        latency_s=latency or 0.0,
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
