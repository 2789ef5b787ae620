"""Hypothesis strategies for whole values: recipes of every kind and random multigraphs."""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st
from samples import GROUP_SAMPLES

from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.expansions.late import Late
from ocs_codesign.graphs.families.cayley import Lift
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import MAX_SUBSET_WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NODES = 200
MAX_LINKS = 2400
MAX_BASE_NODES = 16


@st.composite
def _circulant(draw: Callable[..., Any]) -> tuple[int, tuple[int, ...]]:
    n = draw(st.integers(2, MAX_BASE_NODES))
    offsets = draw(st.lists(st.integers(1, n - 1), min_size=1, max_size=3))
    return n, tuple(offsets if gcd(n, *offsets) == 1 else [*offsets, 1])


@st.composite
def _cayley(draw: Callable[..., Any]) -> tuple[Any, tuple[Any, ...]]:
    """A group's generating elements in some order, and perhaps one of them or the identity more."""
    samples = [s for kind in GROUP_SAMPLES.values() for s in kind if s.num_nodes > 1]
    group, generators = draw(st.sampled_from(samples)).arguments()
    more = draw(st.lists(st.sampled_from(generators), max_size=1))
    return group, tuple(draw(st.permutations([*generators, *more])))


_SIZES: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "Complete": st.tuples(st.integers(2, 8)),
    "CompleteBipartite": st.tuples(st.integers(1, 5)),
    "Circulant": _circulant(),
    "DirectedCirculant": _circulant(),
    "UniRing": st.tuples(st.integers(1, 3), st.integers(2, 9)),
    "BiRing": st.tuples(st.sampled_from([2, 4]), st.integers(2, 9)),
    "Torus": st.tuples(st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)),
    "Hypercube": st.tuples(st.integers(1, 4)),
    "GeneralizedKautz": st.tuples(st.integers(2, 4), st.integers(2, MAX_BASE_NODES)),
    "Kautz": st.sampled_from([(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (4, 0)]),
    "DeBruijn": st.sampled_from([(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)]),
    "Cayley": _cayley(),
}


@st.composite
def base_recipes(draw: Callable[..., Any], max_nodes: int = 64) -> Recipe:
    """A strongly connected base of any family; a new family draws from its samples."""
    name = draw(st.sampled_from(sorted(FAMILIES)))
    if name in _SIZES:
        recipe = FAMILIES[name](*draw(_SIZES[name]))
    else:
        recipe = parse(f"{name}({draw(st.sampled_from(FAMILIES[name].samples))})")
    return recipe if recipe.num_nodes <= max_nodes else FAMILIES["Complete"](max_nodes)


@st.composite
def recipes(draw: Callable[..., Any], max_nodes: int = MAX_NODES, max_depth: int = 3) -> Recipe:
    """A base under up to ``max_depth`` expansions, at most ``max_nodes`` nodes in the end."""
    recipe = draw(base_recipes(min(max_nodes, 64)))
    for _ in range(draw(st.integers(0, max_depth))):
        grown = _expanded(draw, recipe, max_nodes)
        if grown.num_nodes <= max_nodes and grown.num_nodes * grown.degree <= MAX_LINKS:
            recipe = grown
    return recipe


def _expanded(draw: Callable[..., Any], recipe: Recipe, max_nodes: int) -> Recipe:
    """The recipe under one more expansion."""
    name = draw(st.sampled_from(sorted(EXPANSIONS)))
    if name == "Product":
        room = max(2, min(16, max_nodes // recipe.num_nodes))
        other = draw(recipes(room, max_depth=1))
        more = draw(st.lists(base_recipes(2), max_size=1))
        return EXPANSIONS[name](*draw(st.permutations([recipe, other, *more])))
    if name in ("Excise", "Insert", "Swap", "Splice"):
        return _edited(draw, name, recipe)
    if name == "Late":
        return _late(draw, recipe)
    if name not in ("Degree", "Power"):
        return EXPANSIONS[name](recipe)
    if name == "Degree" and recipe.has_self_loops:
        return recipe
    return EXPANSIONS[name](recipe, draw(st.integers(1, 3)))


def _late(draw: Callable[..., Any], recipe: Recipe) -> Recipe:
    """The recipe with a late schedule of a short search, or itself if it has too many ports."""
    more, moves, seed = draw(st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 9)))
    if recipe.degree > MAX_SUBSET_WIDTH:
        return recipe
    return Late(recipe, recipe.topology().diameter() + more, moves, seed)


def _edited(draw: Callable[..., Any], name: str, recipe: Recipe) -> Recipe:
    """The recipe with a node or a pair of links edited, or itself if that cuts a node off."""
    nodes, degree = recipe.num_nodes, recipe.degree
    links = st.integers(0, nodes * degree - 1)
    size = 2 if name == "Swap" else degree
    if name in ("Excise", "Splice"):
        row = draw(st.tuples(st.integers(0, nodes - 1), st.permutations(range(degree)).map(tuple)))
    elif nodes * degree >= size:
        row = draw(st.lists(links, min_size=size, max_size=size, unique=True).map(tuple))
    if nodes < 4 or recipe.has_self_loops:
        return recipe
    edited = EXPANSIONS[name](recipe, *((row[:1], row[1]) if name == "Splice" else ((row,),)))
    return edited if (edited.topology().distances() >= 0).all() else recipe


@cache
def built(recipe: Recipe) -> Topology:
    """The recipe's topology, remembered between tests."""
    return recipe.topology()


@st.composite
def multigraphs(
    draw: Callable[..., Any], max_nodes: int = 9, max_extra: int = 20, speeds: bool = True
) -> Topology:
    """Any strongly connected multigraph: a closed tour of all nodes and links at random."""
    nodes = draw(st.integers(2, max_nodes))
    tour = draw(st.permutations(range(nodes)))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    links = list(zip(tour, [*tour[1:], tour[0]], strict=True))
    links += draw(st.lists(ends, max_size=max_extra))
    tail, head = zip(*draw(st.permutations(links)), strict=True)
    speed = st.lists(st.integers(1, 4), min_size=len(links), max_size=len(links))
    return Topology(nodes, tail, head, draw(st.none() | speed) if speeds else None)


@st.composite
def regular_multigraphs(
    draw: Callable[..., Any], max_nodes: int = 9, max_degree: int = 5
) -> Topology:
    """A strongly connected regular multigraph: permutations of the nodes, one of them a tour."""
    nodes, degree = draw(st.integers(2, max_nodes)), draw(st.integers(1, max_degree))
    tour = draw(st.permutations(range(nodes)))
    successor = {tour[i - 1]: node for i, node in enumerate(tour)}
    heads = [[successor[node] for node in range(nodes)]]
    heads += [draw(st.permutations(range(nodes))) for _ in range(degree - 1)]
    flat = [row[node] for node in range(nodes) for row in heads]
    return Topology(nodes, [node for node in range(nodes) for _ in heads], flat)


def as_lift(topology: Topology) -> Lift:
    """A regular multigraph whose links are sorted by tail, as a recipe."""
    rows = topology.head.reshape(topology.num_nodes, -1).tolist()
    return Lift(Cyclic(1), tuple(map(tuple, rows)))


def permutation_digraph(nodes: int, degree: int, seed: int, chords: int = 0) -> Topology:
    """A tour of the nodes and degree - 1 random permutations of them, and random chords."""
    random = np.random.default_rng(seed)
    tour = random.permutation(nodes)
    heads = [np.empty(nodes, dtype=np.int64)]
    heads[0][tour] = np.roll(tour, -1)
    heads += [random.permutation(nodes) for _ in range(degree - 1)]
    extra = random.integers(0, nodes, (2, chords))
    tail = np.concatenate([np.tile(np.arange(nodes), degree), extra[0]])
    return Topology(nodes, tail, np.concatenate([*heads, extra[1]]))


def without_symmetry(topology: Topology) -> Topology:
    """The same links, nothing declared of them."""
    return Topology(topology.num_nodes, topology.tail, topology.head, topology.link_speed)
