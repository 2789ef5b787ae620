"""Topologies by name: families, expansions and groups, and the recipes that are written of them.

A Recipe is a value: it prints the text that ``parse`` reads, hashes, predicts its cost and builds
its Topology. A family is one class in families/, an expansion one in expansions/, a group one in
groups/; registry lists them all.

Read recipe, then one family (families.rings) and one expansion (expansions.line), then text and
registry. base_topologies reads the stored data; formats/ reads and writes graphs as files.

>>> import ocs_codesign as oc
>>> recipe = oc.parse("Line(CompleteBipartite(4))")
>>> recipe.num_nodes, recipe.degree
(32, 4)
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "expansions.degree": "Degree",
        "expansions.line": "Line",
        "expansions.product": "Power Product",
        "expansions.reverse": "Bidirected Transpose",
        "families.cayley": "Cayley Lift",
        "families.dense": "Complete CompleteBipartite Hamming",
        "families.named": "Named",
        "families.rings": "BiRing Circulant DirectedCirculant Hypercube Torus UniRing",
        "families.shifts": "DeBruijn GeneralizedKautz Kautz ModifiedDeBruijn",
        "formats.graph_files": "import_graph",
        "groups.cyclic": "Cyclic DirectProduct Permutations",
        "groups.semidirect": "Affine Dicyclic Dihedral Semidirect",
        "recipe": "Recipe",
        "text": "parse parse_network",
    },
)
