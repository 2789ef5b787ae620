"""``ocs-codesign planes``: which planes serve which steps, and when they change their circuits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

import click

from ocs_codesign.cli.options import (
    SolverChoice,
    json_option,
    printable,
    quantity_option,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.planes_json import Report, planes_json
from ocs_codesign.cli.planes_report import show_planes
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_bandwidth, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.formats.step_files import StepList
    from ocs_codesign.reconfigure import PlanePlan, PlaneProblem

# Spelled out, since importing ocs_codesign.reconfigure for a help text would take too long.
AUTO, MILP, FAST = "auto", "milp", "fast"
METHODS = (AUTO, "labels", MILP, "enumerate", FAST)
NOTHING = "-"
_TIME_LIMIT_S = 60.0


@final
@dataclass(frozen=True, slots=True)
class _Fabric:
    """The planes as the options describe them; times in seconds."""

    num_planes: int
    bandwidth_Bps: float  # noqa: N815 - the unit keeps its case
    delta_s: float
    delta_per_circuit_s: float
    latency_s: float
    held: str | None
    cold: bool
    overlap: bool
    barrier: bool

    def problem(self, steps: StepList) -> PlaneProblem:
        """These steps on these planes; ValueError for what is no problem."""
        from ocs_codesign.reconfigure import PlaneProblem, ReconfigurationCost

        if self.delta_per_circuit_s and steps.changed_circuits is None:
            raise click.UsageError(
                "--delta-per-circuit needs to know the circuits: give STEPS as JSON with the "
                "circuits of its configurations"
            )
        cost = ReconfigurationCost(
            self.delta_s,
            self.delta_per_circuit_s,
            cold_start=self.cold,
            overlap=self.overlap,
            barrier=self.barrier,
        )
        return PlaneProblem(
            steps.configurations,
            steps.step_bytes,
            self.num_planes,
            self.bandwidth_Bps,
            cost,
            latency_s=self.latency_s,
            held=self._held(steps),
            changed_circuits=1 if steps.changed_circuits is None else steps.changed_circuits,
        )

    def _held(self, steps: StepList) -> list[int | None] | None:
        if self.held is None:
            return None
        names = [name.strip() for name in self.held.split(",")]
        if len(names) != self.num_planes:
            raise click.UsageError(
                f"--held names {len(names)} configurations for {self.num_planes} planes: "
                f"give one for each, {NOTHING} for a plane that holds nothing"
            )
        try:
            return [None if name == NOTHING else steps.index(name) for name in names]
        except ValueError as error:
            raise click.UsageError(f"--held: {error}") from None


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
    help=f"What the planes hold at the start, as in ring,star,{NOTHING}; {NOTHING} is nothing.",
)
@click.option(
    "--cold/--warm",
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
    help="How to plan; labels, milp and enumerate prove the optimum, fast is for long lists.",
)
@click.option(
    "--plot", "plot_path", metavar="FILE", help="Draw the planes over time (png, svg, pdf)."
)
@solver_options
@json_option
def planes(
    steps: str,
    num_planes: int | None,
    bandwidth: float | None,
    delta: float | None,
    delta_per_circuit: float | None,
    latency: float | None,
    held: str | None,
    cold: bool,
    overlap: bool,
    barrier: bool,
    method: str,
    plot_path: str | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Plan which planes serve the steps in STEPS, and when each changes its circuits.

    STEPS is CSV with the columns configuration and size, and count if a step comes several times,
    or JSON, which may also list the circuits of configurations. A plane keeps what it holds until
    it changes. The answer is proven optimal or says how far it may be from that, its timeline has
    been checked, and it is compared with a fabric that stops for every change, and with planes that
    never change.
    """
    if num_planes is None or bandwidth is None or delta is None:
        raise click.UsageError("a plan needs --planes, --bandwidth and --delta")
    if method not in (AUTO, MILP):
        choice.check_unused(f"--method {AUTO} or {MILP}")
    if plot_path is not None:
        from ocs_codesign.plot import check_suffix

        if plot_path == STDOUT:
            raise click.UsageError("a picture is a file: it cannot go to standard output")
        check_suffix(Path(plot_path).suffix)
    check_outputs(plot_path, json_path)
    from ocs_codesign.formats.step_files import read_steps

    listed = read_steps(steps)
    fabric = _Fabric(
        num_planes,
        bandwidth,
        delta,
        delta_per_circuit or 0.0,
        latency or 0.0,
        held,
        cold,
        overlap,
        barrier,
    )
    report = _report(printable(Path(steps).name), listed, fabric, method, choice)
    files: dict[str, bytes] = {}
    if plot_path is not None:
        from ocs_codesign.plot import figure_bytes
        from ocs_codesign.plot.gantt import planes_figure

        figure = planes_figure(report.plan, listed.names, report.file)
        files[plot_path] = figure_bytes(figure, Path(plot_path).suffix)
    emit(planes_json(report), json_path, lambda console: show_planes(console, report), files)


def _report(
    file: str, listed: StepList, fabric: _Fabric, method: str, choice: SolverChoice
) -> Report:
    """The plan, and what it is compared with: the other rule of changes, and no changes."""
    from ocs_codesign.reconfigure import static_plan_of_planes

    problem = fabric.problem(listed)
    with progress("Planning") as shown:
        plan = _planned(problem, method, choice, shown.tell)
        shown.tell_phase("Comparing", 0, 0)
        other = replace(fabric, overlap=not fabric.overlap).problem(listed)
        compared = _planned(other, FAST if method == FAST else AUTO, choice, shown.tell)
        static = static_plan_of_planes(problem)
    return Report(file, listed, plan, compared, static)


def _planned(
    problem: PlaneProblem, method: str, choice: SolverChoice, tell: Callable[[int, int], None]
) -> PlanePlan:
    from ocs_codesign.reconfigure import plan_planes

    with choice.solving(_TIME_LIMIT_S) as options:
        return plan_planes(problem, method, options, tell)
