"""Stages: replayed on a table of ports, joined nodes found anew, verdicts that are proofs."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from rewiring_samples import near_topology, random_state, reaches_all

from ocs_codesign.circuits.change import Change
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.stages import Service, staged
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.graphs.text import parse

COST = Change(Fraction(1, 40), Fraction(1, 1000))
SIMPLEX, TWO_SIDED, MATCHING = PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING


def links_of(circuits, model):
    pairs = [(a, b) for _, a, b in circuits]
    return pairs + [(b, a) for a, b in pairs] if model.is_bidirectional else pairs


def ports_of(circuit, model):
    plane, a, b = circuit
    return (plane, "a", a), (plane, "b" if model.has_b_side else "a", b)


def lit(state, model):
    return {
        (plane, a, int(b))
        for plane, heads in enumerate(state)
        for a, b in enumerate(heads)
        if b >= 0 and (model.has_b_side or a < b)
    }


def replay(plan):
    """Every circuit that goes is up, every port is free when a circuit comes to it."""
    model, nodes = plan.port_model, plan.held.shape[1]
    up = lit(plan.held, model)
    used = {port for circuit in up for port in ports_of(circuit, model)}
    for stage in plan.stages:
        deletes = {tuple(row) for row in stage.delete.tolist()}
        creates = [tuple(row) for row in stage.create.tolist()]
        assert deletes <= up
        assert not deletes & set(creates)
        up -= deletes
        used -= {port for circuit in deletes for port in ports_of(circuit, model)}
        during = {tuple(row) for row in stage.up.tolist()}
        assert during <= up
        joined = reaches_all(nodes, links_of(during, model))
        assert joined == (stage.connectivity is not None)
        if joined:
            check_trees(stage.connectivity, links_of(during, model), nodes)
        for circuit in creates:
            for port in ports_of(circuit, model):
                assert port not in used
                used.add(port)
            up.add(circuit)
        assert set(stage.planes) == {plane for plane, _, _ in [*deletes, *creates]}
        assert stage.dead_time_s == COST.dead_time_s(len(creates))
    assert up == lit(plan.target, model)
    hitless = all(stage.connectivity is not None for stage in plan.stages)
    assert plan.service.is_hitless == (hitless and plan.service is not Service.NOT_AFTER)
    assert plan.dead_time_s == sum(stage.dead_time_s for stage in plan.stages)


def check_trees(proof, links, nodes):
    there = set(links)
    for parent, turn in ((proof.before.tolist(), -1), (proof.after.tolist(), 1)):
        for node in range(nodes):
            at, hops = node, 0
            while at != proof.root:
                assert (at, parent[at])[::turn] in there
                at, hops = parent[at], hops + 1
                assert hops < nodes


def plan_of(before, after, model=SIMPLEX, **options):
    held = plane_state(planes_of(parse(before).topology(), model))
    found = minimum_rewiring(held, parse(after).topology(), model)
    plan = staged(found.held, found.target, COST, model, **options)
    replay(plan)
    assert plan.num_created == found.num_changed
    assert plan.num_deleted == found.num_torn_down
    return plan


@pytest.mark.parametrize(
    ("before", "after", "model", "service"),
    [
        ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (1, 2))", SIMPLEX, "WHOLE_PLANES"),
        ("DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)", SIMPLEX, "BATCHES"),
        ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (3, 1))", SIMPLEX, "NO_CHANGE"),
        ("DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))", SIMPLEX, "IMPOSSIBLE"),
        ("DirectedCirculant(8, (1,))", "DirectedCirculant(8, (2,))", SIMPLEX, "NOT_AFTER"),
        ("DirectedCirculant(8, (2,))", "DirectedCirculant(8, (1,))", SIMPLEX, "NOT_BEFORE"),
        ("DirectedCirculant(20, (1,))", "DirectedCirculant(20, (3,))", SIMPLEX, "IMPOSSIBLE"),
        ("Torus((4, 4))", "Circulant(16, (1, 4))", MATCHING, "WHOLE_PLANES"),
        ("Torus((4, 4))", "Circulant(16, (1, 4))", TWO_SIDED, None),
        ("Torus((4, 4))", "GeneralizedKautz(4, 16)", SIMPLEX, "WHOLE_PLANES"),
    ],
)
def test_known_changes(before, after, model, service):
    plan = plan_of(before, after, model)
    assert service in (None, plan.service.name)


def test_random_changes():
    random = np.random.default_rng(2)
    seen = set()
    for _ in range(40):
        nodes, planes = int(random.integers(3, 7)), int(random.integers(1, 4))
        held = random_state(planes, nodes, random)
        if random.random() < 0.3:
            held[:, 0] = -1
        target = minimum_rewiring(
            held, near_topology(random_state(planes, nodes, random), 0, random)
        )
        plan = staged(held, target.target, COST)
        replay(plan)
        seen.add(plan.service)
    assert {Service.WHOLE_PLANES, Service.NOT_BEFORE, Service.NOT_AFTER} <= seen


def can_be_hitless(held, target):
    """Whether some order of single deletes leaves all nodes joined, by trying all orders."""
    nodes = held.shape[1]
    old = sorted(lit(held, SIMPLEX) - lit(target, SIMPLEX))
    kept, new = lit(held, SIMPLEX) & lit(target, SIMPLEX), lit(target, SIMPLEX) - lit(held, SIMPLEX)

    def up(left):
        used = {port for circuit in left for port in ports_of(circuit, SIMPLEX)}
        made = {one for one in new if not used & set(ports_of(one, SIMPLEX))}
        return kept | set(left), made

    for order in permutations(old):
        left, fine = list(order), True
        while left and fine:
            made = up(left)[1]
            left.pop()
            fine = reaches_all(nodes, links_of(kept | set(left) | made, SIMPLEX))
        if fine:
            return True
    return False


def test_verdicts_of_small_changes_are_true():
    random = np.random.default_rng(4)
    seen = set()
    for _ in range(60):
        held = random_state(2, 4, random)
        target = held.copy()
        plane = int(random.integers(2))
        target[plane] = random.permutation(4)
        if random.random() < 0.3:
            target[1 - plane][:2] = target[1 - plane][:2][::-1]
        plan = staged(held, target, COST)
        replay(plan)
        if plan.service in (Service.BATCHES, Service.IMPOSSIBLE):
            seen.add(plan.service)
            assert can_be_hitless(held, target) == (plan.service is Service.BATCHES)
    assert Service.IMPOSSIBLE in seen


def test_an_order_of_planes_is_found_if_there_is_one():
    ring = np.arange(1, 7) % 6
    stuck = np.array([0, 1, 2, 3, 4, 5])
    held = np.array([stuck, stuck, ring], dtype=np.int32)
    target = np.array([ring, np.roll(ring, -1), stuck], dtype=np.int32)
    plan = staged(held, target, COST)
    replay(plan)
    assert plan.service is Service.WHOLE_PLANES
    assert plan.stages[-1].planes == (2,)


def test_planes_that_stop_and_a_fabric_that_stops():
    before, after = "DirectedCirculant(8, (2, 1))", "DirectedCirculant(8, (6, 3))"
    assert plan_of(before, after).service is Service.BATCHES
    assert plan_of(before, after, plane_stops=True).service is Service.IMPOSSIBLE
    held = plane_state(planes_of(parse(before).topology(), SIMPLEX))
    plan = staged(held, held[::-1], Change(1, overlap=False))
    assert (plan.service, len(plan.stages)) == (Service.FABRIC_STOPS, 1)
    assert plan.stages[0].connectivity is None
    assert plan.dead_time_s == 1


def test_bad_input():
    with pytest.raises(ValueError, match="held has 1 planes and target has 2"):
        staged([[1, 0]], [[1, 0], [0, 1]], COST)
    with pytest.raises(ValueError, match="target has 3 nodes"):
        staged([[1, 0]], [[1, 0, 2]], COST)
