"""A frontier with whatever candidates a test needs, for what prints and draws frontiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocs_codesign.bounds import bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import Candidate, Score
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    from fractions import Fraction


def candidate(text: str, steps: int, t_b: Fraction, measured: bool = True) -> Candidate:
    """A recipe with a made-up cost; its reduce-scatter takes a step more."""
    cost = Cost(steps, t_b)
    score = Score(Collective.ALLGATHER, cost, (), "bfb" if measured else "expansion", measured)
    return Candidate(parse(text), score, cost, Cost(steps + 1, t_b))


@dataclass(frozen=True)
class FakeFrontier:
    """What ``ocs_codesign.search.Frontier`` offers, without a search behind it."""

    num_nodes: int
    degree: int
    collective: Collective
    candidates: tuple[Candidate, ...]
    dominated: tuple[Candidate, ...]

    @property
    def published(self):
        return tuple(one for one in self.dominated if "Circulant" in repr(one.recipe))

    @property
    def bound(self):
        return bound(self.num_nodes, self.degree, self.collective)

    def best(self, model, message_bytes):
        return min(self.candidates, key=lambda one: one.cost.time_s(model, message_bytes))

    def dominator(self, cost):
        better = (one for one in self.candidates if one.cost == cost or one.cost.dominates(cost))
        return next(better, None)
