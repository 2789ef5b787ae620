"""Plans of a bundle: the batches that lead from one configuration to another, and their summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.write.names import BETWEEN
from ocs_codesign.bundle.write.text import csv_bytes, json_bytes
from ocs_codesign.fabric.deployments.work import change_steps

if TYPE_CHECKING:
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.connectivity import Connectivity
    from ocs_codesign.fabric.rewiring.stages import Stage


def plan_name(change: ConfigurationChange) -> str:
    """The name of a plan's files, without their suffix."""
    return f"{change.before.name}{BETWEEN}{change.after.name}"


def plan_files(change: ConfigurationChange) -> dict[str, bytes]:
    """Files by name: the batches in order, and the summary with a certificate a stage."""
    name = plan_name(change)
    steps = change_steps(change, change.before, change.after)
    rows = [(step.stage, step.action.value, step.switch, step.id, step.plane) for step in steps]
    batches = csv_bytes(("stage", "action", "switch", "id", "plane"), rows)
    return {f"{name}.csv": batches, f"{name}.json": json_bytes(plan_summary(change))}


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
        "stages": [_stage(number, stage) for number, stage in enumerate(change.stages, 1)],
    }


def _stage(number: int, stage: Stage) -> dict[str, Any]:
    return {
        "stage": number,
        "planes": list(stage.planes),
        "deleted": len(stage.delete),
        "created": len(stage.create),
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
