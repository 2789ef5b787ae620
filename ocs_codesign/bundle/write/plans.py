"""Plans of a bundle: the batches that lead from one configuration to another, and their summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.write.names import BETWEEN
from ocs_codesign.bundle.write.runbook import change_runbook
from ocs_codesign.bundle.write.sonic import stage_files
from ocs_codesign.bundle.write.text import csv_bytes, json_bytes
from ocs_codesign.fabric.deployments.work import change_steps, joined_names
from ocs_codesign.fabric.rewiring.service import circuits_of_node

if TYPE_CHECKING:
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.connectivity import Connectivity


def plan_name(change: ConfigurationChange) -> str:
    """The name of a plan's files, without their suffix."""
    return f"{change.before.name}{BETWEEN}{change.after.name}"


def plan_files(change: ConfigurationChange) -> dict[str, bytes]:
    """Files by name: the batches in order, the summary with certificates, runbook and patches."""
    name, fabric = plan_name(change), change.before.cabling.fabric
    steps = change_steps(change, change.before, change.after)
    rows = [(step.stage, step.action.value, step.switch, step.id, step.plane) for step in steps]
    batches = csv_bytes(("stage", "action", "switch", "id", "plane"), rows)
    patches = stage_files(fabric, steps, joined_names(change.before))
    return {
        f"{name}.csv": batches,
        f"{name}.json": json_bytes(plan_summary(change)),
        f"{name}.md": change_runbook(change, name, has_sonic=bool(patches)),
        **{f"{name}/{file}": content for file, content in patches.items()},
    }


def plan_summary(change: ConfigurationChange) -> dict[str, Any]:
    """What a change takes; times are exact seconds as text."""
    return {
        "from": change.before.name,
        "to": change.after.name,
        "cross_connects": {
            "kept": change.num_kept,
            "deleted": change.num_deleted,
            "created": change.num_created,
        },
        "dead_time_s": str(change.dead_time_s),
        "service": change.service.value,
        "stays_connected": change.service.is_hitless,
        "stages": [_stage(change, number) for number in range(1, 1 + len(change.stages))],
    }


def _stage(change: ConfigurationChange, number: int) -> dict[str, Any]:
    stage = change.stages[number - 1]
    return {
        "stage": number,
        "planes": list(stage.planes),
        "deleted": len(stage.delete),
        "created": len(stage.create),
        "circuits_up": len(stage.up),
        "least_circuits_of_node": circuits_of_node(change.before, stage.up),
        "dead_time_s": str(stage.dead_time_s),
        "stays_connected": stage.connectivity is not None,
        "certificate": _certificate(stage.connectivity),
    }


def _certificate(proof: Connectivity | None) -> dict[str, Any] | None:
    """Two trees of links that are up: out of the root to every rank, and from every rank to it."""
    if proof is None:
        return None
    return {
        "root": proof.root,
        "before": " ".join(map(str, proof.before.tolist())),
        "after": " ".join(map(str, proof.after.tolist())),
    }
