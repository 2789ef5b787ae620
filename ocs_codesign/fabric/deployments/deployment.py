"""Deployment: designs on one cabling of a fabric, a configuration each, with their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.fabric.embed.embedding import planes_in
from ocs_codesign.fabric.planes.choice import loss_of_planes
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.shown import Shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.fabric.deployments.work import Work
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes.choice import PlaneLoss
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling, Configuration, Port
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True, init=False)
class NamedRecipe:
    """A configuration that is asked for: its name and what it is to be, a recipe or its text.

    >>> NamedRecipe("A", "Complete(4)").recipe.num_nodes
    4
    """

    name: str
    recipe: Recipe

    def __init__(self, name: str, recipe: Recipe | str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "recipe", as_recipe(recipe, "embed puts any graph on a fabric"))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BoundedDesign:
    """A verified design and what no schedule on its topology can beat.

    For an all-to-all, ``bound.t_b`` holds for schedules of as many steps.
    """

    design: Design
    bound: Cost

    @property
    def collective(self) -> Collective:
        """The collective of the schedule."""
        return self.design.schedule.collective


@final
@dataclass(frozen=True, slots=True, eq=False)
class DeployedConfiguration:
    """A recipe on the fabric: its circuits, and a verified schedule a collective."""

    recipe: Recipe
    configuration: Configuration
    designs: tuple[BoundedDesign, ...]

    @property
    def name(self) -> str:
        """The name of the configuration."""
        return self.configuration.name

    @property
    def topology(self) -> Topology:
        """The topology that the circuits make."""
        return self.configuration.topology

    def num_stages(self) -> tuple[int, ...]:
        """Switches that circuits cross, one or three, in order if planes differ."""
        return tuple(np.unique(np.bincount(self.configuration.circuit)).tolist())

    def plane_loss(self) -> PlaneLoss:
        """What the loss of any one plane leaves."""
        return loss_of_planes(planes_in(self.configuration))


@final
@dataclass(frozen=True, slots=True)
class Failures:
    """What has failed and is not used: hosts, ports of switches, and switches, by name."""

    hosts: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    switches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.hosts or self.ports or self.switches)

    def components(self) -> tuple[str, ...]:
        """All of them as in ``host:h3``, ``switch:p0s0`` and ``port:p0s0:1A``."""
        return (
            *(f"host:{name}" for name in self.hosts),
            *(f"switch:{name}" for name in self.switches),
            *(f"port:{port}" for port in self.ports),
        )

    def and_also(self, more: Failures) -> Failures:
        """Both; ValueError for what has failed already."""
        known = set(self.components())
        again = [name for name in more.components() if name in known]
        if again:
            raise ValueError(f"{again[0]} has failed already")
        return Failures(
            (*self.hosts, *more.hosts), (*self.ports, *more.ports), (*self.switches, *more.switches)
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deployment(Shown):
    """Configurations that share their cables and hosts, and the change from each to each other one.

    ``up`` names the configuration whose circuits are up; nothing of ``failures`` is used by any.
    ``work`` is what was done last, None if the cables have just been laid.
    """

    cabling: Cabling
    configurations: tuple[DeployedConfiguration, ...]
    changes: tuple[ConfigurationChange, ...]
    up: str
    failures: Failures = Failures()
    work: Work | None = None

    def __repr__(self) -> str:
        return (
            f"Deployment({', '.join(self.names)} on {self.fabric.name}: {self.num_nodes} hosts, "
            f"{self.up} is up)"
        )

    @property
    def fabric(self) -> Fabric:
        """The fabric that everything is put on."""
        return self.cabling.fabric

    @property
    def host(self) -> NDArray[np.int32]:
        """The host of every node (int32, N), the same in every configuration."""
        return self.configurations[0].configuration.host

    @property
    def num_nodes(self) -> int:
        """Nodes of every configuration."""
        return len(self.host)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the configurations."""
        return tuple(made.name for made in self.configurations)

    def failed_ports(self) -> set[tuple[int, int, int]]:
        """Ports that have failed, those of failed switches too: switch, side (0 A, 1 B), number."""
        number = {switch.name: at for at, switch in enumerate(self.fabric.switches)}
        ports = {(number[p.switch], int(p.side == "B"), p.number) for p in self.failures.ports}
        for name in self.failures.switches:
            there = self.fabric.switches[number[name]]
            sides = (0, 1) if there.profile.port_model.has_b_side else (0,)
            ports |= {
                (number[name], side, 1 + at) for side in sides for at in range(there.num_ports)
            }
        return ports

    def configuration(self, name: str) -> DeployedConfiguration:
        """The one of a name; ValueError if there is none."""
        if name not in self.names:
            raise ValueError(
                f"no configuration is named {name!r}: there are {', '.join(self.names)}"
            )
        return self.configurations[self.names.index(name)]

    def change(self, before: str, after: str) -> ConfigurationChange:
        """The change between two configurations."""
        names = before, after
        (found,) = (one for one in self.changes if (one.before.name, one.after.name) == names)
        return found
