"""``ocs-codesign cost``: what one topology costs, exactly."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.answers.cost import ClassicCost, Costs, Subject, Walk
from ocs_codesign.faces.answers.texts import WORTH_TREES_PERCENT, is_far_above
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.classic import ROOTED, classic_names, option_option, routing_option
from ocs_codesign.faces.cli.commands import command, group, option
from ocs_codesign.faces.cli.interruption import interruptions
from ocs_codesign.faces.cli.message_options import MessageOptions
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
BEST, FOREST, LATE = "best", "forest", "late"
MAX_BOUND_NODES = 2**14

chunks_option = option(
    "--chunks",
    type=click.IntRange(min=1),
    help="Chunks of a shard in an exact schedule (default: the degree).",
)


class CostOptions(opt.GraphOptions):
    """Of which topology what is asked."""

    collective: str = opt.collective_choice(*opt.GATHERING, opt.ALLTOALL, *ROOTED)
    scheduler: str | None = option(
        "--scheduler",
        type=opt.LiveChoice(lambda: {BEST: None, FOREST: None, LATE: None, **classic_names()}),
        help="The best of BFB and the schedules mapped through the expansions, spanning trees in "
        "many pieces beside them, late schedules of more and more steps, or a classic algorithm "
        "(default: best; of a network forest).",
    )
    options: tuple[str, ...] = option_option
    routing: str | None = routing_option
    exact: bool = option(
        "--exact",
        is_flag=True,
        help="The frontier of all schedules of few steps, by integer programs.",
    )
    max_steps: int | None = option(
        "--max-steps",
        type=click.IntRange(min=1),
        help="Most steps with --exact or of late schedules (default: 2 more than the fewest).",
    )
    chunks: int | None = chunks_option
    clock: MessageOptions = group(MessageOptions)
    choice: opt.SolverChoice = opt.solving_options

    def most_steps(self, fewest: int) -> int:
        """Most steps of schedules that take at least so many."""
        return fewest + MORE_STEPS if self.max_steps is None else self.max_steps


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


def cost_exactly(given: CostOptions, asked: MessageSizes | None) -> Answer:
    """The exact frontier of steps and t_b; the points so far, if something stops it."""
    from ocs_codesign.core.bounds import topology_bound
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.registry import Task, made_by

    collective, topology = given.collective, given.source.topology()
    least = topology_bound(topology, collective)
    most = given.most_steps(least.steps)
    num_chunks = given.chunks or topology.degree
    if most < least.steps:
        with given.choice.solving(LIMIT_S) as options:
            kind = Collective.parse(collective)
            task = Task(topology, kind, None, most, given.chunks, None, options)
            return refuse(made_by("exact", task))
    answers, stopped, code = walked(topology, most, num_chunks, collective, given.choice)
    eager = measure_topology(topology, collective).cost
    walk = Walk(collective, num_chunks, most, least, eager, answers, asked, stopped)
    answer = answered("cost.walk", given.source.subject(topology), walk, code=code)
    if code == INTERRUPTED:
        click.echo("Interrupted: what was found so far stands.", err=True)
    return replace(answer, error=f"{walk.stop_sentence}: {stopped}" * (code == STOPPED))


# What ``cost --scheduler late`` does: the best of more and more steps over any routes.


def cost_of_late(given: CostOptions, asked: MessageSizes | None) -> Answer:
    """Late schedules of the fewest steps and more; they share the time."""
    from ocs_codesign.core.bounds import topology_bound
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.stepped.late import late_schedule

    collective, topology = given.collective, given.source.topology()
    least = topology_bound(topology, collective)
    most = given.most_steps(least.steps)
    if most < least.steps:
        raise click.UsageError(
            f"--max-steps is {most}: {collective} takes at least {least.steps} here"
        )
    answers: list[SteppedAnswer] = []
    with progress("Solving for the fewest steps"), given.choice.solving(LIMIT_S) as options:
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
    return answered("cost.walk", given.source.subject(topology), walk)


# What ``cost`` and ``build --scheduler forest`` do: trees beside other schedules, a picture.


def cost_of_forests(given: CostOptions, asked: MessageSizes | None) -> Answer:
    """What a collective takes by trees and others, an allreduce half by half."""
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.faces.answers.build import ForestCosts
    from ocs_codesign.schedules.forest.choice import contenders

    source = given.source
    topology = source.topology()
    network = source.network or direct(topology, 1)
    if not given.exact:
        given.choice.check_unused("--exact and --collective alltoall")
    halves = Collective.parse(given.collective).halves()
    if given.exact and (len(halves) > 1 or network.num_hosts < network.num_nodes):
        raise click.UsageError(
            "--exact beside forests is for allgather and reduce-scatter, and links between hosts"
        )
    fields = []
    for half in halves:
        with progress("Packing trees"):
            field = contenders(network, half, None, topology)
        more = [*_mapped(source, half)]
        if given.exact:
            more += _exact(given, half, field.least.steps)
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


def _exact(given: CostOptions, half: Collective, least_steps: int) -> Iterator[Contender]:
    """What exact schedules of more and more steps take."""
    from ocs_codesign.core.cost import undominated
    from ocs_codesign.schedules.forest.choice import Contender

    topology = given.source.topology()
    most, chunks = max(least_steps, given.most_steps(least_steps)), given.chunks or topology.degree
    answers, stopped, _ = walked(topology, most, chunks, half.name, given.choice)
    if stopped is not None:
        click.echo(f"Exact schedules: {stopped}", err=True)
    for answer in undominated(answers, lambda answer: answer.cost):
        yield Contender("exact", answer.cost)


# What ``cost --scheduler ring`` and the like do: a classic algorithm, placed.


def cost_of_classic(given: CostOptions, asked: MessageSizes | None) -> Answer:
    """Place a classic algorithm on a topology or network, and say what it costs."""
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.schedules.classic.algorithm import read_options
    from ocs_codesign.schedules.classic.alltoall import in_network_bound
    from ocs_codesign.schedules.classic.placement import messages_on, place

    options, source = read_options(given.options), given.source
    scheduler, routing = given.scheduler or "", given.routing or "even"
    topology, network = source.topology(), source.network
    graph = topology if network is None else network
    sides = getattr(source.recipe, "sides", None)
    root = options.get("root", 0) if given.collective in ROOTED else None
    collective = Collective(given.collective, root=root)
    with progress("Placing the messages"):
        messages, nodes = messages_on(graph, scheduler, collective, options, sides, routing)
        placed = place(messages, graph, routing, nodes)
    subject, bound = source.subject(topology), None
    if network is not None:
        subject = Subject(None, source.graph_name, network.num_hosts, topology.degree)
        has_switches = network.num_hosts < network.num_nodes
        if has_switches and collective == Collective.ALLREDUCE:
            bound = in_network_bound(network)
    found = ClassicCost(scheduler, routing, messages, placed, bound, options.get("note"))
    return answered("cost.classic", subject, found).timed(asked, placed.cut_through)


@command()
def cost(given: CostOptions = group(CostOptions)) -> Answer:
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
    source, collective, scheduler = given.source, given.collective, given.scheduler
    is_late = scheduler == LATE
    if not given.exact and (
        (given.max_steps is not None and not is_late) or given.chunks is not None
    ):
        raise click.UsageError("--max-steps and --chunks are for --exact")
    if is_late and given.exact:
        raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
    if scheduler not in (None, BEST, FOREST, LATE):
        if given.exact:
            raise click.UsageError("--exact asks for the best of all schedules: no --scheduler")
        given.choice.check_unused("--exact and --collective alltoall")
        return cost_of_classic(given, given.clock.asked(source.network))
    for name, value in (("--option", given.options), ("--routing", given.routing)):
        if value:
            raise click.UsageError(f"{name} is for classic algorithms, such as --scheduler ring")
    if collective in ROOTED:
        raise click.UsageError(
            f"--collective {collective} is for classic algorithms, such as --scheduler binomial"
        )
    by_forests = scheduler == FOREST or (scheduler is None and source.network is not None)
    if source.network is not None and not by_forests:
        raise click.UsageError(f"--scheduler {scheduler} is for a RECIPE or --graph FILE")
    if by_forests and collective == opt.ALLTOALL:
        raise click.UsageError("--scheduler forest is not for alltoall")
    if is_late and collective == opt.ALLTOALL:
        raise click.UsageError("--scheduler late is not for alltoall")
    if given.exact and collective == opt.ALLTOALL:
        raise click.UsageError("--exact is for allgather, reduce-scatter and allreduce")
    asked = given.clock.asked(source.network)
    if collective == opt.ALLTOALL:
        return _cost_of_alltoall(given, asked)
    if by_forests:
        return cost_of_forests(given, asked)
    if is_late:
        return cost_of_late(given, asked)
    if given.exact:
        return cost_exactly(given, asked)
    given.choice.check_unused("--exact and --collective alltoall")
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


def _cost_of_alltoall(given: CostOptions, asked: MessageSizes | None) -> Answer:
    """Find the best routing when messages may split over paths, and say how good it is."""
    from ocs_codesign.core.bounds import bound
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.schedules.design import measure_topology
    from ocs_codesign.schedules.paths.throughput import throughput

    topology = given.source.topology()
    with progress("Solving the all-to-all"), given.choice.solving() as options:
        found = throughput(topology, options)
    subject = given.source.subject(topology)
    least = bound(topology.num_nodes, topology.degree, opt.ALLTOALL).t_b
    diameter = 0 if asked is None else measure_topology(topology).cost.steps
    whole = Cost(diameter, found.time)
    return answered("cost.alltoall", subject, found, least).timed(asked, whole)
