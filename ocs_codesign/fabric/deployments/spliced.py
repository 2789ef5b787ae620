"""Going on without hosts: their circuits joined in every configuration, and fewer nodes left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.fabric.deployments.deploy import all_changes, designed
from ocs_codesign.fabric.deployments.deployment import Deployment
from ocs_codesign.fabric.deployments.held import change_from_held, joined_ports
from ocs_codesign.fabric.deployments.work import Work, change_steps
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.repairs.splicing import Where, spliced_configuration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.fabric.deployments.deployment import DeployedConfiguration, Failures
    from ocs_codesign.fabric.repairs.splicing import SplicedConfiguration
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange


@final
@dataclass(frozen=True, slots=True, eq=False)
class SplicedDeployment:
    """A deployment without lost hosts, the change that led to it, and how circuits were joined.

    ``up`` tells of the configuration that is up. ``torn_down`` are configurations whose circuits
    could not be joined, with the reason of each.
    """

    deployment: Deployment
    change: ConfigurationChange
    up: SplicedConfiguration
    torn_down: tuple[tuple[str, str], ...]


def spliced(
    deployment: Deployment,
    lost: Failures,
    where: Where | str = Where.IN_PLACE,
    on_phase: Callable[[str], None] | None = None,
    *,
    seed: int = 0,
) -> SplicedDeployment:
    """The same configurations on the hosts that are left, with schedules built and verified.

    No strand moves; only cross-connects change. The circuits of each configuration are joined for
    the first of its collectives that gathers, an allgather if it has none; ``seed`` draws what is
    looked at where not all ways can be. Raises InfeasibleError
    if those of the configuration that is up cannot be joined, ValueError if anything but hosts is
    lost, or a host that has no node.
    """
    failures = deployment.failures.and_also(lost)
    tell = on_phase or (lambda _: None)
    up = spliced_up(deployment, lost, where, on_phase, seed=seed)
    made: list[DeployedConfiguration] = []
    torn_down = []
    for old in deployment.configurations:
        try:
            if old.name == deployment.up:
                new = up
            else:
                tell(f"Joining circuits of {old.name}")
                new = _spliced_one(old, lost, where, seed)
        except InfeasibleError as error:
            torn_down.append((old.name, str(error)))
            continue
        kinds = [bounded.collective for bounded in old.designs]
        recipe = new.choice.splices.recipe(old.recipe, new.choice.way)
        made.append(designed(recipe, new.configuration, kinds, tell))
    tell("Planning changes")
    before = deployment.configuration(deployment.up).configuration
    change = change_from_held(joined_ports(before), up.configuration)
    change = replace(change, before=replace(change.before, name=before.name))
    title = f"go on without {' '.join(lost.hosts)}"
    changed = Deployment(
        deployment.cabling,
        tuple(made),
        all_changes(made),
        deployment.up,
        failures,
        Work(title, change_steps(change, change.before, change.after)),
    )
    return SplicedDeployment(changed, change, up, tuple(torn_down))


def spliced_up(
    deployment: Deployment,
    lost: Failures,
    where: Where | str = Where.IN_PLACE,
    on_phase: Callable[[str], None] | None = None,
    most_scored: int | None = None,
    *,
    seed: int = 0,
) -> SplicedConfiguration:
    """What is up without lost hosts, as ``spliced`` would make it."""
    if lost.ports or lost.switches or not lost.hosts:
        raise ValueError(
            "circuits are joined in place of lost hosts: switches and ports have spares"
        )
    deployment.failures.and_also(lost)
    if on_phase is not None:
        on_phase("Joining circuits")
    up = deployment.configuration(deployment.up)
    return _spliced_one(up, lost, where, seed, most_scored)


def _spliced_one(
    made: DeployedConfiguration,
    lost: Failures,
    where: Where | str,
    seed: int,
    most_scored: int | None = None,
) -> SplicedConfiguration:
    kinds = [bounded.collective for bounded in made.designs if bounded.collective in GATHERING]
    collective = kinds[0] if kinds else Collective.ALLGATHER
    return spliced_configuration(
        made.configuration, lost.hosts, collective, where, seed=seed, most_scored=most_scored
    )
