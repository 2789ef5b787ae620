"""Runbooks: what an operator does stage by stage, what runs on meanwhile, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.bundle.write.names import BETWEEN
from ocs_codesign.fabric.deployments.work import Action, change_steps
from ocs_codesign.fabric.rewiring.service import circuits_of_node, planes_that_cut
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.deployments.deployment import Deployment
    from ocs_codesign.fabric.deployments.work import WorkStep
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.stages import Stage

_BEGIN = (
    "Before you begin: `ocs-codesign verify-bundle` says that this bundle is valid, and the "
    "switches hold what it says is up (`rewire --held` plans from what they really hold)."
)


def change_runbook(change: ConfigurationChange, directory: str, *, has_sonic: bool) -> bytes:
    """The runbook of a plan between two configurations; its files for SONiC are in a directory."""
    before, after = change.before.name, change.after.name
    usual = circuits_of_node(change.before, None)
    lines = [f"# From {before} to {after}", "", *_summary(change), "", _BEGIN, ""]
    if change.stages:
        columns = "stage|planes|delete|create|bandwidth|nodes joined|dead time|another plane's loss"
        lines += [f"| {' | '.join(columns.split('|'))} |", "|---" * 8 + "|"]
        lines += [_row(change, number, usual) for number in range(1, 1 + len(change.stages))]
        lines += [
            "",
            "Bandwidth is of the node that has least: its circuits that are up all the time, of "
            f"{usual}. The last column says which planes could not be lost as well while a stage "
            "lasts. Dead times are of the light; add the time of your control software.",
        ]
    for number, stage in enumerate(change.stages, 1):
        lines += _stage(change, number, stage, directory, has_sonic=has_sonic)
    back = f"{after}{BETWEEN}{before}"
    lines += [
        "",
        "## Rollback",
        "",
        "Within a stage: delete what it has created, then create what it has deleted"
        + (" (its `.rollback.sh`)." if has_sonic else "."),
        f"After stage k: roll back stages k, k - 1, ..., 1. After the last one `{back}.csv` leads "
        "back in stages that are proven likewise.",
        "",
        "## Afterwards",
        "",
        f"`ocs-codesign rewire --bundle DIR {after}` lets the bundle say that {after} is up; "
        "`ocs-codesign verify-bundle DIR --observed NEIGHBOURS.csv` compares what the hosts hear.",
        "",
    ]
    return "\n".join(lines).encode()


def _summary(change: ConfigurationChange) -> Iterator[str]:
    yield (
        f"{change.num_kept} cross-connects stay, {change.num_deleted} are deleted, "
        f"{change.num_created} created, in {len(change.stages)} stages; "
        f"{format_time(float(change.dead_time_s))} of dead time in all."
    )
    yield ""
    yield f"Risk: {change.service.value}."
    if not change.service.is_hitless:
        yield "Drain the jobs first: nodes lose each other in at least one stage."


def _row(change: ConfigurationChange, number: int, usual: int) -> str:
    stage = change.stages[number - 1]
    least = circuits_of_node(change.before, stage.up)
    cuts = " or ".join(map(str, planes_that_cut(change.before, stage.up)))
    return (
        f"| {number} | {' '.join(map(str, stage.planes))} | {len(stage.delete)} | "
        f"{len(stage.create)} | {least} of {usual} | "
        f"{'no' if stage.connectivity is None else 'yes'} | "
        f"{format_time(float(stage.dead_time_s))} | "
        f"{f'plane {cuts} would cut nodes off' if cuts else 'none would cut nodes off'} |"
    )


def _stage(
    change: ConfigurationChange, number: int, stage: Stage, directory: str, *, has_sonic: bool
) -> Iterator[str]:
    steps = [s for s in change_steps(change, change.before, change.after) if s.stage == number]
    switches = list(dict.fromkeys(step.switch for step in steps))
    yield from ("", f"## Stage {number}", "")
    if stage.connectivity is None:
        yield "1. Stop traffic: the circuits that stay up do not join all nodes."
    else:
        yield "1. Traffic may run on over the circuits that stay up; they join all nodes."
    for at, switch in enumerate(switches, 2):
        mine = [step for step in steps if step.switch == switch]
        gone = sum(step.action is Action.DELETE for step in mine)
        how = f": `{directory}/stage-{number}.{switch}.sh`, or its `.patch.json`" * has_sonic
        yield f"{at}. {switch}: delete {gone}, then create {len(mine) - gone} cross-connects{how}."
    yield (
        f"{len(switches) + 2}. Wait for {format_time(float(stage.dead_time_s))} and check the "
        "light of the new circuits before the next stage."
    )


def work_runbook(deployment: Deployment, steps: Sequence[WorkStep], title: str) -> bytes:
    """The runbook of what was done last: cross-connects, and what hands do at which port."""
    up, failed = deployment.up, ", ".join(deployment.failures.components()) or "nothing"
    lines = [f"# {title[0].upper()}{title[1:]}", "", f"Up is {up}; failed is {failed}.", ""]
    lines += [
        f"{at}. {_sentence(step)}{f' (stage {step.stage})' if steps[-1].stage > 1 else ''}"
        for at, step in enumerate(steps, 1)
    ]
    lines += [
        "",
        "Risk: circuits that are not named stay up all the time. Hands work at the named ports "
        "only; the labels of cables are in `cabling.csv`.",
        "",
        "Rollback: the same steps in reverse order, each undone.",
        "",
    ]
    return "\n".join(lines).encode()


def _sentence(step: WorkStep) -> str:
    if step.cable:
        where = "from" if step.action is Action.UNPLUG else "into"
        return f"{step.action.value} cable {step.cable} {where} port {step.id} of {step.switch}"
    return f"{step.action.value} cross-connect {step.id} of {step.switch}"
