"""``ocs-codesign frontier``: the latency-throughput frontier of N nodes of degree d."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.alltoall import COLLECTIVE
from ocs_codesign.cli.options import (
    GATHERING,
    alpha_option,
    bandwidth_option,
    collective_choice,
    json_option,
    message_option,
    solver_options,
)
from ocs_codesign.cli.output import (
    check_outputs,
    cost_json,
    cost_text,
    emit,
    optimality,
    show_table,
    t_b_text,
)
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.reconfiguration import (
    check_reconfiguration,
    frontier_with_reconfiguration,
    reconfiguration_options,
)
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ocs_codesign.cli.options import SolverChoice
    from ocs_codesign.cost import CostModel
    from ocs_codesign.design import Candidate
    from ocs_codesign.search.pareto import Frontier

MAX_DOMINATED_ROWS = 40
_SOLVED = "all-to-all on one configuration (--collective alltoall or --joint)"


@click.command(short_help="Find the best topologies of N nodes of degree d.")
@click.option("--nodes", "num_nodes", type=int, required=True, help="Number of nodes N.")
@click.option("--degree", type=int, required=True, help="Ports of a node d.")
@collective_choice(*GATHERING, COLLECTIVE)
@alpha_option
@bandwidth_option
@message_option
@click.option(
    "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
)
@click.option(
    "--joint", is_flag=True, help="Topologies for both allgather and all-to-all: three criteria."
)
@reconfiguration_options
@click.option("--all", "show_all", is_flag=True, help="List dominated candidates too.")
@click.option("--plot", metavar="FILE", help="Draw the frontier: .png, .svg or .pdf.")
@solver_options
@json_option
def frontier(
    num_nodes: int,
    degree: int,
    collective: str,
    alpha: float | None,
    bandwidth: float | None,
    message: float | None,
    bidirectional: bool,
    joint: bool,
    deltas: tuple[float, ...],
    max_configurations: int | None,
    show_all: bool,
    plot: str | None,
    choice: SolverChoice,
    json_path: str | None,
) -> None:
    """Find the latency-throughput Pareto frontier of N nodes of degree d.

    With --alpha, --bandwidth and --message it also says which candidate is fastest for messages of
    that size: T = alpha * steps + t_b * message / bandwidth. All-to-all counts the diameter as
    steps and the best routing of messages that may split as t_b; --joint adds the times of an
    allgather and an all-to-all. --time-limit covers the programs that are solved, not the
    search for topologies; what is not solved in time is named.

    With --reconfiguration, designs that change circuits join for allreduce and all-to-all, and it
    says whether and from which dead time and message size changing them pays.
    """
    workload = _workload(alpha, bandwidth, message)
    _check_plot(plot)
    check_outputs(json_path, plot)
    if deltas or max_configurations is not None:
        choice.check_unused(_SOLVED)
        check_reconfiguration(
            collective, deltas, joint=joint, bidirectional=bidirectional, show_all=show_all
        )
        frontier_with_reconfiguration(
            num_nodes, degree, collective, deltas, max_configurations, workload, plot, json_path
        )
        return
    if joint or collective == COLLECTIVE:
        if joint and collective not in {GATHERING[0], COLLECTIVE}:
            raise click.UsageError(f"--joint compares allgather and all-to-all, not {collective}")
        from ocs_codesign.cli.joint import AlltoallQuestion, frontier_of_alltoall

        asked = AlltoallQuestion(num_nodes, degree, joint, bidirectional, workload, show_all)
        frontier_of_alltoall(asked, choice, plot, json_path)
        return
    choice.check_unused(_SOLVED)
    from ocs_codesign.search.frontier import frontier as find

    with progress("Searching") as shown:
        answer = find(
            num_nodes,
            degree,
            collective,
            bidirectional=bidirectional,
            on_progress=shown.tell_phase,
        )
        files = {} if plot is None else {plot: _figure(answer, workload, plot)}
    emit(
        frontier_json(answer, workload),
        json_path,
        lambda console: _show(console, answer, workload, show_all),
        files,
    )


def _workload(
    alpha: float | None, bandwidth: float | None, message: float | None
) -> tuple[CostModel, float] | None:
    """The cost model and the message size, if they are asked about."""
    if alpha is None and bandwidth is None and message is None:
        return None
    if alpha is None or bandwidth is None or message is None:
        raise click.UsageError("--alpha, --bandwidth and --message are only given together")
    from ocs_codesign.cost import CostModel

    return CostModel(alpha, bandwidth), message


def _check_plot(plot: str | None) -> None:
    if plot is not None:
        from pathlib import Path

        from ocs_codesign.plot import check_suffix

        check_suffix(Path(plot).suffix)


def _figure(answer: Frontier, workload: tuple[CostModel, float] | None, plot: str) -> bytes:
    from pathlib import Path

    from ocs_codesign.plot import figure_bytes, frontier_figure

    return figure_bytes(frontier_figure(answer, *(workload or ())), Path(plot).suffix)


def frontier_json(
    answer: Frontier, workload: tuple[CostModel, float] | None = None
) -> dict[str, Any]:
    """The JSON form of a frontier, with times if there is a workload."""
    dominated = []
    for candidate in answer.dominated:
        entry = _candidate_json(candidate, workload)
        dominator = answer.dominator(candidate.cost)
        entry["dominated_by"] = None if dominator is None else repr(dominator.recipe)
        dominated.append(entry)
    value: dict[str, Any] = {
        "nodes": answer.num_nodes,
        "degree": answer.degree,
        "collective": answer.collective.name,
        "candidates": [_candidate_json(candidate, workload) for candidate in answer.candidates],
        "bound": cost_json(answer.bound),
        "published": [repr(candidate.recipe) for candidate in answer.published],
        "dominated": dominated,
    }
    if workload is not None:
        model, message_bytes = workload
        value["best"] = repr(answer.best(model, message_bytes).recipe)
        value["cost_model"] = {
            "alpha_s": model.alpha_s,
            "node_bandwidth_Bps": model.node_bandwidth_Bps,
            "message_bytes": message_bytes,
        }
    return value


def _candidate_json(
    candidate: Candidate, workload: tuple[CostModel, float] | None
) -> dict[str, Any]:
    value = {
        "recipe": repr(candidate.recipe),
        "label": candidate.recipe.label(),
        **cost_json(candidate.cost),
        "t_b_float": float(candidate.cost.t_b),
        "measured": candidate.measured,
        "bw_optimal": candidate.bw_optimal,
        "moore_optimal": candidate.moore_optimal,
        "schedule": candidate.score.schedule,
        "reverse_symmetric": candidate.recipe.reverse_symmetric,
        "allgather": cost_json(candidate.allgather),
        "reduce_scatter": cost_json(candidate.reduce_scatter),
    }
    if workload is not None:
        value["time_s"] = candidate.cost.time_s(*workload)
    return value


def _show(
    console: Console,
    answer: Frontier,
    workload: tuple[CostModel, float] | None,
    show_all: bool,
) -> None:
    console.print(
        f"{answer.num_nodes} nodes of degree {answer.degree}, {answer.collective.name}: "
        f"{_count(len(answer.candidates), 'candidate')} on the frontier, "
        f"{len(answer.dominated)} dominated"
    )
    _show_candidates(console, answer.candidates, workload)
    console.print(f"No topology of this size can beat {cost_text(answer.bound)}.")
    if workload is None:
        console.print("Give --alpha, --bandwidth and --message to learn which is fastest for them.")
    else:
        console.print(_best_sentence(answer, *workload))
    _show_published(console, answer, workload)
    if show_all and answer.dominated:
        _show_dominated(console, answer, workload)


def _show_candidates(
    console: Console,
    candidates: Sequence[Candidate],
    workload: tuple[CostModel, float] | None,
    last: tuple[str, Sequence[str]] | None = None,
) -> None:
    """A table of candidates, perhaps with one more column of texts at its end."""
    columns = ["steps", "t_b", "decimal"] + ["time"] * (workload is not None)
    numbers = len(columns)
    columns += ["optimal", "cost", "label", "recipe"]
    rows = []
    for candidate in candidates:
        t_b = candidate.cost.t_b
        row = [str(candidate.cost.steps), str(t_b), f"{float(t_b):.6g}"]
        if workload is not None:
            row.append(format_time(candidate.cost.time_s(*workload)))
        row += [
            optimality(candidate.bw_optimal, candidate.moore_optimal),
            "measured" if candidate.measured else "predicted",
            candidate.recipe.label(),
            repr(candidate.recipe),
        ]
        rows.append(row)
    if last is not None:
        columns.append(last[0])
        rows = [[*row, text] for row, text in zip(rows, last[1], strict=True)]
    show_table(console, columns, rows, numbers, texts=2 if last is None else 3)


def _show_published(
    console: Console, answer: Frontier, workload: tuple[CostModel, float] | None
) -> None:
    """The designs of the literature, and which candidate is at least as good."""
    if not answer.published:
        return
    console.print("\nPublished designs of this size:")
    better = [answer.dominator(candidate.cost) for candidate in answer.published]
    names = [
        "on the frontier" if one is None or one == candidate else one.recipe.label()
        for one, candidate in zip(better, answer.published, strict=True)
    ]
    _show_candidates(console, answer.published, workload, ("met or dominated by", names))


def _show_dominated(
    console: Console, answer: Frontier, workload: tuple[CostModel, float] | None
) -> None:
    ranked = list(answer.dominated)
    if workload is not None:
        ranked.sort(key=lambda candidate: candidate.cost.time_s(*workload))
    ranked = ranked[:MAX_DOMINATED_ROWS]
    dominators = [answer.dominator(candidate.cost) for candidate in ranked]
    names = ["-" if one is None else one.recipe.label() for one in dominators]
    console.print("\nDominated:")
    _show_candidates(console, ranked, workload, ("dominated by", names))
    more = len(answer.dominated) - len(ranked)
    if more:
        console.print(f"{_count(more, 'more dominated candidate')} in the JSON answer (--json).")


def _best_sentence(answer: Frontier, model: CostModel, message_bytes: float) -> str:
    best = answer.best(model, message_bytes)
    return (
        f"Best for {format_size(message_bytes)} at alpha {format_time(model.alpha_s)} and "
        f"{format_bandwidth(model.node_bandwidth_Bps)} a node: {best.recipe!r} in "
        f"{format_time(best.cost.time_s(model, message_bytes))} "
        f"({best.cost.steps} steps, t_b {t_b_text(best.cost.t_b)})."
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
