"""Deploying: recipes put on new cables, or on laid ones, with their schedules."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.design import build, verified
from ocs_codesign.fabric.deployments.deployment import (
    BoundedDesign,
    DeployedConfiguration,
    Deployment,
)
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embed.embedding import Prefer, embed, planes_in
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.rewiring.configurations import configuration_change, makes_its_topology
from ocs_codesign.fabric.rewiring.minimum import minimum_rewiring
from ocs_codesign.fabric.rewiring.state import plane_state
from ocs_codesign.fabric.selection.forests import fastest_design

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.fabric.deployments.deployment import NamedRecipe
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Configuration
    from ocs_codesign.graphs.recipe import Recipe

DEPENDS_ON_CABLES = (Reason.CABLING, Reason.NOT_FOUND)


def deploy(
    fabric: Fabric,
    wanted: Sequence[NamedRecipe],
    collectives: Sequence[Collective | str] = (Collective.ALLREDUCE,),
    *,
    message_bytes: Fraction | float | None = None,
    prefer: Prefer | str = Prefer.ANY,
    on_phase: Callable[[str], None] | None = None,
) -> Deployment:
    """Put recipes on one cabling of a fabric, and build and verify their schedules.

    The cables are laid for the first recipe on whose cables all others fit; of the others the
    planes are chosen that need the fewest new circuits, unless ``prefer`` asks for something else.
    With ``message_bytes`` schedules are forests where these are faster for messages of that size.
    Raises InfeasibleError if a recipe does not fit or no cables serve all, ValueError for names or
    collectives that are given twice and recipes that differ in nodes.
    """
    kinds = checked_kinds(wanted, collectives)
    tell = on_phase or (lambda _: None)
    tell("Laying cables")
    configurations = embedded(fabric, wanted, prefer=prefer)
    made = tuple(
        designed(named.recipe, configuration, kinds, tell, message_bytes)
        for named, configuration in zip(wanted, configurations, strict=True)
    )
    tell("Planning changes")
    return Deployment(configurations[0].cabling, made, all_changes(made), made[0].name)


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
    tell: Callable[[str], object],
    message_bytes: Fraction | float | None = None,
) -> DeployedConfiguration:
    """A recipe whose circuits are there, with its schedules."""
    if not makes_its_topology(configuration):
        raise RuntimeError(f"the circuits of {configuration.name} do not make its topology")
    designs = []
    for kind in kinds:
        tell(f"Building the {kind.name} of {configuration.name}")
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
        from ocs_codesign.schedulers.alltoall.stepped import stepped_plan

        plan = stepped_plan(topology)
        design = verified(recipe, plan.schedule, "time-stepped")
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
