"""The shipped catalogue against an annealing of other code and other seeds."""

from __future__ import annotations

import numpy as np
import pytest
from second_annealer import annealed

from ocs_codesign.core.cost import undominated
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.store import Catalogue

SAMPLE = [
    (Question(17, 2), 4),
    (Question(21, 2), 4),
    (Question(18, 3, True), 3),
    (Question(28, 2), 5),
    (Question(29, 4), 3),
]


def shipped(question, steps):
    with Catalogue() as store:
        front = undominated(store.entries(question), lambda entry: entry.allgather)
    return min(one.allgather.t_b for one in front if one.allgather.steps <= steps)


def found(question, steps, moves, seeds):
    size = question.num_nodes, question.degree, question.bidirectional
    return annealed(*size, steps, moves, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("question", [Question(9, 2), Question(10, 3, True)])
def test_its_scores_are_the_exact_ones(question):
    t_b, links = found(question, 3, 20_000, range(3))
    heads = np.repeat(np.arange(question.num_nodes), question.degree)
    topology = Topology(question.num_nodes, np.array(links).ravel(), heads)
    assert topology.is_regular
    assert topology.is_undirected() == question.bidirectional
    assert topology.t_b(sum(bfb_loads(topology))) == t_b == shipped(question, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("question", "steps"), SAMPLE)
def test_it_does_not_beat_what_is_shipped(question, steps):
    t_b, _ = found(question, steps, 400_000, range(20_001, 20_003))
    assert t_b is None or t_b >= shipped(question, steps)
