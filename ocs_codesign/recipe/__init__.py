"""Recipes: what a design is, as a value. ``Line(CompleteBipartite(4))`` is one."""

from ocs_codesign.recipe.base import Base
from ocs_codesign.recipe.bases import (
    BASES,
    BiRing,
    Cayley,
    Circulant,
    Complete,
    CompleteBipartite,
    DirectedCirculant,
    Hamming,
    Hypercube,
    Lift,
    Named,
    Torus,
    UniRing,
)
from ocs_codesign.recipe.core import Expanded, Recipe, measured_gather_loads
from ocs_codesign.recipe.expanded import (
    EXPANDED,
    Bidirected,
    Degree,
    Line,
    Power,
    Product,
    Transpose,
)
from ocs_codesign.recipe.shifts import DeBruijn, GeneralizedKautz, Kautz, ModifiedDeBruijn
from ocs_codesign.recipe.text import parse

__all__ = [
    "BASES",
    "EXPANDED",
    "Base",
    "BiRing",
    "Bidirected",
    "Cayley",
    "Circulant",
    "Complete",
    "CompleteBipartite",
    "DeBruijn",
    "Degree",
    "DirectedCirculant",
    "Expanded",
    "GeneralizedKautz",
    "Hamming",
    "Hypercube",
    "Kautz",
    "Lift",
    "Line",
    "ModifiedDeBruijn",
    "Named",
    "Power",
    "Product",
    "Recipe",
    "Torus",
    "Transpose",
    "UniRing",
    "measured_gather_loads",
    "parse",
]
