"""Exact small schedules: against exhaustion, bounds and BFB, and where BFB is not optimal."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import multigraphs

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.compute.symmetry import automorphisms
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.lp import Options, solve
from ocs_codesign.core.topology import Symmetry, Topology
from ocs_codesign.graphs.families.dense import Complete, CompleteBipartite
from ocs_codesign.graphs.families.rings import BiRing, Circulant, DirectedCirculant, UniRing
from ocs_codesign.graphs.families.shifts import GeneralizedKautz, Kautz, ModifiedDeBruijn
from ocs_codesign.schedules.breadth_first.assembly import bfb, bfb_of_chunks
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.stepped.exact import exact_frontier, exact_schedule, fractional_bound
from ocs_codesign.schedules.stepped.exact_program import broadcasts, weighted_bound
from ocs_codesign.verification.schedules import verify

NO_TIME = Options(time_limit_s=0.0)
COLLECTIVES = ("allgather", "reduce-scatter", "allreduce")


def trees(topology, root, num_steps):
    """Every way to bring one chunk of a root to all others: a link and step into every node."""
    others = [node for node in range(topology.num_nodes) if node != root]
    ways = [
        [(link, step) for link in np.flatnonzero(topology.head == node).tolist() for step in steps]
        for node in others
        for steps in [range(1, num_steps + 1)]
    ]
    for chosen in product(*ways):
        since = {root: 0, **{node: step for node, (_, step) in zip(others, chosen, strict=True)}}
        if all(since[int(topology.tail[link])] < step for link, step in chosen):
            yield chosen


def exhaustive_total(topology, num_steps):
    """Least sum of largest loads of one-chunk allgathers, by trying all of them."""
    options = [list(trees(topology, root, num_steps)) for root in range(topology.num_nodes)]
    used = np.zeros((topology.num_links, num_steps + 1), dtype=int)

    def fits(root, most):
        if root == len(options):
            return True
        for tree in options[root]:
            for link, step in tree:
                used[link, step] += 1
            ok = all(used[link, step] <= most[step - 1] for link, step in tree)
            ok = ok and fits(root + 1, most)
            for link, step in tree:
                used[link, step] -= 1
            if ok:
                return True
        return False

    for total in count(0):
        for most in product(range(total + 1), repeat=num_steps):
            if sum(most) == total and fits(0, most):
                return Fraction(total)
    raise AssertionError


def two_regular(seed, num_nodes):
    """A strongly connected 2-regular digraph without loops and parallel links."""
    random, nodes = np.random.default_rng(seed), np.arange(num_nodes)
    while True:
        heads = np.stack([random.permutation(num_nodes), random.permutation(num_nodes)], axis=1)
        topology = Topology(num_nodes, np.repeat(nodes, 2), heads.ravel())
        is_simple = not topology.has_self_loops() and (heads[:, 0] != heads[:, 1]).all()
        if is_simple and topology.distances().min() >= 0:
            return topology


def check(topology, answer, collective):
    """What holds for every answer with a schedule."""
    verdict = verify(answer.schedule, answer.cost)
    assert verdict.ok, verdict.witness
    assert answer.schedule.topology == topology
    assert answer.schedule.num_chunks == answer.num_chunks
    assert answer.schedule.collective.name == collective
    assert answer.cost.steps <= answer.num_steps
    assert topology_bound(topology, collective).t_b <= answer.limit
    assert answer.limit <= answer.bound <= answer.cost.t_b
    assert answer.is_optimal == (answer.bound == answer.cost.t_b)
    assert answer.status.startswith("optimal" if answer.is_optimal else "time limit")


class TestWhereBfbIsNotOptimal:
    @pytest.mark.parametrize(
        ("num_chunks", "t_b"), [(1, "1"), (2, "5/6"), (3, "8/9"), (4, "5/6"), (6, "5/6")]
    )
    def test_kautz_in_3_steps(self, num_chunks, t_b):
        answer = exact_schedule(Kautz(2, 1).topology(), 3, num_chunks)
        check(Kautz(2, 1).topology(), answer, "allgather")
        assert answer.cost.t_b == Fraction(t_b)
        assert answer.is_optimal
        assert answer.limit == Fraction(5, 6)

    def test_kautz_beats_bfb_only_with_a_step_more(self):
        assert verify(bfb(Kautz(2, 1).topology())).cost == Cost(2, Fraction(1))
        assert fractional_bound(Kautz(2, 1).topology(), 2) == 1
        costs = [answer.cost for answer in exact_frontier(Kautz(2, 1).topology(), 6, 2)]
        assert costs == [Cost(2, Fraction(1)), Cost(3, Fraction(5, 6))]

    @pytest.mark.parametrize("collective", COLLECTIVES[1:])
    def test_kautz_backwards(self, collective):
        answers = exact_frontier(Kautz(2, 1).topology(), 6, 2, collective)
        for answer in answers:
            check(Kautz(2, 1).topology(), answer, collective)
        t_b = [str(answer.cost.t_b) for answer in answers]
        assert t_b == (["1", "5/6"] if collective == "reduce-scatter" else ["2", "11/6", "5/3"])

    @pytest.mark.parametrize(
        ("d", "n", "num_chunks"),
        [
            (2, 2, 2),
            (2, 3, 2),
            (3, 2, 3),
            pytest.param(2, 4, 2, marks=pytest.mark.slow),
            pytest.param(4, 2, 4, marks=pytest.mark.slow),
        ],
    )
    def test_modified_de_bruijn(self, d, n, num_chunks):
        topology = ModifiedDeBruijn(d, n).topology()
        assert topology.is_regular
        assert not topology.has_self_loops()
        assert len({*zip(topology.tail.tolist(), topology.head.tolist(), strict=True)}) == d ** (
            n + 1
        )
        answer = exact_schedule(topology, n + 1, num_chunks)
        check(topology, answer, "allgather")
        # Published: n + 1 steps, as many bytes as must come in. (2, 2) needs a step less.
        assert answer.cost == Cost(2 if n == d == 2 else n + 1, 1 - Fraction(1, d**n))

    @pytest.mark.slow
    def test_only_loops_rewired_is_not_optimal(self):
        tail = np.repeat(np.arange(16), 2)
        head = (2 * tail + np.tile([0, 1], 16)) % 16
        head[0], head[-1] = 15, 0
        assert fractional_bound(Topology(16, tail, head), 5) == Fraction(79, 80)


class TestAgainstExhaustion:
    @pytest.mark.parametrize("extra_steps", [0, 1])
    @pytest.mark.parametrize(
        "topology",
        [
            Complete(3).topology(),
            BiRing(2, 3).topology(),
            UniRing(2, 3).topology(),
            Complete(4).topology(),
            UniRing(1, 4).topology(),
            BiRing(2, 4).topology(),
            ModifiedDeBruijn(2, 2).topology(),
            DirectedCirculant(4, (1, 2)).topology(),
            GeneralizedKautz(2, 3).topology(),
            two_regular(0, 4),
            Topology(3, [0, 0, 1, 2, 2], [1, 2, 2, 0, 0]),
            Topology(4, [0, 1, 2, 3, 0, 2], [1, 2, 3, 0, 2, 1]),
        ],
    )
    def test_one_chunk(self, topology, extra_steps):
        num_steps = topology.diameter() + extra_steps
        answer = exact_schedule(topology, num_steps, 1)
        check(topology, answer, "allgather")
        assert answer.is_optimal
        assert answer.cost.t_b == topology.t_b(exhaustive_total(topology, num_steps))


class TestProperties:
    @settings(max_examples=12)
    @given(
        topology=multigraphs(max_nodes=5, max_extra=5),
        extra_steps=st.integers(0, 1),
        collective=st.sampled_from(COLLECTIVES[:2]),
    )
    def test_never_below_the_bound_nor_above_bfb(self, topology, extra_steps, collective):
        eager = bfb(topology, collective)
        if eager.num_chunks > 6:
            return
        num_steps = eager.num_steps + extra_steps
        limit = Options(node_limit=1000)
        answer = exact_schedule(topology, num_steps, eager.num_chunks, collective, limit)
        check(topology, answer, collective)
        assert answer.cost.t_b <= verify(eager).cost.t_b
        assert fractional_bound(topology, num_steps, collective) == answer.limit

    @pytest.mark.parametrize("num_nodes", [5, 6, 7, pytest.param(8, marks=pytest.mark.slow)])
    def test_2_regular_digraphs(self, num_nodes):
        topology = two_regular(num_nodes, num_nodes)
        answers = exact_frontier(topology, topology.diameter() + 1, 2)
        best = verify(bfb(topology)).cost
        for answer in answers:
            check(topology, answer, "allgather")
            assert answer.is_optimal
        t_b = [answer.cost.t_b for answer in answers]
        assert t_b == sorted(set(t_b), reverse=True)
        assert (answers[0].cost.steps, t_b[0]) <= (best.steps, best.t_b)

    @pytest.mark.parametrize("collective", COLLECTIVES)
    def test_invariant_schedules_meet_the_bound(self, collective):
        for topology in (
            Circulant(7, (2, 3)).topology(),
            CompleteBipartite(2).topology(),
            DirectedCirculant(8, (1, 3)).topology(),
        ):
            bound = topology_bound(topology, collective)
            chunks = bfb(topology, collective).num_chunks
            answer = exact_schedule(topology, bound.steps, chunks, collective, NO_TIME)
            check(topology, answer, collective)
            assert answer.cost == bound

    def test_more_steps_are_no_worse_and_idle_ones_are_left_out(self):
        answer = exact_schedule(Complete(4).topology(), 3, 1)
        assert answer.cost == Cost(1, Fraction(3, 4))
        assert answer.num_steps == 3

    def test_the_same_answer_twice(self):
        first, second = (exact_schedule(two_regular(3, 6), 4, 2) for _ in range(2))
        assert first.schedule == second.schedule
        assert first.status == second.status

    def test_whole_shards_may_be_best(self):
        """Two chunks cannot beat one here, and one is found first."""
        topology = two_regular(2, 6)
        one, two = (exact_schedule(topology, 3, num_chunks) for num_chunks in (1, 2))
        assert two.cost.t_b <= one.cost.t_b
        assert two.limit == one.limit

    def test_unequal_speeds(self):
        topology = Topology(3, [0, 0, 1, 1, 2, 2], [1, 2, 2, 0, 0, 1], [3, 2, 3, 2, 3, 2])
        answer = exact_schedule(topology, 2, 5)
        check(topology, answer, "allgather")
        # Two shards enter every node over links of total speed 5 in both steps together.
        assert answer.limit == Fraction(2, 3)
        assert answer.is_optimal

    def test_allreduce_chooses_the_better_split(self):
        topology = two_regular(1, 6)
        num_steps = 2 * topology.diameter() + 1
        answer = exact_schedule(topology, num_steps, 2, "allreduce")
        check(topology, answer, "allreduce")
        splits = [
            [exact_schedule(topology, steps, 2, half).cost.t_b for half, steps in pair]
            for first in (topology.diameter(), topology.diameter() + 1)
            for pair in [[("reduce-scatter", first), ("allgather", num_steps - first)]]
        ]
        assert answer.cost.t_b == min(map(sum, splits))


class TestHowItEnds:
    def test_out_of_time_leaves_the_best_that_is_known(self):
        answer = exact_schedule(Kautz(2, 1).topology(), 3, 2, options=NO_TIME)
        check(Kautz(2, 1).topology(), answer, "allgather")
        assert not answer.is_optimal
        assert answer.status == (
            "time limit: t_b 1 was found, no schedule of 3 steps and 2 chunks a shard has less "
            "than t_b 5/6 (gap 20.00%)"
        )

    def test_out_of_time_where_bfb_needs_other_chunks(self):
        assert bfb(BiRing(2, 4).topology()).num_chunks == 2
        answer = exact_schedule(BiRing(2, 4).topology(), 2, 1, options=NO_TIME)
        check(BiRing(2, 4).topology(), answer, "allgather")
        assert answer.schedule == bfb_of_chunks(BiRing(2, 4).topology(), 1)

    def test_fewer_steps_than_the_diameter(self):
        answer = exact_schedule(Kautz(2, 1).topology(), 1, 2)
        assert answer.status == ("no schedule: 1 step is too few, allgather takes at least 2 here")
        assert (answer.schedule, answer.value, answer.limit) == (None, None, None)
        assert not answer.is_optimal
        assert exact_frontier(Kautz(2, 1).topology(), 1, 2) == []
        answer = exact_schedule(Kautz(2, 1).topology(), 3, 2, "allreduce")
        assert answer.status.endswith("allreduce takes at least 4 here")
        with pytest.raises(ValueError, match="too few, reduce-scatter takes at least 2"):
            fractional_bound(Kautz(2, 1).topology(), 1, "reduce-scatter")

    def test_the_frontier_ends_at_the_bandwidth_bound(self):
        (answer,) = exact_frontier(UniRing(1, 5).topology(), 12, 1)
        assert answer.cost == Cost(4, Fraction(4, 5))
        assert answer.status == "optimal: no schedule of 4 steps has less than t_b 4/5"

    def test_optimal_for_the_chunks_only(self):
        assert exact_schedule(Kautz(2, 1).topology(), 3, 1).status == (
            "optimal: no schedule of 3 steps and 1 chunk a shard has less than t_b 1 "
            "(with any number of chunks: 5/6)"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((Kautz(2, 1).topology(), 3, 2, "alltoall"), "exact schedules are of allgather"),
            ((Topology(1, [0], [0]), 1, 1), "at least two nodes"),
            ((Topology(2, [0], [1]), 1, 1), "not strongly connected"),
            ((Kautz(2, 1).topology(), 0, 1), "num_steps is 0"),
            ((Kautz(2, 1).topology(), 3, 0), "num_chunks is 0"),
            (
                (Kautz(2, 1).topology(), 3, 500),
                "a product of 108,000: exact schedules take at most 100,000",
            ),
            ((Topology(2, [0, 1], [1, 0], [65537, 3]), 1, 1), "at most 65536"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            exact_schedule(*arguments)


class TestParts:
    def test_automorphisms_map_links_to_links(self):
        for topology in (
            Circulant(8, (1, 2)).topology(),
            ModifiedDeBruijn(3, 2).topology(),
            UniRing(2, 5).topology(),
        ):
            nodes, links = automorphisms(topology, 0)
            orbit = np.flatnonzero(topology.symmetry.node_orbit == topology.symmetry.node_orbit[0])
            assert nodes[:, 0].tolist() == orbit.tolist()
            assert (topology.tail[links] == nodes[:, topology.tail]).all()
            assert (topology.head[links] == nodes[:, topology.head]).all()
            assert all(sorted(row) == list(range(topology.num_links)) for row in links.tolist())

    def test_a_false_symmetry_is_noticed(self):
        links = [0, 1, 2, 3], [1, 2, 3, 0]
        false = Symmetry(np.zeros(4, dtype=np.int32), np.array([0, 1, 0, 1], dtype=np.int32))
        with pytest.raises(ValueError, match="does not map the links"):
            automorphisms(Topology(4, *links, symmetry=false), 0)
        with pytest.raises(ValueError, match="declares no symmetry"):
            automorphisms(Topology(4, *links), 0)

    def test_cuts_are_violated_as_claimed(self):
        model = broadcasts(Kautz(2, 1).topology(), 3, invariant=False)
        amounts = np.random.default_rng(0).integers(0, 2, model.num_sends)
        cuts = model.violated_cuts(amounts, 2)
        assert len(cuts)
        assert all(amounts[model.crossing(cut)].sum() < 2 for cut in cuts)
        assert not len(model.violated_cuts(np.full(model.num_sends, 2), 2))

    def test_weights_of_cuts_prove_no_more_than_the_optimum(self):
        model = broadcasts(Kautz(2, 1).topology(), 3, invariant=False)
        cuts = model.first_cuts()
        solution = solve(model.relaxed_program(cuts))
        weights = np.maximum(solution.row_duals[-len(cuts) :], 0)
        optimum = Fraction(5, 2)
        assert optimum * (1 - Fraction(1, 10**6)) < weighted_bound(model, cuts, weights) <= optimum
        random = np.random.default_rng(0)
        for _ in range(10):
            assert 0 < weighted_bound(model, cuts, random.random(len(cuts))) <= optimum

    @pytest.mark.parametrize("num_chunks", [1, 2, 3, 5])
    def test_bfb_of_whole_chunks(self, num_chunks):
        for topology in (
            Kautz(2, 1).topology(),
            UniRing(3, 4).topology(),
            GeneralizedKautz(2, 8).topology(),
            Complete(4).topology(),
        ):
            verdict = verify(bfb_of_chunks(topology, num_chunks))
            assert verdict.ok
            assert verdict.cost.steps == topology.diameter()
            rounded = [
                Fraction(ceil(load * num_chunks), num_chunks) for load in bfb_loads(topology)
            ]
            assert list(verdict.max_loads) == rounded
