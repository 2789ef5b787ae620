"""Redesign: when a plane dies, the best stored design of fewer ports that what is left can hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.fabric.deployments.deploy import all_changes, designed
from ocs_codesign.fabric.deployments.deployment import Deployment
from ocs_codesign.fabric.deployments.held import change_from_held, joined_ports
from ocs_codesign.fabric.deployments.work import Work, change_steps
from ocs_codesign.fabric.embed.embedding import embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.repairs.repair import without_switches
from ocs_codesign.fabric.rewiring.configurations import makes_its_topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.question import Question
from ocs_codesign.search.catalogue.lookup import stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ocs_codesign.cost import Cost
    from ocs_codesign.fabric.deployments.deployment import Failures
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling, Configuration
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.topology import Topology

NAME = "redesign"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Redesign:
    """A recipe whose circuits fit what is left, and its stored cost on the ports that are left.

    ``lost`` names the configurations that cannot be kept.
    """

    recipe: Recipe
    configuration: Configuration
    collective: Collective
    cost: Cost
    lost: tuple[str, ...]


def redesign(deployment: Deployment, lost: Failures, name: str = NAME) -> Redesign:
    """The stored design of most ports, of these the one of least t_b, that fits without switches.

    Raises InfeasibleError if no stored design fits, ValueError if anything but switches is lost.
    """
    if lost.hosts or lost.ports:
        raise ValueError("a redesign is for lost switches and planes: hosts and ports have spares")
    failures = deployment.failures.and_also(lost)
    up = deployment.configuration(deployment.up)
    cabling = without_switches(up.configuration, failures.switches)
    live = np.unique(np.nonzero(cabling.a_switch[deployment.host] >= 0)[1])
    ports = len(live) * (2 if deployment.fabric.port_model(0).can_turn else 1)
    kinds = [bounded.collective for bounded in up.designs if bounded.collective in GATHERING]
    collective = kinds[0] if kinds else Collective.ALLGATHER
    gone = tuple(
        made.name for made in deployment.configurations if _needs(made.configuration, cabling)
    )
    for recipe, cost in _candidates(deployment, min(up.topology.degree, ports), collective):
        fitting = _fitted(deployment, cabling, live, recipe.topology(), name)
        if fitting is not None:
            return Redesign(recipe, fitting, collective, cost, gone)
    raise InfeasibleError(
        Reason.NOT_FOUND,
        f"no stored design of {deployment.num_nodes} nodes and up to {ports} ports fits what is "
        "left",
    )


def redesigned(
    deployment: Deployment,
    lost: Failures,
    name: str = NAME,
    on_phase: Callable[[str], None] | None = None,
) -> tuple[Deployment, ConfigurationChange]:
    """The redesign brought up; configurations that need what is lost are torn down."""
    tell = on_phase or (lambda _: None)
    if name in deployment.names:
        raise ValueError(f"name {name!r} is given twice")
    tell("Searching stored designs")
    made = redesign(deployment, lost, name)
    up = deployment.configuration(deployment.up)
    kinds = [bounded.collective for bounded in up.designs]
    new = designed(made.recipe, made.configuration, kinds, tell)
    cabling = made.configuration.cabling
    kept = [
        replace(one, configuration=replace(one.configuration, cabling=cabling))
        for one in deployment.configurations
        if one.name not in made.lost
    ]
    tell("Planning changes")
    change = change_from_held(joined_ports(up.configuration), made.configuration)
    change = replace(change, before=replace(change.before, name=up.name))
    title = f"redesign as {name} without {' '.join(lost.components())}"
    configurations = (*kept, new)
    changed = Deployment(
        cabling,
        configurations,
        all_changes(configurations),
        name,
        deployment.failures.and_also(lost),
        Work(title, change_steps(change, change.before, change.after)),
    )
    return changed, change


def _candidates(
    deployment: Deployment, ports: int, collective: Collective
) -> Iterator[tuple[Recipe, Cost]]:
    """Stored designs, those of most ports first, then those of least t_b."""
    two_way = deployment.fabric.port_model(0).is_bidirectional
    with Catalogue() as catalogue:
        for degree in range(ports, 0, -1):
            question = Question(deployment.num_nodes, degree, two_way)
            frontier = stored_frontier(catalogue.entries(question), collective)
            for entry in sorted(frontier, key=lambda one: one.cost(collective).t_b):
                yield parse(entry.recipe), entry.cost(collective)


def _fitted(
    deployment: Deployment, cabling: Cabling, live: NDArray[np.int64], topology: Topology, name: str
) -> Configuration | None:
    """Its circuits on the planes that are left, or None."""
    fabric, model = deployment.fabric, deployment.fabric.port_model(0)
    try:
        planes = None
        if not model.has_states:
            planes = planes_of(topology, model)
            if planes.num_planes > len(live):
                return None
            numbers = live[planes.plane].astype(np.int32)
            planes = replace(planes, plane=numbers, num_planes=1 + int(live.max()))
        made = embed(
            fabric, topology, host=deployment.host, plane=planes, cabling=cabling, name=name
        ).configuration
    except InfeasibleError:
        return None
    return made if makes_its_topology(made) else None


def _needs(configuration: Configuration, cabling: Cabling) -> bool:
    """Whether a circuit crosses a switch that has no cable any more."""
    cabled = np.concatenate([cabling.a_switch.ravel(), cabling.b_switch.ravel()])
    cabled = np.concatenate([cabled, cabling.trunks[:, [0, 2]].ravel()])
    return bool((~np.isin(configuration.switch, cabled)).any())
