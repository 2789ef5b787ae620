"""Sample sizes of everything that plugs in: an entry without any fails its contract suite."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocs_codesign.groups import (
    Affine,
    Cyclic,
    Dicyclic,
    Dihedral,
    DirectProduct,
    Group,
    Permutations,
    Semidirect,
)
from ocs_codesign.topology import Topology

GROUP_SAMPLES: dict[str, list[tuple[Group, tuple[Any, ...]]]] = {
    "Cyclic": [(Cyclic(1), (0,)), (Cyclic(2), (1,)), (Cyclic(9), (2,)), (Cyclic(12), (3, 4))],
    "DirectProduct": [
        (DirectProduct(Cyclic(2), Cyclic(2)), ((1, 0), (0, 1))),
        (DirectProduct(Cyclic(3), Cyclic(4)), ((1, 1),)),
        (DirectProduct(Dihedral(3), Cyclic(2)), (((1, 0), 1), ((0, 1), 0))),
        (DirectProduct(Cyclic(2), Cyclic(3), Cyclic(2)), ((1, 1, 0), (0, 0, 1))),
    ],
    "Semidirect": [
        (Semidirect(7, 3, 2), ((1, 0), (0, 1))),
        (Semidirect(8, 2, 3), ((1, 1), (0, 1))),
        (Semidirect(5, 4, 2), ((1, 0), (0, 1))),
        (Semidirect(1, 4, 0), ((0, 1),)),
    ],
    "Affine": [
        (Affine(2, ((0, 1), (1, 1)), 3), (((1, 0), 0), ((0, 0), 1))),
        (Affine(2, ((0, 0, 1), (1, 0, 1), (0, 1, 0)), 7), (((1, 0, 0), 1), ((0, 0, 0), 3))),
        (Affine(3, ((0, 1), (1, 1)), 8), (((0, 2), 0), ((0, 0), 1))),
        (Affine(2, ((0, 1, 0), (0, 0, 1), (1, 0, 0)), 3), (((1, 0, 0), 0), ((0, 0, 0), 1))),
        (Affine(3, ((0, 1, 0), (0, 0, 1), (1, 0, 0)), 3), (((1, 0, 0), 1), ((0, 0, 0), 1))),
        (Affine(3, ((1, 1), (0, 1)), 3), (((0, 1), 0), ((0, 0), 1))),
        (Affine(4, ((1, 2), (0, -1)), 2), (((1, 0), 0), ((0, 1), 0), ((0, 0), 1))),
        (Affine(2, ((1, 0), (0, 1)), 2), (((1, 0), 0), ((0, 1), 0), ((0, 0), 1))),
    ],
    "Dihedral": [
        (Dihedral(1), ((0, 1),)),
        (Dihedral(2), ((1, 0), (0, 1))),
        (Dihedral(5), ((0, 1), (1, 1))),
        (Dihedral(8), ((1, 0), (0, 1))),
    ],
    "Dicyclic": [
        (Dicyclic(1), ((0, 1),)),
        (Dicyclic(2), ((1, 0), (0, 1))),
        (Dicyclic(3), ((1, 0), (0, 1))),
    ],
    "Permutations": [
        (Permutations((1, 2, 0)), ((1, 2, 0),)),
        (Permutations((1, 0, 2), (1, 2, 0)), ((1, 0, 2), (1, 2, 0))),
        (Permutations((1, 2, 3, 0), (1, 0, 2, 3)), ((1, 2, 3, 0), (1, 0, 2, 3))),
        (Permutations((1, 2, 0, 3), (1, 0, 3, 2)), ((1, 2, 0, 3), (1, 0, 3, 2))),
    ],
}
"""A few groups of every kind, each with elements that generate it."""

FAMILY_SIZES: dict[str, list[tuple[Any, ...]]] = {
    "Complete": [(2,), (3,), (7,), (12,)],
    "CompleteBipartite": [(1,), (2,), (5,)],
    "Hamming": [(1, 2), (1, 5), (2, 3), (3, 3), (2, 6)],
    "Circulant": [(2, (1,)), (6, (3, 1)), (9, (2, 3)), (7, (2, 5)), (12, (1, 1)), (30, (4, 9, 10))],
    "DirectedCirculant": [(2, (1,)), (5, (1, 1, 2)), (8, (1, 3)), (16, (1, 4, 5)), (20, (3, 11))],
    "UniRing": [(1, 2), (1, 5), (3, 4), (2, 9)],
    "BiRing": [(2, 2), (2, 3), (4, 5), (2, 8), (6, 4)],
    "Torus": [((2,),), ((5,),), ((3, 2),), ((2, 2, 4),), ((5, 4),), ((3, 3, 2),)],
    "Hypercube": [(1,), (2,), (4,), (6,)],
    "GeneralizedKautz": [(2, 2), (2, 3), (2, 8), (2, 9), (3, 7), (4, 9), (5, 4), (3, 40)],
    "Kautz": [(1, 0), (2, 0), (2, 1), (2, 3), (3, 1), (4, 1)],
    "DeBruijn": [(2, 1), (2, 2), (2, 4), (3, 2), (4, 2)],
    "ModifiedDeBruijn": [(2, 2), (2, 3), (2, 4), (2, 6), (3, 2), (3, 3), (4, 2), (5, 2)],
    "Named": [("k4",), ("diamond",), ("petersen",), ("k55_minus_matching",), ("twisted_3_cube",)],
    "Cayley": [
        (group, generators)
        for samples in GROUP_SAMPLES.values()
        for group, generators in samples
        if group.order > 1
    ],
    "Lift": [
        (Cyclic(1), ((1, 1), (0, 2), (0, 2))),
        (Cyclic(5), ((1, 2),)),
        (Cyclic(7), ((1, 7, 9), (3, 5, 12))),
        (Cyclic(12), ((13, 25), (25, 1), (11, 14))),
        (Dihedral(3), ((1, 6, 8), (2, 9, 5))),
        (Semidirect(7, 3, 2), ((1, 22), (3, 40))),
    ],
}
"""Sizes of strongly connected graphs of every family."""

EXPANSION_TEXTS: dict[str, list[str]] = {
    "Line": [
        "Line(Complete(2))",
        "Line(UniRing(1, 5))",
        "Line(UniRing(2, 3))",
        "Line(CompleteBipartite(3))",
        "Line(GeneralizedKautz(2, 7))",
        "Line(DeBruijn(2, 2))",
        "Line(ModifiedDeBruijn(2, 3))",
        "Line(Line(DirectedCirculant(5, (1, 2))))",
        "Line(Cayley(Dihedral(4), ((1, 0), (0, 1))))",
        'Line(Named("petersen"))',
    ],
    "Degree": [
        "Degree(Complete(2), 3)",
        "Degree(UniRing(1, 4), 2)",
        "Degree(GeneralizedKautz(2, 6), 2)",
        "Degree(DirectedCirculant(8, (1, 3)), 2)",
        "Degree(Torus((3, 2)), 3)",
        "Degree(ModifiedDeBruijn(3, 2), 2)",
        "Degree(Line(Complete(3)), 2)",
        "Degree(Complete(4), 1)",
        "Degree(Cayley(Semidirect(7, 3, 2), ((1, 0), (0, 1))), 2)",
    ],
    "Power": [
        "Power(Complete(3), 2)",
        "Power(UniRing(2, 3), 2)",
        "Power(GeneralizedKautz(2, 8), 2)",
        "Power(GeneralizedKautz(2, 3), 3)",
        "Power(DirectedCirculant(8, (1, 3)), 2)",
        "Power(Line(Complete(3)), 2)",
        "Power(DeBruijn(2, 2), 2)",
        "Power(ModifiedDeBruijn(2, 3), 2)",
        'Power(Named("diamond"), 1)',
    ],
    "Product": [
        "Product(Complete(3), UniRing(1, 3))",
        "Product(UniRing(1, 3), UniRing(1, 4), Complete(2))",
        "Product(DirectedCirculant(8, (1, 3)), UniRing(2, 4))",
        "Product(GeneralizedKautz(2, 5), Complete(3))",
        "Product(DeBruijn(2, 2), UniRing(1, 3))",
        "Product(ModifiedDeBruijn(2, 3), UniRing(1, 3))",
        "Product(Line(Complete(3)), BiRing(2, 5))",
        "Product(Degree(Complete(2), 2), Circulant(7, (2, 3)))",
        "Product(Power(GeneralizedKautz(2, 4), 2), Complete(2))",
        "Product(Cayley(Dicyclic(2), ((1, 0), (0, 1))), Torus((3, 2)))",
    ],
    "Transpose": [
        "Transpose(Complete(3))",
        "Transpose(GeneralizedKautz(2, 9))",
        "Transpose(ModifiedDeBruijn(2, 5))",
        "Transpose(Line(GeneralizedKautz(2, 5)))",
        "Transpose(Product(GeneralizedKautz(2, 5), Complete(3)))",
        "Transpose(Cayley(Dihedral(5), ((1, 0), (1, 1))))",
    ],
    "Bidirected": [
        "Bidirected(UniRing(1, 5))",
        "Bidirected(GeneralizedKautz(2, 9))",
        "Bidirected(DeBruijn(2, 3))",
        "Bidirected(ModifiedDeBruijn(2, 5))",
        "Bidirected(Line(Complete(3)))",
        "Bidirected(Transpose(GeneralizedKautz(3, 7)))",
        "Bidirected(Cayley(Semidirect(7, 3, 2), ((1, 0), (0, 1))))",
    ],
}
"""Recipes with every expansion outermost: loops, parallel links, loads that are not optimal."""


def loaded_topologies() -> list[Topology]:
    """Strongly connected topologies with everything a topology may have."""
    ring = np.arange(6)
    return [
        Topology(2, [0, 1], [1, 0]),
        Topology(3, [0, 1, 2, 0, 0], [1, 2, 0, 0, 1]),
        Topology(4, [0, 0, 0, 1, 2, 3, 1, 3], [1, 2, 3, 0, 0, 0, 3, 1]),
        Topology(6, np.tile(ring, 2), np.concatenate([(ring + 1) % 6, (ring + 4) % 6])),
        Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], [1, 1, 1, 3, 3, 3]),
        Topology(4, [0, 1, 2, 3, 0, 0, 2], [1, 2, 3, 0, 2, 1, 2], [2, 1, 3, 1, 5, 1, 4]),
    ]
