"""The LP twin of the BFB closed form."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest
from bfb_by_lp import FORMULATIONS, as_fractions, bfb_lp_loads
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.lp import SOLVERS
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads

RECIPES = [
    "GeneralizedKautz(4, 9)",
    "GeneralizedKautz(3, 20)",
    "DirectedCirculant(16, (1, 4, 5))",
    "Circulant(12, (2, 3))",
    'Named("desargues")',
    "DeBruijn(2, 4)",
    "UniRing(2, 5)",
    "Torus((3, 3, 2))",
    "Line(DirectedCirculant(8, (1, 3)))",
]


@pytest.mark.parametrize("text", RECIPES)
@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_lp_equals_closed_form(text, solver, formulation):
    topology = parse(text).topology()
    assert bfb_lp_loads(topology, solver, formulation) == bfb_loads(topology)


@st.composite
def multigraphs(draw):
    """Strongly connected: a ring and random further links of random speeds, loops included."""
    nodes = draw(st.integers(2, 9))
    extra = draw(
        st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), max_size=20)
    )
    links = [(i, (i + 1) % nodes) for i in range(nodes)] + extra
    speeds = draw(st.lists(st.integers(1, 4), min_size=len(links), max_size=len(links)))
    tail, head = zip(*links, strict=True)
    return Topology(nodes, tail, head, speeds)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(multigraphs())
def test_lp_equals_closed_form_with_unequal_speeds(topology):
    for formulation in FORMULATIONS:
        assert bfb_lp_loads(topology, "highs", formulation) == bfb_loads(topology)


def test_unknown_formulation_and_unsolved_program():
    topology = parse("Complete(3)").topology()
    with pytest.raises(ValueError, match="unknown formulation"):
        bfb_lp_loads(topology, formulation="dual")
    large = parse("GeneralizedKautz(4, 700)").topology()
    if os.environ.get("GRB_LICENSE_FILE") is None:
        with pytest.raises(RuntimeError, match="takes 2000 variables"):
            bfb_lp_loads(large, "gurobi", FORMULATIONS[2])


def test_as_fractions_checks_the_residual():
    assert as_fractions(np.array([0.25, 7 / 3]), 4) == [Fraction(1, 4), Fraction(7, 3)]
    with pytest.raises(ValueError, match="not within"):
        as_fractions(np.array([0.123456]), 4)
