"""Planes of circuits from A ports to B ports: the largest degree of either side is enough.

One-way circuits need as many planes as the degree, a plane being a partial permutation. Two-way
ones need half, rounded up: they are turned such that as many leave a node as arrive, up to one,
and every plane takes one of each. Sources: D. Kőnig (1916), Über Graphen und ihre Anwendung auf
Determinantentheorie und Mengenlehre; J. Petersen (1891), Die Theorie der regulären Graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.circuits import check_equal_speeds, circuits_of, ends_of
from ocs_codesign.fabric.planes.planes import Planes, degree_certificate
from ocs_codesign.factorisation import factorise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.topology import Topology


def simplex_planes(topology: Topology, _states: NDArray[np.int32] | None = None) -> Planes:
    """As many planes as the largest degree, the fewest that exist."""
    return _factorised(topology, PortModel.SIMPLEX)


def two_sided_planes(topology: Topology, _states: NDArray[np.int32] | None = None) -> Planes:
    """Half the largest degree of planes, rounded up, the fewest that exist.

    Raises InfeasibleError (ONE_WAY) if a link has no reverse.
    """
    return _factorised(topology, PortModel.TWO_SIDED)


def _factorised(topology: Topology, port_model: PortModel) -> Planes:
    check_equal_speeds(topology)
    link = circuits_of(topology, port_model)
    certificate = degree_certificate(topology, port_model)
    plane = factorise(ends_of(topology, link) if port_model.can_turn else topology)
    return Planes(port_model, topology, link, plane, certificate.num_planes, certificate)
