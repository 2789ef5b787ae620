"""Graphs and schedules of a bundle: those of the topology that the light makes?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.files.naming import shown
from ocs_codesign.files.plain_text import read_plain_text
from ocs_codesign.formats.designs.design_files import RECORD_FILE, SCHEDULE_FILE, load_design
from ocs_codesign.formats.graphs.graphml import read_graphml
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.bundle.check.files import BundleFiles
    from ocs_codesign.cost import Cost
    from ocs_codesign.schedule import Schedule

DESIGN_FILES = (RECORD_FILE, SCHEDULE_FILE)


def first_difference(made: Topology, claimed: Topology) -> str | None:
    """What light makes that is not claimed, or the reverse; None if they have the same links."""
    if made.num_nodes != claimed.num_nodes:
        return f"there are {claimed.num_nodes} nodes: it must be {made.num_nodes}"
    mine, theirs = (
        np.sort(one.tail.astype(np.int64) * one.num_nodes + one.head) for one in (made, claimed)
    )
    if np.array_equal(mine, theirs):
        return None
    known, counts = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
    first = len(mine)
    size = len(known)
    difference = np.bincount(counts[first:], minlength=size) - np.bincount(
        counts[:first], minlength=size
    )
    at = int(np.flatnonzero(difference)[0])
    tail, head = divmod(int(known[at]), made.num_nodes)
    more = int(np.count_nonzero(difference))
    others = f" (and {more - 1} more pairs of nodes differ)" if more > 1 else ""
    if difference[at] > 0:
        return f"no light makes the claimed link {tail} -> {head}{others}"
    return f"light makes a link {tail} -> {head} that is not claimed{others}"


def check_graphs(
    files: BundleFiles, configuration: str, made: Topology, ordered: Topology | None
) -> None:
    """Both graph files hold the derived links, in the order of the table of links."""
    for suffix, read in (("json", _node_link), ("graphml", read_graphml)):
        path = f"graphs/{configuration}.{suffix}"
        graph = files.parsed(path, partial(read, name=path))
        difference = None if graph is None else first_difference(made, graph)
        if difference is not None:
            files.wrong(path, difference)
        elif None not in (graph, ordered) and graph != ordered:
            files.wrong(path, "links are not in the order of the table of links")


def _node_link(data: bytes, name: str) -> Topology:
    """Nodes 0 to N - 1 and edges whose keys are the numbers of links; ValueError if it is not."""
    value = read_plain_text(data, name, is_json=True).value
    if not isinstance(value, dict) or value.get("directed") is not True:
        raise ValueError("this is not node-link JSON of a directed graph")
    nodes, edges = value.get("nodes"), value.get("edges")
    if not isinstance(nodes, list) or not isinstance(edges, list):
        raise ValueError("nodes and edges must be lists")
    for at, node in enumerate(nodes):
        if node != {"id": at}:
            raise ValueError(f"nodes[{at}] is {shown(node)}: its id must be {at}")
    for at, edge in enumerate(edges):
        ends = [edge.get(end) if isinstance(edge, dict) else None for end in ("source", "target")]
        if not all(type(end) is int and 0 <= end < len(nodes) for end in ends):
            raise ValueError(f"edges[{at}] is {shown(edge)}: source and target must be nodes")
        if edge != {"source": ends[0], "target": ends[1], "key": at}:
            raise ValueError(f"edges[{at}] is {shown(edge)}: its key must be {at}")
    return Topology(len(nodes), [one["source"] for one in edges], [one["target"] for one in edges])


@final
@dataclass(frozen=True, slots=True)
class ReplayedSchedule:
    """A schedule that was replayed, what it costs on the derived topology, and who made it."""

    configuration: str
    collective: str
    cost: Cost
    max_loads: tuple[Fraction, ...]
    schedule: Schedule
    maker: str


def check_schedule(
    files: BundleFiles, configuration: str, collective: str, recipe: str | None, made: Topology
) -> ReplayedSchedule | None:
    """Replay a schedule, whose links must be those of the derived topology, in any order.

    None, with a finding, if it could not be replayed.
    """
    from ocs_codesign.verification.schedules import verify

    folder = f"schedules/{configuration}/{collective}"
    paths = [f"{folder}/{name}" for name in DESIGN_FILES]
    missing = [path for path in paths if path not in files.sizes]
    for path in missing:
        files.wrong(path, "the file is missing")
    if missing:
        return None
    record, archive = paths
    try:
        loaded = load_design(files.root / folder)
    except (ValueError, OSError, MemoryError) as error:
        text = str(error).replace(f"{files.root / folder}/", "").replace(f"{files.root}/", "")
        path = record if text.startswith(DESIGN_FILES[0]) else archive
        files.wrong(path, text.removeprefix(f"{path.rpartition('/')[2]}: "))
        return None
    if loaded.circuits is not None:
        files.wrong(archive, "its circuits change, which those of a bundle do not")
        return None
    kind = loaded.schedule.collective.name
    if kind != collective:
        files.wrong(archive, f"this is of {kind}, not of {collective}")
    if loaded.recipe != recipe:
        rule = f"recipe is {loaded.recipe}: in the manifest it is {recipe}"
        files.findings.add(record, "recipe", rule)
    speeds = "its links have speeds, which those of the light have not"
    difference = first_difference(made, loaded.schedule.topology)
    if difference is not None or loaded.schedule.topology.link_speed is not None:
        files.wrong(archive, f"{difference or speeds}, so that it cannot run")
        return None
    verdict = verify(loaded.schedule, loaded.claimed)
    if verdict.witness is not None:
        files.wrong(archive, f"on the derived topology, {verdict.witness}")
    elif loaded.loads is not None and loaded.loads != verdict.max_loads:
        files.wrong(record, "the claimed largest loads are not those of the sends")
    return ReplayedSchedule(
        *(configuration, collective, verdict.cost, verdict.max_loads, loaded.schedule),
        loaded.maker or "",
    )
