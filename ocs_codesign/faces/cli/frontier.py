"""``ocs-codesign frontier``: the latency-throughput frontier of N nodes of degree d."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli.message_options import asked_messages, messages_option
from ocs_codesign.faces.cli.options import (
    ALLTOALL,
    GATHERING,
    alpha_option,
    bandwidth_option,
    collective_choice,
    json_option,
    pick_option,
    plot_option,
    quantity_option,
    solver_options,
)
from ocs_codesign.faces.cli.output import check_outputs, emit, picked
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.faces.cli.options import SolverChoice
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.pareto import Frontier


# All-to-all of many topologies: the frontier of a search, and of what a catalogue stores.


@final
@dataclass(frozen=True, slots=True)
class AlltoallQuestion:
    """What was asked of a size, and of which messages."""

    num_nodes: int
    degree: int
    with_allgather: bool
    bidirectional: bool
    fresh: bool
    messages: MessageSizes | None
    show_all: bool


def frontier_of_alltoall(
    asked: AlltoallQuestion,
    choice: SolverChoice,
    pick: int | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Search, print, draw and write the joint frontier."""
    from ocs_codesign.faces.answers.joint import joint_json, joint_sections
    from ocs_codesign.search.frontiers import joint_frontier

    with progress("Searching"), choice.solving() as options:
        answer = joint_frontier(
            asked.num_nodes,
            asked.degree,
            with_allgather=asked.with_allgather,
            bidirectional=asked.bidirectional,
            fresh=asked.fresh,
            options=options,
        )
        files = {} if plot is None else {plot: _alltoall_figure(answer, asked.messages, plot)}
    sections: Iterable[Section] = joint_sections(answer, asked.messages, show_all=asked.show_all)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(joint_json(answer, asked.messages), json_path, sections, files)
    _refuse_if_stopped(answer, choice)


def _refuse_if_stopped(answer: Frontier, choice: SolverChoice) -> None:
    """ClickException, with the answer out, if some were not solved as well as was asked."""
    if answer.stopped is not None:
        raise click.ClickException(f"not all was solved: {choice.advised(answer.stopped)}")


def _alltoall_figure(answer: Frontier, asked: MessageSizes | None, plot: str) -> bytes:
    from pathlib import Path

    from ocs_codesign.faces.pictures import figure_bytes
    from ocs_codesign.faces.pictures.joint import joint_figure

    if not answer.candidates:
        raise click.ClickException("no candidate was solved in time: there is nothing to draw")
    return figure_bytes(joint_figure(answer, asked), Path(plot).suffix)


@final
@dataclass(frozen=True, slots=True)
class StoredLimits:
    """Limits of a look-up: most steps, which are the diameter, and most all-to-all time in M/B."""

    max_steps: int | None
    max_t_b: Fraction | None


def stored_by_alltoall(
    store: Catalogue,
    asked: Question,
    limits: StoredLimits,
    choice: SolverChoice,
    pick: int | None,
    json_path: str | None,
) -> None:
    """Solve the all-to-all of what is stored for a size, print and write the best of it.

    Exit code 1 if nothing is within the limits.
    """
    from ocs_codesign.faces.answers.joint import stored_json, stored_sections
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.search.catalogue.entry import nearest
    from ocs_codesign.search.frontiers import ALLTOALL_ALONE, rank_jointly

    question, entries = nearest(store, asked)
    times = {parse(one.recipe): one.alltoall for one in entries if one.alltoall is not None}
    with progress("Solving"), choice.solving() as options:
        answer = rank_jointly(
            question, [entry.design() for entry in entries], ALLTOALL_ALONE, options, times
        )
    kept = tuple(
        one
        for one in answer.candidates
        if (limits.max_steps is None or one.cost.steps <= limits.max_steps)
        and (limits.max_t_b is None or one.cost.t_b <= limits.max_t_b)
    )
    answer = replace(answer, candidates=kept)
    sections: Iterable[Section] = stored_sections(answer, asked, len(entries), len(times))
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(stored_json(answer, asked), json_path, sections)
    _refuse_if_stopped(answer, choice)
    if not kept:
        raise click.exceptions.Exit(1)


# ``frontier --delta``: designs that change circuits against the best that never do.


COLLECTIVES = ("allreduce", "alltoall")


def reconfiguration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --delta, perhaps several, and --max-configurations."""
    most = click.option(
        "--max-configurations",
        type=click.IntRange(min=1),
        help="With --delta: most configurations held in turn (default 16).",
    )
    text = "Dead time of a change of circuits, such as 10us; may be repeated, or 10us,1ms."
    delta = quantity_option("--delta", parse_time, text, "deltas", multiple=True)
    decorated: Callable[..., Any] = delta(most(command))
    return decorated


def check_reconfiguration(
    collective: str, deltas: Sequence[float], *, joint: bool, bidirectional: bool, show_all: bool
) -> None:
    """UsageError for what the frontier with reconfiguration does not answer."""
    if not deltas:
        raise click.UsageError("--max-configurations is only given with --delta")
    if collective not in COLLECTIVES:
        raise click.UsageError(
            f"--delta is for --collective {' or '.join(COLLECTIVES)}, not {collective}"
        )
    if joint or bidirectional or show_all:
        raise click.UsageError("--delta excludes --criteria joint, --bidirectional and --all")


def frontier_with_reconfiguration(
    num_nodes: int,
    degree: int,
    collective: str,
    deltas: Sequence[float],
    max_configurations: int | None,
    asked: MessageSizes | None,
    pick: int | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Search, print and write the frontier with reconfiguration."""
    from ocs_codesign.circuits.frontier import MAX_CONFIGURATIONS, reconfigured_frontier
    from ocs_codesign.faces.answers.reconfiguration import (
        reconfiguration_json,
        reconfiguration_sections,
    )

    with progress("Searching"):
        answer = reconfigured_frontier(
            num_nodes,
            degree,
            collective,
            max_configurations=max_configurations or MAX_CONFIGURATIONS,
        )
        files = {}
        if plot is not None:
            from ocs_codesign.faces.pictures import figure_bytes
            from ocs_codesign.faces.pictures.joint import reconfigured_figure

            figure = reconfigured_figure(answer, deltas, asked)
            files[plot] = figure_bytes(figure, Path(plot).suffix)
    sections: Iterable[Section] = reconfiguration_sections(answer, deltas, asked)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(reconfiguration_json(answer, deltas, asked), json_path, sections, files)


CRITERIA = ("cost", "joint", "forests")
_SOLVED = "all-to-all on one configuration (--collective alltoall or --criteria joint)"


@click.command(short_help="Find the best topologies of N nodes of degree d.")
@click.option("--nodes", "num_nodes", type=int, required=True, help="Number of nodes N.")
@click.option("--degree", type=int, required=True, help="Ports of a node d.")
@collective_choice(*GATHERING, ALLTOALL)
@alpha_option
@bandwidth_option
@messages_option
@click.option(
    "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
)
@click.option(
    "--criteria",
    type=click.Choice(CRITERIA),
    default=CRITERIA[0],
    show_default=True,
    help="Compare by steps and t_b; jointly by those of an allgather and the t_b of an all-to-all; "
    "or also by the least t_b of any schedule, which forests come near to.",
)
@click.option("--fresh", is_flag=True, help="Search now, even if the catalogue has the size.")
@reconfiguration_options
@pick_option
@click.option("--all", "show_all", is_flag=True, help="List dominated candidates too.")
@plot_option("the frontier")
@solver_options
@json_option
def frontier(
    num_nodes: int,
    degree: int,
    collective: str,
    alpha: float | None,
    bandwidth: float | None,
    messages: tuple[float, ...],
    bidirectional: bool,
    criteria: str,
    fresh: bool,
    deltas: tuple[float, ...],
    max_configurations: int | None,
    pick: int | None,
    show_all: bool,
    plot: str | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Find the latency-throughput Pareto frontier of N nodes of degree d.

    With --alpha, --bandwidth and --message it also says which candidate is fastest for messages of
    every size: T = alpha * steps + t_b * message / bandwidth. All-to-all counts the diameter as
    steps and the best routing of messages that may split as t_b; --criteria joint adds the times of
    an allgather and an all-to-all. --time-limit covers the programs that are solved, not the search
    for topologies; what is not solved in time is named.

    With --criteria forests it says of every candidate what no schedule on it can beat for long
    messages: spanning trees in many pieces come near to it, as 'build --scheduler forest' does.

    Sizes that the shipped catalogue has searched for are looked up, and the answer says how much
    they were searched; --fresh searches on from there, seconds up to minutes. All-to-all is looked
    up where that was searched for too; times that are stored are not solved again in any case.

    With --delta, designs that change circuits join for allreduce and all-to-all, and it
    says whether and from which dead time and message size changing them pays.

    \b
    Example:
      ocs-codesign frontier --nodes 12 --degree 4 --alpha 10us --bandwidth 100Gbps \\
          --message 1MiB,64MiB
    """
    asked = asked_messages(alpha, bandwidth, messages)
    joint, forests = criteria == CRITERIA[1], criteria == CRITERIA[2]
    check_outputs(json_path, plot)
    changes = bool(deltas) or max_configurations is not None
    if forests and (changes or joint or collective == ALLTOALL):
        raise click.UsageError(
            "--criteria forests is for one collective that is not alltoall, no --delta"
        )
    if fresh and changes:
        raise click.UsageError("--fresh is for topologies that do not change: no --delta")
    if changes:
        choice.check_unused(_SOLVED)
        check_reconfiguration(
            collective, deltas, joint=joint, bidirectional=bidirectional, show_all=show_all
        )
        frontier_with_reconfiguration(
            num_nodes, degree, collective, deltas, max_configurations, asked, pick, plot, json_path
        )
        return
    if joint or collective == ALLTOALL:
        if joint and collective not in {GATHERING[0], ALLTOALL}:
            raise click.UsageError(
                f"--criteria joint compares allgather and all-to-all, not {collective}"
            )
        question = AlltoallQuestion(num_nodes, degree, joint, bidirectional, fresh, asked, show_all)
        frontier_of_alltoall(question, choice, pick, plot, json_path)
        return
    choice.check_unused(_SOLVED)
    from ocs_codesign.faces.answers.frontier import frontier_json, frontier_sections
    from ocs_codesign.search.frontiers import frontier as find

    with progress("Searching"):
        answer = find(
            num_nodes, degree, collective, bidirectional=bidirectional, forests=forests, fresh=fresh
        )
        files = {} if plot is None else {plot: _figure(answer, asked, plot)}
    sections: Iterable[Section] = frontier_sections(answer, asked, show_all=show_all)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(frontier_json(answer, asked), json_path, sections, files)


def _figure(answer: Frontier, asked: MessageSizes | None, plot: str) -> bytes:
    from pathlib import Path

    from ocs_codesign.faces.pictures import figure_bytes, frontier_figure

    if asked is None:
        return figure_bytes(frontier_figure(answer), Path(plot).suffix)
    figure = frontier_figure(answer, asked.model, *asked.sizes_bytes)
    return figure_bytes(figure, Path(plot).suffix)


# ``ocs-codesign exhaust``: every topology of a small size, and what none of them beats.


@click.command(short_help="Prove a small frontier by all topologies there are.")
@click.option("--nodes", "num_nodes", type=int, required=True, help="Number of nodes N.")
@click.option("--degree", type=int, required=True, help="Ports of a node d.")
@click.option(
    "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
)
@click.option("--simple", is_flag=True, help="Leave out loops and parallel links.")
@click.option(
    "--collective",
    type=click.Choice(("allgather", "alltoall")),
    default="allgather",
    show_default=True,
    help="Solve all-to-all too: seconds to many minutes.",
)
@json_option
def exhaust(
    num_nodes: int,
    degree: int,
    bidirectional: bool,
    simple: bool,
    collective: str,
    json_path: str | None,
) -> None:
    """Look at every topology of a small size, and show what none of them beats.

    Each is made once up to the names of its nodes and scored by exact BFB, so the frontier is
    proven. What took long is stored: 'frontier' says what is proven of its designs. Links are
    one-way unless --bidirectional. Loops and parallel links count unless --simple, but no loops
    where links are two-way.

    \b
    Example:
      ocs-codesign exhaust --nodes 6 --degree 2
    """
    check_outputs(json_path)
    from ocs_codesign.faces.answers.frontier import exhaustion_json, exhaustion_sections
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.exhaustion.visits import exhaust as look_at_all

    with progress("Looking at all topologies"):
        found = look_at_all(
            Question(num_nodes, degree, bidirectional),
            simple=simple,
            alltoall=collective == ALLTOALL,
        )
    emit(exhaustion_json(found), json_path, exhaustion_sections(found))
