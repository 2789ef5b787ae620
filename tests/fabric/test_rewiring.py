"""Minimum rewiring: known optima, the integer program as a second opinion, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from embed_samples import undirected
from rewiring_samples import most_kept_by_force, most_kept_two_way, near_topology, random_state

from ocs_codesign.core.lp import Options
from ocs_codesign.core.topology import Topology
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.planes.planes import check_ports
from ocs_codesign.fabric.rewiring.minimum import (
    Optimality,
    choices,
    exchanged,
    matched_planes,
    minimum_rewiring,
    most_kept_by_duals,
    part_program,
    solve_part,
)
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.graphs.text import parse

SIMPLEX, TWO_SIDED, MATCHING = PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING
NO_LIMIT = Options()


def held_of(recipe, model=SIMPLEX, num_planes=None):
    return plane_state(planes_of(parse(recipe).topology(), model), num_planes)


def check(found, held, topology):
    """The target's planes are its links, no port is used twice, and the counts are true."""
    check_ports(found.planes)
    assert found.planes.topology is topology
    assert np.array_equal(found.held, held)
    assert np.array_equal(plane_state(found.planes, len(held)), found.target)
    model = found.planes.port_model
    kept = np.count_nonzero((found.target == held) & (found.target >= 0))
    assert found.num_kept == kept // (1 if model.has_b_side else 2)
    assert found.num_kept <= found.most_kept
    assert found.num_changed == found.planes.num_circuits - found.num_kept
    assert found.fewest_changed <= found.num_changed


def by_program(found):
    """Most circuits kept, by branch and bound over all parts."""
    ways = choices(found.planes, found.held)
    total = 0
    for part in np.unique(ways.part[ways.pair]):
        columns = np.flatnonzero(ways.part[ways.pair] == part)
        program = part_program(ways, columns)
        taken, bound = solve_part(program, NO_LIMIT)
        kept = int(ways.kept[columns[taken]].sum())
        assert kept == bound
        assert kept <= most_kept_by_duals(program, NO_LIMIT)
        total += kept
    assert total <= ways.most_kept.sum()
    return total


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (1, 2))", 8),
        ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (3, 1))", 0),
        ("DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)", 12),
        ("DirectedCirculant(8, (1, 7))", "DirectedCirculant(8, (3, 5))", 16),
        ("DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))", 8),
        ("Kautz(2, 1)", "DirectedCirculant(6, (1, 2))", 6),
    ],
)
def test_known_optima(before, after, changed):
    held, target = held_of(before), parse(after).topology()
    found = minimum_rewiring(held, target)
    check(found, held, target)
    assert (found.num_changed, found.is_optimal) == (changed, True)
    assert found.planes.num_circuits - by_program(found) == changed
    assert found.num_torn_down == changed


def test_a_circulant_becomes_a_kautz_graph_in_the_order_of_its_words():
    words = [a + b for a in "012" for b in "012" if a != b]
    pairs = [(i, j) for i, u in enumerate(words) for j, v in enumerate(words) if u[1] == v[0]]
    kautz = Topology(6, [i for i, _ in pairs], [j for _, j in pairs])
    assert minimum_rewiring(held_of("DirectedCirculant(6, (1, 2))"), kautz).num_changed == 8


def test_two_planes_are_exact_as_100_integer_programs_agree():
    random = np.random.default_rng(1)
    proofs = set()
    for _ in range(100):
        nodes = int(random.integers(4, 9))
        held = random_state(2, nodes, random)
        target = near_topology(random_state(2, nodes, random), 0, random)
        if random.random() < 0.5:
            target = near_topology(held, int(random.integers(1, nodes)), random)
        found = minimum_rewiring(held, target)
        check(found, held, target)
        assert found.is_optimal
        assert found.num_kept == by_program(found)
        proofs.add(found.optimality)
    assert proofs == {Optimality.COUNT, Optimality.TWO_WAYS}


@pytest.mark.parametrize(("num_planes", "nodes"), [(2, 4), (2, 5), (3, 3), (3, 4)])
def test_brute_force_agrees(num_planes, nodes):
    random = np.random.default_rng(nodes)
    for _ in range(12):
        held = random_state(num_planes, nodes, random)
        target = near_topology(held, int(random.integers(1, 6)), random)
        found = minimum_rewiring(held, target)
        check(found, held, target)
        assert found.is_optimal
        assert found.num_kept == most_kept_by_force(held.tolist(), target)


def test_dark_ports_and_spare_planes():
    held = np.array([[1, 2, -1, -1], [-1] * 4, [-1, 3, 0, -1]], dtype=np.int32)
    target = Topology(4, [0, 1, 1, 2, 3], [1, 3, 2, 0, 0])
    found = minimum_rewiring(held, target)
    check(found, held, target)
    assert found.num_kept == most_kept_by_force(held.tolist(), target) == 4
    assert (found.num_changed, found.num_torn_down) == (1, 0)


@pytest.mark.parametrize("model", [TWO_SIDED, MATCHING])
def test_two_way_circuits(model):
    random = np.random.default_rng(7)
    tried = 0
    for _ in range(30):
        nodes = int(random.integers(4, 6))
        held = random_state(2, nodes, random)
        if model is MATCHING:
            order, held = held, np.full_like(held, -1)
            for heads, row in zip(held, order, strict=True):
                pairs = row[: nodes // 2 * 2].reshape(-1, 2)
                heads[pairs] = pairs[:, ::-1]
        pairs = [tuple(map(int, random.choice(nodes, 2, replace=False))) for _ in range(4)]
        target = undirected(nodes, pairs)
        if planes_of(target, model).num_planes > 2:
            continue
        tried += 1
        found = minimum_rewiring(held, target, model)
        check(found, held, target)
        assert found.is_optimal
        assert found.num_kept == most_kept_two_way(held.tolist(), pairs, model)
    assert tried >= 5


def test_one_two_sided_plane_is_walked_the_better_way():
    ring = parse("BiRing(2, 7)").topology()
    held = np.array([[6, 0, 1, 2, 3, 4, 5]], dtype=np.int32)
    for state in (held, held.argsort(axis=1).astype(np.int32)):
        found = minimum_rewiring(state, ring, TWO_SIDED)
        check(found, state, ring)
        assert (found.num_changed, found.is_optimal) == (0, True)


def test_matchings_one_after_the_other_keep_nearly_the_most():
    # The optima are those of branch and bound, found without a limit of time.
    for seed, swaps, optimum in ((0, 25, 170), (0, 51, 138), (1, 64, 123)):
        random = np.random.default_rng(seed)
        held = random_state(4, 64, random)
        target = near_topology(held, swaps, random)
        start = planes_of(target, PortModel.SIMPLEX)
        found = matched_planes(start, held, 0, target.num_links)
        check_ports(found)
        assert 0.94 * optimum <= (plane_state(found) == held).sum() <= optimum
    assert (found.plane == matched_planes(start, held, 0, target.num_links).plane).all()


@pytest.mark.parametrize("in_parts", [False, True])
def test_three_planes_are_proven_in_whole_and_in_parts(in_parts):
    random = np.random.default_rng(3)
    held = random_state(3, 12, random)
    target = near_topology(held, 10, random)
    if in_parts:
        target = parse("Line(Complete(4))").topology()
    start = planes_of(target, SIMPLEX)
    better = exchanged(start, held)
    check_ports(better)
    found = minimum_rewiring(held, target)
    check(found, held, target)
    assert found.is_optimal
    kept = [int((held[each.plane, each.a_node] == each.b_node).sum()) for each in (start, better)]
    assert kept[0] <= kept[1] <= found.num_kept == by_program(found)


@pytest.mark.parametrize(("nodes", "time_limit_s"), [(24, 0), (64, 2)])
def test_without_time_there_is_still_a_bound(nodes, time_limit_s):
    random = np.random.default_rng(5)
    held = random_state(4, nodes, random)
    target = near_topology(held, nodes, random)
    found = minimum_rewiring(held, target, options=Options(time_limit_s=time_limit_s))
    check(found, held, target)
    assert found.most_kept <= target.num_links


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ([[1, 2, 0]], "held has 3 nodes and the topology has 4"),
        ([[1, 2, 3, 4]], "leads from node 3 to 4 in plane 0"),
        ([[1, 2, 3, 0], [1, 1, 3, 0]], "2 circuits to node 1 in plane 1"),
        ([1, 2, 3, 0], "a table of integers"),
        ([[0.5, 1, 2, 3]], "a table of integers"),
    ],
)
def test_states_that_no_switch_holds(held, words):
    with pytest.raises(ValueError, match=words):
        minimum_rewiring(held, Topology(4, [0, 1, 2, 3], [1, 2, 3, 0]))


def test_what_does_not_fit():
    ring = parse("BiRing(2, 5)").topology()
    with pytest.raises(InfeasibleError, match="2 planes are needed and 1 are held") as caught:
        minimum_rewiring([[1, 2, 3, 4, 0]], ring)
    assert caught.value.reason is Reason.PLANES
    with pytest.raises(ValueError, match="not joined back"):
        minimum_rewiring([[1, 2, 3, 4, 0]] * 3, ring, MATCHING)
    with pytest.raises(ValueError, match="restricted"):
        minimum_rewiring([[1, 2, 3, 4, 0]] * 2, ring, PortModel.RESTRICTED)
    irregular = Topology(3, [0, 0, 1], [1, 2, 2])
    with pytest.raises(InfeasibleError, match="node 0 has 2 links"):
        minimum_rewiring([[1, 2, 0]], irregular)
    one_way = Topology(3, [0, 1, 2], [1, 2, 0])
    with pytest.raises(InfeasibleError, match="reverse"):
        minimum_rewiring([[1, 2, 0]], one_way, TWO_SIDED)
