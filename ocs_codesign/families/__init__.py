"""Families of base graphs: sizes in, Topology out, with what theory says of their loads.

To add a family write its three functions in a module here, list them in FAMILIES and give it a
recipe class of the same name in ``ocs_codesign.recipe.bases``; the contract suite does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.families import cayley, dense, lift, named, rings, shifts

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.families.shape import Shape
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class Family:
    """A family: ``shape(*sizes)`` validates, ``build(*sizes)`` makes the Topology.

    ``loads(*sizes)``, where theory has a closed form, gives the largest link load of every BFB
    allgather step (on the transpose the same); None means that BFB on the base tells.
    """

    shape: Callable[..., Shape]
    build: Callable[..., Topology]
    loads: Callable[..., tuple[Fraction, ...]] | None = None

    def closed_form(self, *sizes: Any) -> tuple[Fraction, ...] | None:
        """The loads by formula, None without one."""
        return None if self.loads is None else self.loads(*sizes)


FAMILIES: dict[str, Family] = {
    "Complete": Family(dense.complete_shape, dense.complete, dense.complete_loads),
    "CompleteBipartite": Family(
        dense.complete_bipartite_shape,
        dense.complete_bipartite,
        dense.complete_bipartite_loads,
    ),
    "Hamming": Family(dense.hamming_shape, dense.hamming, dense.hamming_loads),
    "Circulant": Family(rings.circulant_shape, rings.circulant),
    "DirectedCirculant": Family(rings.directed_circulant_shape, rings.directed_circulant),
    "UniRing": Family(rings.uni_ring_shape, rings.uni_ring, rings.uni_ring_loads),
    "BiRing": Family(rings.bi_ring_shape, rings.bi_ring, rings.bi_ring_loads),
    "Torus": Family(rings.torus_shape, rings.torus, rings.torus_loads),
    "Hypercube": Family(rings.hypercube_shape, rings.hypercube, rings.hypercube_loads),
    "GeneralizedKautz": Family(shifts.generalized_kautz_shape, shifts.generalized_kautz),
    "Kautz": Family(shifts.kautz_shape, shifts.kautz, shifts.kautz_loads),
    "DeBruijn": Family(shifts.de_bruijn_shape, shifts.de_bruijn, shifts.de_bruijn_loads),
    "ModifiedDeBruijn": Family(shifts.modified_de_bruijn_shape, shifts.modified_de_bruijn),
    "Named": Family(named.named_shape, named.named),
    "Cayley": Family(cayley.cayley_shape, cayley.cayley),
    "Lift": Family(lift.lift_shape, lift.lift),
}
