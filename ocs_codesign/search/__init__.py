"""Finding topologies: the frontier of steps against bandwidth, the finder and the catalogue.

A Frontier is a set of Designs of one size and degree of which none beats another. ``frontier``
answers from recipes (bases, generators, lifts, splices), the catalogue of what was found before,
and proofs by exhaustion; pool and improving search on.

Read pareto, frontiers and bases; then pool with its moves. catalogue/ stores entries, exhaustion/
proves small sizes, alltoall/ searches for all-to-all.

>>> import ocs_codesign as oc
>>> oc.frontier(12, 4)
Frontier(12 nodes, degree 4, allgather: 1 candidates, 10 dominated)
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__, {"frontiers": "frontier joint_frontier", "pareto": "Frontier"}
)
