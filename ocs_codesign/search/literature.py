"""Designs of the literature for a size: what every frontier is compared with.

Source: Zhao et al. (arXiv 2202.03356): generalized Kautz digraphs, line expansions of optimal
circulants, complete bipartite graphs and powers of the Diamond and of modified de Bruijn digraphs,
powers of ring products, tori.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ocs_codesign.graphs.expansions.line import Line
from ocs_codesign.graphs.expansions.product import Power, Product
from ocs_codesign.graphs.families.dense import CompleteBipartite
from ocs_codesign.graphs.families.rings import DirectedCirculant, Torus, UniRing
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.recipe import Recipe
from ocs_codesign.search.bases import PUBLISHED_MODIFIED_DE_BRUIJN, optimal_circulant

if TYPE_CHECKING:
    from collections.abc import Iterator


def literature(num_nodes: int, degree: int) -> tuple[Recipe, ...]:
    """Recipes of the published families that have exactly this size.

    >>> [recipe.label() for recipe in literature(128, 4)]
    ['Π(4,128)', 'C(128,{8,9})', 'L(C(32,{4,5}))', 'L²(C(8,{2,3}))', 'L²(K4,4)']
    """
    return tuple(dict.fromkeys(_designs(num_nodes, degree)))


def _designs(num_nodes: int, degree: int) -> Iterator[Recipe]:
    if degree < 2:
        yield UniRing(degree, num_nodes)
        return
    yield GeneralizedKautz(degree, num_nodes)
    base, times = num_nodes, 0
    while base > degree:
        if degree == 4 and base >= 7:
            yield _line(optimal_circulant(base), times)
        if base == 2 * degree:
            yield _line(CompleteBipartite(degree), times)
        if degree % 2 == 0 and base == 8 ** (degree // 2):
            yield _line(_power(DirectedCirculant(8, (1, 3)), degree // 2), times)
        if base % degree:
            break
        base, times = base // degree, times + 1
    yield from _modified_de_bruijn(num_nodes, degree)
    yield from _rings(num_nodes, degree)


def _modified_de_bruijn(num_nodes: int, degree: int) -> Iterator[Recipe]:
    """Line expansions of powers of the digraphs of published cost: those of the least t_b."""
    base, times = num_nodes, 0
    while base > degree:
        for recipe in PUBLISHED_MODIFIED_DE_BRUIJN:
            exponent, rest = divmod(degree, recipe.degree)
            if not rest and base == recipe.num_nodes**exponent:
                # Every line expansion adds to t_b, so a smaller base costs more.
                yield _line(_power(recipe, exponent), times)
                return
        if base % degree:
            return
        base, times = base // degree, times + 1


def _rings(num_nodes: int, degree: int) -> Iterator[Recipe]:
    """The power of a product of two coprime-step rings, and the squarest torus."""
    if degree % 2:
        return
    axes = degree // 2
    side = round(num_nodes ** (1 / axes))
    if side**axes != num_nodes or side < 3:
        return
    if axes > 1:
        yield Torus((side,) * axes)
    divisors = [k for k in range(2, side) if side % k == 0]
    middle = [(a, b) for a, b in pairwise(divisors) if a * b == side]
    for a, b in middle:
        product = Product(UniRing(1, a), UniRing(1, b))
        yield _power(product, axes)


def _line(recipe: Recipe, times: int) -> Recipe:
    return Line(recipe, times) if times else recipe


def _power(recipe: Recipe, exponent: int) -> Recipe:
    return Power(recipe, exponent) if exponent > 1 else recipe
