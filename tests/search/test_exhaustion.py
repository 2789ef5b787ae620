"""Exhaustion: every topology once, none left out, and frontiers that are proven."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import pytest
from folders import DATA
from slow_bfb import slow_bfb_loads

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import heard_by
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.exhaustion import visits
from ocs_codesign.search.exhaustion import visits as stored
from ocs_codesign.search.exhaustion.visits import exhaust, exhausted, stored_exhaustions
from ocs_codesign.search.frontiers import frontier, joint_frontier
from ocs_codesign.verification.labelled import all_digraphs, connected_digraphs

SCORED = json.loads((DATA / "exhaustive_small.json").read_text())["rows"]
"""Undominated (steps, t_b) among all graphs of a size, as another program has scored them."""

CLASSES = {
    (3, True, True): {4: 1, 6: 2, 8: 5, 10: 19, 12: 85},
    (3, True, False): {2: 1, 4: 2, 6: 6, 8: 20, 10: 91, 12: 509},
    (4, True, True): {5: 1, 6: 1, 7: 2, 8: 6, 9: 16, 10: 59},
}
"""Connected cubic graphs and multigraphs and quartic graphs by nodes: A002851, A000421, A006820."""


def scored_elsewhere() -> dict[Question, list[tuple[int, Fraction]]]:
    found: dict[Question, list[tuple[int, Fraction]]] = {}
    for row in SCORED:
        question = Question(row["nodes"], row["degree"], row["two_way"])
        found.setdefault(question, []).append((row["steps"], Fraction(row["t_b"])))
    return found


@pytest.mark.parametrize(("question", "points"), scored_elsewhere().items(), ids=str)
def test_stored_frontiers_are_what_another_program_found(question, points):
    found = exhausted(question, Collective.ALLGATHER)
    assert [(one.cost.steps, one.cost.t_b) for one in found.allgather] == points


@pytest.mark.parametrize(("degree", "bidirectional", "simple"), CLASSES)
def test_numbers_of_classes_are_the_known_ones(degree, bidirectional, simple):
    for nodes, number in CLASSES[degree, bidirectional, simple].items():
        found = exhaust(Question(nodes, degree, bidirectional), simple=simple)
        assert found.num_classes == number


def by_permutations(nodes: int, degree: int) -> set[tuple[tuple[int, ...], ...]]:
    """Every regular connected digraph as the least of all its relabellings."""
    rows = list(combinations_with_replacement(range(nodes), degree))
    found = set()
    for heads in product(rows, repeat=nodes):
        flat = [head for row in heads for head in row]
        if any(flat.count(node) != degree for node in range(nodes)):
            continue
        reached, pending = {0}, [0]
        while pending:
            new = set(heads[pending.pop()]) - reached
            reached |= new
            pending += new
        if len(reached) == nodes:
            found.add(min(renumbered(heads, order) for order in permutations(range(nodes))))
    return found


def renumbered(heads, order):
    rows = [None] * len(heads)
    for node, row in enumerate(heads):
        rows[order[node]] = tuple(sorted(order[head] for head in row))
    return tuple(rows)


@pytest.mark.parametrize(("nodes", "degree"), [(3, 2), (4, 2), (3, 3)])
def test_nothing_is_left_out_and_nothing_comes_twice(nodes, degree):
    classes = by_permutations(nodes, degree)
    found = exhaust(Question(nodes, degree), alltoall=True)
    assert found.num_classes == len(classes)
    costs, times = [], []
    for heads in classes:
        topology = Lift(Cyclic(1), heads).topology()
        loads = slow_bfb_loads(topology)
        costs.append((len(loads), topology.t_b(sum(loads))))
        times.append((topology.diameter(), throughput(topology).time))
    assert [(one.cost.steps, one.cost.t_b) for one in found.allgather] == front(costs)
    assert [(one.cost.steps, one.cost.t_b) for one in found.alltoall] == front(times)


def front(costs):
    return sorted(
        {
            one
            for one in costs
            if not any(o[0] <= one[0] and o[1] <= one[1] and o != one for o in costs)
        }
    )


def test_pauses_change_nothing(monkeypatch):
    whole = exhaust(Question(7, 2), simple=True, alltoall=True)
    monkeypatch.setattr(visits, "_CLASSES_A_VISIT", 7)
    monkeypatch.setattr(visits, "_KEPT", 5)
    told = []
    with heard_by(lambda *progress: told.append(progress)):
        again = exhaust(Question(7, 2), simple=True, alltoall=True)
    assert (again.num_classes, again.num_labelled) == (whole.num_classes, whole.num_labelled)
    assert [one.cost for one in again.alltoall] == [one.cost for one in whole.alltoall]
    assert again.allgather == whole.allgather
    assert len(told) > 10


def test_a_visit_that_leaves_something_out_is_found(monkeypatch):
    real = visits.compiled(visits.visit)

    def forgetful(*given):
        end = real(*given)
        given[6][3] -= 1
        return end

    monkeypatch.setattr(visits, "compiled", lambda _: forgetful)
    with pytest.raises(RuntimeError, match="7559 labelled topologies were visited of 7560"):
        exhaust(Question(6, 2), simple=True)


def test_labelled_counts_are_the_known_ones():
    # A007107, A000681, A002829: zero diagonal, any entries, cubic graphs.
    zeros = [all_digraphs(nodes, 2, False, True) for nodes in range(1, 9)]
    assert zeros == [0, 0, 1, 9, 216, 7570, 357435, 22040361]
    assert [all_digraphs(nodes, 2, False, False) for nodes in range(1, 6)] == [1, 3, 21, 282, 6210]
    cubic = [all_digraphs(nodes, 3, True, True) for nodes in (4, 6, 8, 10)]
    assert cubic == [1, 70, 19355, 11180820]


def test_stored_points_have_recipes_that_cost_so_much():
    for found in stored_exhaustions():
        question = found.question
        same = {"bidirectional": question.bidirectional, "simple": found.simple}
        counted = connected_digraphs(question.num_nodes, question.degree, **same)
        assert counted == found.num_labelled
        for collective in (Collective.ALLGATHER, Collective.ALLREDUCE):
            for point in found.points(collective):
                assert question.is_answered_by(point.recipe)
                assert measure(point.recipe, collective).cost.point() == point.cost.point()
        for point in found.alltoall or ():
            assert throughput(point.recipe.topology()).time == point.cost.t_b
            assert point.recipe.topology().diameter() == point.cost.steps


def test_all_to_all_that_no_topology_beats():
    assert best_alltoall(7) == Fraction(11, 7)
    found = exhausted(Question(7, 2), Collective.ALLTOALL)
    assert [one.cost for one in found.alltoall] == [Cost(3, Fraction(11, 7))]


def best_alltoall(nodes):
    return joint_frontier(nodes, 2, with_allgather=False).candidates[0].cost.t_b


def test_frontiers_are_no_better_than_what_is_proven():
    points = scored_elsewhere()
    for question in (Question(6, 2), Question(6, 3, True)):
        size = question.num_nodes, question.degree
        answer = frontier(*size, bidirectional=question.bidirectional)
        costs = [(one.cost.steps, one.cost.t_b) for one in answer.candidates]
        assert costs == points[question]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (Question(11, 3, True), "there is no such topology"),
        (Question(16, 2), "can all be looked at"),
        (Question(64, 2), "2 to 24"),
        (Question(4, 0), "degree 1 to 6"),
    ],
)
def test_sizes_that_cannot_be_exhausted(question, why):
    with pytest.raises(ValueError, match=why):
        exhaust(question)


def test_the_command_and_what_frontier_says(capsys):
    assert main(["exhaust", "--nodes", "6", "--degree", "2", "--simple", "--json", "-"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["classes"], made["labelled"]) == (22, 7560)
    assert [point["t_b"] for point in made["allgather"]] == ["1", "5/6"]
    assert main(["frontier", "--nodes", "6", "--degree", "2", "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    proof = answer["exhaustion"]
    assert proof["classes"] == 265
    assert proof["loops_and_parallel_links"]
    assert proof["proven"] == [one["recipe"] for one in answer["candidates"]]
    assert main(["frontier", "--nodes", "6", "--degree", "2"]) == 0
    said = capsys.readouterr().out
    assert "Proven optimal by exhaustion, by BFB: 2 steps, t_b 1 and 3 steps, t_b 5/6." in said
    assert main(["frontier", "--nodes", "24", "--degree", "2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["exhaustion"] is None


def test_the_command_refuses_what_is_too_much(capsys):
    assert main(["exhaust", "--nodes", "20", "--degree", "2"]) == 2
    assert "can all be looked at" in capsys.readouterr().err


def test_the_file_is_what_its_values_make():
    assert stored.STORED.read_text(encoding="utf-8") == stored.records_text(stored_exhaustions())


@pytest.mark.slow
def test_stored_exhaustions_come_out_again():
    for found in stored_exhaustions():
        if found.num_classes <= 6_000:
            solved = found.alltoall is not None and found.num_classes <= 2_000
            again = exhaust(found.question, simple=found.simple, alltoall=solved)
            assert again.num_classes == found.num_classes
            for kind in (Collective.ALLGATHER, Collective.ALLREDUCE):
                assert again.points(kind) == found.points(kind)
            if solved:
                assert [p.cost for p in again.alltoall] == [p.cost for p in found.alltoall]
