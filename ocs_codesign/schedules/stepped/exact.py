"""Exact schedules of small topologies: the least t_b of so many steps and chunks, or a proof.

Any routes, not only shortest paths, by integer programming (``exact_model``, ``exact_search``).
Where the topology declares a symmetry, an invariant schedule is tried first: the linear relaxation
always has an invariant optimum, so such a schedule often meets the bound. An allreduce is the best
pair of a reduce-scatter and then an allgather.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute.symmetry import automorphisms
from ocs_codesign.core.cost import undominated
from ocs_codesign.core.given import takes_topology
from ocs_codesign.core.lp import Options, Status
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.schedules.breadth_first.assembly import bfb_of_chunks
from ocs_codesign.schedules.stepped.answers import SteppedAnswer, count
from ocs_codesign.schedules.stepped.exact_program import broadcasts, relaxation, search
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.core.topology import Topology
    from ocs_codesign.schedules.stepped.exact_program import Broadcasts, Relaxation


# From the sends of a program to those of a schedule.


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


# The allgathers that exact schedules are made of: one, one mirrored, or one of each.
#
# Each is searched for at most once a number of steps. The order: what is known already (BFB, or
# the schedule of fewer steps), invariant schedules if the topology declares a symmetry, all
# schedules; whatever meets the bound ends it. If the time does not suffice, whole shards are a
# last resort.


MAX_SENDS = 100_000
"""Largest problem: nodes * links * steps * chunks."""


@final
@dataclass(frozen=True, slots=True)
class Half:
    """One allgather to be found: of the topology, or of its transpose, in so many steps."""

    mirrored: bool
    num_steps: int


@final
class Gather(NamedTuple):
    """An allgather; sums of largest link loads, in shards a unit of speed, that prove its worth.

    No schedule of so many steps and chunks has less than ``bound``. ``end`` is how the search of
    all schedules ended, OPTIMAL too if none was needed.
    """

    schedule: Schedule
    load: Fraction
    bound: Fraction
    end: Status


class Halves:
    """Allgathers of a topology and of its transpose, remembered by their number of steps.

    The time limit of the options runs from ``give`` on; ``solvers`` collects those that solved.
    """

    def __init__(self, topology: Topology, num_chunks: int, options: Options) -> None:
        self.topology = topology
        self.num_chunks = num_chunks
        self.diameter = topology.diameter()
        self.solvers: set[str] = set()
        self._relaxed: dict[Half, Relaxation] = {}
        self._gathers: dict[Half, Gather] = {}
        self.give(options)

    def give(self, options: Options) -> None:
        """From now on solve with these options; their time limit begins to run."""
        self._options, self._began = options, time.monotonic()

    def left(self, share: float = 1.0) -> Options:
        """The options with a share of the time that is left."""
        left = self._options.after(time.monotonic() - self._began)
        if left.time_limit_s is None:
            return left
        return replace(left, time_limit_s=share * left.time_limit_s)

    def splits(self, collective: Collective, num_steps: int) -> list[tuple[Half, ...]]:
        """The ways to make a collective of so many steps from allgathers; none if too few steps."""
        least = self.diameter
        if collective == Collective.ALLREDUCE:
            first = range(least, num_steps - least + 1)
            return [(Half(True, steps), Half(False, num_steps - steps)) for steps in first]
        mirrored = collective == Collective.REDUCE_SCATTER
        return [(Half(mirrored, num_steps),)] if num_steps >= least else []

    def limit(self, half: Half) -> Fraction:
        """The least sum of loads whatever the number of chunks."""
        relaxed = self._relaxation(half)
        return relaxed.least / relaxed.model.unit

    def whole(self, half: Half) -> Fraction:
        """The limit rounded up to what whole chunks can add up to."""
        relaxed = self._relaxation(half)
        unit = relaxed.model.unit * self.num_chunks
        return Fraction(ceil(relaxed.least * self.num_chunks), unit)

    def gathers(self, split: tuple[Half, ...]) -> list[Gather]:
        """The best schedules that were found of these halves, which share the time that is left."""
        new = [half for half in split if half not in self._gathers]
        for at, half in enumerate(new):
            self._gathers[half] = self._search(half, self.left(1 / (len(new) - at)))
        return [self._gathers[half] for half in split]

    def _graph(self, half: Half) -> Topology:
        return self.topology.transpose() if half.mirrored else self.topology

    def _relaxation(self, half: Half) -> Relaxation:
        if half not in self._relaxed:
            sends = self.topology.num_nodes * self.topology.num_links * half.num_steps
            if sends * self.num_chunks > MAX_SENDS:
                raise ValueError(
                    f"{self.topology.num_nodes} nodes, {self.topology.num_links} links, "
                    f"{half.num_steps} steps and {self.num_chunks} chunks have a product of "
                    f"{sends * self.num_chunks:,}: exact schedules take at most {MAX_SENDS:,}"
                )
            model = broadcasts(self._graph(half), half.num_steps, invariant=True)
            self._relaxed[half] = relaxation(model, self.left())
            self.solvers.add(self._relaxed[half].solver)
        return self._relaxed[half]

    def _search(self, half: Half, options: Options) -> Gather:
        began, relaxed = time.monotonic(), self._relaxation(half)
        unit = relaxed.model.unit * self.num_chunks
        least = ceil(relaxed.least * self.num_chunks)
        best = self._known(half)
        most = int(_load(best) * unit) - 1
        everything = broadcasts(relaxed.model.topology, half.num_steps, invariant=False)
        stages = [(everything, 1, 1.0)]
        if self.num_chunks > 1:
            stages.insert(0, (everything, self.num_chunks, 0.75))
        if len(relaxed.model.roots) < self.topology.num_nodes:
            stages.insert(0, (relaxed.model, self.num_chunks, 0.5))
        end = Status.OPTIMAL
        for model, num_chunks, share in stages:
            if least > most or 1 - least / (most + 1) <= (options.relative_gap or 0.0):
                break
            times = self.num_chunks // num_chunks
            left = options.after(time.monotonic() - began)
            limit = left.after((left.time_limit_s or 0.0) * (1 - share))
            found = search(model, num_chunks, -(-least // times), most // times, limit)
            self.solvers.add(found.solver)
            if found.sends is not None:
                best = allgather_of(model, found.sends).with_chunks(self.num_chunks)
                most = int(_load(best) * unit) - 1
            if model is everything and num_chunks == self.num_chunks:
                least, end = found.least, found.end
        load = _load(best)
        return Gather(best, load, min(load, Fraction(least, unit)), end)

    def _known(self, half: Half) -> Schedule:
        """A schedule that needs no search: that of a step less, or BFB of whole chunks."""
        fewer = self._gathers.get(Half(half.mirrored, half.num_steps - 1))
        if fewer is not None:
            return fewer.schedule
        return bfb_of_chunks(self._graph(half), self.num_chunks)


def _load(schedule: Schedule) -> Fraction:
    return sum(schedule.max_loads(), Fraction(0))


MINUTE = Options(time_limit_s=60.0)
MAX_MORE_STEPS = 32

_ENDS = {
    Status.OPTIMAL: "within the gap",
    Status.TIME_LIMIT: "time limit",
    Status.NODE_LIMIT: "node limit",
    Status.MEMORY: "out of memory",
}


@takes_topology
def exact_schedule(
    topology: Topology,
    num_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> SteppedAnswer:
    """The schedule of at most so many steps with the least t_b, of shards cut into so many chunks.

    It is verified. When the time limit is reached, or the memory, the answer holds the best
    schedule found. Raises ValueError for an all-to-all, fewer than two nodes, a topology that is
    not strongly connected or too large, SolverUnavailableError if the solver cannot take a program.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> answer = exact_schedule(Kautz(2, 1).topology(), 3, 2)
    >>> answer.cost, answer.is_optimal
    (Cost(steps=3, t_b=Fraction(5, 6)), True)
    """
    collective = _checked(topology, num_steps, num_chunks, collective)
    return _answer(Halves(topology, num_chunks, options), collective, num_steps)


@takes_topology
def exact_answers(
    topology: Topology,
    max_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> Iterator[SteppedAnswer]:
    """The exact answer of every number of steps, from the fewest that there are to ``max_steps``.

    Ends early when no schedule of the topology can have a smaller t_b. The time limit is for all of
    them: each number of steps may use an equal share of what is left. Raises as ``exact_schedule``,
    when the answer in question is asked for; those before it stand.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> [str(one.cost.t_b) for one in exact_answers(Kautz(2, 1).topology(), 3, 1)]
    ['1', '1']
    """
    collective = _checked(topology, max_steps, num_chunks, collective)
    return _answers(Halves(topology, num_chunks, options), collective, max_steps, options)


@takes_topology
def exact_frontier(
    topology: Topology,
    max_steps: int,
    num_chunks: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> list[SteppedAnswer]:
    """The undominated ones of ``exact_answers``, ascending in steps.

    Empty if ``max_steps`` is less than the collective takes.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> [str(one.cost.t_b) for one in exact_frontier(Kautz(2, 1).topology(), 5, 2)]
    ['1', '5/6']
    """
    return undominated(
        exact_answers(topology, max_steps, num_chunks, collective, options),
        lambda answer: answer.cost,
    )


@takes_topology
def fractional_bound(
    topology: Topology,
    num_steps: int,
    collective: Collective | str = Collective.ALLGATHER,
    options: Options = MINUTE,
) -> Fraction:
    """A t_b that no schedule of at most so many steps beats, whatever its chunks; in rationals.

    The least t_b if every node could be served on its own (see ``exact_model``): schedules often
    meet it, not always. Raises ValueError as ``exact_schedule`` does, and for fewer steps than the
    collective takes.

    >>> from ocs_codesign.graphs.families.shifts import Kautz
    >>> fractional_bound(Kautz(2, 1).topology(), 2), fractional_bound(Kautz(2, 1).topology(), 3)
    (Fraction(1, 1), Fraction(5, 6))
    """
    collective = _checked(topology, num_steps, 1, collective)
    halves = Halves(topology, 1, options)
    splits = halves.splits(collective, num_steps)
    if not splits:
        raise ValueError(_too_few(halves, collective, num_steps))
    return topology.t_b(min(sum(map(halves.limit, split), Fraction(0)) for split in splits))


def _answers(
    halves: Halves, collective: Collective, max_steps: int, options: Options
) -> Iterator[SteppedAnswer]:
    least = topology_bound(halves.topology, collective, halves.diameter)
    if max_steps > least.steps + MAX_MORE_STEPS:
        raise ValueError(
            f"{max_steps} steps: exact frontiers go up to {least.steps + MAX_MORE_STEPS} here, "
            f"{MAX_MORE_STEPS} more than the fewest"
        )
    began = time.monotonic()
    for steps in range(least.steps, max_steps + 1):
        left = options.after(time.monotonic() - began)
        if left.time_limit_s is not None:
            left = replace(left, time_limit_s=left.time_limit_s / (max_steps + 1 - steps))
        halves.give(left)
        answer = _answer(halves, collective, steps)
        yield answer
        if answer.value == least.t_b:
            return


def _answer(halves: Halves, collective: Collective, num_steps: int) -> SteppedAnswer:
    splits = halves.splits(collective, num_steps)
    num_chunks = halves.num_chunks
    if not splits:
        why = _too_few(halves, collective, num_steps)
        return SteppedAnswer(
            None, Fraction(0), stopped=why, num_steps=num_steps, num_chunks=num_chunks
        )
    topology = halves.topology
    rounded = {split: sum(map(halves.whole, split), Fraction(0)) for split in splits}
    best = _best(halves, rounded)
    schedule = _combined(best, collective)
    limit = min(sum(map(halves.limit, split), Fraction(0)) for split in splits)
    verdict = verify(schedule)
    if not verdict.ok:
        raise RuntimeError(f"the exact schedule is wrong: {verdict.witness}")
    end = next((gather.end for gather in best if gather.end is not Status.OPTIMAL), Status.OPTIMAL)
    return SteppedAnswer(
        verdict.cost.t_b,
        topology.t_b(min(rounded.values())),
        stopped=_ENDS.get(end, "the solver failed"),
        num_steps=num_steps,
        schedule=schedule,
        num_chunks=num_chunks,
        limit=topology.t_b(limit),
        solvers=tuple(sorted(halves.solvers)),
    )


def _best(halves: Halves, bounds: dict[tuple[Half, ...], Fraction]) -> list[Gather]:
    """The allgathers of the best split; raises the bounds of those that are searched."""
    best: list[Gather] = []
    load = None
    for split in sorted(bounds, key=bounds.__getitem__):
        if load is not None and bounds[split] >= load:
            continue
        gathers = halves.gathers(split)
        bounds[split] = sum((gather.bound for gather in gathers), Fraction(0))
        total = sum((gather.load for gather in gathers), Fraction(0))
        if load is None or total < load:
            best, load = gathers, total
    return best


def _combined(gathers: list[Gather], collective: Collective) -> Schedule:
    if collective == Collective.ALLGATHER:
        return gathers[0].schedule
    scatter = gathers[0].schedule.reversed()
    return scatter if collective == Collective.REDUCE_SCATTER else scatter.then(gathers[1].schedule)


def _too_few(halves: Halves, collective: Collective, num_steps: int) -> str:
    least = halves.diameter * (2 if collective == Collective.ALLREDUCE else 1)
    steps, are = count(num_steps, "step"), "is" if num_steps == 1 else "are"
    return f"{steps} {are} too few, {collective.name} takes at least {least} here"


def _checked(
    topology: Topology, num_steps: int, num_chunks: int, collective: Collective | str
) -> Collective:
    collective = Collective.parse(collective)
    if collective == Collective.ALLTOALL:
        raise ValueError("exact schedules are of allgather, reduce-scatter and allreduce")
    if topology.num_nodes < 2:
        raise ValueError("a collective needs at least two nodes")
    if num_steps < 1:
        raise ValueError(f"num_steps is {num_steps}: it must be at least 1")
    if num_chunks < 1:
        raise ValueError(f"num_chunks is {num_chunks}: it must be at least 1")
    return collective
