"""``ocs-codesign sequence``: a verified schedule over circuits that change, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli.message_options import message_option
from ocs_codesign.faces.cli.options import (
    COLD,
    WARM,
    SolverChoice,
    alpha_option,
    bandwidth_option,
    delta_option,
    delta_per_circuit_option,
    design_directory_option,
    json_option,
    overlap_option,
    solver_options,
)
from ocs_codesign.faces.cli.output import check_outputs, emit
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.circuits.programs.designs import ProgramDesign


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
@delta_option()
@delta_per_circuit_option
@click.option(
    "--start",
    type=click.Choice([COLD, WARM]),
    help="Whether the first configuration takes its dead time too (cold, the default), or is up "
    "before the time begins.",
)
@overlap_option
@design_directory_option
@solver_options
@json_option
def sequence(
    recipes: tuple[str, ...],
    pattern: str | None,
    nodes: int | None,
    planes: int | None,
    overlap: bool | None,
    collective: str | None,
    steps_each: int | tuple[int, ...] | None,
    max_chunks: int | None,
    alpha: float | None,
    bandwidth: float | None,
    message: float | None,
    delta: float | None,
    delta_per_circuit: float | None,
    start: str | None,
    directory: str,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
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
    needed = (alpha, bandwidth, message, delta)
    is_timed = overlap is False or (overlap is not None and pattern is None)
    told = (*needed, delta_per_circuit, start, is_timed or None)
    if any(value is not None for value in told) and None in needed:
        raise click.UsageError("a time needs --alpha, --bandwidth, --message and --delta")
    if (pattern is None) == (not recipes):
        raise click.UsageError("give either RECIPEs or --pattern")
    if pattern is None and (nodes is not None or planes is not None):
        raise click.UsageError("--nodes and --planes are for --pattern")
    if pattern is not None and (steps_each is not None or max_chunks is not None):
        raise click.UsageError("--steps-each and --max-chunks are for RECIPEs")
    if max_chunks is not None and (collective or ALLTOALL) != ALLTOALL:
        raise click.UsageError("--max-chunks is for --collective alltoall")
    from ocs_codesign.faces.answers.plan import sequence_json, sequence_sections
    from ocs_codesign.schedules.files.designs import check_design_directory, save_program

    check_outputs(json_path)
    check_design_directory(directory)
    with progress("Building the schedule"):
        if pattern is not None:
            choice.check_unused("an all-to-all over RECIPEs")
            design = _patterned(pattern, nodes, planes or 1, overlap is True, collective)
        else:
            design = _sequenced(recipes, collective or ALLTOALL, steps_each, max_chunks, choice)
        tell_phase("Writing the design", 0, 0)
        save_program(design, directory)
    time = None
    if alpha is not None and bandwidth is not None and message is not None and delta is not None:
        from ocs_codesign.circuits.change import Change
        from ocs_codesign.circuits.programs.designs import program_time
        from ocs_codesign.core.cost import CostModel

        each = delta_per_circuit or 0
        change = Change(delta, each, cold_start=start != WARM, overlap=overlap is not False)
        time = program_time(design.verdict, CostModel(alpha, bandwidth), message, change)
    sections = sequence_sections(design, time, directory)
    emit(sequence_json(design, time, directory), json_path, sections)


def _patterned(
    pattern: str, nodes: int | None, planes: int, overlap: bool, collective: str | None
) -> ProgramDesign:
    from ocs_codesign.circuits.programs.designs import build_direct, build_halving_doubling

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
) -> ProgramDesign:
    from ocs_codesign.circuits.programs.designs import build_sequence
    from ocs_codesign.faces.cli.handles import recipe_of
    from ocs_codesign.schedules.stepped.alltoall import MAX_CHUNKS

    if collective != ALLTOALL:
        choice.check_unused("an all-to-all over RECIPEs")
    parsed = [recipe_of(text) for text in recipes]
    with choice.solving() as options:
        most = max_chunks or MAX_CHUNKS
        return build_sequence(parsed, collective, steps_each, most, options)
