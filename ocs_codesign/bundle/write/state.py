"""The state of a deployment: what is up, what has failed, which spares serve, and the last work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.bundle.write.runbook import work_runbook
from ocs_codesign.bundle.write.sonic import stage_files
from ocs_codesign.bundle.write.text import csv_bytes, json_bytes
from ocs_codesign.fabric.deployments.work import Action, joined_names
from ocs_codesign.fabric.port_use import used_ports
from ocs_codesign.fabric.wiring import NOT_CABLED, port_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.deployments.deployment import Deployment
    from ocs_codesign.fabric.deployments.work import Work, WorkStep
    from ocs_codesign.fabric.wiring import Cabling

STATE, WORK_FILE = "state.json", "work.csv"


def state_files(deployment: Deployment) -> dict[str, bytes]:
    """``state.json``, and ``work.csv`` if anything was done by steps."""
    files = {STATE: json_bytes(state_of(deployment))}
    work = deployment.work
    if work is not None and work.steps:
        rows = [
            (step.stage, step.action.value, step.switch, step.id, step.plane, step.cable)
            for step in work.steps
        ]
        columns = ("stage", "action", "switch", "id", "plane", "cable")
        files[WORK_FILE] = csv_bytes(columns, rows)
        files["work.md"] = work_runbook(deployment, work.steps, work.title)
        held = _before(deployment, work.steps)
        patches = stage_files(deployment.fabric, work.steps, held)
        files |= {f"work/{name}": content for name, content in patches.items()}
    return files


def _before(deployment: Deployment, steps: Sequence[WorkStep]) -> set[tuple[str, str]]:
    """The cross-connects that were up before the work."""
    held = set(joined_names(deployment.configuration(deployment.up).configuration))
    for step in reversed(steps):
        if step.action is Action.CREATE:
            held.discard((step.switch, step.id))
        elif step.action is Action.DELETE:
            held.add((step.switch, step.id))
    return held


def state_of(deployment: Deployment) -> dict[str, Any]:
    """The content of ``state.json``."""
    fabric, failures = deployment.fabric, deployment.failures
    spare = range(fabric.num_working_hosts, len(fabric.hosts))
    return {
        "up": deployment.up,
        "failed": {
            "hosts": list(failures.hosts),
            "ports": [str(port) for port in failures.ports],
            "switches": list(failures.switches),
        },
        "spares_in_use": {
            "hosts": [fabric.hosts[host] for host in spare if host in deployment.host],
            "ports": list(_spare_ports(deployment.cabling)),
        },
        "unplugged": list(_unplugged(deployment.cabling)),
        "last_work": None if deployment.work is None else _summary(deployment.work),
    }


def _summary(work: Work) -> dict[str, Any]:
    """What was done last, and how many steps of each kind that took."""
    counts = {action.value: 0 for action in Action}
    for step in work.steps:
        counts[step.action.value] += 1
    return {"title": work.title, **counts}


def _spare_ports(cabling: Cabling) -> Iterator[str]:
    """Spare ports with a cable, in order of switch, side and number."""
    switches = cabling.fabric.switches
    for number, side, port in sorted(used_ports(cabling)):
        switch = switches[number]
        if port > switch.num_usable:
            has_b_side = switch.profile.port_model.has_b_side
            yield f"{switch.name}:{port_name(port, side, has_b_side=has_b_side)}"


def _unplugged(cabling: Cabling) -> Iterator[str]:
    """Strands without a cable of hosts with another one in the plane, as in ``h3 p0 tx``."""
    fabric = cabling.fabric
    plugged = np.stack([cabling.a_switch, cabling.b_switch], axis=2) != NOT_CABLED
    for host, plane in np.argwhere(plugged.any(axis=2)).tolist():
        for side, strand in enumerate(dict.fromkeys(fabric.port_model(plane).strands)):
            if not plugged[host, plane, side]:
                yield f"{fabric.hosts[host]} p{plane} {strand}"
