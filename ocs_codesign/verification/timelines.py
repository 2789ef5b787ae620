"""Independent check of timelines: is every send over circuits that are up, and all of it there?

Nothing here is shared with the code that makes plans: the check knows the problem and the columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from ocs_codesign.timeline import Activity
from ocs_codesign.verification.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    from ocs_codesign.timeline import Interval, Timeline


def check_timeline(problem: PlaneProblem, timeline: Timeline) -> Witness | None:
    """The first rule that a timeline breaks, None if it is a right answer to the problem.

    Rules: intervals of a plane are within time, in order and apart; a plane sends only over the
    configuration that its step needs and that it holds, for latency + bytes / bandwidth at least;
    a change lasts its dead time; steps have all their bytes and, on every plane, their order; with
    barriers no step begins before those before it have ended; without overlap nobody sends while a
    plane changes, planes change together, and every stop is between two steps.

    >>> from ocs_codesign.reconfigure.planes.problem import PlaneProblem
    >>> from ocs_codesign.reconfigure.change import ReconfigurationCost
    >>> from ocs_codesign.timeline import Interval, Timeline
    >>> problem = PlaneProblem((0,), (10,), 1, 10, ReconfigurationCost(2))
    >>> send = Interval(0, Fraction(0), Fraction(1), Activity.SEND, 0, 1, Fraction(10))
    >>> print(check_timeline(problem, Timeline.of([send])))
    step 1, plane 0: it sends over configuration 0 while it holds nothing
    """
    for rule in (_well_formed, _held, _complete, _in_order, _stops):
        witness = next(rule(problem, timeline), None)
        if witness is not None:
            return witness
    return None


def _well_formed(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Every interval alone, and no two of a plane at the same time."""
    last: dict[int, Interval] = {}
    for one in timeline:
        if not 0 <= one.plane < problem.num_planes:
            yield Witness(f"there are {problem.num_planes} planes, from 0", plane=one.plane)
        if one.start_s < 0 or one.end_s < one.start_s:
            yield Witness(
                f"an interval from {one.start_s} to {one.end_s} s is not within time",
                plane=one.plane,
            )
        before = last.get(one.plane)
        if before is not None and one.start_s < before.end_s:
            yield Witness(
                f"an interval begins at {one.start_s} s, before the last one ends at "
                f"{before.end_s} s",
                plane=one.plane,
                step=one.step,
            )
        last[one.plane] = one
        if one.activity is Activity.SEND:
            if one.step is None or not 1 <= one.step <= problem.num_steps:
                yield Witness("a send is of no step", plane=one.plane, step=one.step)
            elif one.bytes < 0:
                yield Witness(f"it sends {one.bytes} bytes", plane=one.plane, step=one.step)
        elif one.bytes or one.step is not None:
            yield Witness(f"it has a step or bytes in {one.activity.value}", plane=one.plane)


def _held(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Sends against what the plane holds, and how long sends and changes last."""
    held: dict[int, int | None] = dict(enumerate(problem.held))
    for one in timeline:
        if one.activity is Activity.RECONFIGURE:
            target = one.configuration
            if target is None or not 0 <= target < problem.num_configurations:
                yield Witness(f"it changes to configuration {target}", plane=one.plane)
                return
            if problem.cost.overlap and one.end_s - one.start_s < problem.dead_time_s(
                held[one.plane], target
            ):
                yield Witness(
                    f"a change to configuration {target} lasts {one.end_s - one.start_s} s of "
                    f"{problem.dead_time_s(held[one.plane], target)} s",
                    plane=one.plane,
                )
            held[one.plane] = target
        elif one.activity is Activity.SEND and one.step is not None:
            needed, holds = problem.configurations[one.step - 1], held[one.plane]
            if one.configuration != needed:
                yield Witness(
                    f"it sends over configuration {one.configuration}, not {needed}",
                    plane=one.plane,
                    step=one.step,
                )
            if holds != needed:
                what = "nothing" if holds is None else f"configuration {holds}"
                yield Witness(
                    f"it sends over configuration {needed} while it holds {what}",
                    plane=one.plane,
                    step=one.step,
                )
            least = problem.latency_s + one.bytes / problem.plane_bandwidth_Bps
            if one.end_s - one.start_s < least:
                yield Witness(
                    f"{one.bytes} bytes in {one.end_s - one.start_s} s, which takes {least} s",
                    plane=one.plane,
                    step=one.step,
                )


def _complete(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Every step moves its bytes."""
    sent: defaultdict[int, Fraction] = defaultdict(Fraction)
    for one in timeline:
        if one.activity is Activity.SEND and one.step is not None:
            sent[one.step] += one.bytes
    for step, size in enumerate(problem.step_bytes, 1):
        if sent[step] != size:
            yield Witness(f"{sent[step]} of {size} bytes are sent", step=step)


def _in_order(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Steps follow each other on every plane and, with barriers, everywhere."""
    sends = [one for one in timeline if one.activity is Activity.SEND and one.step is not None]
    for before, after in pairwise(sends):
        if before.plane == after.plane and (after.step or 0) <= (before.step or 0):
            yield Witness(
                f"it sends after step {before.step} has been served",
                plane=after.plane,
                step=after.step,
            )
    if problem.cost.barrier:
        end = Fraction(0)
        for step, group in _by_step(sends):
            first = min(group, key=lambda one: one.start_s)
            if first.start_s < end:
                yield Witness(
                    f"it begins at {first.start_s} s, before all of the steps before has arrived "
                    f"at {end} s",
                    plane=first.plane,
                    step=step,
                )
            end = max(end, *(one.end_s for one in group))


def _by_step(sends: list[Interval]) -> Iterator[tuple[int, list[Interval]]]:
    groups: defaultdict[int, list[Interval]] = defaultdict(list)
    for one in sends:
        groups[one.step or 0].append(one)
    yield from sorted(groups.items())


def _stops(problem: PlaneProblem, timeline: Timeline) -> Iterator[Witness]:
    """Without overlap: one stop at a time, long enough for all its circuits, between two steps."""
    if problem.cost.overlap:
        return
    held: dict[int, int | None] = dict(enumerate(problem.held))
    changed: defaultdict[tuple[Fraction, Fraction], int] = defaultdict(int)
    for one in timeline:
        if one.activity is Activity.RECONFIGURE and one.configuration is not None:
            before, held[one.plane] = held[one.plane], one.configuration
            if before is not None or problem.cost.cold_start:
                changed[one.start_s, one.end_s] += problem.circuits_changed(
                    before, one.configuration
                )
    stops = {span: circuits for span, circuits in sorted(changed.items()) if circuits}
    for (start, end), circuits in stops.items():
        if end - start < problem.cost.dead_time_s(circuits):
            yield Witness(
                f"a stop from {start} to {end} s is too short for {circuits} circuits, which take "
                f"{problem.cost.dead_time_s(circuits)} s"
            )
    for (_, end), (start, _) in pairwise(stops):
        if start < end:
            yield Witness(f"a stop begins at {start} s, while another lasts to {end} s")
    yield from _around(list(stops), timeline)


def _around(stops: list[tuple[Fraction, Fraction]], timeline: Timeline) -> Iterator[Witness]:
    """Sends while the fabric stops, and those of a step after a stop that is after the step."""
    sends = [one for one in timeline if one.activity is Activity.SEND]
    sends.sort(key=lambda one: one.start_s)
    begins = [one.start_s for one in sends]
    last_end = list(accumulate((one.end_s for one in sends), max))
    steps = [one.step or 0 for one in sends]
    last_step = list(accumulate(steps, max))
    first_step = list(accumulate(reversed(steps), min))[::-1]
    for start, end in stops:
        later = bisect_left(begins, end)
        if later and last_end[later - 1] > start:
            one = next(one for one in sends if one.end_s > start)
            yield Witness(
                f"it sends while the fabric stops at {start} s", plane=one.plane, step=one.step
            )
        if 0 < later < len(sends) and first_step[later] <= last_step[later - 1]:
            one = next(one for one in sends[later:] if (one.step or 0) <= last_step[later - 1])
            yield Witness(
                f"it sends after a stop at {start} s that is after the step",
                plane=one.plane,
                step=one.step,
            )
