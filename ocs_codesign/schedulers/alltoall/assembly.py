"""From the walks of one source of every orbit to the schedule of all sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.alltoall.chunks import Walks
    from ocs_codesign.symmetry.automorphisms import Images
    from ocs_codesign.topology import Topology

MAX_SENDS = 200_000_000
"""Largest schedule that is built: 4 GB of columns."""


def assemble(
    topology: Topology,
    sources: NDArray[np.int64],
    chunks: int,
    walks: Walks,
    group: Sequence[Images],
) -> Schedule:
    """The all-to-all schedule of the walks of these sources, copied by every source's images.

    Without images (an empty group) the sources are all nodes. Chunks that follow each other and
    cross a link together are one send. Raises ValueError beyond MAX_SENDS.
    """
    walk, step = np.nonzero(walks.via >= 0)
    number = walks.source[walk]
    copies = np.array([len(one.nodes) for one in group] or [1])
    total = int(copies[number if group else np.zeros_like(number)].sum())
    if total > MAX_SENDS:
        raise ValueError(f"a schedule of {total:,} sends: at most {MAX_SENDS:,} are built")
    rows: list[NDArray[Any]] = [sources[number], walks.node[walk], walks.lo[walk], walks.hi[walk]]
    rows += [walks.via[walk, step], step + 1]
    if group:
        parts = [_copied(one, rows, number == at) for at, one in enumerate(group)]
        rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
    root, node, lo, hi, link, step = rows
    lo, hi = lo + node * chunks, hi + node * chunks
    columns = _merged(root, lo, hi, link, step)
    return Schedule(topology, Collective.ALLTOALL, topology.num_nodes * chunks, *columns)


def _copied(one: Images, rows: list[NDArray[Any]], mine: NDArray[np.bool_]) -> list[NDArray[Any]]:
    """The rows of one source for all sources of its orbit."""
    root, node, lo, hi, link, step = (column[mine] for column in rows)
    copies = len(one.nodes)
    return [
        one.nodes[:, root].ravel().astype(np.int64),
        one.nodes[:, node].ravel().astype(np.int64),
        np.tile(lo, copies),
        np.tile(hi, copies),
        one.links(link).ravel(),
        np.tile(step, copies),
    ]


def _merged(
    root: NDArray[np.int64],
    lo: NDArray[np.int64],
    hi: NDArray[np.int64],
    link: NDArray[np.int64],
    step: NDArray[np.int64],
) -> list[NDArray[np.int64]]:
    """The columns sorted by (step, link, root, lo), chunks in a row made one send."""
    order = np.lexsort((lo, root, link, step))
    root, lo, hi, link, step = (column[order] for column in (root, lo, hi, link, step))
    new = np.ones(len(root), dtype=bool)
    new[1:] = lo[1:] != hi[:-1]
    for column in (root, link, step):
        new[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(root)) - 1
    return [root[first], lo[first], hi[last], link[first], step[first]]
