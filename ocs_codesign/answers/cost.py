"""What one topology costs, as an answer: by BFB or a mapped schedule, or of an all-to-all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import (
    MAX_FRACTION,
    cost_json,
    cost_text,
    far_above_text,
    graph_bound_text,
    in_decimals,
    is_far_above,
    loads_table,
    optimality,
)
from ocs_codesign.collective import Collective

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedulers.alltoall.result import Throughput


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
