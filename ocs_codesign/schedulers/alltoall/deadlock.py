"""Deadlock: which paths may wait for each other in a ring.

Where packets move hop by hop between finite buffers, links are channels, and a path makes each of
its links depend on the next. If these dependencies form no cycle, no set of packets can block each
other for ever. Source: Dally and Seitz (1987).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.kernels import for_work
from ocs_codesign.schedulers.alltoall.route_kernels import find_cycle

if TYPE_CHECKING:
    from ocs_codesign.schedulers.alltoall.result import PathTable


def dependency_cycle(table: PathTable) -> list[int] | None:
    """Links around a cycle of channel dependencies, each followed by the next in some path.

    None if there is no cycle: then the paths are free of deadlock.

    >>> from ocs_codesign.schedulers.alltoall.paths import path_table
    >>> from ocs_codesign.graphs.families.rings import UniRing
    >>> dependency_cycle(path_table(UniRing(1, 3).topology()))
    [0, 1, 2]
    >>> dependency_cycle(path_table(UniRing(1, 2).topology())) is None
    True
    """
    links = table.topology.num_links
    is_last = np.zeros(len(table.link), dtype=bool)
    is_last[table.start[1:] - 1] = True
    here = np.flatnonzero(~is_last)
    before, after = np.divmod(np.unique(table.link[here] * links + table.link[here + 1]), links)
    start = np.searchsorted(before, np.arange(links + 1))
    cycle = np.empty(links + 1, dtype=np.int64)
    length = for_work(find_cycle, len(after))(start, after, cycle)
    return cycle[:length].tolist() if length else None
