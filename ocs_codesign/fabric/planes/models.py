"""The port models: how each puts a topology's links on planes.

Of circuits from A ports to B ports, one-way ones need as many planes as the degree, a plane being a
partial permutation. Two-way ones need half, rounded up: they are turned such that as many leave a
node as arrive, up to one, and every plane takes one of each. Sources: D. Kőnig (1916), Über Graphen
und ihre Anwendung auf Determinantentheorie und Mengenlehre; J. Petersen (1891), Die Theorie der
regulären Graphs.

To add a model, give PortModel a member that says what its circuits are, write the function in a
module of this folder and list it in PORT_MODELS.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.circuits import check_equal_speeds, circuits_of, ends_of
from ocs_codesign.fabric.planes.matching import matching_planes
from ocs_codesign.fabric.planes.planes import Planes, degree_certificate
from ocs_codesign.factorisation import factorise

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.topology import Topology


def sided_planes(port_model: PortModel, topology: Topology) -> Planes:
    """The largest degree of planes, or half of it for two-way circuits: the fewest that exist.

    Raises InfeasibleError (ONE_WAY) if circuits are two-way and a link has no reverse.
    """
    check_equal_speeds(topology)
    link = circuits_of(topology, port_model)
    certificate = degree_certificate(topology, port_model)
    plane = factorise(ends_of(topology, link) if port_model.can_turn else topology)
    return Planes(port_model, topology, link, plane, certificate.num_planes, certificate)


PORT_MODELS: dict[PortModel, Callable[[Topology], Planes]] = {
    PortModel.SIMPLEX: partial(sided_planes, PortModel.SIMPLEX),
    PortModel.TWO_SIDED: partial(sided_planes, PortModel.TWO_SIDED),
    PortModel.MATCHING: matching_planes,
}
"""The port models that leave a choice of planes, and how each puts a topology on the fewest."""


def planes_of(topology: Topology, port_model: PortModel) -> Planes:
    """The circuits of a topology on as few planes as the port model needs, with the proof.

    Raises ValueError for RESTRICTED planes and InfeasibleError, with its reason, if no number of
    planes is enough.

    >>> from ocs_codesign.topology import Topology
    >>> ring = Topology(5, [0, 1, 2, 3, 4] * 2, [1, 2, 3, 4, 0, 4, 0, 1, 2, 3])
    >>> [planes_of(ring, model).num_planes for model in PORT_MODELS]
    [2, 1, 3]
    """
    if port_model not in PORT_MODELS:
        raise ValueError(
            f"the planes are {port_model.value}: their states are given, and only embedding "
            "chooses among them"
        )
    return PORT_MODELS[port_model](topology)
