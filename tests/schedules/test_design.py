"""Designs: which schedule wins, and that all of them are verified."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from mutations import without
from samples import loaded_topologies
from strategies import multigraphs

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import heard_by
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.formats.node_link import to_networkx
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules import design as design_module
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.design import build, build_topology, measure, measure_topology, predict
from ocs_codesign.schedules.paths.throughput import throughput
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.verification.schedules import Verdict, verify
from ocs_codesign.verification.sends import Witness

LOOPY = "Power(GeneralizedKautz(2, 8), 2)"
"""A recipe whose mapped allgather beats BFB."""


def test_predict_builds_nothing(monkeypatch):
    for text in ("Line(Complete(4), 9)", "Power(UniRing(1, 9), 5)"):
        recipe = parse(text)
        monkeypatch.setattr(type(recipe), "topology", None)
        candidate = predict(recipe, "allreduce")
        assert candidate.cost == recipe.predict("allreduce")
        assert not candidate.measured
        assert candidate.maker == "expansion"


def test_candidate_knows_both_halves_and_the_bound():
    candidate = measure(parse("GeneralizedKautz(2, 9)"), "allreduce")
    assert candidate.cost_of("allgather") == Cost(3, Fraction(14, 9))
    assert candidate.cost_of("reduce-scatter") == Cost(3, Fraction(10, 9))
    assert candidate.cost == Cost(6, Fraction(24, 9))
    assert candidate.bound == bound(9, 2, "allreduce")
    assert candidate.moore_optimal
    assert not candidate.bw_optimal


@pytest.mark.parametrize("text", ["GeneralizedKautz(2, 9)", LOOPY, 'Named("petersen")'])
@pytest.mark.parametrize("collective", [kind.name for kind in GATHERING])
def test_the_bound_on_its_graph_is_that_of_any_schedule(text, collective):
    design = build(text, collective)
    topology = design.schedule.topology
    assert design.bound_on(topology) == topology_bound(topology, collective)


def test_the_bound_on_its_graph_reads_the_diameter_off_bfb(monkeypatch):
    monkeypatch.setattr(Topology, "diameter", None)
    ring = parse("BiRing(2, 9)")
    assert measure(ring, "allreduce").bound_on(ring.topology()) == Cost(8, Fraction(16, 9))


def test_loads_of_a_score_add_up_to_its_cost():
    for text in ("GeneralizedKautz(2, 9)", LOOPY, "Degree(CompleteBipartite(2), 2)"):
        recipe = parse(text)
        for collective in GATHERING:
            for candidate in (predict(recipe, collective), measure(recipe, collective)):
                score = candidate
                assert score.collective == collective
                assert score.cost.steps == len(score.loads)
                assert score.cost.t_b == sum(score.loads) * recipe.degree / recipe.num_nodes


@pytest.mark.parametrize("text", ["Degree(CompleteBipartite(2), 2)", LOOPY, "Line(UniRing(1, 5))"])
def test_the_better_schedule_wins(text):
    recipe = parse(text)
    for collective in (Collective.ALLGATHER, Collective.REDUCE_SCATTER):
        costs = {
            "bfb": verify(bfb(recipe.topology(), collective)).cost,
            "expansion": verify(recipe.expansion_schedule(collective)).cost,
        }
        best = min(costs.values(), key=lambda cost: (cost.t_b, cost.steps))
        score = measure(recipe, collective)
        assert score.cost == best
        assert costs[score.maker] == best


def test_schedules_by_name():
    recipe = parse("Degree(CompleteBipartite(2), 2)")
    assert build(recipe).maker == "bfb"
    assert build(recipe, "allgather", "bfb").cost == Cost(2, Fraction(7, 8))
    mapped = build(recipe, "allgather", "expansion")
    assert mapped.cost == recipe.predict() == Cost(3, Fraction(7, 8))
    assert mapped.maker == "expansion"


@pytest.mark.parametrize("schedule", ["", "BFB", "worst", None])
def test_unknown_schedule(schedule):
    with pytest.raises(ValueError, match="it must be one of bfb, expansion"):
        build(parse("Complete(3)"), "allgather", schedule)


def test_unknown_collective():
    for function in (build, measure, predict):
        with pytest.raises(ValueError, match="unknown collective 'scan'"):
            function(parse("Complete(3)"), "scan")


def test_an_allreduce_may_mix_makers():
    recipe = parse("Power(GeneralizedKautz(2, 8), 2)")
    score = measure(recipe, "allreduce")
    halves = [measure(recipe, c).maker for c in ("reduce-scatter", "allgather")]
    assert score.maker in ("+".join(halves), halves[0])
    assert build(recipe, "allreduce").maker == score.maker


def test_large_mapped_winner_is_reported_as_predicted(monkeypatch):
    monkeypatch.setattr(design_module, "_MAX_VERIFIED_SENDS", 10)
    candidate = measure(parse(LOOPY))
    assert not candidate.measured
    assert candidate.cost.t_b == Fraction(63, 32)
    assert candidate.maker == "expansion"


def test_a_schedule_that_does_not_verify_never_leaves(monkeypatch):
    bad = Verdict(Cost(1, Fraction(1)), (Fraction(1),), Witness("of no good"))
    monkeypatch.setattr(design_module, "verify", lambda *_, **__: bad)
    with pytest.raises(RuntimeError, match=r"made by bfb fails: of no good"):
        build(parse("Complete(3)"))
    with pytest.raises(RuntimeError, match=r"mapped schedule of Power.* fails: of no good"):
        measure(parse(LOOPY))
    with pytest.raises(RuntimeError, match=r"of no good"):
        build_topology(loaded_topologies()[0])


@given(multigraphs())
def test_any_topology_is_scored_and_built(topology):
    for collective in GATHERING:
        score, design = measure_topology(topology, collective), build_topology(topology, collective)
        assert score.measured
        assert design.recipes == ()
        assert (design.cost, design.loads) == (score.cost, score.loads)
        assert design.schedule.collective == collective
        assert design.schedule.num_chunks % score.num_chunks == 0


def test_progress_is_heard():
    heard: list[tuple[int, int]] = []
    with heard_by(lambda _, done, total: heard.append((done, total))):
        build(parse("Complete(3)"), "allreduce", "bfb")
        build_topology(loaded_topologies()[0], "allgather")
    assert heard == [(done, 6) for done in range(1, 7)] * 2 + [(done, 4) for done in range(1, 5)]


@pytest.mark.parametrize("collective", GATHERING)
def test_errors_of_a_topology(collective):
    for topology in (Topology(1, [], []), Topology(2, [0], [1])):
        for function in (measure_topology, build_topology):
            with pytest.raises(ValueError, match=r"at least two nodes|not strongly connected"):
                function(topology, collective)


GIVEN = ["Torus((4, 4))", parse("Torus((4, 4))"), parse("Torus((4, 4))").topology()]


def test_topologies_are_given_in_many_ways():
    """A recipe, its text or a networkx graph does where a topology is wanted."""
    cost = measure("Torus((4, 4))").cost
    for graph in (*GIVEN, to_networkx(GIVEN[-1])):
        assert measure_topology(graph).cost == build_topology(graph).cost == cost
        assert verify(bfb(graph))
        assert bfb(topology=graph) == bfb(graph)
        assert throughput(graph).time == throughput(GIVEN[-1]).time
    assert predict("Torus((4, 4))").cost.t_b >= cost.t_b
    assert build("Torus((4, 4))").cost == cost


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: measure(7), "an int is no topology: it may be a recipe, its text or a networkx"),
        (lambda: bfb(7), "an int is no topology: it may be a recipe, its text or a networkx"),
        (lambda: bfb("Torus(4"), "cannot read 'Torus"),
        (lambda: frontier("12", 4), "num_nodes is '12': it must be a whole number"),
        (lambda: frontier(12, 4.0), "degree is 4.0: it must be a whole number"),
    ],
)
def test_what_is_none_gets_a_sentence(call, rule):
    with pytest.raises(ValueError, match=rule):
        call()


def test_a_verdict_is_true_if_nothing_is_wrong():
    schedule = build("Complete(3)").schedule
    assert verify(schedule)
    assert not verify(without(schedule, 0))
