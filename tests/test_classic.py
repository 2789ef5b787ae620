"""Classic algorithms: every entry delivers by a replay in sets, and as a schedule that verifies."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ocs_codesign.collective import Collective
from ocs_codesign.schedulers.classic.registry import CLASSIC
from ocs_codesign.verification.schedules import verify

SIZES = (2, 3, 4, 6, 8, 13, 16)
POWERS_OF_TWO = ("halving-doubling", "recursive-doubling")
KNOWN = {  # what a rank sends in every step for N = 8, in eighths of M
    "bruck": (4, 4, 4),
    "direct-exchange": (1,) * 7,
    "ring": (1,) * 14,
    "halving-doubling": (4, 2, 1, 1, 2, 4),
    "recursive-doubling": (8, 8, 8),
}


def cases():
    """Every algorithm with the numbers of ranks that it has steps for."""
    for name in CLASSIC:
        for nodes in SIZES:
            if name not in POWERS_OF_TWO or nodes & (nodes - 1) == 0:
                yield name, nodes


def held_at_first(collective, nodes):
    """Of every rank: item -> the ranks whose contribution it holds."""
    if collective == Collective.ALLTOALL:
        return [{v * nodes + u: {v} for u in range(nodes)} for v in range(nodes)]
    return [{shard: {v} for shard in range(nodes)} for v in range(nodes)]


def held_at_last(collective, nodes):
    if collective == Collective.ALLTOALL:
        return [{u * nodes + v: {u} for u in range(nodes)} for v in range(nodes)]
    return [{shard: set(range(nodes)) for shard in range(nodes)} for _ in range(nodes)]


@pytest.mark.parametrize(("name", "nodes"), list(cases()))
def test_every_algorithm_delivers(name, nodes):
    """A sum never takes a contribution twice, and a piece is sent on by who has it, once."""
    collective = CLASSIC[name].collective
    held = held_at_first(collective, nodes)
    for step in CLASSIC[name].steps(nodes):
        sent = [{item: held[v][item] for item in step.items[v].tolist()} for v in range(nodes)]
        if collective == Collective.ALLTOALL:
            for mine, gone in zip(held, sent, strict=True):
                for item in gone:
                    del mine[item]
        for v, peer in enumerate(step.peer.tolist()):
            for item, parts in sent[v].items():
                if step.reduces:
                    assert held[peer][item].isdisjoint(parts)
                    held[peer] = {**held[peer], item: held[peer][item] | parts}
                else:
                    held[peer] = {**held[peer], item: parts}
    assert held == held_at_last(collective, nodes)


@pytest.mark.parametrize(("name", "nodes"), list(cases()))
def test_every_schedule_verifies(name, nodes):
    steps = list(CLASSIC[name].steps(nodes))
    if steps[-1].reduces:
        with pytest.raises(ValueError, match=f"{CLASSIC[name].name} has no allgather"):
            CLASSIC[name].schedule(nodes)
        return
    schedule = CLASSIC[name].schedule(nodes)
    verdict = verify(schedule)
    assert verdict.ok, verdict.witness
    assert [int(load) for load in verdict.max_loads] == [step.items.shape[1] for step in steps]


@pytest.mark.parametrize("name", KNOWN)
def test_known_steps(name):
    steps = list(CLASSIC[name].steps(8))
    assert tuple(Fraction(step.items.shape[1]) for step in steps) == KNOWN[name]
    assert all(step.is_permutation for step in steps)


def test_halves():
    ring = CLASSIC["ring"]
    halves = [
        list(ring.half(Collective.parse(name), 7)) for name in ("reduce-scatter", "allgather")
    ]
    assert [len(half) for half in halves] == [6, 6]
    assert [step.reduces for half in halves for step in half] == [True] * 6 + [False] * 6
    assert len(list(CLASSIC["bruck"].half(Collective.ALLTOALL, 8))) == 3


@pytest.mark.parametrize("name", POWERS_OF_TWO)
def test_numbers_of_ranks_without_steps(name):
    with pytest.raises(ValueError, match=r"6 nodes: .* needs a power of two"):
        CLASSIC[name].schedule(6)
