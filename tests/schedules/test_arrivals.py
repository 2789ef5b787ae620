"""Late schedules of whole items: arrival steps, their loads and schedules, the search for them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.bounds import bound, fewest_steps, topology_bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, total
from ocs_codesign.core.topology import Topology, in_neighbours
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.expansions.late import Late
from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.reverse import Transpose
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question, build, measure, measure_topology
from ocs_codesign.schedules.stepped.arrivals import (
    ArrivalSteps,
    late_arrivals,
    too_early,
    ways_to_search,
)
from ocs_codesign.schedules.stepped.late import late_schedule
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.edited import _late, filled, open_steps
from ocs_codesign.search.late import late_recipes, led_on_recipes, spliced_recipes
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design

EAGER = ("Torus((3, 4))", "GeneralizedKautz(2, 9)", "Complete(5)", "Line(CompleteBipartite(3))")
SIXTY_ONE = "AffineSpliced(61, 3, (0, 22, 24, 2))"


def irregular(nodes: int, links: int, seed: int, *, fastest: int = 3) -> Topology:
    """A ring and random links, some of them parallel, of unequal speeds."""
    rng = np.random.default_rng(seed)
    ring = np.arange(nodes)
    tail = np.concatenate([ring, rng.integers(nodes, size=links)])
    head = np.concatenate([(ring + 1) % nodes, rng.integers(nodes, size=links)])
    return Topology(nodes, tail, head, link_speed=rng.integers(1, fastest + 1, size=len(tail)))


def least_loads(topology: Topology, step: np.ndarray) -> list[Fraction]:
    """Hall's bound of every step by its definition, a set of in-neighbours after the other."""
    speed: dict[tuple[int, int], int] = {}
    links = zip(topology.tail.tolist(), topology.head.tolist(), topology.speeds(), strict=True)
    for tail, head, fast in links:
        if tail != head:
            speed[tail, head] = speed.get((tail, head), 0) + int(fast)
    best = [Fraction(0)] * int(step.max())
    for node in range(topology.num_nodes):
        near = [tail for tail, head in speed if head == node]
        for size in range(1, len(near) + 1):
            for chosen in combinations(near, size):
                within: dict[int, int] = {}
                for source in range(topology.num_nodes):
                    have = {tail for tail in near if step[source, tail] < step[source, node]}
                    if source != node and have <= set(chosen):
                        within[step[source, node]] = within.get(step[source, node], 0) + 1
                for at, items in within.items():
                    load = Fraction(items, sum(speed[tail, node] for tail in chosen))
                    best[at - 1] = max(best[at - 1], load)
    return best


def can_arrive(topology: Topology, step: np.ndarray) -> bool:
    """Whether everything comes from somewhere, link by link."""
    nodes, links = range(topology.num_nodes), list(zip(topology.tail, topology.head, strict=True))
    for source in nodes:
        for node in nodes:
            if (source == node) != (step[source, node] == 0):
                return False
            before = [t for t, h in links if h == node and step[source, t] < step[source, node]]
            if source != node and not before:
                return False
    return bool(step.min() >= 0)


@pytest.mark.parametrize("text", EAGER)
def test_distances_as_steps_are_bfb(text):
    topology = parse(text).topology()
    arrivals = ArrivalSteps(topology, topology.distances())
    assert arrivals.loads() == bfb_loads(topology)
    eager = bfb(topology)
    for mine, theirs in zip(arrivals.schedule().columns(), eager.columns(), strict=True):
        assert np.array_equal(mine, theirs)


@settings(max_examples=25)
@given(st.integers(4, 7), st.integers(0, 8), st.integers(0, 10**6), st.integers(0, 2))
def test_loads_are_halls_bound_and_schedules_keep_them(nodes, links, seed, more):
    topology = irregular(nodes, links, seed)
    arrivals = late_arrivals(topology, topology.diameter() + more, 60, seed)
    loads = arrivals.loads()
    assert can_arrive(topology, arrivals.step)
    assert list(loads) == least_loads(topology, arrivals.step)
    verdict = verify(arrivals.schedule())
    assert verdict.ok
    assert verdict.cost == Cost(len(loads), topology.t_b(sum(loads)))
    assert sum(loads) <= sum(bfb_loads(topology))


SYMMETRIC = (
    "Circulant(40, (4, 5))",
    "Lift(Cyclic(11), ((47, 55), (8, 34), (50, 60), (13, 19), (9, 35), (22, 72), (29, 67)))",
    "Line(Cayley(Dihedral(5), ((1, 0), (0, 1))))",
    "Transpose(GeneralizedKautz(2, 63))",
    "Product(UniRing(2, 4), Cayley(Dihedral(5), ((1, 0), (0, 1))))",
)


@pytest.mark.parametrize("text", SYMMETRIC)
def test_items_that_are_alike_arrive_alike(text):
    """Rows of one item an orbit say all: the table has the symmetry and the loads of the search."""
    graph = parse(text).topology()
    node_orbit, link_orbit = graph.symmetry.node_orbit, graph.symmetry.link_orbit
    alike = late_arrivals(graph, graph.diameter() + 1, 2_000, 3, alike=True)
    assert can_arrive(graph, alike.step)
    # Seen from nodes that are alike, and along links that are, there is as much of every step.
    ahead = alike.step[graph.tail] - alike.step[graph.head]
    for orbits, table in (
        (node_orbit, alike.step),
        (node_orbit, alike.step.T),
        (link_orbit, ahead),
    ):
        for orbit in range(orbits.max() + 1):
            rows = np.sort(table[orbits == orbit], axis=1)
            assert (rows == rows[0]).all()
    verdict = verify(alike.schedule())
    assert verdict.ok
    assert sum(alike.loads()) <= sum(bfb_loads(graph))


def test_a_symmetry_finds_as_much_in_few_moves():
    text = "Lift(Cyclic(47), ((54,137,183), (40,140,150), (4,48,173), (5,85,109)))"
    late = Late(parse(text), 8, 20_000, 1, 1)
    assert repr(late).endswith(", 8, 20000, 1, 1)")
    assert parse(repr(late)) == late
    assert late.predict() == Cost(8, Fraction(187, 188))


def mutants_are_judged_rightly(number: int) -> None:
    """Of random changes of tables those are taken that can be replayed, and no others."""
    rng, taken = np.random.default_rng(number), 0
    tables = [
        (graph, late_arrivals(graph, graph.diameter() + 1, 50).step)
        for graph in (irregular(5, 4, 1), irregular(6, 5, 2), parse("Complete(4)").topology())
    ]
    for _ in range(number):
        graph, step = tables[rng.integers(len(tables))]
        step = step.copy()
        for _ in range(rng.integers(1, 4)):
            step[tuple(rng.integers(graph.num_nodes, size=2))] = rng.integers(-1, step.max() + 2)
        try:
            arrivals = ArrivalSteps(graph, step)
        except ValueError:
            assert not can_arrive(graph, step)
            continue
        taken += 1
        assert verify(arrivals.schedule()).ok
    assert number / 50 < taken < number


def test_mutated_tables():
    mutants_are_judged_rightly(1_000)


@pytest.mark.slow
def test_many_mutated_tables():
    """Of 100,000 changed tables, judged in stacks, every one that is taken is replayed."""
    rng, taken = np.random.default_rng(7), 0
    graphs = [irregular(5, 4, 1), irregular(6, 5, 2), irregular(7, 9, 3), irregular(9, 12, 4)]
    for graph in graphs:
        nodes, right = graph.num_nodes, late_arrivals(graph, graph.diameter() + 1, 50).step
        step = np.repeat(right[None], 100_000 // len(graphs), axis=0)
        table = np.arange(len(step))
        for changes in range(3):
            cell = rng.integers(nodes, size=(2, len(step)))
            value = rng.integers(1, right.max() + 2, size=len(step)).astype(np.int16)
            changed = (cell[0] != cell[1]) & (rng.integers(3, size=len(step)) >= changes)
            step[table[changed], cell[0][changed], cell[1][changed]] = value[changed]
        fine = ~too_early(step, in_neighbours(graph)).any(axis=(1, 2))
        taken += int(fine.sum())
        for each in np.unique(step[fine], axis=0)[:150]:
            assert verify(ArrivalSteps(graph, each).schedule()).ok
        for each in step[~fine][:50]:
            with pytest.raises(ValueError, match="before"):
                ArrivalSteps(graph, each)
            assert not can_arrive(graph, each)
    assert 5_000 < taken < 95_000


@pytest.mark.parametrize(
    ("text", "steps", "seed", "t_b"),
    [
        (SIXTY_ONE, 4, 1, "62/61"),
        ("Lift(Cyclic(47), ((54,137,183), (40,140,150), (4,48,173), (5,85,109)))", 8, 2, "187/188"),
    ],
)
def test_published_graphs_are_better_late(text, steps, seed, t_b):
    topology = parse(text).topology()
    late = measure_topology(topology).cost
    assert late.t_b > Fraction(t_b)
    verdict = verify(late_arrivals(topology, steps, seed=seed).schedule())
    assert verdict.ok
    assert verdict.cost == Cost(steps, Fraction(t_b))


def test_the_same_arguments_have_the_same_arrivals():
    topology = irregular(40, 80, 3)
    one, same, other = (late_arrivals(topology, 9, 20_000, seed).step for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_the_scheduler_takes_any_graph(collective):
    topology = irregular(36, 70, 5)
    halves = len(Collective.parse(collective).halves())
    steps = topology.diameter() * halves
    answer = late_schedule(topology, steps, collective)
    eager = measure_topology(topology, collective).cost
    assert verify(answer.best).ok
    assert answer.cost.steps <= steps
    assert answer.bound <= answer.value <= eager.t_b


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "steps", "t_b"),
    [
        ("Line(Line(Complete(4)))", 3, Fraction(13, 12)),
        ("Line(Circulant(9, (1, 2)))", 3, Fraction(1)),
        ("Line(Cayley(Dihedral(8), ((0, 1), (1, 0), (3, 1), (6, 0))))", 3, Fraction(17, 16)),
    ],
)
def test_few_orbits_have_a_bound_of_so_many_steps(text, steps, t_b):
    """Above what cuts say of any number of steps, so what is found is proven the best."""
    topology = parse(text).topology()
    answer = late_schedule(topology, steps)
    assert topology_bound(topology, "allgather", steps).t_b < t_b
    assert answer.cost.t_b == answer.bound == t_b
    more = late_schedule(topology, steps + 1)
    assert more.bound <= more.cost.t_b
    assert more.bound < t_b


def test_line_digraphs_take_late_schedules_along():
    late = Late(parse("AffineSpliced(34, 5, (0, 1, 4))"), 5, 20_000, 1)
    assert late.predict().t_b < measure(late.g).cost.t_b
    once, twice = Line(late), Line(late, 2)
    for recipe, levels in ((once, 1), (twice, 2)):
        predicted = recipe.predict()
        assert predicted.steps == late.predict().steps + levels
        verdict = verify(recipe.expansion_schedule())
        assert verdict.ok
        assert verdict.cost.t_b <= predicted.t_b
    assert build(once).maker == "expansion"


def test_links_in_pairs_need_one_search():
    late = Late(parse("Circulant(40, (4, 5))"), 5, 10_000, 1)
    assert late.predict("reduce-scatter") == late.predict()
    assert build(late, "allreduce").cost == late.predict("allreduce")


def test_the_finder_ends_with_late_schedules():
    question, known = Question(61, 4), [measure(SIXTY_ONE, "allreduce")]
    late, _ = late_recipes(question, known, Effort(), [4])
    assert late.predict().t_b == Fraction(62, 61)
    assert late in _late(question, known, [], Effort(), [4])


def test_late_schedules_are_looked_for_where_only_the_fewest_steps_are_close():
    texts = (
        "Line(Cayley(Dihedral(11), ((0, 1), (1, 0), (3, 0))))",
        "Cayley(Semidirect(11, 6, 10), ((0, 1), (1, 2), (4, 5)))",
    )
    question, known = Question(66, 3), [measure(text, "allreduce") for text in texts]
    asked: list[Recipe] = []

    def measured(recipes: list[Recipe]) -> list[Design]:
        asked.extend(recipes)
        return []

    assert open_steps(known, question) == []
    assert filled(question, known, [], Effort(), measured) == []
    assert asked == late_recipes(question, known, Effort(), [4]) != []


@pytest.mark.parametrize(("nodes", "degree"), [(110, 2), (94, 3), (133, 4)])
def test_loops_that_are_led_on_no_longer_double_what_their_nodes_receive(nodes, degree):
    ring, back = led_on_recipes(Question(nodes, degree))
    topology = ring.topology()
    assert (topology.tail != topology.head).all()
    assert np.bincount(topology.head).tolist() == [degree] * nodes
    assert back == Transpose(ring)
    least = bound(nodes, degree).t_b
    steps = fewest_steps(nodes, degree) + 2
    assert Late(ring, steps, 600 * nodes, 1).predict().t_b < least * Fraction(degree, degree - 1)


def test_few_loops_cannot_be_led_on():
    assert led_on_recipes(Question(111, 2)) == []  # it has none
    assert led_on_recipes(Question(110, 2, True)) == led_on_recipes(Question(20, 2)) == []


def test_spliced_digraphs_of_imase_and_itoh_have_few_loops():
    for nodes, degree in ((565, 3), (649, 4), (476, 5), (100, 4)):
        for recipe in spliced_recipes(Question(nodes, degree), [*range(12)]):
            windows = range(degree)
            loops = [
                sum((recipe.q * x + r - x) % nodes == 0 for x in range(nodes) for r in shifts)
                for first in windows
                for shifts in [tuple((first + link) % nodes for link in range(degree))]
            ]
            mine = sum(len(found) for found, _ in recipe.loops())
            assert mine == min(loops)
    assert spliced_recipes(Question(565, 3), [9]) == []
    assert spliced_recipes(Question(565, 4, True), [*range(12)]) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("Torus((6, 6))", 3), "3 steps: the diameter is 6"),
        (("Complete(12)", 1), "a node has 11 in-neighbours"),
        (("Torus((6, 6))", 6, -1), "moves are -1"),
        (("Torus((6, 6))", 6, 1, -1), "seed is -1"),
        (("UniRing(1, 4097)", 4096), "4097 nodes"),
    ],
)
def test_refusals(arguments, sentence):
    text, *limits = arguments
    with pytest.raises(ValueError, match=sentence):
        late_arrivals(parse(text).topology(), *limits)


@pytest.mark.parametrize("first_cut", [0, -16, 1025])
def test_first_cuts_that_are_none(first_cut):
    torus = parse("Torus((6, 6))")
    with pytest.raises(ValueError, match=f"first_cut.* {first_cut}"):
        late_arrivals(torus.topology(), 6, 9, first_cut=first_cut)
    with pytest.raises(ValueError, match=f"first_cut.* {first_cut}"):
        Late(torus, 6, 9, 1, first_cut=first_cut)


def test_of_many_nodes_small_cuts_find_more_in_as_many_moves():
    """Loads that cannot be lowered by as much as is tried cost 20 moves a node."""
    recipe = parse("AffineSpliced(1021, 361, (1, 368, 652, 17))")
    steps = recipe.topology().diameter() + 1
    large, small = (Late(recipe, steps, 200_000, 1, first_cut=cut) for cut in (256, 16))
    least = bound(1021, 4).t_b
    assert (small.predict().t_b - least) * 2 < large.predict().t_b - least
    assert ways_to_search(613, is_tight=False) == [(False, small.first_cut)]
    assert ways_to_search(60, is_tight=False) == [(False, large.first_cut)]
    assert repr(small).endswith(", 0, 0, 16)")
    assert parse(repr(small)) == small


def test_in_the_diameter_moves_count_that_unload_any_links():
    """On a tree all links into a node are as busy: BFB's is all that single moves find."""
    recipe = parse("AffineSpliced(131, 5, (0, 1, 2, 3, 4))")
    graph = recipe.topology()
    assert graph.diameter() == 4
    plain, better = (
        late_arrivals(graph, 4, 200_000, all_sets=way).loads() for way in (False, True)
    )
    assert plain == bfb_loads(graph)
    assert graph.t_b(total(better)) == Late(recipe, 4, 200_000, 1, 0, 1).predict().t_b
    assert sum(better) < sum(plain) * Fraction(96, 100)
    assert better[-1] >= plain[-1]  # what comes last can come no other way
    found = late_recipes(Question(131, 5), [measure(recipe, "allreduce")], Effort(), [4])
    assert [late.all_sets for late in found] == [0, 1]


def test_items_of_a_graph_without_symmetry_are_not_alike():
    with pytest.raises(ValueError, match="declares no symmetry"):
        Late(parse(SIXTY_ONE), 4, 1, 1, 1).predict()


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ([[0, 1], [1, 0]], "3 x 3 integers"),
        ([[0, 1, 2], [2, 1, 1], [1, 2, 0]], "at its own node at step 0"),
        ([[0, 2, 1], [2, 0, 1], [1, 2, 0]], "item 0 arrives at node 2 in step 1"),
    ],
)
def test_wrong_tables(step, sentence):
    with pytest.raises(ValueError, match=sentence):
        ArrivalSteps(parse("UniRing(1, 3)").topology(), np.array(step))


def test_cost_of_an_imported_graph(tmp_path, capsys):
    file, graph = tmp_path / "mine.csv", irregular(36, 70, 5, fastest=1)
    links = zip(graph.tail.tolist(), graph.head.tolist(), strict=True)
    file.write_text("".join(f"{tail} {head}\n" for tail, head in links))
    command = ["cost", "--graph", str(file), "--scheduler", "late", "--max-steps", "9"]
    assert main(command) == 0
    assert "BFB" in capsys.readouterr().out
