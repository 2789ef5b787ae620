"""The search for sequences of circulants or Cayley digraphs with the least all-to-all time.

What is searched are the generators: sequences are ranked by the hops from one node to all others
with the configurations used in order, which bound the time from below, and the best are solved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations_with_replacement, islice, product
from math import comb
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.phases import phased_alltoall, sequence_bound
from ocs_codesign.core.compute.kernels import for_work
from ocs_codesign.core.progress import counted, tell_phase
from ocs_codesign.core.shown import Brief
from ocs_codesign.graphs.families.cayley import Cayley
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.graphs.groups.cyclic import Cyclic
from ocs_codesign.schedules.breadth_first.loads import loads_of_steps
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.generators import multiplication_table
from ocs_codesign.search.small_groups import groups_of_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.circuits.phases import PhasedAlltoall
    from ocs_codesign.graphs.groups.group import Group
    from ocs_codesign.graphs.recipe import Recipe


# Sequences of configurations for all-to-all: circulants and Cayley digraphs of one group in turn.
#
# All configurations share the group's action, so the exact time of a sequence is a tiny program.


MAX_ENUMERATED = 2**17
"""Largest number of sequences of one group that is listed."""


def cayley_sequence(group: Group, numbers: Iterable[Sequence[int]]) -> tuple[Recipe, ...]:
    """The configurations whose generators are given by their numbers in the group."""
    return tuple(_recipe(group, generators) for generators in numbers)


def _recipe(group: Group, numbers: Sequence[int]) -> Recipe:
    generators = tuple(group.element(int(number)) for number in numbers)
    if isinstance(group, Cyclic) and 0 not in generators:
        return DirectedCirculant(group.n, generators)
    return Cayley(group, generators)


def in_turn(recipes: Iterable[Recipe]) -> str:
    """The configurations of a sequence in the field's notation."""
    return " → ".join(recipe.label() for recipe in recipes)


def direct_sequence(num_nodes: int, degree: int) -> tuple[DirectedCirculant, ...]:
    """Circulants that connect every node directly to every other one, d offsets at a time.

    There are ceil((N - 1) / d) of them; the last one repeats its offsets if it has ports to spare.

    >>> in_turn(direct_sequence(8, 2))
    'DiC(8,{1,2}) → DiC(8,{3,4}) → DiC(8,{5,6}) → DiC(8,{7,7})'
    """
    _check_sizes(num_nodes, degree)
    recipes = []
    for first in range(1, num_nodes, degree):
        offsets = range(first, min(first + degree, num_nodes))
        ports = sorted(offsets[i % len(offsets)] for i in range(degree))
        recipes.append(DirectedCirculant(num_nodes, tuple(ports)))
    return tuple(recipes)


def direct_time(num_nodes: int, degree: int) -> Fraction:
    """Time of the direct sequence, in M/B, when every piece goes its one hop.

    A phase takes as long as a piece, the last one less if its offsets have several ports each.
    """
    _check_sizes(num_nodes, degree)
    full, rest = divmod(num_nodes - 1, degree)
    last = Fraction(1, degree // rest) if rest else Fraction(0)
    return (full + last) * Fraction(degree, num_nodes)


def window_sequence(num_nodes: int, degree: int) -> tuple[DirectedCirculant, ...]:
    """Circulants, one a step, for an allgather in the fewest steps that changing circuits allow.

    Before step t < L = ceil(log_{d+1} N) every node holds the items of a window of (d + 1)^(t - 1)
    nodes up to itself; offsets j (d + 1)^(t - 1) bring it d more such windows. The last step asks
    for the R = N - (d + 1)^(L - 1) items that are left, R/d of them from each of d windows.

    >>> in_turn(window_sequence(100, 4))
    'DiC(100,{1,2,3,4}) → DiC(100,{5,10,15,20}) → DiC(100,{19,38,57,75})'
    """
    _check_sizes(num_nodes, degree)
    recipes, window = [], 1
    while window * (degree + 1) < num_nodes:
        offsets = tuple(j * window for j in range(1, degree + 1))
        recipes.append(DirectedCirculant(num_nodes, offsets))
        window *= degree + 1
    left = num_nodes - window
    # Window j is to have all of the j-th part, which may begin and end inside an item.
    last = [
        min(-(-j * left // degree), max(1, window + (j - 1) * left // degree))
        for j in range(1, degree + 1)
    ]
    return (*recipes, DirectedCirculant(num_nodes, tuple(sorted(last))))


def window_loads(num_nodes: int, degree: int) -> tuple[Fraction, ...]:
    """Largest link load of every step of the allgather over ``window_sequence``, in shards.

    They add up to (N - 1)/d, less than which none can, unless the parts of the last step must end
    inside items that only one window has: then that step takes as long as a whole window.

    >>> [str(load) for load in window_loads(100, 4)]
    ['1', '5', '75/4']
    """
    *_, last = sequence = window_sequence(num_nodes, degree)
    windows = [(degree + 1) ** step for step in range(len(sequence))]
    held = np.arange(num_nodes) < windows[-1]  # item k has come k nodes far
    offsets = sorted(set(last.offsets))
    theirs = [np.where(np.roll(held, offset), 0, 2) for offset in offsets]
    asked = np.array([~held, *theirs], dtype=np.int16)  # 1 at what is missing, 0 at who has it
    near = np.arange(1, len(asked), dtype=np.int32)[None]
    ports = np.array([[last.offsets.count(offset) for offset in offsets]], dtype=np.int64)
    return (*map(Fraction, windows[:-1]), *loads_of_steps(asked, near, ports))


def _check_sizes(num_nodes: int, degree: int) -> None:
    if num_nodes < 2:
        raise ValueError(f"{num_nodes} nodes: an all-to-all is between 2 or more")
    if degree < 1:
        raise ValueError(f"degree {degree}: it must be at least 1")


def all_sequences(group: Group, degree: int, phases: int) -> NDArray[np.int64] | None:
    """All sequences of a group if they are at most MAX_ENUMERATED, else None.

    A sequence is given by the numbers of its generators, shape (sequences, phases, degree). Phases
    of an abelian group may change places, for all orders of hops lead to the same node.
    """
    sets = comb(group.order - 2 + degree, degree)
    if sets > MAX_ENUMERATED:
        return None
    many = comb(sets + phases - 1, phases) if group.is_abelian else sets**phases
    if many > MAX_ENUMERATED:
        return None
    single = list(combinations_with_replacement(range(1, group.order), degree))
    chosen: Iterator[tuple[tuple[int, ...], ...]] = (
        combinations_with_replacement(single, phases)
        if group.is_abelian
        else product(single, repeat=phases)
    )
    return np.array(list(chosen), dtype=np.int64)


MAX_NODES = 2048
_POOL = 8
_RUNS = 2
_FINALISTS = 3
_MAX_ROUNDS = 200_000


EFFORT = Effort(work=2**29, num_groups=24)
"""How hard is searched unless asked otherwise: ``work`` bounds the links walked to rank sequences,
about 5 seconds of it, and ``num_measured`` the sequences that are solved."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FoundSequence(Brief):
    """The best sequence of a search, its all-to-all and what is known about better ones.

    ``num_ranked`` sequences were ranked by their hops, ``num_solved`` of them solved.
    ``is_exhaustive`` says that no sequence of the groups in ``groups`` is better.
    """

    recipes: tuple[Recipe, ...]
    alltoall: PhasedAlltoall
    groups: tuple[Group, ...]
    num_ranked: int
    num_solved: int
    is_exhaustive: bool

    @property
    def bound(self) -> Fraction:
        """What no sequence of as many topologies of the degree can beat, in M/B."""
        network, degree = self.alltoall.network, self.recipes[0].degree
        return sequence_bound(network.num_nodes, degree, network.num_phases)

    @property
    def gap(self) -> Fraction:
        """How far the time may be above that of the best sequence, relative to the bound."""
        return self.alltoall.time / self.bound - 1


def search_sequences(
    num_nodes: int, degree: int, num_configurations: int, *, effort: Effort | None = None
) -> FoundSequence:
    """The best sequence of C Cayley digraphs of degree d found for all-to-all, with its bound.

    All sequences are ranked where they are few, else a seeded search anneals the generators;
    sequences with the fewest hops are solved exactly, then those that differ in one generator from
    the best. The first group is the cyclic one. The same question always has the same answer.
    Raises ValueError unless 2 <= N <= MAX_NODES, 1 <= d < N and C >= 1.

    >>> found = search_sequences(9, 2, 2)
    >>> found.alltoall.time_in_pieces, found.gap
    (Fraction(6, 1), Fraction(0, 1))
    """
    if not 2 <= num_nodes <= MAX_NODES:
        raise ValueError(f"{num_nodes} nodes: sequences are searched for 2 to {MAX_NODES}")
    if not 1 <= degree < num_nodes:
        raise ValueError(f"degree {degree} of {num_nodes} nodes: it must be 1 to {num_nodes - 1}")
    bound = sequence_bound(num_nodes, degree, num_configurations)
    effort = effort or EFFORT
    groups = tuple(islice(groups_of_order(num_nodes), max(1, effort.num_groups)))
    least_hops = int(bound * num_nodes)
    search = _Search(groups, degree, num_configurations, effort, least_hops)
    search.rank()
    search.solve(sorted(search.ranked))
    search.climb()
    if search.best is None:
        raise ValueError(
            f"no sequence of {num_configurations} configurations of degree {degree} was found "
            f"that connects {num_nodes} nodes"
        )
    best, solved = search.best
    recipes = cayley_sequence(groups[best.group], best.generators)
    numbers = (search.num_ranked, len(search.solved))
    return FoundSequence(recipes, solved, groups, *numbers, search.is_exhaustive)


@final
@dataclass(frozen=True, slots=True, order=True)
class _Ranked:
    """A sequence with the hops from one node to all others; the group is one of a list."""

    hops: int
    group: int
    generators: tuple[tuple[int, ...], ...]


@final
@dataclass(slots=True, eq=False)
class _Search:
    """What one search has ranked and solved so far; ``least_hops`` is what bounds allow."""

    groups: tuple[Group, ...]
    degree: int
    phases: int
    effort: Effort
    least_hops: int
    ranked: set[_Ranked] = field(default_factory=set)
    solved: set[_Ranked] = field(default_factory=set)
    num_ranked: int = 0
    is_exhaustive: bool = True
    best: tuple[_Ranked, PhasedAlltoall] | None = None
    tables: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        return self.groups[0].order

    def moved(self, group: int) -> NDArray[np.int32]:
        """Row s, column v: the number of v * s in a group."""
        if group not in self.tables:
            table = multiplication_table(self.groups[group])
            self.tables[group] = np.ascontiguousarray(table.T)
        return self.tables[group]

    def rank(self) -> None:
        """Rank all sequences of small groups, and samples of the others by annealing.

        Ends as soon as a sequence that meets the bound of all topologies is found and solved.
        """
        large = []
        for number, group in enumerate(self.groups):
            listed = all_sequences(group, self.degree, self.phases)
            if listed is None:
                large.append(number)
                continue
            self.rank_all(number, listed)
            if self.meets_bound():
                return
        self.is_exhaustive = not large
        share = self.effort.work // 2
        if self.anneal(large, share, first_run=0):
            return
        hops = dict.fromkeys(large, self.nodes**2)  # if no sequence connects all nodes
        for ranked in self.ranked:
            if ranked.group in hops:
                hops[ranked.group] = min(hops[ranked.group], ranked.hops)
        self.anneal(sorted(large, key=lambda number: hops[number])[:_FINALISTS], share, _RUNS)

    def meets_bound(self) -> bool:
        """Whether a sequence with the fewest hops possible has the least time possible."""
        least = [ranked for ranked in self.ranked if ranked.hops == self.least_hops]
        self.solve(sorted(least)[:_POOL])
        if self.best is None or self.may_improve(self.least_hops):
            return False
        self.is_exhaustive = True
        return True

    def rank_all(self, group: int, listed: NDArray[np.int64]) -> None:
        """Rank listed sequences, shape (sequences, phases, degree), of one group."""
        from ocs_codesign.circuits.sequence_kernels import hop_sums

        sums = np.empty(len(listed), dtype=np.int64)
        rank = for_work(hop_sums, listed.size * self.nodes)
        rank(self.moved(group), listed, sums, *self.workspaces())
        self.keep(group, listed, sums)
        self.num_ranked += len(listed)

    def anneal(self, groups: list[int], work: int, first_run: int) -> bool:
        """Spread the work over groups, a few runs each; whether the bound was met."""
        from ocs_codesign.circuits.sequence_kernels import anneal

        walk = self.nodes * self.degree * self.phases
        rounds = min(_MAX_ROUNDS, work // (walk * _RUNS * max(1, len(groups))))
        walk_on = for_work(anneal, rounds * walk)
        for number in counted(groups, f"{self.phases} configurations: ranking"):
            if isinstance(self.groups[number], Cyclic):
                self.rank_all(number, self.plain_sequences())
            for run in range(first_run, first_run + _RUNS):
                pool = np.empty((_POOL + 1, self.phases, self.degree), dtype=np.int64)
                sums = np.empty(_POOL, dtype=np.int64)
                rng = np.random.default_rng((self.effort.seed, self.nodes, number, run))
                # A round draws three halves of a word and a whole one; few numbers are rejected.
                words = rng.bit_generator.random_raw(3 * rounds + pool[0].size + 64)
                kept, ranked = walk_on(
                    self.moved(number),
                    pool,
                    sums,
                    rounds,
                    words,
                    np.zeros(3, dtype=np.int64),
                    self.nodes / 100,
                    self.least_hops,
                    *self.workspaces(),
                )
                self.keep(number, pool[:kept], sums[:kept])
                self.num_ranked += ranked
            if self.meets_bound():
                return True
        return False

    def workspaces(self) -> Iterator[NDArray[np.int64]]:
        for rows in (1, 1, 1, self.degree + 1):
            yield np.empty(rows * self.nodes, dtype=np.int64)

    def plain_sequences(self) -> NDArray[np.int64]:
        """Offsets of circulants that reach everything: powers of a base, or all offsets in turn."""
        places = self.phases * self.degree
        powers = np.rint(self.nodes ** (np.arange(places) / places)).astype(np.int64)
        listed = [np.minimum(powers, self.nodes - 1)]
        if places >= self.nodes - 1:
            listed.append(1 + np.arange(places) % (self.nodes - 1))
            recipes = direct_sequence(self.nodes, self.degree)
            direct = np.concatenate([recipe.offsets for recipe in recipes])
            listed.append(np.pad(direct, (0, places - len(direct)), mode="wrap"))
        return np.stack(listed).reshape(-1, self.phases, self.degree)

    def keep(self, group: int, listed: NDArray[np.int64], sums: NDArray[np.int64]) -> None:
        """Remember the ranked sequences that reach every node, a bounded number of the best."""
        order = np.argsort(sums, kind="stable")[: max(_POOL, 8 * self.effort.num_measured)]
        for row in order[sums[order] < self.nodes * self.nodes].tolist():
            generators = tuple(tuple(sorted(phase)) for phase in listed[row].tolist())
            self.ranked.add(_Ranked(int(sums[row]), group, generators))

    def solve(self, pending: list[_Ranked]) -> bool:
        """Solve sequences in the order of their bounds while they may improve on the best.

        Whether one did. Hops / d bound the time of a sequence in pieces.
        """
        improved = False
        for ranked in pending:
            if not self.may_improve(ranked.hops):
                return improved
            if ranked in self.solved:
                continue
            done, most = len(self.solved), self.effort.num_measured
            if done == most:
                self.is_exhaustive = False
                return improved
            tell_phase(f"{self.phases} configurations: solving", done, most)
            sequence = cayley_sequence(self.groups[ranked.group], ranked.generators)
            solved = phased_alltoall([recipe.topology() for recipe in sequence])
            self.solved.add(ranked)
            if self.best is None or solved.time < self.best[1].time:
                self.best, improved = (ranked, solved), True
        return improved

    def may_improve(self, hops: int) -> bool:
        """Whether the bound of a sequence with so many hops is below the best time."""
        return self.best is None or Fraction(hops, self.degree) < self.best[1].time_in_pieces

    def climb(self) -> None:
        """From the best sequence to better ones that differ in one generator."""
        while not self.is_exhaustive and self.best is not None:
            listed = self.neighbours(self.best[0])
            walk = len(listed) * self.nodes * self.degree * self.phases
            if len(self.solved) == self.effort.num_measured or walk > self.effort.work:
                return
            self.ranked.clear()
            self.rank_all(self.best[0].group, listed)
            if not self.solve(sorted(self.ranked)):
                return

    def neighbours(self, ranked: _Ranked) -> NDArray[np.int64]:
        """All sequences that differ from one in a single generator."""
        now = np.array(ranked.generators, dtype=np.int64)
        places = self.phases * self.degree
        others = np.arange(1, self.nodes)
        listed = np.tile(now.ravel(), (places, len(others), 1))
        listed[np.arange(places), :, np.arange(places)] = others
        return listed.reshape(-1, self.phases, self.degree)
