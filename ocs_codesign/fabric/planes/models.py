"""The port models: how each puts a topology's links on planes.

To add one, give PortModel a member that says what its circuits are, write the function in a module
of this folder and list it in PORT_MODELS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.planes.matching import matching_planes
from ocs_codesign.fabric.planes.restricted import restricted_planes
from ocs_codesign.fabric.planes.two_sides import simplex_planes, two_sided_planes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes
    from ocs_codesign.topology import Topology

PORT_MODELS: dict[PortModel, Callable[[Topology, NDArray[np.int32] | None], Planes]] = {
    PortModel.SIMPLEX: simplex_planes,
    PortModel.TWO_SIDED: two_sided_planes,
    PortModel.MATCHING: matching_planes,
    PortModel.RESTRICTED: restricted_planes,
}
"""Every port model: (topology, states of a plane or None) to planes, the fewest that it finds."""


def planes_of(
    topology: Topology, port_model: PortModel, states: NDArray[np.int32] | None = None
) -> Planes:
    """The circuits of a topology on as few planes as the port model needs, with the proof.

    ``states`` (int32, states x N: the node that a state's circuit leads to from each, -1 for none)
    are for RESTRICTED and must be None else. Raises ValueError if they are missing or in excess and
    InfeasibleError, with its reason, if no number of planes is enough.

    >>> from ocs_codesign.topology import Topology
    >>> ring = Topology(5, [0, 1, 2, 3, 4] * 2, [1, 2, 3, 4, 0, 4, 0, 1, 2, 3])
    >>> [planes_of(ring, model).num_planes for model in list(PortModel)[:3]]
    [2, 1, 3]
    """
    if (states is None) == port_model.has_states:
        rule = "needs states" if states is None else "takes no states"
        raise ValueError(f"port model {port_model.value} {rule}")
    return PORT_MODELS[port_model](topology, states)
