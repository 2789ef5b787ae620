"""Searches between the fewest steps and the least t_b: exact scores, seeds, and what they find."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from math import lcm

import numpy as np
import pytest
from folders import DATA
from hypothesis import given
from hypothesis import strategies as st
from strategies import permutation_digraph

from ocs_codesign.core.bounds import fewest_steps, least_t_b
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.kernels import compiled
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.expansions.edits import Excise, Insert, Swap
from ocs_codesign.graphs.expansions.late import Late
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.families.affine import AffineSpliced
from ocs_codesign.graphs.families.cayley import Cayley, Lift
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.groups.semidirect import Dihedral, Semidirect
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search import lifts as swaps
from ocs_codesign.search.bases import Effort, cayley_recipe
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.edited import (
    _dependent,
    _edit,
    _edited_within,
    _late_on_lifts,
    _late_on_neighbours,
    _row,
    _sampled,
    _scored,
    edited_recipes,
    filled,
    neighbours,
    open_steps,
)
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.search.generators import (
    _groups,
    _representatives,
    affine_recipes,
    multiplication_table,
)
from ocs_codesign.search.lifts import annealed, swapped, swaps_between
from ocs_codesign.search.move_kernels import hops_beyond
from ocs_codesign.search.move_kernels import measure as score
from ocs_codesign.search.pool import measured_both_ways
from ocs_codesign.search.score_kernels import score_affine, splice
from ocs_codesign.search.slack import _edits, singles, slack_recipes

DATA = DATA / "every_size.txt"


def shares(degree):
    unit = lcm(*range(1, degree + 1))
    return unit, np.array([0] + [unit // s.bit_count() for s in range(1, 1 << degree)])


@pytest.mark.parametrize(("nodes", "degree"), [(13, 3), (12, 2), (15, 3), (21, 4), (30, 3)])
def test_affine_scores_are_exact_bfb_loads(nodes, degree):
    unit, share = shares(degree)
    rng = np.random.default_rng(nodes)
    units = np.array([q for q in range(1, nodes) if np.gcd(q, nodes) == 1])
    scored = 0
    for _ in range(40):
        q = int(rng.choice(units))
        shifts = np.array([rng.permutation(nodes)[:degree]])
        recipe = AffineSpliced(nodes, q, tuple(shifts[0].tolist()))
        into = np.empty(nodes * degree, dtype=np.int32)
        looped = np.empty(nodes * degree, dtype=np.int64)
        compiled(splice)(nodes, q, shifts[0], into, looped)
        topology = recipe.topology()
        expected = sorted(zip(topology.head.tolist(), topology.tail.tolist(), strict=True))
        assert sorted(zip(np.arange(nodes * degree) // degree, into, strict=True)) == expected
        least, best = np.full(nodes + 1, 1 << 60), np.full(nodes + 1, -1)
        turn = np.arange(nodes)
        arrays = (np.array([q]), shifts, turn, share, 1 << 40, least, best)
        compiled(score_affine)(nodes, *arrays)
        if (topology.distances() < 0).any():
            assert (best == -1).all()
            continue
        loads, scored = bfb_loads(topology), scored + 1
        assert np.flatnonzero(best == 0)[0] == len(loads)
        assert Fraction(int(least[len(loads)]), unit) == sum(loads)
    assert scored > 5


def test_groups_permute_shifts_and_stand_for_receivers():
    assert [len(group) for group in _groups(1021, 4)] == [4, 3, 2, 1]
    assert [len(group) for group in _groups(509, 2)] == [2, 1]
    for nodes, degree in ((61, 4), (45, 3), (997, 3)):
        for group in _groups(nodes, degree):
            assert {a * b % nodes for a in group for b in group} == set(group)
            reached = {x * a % nodes for x in _representatives(nodes, group) for a in group}
            assert reached == set(range(nodes))


@pytest.mark.parametrize("question", [Question(61, 4), Question(45, 3), Question(20, 2)])
def test_affine_digraphs_that_are_found(question):
    found = affine_recipes(question, Effort(work=2**14))
    assert found == affine_recipes(question, Effort(work=2**14))
    assert found
    for recipe in found:
        assert question.is_answered_by(recipe)
        assert measure(recipe).cost.steps < 12
    assert affine_recipes(question, Effort(work=0)) == []


@pytest.mark.parametrize(
    "question",
    [Question(4, 2), Question(5, 3), Question(6, 4), Question(3, 2), Question(7, 2, True)],
)
def test_affine_search_ends_where_there_is_little_to_find(question):
    assert isinstance(affine_recipes(question, Effort(work=2**8)), list)


@given(st.integers(2, 70), st.integers(2, 5), st.integers(0, 3))
def test_scores_of_swaps_are_exact_bfb_loads(nodes, degree, seed):
    topology = permutation_digraph(nodes, degree, seed)
    slots, _ = swaps._slots(topology)
    unit, share = shares(degree)
    share = np.concatenate([share, share])[: 1 << max(3, degree)] if degree < 3 else share
    words = np.empty((2, nodes, -(-nodes // 64)), dtype=np.uint64)
    confined = np.empty((nodes, len(share)), dtype=np.int32)
    work = (words[0], words[1], np.empty(nodes, dtype=np.int64), confined)
    busy = np.zeros(nodes, dtype=np.int64)
    distances = topology.distances()
    far, total, _, num_busy = compiled(score)(slots, share, nodes, work, busy, 1e18)
    assert far == (distances < 0).sum()
    assert 0 < num_busy <= nodes
    if not far:
        assert Fraction(int(total), unit) == sum(bfb_loads(topology))
    far, *_ = compiled(score)(slots, share, 2, work, busy, 1e18)
    assert far == ((distances > 2) | (distances < 0)).sum()


@given(st.integers(3, 20), st.integers(1, 3), st.integers(0, 99))
def test_swaps_lead_to_the_wanted_links(nodes, degree, seed):
    topology = permutation_digraph(nodes, degree, seed)
    heads = np.random.default_rng(seed).permutation(topology.head)
    pairs = swaps_between(topology, topology.tail.astype(np.int64), heads)
    head = topology.head.tolist()
    for one, other in pairs:
        head[one], head[other] = head[other], head[one]
    found = sorted(zip(topology.tail.tolist(), head, strict=True))
    assert found == sorted(zip(topology.tail.tolist(), heads.tolist(), strict=True))
    assert len(pairs) < max(2, topology.num_links)


@pytest.mark.parametrize("question", [Question(12, 2), Question(14, 3), Question(14, 3, True)])
def test_climbs_never_make_a_start_worse(question):
    start = annealed(question, 9, 1, seed=3)
    costs = [measure(start).cost]
    for moves in (20, 200, 2000):
        recipe = swapped(question, start, costs[0].steps, moves, seed=1)
        assert question.is_answered_by(recipe)
        assert recipe == swapped(question, start, costs[0].steps, moves, seed=1)
        assert parse(repr(recipe)) == recipe
        costs.append(measure(recipe).cost)
        assert costs[-1].steps <= costs[0].steps
    assert [cost.t_b for cost in costs[1:]] == sorted((c.t_b for c in costs[1:]), reverse=True)
    assert costs[-1].t_b < costs[0].t_b
    assert isinstance(recipe, Swap)


@pytest.mark.parametrize(
    ("question", "steps", "t_b"),
    [
        (Question(9, 2), 3, "8/9"),
        (Question(18, 2), 4, "19/18"),
        (Question(15, 4, True), 2, "16/15"),
        (Question(18, 3, True), 3, "1"),
        (Question(29, 4, True), 3, "28/29"),
        (Question(32, 3, True), 4, "31/32"),
    ],
)
def test_annealing_reaches_what_is_known_of_small_sizes(question, steps, t_b):
    recipe = annealed(question, steps, 20_000, seed=1)
    assert isinstance(recipe, Lift)
    assert question.is_answered_by(recipe)
    cost = measure(recipe).cost
    assert cost.steps <= steps
    assert cost.t_b <= Fraction(t_b)


def test_no_two_way_digraph_of_odd_ports():
    assert annealed(Question(9, 3, True), 4, 10, seed=1) is None
    assert annealed(Question(30, 2), 4, 10, seed=1) is None  # too few steps to be found


def test_neighbours_are_near_and_good():
    question = Question(997, 3)
    near = neighbours(question)
    assert near
    for design in near:
        assert 0 < abs(design.recipe.num_nodes - 997) <= 8
        assert design.cost_of(Collective.ALLGATHER).steps <= fewest_steps(997, 3) + 2
    far = [design.cost_of(Collective.ALLGATHER).t_b >= Fraction(21, 20) for design in near]
    assert far == sorted(far)
    assert len(set(far)) == 2


@pytest.mark.slow
def test_late_schedules_of_edited_neighbours_have_the_steps_that_a_size_lacks():
    """644 nodes of three links in seven steps: half above the bound by BFB, now a hundredth."""
    question = Question(644, 3)
    with Catalogue() as store:
        stored = [entry.design() for entry in store.entries(question)]
    known = [one for one in stored if one.cost_of(Collective.ALLGATHER).steps != 7]
    recipes = _late_on_neighbours(question, known, neighbours(question), Effort(work=2**17), [7])
    assert recipes
    least = least_t_b(644, 3, 7)
    for recipe in recipes:
        assert isinstance(recipe, Late)
        assert isinstance(recipe.g, Excise | Insert)
    costs = [measure(recipe).cost for recipe in recipes]
    assert min(cost.t_b for cost in costs if cost.steps <= 7) < least * Fraction(102, 100)
    assert _late_on_neighbours(question, stored, [], Effort(work=2**17), [7]) == []


def test_edits_of_neighbours_are_seeded():
    question = Question(29, 3)
    near = neighbours(question)[:3]
    found = edited_recipes(question, near, 2**20, seed=1)
    assert found == edited_recipes(question, near, 2**20, seed=1)
    assert found != edited_recipes(question, near, 2**20, seed=2)
    assert all(question.is_answered_by(recipe) for recipe in found)
    assert edited_recipes(question, [], 2**20, seed=1) == []


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("Cayley(Cyclic(16), (1, 3, 5))", 15),
        ("DirectedCirculant(13, (1, 3))", 14),
        ("Line(Complete(4))", 10),
        ("Line(Complete(4))", 14),
        ("GeneralizedKautz(3, 14)", 12),
        ("GeneralizedKautz(4, 19)", 21),
        ("AffineSpliced(17, 3, (0, 1, 5))", 16),
    ],
)
def test_edits_are_scored_exactly(text, nodes):
    """What the kernel keeps has the cost that BFB has on what the recipe builds."""
    start = measure(text, "allreduce")
    found = edited_recipes(Question(nodes, start.recipe.degree), [start], 2**22, seed=3)
    assert found
    costs = [measure(recipe).cost for recipe in found]
    assert [cost.steps for cost in costs] == sorted({cost.steps for cost in costs})
    assert [cost.t_b for cost in costs] == sorted((c.t_b for c in costs), reverse=True)
    best = costs[-1]
    question = Question(nodes, start.recipe.degree)
    assert best not in [
        measure(recipe).cost for recipe in edited_recipes(question, [start], 2**22, 3, [best])
    ]
    beaten = Cost(best.steps, best.t_b + Fraction(1, 1000))
    again = edited_recipes(question, [start], 2**22, 3, [beaten])
    assert best in [measure(recipe).cost for recipe in again]


def test_every_cut_and_insertion_has_the_load_of_what_is_built():
    """Row by row: the compiled loops, run as written, against BFB on the recipe's topology."""
    base = parse("GeneralizedKautz(3, 11)")
    rng = np.random.default_rng(5)
    for wanted in (10, 12):
        topology = base.topology()
        rows = _sampled(base, topology, [], wanted, 12, rng, np.zeros(topology.num_links))
        for row in rows:
            least = np.full(8, 1 << 60, dtype=np.int64)
            best = _scored(topology, row[None], wanted, least)
            try:
                loads = bfb_loads(_edit(base, (_row(base, [], row, wanted),), wanted).topology())
            except ValueError:  # a loop that cannot be joined
                assert (best < 0).all()
                continue
            assert least[-1] == sum(loads) * 6
            assert (best >= 0).argmax() == len(loads)


def test_steps_that_are_open():
    question = Question(37, 4)
    bad = measure("GeneralizedKautz(4, 37)", "allreduce")
    assert open_steps([], question) == [3, 4, 5, 6]
    assert open_steps([bad], question) == [3, 4, 5, 6]
    good = measure("DirectedCirculant(37, (1, 5, 8, 17))", "allreduce")
    assert len(open_steps([good], question)) <= good.cost_of(Collective.ALLGATHER).steps - 3


def test_filling_improves_a_prime():
    question, effort = Question(37, 4), Effort(work=2**14)
    known = [measure("GeneralizedKautz(4, 37)", "allreduce")]
    found = filled(question, known, [], effort, measured_both_ways)
    assert found == filled(question, known, [], effort, measured_both_ways)
    assert min(one.cost_of(Collective.ALLGATHER).t_b for one in found) < Fraction(44, 37)
    assert filled(question, known, [], Effort(work=0), measured_both_ways) == []


def wanted():
    """The lines that must be met, and recipes of designs that meet them: nodes, degree, ..."""
    for line in DATA.read_text().splitlines():
        if line and not line.startswith("#"):
            nodes, degree, two_way, steps, t_b, recipe = line.split(maxsplit=5)
            yield (
                Question(int(nodes), int(degree), two_way == "1"),
                int(steps),
                Fraction(t_b),
                recipe,
            )


@pytest.mark.parametrize("row", list(wanted()), ids=lambda row: f"{row[0].num_nodes}-{row[1]}")
def test_stored_designs_meet_what_is_wanted(row):
    question, steps, t_b, text = row
    recipe = parse(text)
    assert question.is_answered_by(recipe)
    loads = bfb_loads(recipe.topology())
    assert len(loads) <= steps
    assert recipe.topology().t_b(sum(loads)) <= t_b


@pytest.mark.slow
@pytest.mark.parametrize("row", list(wanted())[:1], ids=lambda row: f"{row[0].num_nodes}-{row[1]}")
def test_a_cold_search_finds_as_good(row):
    question, steps, t_b, _ = row
    both = question.bidirectional
    sizes = (question.num_nodes, question.degree)
    answer = frontier(*sizes, bidirectional=both, effort=Effort(seed=2, work=2**14))
    costs = [one.cost for one in answer.candidates]
    assert any(cost.steps <= steps and cost.t_b <= t_b for cost in costs)


def test_a_topology_of_one_kind_is_left_alone():
    ring = Topology(4, [0, 1, 2, 3], [1, 2, 3, 0])
    assert swaps_between(ring, ring.tail.astype(np.int64), ring.head.astype(np.int64)) == ()
    assert Excise.__final__


@pytest.mark.parametrize("group", [Dihedral(9), Semidirect(7, 3, 2), Cyclic(14)])
def test_single_walks_are_counted(group):
    rng = np.random.default_rng(group.order)
    sets = rng.permuted(np.tile(np.arange(1, group.order), (40, 1)), axis=1)[:, :3]
    for steps in (2, 3, 4):
        counts = singles(multiplication_table(group), sets, steps)
        for row, count in zip(sets.tolist(), counts.tolist(), strict=True):
            topology = cayley_recipe(group, row).topology()
            walks = np.zeros((group.order, group.order), dtype=np.int64)
            np.add.at(walks, (topology.tail, topology.head), 1)
            walks = np.linalg.matrix_power(walks, steps)[0]
            distance = topology.distances()[0]
            if distance.min() < 0 or distance.max() > steps:
                assert count == -1
            else:
                assert count == np.count_nonzero(walks[distance == steps] == 1)


def test_nodes_put_in_or_taken_out_where_there_is_slack_cost_no_step():
    found = slack_recipes(Question(86, 3), 5, Effort(work=2**14))
    assert {type(recipe) for recipe in found[:8]} == {Cayley, Line}
    rng = np.random.default_rng(1)
    share = {}
    for recipe in found[:8]:
        kept = []
        assert recipe.topology().diameter() == 5
        for _ in range(25):
            links = tuple(sorted(rng.choice(recipe.num_nodes * 3, 3, replace=False).tolist()))
            node, ports = int(rng.integers(recipe.num_nodes)), tuple(rng.permutation(3).tolist())
            edits = Insert(recipe, (links,)), Excise(recipe, ((node, ports),))
            kept += [edit.topology().diameter() == 5 for edit in edits]
        share.setdefault(type(recipe), []).append(np.mean(kept))
    assert min(share[Line]) > 0.8
    assert np.mean(share[Cayley]) > 0.5


@pytest.mark.parametrize(("degree", "wanted"), [(2, 371), (2, 397), (3, 1111), (3, 1061)])
def test_line_digraphs_are_edited_before_their_lines_are_taken(degree, wanted):
    """Four times of 24 nodes in five steps, and thrice of 40 of three links in four."""
    nodes, steps = (24, 5) if degree == 2 else (40, 4)
    base = slack_recipes(Question(nodes, degree), steps, Effort(work=2**14))[0]
    assert (base.num_nodes, base.topology().diameter()) == (nodes, steps)
    question, whole, lines = Question(wanted, degree), base, 4 if degree == 2 else 3
    for _ in range(lines):
        whole = Line(whole)
    [edit] = _edited_within(question, whole, steps + lines, Effort(work=2**14), 0)
    assert (edit.num_nodes, edit.topology().diameter()) == (wanted, steps + lines)
    rows, graph = 0, edit
    while graph != base:
        rows += len(getattr(graph, "divided", getattr(graph, "cuts", ())))
        graph = graph.g
    assert rows == _edits(question, nodes, lines) < 12


@pytest.mark.slow
def test_what_has_slack_answers_for_its_neighbours():
    """749 nodes of three links in seven steps: 40 % above the bound before, now a hundredth."""
    question = Question(749, 3)
    known = [measure(GeneralizedKautz(3, 749))]
    recipes = _late_on_neighbours(question, known, [], Effort(), [7])
    costs = [measure(recipe).cost for recipe in recipes]
    least = least_t_b(749, 3, 7)
    assert min(cost.t_b for cost in costs if cost.steps <= 7) < least * Fraction(101, 100)


def test_two_way_lifts_of_few_steps_have_late_schedules_next_to_the_bound():
    """396 nodes of three links each way: nine steps, one more than any graph needs."""
    question, steps = Question(396, 3, bidirectional=True), 9
    lift = next(swaps.short_lifts(question, steps, 2**30, seed=1))
    assert question.is_answered_by(lift)
    assert lift.topology().is_undirected()
    assert lift.topology().diameter() == steps
    cost = Late(lift, steps, 100_000, 1, 1).predict()
    assert cost.steps == steps
    assert cost.t_b <= least_t_b(396, 3, steps, bidirectional=True) * Fraction(103, 100)
    assert next(swaps.short_lifts(question, steps, 2**30, seed=1)) == lift


@pytest.mark.parametrize(("nodes", "degree", "steps"), [(92, 2, 8), (660, 3, 8), (1300, 3, 8)])
def test_late_schedules_on_lifts_are_looked_for_where_all_else_is_far(nodes, degree, steps):
    """Of three links in eight steps 1,300 nodes were half above the bound before."""
    question, effort = Question(nodes, degree), Effort(work=2**17)
    known = [measure(GeneralizedKautz(degree, nodes))]
    recipes = _late_on_lifts(question, known, [], effort, [steps])
    assert {type(recipe) for recipe in recipes} == {Late}
    assert all(recipe.alike for recipe in recipes)
    costs = [recipe.predict() for recipe in recipes]
    assert [cost.steps for cost in costs] == [steps]
    least = least_t_b(nodes, degree, steps)
    assert costs[0].t_b < least * Fraction(102, 100)
    found = measure(recipes[0])
    assert found.cost == costs[0]
    assert _late_on_lifts(question, [*known, found], [], effort, [steps]) == []


@pytest.mark.parametrize(
    ("nodes", "degree", "steps"),
    [(257, 4, 5), (1024, 4, 6), (62, 2, 9), (2052, 4, 9)],
    ids=["prime", "tight", "small", "large"],
)
def test_no_lifts_are_looked_for_where_there_are_none(nodes, degree, steps):
    question, known = Question(nodes, degree), [measure(GeneralizedKautz(degree, nodes))]
    assert _late_on_lifts(question, known, [], Effort(), [steps]) == []


@pytest.mark.parametrize(
    ("nodes", "degree", "both"), [(500, 3, False), (130, 4, False), (480, 4, True)]
)
def test_orbits_of_lifts_are_linked_to_others(nodes, degree, both):
    """Where an orbit has links to itself, fewer lead to it than what it has to receive."""
    lift = next(swaps.short_lifts(Question(nodes, degree, both), 12, 2**30, seed=1))
    orbits = len(lift.heads)
    assert orbits > degree
    links = {
        (orbit, head // (nodes // orbits)) for orbit, row in enumerate(lift.heads) for head in row
    }
    assert len(links) == orbits * degree
    assert all(orbit != head for orbit, head in links)


@pytest.mark.parametrize(("nodes", "degree", "steps"), [(396, 3, 7), (127, 4, 3), (514, 3, 9)])
def test_no_lift_of_fewer_steps_than_there_can_be_is_found(nodes, degree, steps):
    """Of a prime number of nodes and of twice one among them."""
    question = Question(nodes, degree, bidirectional=True)
    assert [*swaps.short_lifts(question, steps, 2**25, 1)] == []


def test_lifts_with_slack_are_found_at_fewer_walks_a_node_than_cayley_digraphs_have():
    """88 nodes of two links in seven steps, 255 walks of so many: at no node by a single one."""
    [lift] = islice(swaps.short_lifts(Question(88, 2), 7, 2**27, 1, slack=True), 1)
    topology = lift.topology()
    walks = np.zeros((88, 88), dtype=np.int64)
    np.add.at(walks, (topology.tail, topology.head), 1)
    farthest = topology.distances() == 7
    assert topology.diameter() == 7
    assert np.linalg.matrix_power(walks, 7)[farthest].min() >= 2
    assert farthest.any()


@pytest.mark.parametrize(("nodes", "degree"), [(12, 2), (17, 2), (14, 3)])
def test_pairs_that_depend_on_a_link_are_those_that_its_loss_takes_apart(nodes, degree):
    for seed in range(3):
        topology = permutation_digraph(nodes, degree, seed)
        distance, ends = topology.distances(), (topology.tail, topology.head)
        for steps in (1, 2, 3, 4):
            counts = _dependent(topology, steps)
            for link, count in enumerate(counts.tolist()):
                kept = Topology(nodes, *(np.delete(one, link) for one in ends))
                apart = kept.distances() != distance
                assert count == np.count_nonzero(apart & (distance == steps))


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "steps"), [(1093, 11), (1607, 11), (1949, 12)])
def test_two_ports_reach_any_size_from_lifts_with_slack(nodes, steps):
    """One and two steps above the fewest; what was found before is twice the bound."""
    question, effort = Question(nodes, 2), Effort(work=2**17)
    assert fewest_steps(nodes, 2) == 10
    known = [measure(GeneralizedKautz(2, nodes))]
    recipes = _late_on_neighbours(question, known, [], effort, [steps])
    costs = [recipe.predict() for recipe in recipes]
    assert {cost.steps for cost in costs} == {steps}
    assert min(cost.t_b for cost in costs) < least_t_b(nodes, 2, steps) * Fraction(16, 15)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("orbits", "order", "degree"), [(1, 30, 4), (4, 15, 3), (26, 1, 3)])
def test_distances_beyond_the_steps_are_counted_exactly(orbits, order, degree, both):
    question = Question(orbits * order, degree, both)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        tail, voltage, mate = swaps._random_voltages(question, orbits, rng)
        lift = swaps._Climb(tail, voltage, mate, order, 0, np.random.default_rng(0)).recipe(degree)
        topology, nodes = lift.topology(), question.num_nodes
        distance, adjacent = topology.distances(), np.zeros((nodes, nodes), int)
        np.add.at(adjacent, (topology.tail, topology.head), 1)
        for steps in (0, 2, 5):
            beyond = np.where(distance < 0, nodes, np.maximum(distance - steps, 0)).sum() / order
            work = (np.zeros(nodes, int), np.zeros(nodes, int), np.arange(nodes) // order)
            turn, single = np.arange(orbits), np.linalg.matrix_power(adjacent, steps) == 1
            single &= distance == (steps or nodes)
            for slack, more in ((False, 0), (True, single.sum() / order)):
                walks = np.zeros((2, nodes), int)
                sizes = (degree, order, steps, slack, (*work, turn, walks), 1, np.inf)
                work[0][:] = 0
                assert compiled(hops_beyond)(tail, voltage, *sizes) == beyond + more
