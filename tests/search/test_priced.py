"""General digraphs for all-to-all: estimates are bounds, exchanges keep links, what is found."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.alltoall.kernels import NEVER
from ocs_codesign.search.alltoall.kernels import priced as estimate
from ocs_codesign.search.alltoall.search import alltoall_recipes, priced, priced_recipes
from ocs_codesign.search.bases import Effort


def estimated(topology, rounds=24):
    nodes, degree = topology.num_nodes, topology.degree
    to = topology.head[np.argsort(topology.tail, kind="stable")].astype(np.int64)
    work = (
        *(np.empty(len(to)) for _ in range(2)),
        np.empty(nodes),
        *(np.empty(nodes, dtype=np.int64) for _ in range(2)),
        np.empty(nodes),
    )
    per_link = compiled(estimate)(to, degree, rounds, NEVER, work)
    return per_link if per_link == NEVER else per_link * degree / nodes


@pytest.mark.parametrize(
    "recipe",
    ["GeneralizedKautz(2, 9)", "DirectedCirculant(13, (1, 5))", "BiRing(2, 7)", "Hypercube(4)"],
)
def test_an_estimate_is_a_bound_that_is_near(recipe):
    topology = parse(recipe).topology()
    time = float(throughput(topology).time)
    assert estimated(topology, 1) <= estimated(topology) + 1e-12
    assert 0.9 * time < estimated(topology) <= time + 1e-9


def test_what_is_not_connected_is_never_an_estimate():
    assert estimated(parse("Lift(Cyclic(1), ((1, 1), (0, 0), (3, 3), (2, 2)))").topology()) == NEVER


@pytest.mark.parametrize("question", [Question(10, 2), Question(10, 3, True), Question(5, 4)])
def test_annealed_digraphs_answer_their_question(question):
    recipe = priced(question, 500, 3)
    assert question.is_answered_by(recipe)
    assert recipe == priced(question, 500, 3)
    heads = Counter(recipe.topology().head.tolist())
    assert set(heads.values()) == {question.degree}


def test_odd_sizes_of_odd_degree_have_no_two_way_digraph():
    assert priced_recipes(Question(9, 3, True), Effort()) == []
    assert priced_recipes(Question(65, 2), Effort()) == []


def test_the_best_of_seven_nodes_comes_first():
    found = alltoall_recipes(Question(7, 2), Effort(work=2**20))
    assert throughput(found[0].topology()).time == Fraction(11, 7)


def test_thirteen_nodes_take_less_than_on_any_digraph_that_climbs_find():
    found = priced_recipes(Question(13, 2), Effort(work=2**20))
    assert throughput(found[0].topology()).time < Fraction(488, 221)
