"""``ocs-codesign frontier``: the latency-throughput frontier of N nodes of degree d."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, WholeNumbers, command, group, option
from ocs_codesign.faces.cli.message_options import MessageOptions
from ocs_codesign.faces.cli.output import Answer, answered, asked_output
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.frontier import OwnGraph
    from ocs_codesign.faces.cli.options import SolverChoice
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.pareto import Frontier
    from ocs_codesign.search.pool import Pools


NUMBERS = WholeNumbers(each=True)
CRITERIA = _, JOINT, FORESTS = ("cost", "joint", "forests")
_SOLVED = "all-to-all on one configuration (--collective alltoall or --criteria joint)"


class FrontierOptions(OptionGroup):
    """Which topologies are looked for, and how they are compared."""

    num_nodes: int = option(  # 0 is that of --graph, of the degree too
        "--nodes", type=NUMBERS, help="Numbers of nodes N, as in 12 or 8-16,24."
    )
    degree: int = option("--degree", type=NUMBERS, help="Ports of a node d, as in 4 or 2-4.")
    collective: str = opt.collective_choice(*opt.GATHERING, opt.ALLTOALL)
    clock: MessageOptions = group(MessageOptions)
    bidirectional: bool = option(
        "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
    )
    criteria: str = option(
        "--criteria",
        type=click.Choice(CRITERIA),
        default=CRITERIA[0],
        help="Compare by steps and t_b; jointly by those of an allgather and the t_b of an "
        "all-to-all; or also by the least t_b of any schedule, which forests come near to.",
    )
    fresh: bool = option(
        "--fresh", is_flag=True, help="Search now, even if the catalogue has the size."
    )
    deltas: tuple[float, ...] = opt.quantity_option(
        "--delta",
        parse_time,
        "Dead time of a change of circuits, such as 10us; may be repeated, or 10us,1ms.",
        multiple=True,
    )
    max_configurations: int | None = option(
        "--max-configurations",
        type=click.IntRange(min=1),
        help="With --delta: most configurations held in turn (default 16).",
    )
    pick: int | None = opt.pick_option
    show_all: bool = option("--all", is_flag=True, help="List dominated candidates too.")
    graph: str | None = option(
        "--graph", type=opt.INPUT, metavar="FILE", help="A graph of your own to set beside it."
    )
    choice: SolverChoice = opt.solving_options


# All-to-all of many topologies: the frontier of a search, and of what a catalogue stores.


def frontier_of_alltoall(given: FrontierOptions, asked: MessageSizes | None) -> Answer:
    """The joint frontier of a search."""
    from ocs_codesign.search.frontiers import joint_frontier

    with progress("Searching"), given.choice.solving() as options:
        answer = joint_frontier(
            given.num_nodes,
            given.degree,
            with_allgather=given.criteria == JOINT,
            bidirectional=given.bidirectional,
            fresh=given.fresh,
            options=options,
        )
    if asked_output("plot") is not None and not answer.candidates:
        raise click.ClickException("no candidate was solved in time: there is nothing to draw")
    found = answered(
        *("joint.joint", answer, asked),
        show_all=given.show_all,
        figure=("joint.joint_figure", answer, asked),
        error=_unsolved(answer, given.choice),
    )
    return found.picked([design.recipes for design in answer.candidates], given.pick)


def _unsolved(answer: Frontier, choice: SolverChoice) -> str:
    """What is wrong, with the answer out, if some were not solved as well as was asked."""
    if answer.stopped is None:
        return ""
    return f"not all was solved: {choice.advised(answer.stopped)}"


@final
@dataclass(frozen=True, slots=True)
class StoredLimits:
    """Limits of a look-up: most steps, which are the diameter, and most all-to-all time in M/B."""

    max_steps: int | None
    max_t_b: Fraction | None


def stored_by_alltoall(
    store: Catalogue | Pools,
    asked: Question,
    limits: StoredLimits,
    choice: SolverChoice,
    pick: int | None,
) -> Answer:
    """The best all-to-alls of what is stored for a size; exit code 1 if none is within limits."""
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
    found = answered(
        *("joint.stored", answer, asked),
        stored=len(entries),
        timed=len(times),
        code=0 if kept else 1,
        error=_unsolved(answer, choice),
    )
    return found.picked([design.recipes for design in kept], pick)


# ``frontier --delta``: designs that change circuits against the best that never do.


def frontier_with_reconfiguration(given: FrontierOptions, asked: MessageSizes | None) -> Answer:
    """The frontier with reconfiguration; UsageError for what it does not answer."""
    if not given.deltas:
        raise click.UsageError("--max-configurations is only given with --delta")
    if given.criteria == JOINT or given.bidirectional or given.show_all:
        raise click.UsageError("--delta excludes --criteria joint, --bidirectional and --all")
    from ocs_codesign.circuits.frontier import MAX_CONFIGURATIONS, reconfigured_frontier

    most = given.max_configurations or MAX_CONFIGURATIONS
    with progress("Searching"):
        answer = reconfigured_frontier(
            given.num_nodes, given.degree, given.collective, max_configurations=most
        )
    told = (answer, given.deltas, asked)
    figure = ("joint.reconfigured_figure", *told)
    found = answered("reconfiguration.reconfiguration", *told, figure=figure)
    return found.picked([design.recipes for design in answer.candidates], given.pick)


@command(plot="the frontier")
def frontier(given: FrontierOptions = group(FrontierOptions)) -> Answer:
    """Find the latency-throughput Pareto frontier of N nodes of degree d.

    With --alpha, --bandwidth and --message it also says which candidate is fastest for messages of
    every size: T = alpha * steps + t_b * message / bandwidth. All-to-all counts the diameter as
    steps and the best routing of messages that may split as t_b; --criteria joint adds the times of
    an allgather and an all-to-all. --time-limit covers the programs that are solved, not the search
    for topologies; what is not solved in time is named.

    With --criteria forests it says of every candidate what no schedule on it can beat for long
    messages: spanning trees in many pieces come near to it, as 'build --scheduler forest' does.

    Sizes that the shipped catalogue has are looked up, and the answer says how much they were
    searched; --fresh searches on from there, seconds up to minutes. Other sizes are searched for,
    and so are better all-to-alls where the catalogue was not searched for them. What is found is
    kept in the user's cache, for later answers and for 'catalogue find'.

    With --delta, designs that change circuits join, and it says whether and from which dead time
    and message size changing them pays.

    With --graph the graph in FILE, of as many nodes and ports, is measured and stands beside the
    frontier in the table, the JSON and the picture; --nodes and --degree are its own unless given.

    \b
    Example:
      ocs-codesign frontier --nodes 12 --degree 4 --alpha 10us --bandwidth 100Gbps \\
          --message 1MiB,64MiB
    """
    asked, collective = given.clock.asked(), given.collective
    joint, forests = given.criteria == JOINT, given.criteria == FORESTS
    changes = bool(given.deltas) or given.max_configurations is not None
    if forests and (changes or collective == opt.ALLTOALL):
        raise click.UsageError(
            "--criteria forests is for one collective that is not alltoall, no --delta"
        )
    if given.graph is not None and (changes or joint or forests or collective == opt.ALLTOALL):
        raise click.UsageError(
            "--graph is for steps and t_b of one collective that is not alltoall"
        )
    if given.fresh and changes:
        raise click.UsageError("--fresh is for topologies that do not change: no --delta")
    beside = None if given.graph is None else opt.graph_of(given.graph)
    given = _sized(given, beside)
    if changes:
        given.choice.check_unused(_SOLVED)
        return frontier_with_reconfiguration(given, asked)
    if joint or collective == opt.ALLTOALL:
        if joint and collective not in {opt.GATHERING[0], opt.ALLTOALL}:
            raise click.UsageError(
                f"--criteria joint compares allgather and all-to-all, not {collective}"
            )
        return frontier_of_alltoall(given, asked)
    given.choice.check_unused(_SOLVED)
    from ocs_codesign.search.frontiers import frontier as find

    with progress("Searching"):
        answer = find(
            *(given.num_nodes, given.degree, collective),
            bidirectional=given.bidirectional,
            forests=forests,
            fresh=given.fresh,
        )
    own = None if given.graph is None or beside is None else _own(given.graph, beside, answer)
    messages_drawn = () if asked is None else (asked.model, *asked.sizes_bytes)
    figure: tuple[Any, ...] = ("frontier.frontier_figure", answer, *messages_drawn)
    if own is not None:
        figure = ("frontier.frontier_beside_figure", own, answer, *messages_drawn)
    found = answered(
        "frontier.frontier", answer, asked, own, show_all=given.show_all, figure=figure
    )
    return found.picked([design.recipes for design in answer.candidates], given.pick)


def _sized(given: FrontierOptions, beside: Topology | None) -> FrontierOptions:
    """The size that was asked for, or that of a graph; UsageError where neither says."""
    if beside is None:
        if not (given.num_nodes and given.degree):
            raise click.UsageError(
                "give --nodes and --degree, or --graph FILE with a graph that has them"
            )
        return given
    if not (given.degree or beside.is_regular):
        raise click.UsageError(
            "the nodes of the graph do not all have as many links: --degree says how many ports "
            "those of the frontier have"
        )
    num_nodes, degree = given.num_nodes or beside.num_nodes, given.degree or beside.degree
    return replace(given, num_nodes=num_nodes, degree=degree)


def _own(graph: str, topology: Topology, answer: Frontier) -> OwnGraph:
    """What a graph of one's own costs; ClickException if it is none of this size."""
    from ocs_codesign.faces.answers.frontier import OwnGraph
    from ocs_codesign.schedules.design import measure_topology

    if topology.num_nodes != answer.num_nodes or topology.degree > answer.degree:
        raise click.ClickException(
            f"{graph} has {topology.num_nodes} nodes of degree {topology.degree}: the frontier is "
            f"of {answer.num_nodes} nodes of degree {answer.degree}"
        )
    # Time is counted in M over the bandwidth of as many ports as the frontier's nodes have.
    cost = measure_topology(topology, answer.collective).cost
    scaled = replace(cost, t_b=cost.t_b * answer.degree / topology.degree)
    return OwnGraph(Path(graph).name, scaled)


# ``ocs-codesign exhaust``: every topology of a small size, and what none of them beats.


@command()
def exhaust(
    num_nodes: int = option(
        "--nodes", type=NUMBERS, required=True, help="Numbers of nodes N, as in 12 or 8-16,24."
    ),
    degree: int = option(
        "--degree", type=NUMBERS, required=True, help="Ports of a node d, as in 4 or 2-4."
    ),
    bidirectional: bool = option(
        "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
    ),
    simple: bool = option("--simple", is_flag=True, help="Leave out loops and parallel links."),
    collective: str = opt.collective_choice(
        "allgather", opt.ALLTOALL, help="Solve all-to-all too: seconds to many minutes."
    ),
) -> Answer:
    """Look at every topology of a small size, and show what none of them beats.

    Each is made once up to the names of its nodes and scored by exact BFB, so the frontier is
    proven. What took long is stored: 'frontier' says what is proven of its designs. Links are
    one-way unless --bidirectional. Loops and parallel links count unless --simple, but no loops
    where links are two-way.

    \b
    Example:
      ocs-codesign exhaust --nodes 5 --degree 2
    """
    from ocs_codesign.schedules.design import Question
    from ocs_codesign.search.exhaustion.visits import exhaust as look_at_all

    with progress("Looking at all topologies"):
        found = look_at_all(
            Question(num_nodes, degree, bidirectional),
            simple=simple,
            alltoall=collective == opt.ALLTOALL,
        )
    return answered("frontier.exhaustion", found)
