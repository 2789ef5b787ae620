"""Stored allgathers of base graphs, made by a solver beforehand: base_topologies/schedules/.

The index declares the cost of every schedule. One that does not verify at that cost is refused,
never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.graphs.base_topologies import base_topologies_path, read_checked, read_index
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """An entry of the index: an allgather of a base recipe's graph, or of its transpose.

    ``recipe`` is the recipe's text, ``source`` says how the schedule was made.
    """

    recipe: str
    transposed: bool
    nodes: int
    degree: int
    steps: int
    t_b: Fraction
    chunks: int
    source: str
    file: str
    sha256: str


@cache
def stored_schedules() -> Mapping[tuple[str, bool], StoredSchedule]:
    """All entries of the index, by the recipe's text and whether it is of the transpose.

    >>> str(stored_schedules()["ModifiedDeBruijn(2, 4)", False].t_b)
    '15/16'
    """
    rows = read_index(base_topologies_path() / "schedules", "schedules")
    entries = (StoredSchedule(**row) for row in rows)
    return MappingProxyType({(entry.recipe, entry.transposed): entry for entry in entries})


def read_allgather(entry: StoredSchedule, topology: Topology) -> Schedule:
    """The stored schedule on its topology, which is the transpose of the graph if it says so.

    Raises ValueError if the file is damaged, is not of this topology, or holds a schedule that does
    not verify at the declared cost.
    """
    path = base_topologies_path() / "schedules" / entry.file
    arrivals = np.array(read_checked(path, entry.sha256)["arrivals"], dtype=np.int64)
    roots = stored_roots(topology, len(arrivals))
    shape = (len(roots), entry.chunks, topology.num_nodes)
    if arrivals.shape != shape:
        raise ValueError(f"{path} has arrivals of shape {arrivals.shape}: here it must be {shape}")
    own = np.arange(topology.num_nodes) == roots[:, None, None]
    if ((arrivals < 0) != own).any():
        raise ValueError(f"{path} must have -1 where a node is the root itself, and only there")
    into = topology.links_by_head()
    ports, steps = np.divmod(arrivals, entry.steps)
    if (ports >= np.diff(into.start)).any():
        raise ValueError(f"{path} names an in-link that a node of this topology does not have")
    link = into.order[into.start[:-1] + np.maximum(ports, 0)]
    schedule = _allgather(topology, *of_all_roots(topology, link, steps + 1))
    verdict = verify(schedule, Cost(entry.steps, entry.t_b))
    if not verdict.ok:
        raise ValueError(f"{path} is refused: {verdict.witness}")
    return schedule


def stored_allgather(
    recipe: str, transposed: bool, topology: Callable[[], Topology]
) -> Schedule | None:
    """The schedule that is stored of a recipe's graph, or of its transpose; None without one."""
    entry = stored_schedules().get((recipe, transposed))
    return None if entry is None else read_allgather(entry, topology())


def stored_roots(topology: Topology, num_roots: int) -> NDArray[np.int64]:
    """The roots that a file with so many lines is of: all, or the first of every orbit."""
    if topology.symmetry is not None:
        first = topology.symmetry.representatives()
        if num_roots == len(first):
            return first
    return np.arange(topology.num_nodes)


def of_all_roots(
    topology: Topology, link: NDArray[np.int64], step: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Links and steps (roots, chunks, nodes) of stored roots, copied to those of their orbits."""
    roots = stored_roots(topology, len(link))
    if len(roots) == topology.num_nodes:
        return link, step
    from ocs_codesign.core.compute.symmetry import automorphisms

    shape = (topology.num_nodes, *link.shape[1:])
    every_link, every_step = np.empty(shape, np.int64), np.empty(shape, np.int64)
    chunk = np.arange(link.shape[1])[:, None]
    for at, root in enumerate(roots.tolist()):
        nodes, links = automorphisms(topology, root)
        into = nodes[:, root, None, None], chunk, nodes[:, None, :]
        every_link[into] = links[:, link[at]]
        every_step[into] = step[at]
    return every_link, every_step


def _allgather(topology: Topology, link: NDArray[np.int64], step: NDArray[np.int64]) -> Schedule:
    """The allgather in which a node receives a chunk of a root over this link at this step.

    Of shape (roots, chunks, nodes) both; a root's own entries mean nothing. Neighbouring chunks
    that come together are one send.
    """
    roots, chunks = link.shape[:2]
    begins = np.ones(link.shape, dtype=bool)
    begins[:, 1:] = (np.diff(link, axis=1) != 0) | (np.diff(step, axis=1) != 0)
    begins[np.arange(roots), :, np.arange(roots)] = False
    # Chunks run fastest here, so a send ends where the next begins or the shard does.
    root, node, lo = np.nonzero(begins.transpose(0, 2, 1))
    same = (np.diff(root) == 0) & (np.diff(node) == 0)
    hi = np.append(np.where(same, lo[1:], chunks), chunks)
    sends = (root, lo, node)
    return Schedule(topology, Collective.ALLGATHER, chunks, root, lo, hi, link[sends], step[sends])
