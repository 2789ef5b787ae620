"""What would take for ever is refused in a sentence, bounded or skipped."""

from __future__ import annotations

import json

import pytest

from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, can_measure
from ocs_codesign.schedules.design import Known, Question, measure, predict
from ocs_codesign.search import pool as search
from ocs_codesign.search.bases import Effort

SWITCHED = ["--alpha", "1us", "--bandwidth", "1Gbps", "--message", "1MiB", "--delta", "1us"]
REFUSED = {
    "many links": (["cost", "GeneralizedKautz(10000, 10000)"], "would take too long"),
    "many steps": (["cost", "UniRing(1, 10000000)"], "at most 65536 are supported"),
    "exact": (["cost", "Kautz(2, 1)", "--exact", "--max-steps", "1000000"], "32 more than the"),
    "jobs": (
        ["plan", "t.csv", "--nodes", "16", "--degree", "4", *SWITCHED[:4], *SWITCHED[6:]],
        "the trace has 2000000 jobs",
    ),
    "sizes": (["sweep", "--nodes", "2-99999999999", "--catalogue", "c"], "numbers go up to"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_takes_too_long_is_refused(capsys, monkeypatch, tmp_path, case):
    monkeypatch.chdir(tmp_path)
    rows = ["collective,message,gap,count", *["alltoall,1MiB,1us,1000000"] * 2]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    command, reason = REFUSED[case]
    assert main(command) == 2
    assert reason in capsys.readouterr().err


def test_closed_forms_are_measured_at_any_size(capsys):
    for text, steps in (("Torus((4096, 4096))", 4096), ("DeBruijn(2, 40)", 40)):
        assert main(["cost", text, "--json", "-"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["measured"], found["steps"]) == (True, steps)


def test_closed_forms_are_what_the_built_graph_takes():
    for text in (
        "Torus((5, 4))",
        "UniRing(2, 9)",
        "BiRing(4, 6)",
        "DeBruijn(3, 3)",
        "Hypercube(4)",
    ):
        recipe = parse(text)
        assert measure(recipe).loads == bfb_loads(recipe.topology()) == recipe.loads()


def test_an_expansion_too_large_to_measure_is_predicted():
    recipe = parse("Line(Complete(3))")
    assert measure(recipe, max_work=1) == predict(recipe)
    assert measure(recipe, max_work=1).known == Known.PREDICTED
    assert measure("Line(ModifiedDeBruijn(2, 6), 30)").cost == Cost(
        36, predict("Line(ModifiedDeBruijn(2, 6), 30)").cost.t_b
    )


def test_a_base_too_large_to_measure_is_refused():
    with pytest.raises(ValueError, match="GeneralizedKautz\\(2, 9\\) would take too long"):
        measure("GeneralizedKautz(2, 9)", max_work=1)


def test_work_counts_receivers_or_steps():
    circulant = parse("DirectedCirculant(1000000, (1, 1000))").topology()
    assert can_measure(circulant)
    assert not can_measure(Topology(circulant.num_nodes, circulant.tail, circulant.head))
    ring = [*range(20_000)]
    slow = Topology(len(ring), ring, [*ring[1:], 0])
    assert not can_measure(slow)
    with pytest.raises(ValueError, match="would take too long"):
        bfb_loads(slow)


def test_the_finder_leaves_out_what_it_cannot_measure(monkeypatch):
    asked = Question(60, 3), {}, Effort(work=0)
    every = search.candidates_from(*asked)
    monkeypatch.setattr(search, "_MAX_WORK", 10_000)
    some = search.candidates_from(*asked)
    recipes = {design.recipe for design in some}
    assert parse("GeneralizedKautz(3, 60)") in {design.recipe for design in every} - recipes
    assert parse("UniRing(3, 60)") in recipes


def test_planes_beyond_those_of_use_are_idle(capsys):
    command = ["rewire", "DirectedCirculant(8, (1, 3))", "GeneralizedKautz(2, 8)", "--what-if"]
    made = []
    for planes in ("4", "4096"):
        assert main([*command, "--json", "-", "--planes", planes]) == 0
        made.append(json.loads(capsys.readouterr().out))
    assert made[0] == made[1]
