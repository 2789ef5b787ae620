"""Late schedules: against all arrivals there are, exact schedules, cuts, and the checker."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_oracle import is_valid
from samples import loaded_topologies

from ocs_codesign import exact_schedule, verify
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.lp import Options
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.families.shifts import GeneralizedKautz, Kautz
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.stepped import late as answers
from ocs_codesign.schedules.stepped import late as chunks
from ocs_codesign.schedules.stepped.exact import fractional_bound
from ocs_codesign.schedules.stepped.late import Master, late_schedule

SEVENTEEN = (
    "Lift(Cyclic(1), ((7, 10), (4, 15), (8, 10), (11, 13), (3, 5), (6, 14), (0, 16), (5, 16), "
    "(1, 7), (1, 3), (13, 14), (2, 9), (2, 4), (6, 12), (8, 11), (0, 12), (9, 15)))"
)
NINETEEN = (
    "Lift(Cyclic(1), ((6, 11), (12, 15), (16, 18), (9, 12), (8, 13), (0, 15), (1, 4), (1, 4), "
    "(3, 10), (13, 16), (5, 7), (2, 10), (17, 18), (0, 2), (8, 17), (9, 14), (7, 14), (6, 11), "
    "(3, 5)))"
)


def least_by_all_arrivals(topology: Topology, num_steps: int) -> float:
    """The least sum of largest loads: the program of all steps at which all nodes get a part."""
    from scipy.optimize import linprog

    nodes, links = range(topology.num_nodes), range(topology.num_links)
    tail, head = topology.tail.tolist(), topology.head.tolist()
    speed = topology.speeds().tolist()
    cost = [1.0] * num_steps
    equal, sides = [], []
    loads = {
        (link, step): {step: -float(speed[link])} for link in links for step in range(num_steps)
    }
    for root in nodes:
        others = [node for node in nodes if node != root]
        kinds = []
        for steps in product(range(num_steps), repeat=len(others)):
            at = dict(zip(others, steps, strict=True)) | {root: -1}
            into = {v: [e for e in links if head[e] == v and at[tail[e]] < at[v]] for v in others}
            if not all(into.values()):
                continue
            kind = len(cost)
            cost.append(0.0)
            kinds.append(kind)
            for node, usable in into.items():
                row = {kind: -1.0}
                for link in usable:
                    row[len(cost)] = 1.0
                    loads[link, at[node]][len(cost)] = 1.0
                    cost.append(0.0)
                equal.append(row)
                sides.append(0.0)
        equal.append(dict.fromkeys(kinds, 1.0))
        sides.append(1.0)

    def matrix(rows):
        dense = np.zeros((len(rows), len(cost)))
        for at, row in enumerate(rows):
            dense[at, list(row)] = list(row.values())
        return dense

    upper = matrix(list(loads.values()))
    found = linprog(cost, upper, np.zeros(len(upper)), matrix(equal), sides, (0, inf))
    assert found.status == 0
    return found.fun


@st.composite
def digraphs(draw, most=6):
    """Regular digraphs that are strongly connected: a cycle and permutations, loops and all."""
    nodes = draw(st.integers(3, most))
    cycle = [(node + 1) % nodes for node in range(nodes)]
    more = draw(st.lists(st.permutations(range(nodes)), min_size=1, max_size=2))
    heads = np.array([cycle, *more])
    return Topology(nodes, np.tile(np.arange(nodes), len(heads)), heads.ravel())


class TestKnown:
    @pytest.mark.parametrize(
        ("recipe", "steps", "t_b", "chunks"),
        [
            ("Kautz(2, 1)", 2, "1", 1),
            ("Kautz(2, 1)", 3, "5/6", 2),
            ("GeneralizedKautz(2, 12)", 4, "29/30", 5),
            (SEVENTEEN, 4, "16/17", 1),
            pytest.param(NINETEEN, 4, "18/19", 1, id="nineteen"),
        ],
    )
    def test_the_least_t_b_of_so_many_steps(self, recipe, steps, t_b, chunks):
        topology = parse(recipe).topology()
        answer = late_schedule(topology, steps)
        assert (answer.cost, answer.is_optimal) == (Cost(steps, Fraction(t_b)), True)
        assert verify(answer.schedule, answer.cost).ok
        assert is_valid(answer.schedule)
        assert answer.schedule.num_chunks == chunks

    def test_it_takes_fewer_chunks_and_less_than_bfb_where_paths_are_longer(self):
        topology = parse(NINETEEN).topology()
        assert measure_topology(topology).cost == Cost(4, 1)
        made = late_schedule(topology, 4).schedule
        hops = topology.distances()[made.root, topology.head[made.link]]
        assert (made.step > hops).any()

    def test_reduce_scatter_is_of_the_transpose(self):
        topology = parse(SEVENTEEN).topology()
        answer = late_schedule(topology, 4, "reduce-scatter")
        assert (
            answer.cost == late_schedule(topology.transpose(), 4).cost == Cost(4, Fraction(18, 17))
        )
        assert measure_topology(topology, "reduce-scatter").cost == Cost(4, Fraction(20, 17))

    def test_allreduce_splits_its_steps(self):
        topology = Kautz(2, 1).topology()
        costs = [late_schedule(topology, steps, "allreduce").cost for steps in (4, 5, 6)]
        assert costs == [Cost(4, 2), Cost(5, Fraction(11, 6)), Cost(6, Fraction(5, 3))]


class TestAgainstOthers:
    @pytest.mark.parametrize("at", range(6))
    @pytest.mark.parametrize("more", [0, 1])
    def test_all_arrivals_have_no_less(self, at, more):
        topology = loaded_topologies()[at]
        steps = topology.diameter() + more
        if steps ** (topology.num_nodes - 1) > 100:
            steps = topology.diameter()
        answer = late_schedule(topology, steps)
        unit = topology.t_b(Fraction(1))
        least = least_by_all_arrivals(topology, steps) * float(unit)
        assert float(answer.bound) == pytest.approx(least, rel=1e-4)
        assert answer.bound <= answer.cost.t_b

    @settings(max_examples=4)
    @given(digraphs(), st.integers(0, 1))
    def test_exact_schedules_have_no_less_and_cuts_no_more(self, topology, more):
        steps = topology.diameter() + more
        answer = late_schedule(topology, steps)
        assert is_valid(answer.schedule)
        assert answer.cost.steps <= steps
        exact = exact_schedule(topology, steps, 1, options=Options(node_limit=1000))
        assert answer.bound <= answer.cost.t_b <= exact.cost.t_b
        assert answer.cost.t_b <= measure_topology(topology).cost.t_b
        # The bound is rounded to prices of 16 bits, the cuts' is exact.
        assert answer.bound >= fractional_bound(topology, steps) * (1 - Fraction(1, 2**10))

    def test_a_symmetry_changes_the_work_not_the_answer(self):
        topology = Kautz(2, 1).topology()
        plain = Topology(6, topology.tail, topology.head)
        assert parse("Kautz(2, 1)").topology().symmetry is not None
        costs = {late_schedule(graph, 3).cost for graph in (topology, plain)}
        assert costs == {Cost(3, Fraction(5, 6))}

    def test_a_step_more_is_never_worse(self):
        topology = parse("ModifiedDeBruijn(2, 3)").topology()
        costs = [late_schedule(topology, steps).cost.t_b for steps in (4, 5)]
        assert costs == [Fraction(7, 8)] * 2
        costs = [late_schedule(Kautz(2, 2).topology(), steps).cost.t_b for steps in (3, 4)]
        assert costs == [Fraction(7, 6), Fraction(29, 30)]


class TestLimits:
    def test_few_chunks_cost(self):
        topology = GeneralizedKautz(2, 12).topology()
        answers = [late_schedule(topology, 4, max_chunks=most) for most in (1, 3, 8)]
        assert answers[0].schedule.num_chunks == 1
        assert answers[1].schedule.num_chunks <= 3
        costs = [answer.cost.t_b for answer in answers]
        assert costs == sorted(costs, reverse=True)
        assert costs[0] > costs[-1] == Fraction(29, 30)
        assert not answers[0].is_optimal
        assert answers[0].status.startswith("t_b 1 was found, no schedule of 4 steps has less than")

    def test_without_a_time_limit_only_nodes_are_limited(self, monkeypatch):
        given = []

        def solve(program, options):
            given.append((program.is_mixed_integer, options))
            return solved(program, options=options)

        solved = chunks.solve
        monkeypatch.setattr(chunks, "solve", solve)
        topology = GeneralizedKautz(2, 12).topology()
        answer = late_schedule(topology, 4, options=Options())
        assert answer.is_optimal
        assert {options.time_limit_s for _, options in given} == {None}
        assert 50 in {options.node_limit for whole, options in given if whole}
        few = Options(node_limit=1)
        given.clear()
        one, other = (late_schedule(topology, 4, options=few).schedule for _ in range(2))
        assert {options.node_limit for whole, options in given if whole} == {1}
        for first, second in zip(one.columns(), other.columns(), strict=True):
            assert np.array_equal(first, second)

    def test_without_time_it_is_bfb(self):
        topology = parse(NINETEEN).topology()
        answer = late_schedule(topology, 4, options=Options(time_limit_s=0.0))
        assert answer.cost == Cost(4, 1)
        assert answer.bound == Fraction(18, 19)

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"num_steps": 1}, r"1 steps: allgather takes at least 2 here"),
            ({"num_steps": 3, "collective": "allreduce"}, r"allreduce takes at least 4 here"),
            ({"collective": "alltoall"}, r"not all-to-all"),
            ({"max_chunks": 0}, r"max_chunks is 0"),
            ({"topology": Topology(1, [], [])}, r"at least two nodes"),
            ({"topology": Topology(3, [0, 1, 1], [1, 0, 2])}, r"not strongly connected"),
        ],
    )
    def test_what_cannot_be(self, changes, why):
        given = {"topology": Kautz(2, 1).topology(), "num_steps": 2} | changes
        with pytest.raises(ValueError, match=why):
            late_schedule(**given)

    def test_too_large(self, monkeypatch):
        monkeypatch.setattr(answers, "MAX_SENDS", 100)
        with pytest.raises(ValueError, match=r"product of 2,312: late schedules take at most 100"):
            late_schedule(parse(SEVENTEEN).topology(), 4)

    def test_a_wrong_schedule_never_leaves(self, monkeypatch):
        def early(self, values, num_chunks):
            found = sends_of(self, values, num_chunks)
            found[:, np.flatnonzero(found.any(axis=0))[-1]] = False
            return found

        sends_of = Master.sends_of
        monkeypatch.setattr(Master, "sends_of", early)
        with pytest.raises(RuntimeError, match="the late schedule is wrong"):
            late_schedule(parse(SEVENTEEN).topology(), 4)


class TestCommands:
    def test_cost_of_more_and_more_steps(self, tmp_path, capsys):
        file = tmp_path / "late.json"
        command = ["cost", "Kautz(2, 1)", "--scheduler", "late", "--json", str(file)]
        assert (
            main([*command, "--alpha", "1us", "--bandwidth", "100Gbps", "--message", "1MiB"]) == 0
        )
        answer = json.loads(file.read_text())
        points = [(p["steps"], p["t_b"], p["num_chunks"], p["optimal"]) for p in answer["points"]]
        assert points == [(2, "1", 1, True), (3, "5/6", 2, True)]
        assert answer["bfb"]["t_b"] == "1"
        printed = capsys.readouterr().out
        assert "No number of steps takes less than t_b 5/6" in printed
        assert "72.91 us" in printed

    def test_build_and_verify(self, tmp_path, capsys):
        out = str(tmp_path / "design")
        command = ["build", "GeneralizedKautz(2, 12)", "--scheduler", "late", "--max-steps", "4"]
        assert main([*command, "--max-chunks", "6", "--out", out]) == 0
        assert "no schedule of 4 steps has less than t_b 29/30" in capsys.readouterr().out
        assert main(["verify", out]) == 0

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (["--max-steps", "1"], "--max-steps is 1: allgather takes at least 2 here"),
            (["--exact"], "no --scheduler"),
            (["--chunks", "2"], "--chunks are for --exact"),
            (["--collective", "alltoall"], "--scheduler late is not for alltoall"),
        ],
    )
    def test_what_cannot_be(self, options, why, capsys):
        assert main(["cost", "Kautz(2, 1)", "--scheduler", "late", *options]) == 2
        assert why in capsys.readouterr().err
