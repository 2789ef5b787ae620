"""``ocs-codesign sequence``: a verified schedule over circuits that change, as files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.answers.texts import cost_text
from ocs_codesign.cli.circuits import circuits_facts, circuits_json, show_changes
from ocs_codesign.cli.options import (
    SolverChoice,
    alpha_option,
    bandwidth_option,
    json_option,
    message_option,
    quantity_option,
    solver_options,
)
from ocs_codesign.cli.output import STDOUT, check_outputs, emit, show_facts
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import format_time, parse_time

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.reconfigure.program.designs import ProgramDesign
    from ocs_codesign.reconfigure.program.program_times import ProgramTime

ALLTOALL, ALLREDUCE = "alltoall", "allreduce"
COLLECTIVES = (ALLTOALL, "allgather", "reduce-scatter", ALLREDUCE)
DIRECT, HALVING_DOUBLING = "direct", "halving-doubling"


def _read_steps(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> int | tuple[int, ...] | None:
    """One number of steps, or one for each configuration as in 2,3,1."""
    if value is None:
        return None
    parts = value.split(",")
    if len(value) > 10_000 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise click.BadParameter("write one number or several as in 2,3,1", ctx, param)
    steps = tuple(int(part) for part in parts)
    return steps[0] if len(steps) == 1 else steps


@final
@dataclass(frozen=True, slots=True)
class _Timing:
    """What a program's time is asked for, or nothing."""

    alpha_s: float | None
    node_bandwidth_Bps: float | None  # noqa: N815 - the unit keeps its case
    message_bytes: float | None
    delta_s: float | None
    delta_per_circuit_s: float | None
    warm: bool
    stop_all: bool

    def check(self) -> None:
        """UsageError unless all that a time needs is given, or nothing of it."""
        needed = (self.alpha_s, self.node_bandwidth_Bps, self.message_bytes, self.delta_s)
        given = [value is not None for value in needed]
        more = self.delta_per_circuit_s is not None or self.warm or self.stop_all
        if (any(given) or more) and not all(given):
            raise click.UsageError("a time needs --alpha, --bandwidth, --message and --delta")

    def time(self, design: ProgramDesign) -> ProgramTime | None:
        """The program's time, None if it was not asked for."""
        if (
            self.alpha_s is None
            or self.node_bandwidth_Bps is None
            or self.message_bytes is None
            or self.delta_s is None
        ):
            return None
        from ocs_codesign.cost import CostModel
        from ocs_codesign.reconfigure import ReconfigurationCost
        from ocs_codesign.reconfigure.program.program_times import program_time

        delta = ReconfigurationCost(
            self.delta_s,
            self.delta_per_circuit_s or 0,
            cold_start=not self.warm,
            overlap=not self.stop_all,
        )
        model = CostModel(self.alpha_s, self.node_bandwidth_Bps)
        return program_time(design.verdict, model, self.message_bytes, delta)


@click.command(short_help="Build and verify a schedule whose circuits change.")
@click.argument("recipes", nargs=-1, metavar="[RECIPE]...")
@click.option(
    "--pattern",
    type=click.Choice([DIRECT, HALVING_DOUBLING]),
    help="Circuits as every step wants them, instead of recipes: a direct all-to-all, or recursive "
    "halving and doubling.",
)
@click.option("--nodes", type=click.IntRange(min=2), help="Nodes of a --pattern.")
@click.option("--planes", type=click.IntRange(min=1), help="Planes of a --pattern (default: 1).")
@click.option(
    "--overlap",
    is_flag=True,
    help="Let one plane of halving and doubling change while the others send.",
)
@click.option(
    "--collective",
    type=click.Choice(COLLECTIVES, case_sensitive=False),
    help="The collective operation (default: alltoall, of halving and doubling allreduce).",
)
@click.option(
    "--steps-each",
    callback=_read_steps,
    metavar="STEPS",
    help="Steps that every RECIPE is up for, one number or 2,3,1 (default: as few as will do).",
)
@click.option(
    "--max-chunks",
    type=click.IntRange(min=1),
    help="Most chunks that an all-to-all cuts a piece into: fewer sends, a higher t_b.",
)
@alpha_option
@bandwidth_option
@message_option
@quantity_option("--delta", parse_time, "Dead time of a change of circuits, such as 10us.")
@quantity_option(
    "--delta-per-circuit", parse_time, "Dead time more for every circuit that changes."
)
@click.option("--warm", is_flag=True, help="The first configuration is up before the time begins.")
@click.option("--stop-all", is_flag=True, help="The whole fabric stops for every change.")
@click.option("--out", "directory", metavar="DIR", required=True, help="Where to save the design.")
@solver_options
@json_option
def sequence(
    recipes: tuple[str, ...],
    pattern: str | None,
    nodes: int | None,
    planes: int | None,
    overlap: bool,
    collective: str | None,
    steps_each: int | tuple[int, ...] | None,
    max_chunks: int | None,
    alpha: float | None,
    bandwidth: float | None,
    message: float | None,
    delta: float | None,
    delta_per_circuit: float | None,
    warm: bool,
    stop_all: bool,
    directory: str,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Build a schedule that goes through the RECIPEs' topologies one after the other, and save it.

    Every node has a port in each plane, as many as the degree, and circuits change between steps.
    An all-to-all is the best for these steps, or close to it; an allgather takes at every step all
    that it can, and an allreduce goes through the recipes and back. The schedule is replayed
    against the circuits that are up. DIR gets schedule.npz and design.json.
    """
    timing = _Timing(alpha, bandwidth, message, delta, delta_per_circuit, warm, stop_all)
    timing.check()
    if directory == STDOUT:
        raise click.UsageError("a design is a directory: it cannot go to standard output")
    if (pattern is None) == (not recipes):
        raise click.UsageError("give either RECIPEs or --pattern")
    if pattern is None and (nodes is not None or planes is not None or overlap):
        raise click.UsageError("--nodes, --planes and --overlap are for --pattern")
    if pattern is not None and (steps_each is not None or max_chunks is not None):
        raise click.UsageError("--steps-each and --max-chunks are for RECIPEs")
    if max_chunks is not None and (collective or ALLTOALL) != ALLTOALL:
        raise click.UsageError("--max-chunks is for --collective alltoall")
    from ocs_codesign.formats.designs.design_files import (
        check_design_directory,
        program_record,
        save_program,
    )

    check_outputs(json_path)
    check_design_directory(directory)
    with progress("Building the schedule") as shown:
        if pattern is not None:
            choice.check_unused("an all-to-all over RECIPEs")
            design = _patterned(pattern, nodes, planes or 1, overlap, collective)
        else:
            design = _sequenced(
                recipes, collective or ALLTOALL, steps_each, max_chunks, choice, shown
            )
        shown.tell_phase("Writing the design", 0, 0)
        save_program(design, directory)
    time = timing.time(design)
    answer: dict[str, Any] = {
        **program_record(design),
        **circuits_json(design.program, design.verdict),
        "time": None if time is None else _time_json(time),
        "out": directory,
    }
    emit(answer, json_path, lambda console: _show(console, answer, design, time))


def _patterned(
    pattern: str, nodes: int | None, planes: int, overlap: bool, collective: str | None
) -> ProgramDesign:
    from ocs_codesign.reconfigure.program.designs import build_direct, build_halving_doubling

    if nodes is None:
        raise click.UsageError("--pattern needs --nodes")
    if pattern == DIRECT:
        if (collective or ALLTOALL) != ALLTOALL or overlap:
            raise click.UsageError("--pattern direct is an all-to-all, and has nothing to overlap")
        return build_direct(nodes, planes)
    if collective == ALLTOALL:
        raise click.UsageError("--pattern halving-doubling is for the other collectives")
    return build_halving_doubling(nodes, planes, collective or ALLREDUCE, overlap=overlap)


def _sequenced(
    recipes: tuple[str, ...],
    collective: str,
    steps_each: int | tuple[int, ...] | None,
    max_chunks: int | None,
    choice: SolverChoice,
    shown: Progress,
) -> ProgramDesign:
    from ocs_codesign.recipe import parse
    from ocs_codesign.reconfigure.program.designs import build_sequence
    from ocs_codesign.schedulers.alltoall.stepped import MAX_CHUNKS

    if collective != ALLTOALL:
        choice.check_unused("an all-to-all over RECIPEs")
    parsed = [parse(text) for text in recipes]
    with choice.solving() as options:
        most = max_chunks or MAX_CHUNKS
        return build_sequence(parsed, collective, steps_each, most, options, shown.tell)


def _time_json(time: ProgramTime) -> dict[str, float]:
    return {
        "total_s": float(time.total_s),
        "steps_s": float(time.steps_s),
        "transmission_s": float(time.transmission_s),
        "dead_s": float(time.dead_s),
    }


def _show(
    console: Console, answer: dict[str, Any], design: ProgramDesign, time: ProgramTime | None
) -> None:
    show_facts(
        console,
        [
            ("recipes", ", ".join(answer["recipes"]) or None),
            ("nodes, planes", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", f"{cost_text(design.cost)}, verified"),
            ("bound", _bound_text(design)),
            *circuits_facts(design.program, design.verdict),
            ("schedule", f"{answer['schedule']}, {answer['num_sends']:,} sends"),
            ("chunks a shard", answer["num_chunks"]),
            ("time", None if time is None else _time_text(time)),
            ("saved in", answer["out"]),
        ],
    )
    show_changes(console, design.verdict.changes)


def _bound_text(design: ProgramDesign) -> str | None:
    """How far an all-to-all may be above the best over the same steps."""
    if design.bound is None:
        return None
    if design.cost.t_b == design.bound:
        return "no schedule over the same steps is better"
    gap = float(design.cost.t_b / design.bound - 1)
    return f"{float(design.bound):.6g}, at most {gap:.1g} below"


def _time_text(time: ProgramTime) -> str:
    parts = [
        f"{format_time(float(part))} {name}"
        for part, name in (
            (time.steps_s, "for steps"),
            (time.transmission_s, "for transmission"),
            (time.dead_s, "waiting for circuits"),
        )
    ]
    return f"{format_time(float(time.total_s))}: {', '.join(parts)}"
