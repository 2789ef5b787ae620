"""What does not fit: the bound that fails, by its reason and in the sentence."""

from __future__ import annotations

import numpy as np
import pytest
from embed_samples import fabric, random_directed, undirected

from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.graphs.text import parse

CIRCULANT = "DirectedCirculant(8, (1, 2))"
"""Its double cover is one block."""

TWO_WAY = "Circulant(8, (1, 2))"
TWO_SIDED, MATCHING = PortModel.TWO_SIDED, PortModel.MATCHING
CASES = [
    (fabric(8, [[8]] * 2, spare_hosts=1), CIRCULANT, Reason.HOSTS, "7 working hosts"),
    (
        fabric(8, [[8]]),
        CIRCULANT,
        Reason.PLANES,
        "at least 2 planes are needed and there are 1: node 0 has 2 links on one side",
    ),
    (
        fabric(5, [[5]] * 4, MATCHING),
        "Complete(5)",
        Reason.PLANES,
        "5 planes are needed and there are 4: 10 links join 5 nodes, and a matching has at most 2",
    ),
    (
        fabric(10, [[10]] * 3, MATCHING),
        'Named("petersen")',
        Reason.PLANES,
        "at least 4 planes are needed and there are 3: an exhaustive search",
    ),
    (
        fabric(5, [[5]], TWO_SIDED),
        "Complete(5)",
        Reason.PLANES,
        "at least 2 planes are needed and there are 1: node 0 of 5 has 4 circuit ends",
    ),
    (
        fabric(8, [[4, 4]] * 2, spares=1),
        CIRCULANT,
        Reason.PORTS,
        "0 of 2 can be used. Plane 0: 8 nodes with links each need a port, but its switches have 6 "
        "usable ports a side",
    ),
    (
        fabric(8, [[4, 4]] * 2),
        CIRCULANT,
        Reason.BLOCK,
        "a block has 8 ports on side A and 8 on side B, but the largest switch has 4 usable ports "
        "a side; 2 switches are too few for three stages",
    ),
    (fabric(8, [[4, 4]] * 4, MATCHING), TWO_WAY, Reason.BLOCK, "a block has 8 ports, but the la"),
    (fabric(8, [[8]] * 2, budget_db=1.5), CIRCULANT, Reason.LOSS, "2 dB, over the budget of 1.5 d"),
    (fabric(8, [[4] * 8] * 2, budget_db=3.5), CIRCULANT, Reason.LOSS, "of its switches loses 4 dB"),
]
"""Fabrics that a topology does not fit, why, and what the sentence says."""


@pytest.mark.parametrize(("made", "text", "reason", "sentence"), CASES)
def test_the_bound_that_fails(made, text, reason, sentence):
    with pytest.raises(InfeasibleError) as caught:
        embed(made, parse(text).topology())
    assert caught.value.reason is reason
    assert sentence in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_blocks_of_three_in_switches_of_four():
    # Four blocks of 3 ports have 12 ports, as have three switches of 4: no two share one.
    topology = parse("Line(Complete(4))").topology()
    with pytest.raises(InfeasibleError, match="fit into no choice of 3 switches") as caught:
        embed(fabric(12, [[4, 4, 4]] * 3), topology)
    assert caught.value.reason is Reason.PACKING


def test_links_of_two_speeds():
    with pytest.raises(InfeasibleError, match="equally fast") as caught:
        embed(fabric(2, [[2]]), Topology(2, [0, 1], [1, 0], [1, 3]))
    assert caught.value.reason is Reason.SPEED


def test_cables_that_do_not_meet():
    first = parse("DirectedCirculant(8, (1, 3))").topology()
    made = fabric(8, [[4, 4]] * 2)
    cabling = embed(made, first).cabling
    with pytest.raises(InfeasibleError, match="link 1 from h0 to h2: in no plane") as caught:
        embed(made, parse(CIRCULANT).topology(), cabling=cabling)
    assert caught.value.reason is Reason.CABLING


def test_links_that_want_the_same_plane():
    # Only plane 0 joins host 0 with host 1, and node 0 has two links there.
    made = fabric(4, [[2, 2]] * 2, PortModel.MATCHING)
    ring = undirected(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    cabling = embed(made, ring, plane=[0, 0, 1, 1, 0, 0, 1, 1], split_blocks=True).cabling
    twice = undirected(4, [(0, 1), (0, 1)])
    with pytest.raises(InfeasibleError, match="no choice of 2 planes carries all") as caught:
        embed(made, twice, cabling=cabling)
    assert caught.value.reason is Reason.CABLING
    with pytest.raises(InfeasibleError, match="in the plane that was chosen") as caught:
        embed(made, ring, cabling=cabling, plane=[1, 1, 0, 0, 1, 1, 0, 0])
    assert caught.value.reason is Reason.CABLING


def test_a_plane_that_was_chosen_must_fit():
    topology = parse(CIRCULANT).topology()
    plane = np.tile([0, 1], 8)
    with pytest.raises(InfeasibleError, match="Plane 0: a block") as caught:
        embed(fabric(8, [[4, 4], [8]]), topology, plane=plane)
    assert caught.value.reason is Reason.BLOCK
    with pytest.raises(InfeasibleError, match="plane 0 would have 2 circuits at one port of node"):
        embed(fabric(8, [[8]] * 2), topology, plane=0 * plane)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"host": [0, 1]}, r"host has shape \(2,\): it must be 3 integers"),
        ({"host": [0, 1, 9]}, "host names host 9: hosts are 0 to 3"),
        ({"host": [0, 1, 1]}, "host has host 1 twice"),
        ({"host": [0.0, 1.0, 2.0]}, "integers"),
        ({"plane": [0]}, "it must be 3 integers, one a link"),
        ({"plane": [0, 0, 7]}, "plane names plane 7: planes are 0 to 0"),
        ({"prefer": "beauty"}, "prefer is 'beauty': it must be one of any, survivability"),
    ],
)
def test_bad_input(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        embed(fabric(4, [[4]]), parse("UniRing(1, 3)").topology(), **options)


def test_a_cabling_of_another_fabric():
    ring = parse("UniRing(1, 3)").topology()
    cabling = embed(fabric(3, [[3]]), ring).cabling
    with pytest.raises(ValueError, match="of another fabric"):
        embed(fabric(3, [[3]]), ring, cabling=cabling)


def test_every_size_of_switch_fits_or_says_why():
    for seed in range(60):
        random = np.random.default_rng(seed)
        topology = random_directed(8, 2, seed)
        sizes = random.integers(2, 9, size=int(random.integers(1, 6))).tolist()
        reason = reason_against(fabric(8, [sizes] * 2), topology)
        if sum(sizes) < 8:
            assert reason is Reason.PORTS
        elif max(sizes) >= 8:
            assert reason is None
        else:
            assert reason in (None, Reason.BLOCK, Reason.PACKING)


def reason_against(made, topology):
    try:
        embed(made, topology)
    except InfeasibleError as error:
        return error.reason
    return None
