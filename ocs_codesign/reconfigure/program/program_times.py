"""How long a verified program takes: steps, transmission, and what waits for circuits to change."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import lcm
from operator import attrgetter
from typing import TYPE_CHECKING, final

import numpy as np

from ocs_codesign.timed import Timed, synchronous

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.circuits import Change
    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.verification.programs import ProgramVerdict


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
    verdict: ProgramVerdict,
    model: CostModel,
    message_bytes: float,
    reconfiguration: ReconfigurationCost,
) -> ProgramTime:
    """The time of a program whose verdict this is, for ``message_bytes`` (M, the buffer of a rank).

    A step begins when all of the one before has arrived and its circuits are up. A plane begins a
    change when the last step before its dark ones has ended, and planes change side by side; where
    ``reconfiguration.overlap`` is false, the whole fabric stops for each change instead, dark steps
    or not. Without ``cold_start`` the circuits of step 1 are up already. Raises ValueError for a
    verdict with a witness, a reconfiguration without barrier (a schedule of steps has one after
    each), or a message size that is negative or not finite.

    >>> from ocs_codesign.cost import CostModel
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> from ocs_codesign.reconfigure.program.patterns import build_direct
    >>> delta = ReconfigurationCost(10e-6, cold_start=False)
    >>> time = program_time(build_direct(8, 2).verdict, CostModel(1e-6, 12.5e9), 1_000_000, delta)
    >>> [float(part) for part in (time.steps_s, time.transmission_s, time.dead_s)]
    [4e-06, 7e-05, 3e-05]
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
    changes: list[Change], ended: list[Fraction], reconfiguration: ReconfigurationCost
) -> Iterator[Fraction]:
    """When the changes before the next step are done; ``ended`` has the steps' ends so far."""
    if not reconfiguration.overlap:
        total = sum(change.num_circuits for change in changes)
        yield ended[-1] + reconfiguration.dead_time_s(total)
        return
    for change in changes:
        dead = reconfiguration.dead_time_s(change.num_circuits)
        yield ended[change.step - change.dark_steps - 1] + dead
