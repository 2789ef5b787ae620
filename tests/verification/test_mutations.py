"""Spoiled schedules: the replay and a slow independent judge give the same verdict on each."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, applicable, mutated
from replay_oracle import is_valid, runs_correctly
from samples import loaded_topologies
from strategies import multigraphs

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.verification.schedules import verify

RECIPES = [
    "Complete(4)",
    "UniRing(2, 4)",
    "DirectedCirculant(8, (1, 3))",
    "Hypercube(3)",
    "GeneralizedKautz(2, 7)",
    "Line(Complete(3))",
    "Degree(Complete(2), 2)",
    "Power(UniRing(1, 3), 2)",
    "Product(Complete(3), UniRing(1, 3))",
    "Bidirected(UniRing(1, 5))",
]
ROUNDS = 8
SELDOM = 0.02
"""Largest part of the spoiled schedules that may turn out to be as good as the original."""

ALWAYS_CAUGHT = {"delete", "duplicate", "change_root", "change_interval", "swap_phase"}


@cache
def schedules(collective: Collective) -> tuple[Schedule, ...]:
    """Valid schedules: BFB and mapped, on graphs with loops, parallel links and unequal speeds."""
    recipes = [parse(text) for text in RECIPES]
    made = [bfb(recipe.topology(), collective) for recipe in recipes]
    made += [recipe.expansion_schedule(collective) for recipe in recipes]
    return (*made, *(bfb(topology, collective) for topology in loaded_topologies()))


@pytest.mark.parametrize("collective", GATHERING)
@pytest.mark.parametrize("name", MUTATIONS)
def test_verdict_is_that_of_the_independent_judge(name, collective):
    random = np.random.default_rng(sum(map(ord, name + collective.name)))
    seen, unnoticed = 0, Counter()
    for schedule in schedules(collective):
        before = verify(schedule)
        assert before.ok
        for row in random.integers(schedule.num_sends, size=ROUNDS).tolist():
            if not applicable(name, schedule):
                continue
            spoiled = mutated(schedule, name, row, random)
            verdict = verify(spoiled)
            assert verdict.ok == is_valid(spoiled)
            assert not (verdict.ok and name in ALWAYS_CAUGHT)
            caught = not verify(spoiled, before.cost).ok
            if not caught and verdict.max_loads == before.max_loads:
                assert runs_correctly(spoiled)
                unnoticed[name] += 1
            seen += 1
    assert unnoticed[name] <= max(SELDOM, 0.05 * (name == "advance")) * seen


@given(st.data())
def test_verdict_on_schedules_spoiled_more_than_once(data):
    collective = data.draw(st.sampled_from(GATHERING))
    schedule = data.draw(st.sampled_from(schedules(collective)))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    names = [name for name in MUTATIONS if applicable(name, schedule)]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4)):
        if schedule.num_sends:
            schedule = mutated(schedule, name, int(random.integers(schedule.num_sends)), random)
    assert verify(schedule).ok == is_valid(schedule)


@given(st.data())
def test_verdict_on_sends_at_random(data):
    """Few nodes and one chunk, so that good schedules turn up by chance."""
    topology = data.draw(multigraphs(max_nodes=3, max_extra=2, speeds=False))
    collective = data.draw(st.sampled_from(GATHERING))
    nodes, links = st.integers(0, topology.num_nodes - 1), st.integers(0, topology.num_links - 1)
    send = st.tuples(nodes, links, st.integers(1, 4), st.integers(0, 1))
    sends = data.draw(st.lists(send, min_size=1, max_size=12))
    root, link, step, phase = np.array(sends).T
    zeros = np.zeros_like(root)
    phases = (phase,) if collective == Collective.ALLREDUCE else ()
    schedule = Schedule(topology, collective, 1, root, zeros, zeros + 1, link, step, *phases)
    assert verify(schedule).ok == is_valid(schedule)
    if verify(schedule).ok:
        assert runs_correctly(schedule)


@pytest.mark.parametrize("collective", GATHERING)
def test_all_the_originals_move_the_right_numbers(collective):
    for schedule in schedules(collective):
        assert is_valid(schedule)
        assert runs_correctly(schedule)
