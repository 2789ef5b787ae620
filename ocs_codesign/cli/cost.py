"""``ocs-codesign cost``: what one topology costs, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.cli.alltoall import COLLECTIVE, cost_of_alltoall
from ocs_codesign.cli.exact import chunks_option, cost_exactly
from ocs_codesign.cli.options import (
    GATHERING,
    SolverChoice,
    Source,
    collective_choice,
    graph_option,
    json_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.cli.output import (
    check_outputs,
    cost_json,
    cost_text,
    emit,
    optimality,
    show_facts,
    show_loads,
)
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Score
    from ocs_codesign.topology import Topology

MAX_BOUND_NODES = 2**14


@click.command(short_help="Exact cost of one recipe or graph.")
@recipe_argument
@graph_option
@collective_choice(*GATHERING, COLLECTIVE)
@click.option(
    "--exact", is_flag=True, help="The frontier of all schedules of few steps, by integer programs."
)
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    help="Most steps with --exact (default: 2 more than the fewest).",
)
@chunks_option
@solver_options
@json_option
def cost(
    recipe: str | None,
    graph: str | None,
    collective: str,
    exact: bool,
    max_steps: int | None,
    chunks: int | None,
    json_path: str | None,
    choice: SolverChoice,
) -> int:
    """Measure the exact cost of a RECIPE, or of a graph from a file.

    It builds the graph and takes the better of the balanced breadth-first broadcast (BFB) and the
    schedule mapped through the recipe's expansions. For an all-to-all it finds the best routing of
    messages that may split over paths, and proves how good it is.

    With --exact it finds, for more and more steps, the least t_b of any schedule with so many
    chunks, and what no number of chunks can beat. --time-limit (a minute if not given) is for all
    of them; what is not proven by then is said to be open.
    """
    source = Source.of(recipe, graph)
    if not exact and (max_steps is not None or chunks is not None):
        raise click.UsageError("--max-steps and --chunks are for --exact")
    if exact and collective == COLLECTIVE:
        raise click.UsageError("--exact is for allgather, reduce-scatter and allreduce")
    check_outputs(json_path)
    if collective == COLLECTIVE:
        cost_of_alltoall(source, choice, json_path)
        return 0
    if exact:
        return cost_exactly(source, collective, max_steps, chunks, choice, json_path)
    choice.check_unused("--exact and --collective alltoall")
    with progress("Measuring the cost"):
        answer, score = _measured(source, collective)
    emit(answer, json_path, lambda console: _show(console, answer, score))
    return 0


def _measured(source: Source, collective_name: str) -> tuple[dict[str, Any], Score]:
    """The answer in its JSON form, and the score that it is about."""
    from ocs_codesign.bounds import bound
    from ocs_codesign.collective import Collective
    from ocs_codesign.design import measure, measure_topology, predict

    collective = Collective.parse(collective_name)
    predicted: Cost | None = None
    if source.recipe is not None:
        candidate = measure(source.recipe, collective)
        score, gather, scatter = candidate.score, candidate.allgather, candidate.reduce_scatter
        predicted = predict(source.recipe, collective).cost
        shape = source.recipe.shape
        nodes, degree = shape.num_nodes, shape.degree
        topology = source.topology() if nodes <= MAX_BOUND_NODES else None
    else:
        topology = source.topology()
        halves = {
            half: measure_topology(topology, half)
            for half in (Collective.ALLGATHER, Collective.REDUCE_SCATTER)
        }
        both = halves[Collective.REDUCE_SCATTER].then(halves[Collective.ALLGATHER])
        score = halves.get(collective, both)
        gather, scatter = (half.cost for half in halves.values())
        nodes, degree = topology.num_nodes, topology.degree
    least = bound(nodes, degree, collective)
    answer = {
        "recipe": source.recipe_text,
        "label": None if source.recipe is None else source.recipe.label(),
        "graph": source.graph_name,
        "nodes": nodes,
        "degree": degree,
        "collective": collective.name,
        **cost_json(score.cost),
        "t_b_float": float(score.cost.t_b),
        "measured": score.measured,
        "schedule": score.schedule,
        "max_load_per_step": [str(load) for load in score.loads],
        "num_chunks": score.num_chunks,
        "predicted": None if predicted is None else cost_json(predicted),
        "bound": cost_json(least),
        "topology_bound": _topology_bound(topology, score),
        "bw_optimal": score.cost.t_b == least.t_b,
        "moore_optimal": score.cost.steps == least.steps,
        "allgather": cost_json(gather),
        "reduce_scatter": cost_json(scatter),
    }
    return answer, score


def _topology_bound(topology: Topology | None, score: Score) -> dict[str, Any] | None:
    """The bound of this very graph; every half of a BFB schedule takes its diameter in steps."""
    from ocs_codesign.bounds import topology_bound
    from ocs_codesign.collective import Collective
    from ocs_codesign.design import BFB

    if topology is None:
        return None
    halves = 2 if score.collective == Collective.ALLREDUCE else 1
    diameter = score.cost.steps // halves if score.schedule == BFB else None
    return cost_json(topology_bound(topology, score.collective, diameter))


def _show(console: Console, answer: dict[str, Any], score: Score) -> None:
    def said(key: str) -> str | None:
        value = answer[key]
        return None if value is None else cost_text(_cost(value))

    kind = "measured" if answer["measured"] else "predicted, an upper bound"
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("label", answer["label"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("cost", f"{cost_text(score.cost)}, {kind}"),
            ("predicted", said("predicted")),
            ("bound", f"{said('bound')} (no topology of this size can beat it)"),
            ("bound of this graph", said("topology_bound")),
            ("optimal", optimality(answer["bw_optimal"], answer["moore_optimal"])),
            ("allgather", said("allgather")),
            ("reduce-scatter", said("reduce_scatter")),
            ("schedule", answer["schedule"]),
            ("chunks a shard", answer["num_chunks"]),
        ],
    )
    show_loads(console, score.loads)


def _cost(value: dict[str, Any]) -> Cost:
    from fractions import Fraction

    from ocs_codesign.cost import Cost

    return Cost(value["steps"], Fraction(value["t_b"]))
