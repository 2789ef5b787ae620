"""``ocs-codesign build``: a verified schedule with its topology, as files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from time import process_time
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.core.collective import GATHERING as GATHERING_COLLECTIVES
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import exact
from ocs_codesign.faces.answers.cost import synthesis_json, synthesis_sections
from ocs_codesign.faces.answers.texts import WORTH_TREES_PERCENT, is_far_above
from ocs_codesign.faces.cli.classic import option_option
from ocs_codesign.faces.cli.cost import chunks_option, picture_of_trees, refuse
from ocs_codesign.faces.cli.message_options import asked_messages, message_option, min_chunk_option
from ocs_codesign.faces.cli.options import (
    ALLTOALL,
    DIRECTORY,
    GATHERING,
    GivenGraph,
    LiveChoice,
    SolverChoice,
    alpha_option,
    bandwidth_option,
    collective_choice,
    graph_option,
    json_option,
    network_option,
    plot_option,
    recipe_argument,
    solver_options,
)
from ocs_codesign.faces.cli.output import check_outputs, emit
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.schedules.registry import SCHEDULERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.cost import Cost
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.registry import Made


# The options of ``build`` that greedy synthesis heeds, and what it answers without a directory.


GREEDY = "greedy"
ROOTED = ("broadcast", "reduce", "scatter", "gather")

# Spelled out, since importing the scheduler for a help text would take too long.
LATENCY_MODELS = ("pipelined", "blocking")

_OPTIONS = (
    click.option(
        "--root",
        type=click.IntRange(min=0),
        help="The root of a broadcast, reduce, scatter or gather (default: 0).",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), help="Seed of a greedy schedule (default: 0)."
    ),
    click.option(
        "--latency-model",
        type=click.Choice(LATENCY_MODELS),
        help="Whether a greedy schedule's chunk leaves its link free while it is on the way "
        "(pipelined, the default) or holds it until it has arrived.",
    ),
)


@final
@dataclass(frozen=True, slots=True)
class GreedyChoice:
    """What these options say."""

    root: int | None
    seed: int | None
    latency_model: str | None

    def collective(self, name: str) -> Collective:
        """The collective of that name; UsageError for a root that it does not have."""
        if name in ROOTED:
            return Collective(name, root=self.root or 0)
        if self.root is not None:
            raise click.UsageError(f"--root is for {', '.join(ROOTED)}: {name} has none")
        return Collective.parse(name)

    def limits(self) -> dict[str, Any]:
        """What they are of a task."""
        return {"seed": self.seed, "latency_model": self.latency_model}


def greedy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --root, --seed and --latency-model, as the argument ``greedy``."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        root: int | None,
        seed: int | None,
        latency_model: str | None,
        **others: Any,
    ) -> Any:
        greedy = GreedyChoice(root, seed, latency_model)
        return command(*arguments, greedy=greedy, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def tell_times(made: Made, json_path: str | None, seconds: float) -> int:
    """Say what a greedy schedule takes, without saving it, and return the exit code."""
    if made.greedy is None:
        raise click.UsageError("Missing option '--out'.")
    answer = {**synthesis_json(made.greedy), "seconds": seconds}
    emit(answer, json_path, synthesis_sections(made.greedy, seconds))
    return 0


BEST, STEPPED, FOREST = "best", "stepped", "forest"


@click.command(short_help="Build and verify a schedule and save the design.")
@recipe_argument
@graph_option
@network_option
@collective_choice(*GATHERING, ALLTOALL, *ROOTED)
@click.option(
    "--scheduler",
    type=LiveChoice(lambda: {BEST: None, **SCHEDULERS}),
    default=BEST,
    show_default=True,
    help="Who makes the schedule: BFB, the one mapped through the expansions, the one stored with "
    "a base, or the best of them; the best of all schedules of so many steps, and of so many "
    "chunks; or a classic algorithm, where all its messages cross one link.",
)
@click.option(
    *("--max-steps", "steps"),
    type=click.IntRange(min=1),
    help="Most steps of an exact or late schedule or an all-to-all (default: the fewest).",
)
@chunks_option
@click.option(
    "--max-chunks",
    type=click.IntRange(min=1),
    help="Most chunks that an all-to-all cuts a piece into, or a late schedule a shard: fewer "
    "sends, a higher t_b.",
)
@click.option(
    "--trees",
    type=click.IntRange(min=1),
    help="Most trees of a forest for a unit of a host's data (default: what the optimum takes).",
)
@click.option(
    *("--max-hops", "height"),
    type=click.IntRange(min=1),
    help="Most hops of a tree: fewer steps, perhaps a higher t_b (default: what the rate takes).",
)
@click.option(
    "--parts",
    type=click.IntRange(min=1, max=4096),
    help="Parts of a tree's data that follow each other: more steps, a lower t_b (default: enough "
    "to come within 10 % of the optimum, or best for --message).",
)
@alpha_option
@bandwidth_option
@message_option
@min_chunk_option
@option_option
@click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    help="Where to save the design; greedy synthesis tells its times without one.",
)
@greedy_options
@solver_options
@plot_option("the tallest tree of a forest")
@json_option
def build(
    recipe: str | None,
    graph: str | None,
    network: str | None,
    collective: str,
    scheduler: str,
    steps: int | None,
    chunks: int | None,
    max_chunks: int | None,
    trees: int | None,
    height: int | None,
    parts: int | None,
    alpha: float | None,
    bandwidth: float | None,
    message: float | None,
    min_chunk: float | None,
    options: tuple[str, ...],
    directory: str | None,
    plot: str | None,
    json_path: str | None,
    choice: SolverChoice,
    greedy: GreedyChoice,
) -> int:
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
    or BFB, or a ring through switches, where that is faster.

    A greedy schedule matches chunks to links as time goes on, over links of unequal speed and
    latency, for every collective. On a --network with a unit --message says what a chunk takes.

    \b
    Example:
      ocs-codesign build 'Line(CompleteBipartite(4))' --collective allreduce --out design
    """
    from ocs_codesign.faces.answers.build import built_json, built_sections, choices_sections

    source = GivenGraph.of(recipe, graph, network)
    scheduler = default_scheduler(scheduler, collective, source)
    limits: dict[str, Any] = {
        "steps": steps,
        "chunks": chunks,
        "max_chunks": max_chunks,
        "trees": trees,
        "height": height,
        "parts": parts,
        "min_chunk": min_chunk,
        **greedy.limits(),
    }
    if scheduler == GREEDY and alpha is bandwidth is None:
        limits |= {"message": None, "message_bytes": None if message is None else exact(message)}
    else:
        sizes = () if message is None else (message,)
        limits["message"] = asked_messages(alpha, bandwidth, sizes)
    wanted = greedy.collective(collective)
    limits["algorithm_options"] = algorithm_options(scheduler, options)
    _check_usage(source, wanted, scheduler, limits, choice)
    if plot is not None and scheduler != FOREST:
        raise click.UsageError("--plot is for --scheduler forest")
    if directory is None and scheduler != GREEDY:
        raise click.UsageError("Missing option '--out'.")
    from ocs_codesign.schedules.files.designs import (
        check_design_directory,
        design_record,
        save_design,
    )

    check_outputs(json_path, plot)
    if directory is not None:
        check_design_directory(directory)
    with progress("Building the schedule"):
        begin = process_time()
        design, made = _built(source, wanted, scheduler, limits, choice)
        if design is None:
            return refuse(made, json_path)
        if directory is None:
            return tell_times(made, json_path, process_time() - begin)
        files = {} if plot is None else {plot: picture_of_trees(made, plot)}
        tell_phase("Writing the design", 0, 0)
        save_design(design, directory, source.graph_name)
    has_bound = source.network is None and design.collective in GATHERING_COLLECTIVES
    least = design.bound_on(design.schedule.topology) if has_bound else None
    answer = built_json(design_record(design, source.graph_name), made, least, directory)
    if made.greedy is not None:
        answer["greedy"] = synthesis_json(made.greedy)
    forest = _cost_of_forest(design, least)
    sections = [*built_sections(answer, design, made, least, forest)]
    compared = [half.name for half in design.collective.halves()]
    if len(made.choices) < len(compared):
        compared = [design.collective.name] * len(made.choices)
    sections += choices_sections(compared, made.choices)
    emit(answer, json_path, sections, files)
    return 0


def default_scheduler(scheduler: str, collective: str, source: GivenGraph) -> str:
    """Who makes the schedule: who was asked for, or who stands for the best where it is one."""
    if scheduler != BEST:
        return scheduler
    if collective == ALLTOALL:
        return STEPPED
    if collective in ("scatter", "gather"):
        return GREEDY
    return FOREST if source.network is not None or collective in ROOTED else BEST


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
    source: GivenGraph,
    collective: Collective,
    scheduler: str,
    limits: dict[str, Any],
    choice: SolverChoice,
) -> None:
    """UsageError for what the scheduler cannot make, or a limit that it does not heed."""
    entry = None if scheduler == BEST else SCHEDULERS[scheduler]
    if entry is not None and not entry.can_make(collective):
        raise click.UsageError(f"--scheduler {scheduler} is not for {collective.name}")
    if entry is not None and entry.needs_recipe and source.recipe is None:
        raise click.UsageError(f"--scheduler {scheduler} needs a RECIPE: a graph has no such one")
    heeded = () if entry is None else entry.limits
    for name, value in limits.items():
        if value is not None and name not in heeded:
            spelled = _SPELLED.get(name, f"--{name.replace('_', '-')}")
            raise click.UsageError(f"{spelled} is for {_who_heeds(name)}")
    if limits["min_chunk"] is not None and limits["message"] is None:
        raise click.UsageError("--min-chunk is for --message")
    if "options" not in heeded:
        choice.check_unused(_who_heeds("options"))


_SPELLED = {"steps": "--max-steps", "height": "--max-hops"}


def _who_heeds(limit: str) -> str:
    """The schedulers that heed a limit, and the collective for which one of them is the best."""
    names = [name for name, entry in SCHEDULERS.items() if limit in entry.limits]
    who = {name: f"--scheduler {name}" for name in names}
    if STEPPED in who:
        who[STEPPED] = f"--collective {ALLTOALL}"
    return " and ".join(sorted(who.values()))


def _built(
    source: GivenGraph,
    collective: Collective,
    scheduler: str,
    limits: dict[str, Any],
    choice: SolverChoice,
) -> tuple[Design | None, Made]:
    """The verified design, None if there is none, and what its maker says of it."""
    from ocs_codesign.schedules.design import build as build_recipe
    from ocs_codesign.schedules.design import verified
    from ocs_codesign.schedules.registry import Made, Task, made_by
    from ocs_codesign.verification.sends import FORWARD_ONLY, Abilities

    if scheduler == BEST and source.recipe is not None:
        design = build_recipe(source.recipe, collective, BEST)
        return design, Made(design.schedule, design.maker)
    name = "bfb" if scheduler == BEST else scheduler
    with choice.solving(SCHEDULERS[name].limit_s) as options:
        task = Task(
            source.topology(),
            collective,
            source.recipe,
            **limits,
            options=options,
            network=source.network,
        )
        made = made_by(name, task)
    schedule = made.schedule
    if schedule is None:
        return None, made
    network = source.network
    abilities = FORWARD_ONLY if network is None else Abilities.of(network)
    return verified(source.recipe, schedule, made.maker, abilities), made
