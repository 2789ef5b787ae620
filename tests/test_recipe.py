"""Recipes as values: what they declare, predict, build and refuse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import EXPANSION_TEXTS
from strategies import built, recipes

from ocs_codesign.bounds import bound, moore_steps, topology_bound
from ocs_codesign.collective import GATHERING
from ocs_codesign.cost import Cost
from ocs_codesign.design import build, measure, measure_topology, predict
from ocs_codesign.families.shape import Shape
from ocs_codesign.recipe import (
    Bidirected,
    Circulant,
    Complete,
    Degree,
    DirectedCirculant,
    GeneralizedKautz,
    Hypercube,
    Line,
    Named,
    Power,
    Product,
    Transpose,
    UniRing,
    parse,
)
from ocs_codesign.schedulers.bfb.loads import bfb_loads
from ocs_codesign.topology import Topology

many = settings(max_examples=400)
some = settings(max_examples=150)


@given(recipes())
@many
def test_declarations_are_what_is_built(recipe):
    topology = built(recipe)
    assert recipe.shape == Shape(topology.num_nodes, topology.degree)
    assert (recipe.num_nodes, recipe.degree) == (topology.num_nodes, topology.degree)
    assert topology.is_regular
    assert topology.link_speed is None
    assert recipe.has_self_loops == topology.has_self_loops()
    assert recipe.bidirectional == topology.is_undirected()
    assert recipe.topology() == topology


@given(recipes())
@many
def test_reverse_symmetric_recipes_cost_the_same_both_ways(recipe):
    if recipe.reverse_symmetric:
        topology = built(recipe)
        assert bfb_loads(topology) == bfb_loads(topology.transpose())
        assert recipe.predict() == recipe.predict("reduce-scatter")


@given(recipes())
@many
def test_measured_is_never_worse_than_predicted(recipe):
    for collective in GATHERING:
        predicted, candidate = recipe.predict(collective), measure(recipe, collective)
        assert candidate.measured
        assert candidate.cost.t_b <= predicted.t_b
        assert candidate.cost.steps <= predicted.steps


@given(recipes())
@many
def test_nothing_beats_the_bounds(recipe):
    for collective in GATHERING:
        cost = measure(recipe, collective).cost
        least = bound(recipe.num_nodes, recipe.degree, collective)
        here = topology_bound(built(recipe), collective)
        assert cost.t_b >= here.t_b >= least.t_b
        assert cost.steps >= here.steps >= least.steps
    assert here.steps >= 2 * moore_steps(recipe.num_nodes, recipe.degree)


@given(recipes(max_nodes=120))
@some
def test_designs_are_verified_and_cost_what_was_measured(recipe):
    for collective in GATHERING:
        candidate, design = measure(recipe, collective), build(recipe, collective)
        assert design.cost == candidate.cost
        assert design.loads == candidate.score.loads
        assert design.maker == candidate.score.schedule
        assert design.schedule.topology == built(recipe)
        assert design.schedule.collective == collective


@given(st.data())
@some
def test_names_of_nodes_do_not_matter(data):
    recipe = data.draw(recipes(max_nodes=120))
    topology = built(recipe)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    renamed = topology.relabelled(random.permutation(topology.num_nodes))
    stripped = Topology(renamed.num_nodes, renamed.tail, renamed.head)
    assert bfb_loads(renamed) == bfb_loads(stripped) == bfb_loads(topology)


@given(st.data())
@some
def test_order_of_links_does_not_matter(data):
    topology = built(data.draw(recipes(max_nodes=120)))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    order = random.permutation(topology.num_links)
    shuffled = Topology(topology.num_nodes, topology.tail[order], topology.head[order])
    assert bfb_loads(shuffled) == bfb_loads(topology)


@given(recipes())
@many
def test_declared_symmetry_is_honest(recipe):
    """Orbits have what orbits of automorphisms that act freely must have."""
    topology = built(recipe)
    symmetry = topology.symmetry
    if symmetry is None:
        return
    nodes, links = symmetry.node_orbit, symmetry.link_orbit
    assert nodes.shape == (topology.num_nodes,)
    assert links.shape == (topology.num_links,)
    for orbits in (nodes, links):
        assert (np.unique(orbits) == np.arange(orbits.max() + 1)).all()
    sizes = np.concatenate([np.bincount(nodes), np.bincount(links)])
    assert (sizes == sizes[0]).all()
    distances = topology.distances()
    for one in (distances, distances.T):
        spheres = np.sort(one, axis=1)
        assert (spheres == spheres[symmetry.representatives()][nodes]).all()
    assert_links_follow_nodes(topology, nodes, links)
    for first in symmetry.representatives().tolist():
        others = np.flatnonzero(nodes == nodes[first])
        for other in (others[len(others) // 2], others[-1]):
            assert_automorphism(topology, automorphism(topology, first, int(other)))


def automorphism(topology: Topology, first: int, other: int) -> list[int]:
    """Where every node goes when ``first`` goes to ``other`` and links stay in their orbits."""
    follow: list[dict[int, int]] = [{} for _ in range(topology.num_nodes)]
    rows = zip(topology.tail.tolist(), topology.head.tolist(), strict=True)
    for (tail, head), orbit in zip(rows, topology.symmetry.link_orbit.tolist(), strict=True):
        follow[tail][orbit] = head
    image, queue = {first: other}, [first]
    for node in queue:
        assert follow[node].keys() == follow[image[node]].keys()
        for orbit, head in follow[node].items():
            expected = follow[image[node]][orbit]
            if head not in image:
                image[head] = expected
                queue.append(head)
            assert image[head] == expected
    return [image[node] for node in range(topology.num_nodes)]


def assert_automorphism(topology: Topology, image: list[int]) -> None:
    """It permutes the nodes within their orbits, and fixes none unless it fixes all."""
    assert sorted(image) == list(range(topology.num_nodes))
    orbit = topology.symmetry.node_orbit
    assert (orbit[image] == orbit).all()
    fixed = sum(node == to for node, to in enumerate(image))
    assert fixed in (0, topology.num_nodes)


def assert_links_follow_nodes(topology: Topology, nodes: np.ndarray, links: np.ndarray) -> None:
    """A link orbit leads from one node orbit to one other, once out of and into every node."""
    for ends in (topology.tail, topology.head):
        pairs = links.astype(np.int64) * topology.num_nodes + ends
        assert len(np.unique(pairs)) == topology.num_links
        orbit_pairs = np.unique(np.stack([links, nodes[ends]]), axis=1)
        assert orbit_pairs.shape[1] == links.max() + 1


@pytest.mark.parametrize(
    ("recipe", "label"),
    [
        (Line(Circulant(16, (3, 4)), 3), "L³(C(16,{3,4}))"),
        (Line(Complete(4)), "L(K4)"),
        (Power(Product(UniRing(1, 4), UniRing(1, 8)), 2), "(UniRing(1,4)□UniRing(1,8))□²"),
        (Degree(Line(Complete(3)), 2), "L(K3)*2"),
        (Transpose(GeneralizedKautz(4, 9)), "Π(4,9)ᵀ"),
        (Bidirected(DirectedCirculant(8, (1, 3))), "Bi(DiC(8,{1,3}))"),
        (Named("petersen"), "Petersen"),
        (Hypercube(12), "Q12"),
        (parse("Cayley(Dihedral(8), ((1, 0), (0, 1)))"), "Cay(D8,{(1,0),(0,1)})"),
        (parse("Cayley(DirectProduct(Cyclic(2), Cyclic(3)), ((1, 1),))"), "Cay(Z2×Z3,{(1,1)})"),
        (parse("Cayley(Semidirect(7, 3, 2), ((1, 0),))"), "Cay(Z7⋊Z3,{(1,0)})"),
    ],
)
def test_labels(recipe, label):
    assert recipe.label() == label


def test_recipes_are_values():
    assert Line(Complete(3)) == Line(Complete(3)) != Line(Complete(4))
    assert Circulant(8, (1, 3)) != DirectedCirculant(8, (1, 3))
    assert Power(Complete(3), 2) != Degree(Complete(3), 2)
    assert len({Line(Complete(3), 2), Line(Line(Complete(3))), Complete(3)}) == 2
    with pytest.raises(AttributeError):
        Complete(3).n = 4


@pytest.mark.parametrize("expansion", [Line, Transpose, Bidirected])
@pytest.mark.parametrize("part", [4, "Complete(4)", None, (Complete(4),), Complete])
def test_expansions_expand_recipes(expansion, part):
    with pytest.raises(ValueError, match="is not a recipe"):
        expansion(part)


@pytest.mark.parametrize("n", [0, -1, 2.0, "2", True, None])
def test_bad_numbers(n):
    for expansion in (Degree, Power, Line):
        with pytest.raises(ValueError, match=r"must be an integer"):
            expansion(Complete(3), n)


def test_degree_refuses_self_loops():
    for inner in ("DeBruijn(2, 2)", "Line(DeBruijn(2, 2))", "GeneralizedKautz(2, 8)"):
        with pytest.raises(ValueError, match="without self-loops"):
            Degree(parse(inner), 2)


def test_bases_that_are_not_strongly_connected():
    for text in ("DirectedCirculant(8, (2, 4))", "GeneralizedKautz(1, 5)"):
        recipe = parse(text)
        assert recipe.num_nodes > 1
        for function in (predict, measure, build, type(recipe).expansion_schedule):
            with pytest.raises(ValueError, match="not strongly connected"):
                function(recipe)


def test_too_large_to_build_but_not_to_predict():
    recipe = Line(Power(Complete(5), 12), 3)
    assert recipe.num_nodes == 5**12 * 48**3
    cost = recipe.predict()
    assert cost.steps == 15
    assert cost.t_b == Fraction(5**12 - 1, 5**12) + sum(
        Fraction(1, 5**12 * 48**k) for k in range(3)
    )
    with pytest.raises(ValueError, match="too many links"):
        recipe.topology()


def test_transposes_cancel():
    recipe = Transpose(Transpose(GeneralizedKautz(2, 9)))
    assert recipe.predict() == GeneralizedKautz(2, 9).predict()
    assert built(recipe) == built(GeneralizedKautz(2, 9))


def test_transpose_swaps_the_collectives():
    recipe = GeneralizedKautz(3, 17)
    assert Transpose(recipe).predict() == recipe.predict("reduce-scatter")
    assert Transpose(recipe).predict("reduce-scatter") == recipe.predict()
    assert Transpose(recipe).predict("allreduce") == recipe.predict("allreduce")


@pytest.mark.parametrize("text", [text for texts in EXPANSION_TEXTS.values() for text in texts])
def test_an_allreduce_is_predicted_as_its_halves(text):
    recipe = parse(text)
    both = recipe.predict("allreduce")
    assert both == recipe.predict("reduce-scatter") + recipe.predict("allgather")
    loads = recipe.predicted_loads("reduce-scatter") + recipe.predicted_loads()
    assert recipe.predicted_loads("allreduce") == loads
    assert measure_topology(built(recipe), "allreduce").loads == (
        bfb_loads(built(recipe).transpose())[::-1] + bfb_loads(built(recipe))
    )


def test_prediction_is_a_cost():
    assert parse("Line(CompleteBipartite(4), 2)").predict() == Cost(4, Fraction(33, 32))
