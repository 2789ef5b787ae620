"""``ocs-codesign sequence``: a verified schedule over circuits that change, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.message_options import message_option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.circuits.programs.designs import ProgramDesign


ALLTOALL = "alltoall"
COLLECTIVES = (ALLTOALL, "allgather", "reduce-scatter", "allreduce")


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


class SequenceOptions(OptionGroup):
    """Which circuits follow each other for what, and the clock of a time."""

    recipes: tuple[str, ...] = argument("recipes", nargs=-1, required=True, metavar="RECIPE...")
    collective: str = opt.collective_choice(*COLLECTIVES)
    steps_each: int | tuple[int, ...] | None = option(
        "--steps-each",
        callback=_read_steps,
        metavar="STEPS",
        help="Steps that every RECIPE is up for, one number or 2,3,1 (default: as few as will do).",
    )
    max_chunks: int | None = option(
        "--max-chunks",
        type=click.IntRange(min=1),
        help="Most chunks that an all-to-all cuts a piece into: fewer sends, a higher t_b.",
    )
    alpha: float | None = opt.alpha_option
    bandwidth: float | None = opt.bandwidth_option
    message: float | None = message_option
    delta: float | None = opt.delta_option()
    delta_per_circuit: float | None = opt.delta_per_circuit_option
    start: str | None = option(
        "--start",
        type=click.Choice([opt.COLD, opt.WARM]),
        help="Whether the first configuration takes its dead time too (cold, the default), or is "
        "up before the time begins.",
    )
    overlap: bool | None = opt.overlap_option
    directory: str = opt.design_directory_option
    choice: opt.SolverChoice = opt.solving_options


@command()
def sequence(given: SequenceOptions = group(SequenceOptions)) -> Answer:
    """Build a schedule that goes through the RECIPEs' topologies one after the other, and save it.

    Every node has a port in each plane, as many as the degree, and circuits change between steps.
    An all-to-all is the best for these steps, or close to it; an allgather takes at every step all
    that it can, and an allreduce goes through the recipes and back. The schedule is replayed
    against the circuits that are up. DIR gets schedule.npz and design.json.

    \b
    Example:
      ocs-codesign sequence 'DirectedCirculant(8, (1,))' 'DirectedCirculant(8, (3,))' \\
          --steps-each 4 --out switched
    """
    alpha, bandwidth, message, delta = given.alpha, given.bandwidth, given.message, given.delta
    needed = (alpha, bandwidth, message, delta)
    told = (*needed, given.delta_per_circuit, given.start, given.overlap)
    if any(value is not None for value in told) and None in needed:
        raise click.UsageError("a time needs --alpha, --bandwidth, --message and --delta")
    if given.max_chunks is not None and given.collective != ALLTOALL:
        raise click.UsageError("--max-chunks is for --collective alltoall")
    from ocs_codesign.schedules.files.designs import check_design_directory, save_program

    check_design_directory(given.directory)
    with progress("Building the schedule"):
        design = _sequenced(given)
        tell_phase("Writing the design", 0, 0)
        save_program(design, given.directory)
    time = None
    if alpha is not None and bandwidth is not None and message is not None and delta is not None:
        from ocs_codesign.circuits.change import Change
        from ocs_codesign.circuits.programs.designs import program_time
        from ocs_codesign.core.cost import CostModel

        each, cold_start = given.delta_per_circuit or 0, given.start != opt.WARM
        change = Change(delta, each, cold_start=cold_start, overlap=given.overlap is not False)
        time = program_time(design.verdict, CostModel(alpha, bandwidth), message, change)
    return answered("plan.sequence", design, time, given.directory)


def _sequenced(given: SequenceOptions) -> ProgramDesign:
    from ocs_codesign.circuits.programs.designs import build_sequence
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.schedules.stepped.alltoall import MAX_CHUNKS

    if given.collective != ALLTOALL:
        given.choice.check_unused("an all-to-all over RECIPEs")
    parsed = [recipe_of(text) for text in given.recipes]
    with given.choice.solving() as options:
        most = given.max_chunks or MAX_CHUNKS
        return build_sequence(parsed, given.collective, given.steps_each, most, options)
