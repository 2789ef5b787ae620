"""Day two: what is done to a deployment after its cables were laid, from what is really there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.progress import tell_phase
from ocs_codesign.fabric.deployments.deploy import (
    DEPENDS_ON_CABLES,
    Deployment,
    Failures,
    NamedRecipe,
    all_changes,
    checked_kinds,
    designed,
    embedded,
    on_cables,
)
from ocs_codesign.fabric.deployments.held import change_from_held, joined_ports
from ocs_codesign.fabric.deployments.work import (
    Work,
    answered_steps,
    change_steps,
    move_steps,
    repair_steps,
)
from ocs_codesign.fabric.embedding.embed import Prefer, embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.planes.models import planes_of
from ocs_codesign.fabric.repairs.repair import repair, unplugged, without_switches
from ocs_codesign.fabric.rewiring.configurations import makes_its_topology
from ocs_codesign.fabric.wiring import cable_name, host_strands, port_at, strand_numbers
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.entry import stored_frontier
from ocs_codesign.search.catalogue.store import Catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.repairs.repair import JoinedPorts, Repair
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling, Configuration
    from ocs_codesign.graphs.recipe import Recipe


def rewired(
    deployment: Deployment, to: str, held: Sequence[JoinedPorts] | None = None
) -> tuple[Deployment, ConfigurationChange]:
    """Another configuration brought up, and the stages that lead to it.

    They begin with the circuits of the one that is up, or with what the switches hold by ``held``,
    which may be in the middle of planned work at cross-connects. Raises ValueError if there is no
    such configuration, it is up, or other work is planned.
    """
    if held is None or any(step.cable for step in (deployment.work or Work("", ())).steps):
        deployment.settled()
    after = deployment.configuration(to)
    if held is not None:
        change = change_from_held(held, after.configuration)
    elif to == deployment.up:
        raise ValueError(f"configuration {to!r} is up already")
    else:
        change = deployment.change(deployment.up, to)
    title = f"rewire {change.before.name} to {to}"
    work = Work(title, change_steps(change, change.before, change.after))
    return replace(deployment, up=to, work=work), change


def repaired(deployment: Deployment, lost: Failures) -> tuple[Deployment, Repair]:
    """All configurations without what is lost, the one that is up with the fewest hands at work.

    See ``repair``; a lost cable has a new one laid in its place, and no circuit moves. Raises
    InfeasibleError if the spares do not suffice, ValueError for what the fabric does not have or
    what has failed already.
    """
    failures = deployment.settled().failures.and_also(lost)
    up = deployment.configuration(deployment.up)
    others = [made for made in deployment.configurations if made is not up]
    done = repair(
        up.configuration,
        *(failures.hosts, failures.ports, failures.switches),
        others=[made.configuration for made in others],
    )
    news = {made.name: made for made in (done.configuration, *done.others)}
    configurations = tuple(
        replace(made, configuration=news[made.name]) for made in deployment.configurations
    )
    changed = Deployment(
        done.configuration.cabling,
        configurations,
        all_changes(configurations),
        deployment.up,
        replace(failures, cables=()),
        Work(
            f"repair {' '.join(lost.components())}",
            repair_steps(deployment.cabling, done, failures),
        ),
    )
    return changed, done


def restored(deployment: Deployment, mended: Failures) -> Deployment:
    """What had failed in service again, as a spare: no circuit moves back by itself.

    A host's strand that is in a port that has failed is unplugged.
    Raises ValueError for what has not failed.
    """
    failed = deployment.settled().failures
    names = set(failed.components())
    unknown = [name for name in mended.components() if name not in names]
    if unknown:
        there = ", ".join(failed.components()) or "nothing"
        raise ValueError(f"{unknown[0]} has not failed: failed is {there}")
    left = Failures(
        tuple(host for host in failed.hosts if host not in mended.hosts),
        tuple(port for port in failed.ports if port not in mended.ports),
        tuple(switch for switch in failed.switches if switch not in mended.switches),
    )
    title = f"restore {' '.join(mended.components())}"
    olds = [made.configuration for made in deployment.configurations]
    news, moves = unplugged(olds, left.hosts, left.ports, left.switches)
    if not moves:
        return replace(deployment, failures=left, work=Work(title, ()))
    configurations = tuple(
        replace(made, configuration=new)
        for made, new in zip(deployment.configurations, news, strict=True)
    )
    return replace(
        deployment,
        cabling=news[0].cabling,
        configurations=configurations,
        changes=all_changes(configurations),
        failures=left,
        work=Work(title, move_steps(deployment.fabric, moves)),
    )


def extended(
    deployment: Deployment,
    wanted: Sequence[NamedRecipe],
    collectives: Sequence[Collective | str] = (Collective.ALLREDUCE,),
    *,
    message_bytes: Fraction | float | None = None,
    prefer: Prefer | str = Prefer.ANY,
) -> Deployment:
    """More configurations on the laid cables; those that are there stay as they are.

    Raises InfeasibleError if they do not fit, with the strands that would have to move if other
    cables served all, and ValueError as ``deploy`` does.
    """
    made = list(deployment.settled().configurations)
    there = [NamedRecipe(one.name, one.recipe) for one in made]
    kinds = checked_kinds([*there, *wanted], collectives)[: len(collectives)]
    tell_phase("Fitting circuits to the cables")
    base = deployment.configuration(deployment.up).configuration
    for named in wanted:
        try:
            configuration = on_cables(base, named, prefer)
        except InfeasibleError as error:
            raise _with_new_cables(deployment, [*there, *wanted], named, error) from None
        made.append(designed(named.recipe, configuration, kinds, message_bytes))
    tell_phase("Planning changes")
    work = Work(f"add {' '.join(named.name for named in wanted)}", ())
    configurations = tuple(made)
    changes = all_changes(configurations)
    return replace(deployment, configurations=configurations, changes=changes, work=work)


def torn_down(deployment: Deployment, name: str) -> Deployment:
    """The same without a configuration; ValueError if there is no such one or it is up."""
    gone = deployment.settled().configuration(name)
    if name == deployment.up:
        raise ValueError(f"configuration {name!r} is up: rewire to another one first")
    return replace(
        deployment,
        configurations=tuple(made for made in deployment.configurations if made is not gone),
        changes=tuple(
            change
            for change in deployment.changes
            if name not in (change.before.name, change.after.name)
        ),
        work=Work(f"tear down {name}", ()),
    )


def _with_new_cables(
    deployment: Deployment,
    everything: Sequence[NamedRecipe],
    named: NamedRecipe,
    refusal: InfeasibleError,
) -> InfeasibleError:
    """The refusal, with how many strands other cables would move for all to fit, if any would."""
    said = f"{named.name} does not fit the laid cables: {refusal}"
    if refusal.reason not in DEPENDS_ON_CABLES or deployment.failures:
        return InfeasibleError(refusal.reason, said)
    try:
        laid = embedded(deployment.fabric, everything, host=deployment.host)[0]
    except InfeasibleError as error:
        return InfeasibleError(refusal.reason, f"{said}; with new cables, {error}")
    moves = _moved(deployment.cabling, laid.cabling)
    trunks = f" and {len(laid.cabling.trunks)} trunks" * bool(len(laid.cabling.trunks))
    return InfeasibleError(
        refusal.reason,
        f"{said}; cables that serve all configurations need {len(moves)} strands plugged elsewhere"
        f"{trunks}, such as {', '.join(moves[:3])}: deploy all to a new bundle to see them",
    )


def _moved(before: Cabling, after: Cabling) -> list[str]:
    """The cables of strands that are in other ports, and to which, as in ``C00001 to p0s0:3A``."""
    numbers = strand_numbers(after.fabric)
    were = {tuple(row[:3]): row[3:] for row in host_strands(before).tolist()}
    moves = []
    for plane, host, side, switch, port in host_strands(after).tolist():
        if were.get((plane, host, side)) != [switch, port]:
            place = port_at(after.fabric, switch, side, port)
            moves.append(f"{cable_name(numbers[host, plane, side])} to {place}")
    return moves


# Redesign: when a plane dies, the best stored design of fewer ports that what is left can hold.


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
    if lost.hosts or lost.ports or lost.cables:
        raise ValueError("a redesign is for lost switches and planes: hosts and ports have spares")
    failures = deployment.settled().failures.and_also(lost)
    up = deployment.configuration(deployment.up)
    cabling = without_switches(up.configuration, failures.switches)
    live = np.unique(np.nonzero(cabling.a_switch[deployment.host] >= 0)[1])
    ports = len(live) * (2 if deployment.fabric.port_model.can_turn else 1)
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
    deployment: Deployment, lost: Failures, name: str = NAME
) -> tuple[Deployment, ConfigurationChange]:
    """The redesign brought up; configurations that need what is lost are torn down."""
    if name in deployment.names:
        raise ValueError(f"name {name!r} is given twice")
    tell_phase("Searching stored designs")
    made = redesign(deployment, lost, name)
    up = deployment.configuration(deployment.up)
    kinds = [bounded.collective for bounded in up.designs]
    new = designed(made.recipe, made.configuration, kinds)
    cabling = made.configuration.cabling
    kept = [
        replace(one, configuration=replace(one.configuration, cabling=cabling))
        for one in deployment.configurations
        if one.name not in made.lost
    ]
    tell_phase("Planning changes")
    change = change_from_held(joined_ports(up.configuration), made.configuration)
    change = replace(change, before=replace(change.before, name=up.name))
    failures = deployment.failures.and_also(lost)
    steps = change_steps(change, change.before, change.after)
    title = f"redesign as {name} without {' '.join(lost.components())}"
    configurations = (*kept, new)
    changed = Deployment(
        cabling,
        configurations,
        all_changes(configurations),
        name,
        failures,
        Work(title, answered_steps(steps, failures.switches)),
    )
    return changed, change


def _candidates(
    deployment: Deployment, ports: int, collective: Collective
) -> Iterator[tuple[Recipe, Cost]]:
    """Stored designs, those of most ports first, then those of least t_b."""
    two_way = deployment.fabric.port_model.is_bidirectional
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
    fabric, model = deployment.fabric, deployment.fabric.port_model
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
