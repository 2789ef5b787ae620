"""SCHEDULERS: every maker of schedules by name, read by designs, the command line and contracts.

To add one, write a function from a Task to a Made and list it here; nothing else has to know it.
Makers are imported when they are called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import GATHERING, MIRROR, Collective
from ocs_codesign.schedules.classic.registry import CLASSIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.plans import Forest
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.exchange.sketches import Sketch
    from ocs_codesign.schedules.forest.choice import Choice, Contender
    from ocs_codesign.schedules.greedy.synthesis import Synthesis
    from ocs_codesign.schedules.stepped.answers import SteppedAnswer


# Task and Made: what schedulers are asked for, and what they answer.


@final
@dataclass(frozen=True, slots=True)
class Task:
    """What a schedule is wanted for: a collective on a topology, perhaps built from a recipe.

    ``steps``, ``chunks``, ``max_chunks``, ``trees`` (of a unit of a root), ``height`` (hops of a
    tree) and ``parts`` (of what it carries) are limits, None for the maker's own; ``message`` is
    the size that it should be fast for, in chunks of ``min_chunk`` bytes or more; ``options`` are
    those of a solver. ``network`` is what the
    links of the topology are, None for links between hosts. ``algorithm_options`` are those of a
    classic algorithm and of its rank map; ``seed``, ``latency_model`` and ``message_bytes``, M,
    are what greedy synthesis begins with and counts time by; ``sketch`` is what paths of an
    all-to-all and trees keep to. A forest of more than ``max_sends`` is refused before it is made.
    """

    topology: Topology
    collective: Collective
    recipe: Any = None
    steps: int | None = None
    chunks: int | None = None
    max_chunks: int | None = None
    options: Options | None = None
    trees: int | None = None
    height: int | None = None
    parts: int | None = None
    message: MessageSizes | None = None
    min_chunk: float | None = None
    network: Network | None = None
    algorithm_options: Mapping[str, Any] | None = None
    seed: int | None = None
    latency_model: str | None = None
    message_bytes: Fraction | None = None
    max_sends: int | None = None
    sketch: Sketch | None = None


@final
@dataclass(frozen=True, slots=True)
class Made:
    """A schedule, None if there is none, by which maker, and what is known of better ones.

    No schedule under the limits of the task has a lower t_b than ``bound``, if it is known;
    ``exact`` is the answer of the integer program, where one was solved; ``choices`` are what was
    compared for a message, one of a collective or one of each half. Of ``forests`` t_b is in very
    many parts 1 + ``loss`` times the bound's. ``greedy`` are the times of a greedy schedule.
    """

    schedule: Schedule | None
    maker: str
    bound: Fraction | None = None
    exact: SteppedAnswer | None = None
    choices: tuple[Choice, ...] = ()
    forests: tuple[Forest, ...] = ()
    loss: Fraction | None = None
    greedy: Synthesis | None = None

    @property
    def height(self) -> int | None:
        """That of the tallest tree of the forests, None if there are none."""
        return max((forest.height for forest in self.forests), default=None)


@final
@dataclass(frozen=True, slots=True)
class Scheduler:
    """A maker: what it makes in a phrase, the names of its collectives, the limits it heeds.

    An allreduce is made of its halves where it is not among the ``collectives``. ``limits`` are
    names of fields of a Task, "options" for one that solves. ``needs_recipe`` says that a topology
    alone is not enough, ``knows_switches`` that the network may have them, ``is_classic`` that a
    classic algorithm refuses topologies that it does not suit. ``limit_s`` is the time limit where
    none is given.
    """

    description: str
    make: Callable[[Task], Made]
    collectives: tuple[str, ...] = ("allgather", "reduce-scatter")
    limits: tuple[str, ...] = ()
    needs_recipe: bool = False
    limit_s: float | None = None
    knows_switches: bool = False
    is_classic: bool = False

    def can_make(self, collective: Collective) -> bool:
        """Whether it makes schedules of a collective, or of all its halves."""
        names = {half.name for half in collective.halves()}
        return collective.name in self.collectives or names <= set(self.collectives)


def made_by(name: str, task: Task) -> Made:
    """What a scheduler makes of a task; an allreduce of its halves, if it makes no whole ones.

    Raises ValueError if the scheduler is unknown or not for the collective, or for the topology.
    """
    if name not in SCHEDULERS:
        raise ValueError(f"scheduler is {name!r}: it must be one of {', '.join(SCHEDULERS)}")
    scheduler, wanted = SCHEDULERS[name], task.collective
    if not scheduler.can_make(wanted):
        makes = ", ".join(scheduler.collectives)
        raise ValueError(f"scheduler {name} makes {makes}, not {wanted.name}")
    if scheduler.needs_recipe and task.recipe is None:
        raise ValueError(f"scheduler {name} needs a recipe: a graph has no such schedule")
    network = task.network
    if (
        network is not None
        and network.num_hosts < network.num_nodes
        and not scheduler.knows_switches
    ):
        raise ValueError(f"scheduler {name} is for links between hosts: this network has switches")
    if wanted.name in scheduler.collectives:
        return scheduler.make(task)
    return _in_turn(scheduler.make, task)


def _in_turn(make: Callable[[Task], Made], task: Task) -> Made:
    """An allreduce of what is made of its halves, one after the other."""
    halves = [make(replace(task, collective=half)) for half in task.collective.halves()]
    schedules = [half.schedule for half in halves]
    if schedules[0] is None or schedules[1] is None:
        return halves[schedules[0] is not None]
    makers = "+".join(dict.fromkeys(half.maker for half in halves))
    choices = halves[0].choices + halves[1].choices
    losses = [half.loss for half in halves if half.loss is not None]
    return Made(
        schedules[0].then(schedules[1]),
        makers,
        choices=choices,
        forests=halves[0].forests + halves[1].forests,
        loss=max(losses, default=None),
    )


def _bfb(task: Task) -> Made:
    from ocs_codesign.schedules.breadth_first.assembly import bfb

    return Made(bfb(task.topology, task.collective), "bfb")


def _expansion(task: Task) -> Made:
    return Made(task.recipe.expansion_schedule(task.collective), "expansion")


def _stored(task: Task) -> Made:
    transposed = task.collective == Collective.REDUCE_SCATTER
    is_base = hasattr(task.recipe, "stored_schedule")
    if not is_base or task.recipe.stored_schedule(transposed=transposed) is None:
        raise ValueError(
            f"no {task.collective.name} of {task.recipe!r} is stored that is better than BFB"
        )
    return Made(task.recipe.expansion_schedule(task.collective), "stored")


def _exact(task: Task) -> Made:
    from ocs_codesign.schedules.stepped.exact import MINUTE, exact_schedule

    found = exact_schedule(
        task.topology,
        task.steps or len(task.collective.halves()) * task.topology.diameter(),
        task.chunks or task.topology.degree,
        task.collective,
        task.options or MINUTE,
    )
    return Made(found.schedule, f"exact, {found.status}", found.bound, found)


def _late(task: Task) -> Made:
    from ocs_codesign.schedules.stepped.exact import MINUTE
    from ocs_codesign.schedules.stepped.late import MAX_CHUNKS, late_schedule

    found = late_schedule(
        task.topology,
        task.steps or len(task.collective.halves()) * task.topology.diameter(),
        task.collective,
        task.options or MINUTE,
        task.max_chunks or MAX_CHUNKS,
    )
    return Made(found.schedule, f"late, {found.status}", found.bound)


def _stepped(task: Task) -> Made:
    from ocs_codesign.core.lp import DEFAULT_OPTIONS
    from ocs_codesign.schedules.stepped.alltoall import MAX_CHUNKS, stepped_plan

    options = task.options or DEFAULT_OPTIONS
    plan = stepped_plan(task.topology, task.steps, task.max_chunks or MAX_CHUNKS, options)
    return Made(plan.schedule, "time-stepped", plan.bound)


def _flow(task: Task) -> Made:
    import numpy as np

    from ocs_codesign.core.lp import DEFAULT_OPTIONS
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.schedules.exchange.paths import exchange_paths

    network, guide = task.network or direct(task.topology, 1), task.sketch
    demand = None if task.collective.sizes is None else np.array(task.collective.sizes)
    relays, phases = (None, None) if guide is None else (guide.relays, guide.phases)
    options = task.options or DEFAULT_OPTIONS
    paths = exchange_paths(network, demand, relays, options, phases)
    parts = task.parts or (guide and guide.parts) or paths.parts_within()
    if task.max_sends is not None and parts * len(paths.link) > task.max_sends:
        raise ValueError(f"{parts * len(paths.link):,} sends are too many to try")
    optimum = paths.optimum
    bound = optimum.bound * network.host_bandwidth() / optimum.message_units
    return _checked_relays(task, Made(paths.schedule(parts, task.topology), "flow", bound))


def _forest(task: Task) -> Made:
    from ocs_codesign.core.networks.builders import direct
    from ocs_codesign.schedules.forest.choice import (
        MIN_CHUNK_BYTES,
        Contender,
        contenders,
        near_optimum,
    )
    from ocs_codesign.schedules.forest.optimum import optimum

    network = task.network or direct(task.topology, 1)
    if task.sketch is not None:
        return _forest_in_phases(task, network, task.sketch)
    if task.collective.name == Collective.ALLREDUCE.name:
        return _forest_allreduce(task, network)
    if task.message is None:
        limits = (task.trees, task.parts)
        found = optimum(network, task.collective)
        pipeline, parts = near_optimum(found, task.collective, *limits, height=task.height)
        best = Contender("forest", pipeline.cost(parts), pipeline, parts)
        return _piped(task, best, found.least_t_b, ())
    field = contenders(*(network, task.collective, task.trees, task.topology, task.height))
    (size,) = task.message.sizes_bytes
    least_chunk = MIN_CHUNK_BYTES if task.min_chunk is None else task.min_chunk
    choice = field.choice(task.message.model, size, task.parts, least_chunk)
    if choice.best.pipeline is None:
        is_ring = choice.best.maker != "bfb"
        made = _through_switches(task, network, choice.best.maker) if is_ring else _bfb(task)
        return replace(made, choices=(choice,))
    return _piped(task, choice.best, choice.least.t_b, (choice,))


def _forest_in_phases(task: Task, network: Network, sketch: Sketch) -> Made:
    from ocs_codesign.schedules.forest.choice import NEAR_OPTIMUM, Contender
    from ocs_codesign.schedules.forest.optimum import optimum
    from ocs_codesign.schedules.forest.phases import phased_halves
    from ocs_codesign.schedules.forest.pipeline import Pipeline, allreduce_bound
    from ocs_codesign.verification.forests import check_forest

    forests = [half.forest() for half in phased_halves(network, task.collective, sketch)]
    for forest in forests:
        witness = check_forest(forest)
        if witness is not None:
            raise RuntimeError(f"the forest is wrong: {witness}")
    free = [optimum(network, half) for half in task.collective.halves()]
    bound = free[0].least_t_b
    if len(free) > 1:
        bound = network.host_bandwidth() / allreduce_bound(network, free)
    pipeline = Pipeline(forests, task.collective)
    parts = task.parts or sketch.parts or pipeline.parts_within(NEAR_OPTIMUM)
    best = Contender("forest", pipeline.cost(parts), pipeline, parts)
    return _checked_relays(task, _piped(task, best, bound, ()))


def _checked_relays(task: Task, made: Made) -> Made:
    """What a sketch's relays allow; another is a fault of the product."""
    from ocs_codesign.verification.schedules import check_relays

    relays = None if task.sketch is None else task.sketch.relays
    witness = (
        None if relays is None or made.schedule is None else check_relays(made.schedule, relays)
    )
    if witness is not None:
        raise RuntimeError(f"the schedule keeps to no sketch: {witness}")
    return made


def _through_switches(task: Task, network: Network, name: str) -> Made:
    from ocs_codesign.schedules.forest.choice import through_switches

    return Made(through_switches(name, network, task.collective), name)


def _forest_allreduce(task: Task, network: Network) -> Made:
    """What takes least: both halves at once, by either forests, or in turn, for a message."""
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.schedules.forest.choice import (
        MIN_CHUNK_BYTES,
        NEAR_OPTIMUM,
        Choice,
        Contender,
    )
    from ocs_codesign.schedules.forest.pipeline import MAX_CHUNKS, allreduce_pipelines

    limits = (task.trees, task.height)
    pipelines, bound = allreduce_pipelines(network, task.collective, *limits)
    found: list[Contender] = []
    for maker, pipeline in pipelines.items():
        if task.parts is not None or task.message is None:
            parts = task.parts or pipeline.parts_within(NEAR_OPTIMUM)
        else:
            (size,), least = task.message.sizes_bytes, task.min_chunk or MIN_CHUNK_BYTES
            most = pipeline.most_parts(size, least)
            parts = pipeline.best_parts(task.message.model, size, most)
        if not found or pipeline.num_chunks(parts) <= MAX_CHUNKS:
            found.append(Contender(maker, pipeline.cost(parts), pipeline, parts))
    if task.message is None:
        best = min(found, key=lambda one: (one.cost.t_b, one.cost.steps))
        return _piped(task, best, bound, ())
    model, (size,) = task.message.model, task.message.sizes_bytes
    in_turn = _in_turn(_forest, task)
    if in_turn.schedule is not None:
        found.append(Contender(in_turn.maker, in_turn.schedule.synchronous_cost()))
    found.sort(key=lambda one: (one.cost.time_s(model, size), one.cost.steps))
    if found[0].pipeline is None:
        return in_turn
    # Neither half alone takes fewer steps, so both do not.
    steps = max(choice.least.steps for choice in in_turn.choices)
    return _piped(task, found[0], bound, (Choice(model, size, tuple(found), Cost(steps, bound)),))


def _piped(task: Task, best: Contender, bound: Fraction, choices: tuple[Choice, ...]) -> Made:
    pipeline = best.pipeline
    if pipeline is None:
        return Made(None, best.maker, bound, choices=choices)
    num_sends = best.num_parts * len(pipeline.link)
    if task.max_sends is not None and num_sends > task.max_sends:
        raise ValueError(f"{num_sends:,} sends are too many to try")
    return Made(
        pipeline.schedule(best.num_parts, task.topology),
        best.maker,
        bound,
        choices=choices,
        forests=pipeline.forests,
        loss=pipeline.steady_state_t_b / bound - 1,
    )


def _greedy(task: Task) -> Made:
    from ocs_codesign.schedules.greedy.problem import PIPELINED
    from ocs_codesign.schedules.greedy.synthesis import synthesis
    from ocs_codesign.verification.circuits import check_timed

    made = synthesis(
        task.topology,
        task.collective,
        1 if task.chunks is None else task.chunks,
        task.seed or 0,
        network=task.network,
        message_bytes=task.message_bytes,
        model=task.latency_model or PIPELINED,
    )
    witness = check_timed(made.timed, made.links.delay, chunk_ticks=made.links.busy)
    if witness is not None:
        raise RuntimeError(f"the greedy schedule is wrong: {witness}")
    return Made(made.schedule, "greedy", greedy=made)


def _classic(name: str, task: Task) -> Made:
    from ocs_codesign.schedules.classic.conversion import schedule_of, schedule_through
    from ocs_codesign.schedules.classic.placement import messages_on

    options, network = task.algorithm_options or {}, task.network
    sides = getattr(task.recipe, "sides", None)
    if network is not None and network.num_hosts < network.num_nodes:
        messages, nodes = messages_on(network, name, task.collective, options, sides)
        return Made(schedule_through(messages.renumbered(nodes), network), name)
    messages, nodes = messages_on(task.topology, name, task.collective, options, sides)
    return Made(schedule_of(messages, task.topology, nodes), name)


def _rings(task: Task) -> Made:
    from ocs_codesign.schedules.classic.rings import rings_schedule

    made = rings_schedule(task.topology, task.collective, task.algorithm_options)
    return Made(made, f"{made.num_chunks} rings")


SCHEDULERS: dict[str, Scheduler] = {
    "bfb": Scheduler("balanced breadth-first broadcast", _bfb),
    "expansion": Scheduler(
        "the base's schedule mapped through the expansions", _expansion, needs_recipe=True
    ),
    "stored": Scheduler("the schedule stored with a base", _stored, needs_recipe=True),
    "exact": Scheduler(
        "the best of so many steps and chunks",
        _exact,
        tuple(collective.name for collective in GATHERING),
        ("steps", "chunks", "options"),
        limit_s=60.0,
    ),
    "late": Scheduler(
        "the best of so many steps over any routes, in as many chunks as it takes",
        _late,
        tuple(collective.name for collective in GATHERING),
        ("steps", "max_chunks", "options"),
        limit_s=60.0,
    ),
    "forest": Scheduler(
        "spanning trees in many pieces, as fast as the links allow",
        _forest,
        ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"),
        ("trees", "height", "parts", "message", "min_chunk", "sketch"),
        knows_switches=True,
    ),
    "greedy": Scheduler(
        "chunks matched to links as time goes on, for unequal links as well",
        _greedy,
        tuple(MIRROR),
        ("chunks", "seed", "latency_model", "message_bytes"),
        knows_switches=True,
    ),
    "stepped": Scheduler(
        "an all-to-all of so many steps",
        _stepped,
        (Collective.ALLTOALL.name,),
        ("steps", "max_chunks", "options"),
    ),
    "flow": Scheduler(
        "an all-to-all over paths that together load no link more than they must, in parts",
        _flow,
        (Collective.ALLTOALL.name,),
        ("parts", "sketch", "options"),
        knows_switches=True,
    ),
    "rings": Scheduler(
        "rings side by side, as many as ports",
        _rings,
        limits=("algorithm_options",),
        is_classic=True,
    ),
    **{
        name: Scheduler(
            algorithm.description,
            partial(_classic, name),
            algorithm.collectives,
            ("algorithm_options",),
            knows_switches=True,
            is_classic=True,
        )
        for name, algorithm in CLASSIC.items()
    },
}
"""Every scheduler by name."""
