"""From the sends of a program to those of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.schedule import Schedule
from ocs_codesign.schedulers.exact.symmetry import automorphisms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.schedulers.exact.model import Broadcasts


def allgather_of(model: Broadcasts, sends: NDArray[np.bool_]) -> Schedule:
    """The allgather of these sends (chunks x sends).

    Those of one root are copied to its orbit if the model has one root an orbit. Steps in which
    nothing is sent are left out.
    """
    topology = model.topology
    chunk, send = np.nonzero(sends)
    position, link, step = model.root[send], model.link[send], model.step[send]
    root = model.roots[position]
    if len(model.roots) < topology.num_nodes:
        parts = []
        for at, origin in enumerate(model.roots.tolist()):
            here = position == at
            nodes, links = automorphisms(topology, origin)
            parts += [
                np.stack([np.full(here.sum(), target), chunk[here], moved[link[here]], step[here]])
                for target, moved in zip(nodes[:, origin], links, strict=True)
            ]
        root, chunk, link, step = np.concatenate(parts, axis=1)
    step = np.unique(step, return_inverse=True)[1] + 1
    columns = _runs(root, chunk, link, step)
    return Schedule(topology, Collective.ALLGATHER, len(sends), *columns)


def _runs(
    root: NDArray[np.int64],
    chunk: NDArray[np.int64],
    link: NDArray[np.int64],
    step: NDArray[np.int64],
) -> tuple[NDArray[np.int64], ...]:
    """Columns root, lo, hi, link, step: consecutive chunks that go together are one send."""
    order = np.lexsort((chunk, link, step, root))
    root, chunk, link, step = root[order], chunk[order], link[order], step[order]
    same = (np.diff(root) == 0) & (np.diff(link) == 0) & (np.diff(step) == 0)
    first = np.flatnonzero(np.append(True, ~(same & (np.diff(chunk) == 1))))
    last = np.append(first[1:], len(chunk)) - 1
    return root[first], chunk[first], chunk[last] + 1, link[first], step[first]
