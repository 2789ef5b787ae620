"""Reading a bundle: the deployment that was written, after everything in it has been checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.core.compute.factorisation import NO_LINK
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.deploy import (
    BoundedDesign,
    DeployedConfiguration,
    Deployment,
    Failures,
    all_changes,
)
from ocs_codesign.fabric.deployments.work import Action, Work, WorkStep
from ocs_codesign.fabric.wiring import NOT_CABLED, Cabling, Configuration, Port
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Design, Known

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.bundle.check.bundle import BundleVerdict, DerivedConfiguration
    from ocs_codesign.fabric.bundle.check.circuits import Cable, Plant
    from ocs_codesign.fabric.bundle.check.plans import State


def read_bundle(directory: str | Path) -> Deployment:
    """The deployment in a directory or its zip: ``write_bundle`` writes the same bytes of it again.

    Raises OSError if something cannot be read, and ValueError if the directory is no bundle or
    anything in it is wrong, with the first finding.
    """
    verdict = check_bundle(directory)
    plant, state = verdict.plant, verdict.state
    if verdict.ok and state is None:
        raise ValueError(f"{directory} is the bundle of a pod, of whose slices there is no state")
    if not verdict.ok or plant is None or state is None:
        more = f" (and {verdict.num_findings - 1} more)" if verdict.num_findings > 1 else ""
        raise ValueError(f"{directory} is not a valid bundle: {verdict.findings[0]}{more}")
    cabling = _cabling(plant)
    number = {name: at for at, name in enumerate(plant.fabric.hosts)}
    host = np.empty(len(verdict.rank_of), dtype=np.int32)
    for name, rank in verdict.rank_of.items():
        host[rank] = number[name]
    made = tuple(_deployed(verdict, derived, cabling, host) for derived in verdict.configurations)
    return Deployment(
        *(cabling, made, all_changes(made), state.up, _failures(state), _work(verdict, state))
    )


def _cabling(plant: Plant) -> Cabling:
    fabric = plant.fabric
    hosts = {name: at for at, name in enumerate(fabric.hosts)}
    switches = {switch.name: at for at, switch in enumerate(fabric.switches)}
    shape = (2, len(hosts), fabric.num_planes)
    switch_of = np.full(shape, NOT_CABLED, dtype=np.int32)
    port_of = np.full(shape, NOT_CABLED, dtype=np.int32)
    trunks, numbers = [], []
    for cable in plant.cables:
        there = (switches[cable.far.device], _number(cable.far.name))
        if cable.is_trunk:
            trunks.append((switches[cable.near.device], _number(cable.near.name), *there))
            numbers.append(int(cable.name[1:]))
            continue
        at = (_side(plant, cable), hosts[cable.near.device], cable.plane)
        switch_of[at], port_of[at] = there
    columns = (switch_of[0], port_of[0], switch_of[1], port_of[1])
    table = np.array(trunks, dtype=np.int32).reshape(-1, 4)
    return Cabling(fabric, *columns, table, np.array(numbers, dtype=np.int32))


def _side(plant: Plant, cable: Cable) -> int:
    strands = tuple(dict.fromkeys(plant.fabric.port_model.strands))
    return strands.index(cable.strand)


def _number(port: str) -> int:
    return int(port.rstrip("AB"))


def _deployed(
    verdict: BundleVerdict, derived: DerivedConfiguration, cabling: Cabling, host: NDArray[np.int32]
) -> DeployedConfiguration:
    claim = derived.claim
    if claim.recipe is None:
        raise ValueError(f"configuration {claim.name} has no recipe")
    recipe = parse(claim.recipe)
    topology = recipe.topology()
    configuration = _configuration(derived, cabling, topology, verdict.rank_of, host)
    designs = tuple(
        BoundedDesign(
            Design(
                *(each.schedule.collective, each.cost, each.maker, Known.MEASURED, (recipe,)),
                each.max_loads,
                built=each.schedule,
            ),
            claim.bounds[each.collective],
        )
        for each in verdict.schedules
        if each.configuration == claim.name
    )
    return DeployedConfiguration(recipe, configuration, designs)


def _configuration(
    derived: DerivedConfiguration,
    cabling: Cabling,
    topology: Topology,
    rank_of: dict[str, int],
    host: NDArray[np.int32],
) -> Configuration:
    """The circuits by their numbers; links must be in the order in which the recipe has them."""
    circuits = sorted(derived.circuits, key=lambda circuit: circuit.number or 0)
    link = np.full((len(circuits), 2), NO_LINK, dtype=np.int32)
    for at, claimed in enumerate(derived.links):
        link[claimed.circuit.number, int(claimed.is_backward)] = at
        ends = tuple(rank_of[name] for name in claimed.hosts)
        if ends != (topology.tail[at], topology.head[at]):
            raise ValueError(
                f"links/{derived.name}.csv: link {at} is from rank {ends[0]} to {ends[1]}, in the "
                f"recipe from {topology.tail[at]} to {topology.head[at]}"
            )
    number = {switch.name: at for at, switch in enumerate(cabling.fabric.switches)}
    rows = [
        (at, number[row.switch], _number(row.a_side), _number(row.b_side))
        for at, circuit in enumerate(circuits)
        for row in circuit.rows
    ]
    columns = np.array(rows, dtype=np.int32).reshape(-1, 4).T
    plane = np.array([circuit.plane for circuit in circuits], dtype=np.int32)
    return Configuration(derived.name, cabling, topology, host, plane, link, *columns.copy())


def _failures(state: State) -> Failures:
    ports = []
    for text in state.failed.ports:
        switch, _, name = text.rpartition(":")
        ports.append(Port(switch, name.lstrip("0123456789"), _number(name)))
    return Failures(state.failed.hosts, tuple(ports), state.failed.switches)


def _work(verdict: BundleVerdict, state: State) -> Work | None:
    if state.title is None:
        return None
    steps = (
        WorkStep(
            int(row["stage"]),
            Action(row["action"]),
            *(row["switch"], row["id"], int(row["plane"]), row["cable"]),
        )
        for row in verdict.work
    )
    return Work(state.title, tuple(steps), not state.is_planned)
