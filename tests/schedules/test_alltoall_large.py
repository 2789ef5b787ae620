"""All-to-all throughput of large topologies: exact with a group, bracketed without."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.lp import Options
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.families.rings import UniRing
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.paths.certificates import PRICE_SCALE, price_bound
from ocs_codesign.schedules.paths.throughput import throughput


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("Torus((64, 64))", Fraction(32)),
        ("DirectedCirculant(4096, (1, 77, 901, 2011))", Fraction(220, 13)),
        ("Torus((256, 256))", Fraction(128)),
        ("DirectedCirculant(65536, (1, 77, 6901, 22011))", Fraction(1324, 45)),
        ("Hypercube(16)", Fraction(8)),
    ],
)
def test_a_group_makes_large_topologies_exact(text, least):
    topology = parse(text).topology()
    found = throughput(topology)
    assert found.time == found.bound == least
    assert price_bound(found.quotient, found.prices)[0] == least


@pytest.mark.slow
def test_generalized_kautz_of_1000_nodes_is_bracketed():
    """Published: within 1.0412 and 1.0552 of what no topology of the size can beat."""
    found = throughput(parse("GeneralizedKautz(4, 1000)").topology(), Options(relative_gap=0.01))
    least = bound(1000, 4, "alltoall").t_b
    assert Fraction("1.0412") < found.bound / least < found.time / least < Fraction("1.0552")
    assert price_bound(found.quotient, found.prices)[0] == found.bound


@pytest.mark.parametrize(
    ("text", "hops"),
    [
        ("GeneralizedKautz(4, 1024)", 4.580),
        ("Line(DirectedCirculant(16, (1, 3, 5, 7)), 3)", 4.792),
        ("Line(Circulant(16, (3, 4)), 3)", 4.826),
        ("Torus((32, 32))", 16.0),
        ("Circulant(1024, (22, 23))", 15.07),
    ],
)
def test_hops_of_1024_nodes(text, hops):
    topology = parse(text).topology()
    far = Fraction(int(topology.distances().sum(dtype=np.int64)), 1024**2)
    assert float(far) == pytest.approx(hops, abs=6e-4 if hops < 15 else 6e-3)
    # Links from a node to itself carry nothing, which the bound knows.
    proper = int((topology.tail != topology.head).sum())
    assert topology_bound(topology, "alltoall").t_b == far * Fraction(4 * 1024, proper)


def test_prices_of_large_topologies_add_up_beyond_64_bits():
    """Dear links and millions of pairs without symmetry: the sum is not one that int64 holds."""
    ring = UniRing(1, 1800).topology()
    whole = quotient(Topology(1800, ring.tail, ring.head))
    prices = np.full(1800, PRICE_SCALE)
    assert PRICE_SCALE * 1800 * 1800 * 1799 // 2 > 2**61
    assert price_bound(whole, prices)[0] == Fraction(1799, 2)
