"""Baselines: what a cluster would be built as without a search, to compare designs of a size with.

A ring of all ports, the torus of least diameter, a double binary tree, and a bound on what a fat
tree could do. Sources: P. Sanders, J. Speck, J. L. Traeff, Parallel Computing 35 (2009), for the
trees; their costs here are closed forms.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import Design, Known
from ocs_codesign.graphs.families.rings import BiRing, UniRing
from ocs_codesign.search.bases import tori

if TYPE_CHECKING:
    from ocs_codesign.cost import CostModel, MessageSizes
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.question import Question

TREE_PORTS = 4
"""Ports that both trees take: a node inside one, with two children, is a leaf of the other."""


def baseline_recipes(question: Question) -> tuple[Recipe, ...]:
    """The ring of all ports, two-way where it can be, and the torus of least diameter.

    >>> from ocs_codesign.question import Question
    >>> [recipe.label() for recipe in baseline_recipes(Question(64, 4))]
    ['BiRing(4,64)', 'Torus 8×8']
    """
    nodes, degree = question.num_nodes, question.degree
    two_way = degree % 2 == 0 and nodes > 2
    found: list[Recipe] = [BiRing(degree, nodes) if two_way else UniRing(degree, nodes)]
    found += sorted(tori(question), key=lambda torus: sum(side // 2 for side in torus.sides))[:1]
    return tuple(filter(question.is_answered_by, found))


def double_binary_tree(num_nodes: int, degree: int, pieces: int = 1) -> Design | None:
    """Allreduce by two binary trees, each of half of M, on links of their own; None below 4 ports.

    The height is h = ceil(log2 N). In so many ``pieces`` a half takes 2h - 1 + pieces steps, and
    every step carries a piece over floor(d / 4) links of B/d.

    >>> double_binary_tree(1024, 4).cost
    Cost(steps=20, t_b=Fraction(40, 1))
    """
    if degree < TREE_PORTS:
        return None
    steps = 2 * (num_nodes - 1).bit_length() - 1 + pieces
    cost = Cost(steps, Fraction(steps * degree, 2 * pieces * (degree // TREE_PORTS)))
    name = "double binary tree" + f", {pieces} pieces" * (pieces > 1)
    return Design(Collective.ALLREDUCE, cost, "closed form", Known.PREDICTED, name=name)


def pipelined_tree(
    num_nodes: int, degree: int, model: CostModel, message_bytes: Fraction | float
) -> Design | None:
    """The double binary tree in the number of pieces that suits a message; None below 4 ports."""
    whole = double_binary_tree(num_nodes, degree)
    if whole is None:
        return None
    pieces = 1
    if model.alpha_s:
        fixed, carried = whole.cost.steps, whole.cost.t_b / whole.cost.steps
        transfer = Cost(0, carried).time_s(model, message_bytes)
        pieces = max(1, isqrt(int((fixed - 1) * transfer / model.alpha_s)))
    designs = (double_binary_tree(num_nodes, degree, each) for each in (pieces, pieces + 1))
    return min(
        (one for one in designs if one is not None),
        key=lambda one: one.cost.time_s(model, message_bytes),
    )


def fat_tree(num_nodes: int, collective: Collective) -> Design:
    """What no fat tree of as many ports can beat: every byte crosses B once, a step a half.

    >>> fat_tree(64, Collective.ALLREDUCE).cost
    Cost(steps=2, t_b=Fraction(63, 32))
    """
    halves = 2 if collective == Collective.ALLREDUCE else 1
    cost = Cost(halves, halves * Fraction(num_nodes - 1, num_nodes))
    return Design(collective, cost, "bound", Known.BOUNDED, name="fat tree (bound)")


def closed_baselines(
    question: Question, collective: Collective, asked: MessageSizes | None = None
) -> tuple[Design, ...]:
    """The baselines of a collective that are closed forms: tree and fat tree.

    Where times of messages are asked for, the trees that suit them.
    """
    size = (question.num_nodes, question.degree)
    trees = [double_binary_tree(*size)]
    if asked is not None:
        trees = [pipelined_tree(*size, asked.model, each) for each in asked.sizes_bytes]
    if collective != Collective.ALLREDUCE:
        trees = []
    by_name = {tree.name: tree for tree in trees if tree is not None}
    return (*by_name.values(), fat_tree(question.num_nodes, collective))
