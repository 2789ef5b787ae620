"""Experts that are not alike: how much more the busiest rank gets than the mean, by popularity.

A step waits for that rank: its experts' matrices have so many more rows, and so much more comes to
it over the wire. Tokens are drawn as ``expert_counts`` draws them, for several steps. Placed by
popularity, experts are where ``placed_experts`` puts them for another step of their layer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocs_codesign.schedules.exchange.experts import expert_counts, expert_tokens, placed_experts

if TYPE_CHECKING:
    from ocs_codesign.jobs.models.layer import Transformer

STEPS = 16
"""Steps that are drawn: the median of them counts."""
_TOKENS, _MOST_DRAWS = 512, 2**22


class RoutingSkew(NamedTuple):
    """Times the mean that the busiest rank gets: a tenth, a half and nine tenths of steps below.

    ``rows`` count a token for every expert that it goes to, ``wire`` once for a rank.
    """

    rows: tuple[float, float, float]
    wire: tuple[float, float, float]

    @property
    def median_rows(self) -> float:
        """Of the median step."""
        return self.rows[1]

    @property
    def median_wire(self) -> float:
        """Of the median step."""
        return self.wire[1]


_EVEN = RoutingSkew((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))


def skew_of(model: Transformer, ranks: int) -> RoutingSkew:
    """That of a model's experts on so many ranks."""
    return routing_skew(model.routing, model.experts, model.top_k, ranks, model.spare_experts)


def held_experts(model: Transformer, ranks: int) -> int:
    """Experts of a layer that each of so many ranks holds, copies included."""
    spare = (model.spare_experts or 0) if ranks > 1 else 0
    return -(-(model.experts + spare) // ranks) if spare else model.experts // ranks


def drawn_tokens(ranks: int, top_k: int) -> int:
    """Tokens a rank that are drawn in a step."""
    return max(1, min(_TOKENS, _MOST_DRAWS // (ranks * top_k)))


@cache
def routing_skew(
    kind: str, experts: int, top_k: int, ranks: int, spare: int | None = None
) -> RoutingSkew:
    """The skew of experts of a kind of popularity on so many ranks; even ones have none.

    ``spare``: they are placed by popularity, with so many copies more; else they lie in order.

    >>> routing_skew("even", 256, 8, 64).median_rows, routing_skew("zipf", 64, 4, 1).median_wire
    (1.0, 1.0)
    >>> 2.0 < routing_skew("zipf", 256, 8, 64).median_rows < 30.0
    True
    """
    if kind == "even" or ranks == 1:
        return _EVEN
    tokens = drawn_tokens(ranks, top_k)
    given = {"experts": experts, "top_k": top_k, "ranks": ranks, "tokens": tokens}
    homes: list[np.ndarray | None] = [None] * STEPS
    if spare is not None:
        before = [step - 1 if step else 1 for step in range(STEPS)]
        known = [
            expert_tokens(kind, **given, step=one, layer=step) for step, one in enumerate(before)
        ]
        homes = [placed_experts(each, ranks, spare) for each in known]
    found = []
    for once in (False, True):
        each = [
            _most(
                expert_counts(kind, **given, step=step, layer=step, once=once, home=home),
                apart=once,
            )
            for step, home in enumerate(homes)
        ]
        low, middle, high = np.quantile(each, [0.1, 0.5, 0.9]).tolist()
        found.append((low, middle, high))
    return RoutingSkew(*found)


def _most(counts: np.ndarray, *, apart: bool) -> float:
    """The most that a rank gets over the mean, or sends if that is more and counts ``apart``."""
    if apart:
        counts = counts * ~np.eye(len(counts), dtype=bool)
    ends = [counts.sum(axis=0)] + [counts.sum(axis=1)] * apart
    mean = counts.sum() / len(counts)
    return max(float(end.max()) for end in ends) / mean if mean else 1.0
