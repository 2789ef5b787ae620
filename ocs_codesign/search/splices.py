"""Splices: how to join the links that lost nodes leave loose, by exact cost.

Ends can be joined within blocks: as in a fabric, where both must be in one switch, or freely. All
joinings are scored where they are few enough, which proves the best; else a seeded search exchanges
two ends at a time, sideways or up, from several starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.core.bounds import bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.expansions.edits import Splice, loose_links, spliced_topology
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, can_measure, too_long

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.graphs.recipe import Recipe


# Loose ends: what lost nodes leave to be joined, and in which ways that can be done.


Arrangement = list[list[int]]
"""The ends of every block in an order, which says what is joined with what."""


@final
@dataclass(frozen=True, slots=True)
class EndBlock:
    """Ends that can be joined with one another: each of ``left`` with one of ``right``.

    Without ``right``, those of ``left`` are joined in pairs.
    """

    left: tuple[int, ...]
    right: tuple[int, ...] | None = None

    def num_joinings(self) -> int:
        """In how many ways all ends are joined; 0 if that cannot be.

        >>> EndBlock((0, 1, 2), (0, 1, 2)).num_joinings(), EndBlock((0, 1, 2, 3)).num_joinings()
        (6, 3)
        """
        ends = len(self.left)
        if self.right is not None:
            return factorial(ends) if len(self.right) == ends else 0
        return 0 if ends % 2 else prod(range(1, ends, 2))

    def joinings(self) -> Iterator[list[int]]:
        """Every order of ends that joins them differently."""
        if self.right is None:
            yield from _pairings(list(self.left))
        else:
            yield from map(list, permutations(self.right))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LooseEnds:
    """What lost nodes leave loose: links into them and out of them, by ids, and the blocks.

    One-way links: an end of ``left`` counts in ``into``, one of ``right`` in ``out``. Two-way ones:
    all ends count in ``into``, and ``twin`` has the place in ``out`` of each one's other direction.
    """

    gone: tuple[int, ...]
    into: NDArray[np.int64]
    out: NDArray[np.int64]
    blocks: tuple[EndBlock, ...]
    twin: NDArray[np.int64] | None = None

    def num_joinings(self) -> int:
        """In how many ways all ends are joined."""
        return prod(block.num_joinings() for block in self.blocks)

    @property
    def is_free(self) -> bool:
        """Whether any end can be joined with any other."""
        return len(self.blocks) == 1 and (self.twin is None) == (self.blocks[0].right is not None)

    def order_of(self, joined: Sequence[int]) -> list[int]:
        """The order of the ends, if they are free, that joins them so."""
        if self.twin is None:
            return list(joined)
        end_of = np.argsort(self.twin)
        pairs = ((at, int(end_of[out])) for at, out in enumerate(joined))
        return [end for pair in pairs if pair[0] <= pair[1] for end in pair]

    def joined(self, arrangement: Arrangement) -> tuple[int, ...]:
        """What ``Splice`` is told, for an order of the ends of every block."""
        heads = np.full(len(self.into), -1, dtype=np.int64)
        for block, order in zip(self.blocks, arrangement, strict=True):
            pairs = (
                zip(order[0::2], order[1::2], strict=True)
                if block.right is None
                else zip(block.left, order, strict=True)
            )
            for one, other in pairs:
                if self.twin is None:
                    heads[one] = other
                else:
                    heads[one], heads[other] = self.twin[other], self.twin[one]
        return tuple(heads.tolist())


def loose_ends(topology: Topology, gone: Sequence[int], *, two_way: bool = False) -> LooseEnds:
    """The loose ends of nodes, each of which can be joined with any other.

    ``two_way``: links stay in both directions. ValueError for nodes that are none, no node, a node
    twice, fewer than two nodes left, and one-way links of a topology that is to be two-way.

    >>> from ocs_codesign.graphs.families.rings import BiRing
    >>> ends = loose_ends(BiRing(4, 6).topology(), [0, 3], two_way=True)
    >>> len(ends.into), ends.num_joinings()
    (8, 105)
    """
    nodes = _checked(topology, gone)
    into, out = loose_links(topology.tail, topology.head, nodes)
    everything = tuple(range(len(into)))
    if not two_way:
        return LooseEnds(nodes, into, out, (EndBlock(everything, everything),))
    if not topology.is_undirected():
        raise ValueError(f"{topology} has links without a reverse: they are joined one way")
    stays, lost = topology.tail, topology.head
    of_into = np.lexsort((into, lost[into], stays[into]))
    of_out = np.lexsort((out, stays[out], lost[out]))
    twin = np.empty(len(into), dtype=np.int64)
    twin[of_into] = of_out
    return LooseEnds(nodes, into, out, (EndBlock(everything),), twin)


def _pairings(ends: list[int]) -> Iterator[list[int]]:
    if not ends:
        yield []
        return
    first, *rest = ends
    for at, other in enumerate(rest):
        for pairs in _pairings(rest[:at] + rest[at + 1 :]):
            yield [first, other, *pairs]


def _checked(topology: Topology, gone: Sequence[int]) -> tuple[int, ...]:
    nodes = topology.num_nodes
    bad = [node for node in gone if not 0 <= node < nodes]
    if bad:
        raise ValueError(f"node {bad[0]} is gone: nodes are 0 to {nodes - 1}")
    if not len(gone) or len(set(gone)) < len(gone) or len(gone) > nodes - 2:
        raise ValueError(f"nodes {list(gone)} of {nodes} are gone: they must differ and leave two")
    return tuple(sorted(int(node) for node in gone))


MAX_ENUMERATED = 40_320
"""Joinings that are all scored at most: those of the eight links of one node."""
_ALWAYS_ENUMERATED = 720
_WORK = 2**33
_LEAST_SCORED, _MOST_SCORED = 256, 20_000
_OF_A_SCORE = 2**18
"""Words that may be worked on, and what a score takes beside those of its reach sets."""
_STARTS = 4


@final
@dataclass(frozen=True, slots=True)
class Spliced:
    """A way to join the ends, its exact BFB cost, and links that are loops or parallel to one."""

    joined: tuple[int, ...]
    cost: Cost
    num_wasted: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Splices:
    """The undominated ways to join the ends of lost nodes, the least t_b first.

    Of ``num_possible`` ways ``num_scored`` were looked at; if those are all, what is here is proven
    to be the best. No topology of so many nodes and ports beats ``bound``. ``found`` is empty if no
    way, or none that was looked at, leaves all nodes joined; ``seed`` drew them if not all were.
    """

    ends: LooseEnds
    collective: Collective
    found: tuple[Spliced, ...]
    num_possible: int
    num_scored: int
    bound: Cost
    seed: int = 0

    @property
    def is_exhaustive(self) -> bool:
        """Whether every way was scored."""
        return self.num_scored == self.num_possible

    @property
    def is_optimal(self) -> bool:
        """Whether no way has a smaller t_b than the first: all were scored, or it is the bound."""
        at_bound = bool(self.found) and self.found[0].cost.t_b == self.bound.t_b
        return self.is_exhaustive or at_bound

    def recipe(self, base: Recipe, way: Spliced | None = None) -> Splice:
        """The recipe of a way, by default of the one of least t_b."""
        return Splice(base, self.ends.gone, (way or self.found[0]).joined)


def best_splices(
    topology: Topology,
    ends: LooseEnds,
    collective: Collective | str = Collective.ALLGATHER,
    *,
    seed: int = 0,
    most_scored: int | None = None,
) -> Splices:
    """The undominated ways to join loose ends, by the exact cost of BFB on what they make.

    All ways are scored if they are few for a graph of this size; else up to ``most_scored`` by a
    search that ``seed`` draws. Of ways that cost the same the one with fewest loops and parallel
    links is kept. Raises ValueError for a graph that is too large to be measured, or a negative
    seed.

    >>> from ocs_codesign.graphs.families.rings import DirectedCirculant
    >>> base = DirectedCirculant(9, (1, 4)).topology()
    >>> best = best_splices(base, loose_ends(base, [3]))
    >>> best.num_possible, best.is_exhaustive, best.found[0].cost
    (2, True, Cost(steps=3, t_b=Fraction(1, 1)))
    """
    collective = Collective.parse_gathering(collective)
    if not can_measure(topology):
        raise ValueError(too_long(topology))
    if seed < 0:
        raise ValueError(f"the seed is {seed}: it must be at least 0")
    least = bound(topology.num_nodes - len(ends.gone), topology.degree, collective)
    possible = ends.num_joinings()
    trials = _Trials(topology, ends, collective, least)
    budget = _budget(topology) if most_scored is None else most_scored
    if possible <= max(min(MAX_ENUMERATED, 4 * budget), _ALWAYS_ENUMERATED):
        for joining in product(*(block.joinings() for block in ends.blocks)) if possible else ():
            trials.score(list(joining))
    else:
        rng = np.random.default_rng(seed)
        starts = [_one_by_one(topology, ends, collective, budget, seed)] if ends.is_free else []
        starts += [_random_order(ends, rng) for _ in range(_STARTS - len(starts))]
        for start in starts:
            _climbed(trials, start, rng, -(-budget // _STARTS))
    return Splices(ends, collective, trials.best(), possible, trials.num_scored, least, seed)


Score = tuple[Fraction, int, int]
"""t_b, steps, and links that are loops or parallel."""


@final
class _Trials:
    """Ways that were scored, and the best for every number of steps."""

    def __init__(
        self, topology: Topology, ends: LooseEnds, collective: Collective, least: Cost
    ) -> None:
        self.ends, self.least = ends, least
        self.two_way = ends.twin is not None
        self.halves = collective.halves()
        gone = np.sort(ends.gone)
        self.num_nodes = topology.num_nodes - len(gone)
        new = np.arange(topology.num_nodes) - np.searchsorted(gone, np.arange(topology.num_nodes))
        stays = np.isin(topology.tail, gone, invert=True)
        self.tail, self.head = new[topology.tail[stays]], new[topology.head[stays]]
        self.place = np.searchsorted(np.flatnonzero(stays), ends.into)
        self.heads = new[topology.head[ends.out]]
        self.by_steps: dict[int, tuple[Fraction, int, tuple[int, ...]]] = {}
        self.num_scored = 0

    def score(self, arrangement: Arrangement) -> Score | None:
        """What a way costs; None if nodes are cut off."""
        self.num_scored += 1
        joined = self.ends.joined(arrangement)
        head = self.head.copy()
        head[self.place] = self.heads[list(joined)]
        made = Topology(self.num_nodes, self.tail, head)
        try:
            loads = [self._loads(made, half) for half in self.halves]
        except ValueError:
            return None
        steps = sum(map(len, loads))
        t_b = made.t_b(sum((sum(half, Fraction(0)) for half in loads), Fraction(0)))
        key = self.tail * self.num_nodes + head
        wasted = len(key) - len(np.unique(key[self.tail != head]))
        known = self.by_steps.get(steps)
        if known is None or (t_b, wasted) < known[:2]:
            self.by_steps[steps] = (t_b, wasted, joined)
        return t_b, steps, wasted

    def _loads(self, made: Topology, half: Collective) -> tuple[Fraction, ...]:
        return bfb_loads(made if half == Collective.ALLGATHER or self.two_way else made.transpose())

    def best(self) -> tuple[Spliced, ...]:
        """The undominated ones, the least t_b first."""
        found: list[Spliced] = []
        for steps, (t_b, wasted, joined) in sorted(self.by_steps.items()):
            if not found or t_b < found[-1].cost.t_b:
                found.append(Spliced(joined, Cost(steps, t_b), wasted))
        return tuple(reversed(found))

    def is_at_bound(self) -> bool:
        """Whether nothing better can be found."""
        known = self.by_steps.get(self.least.steps)
        return known is not None and known[:2] == (self.least.t_b, 0)


def _random_order(ends: LooseEnds, rng: np.random.Generator) -> Arrangement:
    return [
        rng.permutation(block.left if block.right is None else block.right).tolist()
        for block in ends.blocks
    ]


def _one_by_one(
    topology: Topology, ends: LooseEnds, collective: Collective, budget: int, seed: int
) -> Arrangement:
    """Where each of several nodes, one after the other, is taken out in the best way for it.

    Every link that is left knows which link its tail, and which its head, was of in the beginning.
    """
    two_way = ends.twin is not None
    links = np.arange(topology.num_links)
    tail_of, head_of, nodes = links, links, list(ends.gone)
    a_node = budget // (_STARTS * len(nodes)) + 1
    while nodes:
        node = nodes.pop()
        one = loose_ends(topology, [node], two_way=two_way)
        best = best_splices(topology, one, collective, seed=seed, most_scored=a_node).found
        if not best:
            return [list(block.right or block.left) for block in ends.blocks]
        joined = best[0].joined
        stays = topology.tail != node
        head_of = head_of.copy()
        head_of[one.into] = head_of[one.out[list(joined)]]
        tail_of, head_of = tail_of[stays], head_of[stays]
        topology = spliced_topology(topology, [node], joined)
    of_tail = np.argsort(tail_of)
    heads = head_of[of_tail[np.searchsorted(tail_of, ends.into, sorter=of_tail)]]
    joined_all = np.searchsorted(ends.out, heads)
    return [ends.order_of(joined_all.tolist())]


def _climbed(trials: _Trials, now: Arrangement, rng: np.random.Generator, budget: int) -> None:
    """From a way, exchanges of two ends that make nothing worse."""
    open_blocks = [at for at, order in enumerate(now) if len(order) > 1]
    weights = np.array([len(now[at]) * (len(now[at]) - 1) for at in open_blocks], dtype=float)
    score = trials.score(now)
    for _ in range(budget - 1):
        if trials.is_at_bound():
            return
        order = now[open_blocks[int(rng.choice(len(open_blocks), p=weights / weights.sum()))]]
        one, other = rng.choice(len(order), 2, replace=False)
        order[one], order[other] = order[other], order[one]
        new = trials.score(now)
        if score is None or (new is not None and new <= score):
            score = new
        else:
            order[one], order[other] = order[other], order[one]


def _budget(topology: Topology) -> int:
    """Ways that may be scored in a search."""
    nodes = topology.num_nodes
    words = nodes * -(-nodes // 64) << min(topology.degree, 9)
    return max(_LEAST_SCORED, min(_MOST_SCORED, _WORK // (6 * words + _OF_A_SCORE)))
