"""What SONiC is told in every stage of a plan: a JSON patch of CONFIG_DB, and command lines.

Of every switch that changes in a stage there is ``stage-1.SWITCH.patch.json`` for ``config
apply-patch``, ``stage-1.SWITCH.sh`` with the same as commands, and ``stage-1.SWITCH.rollback.sh``,
which undoes them. CONFIG_DB has no empty tables: a patch adds or removes the whole table where it
had, or is left, nothing. ``safe`` commands change no port that is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.write.text import json_bytes
from ocs_codesign.fabric.deployments.work import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ocs_codesign.fabric.deployments.work import WorkStep
    from ocs_codesign.fabric.description import Fabric

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
        return [{"op": "add", "path": _TABLE, "value": {name: _row(name) for name in come}}]
    return [
        *({"op": "remove", "path": f"{_TABLE}/{name}"} for name in gone),
        *({"op": "add", "path": f"{_TABLE}/{name}", "value": _row(name)} for name in come),
    ]


def _row(name: str) -> dict[str, str]:
    a_side, _, b_side = name.partition("-")
    return {"a_side": a_side, "b_side": b_side}


def _commands(gone: Sequence[str], come: Sequence[str]) -> bytes:
    lines = []
    if gone:
        lines.append(f"config ocs cross-connect delete {','.join(gone)}")
    if come:
        lines.append(f"config ocs cross-connect add {','.join(come)} safe")
    return "".join(f"{line}\n" for line in lines).encode()
