"""A local search for planes that keep held circuits: exchanges along Kempe chains.

The circuits of two planes fall into chains that share no port, each of which may change planes by
itself, so that two planes by themselves are brought to their best at once. A ring or path of
two-way circuits of a plane may also be walked the other way, which changes their sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.fabric.components import connected
from ocs_codesign.fabric.description import PortModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.fabric.planes.planes import Planes

MAX_ROUNDS = 300
WORK = 3_000_000
"""Circuits times pairs of planes that all rounds together may look at."""
KICK_SHARE = 0.15
"""Of the chains that would lose, so many are exchanged at most in a round."""


@final
@dataclass(slots=True)
class _Search:
    """Circuits as they are now; ``turned`` are those whose ends have changed sides."""

    port_model: PortModel
    held: NDArray[np.int32]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    plane: NDArray[np.int32]
    turned: NDArray[np.bool_]

    def kept(self, mine: NDArray[np.int64], plane: NDArray[np.int32]) -> NDArray[np.int64]:
        """Whether each of these circuits would be one held, if it were in that plane."""
        there: NDArray[np.int32] = self.held[plane, self.a[mine]]
        return np.asarray(there == self.b[mine], dtype=np.int64)

    def num_kept(self) -> int:
        return int(np.count_nonzero(self.held[self.plane, self.a] == self.b))

    def chains(self, one: int, other: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The circuits of two planes, and of each the number of its chain."""
        mine = np.flatnonzero((self.plane == one) | (self.plane == other))
        nodes = self.held.shape[1]
        side = nodes if self.port_model.has_b_side else 0
        ends = self.a[mine].astype(np.int64), self.b[mine].astype(np.int64) + side
        return mine, _numbered(connected(*ends, 2 * nodes)[ends[0]])

    def rings(self, plane: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The circuits of a plane, and of each the number of its ring or path."""
        mine = np.flatnonzero(self.plane == plane)
        ends = self.a[mine], self.b[mine]
        return mine, _numbered(connected(*ends, self.held.shape[1])[ends[0]])

    def exchange(self, one: int, other: int, random: np.random.Generator | None) -> int:
        """Exchange chains that gain; with ``random`` some others too. Returns what was gained."""
        mine, chain = self.chains(one, other)
        if not len(mine):
            return 0
        now = self.plane[mine]
        then = (one + other - now).astype(np.int32)
        won = self.kept(mine, then) - self.kept(mine, now)
        gain = np.bincount(chain, weights=won.astype(np.float64))
        chosen = _chosen(gain, random)
        moves = chosen[chain]
        self.plane[mine[moves]] = then[moves]
        return int(gain[chosen].sum())

    def turn(self, plane: int, random: np.random.Generator | None) -> int:
        """Walk rings the other way where that gains; with ``random`` some others too."""
        mine, ring = self.rings(plane)
        if not len(mine):
            return 0
        now = self.kept(mine, self.plane[mine])
        then = self.held[plane, self.b[mine]] == self.a[mine]
        gain = np.bincount(ring, weights=then.astype(np.float64) - now)
        chosen = _chosen(gain, random)
        moves = mine[chosen[ring]]
        self.a[moves], self.b[moves] = self.b[moves], self.a[moves]
        self.turned[moves] = ~self.turned[moves]
        return int(gain[chosen].sum())

    def descend(self, pairs: list[tuple[int, int]]) -> None:
        """Exchange and turn until nothing gains."""
        gained = 1
        while gained:
            gained = sum(self.exchange(one, other, None) for one, other in pairs)
            if self.port_model is PortModel.TWO_SIDED:
                gained += sum(self.turn(plane, None) for plane in range(len(self.held)))

    def copy(self) -> _Search:
        return replace(
            self,
            a=self.a.copy(),
            b=self.b.copy(),
            plane=self.plane.copy(),
            turned=self.turned.copy(),
        )


def improve_planes(planes: Planes, held: NDArray[np.int32], seed: int, most_kept: int) -> Planes:
    """Planes with at least as many circuits of ``held``; ends at a local optimum or ``most_kept``.

    With ``num_planes`` the rows of ``held``; the same seed gives the same planes.
    """
    search = _Search(
        planes.port_model,
        held,
        planes.a_node.copy(),
        planes.b_node.copy(),
        planes.plane.copy(),
        np.zeros(planes.num_circuits, dtype=np.bool_),
    )
    pairs = list(combinations(range(len(held)), 2))
    search.descend(pairs)
    best, kept = search, search.num_kept()
    may_turn = planes.port_model is PortModel.TWO_SIDED
    has_choice = len(pairs) > 1 or (may_turn and len(held) > 1)
    rounds = min(MAX_ROUNDS, WORK // (max(1, planes.num_circuits) * max(1, len(pairs))))
    random = np.random.default_rng(seed)
    for _ in range(rounds if has_choice else 0):
        if kept == most_kept:
            break
        search = best.copy()
        for _ in range(1 + int(random.integers(3))):
            if may_turn and random.random() < 0.5:
                search.turn(int(random.integers(len(held))), random)
            else:
                search.exchange(*pairs[int(random.integers(len(pairs)))], random)
        search.descend(pairs)
        found = search.num_kept()
        if found >= kept:
            best, kept = search, found
    link = np.where(best.turned[:, None], planes.link[:, ::-1], planes.link)
    # A loop-back that one link uses has no other direction to be turned to.
    link = np.where(link[:, :1] < 0, planes.link, link)
    return replace(planes, link=link.astype(np.int32), plane=best.plane)


def _numbered(label: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _chosen(gain: NDArray[Any], random: np.random.Generator | None) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = gain > 0
    if random is None:
        return chosen
    draw = random.random(len(gain))
    chosen |= (gain == 0) & (draw < 0.5)
    chosen |= draw < KICK_SHARE * random.random()
    return chosen
