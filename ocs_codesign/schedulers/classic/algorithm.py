"""Algorithm: a collective on N ranks as steps in which every rank sends to one other.

The chunks that move are numbered: ``shard * chunks + i`` is the i-th of ``chunks`` equal parts of a
shard. In an all-to-all shard s * N + t is what rank s has for rank t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

import numpy as np

from ocs_codesign.collective import Collective
from ocs_codesign.schedule import Schedule
from ocs_codesign.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Steps: TypeAlias = Iterator["Step"]

NOBODY = -1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Rank v sends the chunks ``items[v]`` to rank ``peer[v]``, all ranks at the same time.

    ``peer`` (N) is NOBODY for a rank that sends nothing; rows of ``items`` (N x most chunks sent)
    end with NOBODY where a rank sends fewer. The receiver adds what comes in to its own part of the
    sum if ``reduces``, else it keeps it as it is.
    """

    peer: NDArray[np.int64]
    items: NDArray[np.int64]
    reduces: bool = False

    @property
    def is_permutation(self) -> bool:
        """Whether every rank sends to one and receives from one."""
        return bool((np.sort(self.peer) == np.arange(len(self.peer))).all())


@final
@dataclass(frozen=True, slots=True)
class Algorithm:
    """A collective as steps, a function of N that raises ValueError for an N that has none.

    A new one is such a function and an entry of ``CLASSIC``. An allreduce of a reduce-scatter and
    an allgather is both of them too: steps that reduce, then steps that do not.

    >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
    >>> [step.peer.tolist() for step in CLASSIC["bruck"].steps(5)]
    [[1, 2, 3, 4, 0], [2, 3, 4, 0, 1], [4, 0, 1, 2, 3]]
    """

    name: str
    collective: Collective
    steps: Callable[[int], Steps]
    chunks: int = 1

    def half(self, collective: Collective, num_nodes: int) -> Steps:
        """The steps of the whole collective, or of the reduce-scatter or allgather in it."""
        for step in self.steps(num_nodes):
            if collective == self.collective or (
                step.reduces == (collective == Collective.REDUCE_SCATTER)
            ):
                yield step

    def schedule(self, num_nodes: int) -> Schedule:
        """The schedule over a topology with a link for every two ranks that ever talk.

        Raises ValueError for an allreduce that ends with a sum: a schedule's is a reduce-scatter,
        then an allgather.

        >>> from ocs_codesign.schedulers.classic.registry import CLASSIC
        >>> CLASSIC["ring"].schedule(4).num_sends, CLASSIC["bruck"].schedule(4).topology.degree
        (24, 2)
        """
        parts, reduces = [], False
        for number, step in enumerate(self.steps(num_nodes), 1):
            sender, column = np.nonzero((step.items != NOBODY) & (step.peer != NOBODY)[:, None])
            columns = [sender, step.peer[sender], step.items[sender, column]]
            same = [np.full(len(sender), value) for value in (number, not step.reduces)]
            parts.append(np.stack([*columns, *same]))
            reduces = step.reduces
        if reduces and self.collective == Collective.ALLREDUCE:
            raise ValueError(f"{self.name} has no allgather: it is no schedule of two halves")
        sender, receiver, item, at, phase = np.concatenate(parts, axis=1)
        pair, link = np.unique(sender * num_nodes + receiver, return_inverse=True)
        exchanges = self.collective == Collective.ALLTOALL
        shard = self.chunks * (num_nodes if exchanges else 1)
        root, lo = np.divmod(item, shard)
        halves = (phase,) if self.collective == Collective.ALLREDUCE else ()
        topology = Topology(num_nodes, *np.divmod(pair, num_nodes))
        return Schedule(
            topology, self.collective, shard, root, lo, lo + 1, link.ravel(), at, *halves
        )
