"""FAMILIES, EXPANSIONS and GROUPS: every class that a recipe may name, loaded when it is used.

To add one, write its class in a module of ``families``, ``expansions`` or ``groups`` and list it
here: ``parse`` and the contract suite read these dicts. If the finder should try it, add a source
to ``search.bases``, a move to ``search.moves`` or a kind to ``search.small_groups``.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, final

if TYPE_CHECKING:
    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.graphs.recipe import Base, Expanded


Kind = TypeVar("Kind")


@final
class Registry(UserDict[str, type[Kind]]):
    """Classes by name; one that is listed by its module is imported when it is first looked up."""

    def __init__(self, names_by_module: dict[str, str]) -> None:
        entries: Any = {
            name: f"ocs_codesign.graphs.{module}"
            for module, names in names_by_module.items()
            for name in names.split()
        }
        super().__init__(entries)

    def __getitem__(self, name: str) -> type[Kind]:
        entry: Any = self.data[name]
        if isinstance(entry, str):
            self.data[name] = getattr(import_module(entry), name)
        return self.data[name]


FAMILIES: Registry[Base] = Registry(
    {
        "families.dense": "Complete CompleteBipartite Hamming",
        "families.rings": "Circulant DirectedCirculant UniRing BiRing Torus Hypercube",
        "families.shifts": "GeneralizedKautz Kautz DeBruijn ModifiedDeBruijn",
        "families.named": "Named",
        "families.cayley": "Cayley Lift",
        "families.affine": "AffineSpliced",
        "families.pods": "PodLattice PodSlice",
    }
)
"""Every family of base graphs."""

EXPANSIONS: Registry[Expanded] = Registry(
    {
        "expansions.line": "Line",
        "expansions.degree": "Degree",
        "expansions.product": "Product Power",
        "expansions.reverse": "Transpose Bidirected",
        "expansions.edits": "Excise Insert Swap Splice",
        "expansions.late": "Late",
    }
)
"""Every expansion."""

GROUPS: Registry[Group] = Registry(
    {
        "groups.cyclic": "Cyclic DirectProduct Permutations",
        "groups.semidirect": "Semidirect Dihedral Dicyclic Affine",
    }
)
"""Every group."""
