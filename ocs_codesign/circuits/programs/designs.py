"""Designs that change circuits: a program, the schedule over it, and what verification made of it.

``build_sequence`` goes through recipes one after the other. Nothing leaves here unverified.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.circuits.change import fewest_steps_each
from ocs_codesign.circuits.programs.gather import sequence_alltoall, sequence_gather
from ocs_codesign.circuits.programs.wiring import check_alike
from ocs_codesign.core.circuits import Timed, synchronous
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.lp import DEFAULT_OPTIONS
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import as_recipe_or_topology
from ocs_codesign.schedules.stepped.alltoall import MAX_CHUNKS
from ocs_codesign.verification.circuits import verify_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.circuits import CircuitProgram, PlaneChange
    from ocs_codesign.core.cost import Cost, CostModel
    from ocs_codesign.core.given import TopologyLike
    from ocs_codesign.core.lp import Options
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.verification.circuits import ProgramVerdict


MAX_STEPS = 2**14
"""Largest number of steps that a sequence is tried with."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProgramDesign:
    """A verified program: circuits, the schedule over them, and the verdict of its replay.

    ``recipes`` are the configurations and ``recipe_of_step`` says which is up in every step; both
    are empty if not all are recipes. ``bound`` is the t_b that no schedule over the
    same sequence of steps can beat, None if none is known.
    """

    program: CircuitProgram
    schedule: Schedule
    verdict: ProgramVerdict
    maker: str
    recipes: tuple[Recipe, ...] = ()
    recipe_of_step: tuple[int, ...] = ()
    bound: Fraction | None = None

    @property
    def cost(self) -> Cost:
        """Steps and t_b, recomputed from the sends."""
        return self.verdict.cost


def verified_program(
    program: CircuitProgram,
    schedule: Schedule,
    maker: str,
    recipes: tuple[Recipe, ...] = (),
    recipe_of_step: tuple[int, ...] = (),
    bound: Fraction | None = None,
) -> ProgramDesign:
    """The design of a program that verifies; RuntimeError with the witness if it does not."""
    verdict = verify_program(program, schedule)
    if not verdict.ok:
        raise RuntimeError(f"the program made by {maker} fails: {verdict.witness}")
    return ProgramDesign(program, schedule, verdict, maker, recipes, recipe_of_step, bound)


def build_sequence(
    configurations: Sequence[TopologyLike],
    collective: Collective | str = Collective.ALLTOALL,
    steps_each: int | Sequence[int] | None = None,
    max_chunks: int = MAX_CHUNKS,
    options: Options = DEFAULT_OPTIONS,
) -> ProgramDesign:
    """The verified program that has the topologies, perhaps of recipes, up one after the other.

    Each is up for ``steps_each`` steps, one number for all or one for each (default: as few for
    all as bring everything everywhere). An all-to-all is optimal for these steps but for chunks; an
    allgather takes at every step what there is, a reduce-scatter is its mirror image, and an
    allreduce goes through the configurations and back. Steps that turn out useless are left out.
    Raises ValueError if nodes, ports
    or link speeds differ, or the steps are too few.

    >>> from ocs_codesign.graphs.text import parse
    >>> rings = [parse("DirectedCirculant(8, (1,))"), parse("DirectedCirculant(8, (3,))")]
    >>> design = build_sequence(rings, steps_each=4)
    >>> str(design.cost.t_b), str(design.bound), design.verdict.num_configurations
    ('7/4', '7/4', 2)
    """
    collective = Collective.parse(collective)
    meant = [as_recipe_or_topology(each) for each in configurations]
    distinct: list[Recipe | Topology] = list(dict.fromkeys(meant))
    recipes = tuple(each for each in distinct if not isinstance(each, Topology))
    if len(recipes) < len(distinct):
        recipes = ()
    topologies = [as_topology(each) for each in distinct]
    order = [distinct.index(each) for each in meant]
    used, bound = _steps(topologies, order, collective, steps_each), None
    if collective == Collective.ALLTOALL:
        made, bound = sequence_alltoall(topologies, used, max_chunks, options)
    else:
        made = sequence_gather(topologies, used, collective)
    program, schedule, kept = made
    maker = "eager" if bound is None else "time-stepped"
    return verified_program(program, schedule, maker, recipes, kept if recipes else (), bound)


def _steps(
    topologies: Sequence[Topology],
    order: Sequence[int],
    collective: Collective,
    steps_each: int | Sequence[int] | None,
) -> tuple[int, ...]:
    """The configuration of every step."""
    check_alike(topologies)
    if steps_each is None:
        steps_each = fewest_steps_each(topologies, order)
        if collective == Collective.ALLREDUCE:
            steps_each = max(steps_each, fewest_steps_each(topologies, order[::-1]))
    counts = [steps_each] * len(order) if isinstance(steps_each, int) else list(steps_each)
    if len(counts) != len(order):
        raise ValueError(f"{len(counts)} numbers of steps for {len(order)} configurations")
    for count in counts:
        if count < 1:
            raise ValueError(f"{count} steps: a configuration is up for at least one")
    if sum(counts) > MAX_STEPS:
        raise ValueError(f"{sum(counts):,} steps: a sequence has at most {MAX_STEPS:,}")
    return tuple(number for number, count in zip(order, counts, strict=True) for _ in range(count))


# How long a verified program takes: steps, transmission, and what waits for circuits to change.


@final
@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Exact times of a program: ``total_s`` is the sum of the three others.

    ``steps_s`` is alpha for every step, ``transmission_s`` t_b of the message, ``dead_s`` what
    steps wait for circuits, less than all dead times if planes change while others send.
    ``begin_s`` and ``end_s`` say when every step begins and ends.
    """

    total_s: Fraction
    steps_s: Fraction
    transmission_s: Fraction
    dead_s: Fraction
    begin_s: tuple[Fraction, ...]
    end_s: tuple[Fraction, ...]

    def timed(self, schedule: Schedule) -> Timed:
        """When every send of the program's schedule runs, in ticks that divide all times.

        Raises ValueError for a schedule of other steps, or ticks beyond 64 bits.
        """
        if schedule.num_steps != len(self.begin_s):
            raise ValueError(f"{schedule.num_steps} steps, but {len(self.begin_s)} have times")
        chunks = schedule.synchronous_cost().t_b / schedule.t_b(Fraction(1))
        chunk_s, alpha_s = self.transmission_s / chunks, self.steps_s / len(self.begin_s)
        speeds = lcm(*map(int, np.unique(schedule.topology.speeds())))
        times_s = (*self.begin_s, alpha_s, chunk_s / speeds)
        per_second = lcm(*(time_s.denominator for time_s in times_s))
        if self.total_s * per_second >= 2**63:
            raise ValueError(f"{float(self.total_s)} s in ticks of 1/{per_second} s: too many")
        begin = [int(time_s * per_second) for time_s in self.begin_s]
        ticks = int(chunk_s * per_second), int(alpha_s * per_second)
        return synchronous(schedule, begin, *ticks, Fraction(1, per_second))


def program_time(
    verdict: ProgramVerdict, model: CostModel, message_bytes: float, reconfiguration: Change
) -> ProgramTime:
    """The time of a program whose verdict this is, for ``message_bytes`` (M, the buffer of a rank).

    A step begins when all of the one before has arrived and its circuits are up. A plane begins a
    change when the last step before its dark ones has ended, and planes change side by side; where
    ``reconfiguration.overlap`` is false, the whole fabric stops for each change instead, dark steps
    or not. Without ``cold_start`` the circuits of step 1 are up already. Raises ValueError for a
    verdict with a witness, a reconfiguration without barrier (a schedule of steps has one after
    each), or a message size that is negative or not finite.
    """
    if verdict.witness is not None:
        raise ValueError(f"a program that is not valid has no time: {verdict.witness}")
    if not reconfiguration.barrier:
        raise ValueError("a schedule of steps has a barrier after each: barrier cannot be False")
    transmission_s = model.time_s(0, verdict.cost.t_b, message_bytes)
    total_load = sum(verdict.max_loads, Fraction(0))
    # t_b is proportional to the sum of the loads, so a step's part of it is to its load.
    per_load = transmission_s / total_load if total_load else Fraction(0)
    changes = {step: list(group) for step, group in groupby(verdict.changes, attrgetter("step"))}
    ended = [Fraction(0)]
    begins = []
    for step, load in enumerate(verdict.max_loads, 1):
        begin = ended[-1]
        if step > 1 or reconfiguration.cold_start:
            ready = _ready(changes.get(step, []), ended, reconfiguration)
            begin = max((begin, *ready))
        begins.append(begin)
        ended.append(begin + model.alpha_s + load * per_load)
    steps_s = model.alpha_s * len(begins)
    dead_s = ended[-1] - steps_s - transmission_s
    return ProgramTime(ended[-1], steps_s, transmission_s, dead_s, tuple(begins), tuple(ended[1:]))


def _ready(
    changes: list[PlaneChange], ended: list[Fraction], reconfiguration: Change
) -> Iterator[Fraction]:
    """When the changes before the next step are done; ``ended`` has the steps' ends so far."""
    if not reconfiguration.overlap:
        total = sum(change.num_circuits for change in changes)
        yield ended[-1] + reconfiguration.dead_time_s(total)
        return
    for change in changes:
        dead = reconfiguration.dead_time_s(change.num_circuits)
        yield ended[change.step - change.dark_steps - 1] + dead
