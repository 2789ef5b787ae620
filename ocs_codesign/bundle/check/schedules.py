"""Schedules of a bundle, replayed on the topology that the light makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.bundle.check.graphs import first_difference
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from ocs_codesign.bundle.check.files import BundleFiles
    from ocs_codesign.cost import Cost

DESIGN_FILES = ("design.json", "schedule.npz")


@final
@dataclass(frozen=True, slots=True)
class ReplayedSchedule:
    """A schedule that was replayed, and what it costs on the derived topology."""

    configuration: str
    collective: str
    cost: Cost


def check_schedule(
    files: BundleFiles, configuration: str, collective: str, recipe: str | None, made: Topology
) -> ReplayedSchedule | None:
    """Replay a schedule on the derived topology; None if it could not be, with a finding."""
    from ocs_codesign.formats.designs.design_files import load_design
    from ocs_codesign.verification.schedules import verify

    folder = f"schedules/{configuration}/{collective}"
    paths = [f"{folder}/{name}" for name in DESIGN_FILES]
    missing = [path for path in paths if path not in files.sizes]
    for path in missing:
        files.findings.add(path, None, "the file is missing")
    if missing:
        return None
    record, archive = paths
    try:
        loaded = load_design(files.root / folder)
    except (ValueError, OSError, MemoryError) as error:
        text = str(error).replace(f"{files.root / folder}/", "").replace(f"{files.root}/", "")
        path = record if text.startswith(DESIGN_FILES[0]) else archive
        files.findings.add(path, None, text.removeprefix(f"{path.rpartition('/')[2]}: "))
        return None
    if loaded.program is not None:
        files.findings.add(archive, None, "its circuits change, which those of a bundle do not")
        return None
    if loaded.schedule.collective.name != collective:
        rule = f"this is of {loaded.schedule.collective.name}, not of {collective}"
        files.findings.add(archive, None, rule)
    if loaded.recipe != recipe:
        rule = f"recipe is {loaded.recipe}: in the manifest it is {recipe}"
        files.findings.add(record, "recipe", rule)
    schedule = _on_light(loaded.schedule, made)
    if schedule is None:
        speeds = "its links have speeds, which those of the light have not"
        rule = first_difference(made, loaded.schedule.topology) or speeds
        files.findings.add(archive, None, f"{rule}, so that it cannot run")
        return None
    verdict = verify(schedule, loaded.claimed)
    if verdict.witness is not None:
        files.findings.add(archive, None, f"on the derived topology, {verdict.witness}")
    elif loaded.loads is not None and loaded.loads != verdict.max_loads:
        files.findings.add(record, None, "the claimed largest loads are not those of the sends")
    return ReplayedSchedule(configuration, collective, verdict.cost)


def _on_light(schedule: Schedule, made: Topology) -> Schedule | None:
    """The schedule with the derived links in place of its own; None if those are others."""
    own = schedule.topology
    if own.link_speed is not None and len(np.unique(own.link_speed)) > 1:
        return None
    if own.num_nodes != made.num_nodes or own.num_links != made.num_links:
        return None
    order = np.lexsort((own.head, own.tail))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    links = Topology(made.num_nodes, made.tail[place], made.head[place])
    if not (np.array_equal(links.tail, own.tail) and np.array_equal(links.head, own.head)):
        return None
    return Schedule(links, schedule.collective, schedule.num_chunks, *schedule.columns())
