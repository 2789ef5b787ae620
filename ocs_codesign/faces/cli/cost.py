"""``ocs-codesign cost``: what one topology costs, exactly."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.answers.cost import Costs, Subject, Walk
from ocs_codesign.faces.answers.texts import WORTH_TREES_PERCENT, is_far_above
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.classic import (
    ROOTED,
    classic_names,
    cost_of_classic,
    option_option,
    routing_option,
)
from ocs_codesign.faces.cli.commands import command, option
from ocs_codesign.faces.cli.interruption import interruptions
from ocs_codesign.faces.cli.message_options import asked_messages, messages_option
from ocs_codesign.faces.cli.output import Answer, answered, asked_output, told
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.cost import Cost, MessageSizes
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.forest.choice import Contender
    from ocs_codesign.schedules.registry import Made
    from ocs_codesign.schedules.stepped.answers import SteppedAnswer


# What ``cost --exact`` does: the best of more and more steps.


NEGATIVE, STOPPED, INTERRUPTED = 1, 2, 130
LIMIT_S = 60.0
MORE_STEPS = 2

chunks_option = option(
    "--chunks",
    type=click.IntRange(min=1),
    help="Chunks of a shard in an exact schedule (default: the degree).",
)


def refuse(made: Made) -> Answer:
    """That there is no schedule at all, with the exit code for it."""
    if made.exact is None:
        words, text = {"schedule": None, "status": made.maker}, f"No schedule: {made.maker}."
        return told("sections.no_schedule", words, [text], code=NEGATIVE)
    return answered("cost.refusal", made.exact, code=NEGATIVE)


def walked(
    topology: Topology, max_steps: int, num_chunks: int, collective: str, choice: opt.SolverChoice
) -> tuple[tuple[SteppedAnswer, ...], str | None, int]:
    """The answers, what stopped them if anything, and the exit code.

    If something stops it, what was found before stands.
    """
    from ocs_codesign.schedules.stepped.exact import exact_answers

    answers: list[SteppedAnswer] = []
    try:
        with (
            interruptions(),
            progress("Solving for the fewest steps"),
            choice.solving(LIMIT_S) as given,
        ):
            for answer in exact_answers(topology, max_steps, num_chunks, collective, given):
                answers.append(answer)
                last = max_steps - answers[0].num_steps + 1
                phase = f"Solving for {answer.num_steps + 1} steps"
                tell_phase(phase, len(answers), last)
    except (KeyboardInterrupt, click.ClickException, ValueError, MemoryError) as error:
        if not answers:
            raise
        if isinstance(error, KeyboardInterrupt):
            return tuple(answers), "interrupted", INTERRUPTED
        return tuple(answers), str(error) or "not enough memory", STOPPED
    return tuple(answers), None, 0


def cost_exactly(
    source: opt.GivenGraph,
    collective: str,
    max_steps: int | None,
    chunks: int | None,
    asked: MessageSizes | None,
    choice: opt.SolverChoice,
) -> Answer:
    """The exact frontier of steps and t_b; the points so far, if something stops it."""
    from ocs_codesign.core.bounds import topology_bound
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.registry import Task, made_by

    topology = source.topology()
    least = topology_bound(topology, collective)
    most = least.steps + MORE_STEPS if max_steps is None else max_steps
    num_chunks = chunks or topology.degree
    if most < least.steps:
        with choice.solving(LIMIT_S) as options:
            task = Task(topology, Collective.parse(collective), None, most, chunks, None, options)
            return refuse(made_by("exact", task))
    answers, stopped, code = walked(topology, most, num_chunks, collective, choice)
    eager = measure_topology(topology, collective).cost
    walk = Walk(collective, num_chunks, most, least, eager, answers, asked, stopped)
    answer = answered("cost.walk", source.subject(topology), walk, code=code)
    if code == INTERRUPTED:
        click.echo("Interrupted: what was found so far stands.", err=True)
    return replace(answer, error=f"{walk.stop_sentence}: {stopped}" * (code == STOPPED))


# What ``cost --scheduler late`` does: the best of more and more steps over any routes.


def cost_of_late(
    source: opt.GivenGraph,
    collective: str,
    max_steps: int | None,
    asked: MessageSizes | None,
    choice: opt.SolverChoice,
) -> Answer:
    """Late schedules of the fewest steps and more; they share the time."""
    from ocs_codesign.core.bounds import topology_bound
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.stepped.late import late_schedule

    topology = source.topology()
    least = topology_bound(topology, collective)
    most = least.steps + MORE_STEPS if max_steps is None else max_steps
    if most < least.steps:
        raise click.UsageError(
            f"--max-steps is {most}: {collective} takes at least {least.steps} here"
        )
    answers: list[SteppedAnswer] = []
    with progress("Solving for the fewest steps"), choice.solving(LIMIT_S) as options:
        began = monotonic()
        for steps in range(least.steps, most + 1):
            left = options.after(monotonic() - began)
            if left.time_limit_s is not None:
                left = replace(left, time_limit_s=left.time_limit_s / (most + 1 - steps))
            answers.append(late_schedule(topology, steps, collective, left))
            if answers[-1].cost.t_b == least.t_b:
                break
            tell_phase(f"Solving for {steps + 1} steps", len(answers), most + 1 - least.steps)
    eager = measure_topology(topology, collective).cost
    walk = Walk(collective, None, most, least, eager, tuple(answers), asked)
    return answered("cost.walk", source.subject(topology), walk)


# What ``cost`` and ``build --scheduler forest`` do: trees beside other schedules, a picture.


def cost_of_forests(
    source: opt.GivenGraph,
    collective: str,
    exact: tuple[int | None, int | None] | None,
    asked: MessageSizes | None,
    choice: opt.SolverChoice,
) -> Answer:
    """What a collective takes by trees and others, an allreduce half by half.

    ``exact`` are the most steps and the chunks of exact schedules, None where none are asked for.
    """
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.faces.answers.build import ForestCosts
    from ocs_codesign.schedules.forest.choice import contenders

    topology = source.topology()
    network = source.network or direct(topology, 1)
    if exact is None:
        choice.check_unused("--exact and --collective alltoall")
    halves = Collective.parse(collective).halves()
    if exact is not None and (len(halves) > 1 or network.num_hosts < network.num_nodes):
        raise click.UsageError(
            "--exact beside forests is for allgather and reduce-scatter, and links between hosts"
        )
    fields = []
    for half in halves:
        with progress("Packing trees"):
            field = contenders(network, half, None, topology)
        more = [*_mapped(source, half)]
        if exact is not None:
            more += _exact(source, half, field.least.steps, exact, choice)
        fields.append(replace(field, others=(*field.others, *more)))
    costs = ForestCosts(source.subject(topology), network, halves, tuple(fields), asked)
    return answered("build.forest_costs", costs)


def trees_drawn(made: Made) -> tuple[Any, ...]:
    """The picture of a tree of what was made; ClickException if it is asked and there is none."""
    if asked_output("plot") is not None and not made.forests:
        raise click.ClickException(
            f"--plot draws a tree, but {made.maker} is faster for this message than forests are: "
            "--parts makes one of these"
        )
    if asked_output("plot") is not None:
        from ocs_codesign.faces.pictures.network import check_drawable

        check_drawable(made.forests)
    return ("network.tallest_tree_figure", made.forests)


def _mapped(source: opt.GivenGraph, half: Collective) -> Iterator[Contender]:
    """The schedule mapped through the expansions of a recipe, where it is better than BFB."""
    from ocs_codesign.schedules.design import BFB, measure
    from ocs_codesign.schedules.forest.choice import Contender

    if source.recipe is not None:
        design = measure(source.recipe, half)
        if design.maker != BFB:
            yield Contender(design.maker, design.cost)


def _exact(
    source: opt.GivenGraph,
    half: Collective,
    least_steps: int,
    exact: tuple[int | None, int | None],
    choice: opt.SolverChoice,
) -> Iterator[Contender]:
    """What exact schedules of more and more steps take."""
    from ocs_codesign.core.cost import undominated
    from ocs_codesign.schedules.forest.choice import Contender

    topology, (most, chunks) = source.topology(), exact
    most = max(least_steps, least_steps + MORE_STEPS if most is None else most)
    answers, stopped, _ = walked(topology, most, chunks or topology.degree, half.name, choice)
    if stopped is not None:
        click.echo(f"Exact schedules: {stopped}", err=True)
    for answer in undominated(answers, lambda answer: answer.cost):
        yield Contender("exact", answer.cost)


BEST, FOREST, LATE = "best", "forest", "late"
MAX_BOUND_NODES = 2**14


@command(short_help="Exact cost of one recipe or graph.")
def cost(
    recipe: str | None = opt.recipe_argument,
    graph: str | None = opt.graph_option,
    network: str | None = opt.network_option,
    collective: str = opt.collective_choice(*opt.GATHERING, opt.ALLTOALL, *ROOTED),
    scheduler: str | None = option(
        "--scheduler",
        type=opt.LiveChoice(lambda: {BEST: None, FOREST: None, LATE: None, **classic_names()}),
        help="The best of BFB and the schedules mapped through the expansions, spanning trees in "
        "many pieces beside them, late schedules of more and more steps, or a classic algorithm "
        "(default: best; of a network forest).",
    ),
    options: tuple[str, ...] = option_option,
    routing: str | None = routing_option,
    exact: bool = option(
        "--exact",
        is_flag=True,
        help="The frontier of all schedules of few steps, by integer programs.",
    ),
    max_steps: int | None = option(
        "--max-steps",
        type=click.IntRange(min=1),
        help="Most steps with --exact or of late schedules (default: 2 more than the fewest).",
    ),
    chunks: int | None = chunks_option,
    alpha: float | None = opt.alpha_option,
    bandwidth: float | None = opt.bandwidth_option,
    messages: tuple[float, ...] = messages_option,
    choice: opt.SolverChoice = opt.solving_options,
) -> Answer:
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

    With --alpha, --bandwidth and --message it also says how long messages of every size take; a
    network has its own bandwidth, and needs --bandwidth only if its links have no unit. An
    all-to-all then takes the diameter as steps.

    \b
    Example:
      ocs-codesign cost 'Line(CompleteBipartite(4))' --collective allreduce
    """
    source = opt.GivenGraph.of(recipe, graph, network)
    is_late = scheduler == LATE
    if not exact and ((max_steps is not None and not is_late) or chunks is not None):
        raise click.UsageError("--max-steps and --chunks are for --exact")
    if is_late and exact:
        raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
    if scheduler not in (None, BEST, FOREST, LATE):
        if exact:
            raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
        choice.check_unused("--exact and --collective alltoall")
        asked = asked_messages(alpha, bandwidth, messages, source.network)
        return cost_of_classic(source, scheduler, collective, options, routing or "even", asked)
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
    if by_forests and collective == opt.ALLTOALL:
        raise click.UsageError("--scheduler forest is not for alltoall")
    if is_late and collective == opt.ALLTOALL:
        raise click.UsageError("--scheduler late is not for alltoall")
    if exact and collective == opt.ALLTOALL:
        raise click.UsageError("--exact is for allgather, reduce-scatter and allreduce")
    asked = asked_messages(alpha, bandwidth, messages, source.network)
    if collective == opt.ALLTOALL:
        return _cost_of_alltoall(source, choice, asked)
    if by_forests:
        walk = (max_steps, chunks) if exact else None
        return cost_of_forests(source, collective, walk, asked, choice)
    if is_late:
        return cost_of_late(source, collective, max_steps, asked, choice)
    if exact:
        return cost_exactly(source, collective, max_steps, chunks, asked, choice)
    choice.check_unused("--exact and --collective alltoall")
    with progress("Measuring the cost"):
        subject, costs = _measured(source, collective)
    return answered("cost.measured", subject, costs).timed(asked, costs.design.cost)


def _measured(source: opt.GivenGraph, collective_name: str) -> tuple[Subject, Costs]:
    """The topology, and what it costs."""
    from ocs_codesign.core.bounds import bound
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.design import measure, measure_topology, of_halves, predict

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
        from ocs_codesign.schedules.forest.choice import cost_near_optimum

        forest = cost_near_optimum(topology, collective, design.cost.t_b / own.t_b)
    return subject, Costs(design, predicted, least, own, forest)


def _cost_of_alltoall(
    source: opt.GivenGraph, choice: opt.SolverChoice, asked: MessageSizes | None
) -> Answer:
    """Find the best routing when messages may split over paths, and say how good it is."""
    from ocs_codesign.core.bounds import bound
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.paths.throughput import throughput

    topology = source.topology()
    with progress("Solving the all-to-all"), choice.solving() as options:
        found = throughput(topology, options)
    subject = source.subject(topology)
    least = bound(topology.num_nodes, topology.degree, opt.ALLTOALL).t_b
    diameter = 0 if asked is None else measure_topology(topology).cost.steps
    whole = Cost(diameter, found.time)
    return answered("cost.alltoall", subject, found, least).timed(asked, whole)
