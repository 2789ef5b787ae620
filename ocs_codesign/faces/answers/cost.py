"""What one topology costs, as an answer: by BFB or a mapped schedule, or of an all-to-all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.answers.sections import Facts, Table
from ocs_codesign.faces.answers.texts import (
    MAX_FRACTION,
    cost_json,
    cost_text,
    far_above_text,
    graph_bound_text,
    in_decimals,
    is_far_above,
    loads_table,
    model_json,
    model_text,
    optimality,
    t_b_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.cost import MessageSizes
    from ocs_codesign.core.schedule import Messages
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.classic.placement import Placed
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.greedy.synthesis import Synthesis
    from ocs_codesign.schedules.paths.certificates import Throughput
    from ocs_codesign.schedules.stepped.exact import ExactAnswer
    from ocs_codesign.schedules.stepped.late import LateAnswer


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """The topology that an answer is about: a recipe, or the name of a graph file."""

    recipe: Recipe | None
    graph: str | None
    num_nodes: int
    degree: int

    def json(self, collective: str) -> dict[str, Any]:
        """What every answer about one topology begins with."""
        return {
            "recipe": None if self.recipe is None else repr(self.recipe),
            "label": None if self.recipe is None else self.recipe.label(),
            "graph": self.graph,
            "nodes": self.num_nodes,
            "degree": self.degree,
            "collective": collective,
        }

    def facts(self, collective: str) -> tuple[tuple[str, object], ...]:
        """The same for people."""
        return (
            ("recipe", None if self.recipe is None else repr(self.recipe)),
            ("label", None if self.recipe is None else self.recipe.label()),
            ("graph", self.graph),
            ("nodes, degree", f"{self.num_nodes}, {self.degree}"),
            ("collective", collective),
        )


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """A design with what it is compared with.

    ``predicted`` is None for a graph, ``topology_bound`` where the graph is too large to look at;
    ``forest`` is what spanning trees take, where that was asked.
    """

    design: Design
    predicted: Cost | None
    bound: Cost
    topology_bound: Cost | None
    forest: Cost | None = None

    @property
    def bw_optimal(self) -> bool:
        """Whether t_b is the least of any topology of this size."""
        return self.design.cost.t_b == self.bound.t_b

    @property
    def over_topology_bound(self) -> float | None:
        """How many times the t_b of the bound of this graph the cost has."""
        least = self.topology_bound
        return None if least is None else float(self.design.cost.t_b / least.t_b)

    @property
    def graph_bound_text(self) -> str | None:
        """What no schedule on this graph can beat, in words."""
        least, design = self.topology_bound, self.design
        return least and graph_bound_text(design.cost, least, design.collective)

    @property
    def moore_optimal(self) -> bool:
        """Whether the steps are the least of any topology of this size."""
        return self.design.cost.steps == self.bound.steps


def cost_answer_json(subject: Subject, costs: Costs) -> dict[str, Any]:
    """The JSON form of the cost of one topology."""

    def known(cost: Cost | None) -> dict[str, Any] | None:
        return None if cost is None else cost_json(cost)

    design = costs.design
    return {
        **subject.json(design.collective.name),
        **cost_json(design.cost),
        "t_b_float": float(design.cost.t_b),
        "measured": design.measured,
        "schedule": design.maker,
        "max_load_per_step": [str(load) for load in design.loads],
        "num_chunks": design.num_chunks,
        "predicted": known(costs.predicted),
        "bound": cost_json(costs.bound),
        "topology_bound": known(costs.topology_bound),
        "over_topology_bound": costs.over_topology_bound,
        "forest": known(costs.forest),
        "bw_optimal": costs.bw_optimal,
        "moore_optimal": costs.moore_optimal,
        "allgather": cost_json(design.cost_of(Collective.ALLGATHER)),
        "reduce_scatter": cost_json(design.cost_of(Collective.REDUCE_SCATTER)),
    }


def cost_sections(subject: Subject, costs: Costs) -> Iterator[Section]:
    """The cost, what it is compared with, and the loads of every step."""

    def known(cost: Cost | None) -> str | None:
        return None if cost is None else cost_text(cost)

    design = costs.design
    kind = "measured" if design.measured else "predicted, an upper bound"
    yield Facts(
        *subject.facts(design.collective.name),
        ("cost", f"{cost_text(design.cost)}, {kind}"),
        ("predicted", known(costs.predicted)),
        ("bound", f"{cost_text(costs.bound)} (no topology of this size can beat it)"),
        ("bound of this graph", costs.graph_bound_text),
        ("optimal", optimality(costs.bw_optimal, costs.moore_optimal)),
        ("allgather", cost_text(design.cost_of(Collective.ALLGATHER))),
        ("reduce-scatter", cost_text(design.cost_of(Collective.REDUCE_SCATTER))),
        ("schedule", design.maker),
        ("chunks a shard", design.num_chunks),
    )
    least = costs.topology_bound
    if least is not None and is_far_above(design.cost, least):
        yield ""
        yield far_above_text(design.cost, least, costs.forest)
    yield ""
    yield loads_table(design.loads)


def alltoall_json(subject: Subject, found: Throughput, least: Fraction) -> dict[str, Any]:
    """The JSON form of the best routing of an all-to-all, with its certificate.

    Prices and loads are one a link orbit, ``link_orbit`` is that of every link: the bottleneck is
    where the price is not 0.
    """
    return {
        **subject.json("alltoall"),
        "t_b": str(found.time),
        "t_b_float": float(found.time),
        "proven_bound": str(found.bound),
        "gap": float(found.gap),
        "optimal": found.is_optimal,
        "method": found.method,
        "bound": str(least),
        "over_bound": float(found.time / least),
        "num_link_orbits": found.quotient.num_orbits,
        "link_orbit": found.quotient.link_orbit.tolist(),
        "prices": found.prices.tolist(),
        "link_use": _link_use(found),
    }


def alltoall_sections(subject: Subject, found: Throughput, least: Fraction) -> Iterator[Section]:
    """The best routing of an all-to-all and how good it is."""
    use = _link_use(found)
    gap = f"at most {float(found.gap):.2g} above the least"
    yield Facts(
        *subject.facts("alltoall, messages may split over paths"),
        ("t_b", f"{_number(found.time)}, {'proven optimal' if found.is_optimal else gap}"),
        ("proven bound", _number(found.bound)),
        ("bound", f"{_number(least)} (no topology of this size can beat it)"),
        ("over the bound", f"{float(found.time / least):.4f} times"),
        ("link use", f"{min(use):.1%} to {max(use):.1%}, mean {sum(use) / len(use):.1%}"),
        ("bottleneck", _bottleneck(found)),
        ("found by", found.method),
    )


def _link_use(found: Throughput) -> list[float]:
    """For what part of the time the links of every orbit are busy."""
    pairs = zip(found.loads, found.quotient.speed.tolist(), strict=True)
    return [float(load / speed * found.quotient.scale / found.time) for load, speed in pairs]


def _bottleneck(found: Throughput) -> str:
    """How many links a faster all-to-all would need more of.

    They have a price and are busy for all of the proven bound; at an optimum a price is enough.
    """
    whole = found.quotient
    loads = zip(found.loads, found.prices.tolist(), whole.speed.tolist(), strict=True)
    is_tight = [
        price > 0 and whole.scale * load / speed >= found.bound for load, price, speed in loads
    ]
    tight = sum(is_tight[orbit] for orbit in whole.link_orbit.tolist())
    return f"{tight} of {whole.topology.num_links} links"


def _number(value: Fraction) -> str:
    """A fraction while it is short, with its decimal."""
    text = str(value)
    return f"{text} ({float(value):.6g})" if len(text) <= MAX_FRACTION else in_decimals(value)


# Exact schedules as answers: what is proven of one, and of more and more steps.


def proof_json(answer: ExactAnswer) -> dict[str, Any]:
    """What is proven of an exact schedule, beside its cost."""
    return {
        "optimal": answer.is_optimal,
        "t_b_bound": None if answer.bound is None else str(answer.bound),
        "t_b_bound_any_chunks": None if answer.limit is None else str(answer.limit),
        "status": answer.status,
        "solvers": list(answer.solvers),
    }


def refusal_json(answer: ExactAnswer) -> dict[str, Any]:
    """That there is no schedule at all."""
    return {"schedule": None, "steps": answer.num_steps, **proof_json(answer)}


def refusal_sections(answer: ExactAnswer) -> Iterator[Section]:
    """Why there is no schedule at all."""
    yield answer.status[0].upper() + answer.status[1:] + "."


@final
@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The answers of more and more steps, and what stopped them before ``max_steps`` if anything.

    ``bound`` is that of the topology and the collective, ``bfb`` what BFB costs; times are of the
    messages ``asked`` for.
    """

    collective: str
    num_chunks: int
    max_steps: int
    bound: Cost
    bfb: Cost
    answers: tuple[ExactAnswer, ...]
    asked: MessageSizes | None = None
    stopped: str | None = None

    @property
    def stop_sentence(self) -> str:
        """Where it stopped."""
        return f"stopped at {self.answers[-1].num_steps + 1} steps"


def walk_json(subject: Subject, walk: Walk) -> dict[str, Any]:
    """The JSON form of an exact frontier."""
    return {
        **subject.json(walk.collective),
        "num_chunks": walk.num_chunks,
        "max_steps": walk.max_steps,
        "topology_bound": cost_json(walk.bound),
        "bfb": cost_json(walk.bfb),
        "complete": walk.stopped is None,
        "stopped": walk.stopped,
        **({} if walk.asked is None else {"cost_model": model_json(walk.asked)}),
        "points": _points(walk),
    }


def _points(walk: Walk) -> list[dict[str, Any]]:
    from ocs_codesign.core.cost import undominated
    from ocs_codesign.schedules.stepped.exact import cost_of

    best = [answer.num_steps for answer in undominated(walk.answers, cost_of)]
    return [
        {
            "steps": answer.num_steps,
            "t_b": str(cost_of(answer).t_b),
            "t_b_float": float(cost_of(answer).t_b),
            "on_frontier": answer.num_steps in best,
            **({} if walk.asked is None else {"time_s": walk.asked.times_s(cost_of(answer))}),
            **proof_json(answer),
        }
        for answer in walk.answers
    ]


def walk_sections(subject: Subject, walk: Walk) -> Iterator[Section]:
    """The exact frontier, and why it ends where it does."""
    yield Facts(
        *subject.facts(walk.collective),
        ("chunks a shard", walk.num_chunks),
        ("bound of this graph", cost_text(walk.bound)),
        ("BFB", cost_text(walk.bfb)),
    )
    yield ""
    times = () if walk.asked is None else walk.asked.columns("time")
    columns = ("steps", "t_b", "decimal", *times, "least", "with any chunks")
    points = _points(walk)
    rows = [_row(point) for point in points]
    yield Table((*columns, "on frontier", "proof"), rows, numbers=len(columns))
    if walk.asked is not None:
        for at, size in enumerate(walk.asked.sizes_bytes):
            time_s, steps = min((point["time_s"][at], point["steps"]) for point in points)
            what = model_text(format_size(size), walk.asked.model)
            yield f"{what}: {steps} steps in {format_time(time_s)}."
    if walk.stopped is not None:
        yield f"Not complete: {walk.stop_sentence}."
    elif points[-1]["t_b"] == str(walk.bound.t_b):
        yield f"No number of steps takes less than t_b {t_b_text(walk.bound.t_b)} here."
    else:
        yield f"More than {walk.max_steps} steps were not tried: see --max-steps."


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    keys = ("steps", "t_b", "t_b_bound", "t_b_bound_any_chunks")
    steps, t_b, bound, limit = (str(point[key]) for key in keys)
    how = point["status"].partition(":")[0]
    gap = float(Fraction(t_b) / Fraction(bound)) - 1
    proof = how if point["optimal"] else f"{how}, gap {gap:.2%}"
    yes = "yes" if point["on_frontier"] else "no"
    times = map(format_time, point.get("time_s", ()))
    return (steps, t_b, f"{point['t_b_float']:.6g}", *times, bound, limit, yes, proof)


# Late schedules of more and more steps as an answer.


@final
@dataclass(frozen=True, slots=True, eq=False)
class LateWalk:
    """The late schedules of more and more steps, up to ``max_steps`` or one that none can beat.

    ``bound`` is that of the topology and the collective, ``bfb`` what BFB costs; times are of the
    messages ``asked`` for.
    """

    collective: str
    max_steps: int
    bound: Cost
    bfb: Cost
    answers: tuple[LateAnswer, ...]
    asked: MessageSizes | None = None


def late_walk_json(subject: Subject, walk: LateWalk) -> dict[str, Any]:
    """The JSON form of late schedules of more and more steps."""
    return {
        **subject.json(walk.collective),
        "max_steps": walk.max_steps,
        "topology_bound": cost_json(walk.bound),
        "bfb": cost_json(walk.bfb),
        **({} if walk.asked is None else {"cost_model": model_json(walk.asked)}),
        "points": [_point(walk, answer) for answer in walk.answers],
    }


def _point(walk: LateWalk, answer: LateAnswer) -> dict[str, Any]:
    return {
        **cost_json(answer.cost),
        "steps_allowed": answer.num_steps,
        "num_chunks": answer.schedule.num_chunks,
        **({} if walk.asked is None else {"time_s": walk.asked.times_s(answer.cost)}),
        "optimal": answer.is_optimal,
        "t_b_bound": str(answer.bound),
        "status": answer.status,
    }


def late_walk_sections(subject: Subject, walk: LateWalk) -> Iterator[Section]:
    """What late schedules of more and more steps cost, and how good they are."""
    yield Facts(
        *subject.facts(walk.collective),
        ("bound of this graph", cost_text(walk.bound)),
        ("BFB", cost_text(walk.bfb)),
    )
    yield ""
    times = () if walk.asked is None else walk.asked.columns("time")
    columns = ("steps", "t_b", "decimal", *times, "chunks", "least")
    rows = [_late_row(walk, answer) for answer in walk.answers]
    yield Table((*columns, "proof"), rows, numbers=len(columns))
    if walk.answers[-1].cost.t_b == walk.bound.t_b:
        yield f"No number of steps takes less than t_b {t_b_text(walk.bound.t_b)} here."
    else:
        yield f"More than {walk.max_steps} steps were not tried: see --max-steps."


def _late_row(walk: LateWalk, answer: LateAnswer) -> tuple[str, ...]:
    cost, bound = answer.cost, answer.bound
    times = () if walk.asked is None else map(format_time, walk.asked.times_s(cost))
    gap = float(cost.t_b / bound) - 1
    proof = "optimal" if answer.is_optimal else f"gap {gap:.2%}"
    chunks = str(answer.schedule.num_chunks)
    return (
        str(cost.steps),
        str(cost.t_b),
        f"{float(cost.t_b):.6g}",
        *times,
        chunks,
        str(bound),
        proof,
    )


# Schedules of greedy synthesis as answers: ticks, what none can beat, and how they were found.


def synthesis_json(made: Synthesis) -> dict[str, Any]:
    """What a greedy schedule takes and how that is known."""
    return {
        "ticks": made.ticks,
        "bound": made.bound,
        "optimal": made.is_optimal,
        "seed": made.seed,
        "latency_model": made.model,
        "tick_s": str(made.timed.tick_s) if made.has_unit else None,
        "found_by": made.how,
        "restart": made.restart,
    }


def synthesis_sections(made: Synthesis, seconds: float) -> Iterator[Section]:
    """What a greedy schedule takes, for people."""
    total = f" of {made.timed.tick_s} s, {format_time(made.timed.total_s)}"
    proof = "proven the least" if made.is_optimal else f"no schedule takes less than {made.bound}"
    yield Facts(
        ("collective", made.schedule.collective.text),
        ("ticks", f"{made.ticks}{total if made.has_unit else ''}, {made.model} latency"),
        ("bound", proof),
        ("found by", f"{made.how}, restart {made.restart}, seed {made.seed}"),
        ("sends", f"{made.timed.schedule.num_sends:,}, verified"),
        ("CPU time", f"{seconds:.2f} s"),
    )


# What a classic algorithm costs on a topology, as an answer.


@final
@dataclass(frozen=True, slots=True)
class ClassicCost:
    """A classic algorithm by name, what it sends, and what that costs under a routing.

    ``in_network`` is the bound of an allreduce that switches add up, where there are any; ``note``
    is the remark of who asked.
    """

    scheduler: str
    routing: str
    messages: Messages
    placed: Placed
    in_network: Cost | None = None
    note: str | None = None

    @property
    def one_port_t_b(self) -> Fraction:
        """t_b on a switch, where every host has one port of B in and out."""
        return total(self.messages.one_port_loads()) / self.messages.num_ranks


def classic_json(subject: Subject, found: ClassicCost) -> dict[str, Any]:
    """The JSON form: loads are in shards (in an all-to-all in pieces), t_b in M/B."""
    placed = found.placed
    return {
        **subject.json(found.messages.collective.name),
        "scheduler": found.scheduler,
        "routing": found.routing,
        "steps": len(placed.loads),
        "max_load_per_step": [str(load) for load in placed.loads],
        "hops_per_step": list(placed.hops),
        "t_b": str(placed.t_b),
        "t_b_float": float(placed.t_b),
        "t_b_store_and_forward": str(placed.t_b_store_and_forward),
        "one_port_t_b": str(found.one_port_t_b),
        "in_network_bound": None if found.in_network is None else cost_json(found.in_network),
        "note": found.note,
    }


def classic_sections(subject: Subject, found: ClassicCost) -> Iterator[Section]:
    """The cost in every way of counting it, and the loads of every step."""
    placed = found.placed
    separate = f"{cost_text(placed.store_and_forward)}, a hop a step"
    added = found.in_network and f"{cost_text(found.in_network)} or more, a hop a step"
    switched = Cost(len(placed.loads), found.one_port_t_b)
    yield Facts(
        *subject.facts(found.messages.collective.text),
        ("scheduler", found.scheduler),
        ("routing", f"{found.routing}, shortest paths"),
        ("cost", f"{cost_text(placed.cut_through)}, a path a step"),
        ("store and forward", separate),
        ("on a switch", f"{cost_text(switched)}, one port a host"),
        ("sums in switches", added),
        ("note", found.note),
    )
    rows = zip(placed.loads, placed.hops, strict=True)
    table = [(str(step), t_b_text(load), str(hops)) for step, (load, hops) in enumerate(rows, 1)]
    if placed.t_b > found.one_port_t_b:
        times = float(placed.t_b / found.one_port_t_b)
        yield ""
        yield f"t_b is {times:.3g} times that on a switch: paths share links, or ports are idle."
    yield ""
    yield Table(("step", "largest load", "hops"), table, 3).shortened("steps")
