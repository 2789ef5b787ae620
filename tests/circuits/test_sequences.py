"""Sequences of circulants and Cayley digraphs: ranking, search, known optima, direct exchange."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.phases import phased_alltoall, sequence_bound, tree_bound
from ocs_codesign.circuits.programs.designs import build_sequence
from ocs_codesign.circuits.sequence_kernels import hop_sums
from ocs_codesign.circuits.sequences import (
    EFFORT,
    cayley_sequence,
    direct_sequence,
    direct_time,
    search_sequences,
)
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.groups.semidirect import Dihedral, Semidirect
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.generators import multiplication_table

QUICK = Effort(work=2**22, num_groups=4, num_measured=4)
KNOWN = {(8, 1): (28, 14, 11, 10), (8, 2): (7, 5, 4, Fraction(7, 2)), (9, 2): (9, 6, 5, 4)}


def phased(recipes):
    return phased_alltoall([recipe.topology() for recipe in recipes])


def hops_in_order(group, sets):
    """Least hops to every element, phase by phase, relaxing until nothing changes."""
    order = group.order
    least = [0] + [None] * (order - 1)
    for generators in sets:
        changed = True
        while changed:
            changed = False
            for v in range(order):
                if least[v] is None:
                    continue
                for s in generators:
                    u = int(group.right_multiply(np.array([v]), int(s))[0])
                    if least[u] is None or least[u] > least[v] + 1:
                        least[u], changed = least[v] + 1, True
    return sum(order if one is None else one for one in least)


@settings(max_examples=60)
@given(
    st.sampled_from([Cyclic(7), Cyclic(12), Dihedral(5), Semidirect(7, 3, 2)]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_ranking_is_the_hops_with_the_phases_in_order(group, degree, many, seed):
    sets = np.random.default_rng(seed).integers(1, group.order, size=(2, many, degree))
    moved = np.ascontiguousarray(multiplication_table(group).T)
    sums = np.empty(2, dtype=np.int64)
    work = (np.empty(rows * group.order, dtype=np.int64) for rows in (1, 1, 1, degree + 1))
    hop_sums(moved, sets, sums, *work)
    assert sums.tolist() == [hops_in_order(group, one) for one in sets]


@settings(max_examples=20)
@given(st.sampled_from([Cyclic(9), Dihedral(5)]), st.integers(0, 2**32 - 1))
def test_hops_bound_the_time(group, seed):
    sets = np.random.default_rng(seed).integers(1, group.order, size=(2, 2))
    hops = hops_in_order(group, sets)
    try:
        solved = phased(cayley_sequence(group, sets.tolist()))
    except ValueError:
        return
    assert Fraction(hops, 2) <= solved.time_in_pieces


@pytest.mark.parametrize(
    ("nodes", "degree", "many", "pieces"),
    [(*size, many, pieces) for size, row in KNOWN.items() for many, pieces in enumerate(row, 1)],
)
def test_known_optima_of_circulants(nodes, degree, many, pieces):
    found = search_sequences(nodes, degree, many, effort=replace(EFFORT, num_groups=1))
    assert found.alltoall.time_in_pieces == pieces
    assert found.is_exhaustive
    assert found.alltoall.is_optimal
    assert found.gap == found.alltoall.time / found.bound - 1 >= 0
    assert (found.gap == 0) == (many > 1 or degree == 1)


@pytest.mark.parametrize(("many", "t_b"), [(3, "57/32"), (4, "55/32"), (8, "47/32")])
def test_64_nodes_of_degree_4_meet_the_bound_of_all_topologies(many, t_b):
    found = search_sequences(64, 4, many)
    assert found.alltoall.time == found.bound == tree_bound(64, 4, many) == Fraction(t_b)


@pytest.mark.slow
def test_64_nodes_of_degree_4_with_two_configurations_come_close():
    found = search_sequences(64, 4, 2)
    assert found.bound == Fraction(125, 64)
    assert tree_bound(64, 4, 2) == Fraction(118, 64)
    assert found.alltoall.time <= Fraction(129, 64)
    assert not found.is_exhaustive


def test_the_same_question_has_the_same_answer():
    one, other = (search_sequences(20, 2, 2, effort=QUICK) for _ in range(2))
    assert one.recipes == other.recipes
    assert (one.num_ranked, one.num_solved) == (other.num_ranked, other.num_solved)
    assert one.num_solved <= QUICK.num_measured
    cyclic = replace(QUICK, num_groups=1)
    assert search_sequences(20, 2, 2, effort=cyclic).groups == (Cyclic(20),)


def test_more_configurations_never_take_longer():
    times = [search_sequences(13, 2, many, effort=QUICK).alltoall.time for many in range(1, 7)]
    assert times == sorted(times, reverse=True)
    assert times[-1] == sequence_bound(13, 2, 6) == Fraction(12, 13)


@pytest.mark.parametrize(("nodes", "degree"), [(2, 1), (8, 2), (8, 3), (9, 4), (11, 4), (17, 16)])
def test_direct_sequences(nodes, degree):
    sequence = direct_sequence(nodes, degree)
    assert len(sequence) == -(-(nodes - 1) // degree)
    assert {offset for recipe in sequence for offset in recipe.offsets} == set(range(1, nodes))
    assert all(recipe.degree == degree for recipe in sequence)
    solved = phased(sequence)
    assert sequence_bound(nodes, degree, len(sequence)) <= solved.time
    assert solved.time <= direct_time(nodes, degree)
    if (nodes - 1) % degree == 0:
        assert solved.time == direct_time(nodes, degree) == Fraction(nodes - 1, nodes)


def test_a_sequence_can_be_built_and_verified():
    found = search_sequences(8, 2, 2)
    design = build_sequence(found.recipes, "alltoall", steps_each=3)
    assert design.cost.t_b == found.alltoall.time
    assert design.verdict.num_configurations == 2


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ((1, 1, 1), "1 nodes: sequences are searched for 2 to 2048"),
        ((4096, 2, 2), "4096 nodes: sequences are searched for 2 to 2048"),
        ((8, 0, 2), "degree 0 of 8 nodes: it must be 1 to 7"),
        ((8, 8, 2), "degree 8 of 8 nodes: it must be 1 to 7"),
        ((8, 2, 0), "0 configurations: there must be at least 1"),
    ],
)
def test_refusals(question, sentence):
    with pytest.raises(ValueError, match=sentence):
        search_sequences(*question)
    with pytest.raises(ValueError, match="1 nodes: an all-to-all is between 2 or more"):
        direct_sequence(1, 1)


def test_a_search_without_work_still_answers():
    found = search_sequences(50, 2, 2, effort=Effort(work=0, num_groups=1, num_measured=2))
    assert found.alltoall.time >= found.bound
