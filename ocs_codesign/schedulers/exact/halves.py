"""The allgathers that exact schedules are made of: one, one mirrored, or one of each.

Each is searched for at most once a number of steps. The order: what is known already (BFB, or the
schedule of fewer steps), invariant schedules if the topology declares a symmetry, all schedules;
whatever meets the bound ends it. If the time does not suffice, whole shards are a last resort.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.lp import Status
from ocs_codesign.schedulers.bfb.assembly import bfb_of_chunks
from ocs_codesign.schedulers.exact.model import broadcasts
from ocs_codesign.schedulers.exact.rows import allgather_of
from ocs_codesign.schedulers.exact.search import relaxation, search

if TYPE_CHECKING:
    from ocs_codesign.lp import Options
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.exact.search import Relaxation
    from ocs_codesign.topology import Topology

MAX_SENDS = 100_000
"""Largest problem: nodes * links * steps * chunks."""


@final
@dataclass(frozen=True, slots=True)
class Half:
    """One allgather to be found: of the topology, or of its transpose, in so many steps."""

    mirrored: bool
    num_steps: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Gather:
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
