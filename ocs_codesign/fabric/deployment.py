"""Deployment: designs on one cabling of a fabric, a configuration each, with their schedules."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, final

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import build, verified
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed.embedding import Embedding, Prefer, embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.rewiring.configurations import configuration_change, makes_its_topology
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.state import plane_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.design import Design
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling, Configuration
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.topology import Topology

_DEPENDS_ON_CABLES = (Reason.CABLING, Reason.NOT_FOUND)


@final
@dataclass(frozen=True, slots=True)
class NamedRecipe:
    """A configuration that is asked for: its name and what it is to be."""

    name: str
    recipe: Recipe


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
    embedding: Embedding
    designs: tuple[BoundedDesign, ...]

    @property
    def configuration(self) -> Configuration:
        """The circuits."""
        return self.embedding.configuration

    @property
    def name(self) -> str:
        """The name of the configuration."""
        return self.configuration.name

    @property
    def topology(self) -> Topology:
        """The topology that the circuits make."""
        return self.configuration.topology


@final
@dataclass(frozen=True, slots=True, eq=False)
class Deployment:
    """Configurations that share their cables, and the change from each to each other one."""

    cabling: Cabling
    configurations: tuple[DeployedConfiguration, ...]
    changes: tuple[ConfigurationChange, ...]

    @property
    def fabric(self) -> Fabric:
        """The fabric that everything is put on."""
        return self.cabling.fabric

    @property
    def num_nodes(self) -> int:
        """Nodes of every configuration: node v is host v."""
        return self.configurations[0].topology.num_nodes


def deploy(
    fabric: Fabric,
    wanted: Sequence[NamedRecipe],
    collectives: Sequence[Collective | str] = (Collective.ALLREDUCE,),
    *,
    prefer: Prefer | str = Prefer.ANY,
    on_phase: Callable[[str], None] | None = None,
) -> Deployment:
    """Put recipes on one cabling of a fabric, and build and verify their schedules.

    The cables are laid for the first recipe on whose cables all others fit; of the others the
    planes are chosen that need the fewest new circuits, unless ``prefer`` asks for something else.
    Raises InfeasibleError if a recipe does not fit or no cables serve all, ValueError for names or
    collectives that are given twice and recipes that differ in nodes.
    """
    kinds = _checked(wanted, collectives)
    tell = on_phase or (lambda _: None)
    tell("Laying cables")
    topologies = [named.recipe.topology() for named in wanted]
    embeddings = _embedded(fabric, [named.name for named in wanted], topologies, prefer)
    configurations = []
    for named, topology, embedding in zip(wanted, topologies, embeddings, strict=True):
        if not makes_its_topology(embedding.configuration):
            raise RuntimeError(f"the circuits of {named.name} do not make its topology")
        designs = []
        for kind in kinds:
            tell(f"Building the {kind.name} of {named.name}")
            designs.append(_designed(named.recipe, topology, kind))
        configurations.append(DeployedConfiguration(named.recipe, embedding, tuple(designs)))
    tell("Planning changes")
    changes = tuple(
        configuration_change(before.configuration, after.configuration)
        for before, after in permutations(configurations, 2)
    )
    return Deployment(embeddings[0].cabling, tuple(configurations), changes)


def _checked(
    wanted: Sequence[NamedRecipe], collectives: Sequence[Collective | str]
) -> tuple[Collective, ...]:
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


def _embedded(
    fabric: Fabric, names: Sequence[str], topologies: Sequence[Topology], prefer: Prefer | str
) -> list[Embedding]:
    """All on the cables of the first one that serves all."""
    refusals: list[InfeasibleError] = []
    for leader, (leading, first) in enumerate(zip(names, topologies, strict=True)):
        base = embed(fabric, first, prefer=prefer, name=leading)
        try:
            return [
                base if at == leader else _on_cables(base, name, topology, prefer)
                for at, (name, topology) in enumerate(zip(names, topologies, strict=True))
            ]
        except InfeasibleError as error:
            if error.reason not in _DEPENDS_ON_CABLES:
                raise
            refusals.append(error)
    raise InfeasibleError(
        refusals[0].reason,
        f"no recipe's cables serve all of them; on those of the first: {refusals[0]}",
    )


def _on_cables(base: Embedding, name: str, topology: Topology, prefer: Prefer | str) -> Embedding:
    """Another topology on the same cables, with few new circuits if nothing else is asked for."""
    fabric, model = base.cabling.fabric, base.planes.port_model
    if Prefer(prefer) is Prefer.ANY and model is not PortModel.RESTRICTED:
        held = plane_state(base.planes, fabric.num_planes)
        try:
            planes = minimum_rewiring(held, topology, model).planes
            return embed(fabric, topology, plane=planes, cabling=base.cabling, name=name)
        except InfeasibleError as error:
            if error.reason not in _DEPENDS_ON_CABLES:
                raise
    return embed(fabric, topology, cabling=base.cabling, prefer=prefer, name=name)


def _designed(recipe: Recipe, topology: Topology, kind: Collective) -> BoundedDesign:
    if kind == Collective.ALLTOALL:
        from ocs_codesign.schedulers.alltoall.stepped import stepped_plan

        plan = stepped_plan(topology)
        design = verified(recipe, plan.schedule, "time-stepped")
        bound = Cost(topology.diameter(), plan.bound)
    else:
        design = build(recipe, kind)
        bound = topology_bound(topology, kind, reached_t_b=design.cost.t_b)
    if design.schedule.topology != topology:
        raise RuntimeError(f"the schedule of {recipe!r} is not on the topology of its circuits")
    return BoundedDesign(design, bound)
