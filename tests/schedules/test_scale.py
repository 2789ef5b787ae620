"""Sizes that matter in practice: costs and verified schedules of a thousand nodes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from strategies import without_symmetry

from ocs_codesign.core.cost import Cost
from ocs_codesign.graphs.families.rings import Hypercube, Torus
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import build, measure_topology
from ocs_codesign.verification.schedules import verify

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "t_b"),
    [
        ("GeneralizedKautz(4, 1000)", Fraction(333, 250) + Fraction(341, 250)),
        ("Line(DirectedCirculant(64, (1, 31, 39, 57)), 2)", 2 * Fraction(1023, 1024)),
    ],
)
def test_allreduce_of_a_thousand_nodes(text, t_b):
    design = build(parse(text), "allreduce")
    assert design.cost.t_b == t_b
    pairs = design.schedule.topology.num_nodes * (design.schedule.topology.num_nodes - 1)
    assert 2 * pairs <= design.schedule.num_sends <= 2.1 * pairs


def test_mapped_schedule_of_a_thousand_nodes():
    recipe = parse("Power(Product(UniRing(1, 4), UniRing(1, 8)), 2)")
    verdict = verify(recipe.expansion_schedule())
    assert verdict.ok
    assert verdict.cost == recipe.predict() == Cost(20, Fraction(1023, 1024))


@pytest.mark.parametrize(
    "topology", [Hypercube(10).topology(), Torus((50, 50)).topology()], ids=repr
)
def test_published_large_graphs_are_optimal(topology):
    score = measure_topology(topology)
    assert score.cost.t_b == Fraction(topology.num_nodes - 1, topology.num_nodes)


def test_symmetry_changes_nothing_at_scale():
    topology = Torus((32, 32)).topology()
    assert bfb_loads(topology) == bfb_loads(without_symmetry(topology))
