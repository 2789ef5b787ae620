"""Traffic of experts: how many tokens every rank has for every other, by kinds of popularity.

Experts lie in order over the ranks, or where ``placed_experts`` puts them, popular ones more often.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.schedules.exchange.expert_kernels import count_tokens, drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    home: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Tokens that every rank (row) has for every rank (column), int64, the diagonal included.

    Of ``tokens`` a rank each goes to ``top_k`` of the ``experts``, which lie in order over the
    ranks, or as ``home`` says, and with ``once`` only once to a rank. The same arguments draw the
    same tokens, to the same experts wherever these are. Raises
    ValueError for a kind that is none, for experts that ranks do not divide, and for fewer experts
    of any popularity than a token needs.

    >>> expert_counts("even", experts=8, top_k=2, ranks=4, tokens=4).sum(axis=1).tolist()
    [8, 7, 8, 8]
    """
    if min(experts, ranks) < 1 or (home is None and experts % ranks):
        raise ValueError(f"{experts} experts on {ranks} ranks: every rank has as many")
    if home is None:
        home = np.arange(experts)[:, None] // (experts // ranks)
    elif len(home) != experts or home.max(initial=0) >= ranks or (home[:, 0] < 0).any():
        raise ValueError(
            f"a home is a row of ranks, 0 to {ranks - 1}, for each of {experts} experts"
        )
    counts = np.zeros((ranks, ranks), dtype=np.int64)
    _count(counts, home, kind, top_k, tokens, seed, step, layer, once=once)
    return counts


def expert_tokens(
    kind: str,
    *,
    experts: int,
    top_k: int,
    ranks: int,
    tokens: int,
    seed: int = 1,
    step: int = 0,
    layer: int = 0,
) -> NDArray[np.int64]:
    """Tokens that every expert gets, of the same draws (int64): ``placed_experts`` puts them.

    >>> expert_tokens("even", experts=4, top_k=2, ranks=2, tokens=8).sum()
    np.int64(32)
    """
    counts, own = np.zeros((ranks, experts), dtype=np.int64), np.arange(experts)[:, None]
    _count(counts, own, kind, top_k, tokens, seed, step, layer, once=False)
    tokens_of: NDArray[np.int64] = counts.sum(axis=0)
    return tokens_of


def _count(
    counts: NDArray[np.int64],
    home: NDArray[np.int64],
    kind: str,
    top_k: int,
    tokens: int,
    seed: int,
    step: int,
    layer: int,
    *,
    once: bool,
) -> None:
    """Draw the tokens of all sources, and count them where their experts are."""
    ranks, experts = len(counts), len(home)
    if kind not in KINDS:
        raise ValueError(f"unknown kind of experts {kind!r}: expected one of {', '.join(KINDS)}")
    if top_k < 1 or min(tokens, seed, step, layer) < 0:
        raise ValueError("a token goes to an expert or more, and seeds and steps are not negative")
    if ranks * tokens * top_k > MAX_DRAWS or experts > FLAT // 2:
        raise ValueError(f"{ranks * tokens * top_k:,} draws: at most {MAX_DRAWS:,} are made")
    weight = np.full(experts, FLAT, dtype=np.uint64)
    if kind in ("zipf", "hot_rank", "hot_spread", "moving") or (
        kind == "burst" and step % _PERIOD == _PERIOD - 1
    ):
        order = np.arange(experts)
        if kind == "zipf":
            draws = [_drawn(seed, 1, layer, expert) for expert in range(experts)]
            order = np.argsort(np.array(draws, dtype=np.uint64), kind="stable")
        elif kind == "hot_spread":
            order = order.reshape(ranks, -1).T.ravel()
        weight[order] = FLAT // np.arange(1, experts + 1)
    if kind == "moving":
        weight = np.roll(weight, step * (experts // ranks))
    if kind == "silent":
        weight[: ranks // _QUIET * (experts // ranks)] = 0
    if np.count_nonzero(weight) < top_k:
        raise ValueError(f"{np.count_nonzero(weight)} experts of any weight: a token needs {top_k}")
    sent = np.full(ranks, tokens, dtype=np.int64)
    if kind == "ragged":
        sent >>= np.arange(ranks) % _RAGGED
    state, copies = _drawn(seed, 2, step, layer), (home >= 0).sum(axis=1)
    compiled(count_tokens)(weight, home, copies, sent, top_k, once, state, counts)


def placed_experts(tokens: NDArray[np.int64], ranks: int, spare: int = 0) -> NDArray[np.int64]:
    """The ranks that experts with so many tokens are put on (int64, experts x copies, -1 for none).

    Every rank has as many places, ``spare`` or more beside one an expert: these go one by one to
    the expert whose copies have most each. Then copies are put, the one with most first, where
    least has been put. Without spare ones an expert is one place. Raises ValueError for places
    that ranks do not divide.

    >>> placed_experts(np.array([80, 10, 10, 20]), 2).ravel().tolist()
    [0, 1, 0, 1]
    >>> placed_experts(np.array([80, 10, 10, 20]), 2, 2).tolist()
    [[0, 1], [0, -1], [1, -1], [0, 1]]
    """
    experts = len(tokens)
    if ranks < 1 or spare < 0 or (not spare and experts % ranks):
        raise ValueError(f"{experts} experts on {ranks} ranks: every rank has as many")
    each = -(-(experts + spare) // ranks)
    copies = np.ones(experts, dtype=np.int64)
    if spare:
        most = [(-float(count), expert) for expert, count in enumerate(tokens.tolist())]
        heapq.heapify(most)
        for _ in range(each * ranks - experts):
            if not most:
                break
            _, expert = heapq.heappop(most)
            copies[expert] += 1
            if copies[expert] < ranks:
                heapq.heappush(most, (-float(tokens[expert] / copies[expert]), expert))
    home = np.full((experts, int(copies.max(initial=1))), -1)
    load, left = np.zeros(ranks), np.full(ranks, each)
    for expert in np.argsort(-tokens / copies, kind="stable").tolist():
        for copy in range(int(copies[expert])):
            is_open = left > 0
            is_new = is_open & ~np.isin(np.arange(ranks), home[expert, :copy])
            allowed = is_new if is_new.any() else is_open
            rank = int(np.argmin(np.where(allowed, load, np.inf)))
            home[expert, copy] = rank
            load[rank] += tokens[expert] / copies[expert]
            left[rank] -= 1
    return home


def moved_experts(
    before: NDArray[np.int64], after: NDArray[np.int64], ranks: int
) -> NDArray[np.int64]:
    """Experts that ranks (rows) have to send to ranks (columns) so that all are at their new homes.

    A rank that gets one has it from a holder, in turn. What an exchange of these takes, times the
    bytes of an expert, is what placing them anew costs.

    >>> moved_experts(np.array([[0], [0], [1], [1]]), np.array([[0], [1], [1], [0]]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    moves = np.zeros((ranks, ranks), dtype=np.int64)
    for old, new in zip(before.tolist(), after.tolist(), strict=True):
        holders = [rank for rank in dict.fromkeys(old) if rank >= 0]
        missing = [rank for rank in dict.fromkeys(new) if rank >= 0 and rank not in holders]
        for number, rank in enumerate(missing):
            moves[holders[number % len(holders)], rank] += 1
    return moves


def side_by_side(matrices: Sequence[NDArray[np.int64]], stride: int = 1) -> NDArray[np.int64]:
    """The exchanges of groups of as many hosts each, all at once, as one matrix of all hosts.

    Hosts of a group are ``stride`` apart, in blocks as long as that many groups. Raises ValueError
    for groups of different sizes and where the stride does not divide how many there are.

    >>> side_by_side([np.array([[0, 3], [4, 0]])] * 2, 2).tolist()
    [[0, 0, 3, 0], [0, 0, 0, 3], [4, 0, 0, 0], [0, 4, 0, 0]]
    """
    groups = np.array(matrices)
    if groups.ndim != 3 or groups.shape[1] != groups.shape[2]:
        raise ValueError("groups side by side are of as many hosts each")
    if stride < 1 or len(groups) % stride:
        raise ValueError(f"{len(groups)} groups are not whole blocks of groups {stride} apart")
    count, size, _ = groups.shape
    number = np.arange(count)
    first = number // stride * size * stride + number % stride
    host = first[:, None] + stride * np.arange(size)
    whole = np.zeros((count * size, count * size), dtype=np.int64)
    whole[host[:, :, None], host[:, None, :]] = groups
    return whole


def _drawn(*keys: int) -> np.uint64:
    """The number drawn by some keys."""
    state = np.uint64(0)
    for key in keys:
        state = np.uint64(compiled(drawn)(state, key))
    return state
