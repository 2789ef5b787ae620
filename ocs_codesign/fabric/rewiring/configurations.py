"""Changes of configuration as cross-connects: the stages of a rewiring, down to the ports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.rewiring.stages import Staged, Transition, ordered_parts, stages_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.wiring import Configuration


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConfigurationChange(Staged):
    """The stages that lead from one configuration to another on the same cables.

    What goes in a stage are rows of cross-connects of ``before``, what comes those of ``after``.
    """

    before: Configuration
    after: Configuration

    @property
    def num_kept(self) -> int:
        """Cross-connects that stay."""
        return len(self.before.switch) - self.num_deleted


def configuration_change(before: Configuration, after: Configuration) -> ConfigurationChange:
    """The stages of ``staged`` as cross-connects; whole planes where planes have three stages.

    A circuit of three stages may take another way through the middle although its ends stay, so
    that only whole planes can change there. Every plane has its own dead time. Raises ValueError
    for configurations on different cables or of different hosts.
    """
    if before.cabling is not after.cabling:
        raise ValueError("the configurations are on different cables")
    if not np.array_equal(before.host, after.host):
        raise ValueError("the configurations are of different hosts")
    fabric = before.cabling.fabric
    gone, come = _rows_not_in(after, before), _rows_not_in(before, after)
    old, kept = _circuits(before, gone)
    new, _ = _circuits(after, come)
    model = fabric.port_model
    change = Transition(
        model,
        before.topology.num_nodes,
        *(_ends(before, kept), _ends(before, old), _ends(after, new)),
        plane_stops=model is PortModel.RESTRICTED,
    )
    has_trunks = bool(len(before.cabling.trunks))
    parts, service = ordered_parts(change, overlap=fabric.overlap, whole_planes=has_trunks)
    made = stages_of(change, parts, fabric.dead_time_s, overlap=fabric.overlap)
    stages = tuple(
        replace(
            stage,
            delete=gone[np.isin(before.circuit[gone], old[deletes])],
            create=come[np.isin(after.circuit[come], new[creates])],
        )
        for stage, (deletes, creates) in zip(made, parts, strict=True)
    )
    return ConfigurationChange(stages, service, before, after)


def makes_its_topology(configuration: Configuration) -> bool:
    """Whether the light of the circuits, which is followed, makes the topology that is claimed."""
    made, claimed = topology_of(configuration), configuration.topology
    order = np.lexsort((claimed.head, claimed.tail))
    pairs = ((made.tail, claimed.tail[order]), (made.head, claimed.head[order]))
    return all(np.array_equal(*pair) for pair in pairs)


def _rows_not_in(there: Configuration, configuration: Configuration) -> NDArray[np.int64]:
    """Rows of cross-connects of a configuration that the one ``there`` has not."""
    size = 1 + max(switch.num_ports for switch in there.cabling.fabric.switches)
    keys = []
    for each in (configuration, there):
        a_port = each.switch.astype(np.int64) * size + each.a_port
        keys.append(a_port * size + each.b_port)
    return np.flatnonzero(~np.isin(keys[0], keys[1]))


def _circuits(
    configuration: Configuration, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The circuits that rows belong to and all others, by their plane and ends."""
    order = np.lexsort(_ends(configuration, np.arange(configuration.num_circuits)).T[::-1])
    changes = np.isin(order, configuration.circuit[rows])
    return order[changes], order[~changes]


def _ends(configuration: Configuration, circuits: NDArray[np.int64]) -> NDArray[np.int32]:
    """Circuits as rows (plane, A node, B node); without sides the lower node comes first."""
    link = configuration.link[circuits, 0]
    topology = configuration.topology
    nodes = np.stack([topology.tail[link], topology.head[link]], axis=1)
    if configuration.cabling.fabric.port_model is PortModel.MATCHING:
        nodes.sort(axis=1)
    return np.column_stack([configuration.plane[circuits], nodes]).astype(np.int32)
