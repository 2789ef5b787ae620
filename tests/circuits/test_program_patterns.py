"""Direct all-to-all, halving and doubling: circuits as every step wants them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log2

import numpy as np
import pytest
from program_oracle import up_at
from replay_oracle import runs_correctly

from ocs_codesign.circuits.programs.designs import build_direct, build_halving_doubling
from ocs_codesign.circuits.programs.wiring import wire
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost

# Direct all-to-all.


@pytest.mark.parametrize("num_nodes", range(2, 14))
@pytest.mark.parametrize("num_planes", range(1, 7))
def test_direct_alltoall_sends_every_byte_once_at_full_rate(num_nodes, num_planes):
    design = build_direct(num_nodes, num_planes)
    assert design.cost.t_b == Fraction(num_nodes - 1, num_nodes)
    assert runs_correctly(design.schedule)
    sent = int((design.schedule.hi - design.schedule.lo).sum())
    assert sent == num_nodes * (num_nodes - 1) * design.schedule.chunks_per_unit
    configurations = design.verdict.num_configurations
    rest = (num_nodes - 1) % num_planes
    if rest == 0 or num_planes % rest == 0:
        assert configurations == ceil((num_nodes - 1) / num_planes)


def test_what_is_left_takes_more_configurations():
    """Three offsets over four planes: three steps, every one of which changes some planes."""
    assert build_direct(64, 4).verdict.num_configurations == 18


# Halving and doubling.


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("num_planes", range(1, 8))
@pytest.mark.parametrize("num_nodes", [2, 4, 8, 16])
@pytest.mark.parametrize("collective", GATHERING)
def test_halving_and_doubling(num_nodes, num_planes, overlap, collective):
    if overlap and num_planes == 1:
        return
    design = build_halving_doubling(num_nodes, num_planes, collective, overlap=overlap)
    halves = 1 + (collective == Collective.ALLREDUCE)
    bits = int(log2(num_nodes))
    least = Fraction(halves * (num_nodes - 1), num_nodes)
    wasted = Fraction(num_planes, num_planes - overlap)
    assert design.cost == Cost(halves * bits, least * wasted)
    assert runs_correctly(design.schedule)
    later = [change for change in design.verdict.changes if change.step > 1]
    if num_planes % bits == 0:
        assert later == []
    else:
        steps = bits - 1 - overlap
        assert [change.num_circuits for change in later] == [num_nodes] * (halves * steps)
        assert all(change.dark_steps == overlap for change in later)
    assert (len(design.program.pauses) == 0) == (overlap or num_planes % bits == 0)


def test_one_plane_holds_one_pairing_after_the_other():
    design = build_halving_doubling(16)
    sets = [frozenset(up_at(design.program, step)) for step in range(1, 9)]
    assert len(set(sets)) == 4
    assert sets == sets[::-1]
    topology = design.program.topology
    for step, links in enumerate(sets[:4]):
        distance = {int(topology.tail[i]) ^ int(topology.head[i]) for i in links}
        assert distance == {8 >> step}


# Refusals.


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: build_direct(1), "1 nodes: a collective needs at least two"),
        (lambda: build_direct(4, 0), "0 planes"),
        (lambda: build_direct(2**15, 1), "ports times steps are wired"),
        (lambda: build_halving_doubling(12), "12 ranks: halving-doubling takes a power of two"),
        (lambda: build_halving_doubling(8, 1, overlap=True), "overlap needs a second plane"),
        (lambda: build_halving_doubling(8, 1, "alltoall"), "not all-to-all"),
        (lambda: build_halving_doubling(2**13, 4), "sends: at most"),
        (lambda: wire(np.full((2, 1, 3), 3, dtype=np.int32)), "a port leads to a node, 0 to 2"),
        (lambda: wire(np.full((2, 1, 3), -2, dtype=np.int32)), "or is dark: -1"),
        (lambda: wire(np.full((2, 1, 3), -1, dtype=np.int32)), "at least one circuit"),
    ],
)
def test_patterns_that_cannot_be(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()
