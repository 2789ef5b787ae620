"""Runbooks: what an operator does stage by stage, what runs on meanwhile, and the way back."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.write.text import BETWEEN, json_bytes
from ocs_codesign.fabric.deployments.work import Action, change_steps
from ocs_codesign.fabric.rewiring.stages import circuits_of_node, planes_that_cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ocs_codesign.fabric.deployments.deploy import Deployment
    from ocs_codesign.fabric.deployments.work import WorkStep
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.stages import Stage


_BEGIN = (
    "Before you begin: `ocs-codesign verify-bundle` says that this bundle is valid, and the "
    "switches hold what it says is up (`rewire --start` plans from what they really hold)."
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
        lines += _runbook_stage(change, number, stage, directory, has_sonic=has_sonic)
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
        f"`ocs-codesign rewire --bundle DIR {after}` plans this work in the bundle, and "
        "`ocs-codesign rewire --bundle DIR --done` says that it was done. `ocs-codesign "
        "verify-bundle DIR --observed NEIGHBOURS.csv` compares what the hosts hear.",
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


def _runbook_stage(
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
    standing = deployment.standing.capitalize()
    lines = [f"# {title[0].upper()}{title[1:]}", "", f"{standing} is {up}; failed is {failed}.", ""]
    lines += [f"{at}. {line}." for at, line in enumerate(_work_lines(steps), 1)]
    lines += [
        "",
        "All steps in their order, with ports and cables: `work.csv`.",
        "",
        "Risk: circuits that are not named stay up all the time. Hands work at the named ports "
        "only; the labels of cables are in `cabling.csv`.",
        "",
        "Rollback: the same steps in reverse order, each undone.",
        "",
    ]
    return "\n".join(lines).encode()


def _work_lines(steps: Sequence[WorkStep]) -> Iterator[str]:
    """A line for every switch at which something of one kind is done in a row, with the counts."""

    def kind(step: WorkStep) -> tuple[int, Action | None]:
        by_hand = step.action in (Action.UNPLUG, Action.PLUG)
        return step.stage, None if by_hand else step.action

    for (stage, action), run in groupby(steps, kind):
        where = f"stage {stage}, " * (steps[-1].stage > 1)
        what = {None: "cable ends", Action.REPLACE: "cables by new ones"}.get(
            action, "cross-connects"
        )
        counts: dict[str, Counter[str]] = {}
        for step in run:
            counts.setdefault(step.switch, Counter())[step.action.value] += 1
        for switch, count in counts.items():
            many = ", ".join(f"{done} {number}" for done, number in count.items())
            yield f"{where}{switch}: {many} {what}"


# What SONiC is told in every stage of a plan: a JSON patch of CONFIG_DB, and command lines.
#
# Of every switch that changes in a stage there is ``stage-1.SWITCH.patch.json`` for ``config
# apply-patch``, ``stage-1.SWITCH.sh`` with the same as commands, and
# ``stage-1.SWITCH.rollback.sh``, which undoes them. CONFIG_DB has no empty tables: a patch adds
# or removes the whole table where it had, or is left, nothing. ``safe`` commands change no port
# that is in use.


_TABLE = "/OCS_CROSS_CONNECT"


def stage_files(
    fabric: Fabric, steps: Sequence[WorkStep], held: Iterable[tuple[str, str]]
) -> dict[str, bytes]:
    """Files by name; ``held`` are the cross-connects before, as switch and id.

    None for switches without sides, for which SONiC has no form.
    """
    sided = {switch.name for switch in fabric.switches if switch.profile.port_model.has_b_side}
    up: dict[str, set[str]] = {name: set() for name in sided}
    for switch, name in held:
        if switch in sided:
            up[switch].add(name)
    places: dict[tuple[int, str], dict[Action, list[str]]] = {}
    for step in steps:
        if step.switch in sided and not step.cable:
            lists = places.setdefault(
                (step.stage, step.switch), {Action.DELETE: [], Action.CREATE: []}
            )
            lists[step.action].append(step.id)
    files = {}
    for (stage, switch), lists in places.items():
        gone, come = lists[Action.DELETE], lists[Action.CREATE]
        before, after = up[switch], (up[switch] - set(gone)) | set(come)
        place = f"stage-{stage}.{switch}"
        files[f"{place}.patch.json"] = json_bytes(_patch(before, after, gone, come))
        files[f"{place}.sh"] = _commands(gone, come)
        files[f"{place}.rollback.sh"] = _commands(come, gone)
        up[switch] = after
    return files


def _patch(
    before: set[str], after: set[str], gone: Sequence[str], come: Sequence[str]
) -> list[dict[str, Any]]:
    """Operations of a JSON patch (RFC 6902)."""
    if not after:
        return [{"op": "remove", "path": _TABLE}]
    if not before:
        return [{"op": "add", "path": _TABLE, "value": {name: _sonic_row(name) for name in come}}]
    return [
        *({"op": "remove", "path": f"{_TABLE}/{name}"} for name in gone),
        *({"op": "add", "path": f"{_TABLE}/{name}", "value": _sonic_row(name)} for name in come),
    ]


def _sonic_row(name: str) -> dict[str, str]:
    a_side, _, b_side = name.partition("-")
    return {"a_side": a_side, "b_side": b_side}


def _commands(gone: Sequence[str], come: Sequence[str]) -> bytes:
    lines = []
    if gone:
        lines.append(f"config ocs cross-connect delete {','.join(gone)}")
    if come:
        lines.append(f"config ocs cross-connect add {','.join(come)} safe")
    return "".join(f"{line}\n" for line in lines).encode()
