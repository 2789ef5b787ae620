"""Circuits that change between topologies, and the dead times that follow."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.options import changed_circuits, dead_times
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse


def circulants(*offsets):
    return [parse(f"DirectedCirculant(8, {one})").topology() for one in offsets]


def slow_count(before, after):
    """Circuits of one that the other does not hold, by counting."""
    held, wanted = (
        Counter(zip(one.tail.tolist(), one.head.tolist(), strict=True)) for one in (before, after)
    )
    return (wanted - held).total()


@pytest.mark.parametrize("seed", range(15))
def test_counts_multisets(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 25, 4)
    topologies = [Topology(5, rng.integers(0, 5, n), rng.integers(0, 5, n)) for n in sizes]
    expected = [[slow_count(before, after) for after in topologies] for before in topologies]
    assert changed_circuits(topologies).tolist() == expected


def test_it_is_a_metric_among_regular_topologies():
    texts = [
        "GeneralizedKautz(2, 8)",
        "DeBruijn(2, 3)",
        "DirectedCirculant(8, (1, 3))",
        "BiRing(2, 8)",
        "UniRing(2, 8)",
        "Transpose(GeneralizedKautz(2, 8))",
    ]
    changed = changed_circuits([parse(text).topology() for text in texts])
    assert (changed == changed.T).all()
    assert (np.diag(changed) == 0).all()
    assert (changed[:, None, :] <= changed[:, :, None] + changed.T[None, :, :]).all()
    assert 0 < changed[0, 1] <= 16


def test_dead_times():
    rings = circulants((1, 3), (3, 1), (1, 2))
    cost = Change(Fraction(1, 100), Fraction(1, 1000))
    times = dead_times(changed_circuits(rings), cost)
    assert times[0, 1] == 0  # the same circuits in another order
    assert times[0, 2] == times[2, 1] == Fraction(18, 1000)


def test_refused():
    with pytest.raises(ValueError, match="no topology to choose from"):
        changed_circuits([])
    with pytest.raises(ValueError, match="topology 1 has 9 nodes and topology 0 has 8"):
        changed_circuits([*circulants((1,)), parse("DirectedCirculant(9, (1,))").topology()])
