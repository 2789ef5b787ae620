"""``ocs-codesign run``: a design on real processes, compared with MPI's own collective."""

from __future__ import annotations

from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.build import BEST
from ocs_codesign.cli.choices import LiveChoice, program_formats
from ocs_codesign.cli.classic import option_option
from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.greedy import ROOTED, GreedyChoice
from ocs_codesign.cli.message_options import message_option
from ocs_codesign.cli.options import (
    ALLTOALL,
    GATHERING,
    collective_choice,
    json_option,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_time
from ocs_codesign.schedulers.registry import SCHEDULERS

if TYPE_CHECKING:
    from ocs_codesign.execute.job import RunJob
    from ocs_codesign.execute.outcome import RunOutcome

NEGATIVE = 1
ELEMENT_BYTES = 8
DEFAULT_BYTES = 2**20
DEFAULT_LIMIT_S = 60.0
MOST_UNASKED = 64
"""Ranks that are started on one machine without being asked for by number."""


@click.command(short_help="Run a design on real processes and compare it with MPI.")
@click.argument("design", type=FILE, metavar="DESIGN|BOOK|RECIPE")
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    help="Ranks to start: as many as the design has, which is the default up to 64.",
)
@collective_choice(*GATHERING, ALLTOALL, *ROOTED)
@click.option(
    "--scheduler",
    type=LiveChoice(lambda: {BEST: None, **SCHEDULERS}),
    default=BEST,
    show_default=True,
    help="Who makes the schedule of a RECIPE; classic algorithms send between any of its hosts.",
)
@option_option
@click.option("--root", type=click.IntRange(min=0), help="The root of a rooted one (default: 0).")
@click.option(
    "--from",
    "format_name",
    type=LiveChoice(program_formats("read")),
    help="The format of a program that others wrote, if its name and content do not tell.",
)
@message_option
@click.option(
    "--elements",
    type=click.IntRange(min=0),
    help="Elements of M, instead of --message in 8 bytes each; they need not divide (default: "
    "131072).",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the data."
)
@click.option("--in-place", is_flag=True, help="Input and output are parts of one buffer.")
@quantity_option(
    "--time-limit", parse_time, "Time for a run of the program, such as 10s (default: 60s)."
)
@json_option
def run(
    design: str,
    ranks: int | None,
    elements: int | None,
    message: float | None,
    seed: int,
    time_limit: float | None,
    json_path: str | None,
    **asked: Any,
) -> int:
    """Run a DESIGN, a page of a BOOK or a RECIPE's schedule on real processes.

    Every process does the operations of one rank, as data comes, over MPI; where circuits change,
    all meet first. The result of random 64-bit integers and of whole numbers as 32-bit floats is
    compared bit by bit with that of MPI's own collective. Exit code 1 if a rank has another result
    or does not come to its end.

    It starts the ranks itself with Open MPI's mpirun, or is one of those of mpirun -n N
    ocs-codesign run DESIGN. The seconds of this machine are not those of a network.

    \b
    Example:
      ocs-codesign build 'Complete(3)' --collective allreduce --out design
      ocs-codesign run design --ranks 3
    """
    check_outputs(json_path)
    from ocs_codesign.answers.run import run_json, run_sections
    from ocs_codesign.execute.joined import run_joined
    from ocs_codesign.execute.launch import check_available, is_under_mpirun, launch

    if elements is not None and message is not None:
        raise click.UsageError("give --message or --elements: one follows from the other")
    size = int(DEFAULT_BYTES if message is None else message)
    elements = size // ELEMENT_BYTES if elements is None else elements
    limit_s = DEFAULT_LIMIT_S if time_limit is None else time_limit

    def made() -> RunJob:
        return _job(design, ranks, elements, seed, asked)

    def show(outcome: RunOutcome) -> None:
        emit(run_json(outcome), json_path, run_sections(outcome))

    check_available(launcher=not is_under_mpirun())
    if is_under_mpirun():
        return run_joined(made, limit_s, show)
    with progress("Preparing the program") as shown:
        job = made()
        if ranks is None and job.program.num_ranks > MOST_UNASKED:
            number = job.program.num_ranks
            raise ValueError(f"{number} processes for {job.name}: --ranks {number} starts them")
        shown.tell_phase(f"Running {job.program.num_ranks} ranks")
        (outcome,) = launch([job], limit_s)
    show(outcome)
    return 0 if outcome.ok else NEGATIVE


def _job(text: str, ranks: int | None, elements: int, seed: int, asked: dict[str, Any]) -> RunJob:
    """The program of what was given, verified as far as it is a plan."""
    from ocs_codesign.execute.job import RunJob
    from ocs_codesign.lowering.lowering import lower
    from ocs_codesign.rank_program import RankProgram

    plan, barriers = _plan(text, elements * ELEMENT_BYTES, asked)
    program = plan if isinstance(plan, RankProgram) else lower(plan, in_place=asked["in_place"])
    name = Path(text).name if exists(text) else text
    if ranks is not None and ranks != program.num_ranks:
        raise ValueError(f"--ranks is {ranks}, but {name} is for {program.num_ranks} ranks")
    return RunJob(name, program, elements, barriers, seed)


def _plan(text: str, message_bytes: int, asked: dict[str, Any]) -> tuple[Any, tuple[int, ...]]:
    """The plan, or the program, that was given, and the steps before which circuits change."""
    from ocs_codesign.cli.saved import design_of, verified_book
    from ocs_codesign.execute.job import steps_of_changes
    from ocs_codesign.formats.book_files import is_book
    from ocs_codesign.formats.programs.registry import read_program, told_format
    from ocs_codesign.graphs.handle import asked_digits

    path = Path(text)
    if is_book(path):
        return verified_book(text).page_of(message_bytes).plan, ()
    format_name = asked["format_name"] or told_format(path)
    if format_name is not None:
        return _checked(read_program(path, format_name), path), ()
    is_recipe = text.rstrip().endswith(")") or asked_digits(text) is not None
    if exists(text) or not is_recipe:
        loaded = design_of(text, asked["collective"])
        circuits = loaded.circuits
        return loaded.schedule, () if circuits is None else steps_of_changes(circuits)
    return _made(text, asked), ()


def _checked(given: Any, path: Path) -> Any:
    """A program as it is, since its run is the check; ValueError for a plan that is not right."""
    from ocs_codesign.messages import Messages
    from ocs_codesign.rank_program import RankProgram
    from ocs_codesign.verification.messages import check_messages
    from ocs_codesign.verification.schedules import verify

    if isinstance(given, RankProgram):
        return given
    witness = check_messages(given) if isinstance(given, Messages) else verify(given).witness
    if witness is not None:
        raise ValueError(f"{path} is no valid schedule: {witness}")
    return given


def _made(text: str, asked: dict[str, Any]) -> Any:
    """What a scheduler makes of a recipe: messages between ranks, if it is a classic algorithm."""
    from ocs_codesign.cli.build import algorithm_options, default_scheduler
    from ocs_codesign.cli.options import GivenGraph
    from ocs_codesign.design import build
    from ocs_codesign.schedulers.classic.rank_maps import messages_on
    from ocs_codesign.schedulers.registry import made_by
    from ocs_codesign.schedulers.task import Task

    source = GivenGraph.of(text, None)
    collective = GreedyChoice(asked["root"], None, None).collective(asked["collective"])
    options = algorithm_options(asked["scheduler"], asked["options"]) or {}
    name = default_scheduler(asked["scheduler"], asked["collective"], source)
    topology = source.topology()
    if name != BEST and SCHEDULERS[name].is_classic:
        sides = getattr(source.recipe, "sides", None)
        messages, _ = messages_on(topology, name, collective, options, sides)
        return messages
    if name == BEST and source.recipe is not None:
        return build(source.recipe, collective).schedule
    made = made_by(name, Task(topology, collective, source.recipe))
    if made.schedule is None:
        raise ValueError(f"scheduler {name} makes no {collective.text} of {text}")
    return made.schedule
