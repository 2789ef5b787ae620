"""Samples of everything that a recipe may name, as the classes in the registry list them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.graphs.recipe import Recipe


def texts_of(registry: Mapping[str, Any]) -> list[str]:
    """The recipes that the classes of a registry give as samples."""
    return [f"{name}({text})" for name, kind in registry.items() for text in kind.samples]


def generated(group: type[Group]) -> list[Recipe]:
    """A few groups of a kind, each with elements that generate it: their Cayley digraphs."""
    return [parse(f"Cayley({text})") for text in group.samples]


GROUP_SAMPLES = {name: generated(group) for name, group in GROUPS.items()}
BASE_TEXTS = texts_of(FAMILIES) + [
    repr(recipe) for kind in GROUP_SAMPLES.values() for recipe in kind if recipe.num_nodes > 1
]
"""Strongly connected graphs of every family, Cayley digraphs of every group among them."""

EXPANSION_TEXTS = texts_of(EXPANSIONS)
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
