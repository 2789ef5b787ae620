"""The joint frontier: exact all-to-all times, dominance in all criteria, what is left unsolved."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.groups.semidirect import Semidirect
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.bases import Effort, cayley_recipe
from ocs_codesign.search.frontiers import hop_bound, joint_frontier
from ocs_codesign.search.generators import (
    generator_sets,
    joint_generator_sets,
    multiplication_table,
)
from ocs_codesign.search.pareto import least_point_of, proven_t_b
from ocs_codesign.search.small_groups import groups_of_order

SMALL = Effort(work=2**18, num_measured=8)


@pytest.mark.parametrize("with_allgather", [False, True])
@pytest.mark.parametrize(("nodes", "degree"), [(7, 2), (12, 4), (15, 3)])
def test_candidates_are_exact_and_undominated(nodes, degree, with_allgather):
    answer = joint_frontier(nodes, degree, with_allgather=with_allgather, effort=SMALL)
    points = [values(one, with_allgather) for one in answer.candidates]
    assert points == sorted(set(points))
    for one in answer.candidates:
        topology = one.recipe.topology()
        assert one.cost == Cost(topology.diameter(), throughput(topology).time)
        assert answer.bound.t_b <= hop_bound(one) <= one.least_t_b <= one.cost.t_b
    assert not answer.unsolved
    for place, one in enumerate(answer.dominated):
        assert hop_bound(one) <= proven_t_b(one)
        better = values(answer.dominator(one), with_allgather)
        least = least_point_of(one, answer.criteria)
        assert all(a <= b for a, b in zip(better, least, strict=True))
        if place < 5:
            assert proven_t_b(one) <= throughput(one.recipe.topology()).time


def values(one, with_allgather):
    gather = one.cost_of("allgather")
    costs = (gather.steps, gather.t_b) if with_allgather else (one.cost.steps,)
    return (*costs, one.cost.t_b)


@pytest.mark.slow
def test_allgather_only_adds_points():
    alone = joint_frontier(32, 4, with_allgather=False, effort=SMALL)
    both = joint_frontier(32, 4, effort=SMALL)
    assert len(both.candidates) >= len(alone.candidates)
    best = min(one.cost.t_b for one in alone.candidates)
    assert best == min(one.cost.t_b for one in both.candidates)
    # The published choice, a generalized Kautz digraph, is further from the bound.
    assert best < throughput(parse("GeneralizedKautz(4, 32)").topology()).time


def test_a_cayley_digraph_that_is_good_at_both():
    """At 64 nodes it has the least t_b of an allgather, in 4 steps, and 169/64 for all-to-all."""
    effort = Effort()
    group = Semidirect(16, 4, 3)
    assert group in list(groups_of_order(64))[: effort.groups_to_search(64)]
    table = multiplication_table(group)
    sets = generator_sets(64, 4, effort.num_sets(64, 4) * 8, effort.seed)
    found = [cayley_recipe(group, one) for one in joint_generator_sets(table, sets).tolist()]
    times = {one: throughput(one.topology()).time for one in found}
    best = min(found, key=times.__getitem__)
    assert times[best] <= Fraction(169, 64)
    assert measure(best).cost == Cost(4, Fraction(63, 64))


def test_too_large_programs_are_left_with_their_bound():
    answer = joint_frontier(100, 4, with_allgather=False, effort=SMALL)
    for one in answer.unsolved:
        assert one.alltoall is None
        assert one.hop_bound < max(c.alltoall.time for c in answer.candidates)


def test_bidirectional():
    answer = joint_frontier(12, 3, bidirectional=True, effort=SMALL)
    assert all(one.recipe.bidirectional for one in (*answer.candidates, *answer.dominated))


def test_bad_questions():
    with pytest.raises(ValueError, match="nodes"):
        joint_frontier(1, 1)
    with pytest.raises(ValueError, match="degree"):
        joint_frontier(8, 8)
    with pytest.raises(ValueError, match="odd number"):
        joint_frontier(9, 3, bidirectional=True)
