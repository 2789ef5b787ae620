"""Finite groups for Cayley graphs: small frozen values that multiply whole index arrays."""

from ocs_codesign.groups.affine import Affine
from ocs_codesign.groups.arithmetic import Cyclic, Dicyclic, Dihedral, DirectProduct, Semidirect
from ocs_codesign.groups.base import MAX_ORDER, Group
from ocs_codesign.groups.permutations import Permutations

GROUPS: dict[str, type[Group]] = {
    group.__name__: group
    for group in (Cyclic, DirectProduct, Semidirect, Affine, Dihedral, Dicyclic, Permutations)
}
"""Every group that a recipe may name."""

__all__ = [
    "GROUPS",
    "MAX_ORDER",
    "Affine",
    "Cyclic",
    "Dicyclic",
    "Dihedral",
    "DirectProduct",
    "Group",
    "Permutations",
    "Semidirect",
]
