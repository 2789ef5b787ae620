"""Changes of configuration as cross-connects: the stages of a rewiring, down to the ports."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.rewiring_connectivity import Connectivity, connectivity
from ocs_codesign.fabric.rewiring_state import DARK
from ocs_codesign.fabric.stages import Service, staged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.stages import Stage
    from ocs_codesign.fabric.wiring import Configuration
    from ocs_codesign.reconfigure.change import ReconfigurationCost


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChangeStage:
    """Rows of the old configuration that go, then rows of the new one that come (int64).

    ``connectivity`` proves that the circuits that no row of the stage touches join all nodes; None
    if they do not. Circuits that come are dark for ``dead_time_s``.
    """

    planes: tuple[int, ...]
    delete: NDArray[np.int64]
    create: NDArray[np.int64]
    connectivity: Connectivity | None
    dead_time_s: Fraction


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConfigurationChange:
    """The stages that lead from one configuration to another on the same cables."""

    before: Configuration
    after: Configuration
    stages: tuple[ChangeStage, ...]
    service: Service

    @property
    def num_deleted(self) -> int:
        """Cross-connects that go."""
        return sum(len(stage.delete) for stage in self.stages)

    @property
    def num_created(self) -> int:
        """Cross-connects that come."""
        return sum(len(stage.create) for stage in self.stages)

    @property
    def num_kept(self) -> int:
        """Cross-connects that stay."""
        return len(self.before.switch) - self.num_deleted

    @property
    def dead_time_s(self) -> Fraction:
        """The dead times of all stages, one after the other."""
        return sum((stage.dead_time_s for stage in self.stages), Fraction(0))


def configuration_change(before: Configuration, after: Configuration) -> ConfigurationChange:
    """The stages of ``staged`` as cross-connects; whole planes where planes have three stages.

    A circuit of three stages may take another way through the middle although its ends stay, so
    that only whole planes can change there. Raises ValueError for configurations on different
    cables or of different hosts.
    """
    if before.cabling is not after.cabling:
        raise ValueError("the configurations are on different cables")
    if not np.array_equal(before.host, after.host):
        raise ValueError("the configurations are of different hosts")
    old, new = _Rows(before), _Rows(after)
    cost = _slowest_change(before)
    if len(before.cabling.trunks) or not cost.overlap:
        return _by_whole_planes(old, new, cost)
    model = old.port_model
    stops = model is PortModel.RESTRICTED
    plan = staged(old.state(), new.state(), cost, model, plane_stops=stops)
    stages = tuple(_translated(old, new, stage) for stage in plan.stages)
    return ConfigurationChange(before, after, stages, plan.service)


class _Rows:
    """A configuration's circuits by their ends, and its cross-connects as comparable values."""

    def __init__(self, of: Configuration) -> None:
        self.of = of
        self.port_model = of.cabling.fabric.port_model(0)
        first = of.link[:, 0]
        ends = (of.plane, of.topology.tail[first], of.topology.head[first])
        self.circuits = np.stack(ends, axis=1).astype(np.int32)
        columns = (of.switch, of.a_port, of.b_port)
        self.rows = list(zip(*(column.tolist() for column in columns), strict=True))

    def state(self) -> NDArray[np.int32]:
        """Where the circuit of every A port leads, planes x N."""
        shape = (self.of.cabling.fabric.num_planes, self.of.topology.num_nodes)
        state = np.full(shape, DARK, dtype=np.int32)
        plane, a_node, b_node = self.circuits.T
        state[plane, a_node] = b_node
        if self.port_model is PortModel.MATCHING:
            state[plane, b_node] = a_node
        return state

    def rows_of(self, circuits: NDArray[np.int32]) -> NDArray[np.int64]:
        """The rows of circuits that are given by their ends."""
        listed = (
            [self.circuits]
            if self.port_model is not PortModel.MATCHING
            else [self.circuits, self.circuits[:, [0, 2, 1]]]
        )
        wanted = set(map(tuple, circuits.tolist()))
        mine = np.zeros(self.of.num_circuits, dtype=bool)
        for table in listed:
            mine |= np.array([tuple(row) in wanted for row in table.tolist()], dtype=bool)
        return np.flatnonzero(mine[self.of.circuit])

    def missing_in(self, other: _Rows) -> NDArray[np.int64]:
        """Rows that the other configuration has not."""
        known = set(other.rows)
        return np.array(
            [at for at, row in enumerate(self.rows) if row not in known], dtype=np.int64
        )


def _slowest_change(configuration: Configuration) -> ReconfigurationCost:
    """That of the switches with the longest dead time if all circuits change."""
    switches = configuration.cabling.fabric.switches
    count = max(configuration.num_circuits, 1)
    return max((one.profile.change for one in switches), key=lambda cost: cost.dead_time_s(count))


def _translated(old: _Rows, new: _Rows, stage: Stage) -> ChangeStage:
    return ChangeStage(
        stage.planes,
        old.rows_of(stage.deletes),
        new.rows_of(stage.creates),
        stage.connectivity,
        stage.dead_time_s,
    )


def _by_whole_planes(old: _Rows, new: _Rows, cost: ReconfigurationCost) -> ConfigurationChange:
    """One plane after the other, first those whose change leaves all nodes joined; or all at once.

    All planes change at once if the whole fabric stops for every change.
    """
    gone, come = old.missing_in(new), new.missing_in(old)
    gone_plane, come_plane = (
        one.of.plane[one.of.circuit[rows]] for one, rows in ((old, gone), (new, come))
    )
    left: list[int] = np.union1d(gone_plane, come_plane).tolist()
    stays = np.ones(old.of.num_circuits, dtype=bool)
    stays[old.of.circuit[gone]] = False
    if left and not cost.overlap:
        dead = cost.dead_time_s(len(np.unique(new.of.circuit[come])))
        one = ChangeStage(tuple(left), gone, come, None, dead)
        return ConfigurationChange(old.of, new.of, (one,), Service.FABRIC_STOPS)
    changed: list[int] = []
    stages = []
    while left:
        proofs = {plane: _joined(old, new, changed, plane, stays) for plane in left}
        plane = next((one for one in left if proofs[one] is not None), left[0])
        delete, create = gone[gone_plane == plane], come[come_plane == plane]
        dead = cost.dead_time_s(len(np.unique(new.of.circuit[create])))
        stages.append(ChangeStage((plane,), delete, create, proofs[plane], dead))
        changed.append(plane)
        left.remove(plane)
    service = Service.WHOLE_PLANES if stages else Service.NO_CHANGE
    if any(stage.connectivity is None for stage in stages):
        service = Service.NOT_FOUND
    return ConfigurationChange(old.of, new.of, tuple(stages), service)


def _joined(
    old: _Rows, new: _Rows, changed: list[int], changing: int, stays: NDArray[np.bool_]
) -> Connectivity | None:
    """The proof that all nodes are joined while a plane changes, None if they are not."""
    held = ~np.isin(old.of.plane, changed) & ((old.of.plane != changing) | stays)
    made = np.isin(new.of.plane, changed)
    up = np.concatenate([old.circuits[held], new.circuits[made]])
    return connectivity(up, old.port_model, old.of.topology.num_nodes)
