"""``ocs-codesign frontier``: the latency-throughput frontier of N nodes of degree d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.file_options import plot_option
from ocs_codesign.cli.message_options import asked_messages, messages_option
from ocs_codesign.cli.options import (
    ALLTOALL,
    GATHERING,
    alpha_option,
    bandwidth_option,
    collective_choice,
    json_option,
    pick_option,
    solver_options,
)
from ocs_codesign.cli.output import check_outputs, emit, picked
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.reconfiguration import (
    check_reconfiguration,
    frontier_with_reconfiguration,
    reconfiguration_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cli.options import SolverChoice
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.search.pareto import Frontier

_SOLVED = "all-to-all on one configuration (--collective alltoall or --joint)"


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
    "--joint", is_flag=True, help="Topologies for both allgather and all-to-all: three criteria."
)
@click.option(
    "--forests",
    is_flag=True,
    help="Compare by the least t_b of any schedule on a topology too: what forests come near to.",
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
    joint: bool,
    forests: bool,
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
    steps and the best routing of messages that may split as t_b; --joint adds the times of an
    allgather and an all-to-all. --time-limit covers the programs that are solved, not the
    search for topologies; what is not solved in time is named.

    With --forests it says of every candidate what no schedule on it can beat for long messages:
    spanning trees in many pieces come near to it, as 'build --scheduler forest' does.

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
    check_outputs(json_path, plot)
    changes = bool(deltas) or max_configurations is not None
    if forests and (changes or joint or collective == ALLTOALL):
        raise click.UsageError("--forests is for one collective that is not alltoall, no --delta")
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
            raise click.UsageError(f"--joint compares allgather and all-to-all, not {collective}")
        from ocs_codesign.cli.joint import AlltoallQuestion, frontier_of_alltoall

        question = AlltoallQuestion(num_nodes, degree, joint, bidirectional, fresh, asked, show_all)
        frontier_of_alltoall(question, choice, pick, plot, json_path)
        return
    choice.check_unused(_SOLVED)
    from ocs_codesign.answers.frontier import frontier_json, frontier_sections
    from ocs_codesign.search.frontier import frontier as find

    with progress("Searching") as shown:
        answer = find(
            num_nodes,
            degree,
            collective,
            bidirectional=bidirectional,
            forests=forests,
            fresh=fresh,
            on_progress=shown.tell_phase,
        )
        files = {} if plot is None else {plot: _figure(answer, asked, plot)}
    sections: Iterable[Section] = frontier_sections(answer, asked, show_all=show_all)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(frontier_json(answer, asked), json_path, sections, files)


def _figure(answer: Frontier, asked: MessageSizes | None, plot: str) -> bytes:
    from pathlib import Path

    from ocs_codesign.plot import figure_bytes, frontier_figure

    if asked is None:
        return figure_bytes(frontier_figure(answer), Path(plot).suffix)
    figure = frontier_figure(answer, asked.model, *asked.sizes_bytes)
    return figure_bytes(figure, Path(plot).suffix)
