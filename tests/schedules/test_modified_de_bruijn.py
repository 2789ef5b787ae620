"""Modified de Bruijn digraphs: the graph by definition, and its published costs."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import networkx as nx
import numpy as np
import pytest
from replay_oracle import is_valid, runs_correctly
from strategies import built

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power
from ocs_codesign.graphs.families.shifts import ModifiedDeBruijn
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import build, measure, measure_topology, predict

SIZES = [(2, n) for n in range(2, 8)] + [(3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (5, 2), (6, 3)]
PUBLISHED = [(2, 3), (2, 4), (3, 2), (4, 2)]
STORED = [*PUBLISHED, (3, 3), (5, 2)]
HALVES = (Collective.ALLGATHER, Collective.REDUCE_SCATTER)

every_size = pytest.mark.parametrize(("d", "n"), SIZES)
every_stored = pytest.mark.parametrize(("d", "n"), STORED)


def links_of(topology: Topology) -> list[tuple[int, int]]:
    return sorted(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))


def links_by_words(d: int, n: int) -> list[tuple[int, int]]:
    """Shifts of words as texts, without the loops, and the cycle that replaces them."""
    words = ["".join(word) for word in product("0123456789"[:d], repeat=n)]
    links = {(word, word[1:] + letter) for word in words for letter in "0123456789"[:d]}
    cycle = [letter * n for letter in "0123456789"[:d]]
    if d == 2:
        one, zero = ("10" * n)[:n], ("01" * n)[:n]
        links -= {(one, zero), (zero, one)}
        cycle = [cycle[0], one, cycle[1], zero]
    links -= {(word, word) for word in words}
    links |= set(zip(cycle, cycle[1:] + cycle[:1], strict=True))
    return sorted((int(tail, d), int(head, d)) for tail, head in links)


class TestGraph:
    @every_size
    def test_definition(self, d, n):
        assert links_of(ModifiedDeBruijn(d, n).topology()) == links_by_words(d, n)

    @every_size
    def test_known_facts(self, d, n):
        topology, recipe = ModifiedDeBruijn(d, n).topology(), ModifiedDeBruijn(d, n)
        assert (topology.num_nodes, topology.degree) == (d**n, d)
        assert topology.is_regular
        assert not topology.has_self_loops()
        assert not recipe.has_self_loops
        assert len(set(links_of(topology))) == d ** (n + 1)
        # Two letters and odd words: the way between the alternating words got longer.
        assert topology.diameter() == (n + 1 if d == 2 and n % 2 else n)
        assert recipe.bidirectional == topology.is_undirected()
        assert recipe.topology() == topology

    @every_size
    def test_adding_one_to_all_letters_is_the_declared_symmetry(self, d, n):
        topology = ModifiedDeBruijn(d, n).topology()
        places = d ** np.arange(n)
        image = (np.arange(d**n)[:, None] // places % d + 1) % d @ places
        assert links_of(topology.relabelled(image)) == links_of(topology)
        assert (topology.symmetry.node_orbit[image] == topology.symmetry.node_orbit).all()
        assert len(topology.symmetry.representatives()) == d ** (n - 1)

    @every_size
    def test_isomorphic_to_its_transpose(self, d, n):
        graph = nx.DiGraph(links_of(ModifiedDeBruijn(d, n).topology()))
        matcher = nx.algorithms.isomorphism.DiGraphMatcher(graph, graph.reverse())
        assert matcher.is_isomorphic() == ModifiedDeBruijn(d, n).reverse_symmetric

    @pytest.mark.parametrize(("d", "n"), [(2, 10), (3, 6), (5, 4), (7, 3)])
    def test_reversed_words_prove_it_at_any_size(self, d, n):
        topology = ModifiedDeBruijn(d, n).topology()
        places = d ** np.arange(n)
        letters = np.arange(d**n)[:, None] // places % d
        image = (letters if d == 2 else -letters % d) @ places[::-1]
        assert links_of(topology.relabelled(image)) == links_of(topology.transpose())

    @pytest.mark.parametrize(
        ("numbers", "rule"),
        [
            ((1, 3), "d is 1: it must be an integer of at least 2"),
            ((2, 1), "n is 1: it must be an integer of at least 2 and at most 64"),
            ((2, 65), "n is 65"),
            ((2.0, 3), r"d is 2\.0"),
            ((2, "3"), "n is '3'"),
            ((3, 64), "at most 2\\^64 nodes"),
        ],
    )
    def test_bad_sizes(self, numbers, rule):
        with pytest.raises(ValueError, match=rule):
            ModifiedDeBruijn(*numbers)

    def test_too_large_to_build_but_not_to_name(self):
        recipe = parse("Line(ModifiedDeBruijn(2, 40))")
        assert recipe.num_nodes == 2**41
        with pytest.raises(ValueError, match="too many links"):
            recipe.topology()

    def test_text_and_label(self):
        recipe = parse("ModifiedDeBruijn( 2,4 )")
        assert repr(recipe) == "ModifiedDeBruijn(2, 4)"
        assert hash(recipe) == hash(ModifiedDeBruijn(2, 4))
        assert Line(Power(recipe, 2)).label() == "L(DBJMod(2,4)□²)"


class TestCosts:
    @every_stored
    @pytest.mark.parametrize("collective", GATHERING)
    def test_published_cost(self, d, n, collective):
        recipe, nodes = ModifiedDeBruijn(d, n), d**n
        halves = 2 if collective == Collective.ALLREDUCE else 1
        candidate, design = measure(recipe, collective), build(recipe, collective)
        cost = Cost(halves * (n + 1), halves * Fraction(nodes - 1, nodes))
        assert candidate.cost == design.cost == predict(recipe, collective).cost == cost
        assert candidate.maker == design.maker == "stored"
        assert candidate.measured
        assert candidate.bw_optimal
        assert design.loads == candidate.loads
        assert design.schedule.topology == recipe.topology()
        assert runs_correctly(design.schedule)
        assert is_valid(design.schedule)

    @pytest.mark.parametrize("collective", HALVES)
    def test_the_largest_stored_one(self, collective):
        """Its graph is not isomorphic to the transpose, so each direction was solved."""
        recipe = ModifiedDeBruijn(2, 5)
        design = build(recipe, collective)
        assert (design.maker, design.cost) == ("stored", Cost(6, Fraction(1)))
        assert measure_topology(recipe.topology(), collective).cost.t_b > Fraction(3, 2)
        assert is_valid(design.schedule)
        assert runs_correctly(design.schedule)

    @every_stored
    def test_bfb_cannot(self, d, n):
        topology = ModifiedDeBruijn(d, n).topology()
        schedule = build(ModifiedDeBruijn(d, n)).schedule
        for graph in (topology, topology.transpose()):
            assert topology.t_b(sum(bfb_loads(graph))) > Fraction(d**n - 1, d**n)
        away = topology.distances()[schedule.root, topology.head[schedule.link]]
        assert (schedule.step > away).any()

    def test_the_smallest_needs_no_stored_schedule(self):
        recipe = ModifiedDeBruijn(2, 2)
        assert recipe.stored_schedule() is None
        assert measure(recipe).maker == build(recipe).maker == "bfb"
        assert build(recipe).cost == Cost(2, Fraction(3, 4))

    @pytest.mark.parametrize(("d", "n"), [(2, 2), (2, 6), (4, 3)])
    def test_without_a_stored_schedule_it_is_bfb(self, d, n):
        recipe = ModifiedDeBruijn(d, n)
        for collective in HALVES:
            cost = measure_topology(recipe.topology(), collective).cost
            assert recipe.predict(collective) == measure(recipe, collective).cost == cost

    @every_stored
    def test_schedules_by_name(self, d, n):
        recipe = ModifiedDeBruijn(d, n)
        best = build(recipe).schedule
        for name in ("stored", "expansion"):
            design = build(recipe, "allgather", name)
            assert (design.maker, design.schedule) == (name, best)
        assert build(recipe, "allgather", "bfb").cost == measure_topology(built(recipe)).cost

    @pytest.mark.parametrize(
        "text", ["ModifiedDeBruijn(2, 2)", "Complete(3)", "Line(ModifiedDeBruijn(2, 3))"]
    )
    @pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
    def test_nothing_stored(self, text, collective):
        with pytest.raises(ValueError, match=r"no \S+ of .* is stored that is better than BFB"):
            build(parse(text), collective, "stored")
