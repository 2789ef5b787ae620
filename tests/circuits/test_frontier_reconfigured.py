"""The frontier with reconfiguration: static designs in it, honest dominance, verdicts, gains."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ocs_codesign.circuits.frontier import (
    WINDOWS,
    best_static,
    break_even_of,
    factor_options,
    factored,
    factored_cost,
    messages_that_pay,
    most_saved_s,
    optimal_static,
    reconfigured_frontier,
    t_b_bound,
    t_b_tree_bound,
    with_steps,
)
from ocs_codesign.circuits.legs.options import fewest_steps
from ocs_codesign.circuits.programs.designs import build_sequence
from ocs_codesign.circuits.programs.gather import sequence_alltoall, sequence_gather
from ocs_codesign.circuits.sequences import search_sequences, window_loads, window_sequence
from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.families.shifts import DeBruijn
from ocs_codesign.schedules.design import Design, Known
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.frontiers import frontier, joint_frontier
from ocs_codesign.verification.circuits import verify_program

QUICK = Effort(work=2**22, num_groups=3, num_measured=6)
MODEL = CostModel(1e-6, 50e9)


@pytest.fixture(scope="module")
def alltoall():
    return reconfigured_frontier(12, 2, "alltoall", effort=QUICK)


@pytest.fixture(scope="module")
def allreduce():
    return reconfigured_frontier(27, 2, "allreduce")


@pytest.mark.parametrize(
    ("nodes", "degree", "diameter", "saved"),
    [
        *((16, 4, 2, 0), (64, 4, 3, 0), (256, 4, 4, 0), (1024, 4, 5, 0), (1024, 8, 4, 0)),
        *((64, 2, 6, 4), (1024, 2, 10, 6)),
    ],
)
def test_steps_that_changes_can_save(nodes, degree, diameter, saved):
    optimal = Cost(2 * diameter, Fraction(2 * (nodes - 1), nodes))
    assert optimal_static(nodes, degree, [optimal]) == optimal
    assert optimal.steps - 2 * fewest_steps(nodes, degree) == saved


def test_gain_over_static_costs(allreduce):
    costs = (Cost(4, Fraction(9, 4)), Cost(8, Fraction(15, 8)))
    assert optimal_static(16, 4, costs) == costs[1]
    assert optimal_static(16, 4, costs[:1]) is None
    steps = min(one.cost.steps for one in allreduce.static)
    lead = steps - 2 * fewest_steps(allreduce.num_nodes, allreduce.degree)
    assert most_saved_s(allreduce, MODEL, 0) == lead * Fraction(1, 10**6)


def test_best_static_designs_are_in_it(alltoall, allreduce):
    costs = [one.cost for one in alltoall.static]
    joint = [one.cost for one in joint_frontier(12, 2, with_allgather=False).candidates]
    for value in (lambda cost: cost.steps, lambda cost: cost.t_b):
        assert min(map(value, costs)) <= min(map(value, joint))
    costs = [one.cost for one in allreduce.static]
    for candidate in frontier(27, 2, "allreduce").candidates:
        assert candidate.cost in costs


def test_candidates_do_not_dominate_each_other(alltoall, allreduce):
    for answer in (alltoall, allreduce):
        every = [one.cost for one in (*answer.candidates, *answer.dominated)]
        for one in answer.candidates:
            assert not any(other.dominates(one.cost) for other in every)
        for one in answer.dominated:
            assert any(
                other.dominates(one.cost) or other == one.cost
                for other in (front.cost for front in answer.candidates)
            )
        points = [one.cost.point() for one in answer.candidates]
        assert len(set(points)) == len(points)
        numbers = [one.cost.num_configurations for one in answer.candidates]
        assert numbers == sorted(numbers)
        assert answer.candidates == (*answer.static, *answer.switching)


def test_costs_are_above_the_bounds(alltoall):
    for one in (*alltoall.candidates, *alltoall.dominated):
        number = one.cost.num_configurations
        assert t_b_tree_bound(alltoall, number) <= t_b_bound(alltoall, number)
        assert t_b_bound(alltoall, number) <= one.cost.t_b
        if one.least_t_b is not None:
            assert one.least_t_b <= one.cost.t_b
    assert max(one.cost.num_configurations for one in alltoall.candidates) == 6


def test_limit_of_configurations():
    few = reconfigured_frontier(12, 2, "alltoall", max_configurations=2, effort=QUICK)
    assert max(one.cost.num_configurations for one in (*few.candidates, *few.dominated)) == 2
    none = reconfigured_frontier(9, 2, "allreduce", max_configurations=1)
    assert none.switching == ()
    assert break_even_of(none, MODEL, 1) is None
    assert messages_that_pay(none, MODEL, 0) == ()


@pytest.mark.parametrize("message", [10**4, 10**6, 10**8])
def test_break_even_is_where_the_best_changes(alltoall, message):
    found = break_even_of(alltoall, MODEL, message)
    if found is None:
        assert not alltoall.best(MODEL, message, 0).changes
        return
    below, above = found[0] * Fraction(999, 1000), found[0] * Fraction(1001, 1000)
    assert alltoall.best(MODEL, message, below).cost.num_configurations > 1
    assert alltoall.best(MODEL, message, above) == best_static(alltoall, MODEL, message)


def test_products_of_complete_graphs_take_the_fewest_steps(allreduce):
    fastest = min(allreduce.switching, key=lambda one: one.cost.steps)
    assert fastest.cost == Cost(2 * 3, Fraction(52, 27), 5)
    assert fastest.label == "K3 then K3 then K3"


def copies(nodes, factors):
    """The configuration of every factor: copies of its topology along one coordinate."""
    stride = nodes
    for factor in factors:
        topology = factor.recipe.topology()
        stride //= topology.num_nodes
        shape = (nodes // stride // topology.num_nodes, topology.num_nodes, stride)
        places = np.arange(nodes).reshape(shape)
        ends = (places[:, end].ravel() for end in (topology.tail, topology.head))
        yield Topology(nodes, *ends)


@pytest.mark.parametrize("collective", GATHERING)
@pytest.mark.parametrize(("nodes", "degree"), [(9, 2), (16, 4), (27, 2), (36, 3), (64, 2)])
def test_products_are_what_verified_programs_take(collective, nodes, degree):
    found = factored(nodes, degree, collective=collective)
    assert found
    halves = len(collective.halves())
    order = -1 if collective == Collective.ALLGATHER else 1
    for factors in found:
        steps = [factor.cost.steps // halves for factor in factors][::order]
        graphs = list(copies(nodes, factors))[::order]
        design = build_sequence(graphs, collective.name, steps)
        num_configurations = design.verdict.num_configurations
        cost = replace(design.cost, num_configurations=num_configurations)
        assert cost == factored_cost(factors)


def test_halving_and_doubling_is_looked_at_and_dominated():
    answer = reconfigured_frontier(16, 4, "allreduce")
    known = {one.label: one.cost for one in answer.dominated}
    assert known["halving-doubling"] == Cost(8, Fraction(15, 8), 7)
    assert [design.maker for design in answer.switching] == [WINDOWS]


@pytest.mark.parametrize(("degree", "letters"), [(2, 3), (2, 6), (4, 3)])
def test_every_pair_of_a_de_bruijn_digraph_has_one_walk(degree, letters):
    """So k rounds of sending on the sum of what came in add every vector exactly once."""
    topology = DeBruijn(degree, letters).topology()
    links = np.zeros((topology.num_nodes, topology.num_nodes), dtype=np.int64)
    np.add.at(links, (topology.tail, topology.head), 1)
    assert (np.linalg.matrix_power(links, letters) == 1).all()
    if letters > 3 or degree == 4:
        return
    answer = reconfigured_frontier(degree**letters, degree, "allreduce")
    label = f"sums of whole vectors on DBJ({degree},{letters})"
    costs = {one.label: one.cost for one in (*answer.candidates, *answer.dominated)}
    assert costs[label] == Cost(letters, Fraction(degree * letters))


def test_refusals():
    with pytest.raises(ValueError, match="broadcast"):
        reconfigured_frontier(8, 2, "broadcast")
    with pytest.raises(ValueError, match="0 configurations: there must be at least 1"):
        reconfigured_frontier(8, 2, max_configurations=0)
    with pytest.raises(ValueError, match="degree 8 of 8 nodes"):
        reconfigured_frontier(8, 8)


def test_factors_use_all_ports():
    for nodes, degree in ((2, 4), (3, 4), (4, 4), (5, 4), (3, 3)):
        for factor in factor_options(nodes, degree):
            assert (factor.recipe.num_nodes, factor.recipe.degree) == (nodes, degree)
    assert factored(7, 2) == []


@pytest.mark.parametrize(
    ("nodes", "configurations", "expected"),
    [(12, 2, {3: "13/8", 4: "3/2"}), (9, 3, {3: "32/27", 4: "10/9"})],
)
def test_an_alltoall_is_a_pair_that_one_schedule_has(nodes, configurations, expected):
    """The best routing is not to be had in the fewest steps: each step is a schedule of its own."""
    found = search_sequences(nodes, 2, configurations, effort=QUICK)
    one = Design(Collective.ALLTOALL, found.alltoall.cost, "", Known.MEASURED, found.recipes)
    pairs = {each.cost.steps: each for each in with_steps(one, found.alltoall.bound)}
    assert {steps: str(each.cost.t_b) for steps, each in pairs.items()} == expected
    topologies = [recipe.topology() for recipe in found.recipes]
    for steps, each in pairs.items():
        assert each.measured
        assert each.cost.num_configurations == configurations
        splits = product(range(1, steps), repeat=configurations)
        costs = []
        for split in splits:
            if sum(split) == steps:
                used = [at for at, count in enumerate(split) for _ in range(count)]
                with contextlib.suppress(ValueError):  # not every pair is served
                    (program, schedule, _), bound = sequence_alltoall(topologies, used)
                    verdict = verify_program(program, schedule)
                    assert verdict.ok
                    costs.append((verdict.cost.t_b, bound))
        assert min(costs) == (each.cost.t_b, each.least_t_b)


def test_what_is_too_large_to_schedule_is_a_bound(monkeypatch):
    monkeypatch.setattr("ocs_codesign.circuits.frontier.MAX_ARCS", 0)
    answer = reconfigured_frontier(9, 2, "alltoall", max_configurations=3, effort=QUICK)
    assert {one.known for one in answer.static} == {Known.BOUNDED}
    assert all(one.measured for one in answer.switching)
    assert answer.unsolved
    assert all(one.changes and not one.measured for one in answer.unsolved)


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize(
    ("nodes", "degree"), [(100, 4), (81, 2), (61, 3), (23, 1), (24, 4), (50, 7)]
)
def test_windows_take_the_fewest_steps_and_what_is_predicted(collective, nodes, degree):
    """The last circulant of 100 nodes and four ports is published: offsets 25, 43, 62 and 75."""
    found = reconfigured_frontier(nodes, degree, collective)
    (windows,) = [d for d in (*found.candidates, *found.dominated) if d.maker == WINDOWS]
    halves = len(Collective.parse(collective).halves())
    assert windows.cost.steps == halves * fewest_steps(nodes, degree)
    distinct = list(dict.fromkeys(windows.recipes))
    order = [distinct.index(recipe) for recipe in windows.recipes]
    used = order[: len(distinct)] if halves == 2 else order
    graphs = [recipe.topology() for recipe in distinct]
    program, schedule, _ = sequence_gather(graphs, used, collective)
    assert verify_program(program, schedule).ok
    assert program.t_b(sum(schedule.max_loads())) == windows.cost.t_b
    is_best = windows.cost.t_b == bound(nodes, degree, collective).t_b
    assert is_best == (nodes != 24)  # all 19 items that are left, by windows of five of four ports


def test_windows_are_optimal_but_just_below_a_full_tree():
    """Windows of W items on d ports have d W places: d W - 1 items cannot be spread evenly."""
    for degree in (1, 2, 3, 4):
        for nodes in range(2, 300):
            even = sum(window_loads(nodes, degree)) == Fraction(nodes - 1, degree)
            steps = len(window_sequence(nodes, degree))
            assert even == (degree < 3 or nodes + 1 != (degree + 1) ** steps)
