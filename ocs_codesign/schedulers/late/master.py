"""Allgathers mixed from arrivals: for parts of every root's shard, the step at which nodes get it.

Where it is given when every node gets a part of a shard, nodes choose their in-links on their own:
any in-neighbour that got it earlier will do. So a schedule is, for every root, arrivals with how
much of the shard follows each, and for every node how that is spread over its in-links. All of that
is linear, and with all arrivals that there are it is every schedule there is, in any chunks.

With whole amounts of the arrivals and whole times, amounts on links need not be asked to be whole:
each is in one sum of a node and in one of a link and step, so the vertices are (a transportation
problem), if all links are as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.schedulers.exact.model import SendRows, assembled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.lp import LinearProgram
    from ocs_codesign.schedulers.exact.model import Broadcasts


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Of the root at a position of the model, the step at which every node gets a part, 0 for it.

    ``sends`` are those of the model that may bring it: from who has it earlier.
    """

    position: int
    step: NDArray[np.int64]
    sends: NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Master:
    """The program of some arrivals: columns are times of steps, amounts of arrivals, of sends.

    ``arrival`` and ``send`` say whose the amounts of sends are.
    """

    model: Broadcasts
    arrivals: tuple[Arrivals, ...]
    arrival: NDArray[np.int64]
    send: NDArray[np.int64]

    @classmethod
    def of(cls, model: Broadcasts, arrivals: list[Arrivals]) -> Master:
        """The master of these arrivals; every root needs one at least."""
        arrival = np.repeat(np.arange(len(arrivals)), [len(some.sends) for some in arrivals])
        return cls(
            model, tuple(arrivals), arrival, np.concatenate([some.sends for some in arrivals])
        )

    def program(self, num_chunks: int = 1, *, integral: bool = False) -> LinearProgram:
        """Minimise the sum of the times of the steps, of shards of so many chunks."""
        model, steps, kinds = self.model, self.model.num_steps, len(self.arrivals)
        position = np.array([some.position for some in self.arrivals])
        roots, nodes = len(model.roots), model.topology.num_nodes
        amount, send = steps + np.arange(kinds), steps + kinds + np.arange(len(self.send))
        whole = np.full(roots, float(num_chunks))
        shards = SendRows(position, amount, np.ones(kinds), whole, whole)
        # A node gets of every arrival what there is of it.
        into = self.arrival * nodes + model.head[self.send]
        got = np.arange(kinds * nodes).reshape(kinds, nodes)
        others = np.arange(nodes) != model.roots[position][:, None]
        nothing = np.zeros(kinds * nodes)
        parts = SendRows(
            np.append(into, got[others]),
            np.append(send, np.broadcast_to(amount[:, None], others.shape)[others]),
            np.append(np.ones(len(send)), np.full(int(others.sum()), -1.0)),
            nothing,
            nothing,
        )
        row = model.link_class[model.link[self.send]] * steps + model.step[self.send] - 1
        num = self._num_loads
        loads = SendRows(
            np.append(row, np.arange(num)),
            np.append(send, np.arange(num) % steps),
            np.append(takes_of(model)[self.send], np.full(num, -1.0)),
            np.full(num, -inf),
            np.zeros(num),
        )
        columns = steps + kinds + len(send)
        cost = np.append(np.ones(steps), np.zeros(kinds + len(send)))
        return assembled([shards, parts, loads], cost, np.full(columns, inf), integral=integral)

    def prices(self, row_duals: NDArray[Any]) -> NDArray[Any]:
        """What a unit of time of a class of links at a step is worth: (classes, steps)."""
        duals = np.maximum(-row_duals[-self._num_loads :], 0)
        prices: NDArray[Any] = duals.reshape(-1, self.model.num_steps)
        return prices

    def sends_of(self, values: NDArray[np.int64], num_chunks: int) -> NDArray[np.bool_]:
        """The sends (chunks x sends) of a point with whole amounts of so many chunks a shard.

        Every arrival has consecutive chunks, and so has every in-link over which a node gets them.
        """
        model, steps, kinds = self.model, self.model.num_steps, len(self.arrivals)
        parts, carried = values[steps : steps + kinds], values[steps + kinds :]
        found = np.zeros((num_chunks, model.num_sends), dtype=bool)
        filled = np.zeros(len(model.roots), dtype=np.int64)
        for at, some in enumerate(self.arrivals):
            lo = np.full(model.topology.num_nodes, filled[some.position])
            filled[some.position] += parts[at]
            mine = np.flatnonzero((self.arrival == at) & (carried > 0))
            for send, count in zip(self.send[mine].tolist(), carried[mine].tolist(), strict=True):
                head = model.head[send]
                found[lo[head] : lo[head] + count, send] = True
                lo[head] += count
        return found

    @property
    def _num_loads(self) -> int:
        return (int(self.model.link_class.max()) + 1) * self.model.num_steps


def takes_of(model: Broadcasts) -> NDArray[np.int64]:
    """The time that a shard takes on the link of every send."""
    takes: NDArray[np.int64] = model.unit // model.topology.speeds()[model.link]
    return takes


def arrivals_at(model: Broadcasts, position: int, step: NDArray[np.int64]) -> Arrivals:
    """The arrivals of a root by the step of every node, 0 for the root itself."""
    lands = model.step == step[model.head]
    usable = (model.root == position) & lands & (step[model.tail] < model.step)
    return Arrivals(position, step, np.flatnonzero(usable))
