"""Planes of one-way circuits: a plane is a partial permutation, and the degree is enough.

Source: D. Kőnig (1916), Über Graphen und ihre Anwendung auf Determinantentheorie und Mengenlehre.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes import (
    Planes,
    check_equal_speeds,
    degree_certificate,
    one_way_circuits,
)
from ocs_codesign.factorisation import factorise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def simplex_planes(topology: Topology, _states: NDArray[np.int32] | None = None) -> Planes:
    """As many planes as the largest degree, the fewest that exist."""
    check_equal_speeds(topology)
    certificate = degree_certificate(topology, PortModel.SIMPLEX)
    return Planes(
        PortModel.SIMPLEX,
        topology,
        one_way_circuits(topology),
        factorise(topology),
        certificate.num_planes,
        certificate,
    )
