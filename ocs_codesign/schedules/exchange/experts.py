"""Traffic of experts: how many tokens every rank has for every other, by kinds of popularity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.schedules.exchange.expert_kernels import count_tokens, drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLAT = 2**32
_QUIET, _PERIOD, _RAGGED = 4, 8, 4
MAX_DRAWS = 2**28

KINDS = {
    "even": "all experts alike",
    "zipf": "the i-th most popular is 1/i as popular as the first, in an order of every layer",
    "hot_rank": "the same, the popular ones side by side on the first ranks",
    "hot_spread": "the same, the popular ones dealt out over all ranks",
    "ragged": "all alike, a source has a half, a quarter or an eighth of the tokens of another",
    "silent": "the experts of a quarter of all ranks get nothing",
    "moving": "hot ranks that move on by a rank every step",
    "burst": "all alike but for every eighth step, whose ranks are hot",
}
"""Kinds of popularity by name."""


def expert_counts(
    kind: str,
    *,
    experts: int,
    top_k: int,
    ranks: int,
    tokens: int,
    seed: int = 1,
    step: int = 0,
    layer: int = 0,
    once: bool = True,
) -> NDArray[np.int64]:
    """Tokens that every rank (row) has for every rank (column), int64, the diagonal included.

    Of ``tokens`` a rank each goes to ``top_k`` of the ``experts``, which lie in order over the
    ranks, and with ``once`` only once to a rank. The same arguments draw the same tokens. Raises
    ValueError for a kind that is none, for experts that ranks do not divide, and for fewer experts
    of any popularity than a token needs.

    >>> expert_counts("even", experts=8, top_k=2, ranks=4, tokens=4).sum(axis=1).tolist()
    [8, 7, 8, 8]
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of experts {kind!r}: expected one of {', '.join(KINDS)}")
    if min(experts, top_k, ranks) < 1 or min(tokens, seed, step, layer) < 0 or experts % ranks:
        raise ValueError(f"{experts} experts on {ranks} ranks: every rank has as many")
    if ranks * tokens * top_k > MAX_DRAWS or experts > FLAT // 2:
        raise ValueError(f"{ranks * tokens * top_k:,} draws: at most {MAX_DRAWS:,} are made")
    each = experts // ranks
    weight = np.full(experts, FLAT, dtype=np.uint64)
    if kind in ("zipf", "hot_rank", "hot_spread", "moving") or (
        kind == "burst" and step % _PERIOD == _PERIOD - 1
    ):
        order = np.arange(experts)
        if kind == "zipf":
            draws = [_drawn(seed, 1, layer, expert) for expert in range(experts)]
            order = np.argsort(np.array(draws, dtype=np.uint64), kind="stable")
        elif kind == "hot_spread":
            order = order.reshape(ranks, each).T.ravel()
        weight[order] = FLAT // np.arange(1, experts + 1)
    if kind == "moving":
        weight = np.roll(weight, step * each)
    if kind == "silent":
        weight[: ranks // _QUIET * each] = 0
    if np.count_nonzero(weight) < top_k:
        raise ValueError(f"{np.count_nonzero(weight)} experts of any weight: a token needs {top_k}")
    sent = np.full(ranks, tokens, dtype=np.int64)
    if kind == "ragged":
        sent >>= np.arange(ranks) % _RAGGED
    state, counts = _drawn(seed, 2, step, layer), np.zeros((ranks, ranks), dtype=np.int64)
    compiled(count_tokens)(weight, sent, top_k, once, state, counts)
    return counts


def _drawn(*keys: int) -> np.uint64:
    """The number drawn by some keys."""
    state = np.uint64(0)
    for key in keys:
        state = np.uint64(compiled(drawn)(state, key))
    return state
