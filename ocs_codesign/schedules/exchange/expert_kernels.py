"""Draws of the experts that tokens go to."""

from __future__ import annotations

import numpy as np

from ocs_codesign.schedules.exchange.refinement_kernels import mix

_STEP = np.uint64(0x9E3779B97F4A7C15)


def drawn(state, key):
    """The next state of a draw by the keys so far, and by another; the last is the number drawn."""
    return mix((state ^ np.uint64(key)) + _STEP)


def count_tokens(weight, home, copies, tokens, top_k, once, state, counts):
    """Add to ``counts`` (sources x ranks) the tokens of every source to every rank.

    The ``copies`` of an expert are on the ranks in its row of ``home``; they take tokens in turn.

    A token goes to ``top_k`` different experts, drawn by ``weight`` (uint64, an expert); ``once``,
    it goes once to a rank that has several of them. ``state`` is that of the draws so far.
    """
    sources = len(counts)
    whole = np.uint64(0)
    for one in weight:
        whole += one
    left = weight.copy()
    chosen = np.empty(top_k, dtype=np.int64)
    rank = np.empty(top_k, dtype=np.int64)
    for source in range(sources):
        of_source = drawn(state, source)
        for token in range(tokens[source]):
            of_token, total = drawn(of_source, token), whole
            for draw in range(top_k):
                rest = drawn(of_token, draw) % total
                expert = 0
                while rest >= left[expert]:
                    rest -= left[expert]
                    expert += 1
                total -= left[expert]
                left[expert] = np.uint64(0)
                chosen[draw] = expert
                rank[draw] = home[expert, (source + token) % copies[expert]]
                is_new = True
                for before in range(draw):
                    is_new &= rank[before] != rank[draw]
                if is_new or not once:
                    counts[source, rank[draw]] += 1
            for expert in chosen:
                left[expert] = weight[expert]
