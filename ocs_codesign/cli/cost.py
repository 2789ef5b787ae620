"""``ocs-codesign cost``: what one topology costs, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.cost import (
    Costs,
    Subject,
    alltoall_json,
    alltoall_sections,
    cost_answer_json,
    cost_sections,
)
from ocs_codesign.answers.texts import WORTH_TREES_PERCENT, is_far_above, times_json, times_sections
from ocs_codesign.cli.choices import LiveChoice
from ocs_codesign.cli.classic import (
    ROOTED,
    classic_names,
    cost_of_classic,
    option_option,
    routing_option,
)
from ocs_codesign.cli.exact import chunks_option, cost_exactly
from ocs_codesign.cli.forests import cost_of_forests
from ocs_codesign.cli.message_options import asked_messages, messages_option
from ocs_codesign.cli.options import (
    ALLTOALL,
    GATHERING,
    GivenGraph,
    SolverChoice,
    alpha_option,
    bandwidth_option,
    collective_choice,
    graph_option,
    json_option,
    network_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.cost import Cost, MessageSizes

BEST, FOREST, LATE = "best", "forest", "late"
MAX_BOUND_NODES = 2**14


@click.command(short_help="Exact cost of one recipe or graph.")
@recipe_argument
@graph_option
@network_option
@collective_choice(*GATHERING, ALLTOALL, *ROOTED)
@click.option(
    "--scheduler",
    type=LiveChoice(lambda: {BEST: None, FOREST: None, LATE: None, **classic_names()}),
    help="The best of BFB and the schedules mapped through the expansions, spanning trees in many "
    "pieces beside them, late schedules of more and more steps, or a classic algorithm (default: "
    "best; of a network forest).",
)
@option_option
@routing_option
@click.option(
    "--exact", is_flag=True, help="The frontier of all schedules of few steps, by integer programs."
)
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    help="Most steps with --exact or of late schedules (default: 2 more than the fewest).",
)
@chunks_option
@alpha_option
@bandwidth_option
@messages_option
@solver_options
@json_option
def cost(
    recipe: str | None,
    graph: str | None,
    network: str | None,
    collective: str,
    scheduler: str | None,
    options: tuple[str, ...],
    routing: str | None,
    exact: bool,
    max_steps: int | None,
    chunks: int | None,
    alpha: float | None,
    bandwidth: float | None,
    messages: tuple[float, ...],
    json_path: str | None,
    choice: SolverChoice,
) -> int:
    """Measure the exact cost of a RECIPE, of a graph from a file, or of a network.

    It builds the graph and takes the better of the balanced breadth-first broadcast (BFB) and the
    schedule mapped through the recipe's expansions. For an all-to-all it finds the best routing of
    messages that may split over paths, and proves how good it is.

    With --exact it finds, for more and more steps, the least t_b of any schedule with so many
    chunks, and what no number of chunks can beat. --time-limit (a minute if not given) is for all
    of them; what is not proven by then is said to be open.

    With --scheduler late it is, for more and more steps, the least t_b of schedules that may take
    longer paths than BFB's, in as many chunks as that takes, and what none can beat.

    With --scheduler forest, and for a network, it compares what spanning trees take with that, and
    with the exact schedules if --exact is given, and with the bound that nothing beats. With
    another --scheduler it is the cost of a classic algorithm, whose messages take shortest paths:
    exact loads, where all hops of a step overlap and where every hop waits, and on a switch.

    With --alpha, --bandwidth and --message it also says how long messages of every size take. An
    all-to-all then takes the diameter as steps.

    \b
    Example:
      ocs-codesign cost 'Line(CompleteBipartite(4))' --collective allreduce
    """
    source = GivenGraph.of(recipe, graph, network)
    is_late = scheduler == LATE
    if not exact and ((max_steps is not None and not is_late) or chunks is not None):
        raise click.UsageError("--max-steps and --chunks are for --exact")
    if is_late and exact:
        raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
    if scheduler not in (None, BEST, FOREST, LATE):
        if exact:
            raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
        choice.check_unused("--exact and --collective alltoall")
        check_outputs(json_path)
        asked = asked_messages(alpha, bandwidth, messages)
        cost_of_classic(source, scheduler, collective, options, routing or "even", asked, json_path)
        return 0
    for name, value in (("--option", options), ("--routing", routing)):
        if value:
            raise click.UsageError(f"{name} is for classic algorithms, such as --scheduler ring")
    if collective in ROOTED:
        raise click.UsageError(
            f"--collective {collective} is for classic algorithms, such as --scheduler binomial"
        )
    by_forests = scheduler == FOREST or (scheduler is None and network is not None)
    if network is not None and not by_forests:
        raise click.UsageError(f"--scheduler {scheduler} is for a RECIPE or --graph FILE")
    if by_forests and collective == ALLTOALL:
        raise click.UsageError("--scheduler forest is not for alltoall")
    if is_late and collective == ALLTOALL:
        raise click.UsageError("--scheduler late is not for alltoall")
    if exact and collective == ALLTOALL:
        raise click.UsageError("--exact is for allgather, reduce-scatter and allreduce")
    check_outputs(json_path)
    asked = asked_messages(alpha, bandwidth, messages)
    if collective == ALLTOALL:
        _cost_of_alltoall(source, choice, asked, json_path)
        return 0
    if by_forests:
        walk = (max_steps, chunks) if exact else None
        return cost_of_forests(source, collective, walk, asked, choice, json_path)
    if is_late:
        from ocs_codesign.cli.late import cost_of_late

        cost_of_late(source, collective, max_steps, asked, choice, json_path)
        return 0
    if exact:
        return cost_exactly(source, collective, max_steps, chunks, asked, choice, json_path)
    choice.check_unused("--exact and --collective alltoall")
    with progress("Measuring the cost"):
        subject, costs = _measured(source, collective)
    answer = {**cost_answer_json(subject, costs), **times_json(asked, costs.design.cost)}
    times = times_sections(asked, costs.design.cost)
    emit(answer, json_path, [*cost_sections(subject, costs), *times])
    return 0


def _measured(source: GivenGraph, collective_name: str) -> tuple[Subject, Costs]:
    """The topology, and what it costs."""
    from ocs_codesign.bounds import bound
    from ocs_codesign.collective import Collective
    from ocs_codesign.design import measure, measure_topology, of_halves, predict

    collective = Collective.parse(collective_name)
    predicted: Cost | None = None
    if source.recipe is not None:
        design = measure(source.recipe, collective)
        predicted = predict(source.recipe, collective).cost
        is_small = source.recipe.num_nodes <= MAX_BOUND_NODES
        topology = source.topology() if is_small else None
    else:
        topology = source.topology()
        halves = (measure_topology(topology, half) for half in Collective.ALLREDUCE.halves())
        design = of_halves(collective, *halves)
    subject = source.subject(topology)
    least = bound(subject.num_nodes, subject.degree, collective)
    own = None if topology is None else design.bound_on(topology)
    forest = None
    if (
        topology is not None
        and own is not None
        and is_far_above(design.cost, own, WORTH_TREES_PERCENT)
    ):
        from ocs_codesign.schedulers.forest.choice import cost_near_optimum

        forest = cost_near_optimum(topology, collective, design.cost.t_b / own.t_b)
    return subject, Costs(design, predicted, least, own, forest)


def _cost_of_alltoall(
    source: GivenGraph, choice: SolverChoice, asked: MessageSizes | None, json_path: str | None
) -> None:
    """Find the best routing when messages may split over paths, and say how good it is."""
    from ocs_codesign.bounds import bound
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import measure_topology
    from ocs_codesign.schedulers.alltoall.throughput import throughput

    topology = source.topology()
    with progress("Solving the all-to-all"), choice.solving() as options:
        found = throughput(topology, options)
    subject = source.subject(topology)
    least = bound(topology.num_nodes, topology.degree, ALLTOALL).t_b
    diameter = 0 if asked is None else measure_topology(topology).cost.steps
    whole = Cost(diameter, found.time)
    answer = {**alltoall_json(subject, found, least), **times_json(asked, whole)}
    sections = [*alltoall_sections(subject, found, least), *times_sections(asked, whole)]
    emit(answer, json_path, sections)
