"""2-regular digraphs up to isomorphism, against exhaustion, and the table of their frontiers."""

from __future__ import annotations

import csv
import sys
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest
from folders import ROOT
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.families.rings import BiRing, DirectedCirculant, UniRing
from ocs_codesign.graphs.families.shifts import DeBruijn, Kautz
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.stepped.exact import exact_schedule, fractional_bound

sys.path.append(str(ROOT / "experiments"))

from regular_digraphs import named, of_topology, two_regular_digraphs

A306827 = {2: 1, 3: 2, 4: 5, 5: 13, 6: 59, 7: 285}
"""Connected 2-in 2-out digraphs with parallel links but no loops (OEIS, B. McKay)."""


def labelled(num_nodes):
    """The heads of all labelled connected ones, by trying all pairs of heads of every node."""
    pairs = list(combinations_with_replacement(range(num_nodes), 2))
    for heads in product(pairs, repeat=num_nodes):
        into = np.bincount(np.ravel(heads), minlength=num_nodes)
        if (into == 2).all() and not any(node in heads[node] for node in range(num_nodes)):
            tail = np.repeat(np.arange(num_nodes), 2)
            if Topology(num_nodes, tail, np.ravel(heads)).distances().min() >= 0:
                yield heads


def least_relabelling(heads):
    """The least of all N! numberings: a canonical form that needs no idea."""
    best = None
    for new in permutations(range(len(heads))):
        moved = [None] * len(heads)
        for node, pair in enumerate(heads):
            moved[new[node]] = tuple(sorted(new[head] for head in pair))
        best = min(best or moved, moved)
    return tuple(best)


@cache
def of_seven_nodes():
    return two_regular_digraphs(7)


class TestDigraphs:
    @pytest.mark.parametrize("num_nodes", A306827)
    def test_as_many_as_known(self, num_nodes):
        found = two_regular_digraphs(num_nodes)
        assert len(found) == len(set(found)) == A306827[num_nodes]
        assert found == sorted(found)
        for graph in found:
            topology = graph.topology()
            assert topology.is_regular
            assert topology.degree == 2
            assert not topology.has_self_loops()
            assert topology.distances().min() >= 0

    @pytest.mark.parametrize("num_nodes", [2, 3, 4])
    def test_names_tell_isomorphic_ones_as_exhaustion_does(self, num_nodes):
        forms = {}
        for heads in labelled(num_nodes):
            forms.setdefault(named(heads), set()).add(least_relabelling(heads))
        assert all(len(form) == 1 for form in forms.values())
        assert len({*map(frozenset, forms.values())}) == len(forms) == A306827[num_nodes]
        assert sorted(forms) == two_regular_digraphs(num_nodes)

    @given(st.integers(0, 284), st.permutations(range(7)))
    def test_a_name_does_not_depend_on_the_numbering(self, at, new):
        graph = of_seven_nodes()[at]
        moved = graph.topology().relabelled(new)
        assert of_topology(moved) == graph
        assert of_topology(moved.transpose()) == graph.transpose()
        assert graph.transpose().transpose() == graph

    @pytest.mark.parametrize(
        ("topology", "is_transitive"),
        [
            (UniRing(2, 5).topology(), True),
            (BiRing(2, 6).topology(), True),
            (Kautz(2, 1).topology(), True),
            (DirectedCirculant(8, (1, 3)).topology(), True),
            (Kautz(2, 2).topology(), False),
            (parse("ModifiedDeBruijn(2, 3)").topology(), False),
        ],
    )
    def test_orbits(self, topology, is_transitive):
        assert of_topology(topology).is_vertex_transitive == is_transitive

    @pytest.mark.parametrize(
        "topology", [DeBruijn(2, 2).topology(), UniRing(1, 4).topology(), BiRing(4, 4).topology()]
    )
    def test_others_are_refused(self, topology):
        with pytest.raises(ValueError, match="no 2-regular digraph without loops"):
            of_topology(topology)

    def test_text(self):
        assert str(of_topology(BiRing(2, 4).topology())) == "12 03 03 12"


def table():
    lines = (ROOT / "figures" / "exact_frontiers.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(lines[1:]))


def topology_of(row):
    heads = [[int(head) for head in pair] for pair in row["graph"].split()]
    return named([(one, other) for one, other in heads]).topology()


class TestTable:
    def test_it_has_all_graphs_up_to_7_nodes(self):
        rows = table()
        for num_nodes, number in A306827.items():
            here = [row["graph"] for row in rows if row["nodes"] == str(num_nodes)]
            assert len(here) == number
            assert here == [str(graph) for graph in two_regular_digraphs(num_nodes)]

    def test_nothing_is_below_its_bound_nor_dearer_with_more_steps(self):
        for row in table():
            for kind in ("t_b", "bound"):
                steps = [Fraction(row[f"{kind}_plus_{more}"]) for more in (0, 1, 2)]
                assert steps == sorted(steps, reverse=True)
            for more in (0, 1, 2):
                t_b, bound = (Fraction(row[f"{kind}_plus_{more}"]) for kind in ("t_b", "bound"))
                assert Fraction(row["least_t_b"]) <= bound <= t_b
            assert Fraction(row["bound_plus_0"]) <= Fraction(row["bfb_t_b"])

    def test_up_to_6_nodes_every_bound_is_met(self):
        rows = [row for row in table() if int(row["nodes"]) <= 6]
        for row in rows:
            for more in (0, 1, 2):
                assert row[f"t_b_plus_{more}"] == row[f"bound_plus_{more}"]

    def test_verdicts_follow_from_the_numbers(self):
        for row in table():
            bfb, least = Fraction(row["bfb_t_b"]), Fraction(row["least_t_b"])
            reached = [Fraction(row[f"t_b_plus_{more}"]) for more in (0, 1, 2)]
            if bfb == least:
                verdict = "best of all"
            elif reached[0] < bfb:
                verdict = "beaten in its own steps"
            else:
                later = min(reached) < bfb
                verdict = "beaten with more steps" if later else "not beaten here"
            assert row["verdict"] == verdict

    def test_names_and_known_points(self):
        by_name = {row["name"]: row for row in table() if row["name"]}
        for name, row in by_name.items():
            assert of_topology(parse(name).topology()).topology() == topology_of(row)
        found = by_name["Kautz(2, 1)"]
        assert (found["steps"], found["bfb_t_b"]) == ("2", "1")
        assert (found["t_b_plus_0"], found["t_b_plus_1"]) == ("1", "5/6")

    @pytest.mark.parametrize("at", range(0, 80, 13))
    def test_rows_can_be_made_again(self, at):
        row = table()[at]
        topology, steps = topology_of(row), int(row["steps"])
        assert str(measure_topology(topology).cost.t_b) == row["bfb_t_b"]
        assert str(topology_bound(topology).t_b) == row["least_t_b"]
        more = at % 3
        chunks = int(row[f"chunks_plus_{more}"])
        if chunks > 6:
            more, chunks = 0, int(row["chunks_plus_0"])
        answer = exact_schedule(topology, steps + more, chunks)
        assert str(answer.cost.t_b) == row[f"t_b_plus_{more}"]
        assert str(fractional_bound(topology, steps + more)) == row[f"bound_plus_{more}"]
