"""A frontier with whatever candidates a test needs, for what prints and draws frontiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Design, Known, Question, of_halves

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.search.catalogue.entry import Provenance


def candidate(text: str, steps: int, t_b: Fraction, measured: bool = True) -> Design:
    """A recipe with a made-up cost; its reduce-scatter takes a step more."""
    cost = Cost(steps, t_b)
    known = Known.MEASURED if measured else Known.PREDICTED
    recipes, maker = (parse(text),), "bfb" if measured else "expansion"
    gather = Design(Collective.ALLGATHER, cost, maker, known, recipes)
    scatter = Design(Collective.REDUCE_SCATTER, Cost(steps + 1, t_b), maker, known, recipes)
    return of_halves(Collective.ALLGATHER, scatter, gather)


@dataclass(frozen=True)
class FakeFrontier:
    """What ``ocs_codesign.search.Frontier`` offers, without a search behind it."""

    num_nodes: int
    degree: int
    collective: Collective
    candidates: tuple[Design, ...]
    dominated: tuple[Design, ...]
    criteria: tuple[str, ...] = ("steps", "t_b")
    origin: Provenance | None = None
    here: Provenance | None = None

    @property
    def published(self):
        return tuple(one for one in self.dominated if "Circulant" in repr(one.recipe))

    @property
    def question(self):
        return Question(self.num_nodes, self.degree)

    @property
    def looked_at(self):
        return (*self.candidates, *self.dominated)

    @property
    def baselines(self):
        return tuple(one for one in self.looked_at if "Torus" in repr(one.recipe))

    @property
    def bound(self):
        return bound(self.num_nodes, self.degree, self.collective)

    def best(self, model, message_bytes):
        return min(self.candidates, key=lambda one: one.cost.time_s(model, message_bytes))

    def dominator(self, design):
        cost = design.cost
        better = (one for one in self.candidates if one.cost == cost or one.cost.dominates(cost))
        return next(better, None)
