"""Day two: what is done to a deployment after its cables were laid, from what is really there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ocs_codesign.collective import Collective
from ocs_codesign.fabric.deployments.deploy import (
    DEPENDS_ON_CABLES,
    all_changes,
    checked_kinds,
    designed,
    embedded,
    on_cables,
)
from ocs_codesign.fabric.deployments.deployment import Deployment, Failures, NamedRecipe
from ocs_codesign.fabric.deployments.held import change_from_held
from ocs_codesign.fabric.deployments.work import Work, change_steps, move_steps, repair_steps
from ocs_codesign.fabric.embed.embedding import Prefer
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.port_use import host_strands
from ocs_codesign.fabric.repairs.repair import repair, unplugged
from ocs_codesign.fabric.wiring import cable_name, port_name, strand_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from ocs_codesign.fabric.repairs.repair import JoinedPorts, Repair
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.wiring import Cabling


def rewired(
    deployment: Deployment, to: str, held: Sequence[JoinedPorts] | None = None
) -> tuple[Deployment, ConfigurationChange]:
    """Another configuration brought up, and the stages that lead to it.

    They begin with the circuits of the one that is up, or with what the switches hold by ``held``.
    Raises ValueError if there is no such configuration, or it is up.
    """
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

    See ``repair``. Raises InfeasibleError if the spares do not suffice, ValueError for what the
    fabric does not have or what has failed already.
    """
    failures = deployment.failures.and_also(lost)
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
        failures,
        Work(f"repair {' '.join(lost.components())}", repair_steps(deployment.fabric, done)),
    )
    return changed, done


def restored(deployment: Deployment, mended: Failures) -> Deployment:
    """What had failed in service again, as a spare: no circuit moves back by itself.

    A host's strand that is in a port that has failed is unplugged.
    Raises ValueError for what has not failed.
    """
    failed = deployment.failures
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
    on_phase: Callable[[str], None] | None = None,
) -> Deployment:
    """More configurations on the laid cables; those that are there stay as they are.

    Raises InfeasibleError if they do not fit, with the strands that would have to move if other
    cables served all, and ValueError as ``deploy`` does.
    """
    there = [NamedRecipe(made.name, made.recipe) for made in deployment.configurations]
    kinds = checked_kinds([*there, *wanted], collectives)[: len(collectives)]
    tell = on_phase or (lambda _: None)
    tell("Fitting circuits to the cables")
    base = deployment.configuration(deployment.up).configuration
    made = list(deployment.configurations)
    for named in wanted:
        try:
            configuration = on_cables(base, named, prefer)
        except InfeasibleError as error:
            raise _with_new_cables(deployment, [*there, *wanted], named, error) from None
        made.append(designed(named.recipe, configuration, kinds, tell, message_bytes))
    tell("Planning changes")
    work = Work(f"add {' '.join(named.name for named in wanted)}", ())
    configurations = tuple(made)
    changes = all_changes(configurations)
    return replace(deployment, configurations=configurations, changes=changes, work=work)


def torn_down(deployment: Deployment, name: str) -> Deployment:
    """The same without a configuration; ValueError if there is no such one or it is up."""
    gone = deployment.configuration(name)
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
    numbers, switches = strand_numbers(after.fabric), after.fabric.switches
    were = {tuple(row[:3]): row[3:] for row in host_strands(before).tolist()}
    moves = []
    for plane, host, side, switch, port in host_strands(after).tolist():
        if were.get((plane, host, side)) != [switch, port]:
            has_b_side = switches[switch].profile.port_model.has_b_side
            place = f"{switches[switch].name}:{port_name(port, side, has_b_side=has_b_side)}"
            moves.append(f"{cable_name(numbers[host, plane, side])} to {place}")
    return moves
