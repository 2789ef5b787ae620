"""``ocs-codesign build``: a verified schedule with its topology, as files."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.collective import GATHERING as GATHERING_COLLECTIVES
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import exact
from ocs_codesign.faces.answers.texts import WORTH_TREES_PERCENT, is_far_above
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.classic import option_option
from ocs_codesign.faces.cli.commands import OptionGroup, command, group, option
from ocs_codesign.faces.cli.cost import chunks_option, refuse, trees_drawn
from ocs_codesign.faces.cli.exchange_options import demand_option, matrix_of, sketch_option
from ocs_codesign.faces.cli.machine_options import clock_of, machine_option
from ocs_codesign.faces.cli.message_options import (
    MessageOptions,
    message_option,
    min_chunk_option,
    unit_Bps,
    with_latencies,
)
from ocs_codesign.faces.cli.output import Answer, answered, asked_output
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.schedules.registry import SCHEDULERS

if TYPE_CHECKING:
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.compare.contest import Contest
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.registry import Made


# The options of ``build`` that greedy synthesis heeds, and what it answers without a directory.


GREEDY = "greedy"
ROOTED = ("broadcast", "reduce", "scatter", "gather")

# Spelled out, since importing the scheduler for a help text would take too long.
LATENCY_MODELS = ("pipelined", "blocking")


class GreedyChoice(OptionGroup):
    """The options that greedy synthesis heeds."""

    root: int | None = option(
        "--root",
        type=click.IntRange(min=0),
        help="The root of a broadcast, reduce, scatter or gather (default: 0).",
    )
    seed: int | None = option(
        "--seed", type=click.IntRange(min=0), help="Seed of a greedy schedule (default: 0)."
    )
    latency_model: str | None = option(
        "--latency-model",
        type=click.Choice(LATENCY_MODELS),
        help="Whether a greedy schedule's chunk leaves its link free while it is on the way "
        "(pipelined, the default) or holds it until it has arrived.",
    )

    def collective(self, name: str) -> Collective:
        """The collective of that name; UsageError for a root that it does not have."""
        if name in ROOTED:
            return Collective(name, root=self.root or 0)
        if self.root is not None:
            raise click.UsageError(f"--root is for {', '.join(ROOTED)}: {name} has none")
        return Collective.parse(name)


def _times(made: Made, seconds: float) -> Answer:
    """What a greedy schedule takes, without saving it."""
    if made.greedy is None:
        raise click.UsageError("Missing option '--out'.")
    return answered("cost.synthesis", made.greedy, seconds)


BEST, STEPPED, FOREST, FLOW = "best", "stepped", "forest", "flow"
FOREST_LIMITS = ("trees", "height", "parts")
_LIMITS = ("steps", "chunks", "max_chunks", *FOREST_LIMITS, "min_chunk")


class BuildOptions(opt.GraphOptions):
    """A schedule as it is asked for: of what, by whom, within which limits, and where to."""

    collective: str = opt.collective_choice(*opt.GATHERING, opt.ALLTOALL, *ROOTED)
    scheduler: str = option(
        "--scheduler",
        type=opt.LiveChoice(lambda: {BEST: None, **SCHEDULERS}),
        default=BEST,
        help="Who makes the schedule: BFB, the one mapped through the expansions, the one stored "
        "with a base, or the best of them; the best of all schedules of so many steps, and of so "
        "many chunks; or a classic algorithm, where all its messages cross one link.",
    )
    steps: int | None = option(
        "--max-steps",
        type=click.IntRange(min=1),
        help="Most steps of an exact or late schedule or an all-to-all (default: the fewest).",
    )
    chunks: int | None = chunks_option
    max_chunks: int | None = option(
        "--max-chunks",
        type=click.IntRange(min=1),
        help="Most chunks that an all-to-all cuts a piece into, or a late schedule a shard: fewer "
        "sends, a higher t_b.",
    )
    trees: int | None = option(
        "--trees",
        type=click.IntRange(min=1),
        help="Most trees of a forest for a unit of a host's data (default: what the optimum "
        "takes).",
    )
    height: int | None = option(
        "--max-hops",
        type=click.IntRange(min=1),
        help="Most hops of a tree: fewer steps, perhaps a higher t_b (default: what the rate "
        "takes).",
    )
    parts: int | None = option(
        "--parts",
        type=click.IntRange(min=1, max=4096),
        help="Parts of a tree's data that follow each other: more steps, a lower t_b (default: "
        "enough to come within 10 % of the optimum, or best for --message).",
    )
    demand: str | None = demand_option
    sketch: str | None = sketch_option
    alpha: float | None = opt.alpha_option
    machine: str | None = machine_option
    latency: float | None = opt.latency_option
    bandwidth: float | None = opt.bandwidth_option
    message: float | None = message_option
    min_chunk: float | None = min_chunk_option
    options: tuple[str, ...] = option_option
    directory: str | None = option(
        "--out",
        type=opt.DIRECTORY,
        metavar="DIR",
        help="Where to save the design; greedy synthesis tells its times without one.",
    )
    greedy: GreedyChoice = group(GreedyChoice)
    choice: opt.SolverChoice = opt.solving_options

    def limits(self) -> dict[str, Any]:
        """What these options are of a task."""
        own = {name: getattr(self, name) for name in _LIMITS}
        more = {name: getattr(self.greedy, name) for name in ("seed", "latency_model")}
        return {**own, "sketch": None, **more}


@command(plot="the tallest tree of a forest, else how the data of node 0 go, step by step")
def build(given: BuildOptions = group(BuildOptions)) -> Answer:
    """Build the schedule of a RECIPE, graph or network, verify it, and save it with its topology.

    DIR gets schedule.npz and design.json, whole or not at all. DIR must be new, empty or hold an
    earlier design, which is replaced.

    An exact schedule may take any routes. It is proven the best of so many steps and chunks, or the
    best that was found in --time-limit (a minute if not given), with what none can beat. Exit code
    1 if no schedule has so few steps.

    A late schedule may take any routes too, in as many chunks as make t_b least: the best of so
    many steps, or the best that was found in --time-limit, with what none can beat.

    A forest is spanning trees in many pieces, whose data follow each other down the trees: as fast
    for long messages as the links allow, over switches as well. With --message, --alpha and
    --bandwidth it is the fastest of several with few trees and many, in the best number of parts,
    or BFB where that is faster.

    An all-to-all on a --network may be of a --demand. Its paths, and forests, may keep to a
    --sketch.

    On a --network it is for long messages a forest, or the exchange of least t_b. With --message it
    is what is fastest on the clock of compare, of forests, greedy and classic schedules; links have
    the network's own bandwidths, --latency where they have none, and --alpha more out of a host.

    A greedy schedule matches chunks to links as time goes on, over links of unequal speed and
    latency, for every collective. On a --network with a unit --message says what a chunk takes.

    \b
    Example:
      ocs-codesign build 'Line(CompleteBipartite(4))' --collective allreduce --out design
    """
    wanted, scheduler, limits, race = _decided(given)
    from ocs_codesign.schedules.files.designs import (
        check_design_directory,
        design_record,
        save_design,
    )

    source, directory = given.source, given.directory
    if directory is not None:
        check_design_directory(directory)
    with progress("Building the schedule"):
        begin = process_time()
        comparison: Comparison | None = None
        if race is None:
            design, made = _built(given, wanted, scheduler, limits)
        else:
            design, made, comparison = _raced(source, race, scheduler, limits)
        if design is None:
            return refuse(made)
        if directory is None:
            return _times(made, process_time() - begin)
        is_forest = made.forests or scheduler == FOREST
        figure = trees_drawn(made) if is_forest else _spread_drawn(design)
        tell_phase("Writing the design", 0, 0)
        save_design(design, directory, source.graph_name)
    has_bound = source.network is None and design.collective in GATHERING_COLLECTIVES
    least = design.bound_on(design.schedule.topology) if has_bound else None
    record = design_record(design, source.graph_name)
    forest = _cost_of_forest(design, least)
    return answered(
        *("build.built", record, made, least, directory, comparison),
        design=design,
        forest=forest,
        figure=figure,
    )


def _spread_drawn(design: Design) -> tuple[Any, ...]:
    """The picture of the steps of a design, where one is asked for."""
    if asked_output("plot") is None:
        return ()
    from ocs_codesign.faces.pictures.graph import check_spread

    check_spread(design.schedule)
    return ("graph.spread_figure", design.schedule, 0)


def _decided(given: BuildOptions) -> tuple[Collective, str, dict[str, Any], Contest | None]:
    """Of which collective, by whom, within which limits, after which contest; UsageError if not."""
    source, asked, message = given.source, given.scheduler, given.message
    limits = given.limits()
    own_limits = ("steps", "max_chunks") if given.collective == opt.ALLTOALL else FOREST_LIMITS
    limited = [name for name in own_limits if limits[name] is not None]
    scheduler = default_scheduler(asked, given.collective, source, is_limited=bool(limited))
    if asked == BEST and scheduler == STEPPED and _has_switches(source.network):
        raise click.UsageError(
            f"{_spelling(limited[0])} is for links between hosts: this network has switches"
        )
    wanted = given.greedy.collective(given.collective)
    if given.demand is not None or given.sketch is not None:
        is_exchange = given.collective == opt.ALLTOALL
        if source.network is None or message is not None:
            raise click.UsageError("--demand and --sketch are for a --network, without --message")
        if given.demand is not None and not is_exchange:
            raise click.UsageError("--demand is for --collective alltoall")
        if given.collective in ("scatter", "gather"):
            raise click.UsageError(
                f"--sketch is not for a {given.collective}: one row or column of a --demand is one"
            )
        if asked == BEST:
            scheduler = FLOW if is_exchange else FOREST
        if given.sketch is not None:
            from ocs_codesign.schedules.exchange.sketches import load_sketch

            limits["sketch"] = load_sketch(given.sketch, source.network)
        if given.demand is not None:
            if scheduler not in (FLOW, GREEDY):
                raise click.UsageError(f"--demand is for --scheduler {FLOW} and {GREEDY}")
            sizes = matrix_of(given.demand, source.network)[0].tolist()
            wanted = Collective(opt.ALLTOALL, sizes=sizes)
    race, has_no_clock = None, given.alpha is given.bandwidth is given.latency is None
    if scheduler == GREEDY and has_no_clock:
        limits |= {"message": None, "message_bytes": None if message is None else exact(message)}
    elif source.network is not None and scheduler in (BEST, FOREST):
        race = _race(given, wanted)
        limits["min_chunk"] = None
    elif given.latency is not None and source.network is None:
        raise click.UsageError("--latency is for a --network")
    elif source.network is not None and asked == BEST and not has_no_clock:
        text = f"what a {given.collective} takes is not compared: --message goes without a clock"
        raise click.UsageError(text)
    else:
        messages = () if message is None else (message,)
        limits["message"] = MessageOptions(given.alpha, given.bandwidth, messages).asked()
    limits["algorithm_options"] = algorithm_options(scheduler, given.options)
    _check_usage(given, wanted, scheduler, limits)
    if race is None and given.machine is not None:
        raise click.UsageError("--machine is for --message on a --network")
    if given.directory is None and (scheduler != GREEDY or asked_output("plot") is not None):
        raise click.UsageError("Missing option '--out'.")
    return wanted, scheduler, limits, race


def default_scheduler(
    scheduler: str, collective: str, source: opt.GivenGraph, *, is_limited: bool = False
) -> str:
    """Who makes the schedule: who was asked for, or who stands for the best where it is one."""
    if scheduler != BEST:
        return scheduler
    if collective in ("scatter", "gather"):
        return GREEDY
    if source.network is not None and not is_limited:
        return BEST
    if collective == opt.ALLTOALL:
        return STEPPED
    return BEST if source.network is None and collective not in ROOTED else FOREST


def _race(given: BuildOptions, collective: Collective) -> Contest | None:
    """The contest of all designs for a message on a network, None if no message is said."""
    from ocs_codesign.schedules.compare.contest import Contest
    from ocs_codesign.schedules.forest.choice import MIN_CHUNK_BYTES

    alpha, latency, bandwidth = given.alpha, given.latency, given.bandwidth
    network, least = given.source.network, given.min_chunk
    if network is None or given.message is None:
        if not alpha is latency is bandwidth is least is None:
            raise click.UsageError(
                "--alpha, --latency, --bandwidth and --min-chunk are for --message"
            )
        return None
    unit = unit_Bps(network, bandwidth)
    network = with_latencies(network, latency, alpha)
    contest = Contest(
        *(given.source.graph_name or "", network, collective, (int(given.message),), unit),
        of_designs=True,
        min_chunk_bytes=MIN_CHUNK_BYTES if least is None else least,
    )
    return replace(contest, machine=clock_of(given.network, given.machine, alpha, latency))


def _raced(
    source: opt.GivenGraph, contest: Contest, scheduler: str, limits: dict[str, Any]
) -> tuple[Design, Made, Comparison]:
    """The verified design that is the fastest on the contest's clock, and how all others did."""
    from ocs_codesign.schedules.compare.choosing import fastest
    from ocs_codesign.schedules.design import verified
    from ocs_codesign.verification.sends import Abilities

    given = {name: limits[name] for name in FOREST_LIMITS if limits[name] is not None}
    made, comparison = fastest(contest, None if scheduler == BEST else scheduler, given)
    if made.schedule is None or source.network is None:
        raise RuntimeError("who has a time has a schedule")
    abilities = Abilities.of(source.network)
    return verified(source.recipe, made.schedule, made.maker, abilities), made, comparison


def _cost_of_forest(design: Design, least: Cost | None) -> Cost | None:
    """What spanning trees take on the graph of a design that is far above its bound."""
    from ocs_codesign.schedules.forest.choice import cost_near_optimum

    if least is None or not is_far_above(design.cost, least, WORTH_TREES_PERCENT):
        return None
    return cost_near_optimum(
        design.schedule.topology, design.collective, design.cost.t_b / least.t_b
    )


def algorithm_options(scheduler: str, texts: tuple[str, ...]) -> dict[str, Any] | None:
    """What --option says, None if nothing; UsageError for a scheduler that is no classic one."""
    from ocs_codesign.schedules.classic.algorithm import read_options

    if texts and (scheduler == BEST or not SCHEDULERS[scheduler].is_classic):
        raise click.UsageError("--option is for classic algorithms, such as --scheduler ring")
    return read_options(texts) or None


def _check_usage(
    given: BuildOptions, collective: Collective, scheduler: str, limits: dict[str, Any]
) -> None:
    """UsageError for what the scheduler cannot make, or a limit that it does not heed."""
    entry = None if scheduler == BEST else SCHEDULERS[scheduler]
    if entry is not None and not entry.can_make(collective):
        raise click.UsageError(f"--scheduler {scheduler} is not for {collective.name}")
    if entry is not None and entry.needs_recipe and given.source.recipe is None:
        raise click.UsageError(f"--scheduler {scheduler} needs a RECIPE: a graph has no such one")
    heeded = () if entry is None else entry.limits
    for name, value in limits.items():
        if value is not None and name not in heeded:
            raise click.UsageError(f"{_spelling(name)} is for {_who_heeds(name)}")
    if limits["min_chunk"] is not None and limits["message"] is None:
        raise click.UsageError("--min-chunk is for --message")
    if "options" not in heeded:
        given.choice.check_unused(_who_heeds("options"))


def _has_switches(network: Network | None) -> bool:
    return network is not None and network.num_hosts < network.num_nodes


def _spelling(limit: str) -> str:
    """The option that a limit is given by."""
    return _SPELLED.get(limit, f"--{limit.replace('_', '-')}")


_SPELLED = {"steps": "--max-steps", "height": "--max-hops"}


def _who_heeds(limit: str) -> str:
    """The schedulers that heed a limit, and the collective for which one of them is the best."""
    names = [name for name, entry in SCHEDULERS.items() if limit in entry.limits]
    who = {name: f"--scheduler {name}" for name in names}
    if STEPPED in who:
        who[STEPPED] = f"--collective {opt.ALLTOALL}"
    return " and ".join(sorted(who.values()))


def _built(
    given: BuildOptions, collective: Collective, scheduler: str, limits: dict[str, Any]
) -> tuple[Design | None, Made]:
    """The verified design, None if there is none, and what its maker says of it."""
    from ocs_codesign.schedules.compare.choosing import of_least_t_b
    from ocs_codesign.schedules.design import build as build_recipe
    from ocs_codesign.schedules.design import verified
    from ocs_codesign.schedules.registry import Made, Task, made_by
    from ocs_codesign.verification.sends import FORWARD_ONLY, Abilities

    source = given.source
    if scheduler == BEST and source.recipe is not None:
        design = build_recipe(source.recipe, collective, BEST)
        return design, Made(design.schedule, design.maker)
    network = source.network
    name = "bfb" if scheduler == BEST else scheduler
    is_exchange = scheduler == BEST and network is not None and collective.name == opt.ALLTOALL
    if network is not None and scheduler == BEST:
        name = FOREST
    with given.choice.solving(SCHEDULERS[name].limit_s) as options:
        task = Task(
            source.topology(), collective, source.recipe, **limits, options=options, network=network
        )
        made = of_least_t_b(task) if is_exchange else made_by(name, task)
    schedule = made.schedule
    if schedule is None:
        return None, made
    abilities = FORWARD_ONLY if network is None else Abilities.of(network)
    return verified(source.recipe, schedule, made.maker, abilities), made
