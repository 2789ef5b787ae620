"""Deploying: recipes put on new cables, or on laid ones, with their schedules."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.shown import Shown
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import Prefer, embed, planes_in
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.models import loss_of_planes
from ocs_codesign.fabric.rewiring.configurations import configuration_change, makes_its_topology
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.fabric.selection.steps import fastest_design
from ocs_codesign.fabric.wiring import port_at
from ocs_codesign.graphs.text import as_recipe
from ocs_codesign.schedules.design import build, verified

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.deployments.work import Work
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.planes.models import PlaneLoss
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling, Configuration, Port
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design


# Deployment: designs on one cabling of a fabric, a configuration each, with their schedules.


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
    """What has failed and is not used: hosts, ports of switches, and switches, by name.

    ``cables`` are lost until their repair, which lays new ones in their places.
    """

    hosts: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    switches: tuple[str, ...] = ()
    cables: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.hosts or self.has_parts)

    @property
    def has_parts(self) -> bool:
        """Whether there are any beside hosts."""
        return bool(self.ports or self.switches or self.cables)

    def components(self) -> tuple[str, ...]:
        """All of them as in ``host:h3``, ``switch:p0s0``, ``port:p0s0:1A`` and ``cable:C00001``."""
        return (
            *(f"host:{name}" for name in self.hosts),
            *(f"switch:{name}" for name in self.switches),
            *(f"port:{port}" for port in self.ports),
            *(f"cable:{name}" for name in self.cables),
        )

    def and_also(self, more: Failures) -> Failures:
        """Both; ValueError for what has failed already."""
        known = set(self.components())
        again = [name for name in more.components() if name in known]
        if again:
            raise ValueError(f"{again[0]} has failed already")
        return Failures(
            (*self.hosts, *more.hosts),
            (*self.ports, *more.ports),
            (*self.switches, *more.switches),
            (*self.cables, *more.cables),
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deployment(Shown):
    """Configurations that share their cables and hosts, and the change from each to each other one.

    ``up`` names the configuration whose circuits are up, or will be when the work that is planned
    has been done; nothing of ``failures`` is used by any. ``work`` is what was planned or done
    last, None if the cables have just been laid.
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
            f"{self.up} is {self.standing})"
        )

    @property
    def standing(self) -> str:
        """What ``up`` is: planned until its work, if it has steps, was reported done, then up."""
        work = self.work
        return "up" if work is None or work.is_done or not work.steps else "planned"

    def settled(self) -> Deployment:
        """The same; ValueError if work is planned, which comes before any other."""
        if self.work is not None and self.standing == "planned":
            raise ValueError(
                f"the work {self.work.title!r} is planned and was not reported done: do it, then "
                "report it with rewire --done"
            )
        return self

    def reported(self) -> Deployment:
        """The same with the planned work done; ValueError if none is planned."""
        if self.work is None or self.standing != "planned":
            raise ValueError(f"no work is planned: {self.up} is up")
        return replace(self, work=replace(self.work, is_done=True))

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
            sides = range(len(self.fabric.port_model.sides))
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


DEPENDS_ON_CABLES = (Reason.CABLING, Reason.NOT_FOUND)


def deploy(
    fabric: Fabric,
    wanted: Sequence[NamedRecipe],
    collectives: Sequence[Collective | str] = (Collective.ALLREDUCE,),
    *,
    message_bytes: Fraction | float | None = None,
    prefer: Prefer | str = Prefer.ANY,
) -> Deployment:
    """Put recipes on one cabling of a fabric, and build and verify their schedules.

    The cables are laid for the first recipe on whose cables all others fit; of the others the
    planes are chosen that need the fewest new circuits, unless ``prefer`` asks for something else.
    With ``message_bytes`` schedules are forests where these are faster for messages of that size.
    Raises InfeasibleError if a recipe does not fit or no cables serve all, ValueError for names or
    collectives that are given twice and recipes that differ in nodes.
    """
    kinds = checked_kinds(wanted, collectives)
    tell_phase("Laying cables")
    configurations = embedded(fabric, wanted, prefer=prefer)
    made = tuple(
        designed(named.recipe, configuration, kinds, message_bytes)
        for named, configuration in zip(wanted, configurations, strict=True)
    )
    tell_phase("Planning changes")
    cabling, failures = configurations[0].cabling, known_failures(fabric)
    return Deployment(cabling, made, all_changes(made), made[0].name, failures)


def known_failures(fabric: Fabric) -> Failures:
    """The ports that had failed before any cable was laid."""
    places = fabric.failed_places().values()
    return Failures(ports=tuple(port_at(fabric, *place) for place in places))


def all_changes(made: Sequence[DeployedConfiguration]) -> tuple[ConfigurationChange, ...]:
    """The change from every configuration to every other one."""
    pairs = permutations((one.configuration for one in made), 2)
    return tuple(configuration_change(before, after) for before, after in pairs)


def checked_kinds(
    wanted: Sequence[NamedRecipe], collectives: Sequence[Collective | str]
) -> tuple[Collective, ...]:
    """The collectives; ValueError for none, names given twice and recipes that differ in nodes."""
    kinds = tuple(Collective.parse(kind) for kind in collectives)
    if not wanted or not kinds:
        raise ValueError("a deployment has at least one recipe and one collective")
    for what, given in (
        ("name", [named.name for named in wanted]),
        ("collective", [kind.name for kind in kinds]),
    ):
        twice = [name for name in given if given.count(name) > 1]
        if twice:
            raise ValueError(f"{what} {twice[0]!r} is given twice")
    first = wanted[0].recipe
    for named in wanted:
        if named.recipe.num_nodes != first.num_nodes:
            raise ValueError(
                f"{first!r} has {first.num_nodes} nodes and {named.recipe!r} has "
                f"{named.recipe.num_nodes}: configurations of one fabric are of the same nodes"
            )
    return kinds


def embedded(
    fabric: Fabric,
    wanted: Sequence[NamedRecipe],
    *,
    prefer: Prefer | str = Prefer.ANY,
    host: NDArray[np.int32] | None = None,
) -> list[Configuration]:
    """All on the cables of the first one that serves all; InfeasibleError if there is none."""
    refusals: list[InfeasibleError] = []
    for leader, leading in enumerate(wanted):
        topology = leading.recipe.topology()
        base = embed(fabric, topology, host=host, prefer=prefer, name=leading.name).configuration
        try:
            return [
                base if at == leader else on_cables(base, named, prefer)
                for at, named in enumerate(wanted)
            ]
        except InfeasibleError as error:
            if error.reason not in DEPENDS_ON_CABLES:
                raise
            refusals.append(error)
    raise InfeasibleError(
        refusals[0].reason,
        f"no recipe's cables serve all of them; on those of the first: {refusals[0]}",
    )


def on_cables(
    base: Configuration, named: NamedRecipe, prefer: Prefer | str = Prefer.ANY
) -> Configuration:
    """Another topology on the same cables, with few new circuits if nothing else is asked for."""
    cabling, topology, host = base.cabling, named.recipe.topology(), base.host
    fabric = cabling.fabric
    held = planes_in(base)
    if Prefer(prefer) is Prefer.ANY and held.port_model is not PortModel.RESTRICTED:
        state = plane_state(held, fabric.num_planes)
        try:
            planes = minimum_rewiring(state, topology, held.port_model).planes
            return embed(
                fabric, topology, host=host, plane=planes, cabling=cabling, name=named.name
            ).configuration
        except InfeasibleError as error:
            if error.reason not in DEPENDS_ON_CABLES:
                raise
    return embed(
        fabric, topology, host=host, cabling=cabling, prefer=prefer, name=named.name
    ).configuration


def designed(
    recipe: Recipe,
    configuration: Configuration,
    kinds: Sequence[Collective],
    message_bytes: Fraction | float | None = None,
) -> DeployedConfiguration:
    """A recipe whose circuits are there, with its schedules."""
    if not makes_its_topology(configuration):
        raise RuntimeError(f"the circuits of {configuration.name} do not make its topology")
    designs = []
    for kind in kinds:
        tell_phase(f"Building the {kind.name} of {configuration.name}")
        designs.append(_designed(recipe, configuration, kind, message_bytes))
    return DeployedConfiguration(recipe, configuration, tuple(designs))


def _designed(
    recipe: Recipe,
    configuration: Configuration,
    kind: Collective,
    message_bytes: Fraction | float | None,
) -> BoundedDesign:
    topology = configuration.topology
    if kind == Collective.ALLTOALL:
        from ocs_codesign.schedules.stepped.alltoall import stepped_plan

        plan = stepped_plan(topology)
        design = verified(recipe, plan.best, "time-stepped")
        bound = Cost(topology.diameter(), plan.bound)
    else:
        fabric = configuration.cabling.fabric
        if message_bytes is None:
            design = build(recipe, kind)
        else:
            design = fastest_design(fabric, recipe, kind, message_bytes)
        bound = design.bound_on(topology)
    if design.schedule.topology != topology:
        raise RuntimeError(f"the schedule of {recipe!r} is not on the topology of its circuits")
    return BoundedDesign(design, bound)
