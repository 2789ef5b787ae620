"""What one topology costs, as an answer: by BFB or a mapped schedule, or of an all-to-all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total, undominated
from ocs_codesign.core.quantities import format_size, format_time
from ocs_codesign.faces.answers.declared import made, records, table
from ocs_codesign.faces.answers.sections import Facts, Table
from ocs_codesign.faces.answers.texts import (
    MAX_FRACTION,
    cost_text,
    far_above_text,
    graph_bound_text,
    in_decimals,
    is_far_above,
    loads_table,
    model_text,
    optimality,
    t_b_text,
    told_late,
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
    from ocs_codesign.schedules.stepped.answers import SteppedAnswer


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """The topology that an answer is about: a recipe, or the name of a graph file.

    ``num_links`` of a graph say whether its nodes are alike: B is that of the largest degree.
    """

    recipe: Recipe | None
    graph: str | None
    num_nodes: int
    degree: int
    num_links: int | None = None

    @property
    def mean_degree(self) -> float | None:
        """Links of a mean node of a graph whose nodes are not alike, None of one that is regular.

        >>> Subject(None, "star.txt", 4, 3, 6).mean_degree
        1.5
        """
        if self.num_links is None or self.num_links == self.num_nodes * self.degree:
            return None
        return self.num_links / self.num_nodes

    def facts(self, collective: str) -> tuple[tuple[str, object], ...]:
        """What every answer about one topology begins with."""
        return (
            ("recipe", None if self.recipe is None else repr(self.recipe)),
            ("label", None if self.recipe is None else self.recipe.label()),
            ("graph", self.graph),
            ("nodes, degree", f"{self.num_nodes}, {self.degree}"),
            ("B", self._whose()),
            ("collective", collective),
        )

    def _whose(self) -> str | None:
        """Whose bandwidth B is where nodes have different ones."""
        mean = self.mean_degree
        if mean is None:
            return None
        return (
            f"of the {self.degree} links of the largest node; of the {mean:.4g} of the mean one, "
            f"t_b is {mean / self.degree:.4g} times this; {self.num_links} links in all"
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


made("subject", links=lambda subject: subject.mean_degree and subject.num_links)
made(
    "cost.measured",
    allgather=lambda _, costs: costs.design.cost_of(Collective.ALLGATHER),
    reduce_scatter=lambda _, costs: costs.design.cost_of(Collective.REDUCE_SCATTER),
)


def measured_sections(subject: Subject, costs: Costs) -> Iterator[Section]:
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
        ("schedule", told_late(design.maker, design)),
        ("chunks a shard", design.num_chunks),
    )
    least = costs.topology_bound
    if least is not None and is_far_above(design.cost, least):
        yield ""
        yield far_above_text(design.cost, least, costs.forest)
    yield ""
    yield loads_table(design.loads)


made(
    "cost.alltoall",
    over_bound=lambda _, found, least: float(found.time / least),
    link_use=lambda _, found: _link_use(found),
)


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
        ("found by", found.proof),
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


# Exact and late schedules as answers: what is proven of one, and of more and more steps.


made("stepped_proof", t_b_bound=lambda answer: None if answer.schedule is None else answer.bound)
made("cost.refusal", schedule=None)


def refusal_sections(answer: SteppedAnswer) -> Iterator[Section]:
    """Why there is no schedule at all."""
    yield answer.status[0].upper() + answer.status[1:] + "."


@final
@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The answers of more and more steps, and what stopped them before ``max_steps`` if anything.

    Late ones are of any ``num_chunks``, which are None.
    ``bound`` is that of the topology and the collective, ``bfb`` what BFB costs; times are of the
    messages ``asked`` for.
    """

    collective: str
    num_chunks: int | None
    max_steps: int
    bound: Cost
    bfb: Cost
    answers: tuple[SteppedAnswer, ...]
    asked: MessageSizes | None = None
    stopped: str | None = None

    @property
    def stop_sentence(self) -> str:
        """Where it stopped."""
        return f"stopped at {self.answers[-1].num_steps + 1} steps"


def _point_times(answer: SteppedAnswer, walk: Walk) -> Any:
    return walk.asked and walk.asked.times_s(answer.cost)


def _on_frontier(answer: SteppedAnswer, walk: Walk) -> bool:
    return any(best is answer for best in undominated(walk.answers, lambda each: each.cost))


made("exact_point", on_frontier=_on_frontier, times_s=_point_times)
made("late_point", times_s=_point_times)
made(
    "cost.walk", complete=lambda _, walk: walk.stopped is None, points=lambda _, walk: _points(walk)
)


def _points(walk: Walk) -> list[dict[str, Any]]:
    kind = "late_point" if walk.num_chunks is None else "exact_point"
    return [records()[kind].json(answer, walk) for answer in walk.answers]


def walk_sections(subject: Subject, walk: Walk) -> Iterator[Section]:
    """What schedules of more and more steps cost, and why they end where they do."""
    yield Facts(
        *subject.facts(walk.collective),
        *([] if walk.num_chunks is None else [("chunks a shard", walk.num_chunks)]),
        ("bound of this graph", cost_text(walk.bound)),
        ("BFB", cost_text(walk.bfb)),
    )
    yield ""
    points = _points(walk)
    is_late = walk.num_chunks is None
    columns = "chunks=num_chunks; least=t_b_bound | proof"
    if not is_late:
        columns = (
            "least=t_b_bound; with any chunks=t_b_bound_any_chunks "
            "| on frontier=on_frontier:yes; proof"
        )
    yield table(
        points,
        f"steps; t_b; decimal=t_b:.6g; *time:time; {columns}",
        spread={"time": () if walk.asked is None else walk.asked.columns("time")},
        decimal=lambda point: Fraction(point["t_b"]),
        time=lambda point: point.get("times_s", ()),
        proof=_late_proof if is_late else _proof,
    )
    if walk.asked is not None and walk.num_chunks is not None:
        for at, size in enumerate(walk.asked.sizes_bytes):
            time_s, steps = min((point["times_s"][at], point["steps"]) for point in points)
            what = model_text(format_size(size), walk.asked.model)
            yield f"{what}: {steps} steps in {format_time(time_s)}."
    if walk.stopped is not None:
        yield f"Not complete: {walk.stop_sentence}."
    elif points[-1]["t_b"] == str(walk.bound.t_b):
        yield f"No number of steps takes less than t_b {t_b_text(walk.bound.t_b)} here."
    else:
        yield f"More than {walk.max_steps} steps were not tried: see --max-steps."


def _late_proof(point: dict[str, Any]) -> str:
    return "optimal" if point["optimal"] else f"gap {_gap(point):.2%}"


def _proof(point: dict[str, Any]) -> str:
    how = str(point["status"].partition(":")[0])
    return how if point["optimal"] else f"{how}, gap {_gap(point):.2%}"


def _gap(point: dict[str, Any]) -> float:
    return float(Fraction(point["t_b"]) / Fraction(point["t_b_bound"])) - 1


# Schedules of greedy synthesis as answers: ticks, what none can beat, and how they were found.


made("synthesis", tick_s=lambda made: made.timed.tick_s if made.has_unit else None)


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
