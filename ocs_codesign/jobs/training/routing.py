"""Experts that are not alike: how much more the busiest rank gets than the mean, by popularity.

A step waits for that rank: its experts' matrices have so many more rows, and so much more comes to
it over the wire. Tokens are drawn as ``expert_counts`` draws them, for several steps.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ocs_codesign.schedules.exchange.experts import expert_counts

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


@cache
def routing_skew(kind: str, experts: int, top_k: int, ranks: int) -> RoutingSkew:
    """The skew of experts of a kind of popularity on so many ranks; even ones have none.

    >>> routing_skew("even", 256, 8, 64).median_rows, routing_skew("zipf", 64, 4, 1).median_wire
    (1.0, 1.0)
    >>> 2.0 < routing_skew("zipf", 256, 8, 64).median_rows < 30.0
    True
    """
    if kind == "even" or ranks == 1:
        return _EVEN
    tokens = max(1, min(_TOKENS, _MOST_DRAWS // (ranks * top_k)))
    given = {"experts": experts, "top_k": top_k, "ranks": ranks, "tokens": tokens}
    found = []
    for once in (False, True):
        each = [
            _most(expert_counts(kind, **given, step=step, layer=step, once=once), apart=once)
            for step in range(STEPS)
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
