"""Modified de Bruijn digraphs under expansions, in the finder and from the command line."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.expansions.degree import Degree
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product, Profile, woven
from ocs_codesign.graphs.expansions.reverse import Bidirected, Transpose
from ocs_codesign.graphs.families.rings import UniRing
from ocs_codesign.graphs.families.shifts import ModifiedDeBruijn
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question, build, measure
from ocs_codesign.search.bases import CLOSED_FORMS, Effort, stored
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.search.pareto import literature
from ocs_codesign.verification.schedules import verify

STORED = [(2, 3), (2, 4), (3, 2), (4, 2), (3, 3), (5, 2)]
HALVES = (Collective.ALLGATHER, Collective.REDUCE_SCATTER)


def expanded(base: ModifiedDeBruijn) -> list:
    """Recipes in which every expansion meets a base with a stored schedule."""
    return [
        Line(base),
        Line(base, 2),
        Degree(base, 2),
        Power(base, 2),
        Transpose(base),
        Bidirected(base),
        Line(Bidirected(base)),
        Degree(Line(base), 2),
        Product(base, UniRing(1, 3)),
        Product(Line(base), base),
    ]


EXPANDED = [
    recipe
    for size in [(2, 3), (2, 4), (3, 2)]
    for recipe in expanded(ModifiedDeBruijn(*size))
    if recipe.num_nodes <= 256
]


class TestExpansions:
    @pytest.mark.parametrize("recipe", EXPANDED, ids=repr)
    @pytest.mark.parametrize("collective", HALVES)
    def test_mapped_schedules_verify_and_predictions_are_kept(self, recipe, collective):
        verdict = verify(recipe.expansion_schedule(collective))
        predicted = recipe.predict(collective)
        assert verdict.ok
        assert verdict.cost.t_b <= predicted.t_b
        assert verdict.cost.steps <= predicted.steps
        design = build(recipe, collective)
        assert design.cost == measure(recipe, collective).cost
        assert design.cost.t_b <= predicted.t_b
        assert design.cost.steps <= predicted.steps

    @pytest.mark.parametrize(("d", "n"), STORED)
    def test_formulas_start_from_the_stored_schedule(self, d, n):
        base, nodes = ModifiedDeBruijn(d, n), d**n
        optimal = Fraction(nodes - 1, nodes)
        assert Line(base).predict() == Cost(n + 2, optimal + Fraction(1, nodes))
        assert Degree(base, 2).predict() == Cost(n + 2, 1 - Fraction(1, 2 * nodes))
        assert Power(base, 2).predict() == Cost(2 * n + 2, 1 - Fraction(1, nodes**2))
        assert Bidirected(base).predict() == Transpose(base).predict() == base.predict()

    @pytest.mark.slow
    def test_the_published_row_of_1024_nodes(self):
        candidate = measure(parse("Line(Power(ModifiedDeBruijn(2, 4), 2))"))
        assert candidate.cost == Cost(11, Fraction(1))
        assert candidate.maker == "expansion"
        assert candidate.measured

    @pytest.mark.parametrize("size", [(2, 3), (2, 4), (3, 2)])
    def test_products_need_shortest_paths_so_they_take_bfb(self, size):
        base = ModifiedDeBruijn(*size)
        ring = UniRing(1, 4)
        loads = bfb_loads(base.topology())
        bfb_profile = Profile(base.shape, loads)
        for other in (ring, base):
            product = Product(base, other)
            # BFB on the base is not bandwidth-optimal, so the product is made in dimension order.
            assert woven([bfb_profile, Profile(other.shape, other.bfb_gather_loads())]) is None
            in_order = (*loads, *(base.num_nodes * load for load in other.bfb_gather_loads()))
            assert product.gather_loads() == in_order
        # Both stored schedules are bandwidth-optimal, but as they are not BFB they are not woven.
        assert verify(Product(base, base).expansion_schedule()).ok


class TestFinder:
    def test_frontier_lists_it_among_the_published(self):
        answer = frontier(8, 2)
        (one,) = [c for c in answer.published if c.recipe == ModifiedDeBruijn(2, 3)]
        assert (one.cost, one.maker) == (Cost(4, Fraction(7, 8)), "stored")
        assert one.measured
        assert one not in answer.candidates  # the Diamond needs a step less

    @pytest.mark.parametrize(
        ("nodes", "degree", "recipe"),
        [
            (9, 3, "ModifiedDeBruijn(3, 2)"),
            (16, 4, "ModifiedDeBruijn(4, 2)"),
            (64, 2, "Line(ModifiedDeBruijn(2, 4), 2)"),
            (256, 4, "Power(ModifiedDeBruijn(2, 4), 2)"),
            (1024, 4, "Line(Power(ModifiedDeBruijn(2, 4), 2))"),
            (81, 6, "Power(ModifiedDeBruijn(3, 2), 2)"),
        ],
    )
    def test_literature(self, nodes, degree, recipe):
        found = literature(nodes, degree)
        assert [one for one in found if "ModifiedDeBruijn" in repr(one)] == [parse(recipe)]
        assert all((one.num_nodes, one.degree) == (nodes, degree) for one in found)

    def test_only_published_sizes_are_closed_forms(self):
        published, ours = Question(9, 3), Question(27, 3)
        assert set(stored(ours, Effort())) == {ModifiedDeBruijn(3, 3)}
        assert set(stored(published, Effort())) == {ModifiedDeBruijn(3, 2)}
        for question, known in ((published, True), (ours, False)):
            answer = frontier(question.num_nodes, question.degree, effort=CLOSED_FORMS)
            scored = {c.recipe for c in (*answer.candidates, *answer.dominated)}
            assert any(isinstance(recipe, ModifiedDeBruijn) for recipe in scored) == known

    def test_build_saves_it_from_the_command_line(self, capsys, tmp_path):
        options = ["--scheduler", "stored", "--out", str(tmp_path / "d"), "--json", "-"]
        assert main(["build", "ModifiedDeBruijn(2, 4)", *options]) == 0
        record = json.loads(capsys.readouterr().out)
        assert (record["schedule"], record["cost"]["t_b"]) == ("stored", "15/16")
        assert main(["verify", str(tmp_path / "d")]) == 0
        assert main(["build", "Complete(4)", *options]) == 2
