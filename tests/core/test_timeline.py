"""Timelines as columns, tables and JSON; the check accepts right ones and catches wrong ones."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
from planes_oracle import listed, random_problem

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import plan_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.core.circuits import Activity, Interval, Timeline
from ocs_codesign.faces.answers.declared import records
from ocs_codesign.faces.answers.planes import timeline_table
from ocs_codesign.verification.circuits import check_timeline

EPS = Fraction(1, 1000)
SEND, CHANGE, IDLE = Activity.SEND, Activity.RECONFIGURE, Activity.IDLE


def interval(plane, start, end, activity, configuration, step=None, size=0):
    return Interval(
        plane, Fraction(start), Fraction(end), activity, configuration, step, Fraction(size)
    )


def send(plane, start, end, configuration, step, size=None):
    return interval(
        plane, start, end, SEND, configuration, step, end - start if size is None else size
    )


def change(plane, start, end, configuration):
    return interval(plane, start, end, CHANGE, configuration)


def problem(needed=(0, 1), sizes=(4, 4), planes=2, **cost):
    return PlaneProblem(needed, sizes, planes, 1, Change(2, **cost))


def witness(of, *intervals):
    return str(check_timeline(of, Timeline.of(intervals)))


RIGHT = (change(0, 0, 2, 0), send(0, 2, 6, 0, 1), change(1, 0, 2, 1), send(1, 6, 10, 1, 2))


def mutations(rows, of):
    """Wrong timelines made of a right one without gaps, each with what was done to it."""
    last = {one.plane: at for at, one in enumerate(rows)}
    for at, one in enumerate(rows):
        rest = [*rows[:at], *rows[at + 1 :]]

        def other(rest=rest, one=one, **changed):
            return [*rest, replace(one, **changed)]

        if one.end_s == one.start_s:
            continue
        yield "moved", other(start_s=one.start_s - EPS, end_s=one.end_s - EPS)
        yield "turned around", other(start_s=one.end_s, end_s=one.start_s)
        yield "on no plane", other(plane=of.num_planes)
        if last[one.plane] != at:
            yield "lengthened", other(end_s=one.end_s + EPS)
        if of.num_planes > 1:
            yield "on another plane", other(plane=(one.plane + 1) % of.num_planes)
        if one.activity is IDLE:
            yield "idle with bytes", other(bytes=Fraction(1))
            continue
        yield "dropped", rest
        yield "twice", [*rows, one]
        yield "shortened", other(end_s=one.end_s - EPS)
        wrong = (one.configuration + 1) % of.num_configurations
        yield "of no configuration", other(configuration=of.num_configurations)
        if wrong != one.configuration:
            yield "of a wrong configuration", other(configuration=wrong)
        if one.activity is SEND:
            yield "with too many bytes", other(bytes=one.bytes + EPS)
            yield "with too few bytes", other(bytes=one.bytes - EPS)
            yield "of no step", other(step=of.num_steps + 1)
            yield (
                "of another step",
                other(step=one.step % of.num_steps + 1 if of.num_steps > 1 else 0),
            )
            yield "idle instead", other(activity=IDLE, step=None, bytes=Fraction(0))


def test_every_mutation_is_caught():
    rng, done = random.Random(400), {}
    for _ in range(40):
        of = random_problem(rng)
        rows = list(plan_planes(of, "fast").timeline)
        assert check_timeline(of, Timeline.of(rows)) is None
        for what, wrong in mutations(rows, of):
            assert check_timeline(of, Timeline.of(wrong)) is not None, (what, of)
            done[what] = done.get(what, 0) + 1
    assert len(done) == 16
    assert min(done.values()) >= 10


def test_right_ones_pass():
    assert check_timeline(problem(), Timeline.of(RIGHT)) is None
    # Slower than needed is no mistake, and gaps need no idle intervals.
    slow = (*RIGHT[:3], send(1, 7, 19, 1, 2, 4))
    assert check_timeline(problem(), Timeline.of(slow)) is None


@pytest.mark.parametrize(
    ("at", "other", "said"),
    [
        (1, send(0, 1, 5, 0, 1), "step 1, plane 0: an interval begins at 1 s, before the last one"),
        (0, change(0, 0, 1, 0), "plane 0: a change to configuration 0 lasts 1 s of 2 s"),
        (0, change(0, -2, 0, 0), "plane 0: an interval from -2 to 0 s is not within time"),
        (0, change(0, 0, 2, 7), "plane 0: it changes to configuration 7"),
        (0, change(0, 0, 2, 1), "sends over configuration 0 while it holds configuration 1"),
        (1, send(0, 2, 6, 1, 1), "step 1, plane 0: it sends over configuration 1, not 0"),
        (1, send(0, 2, 5, 0, 1, 4), "step 1, plane 0: 4 bytes in 3 s, which takes 4 s"),
        (1, send(0, 2, 5, 0, 1), "step 1: 3 of 4 bytes are sent"),
        (1, send(0, 2, 6, 0, 3), "step 3, plane 0: a send is of no step"),
        (1, send(0, 2, 6, 0, 1, -4), "step 1, plane 0: it sends -4 bytes"),
        (3, send(1, 5, 9, 1, 2), "step 2, plane 1: it begins at 5 s, before all of the steps"),
        (3, send(2, 6, 10, 1, 2), "plane 2: there are 2 planes, from 0"),
        (3, interval(1, 6, 10, IDLE, 1, 2, 4), "plane 1: it has a step or bytes in idle"),
    ],
)
def test_what_is_said(at, other, said):
    rows = [*RIGHT[:at], other, *RIGHT[at + 1 :]]
    assert said in witness(problem(), *rows)


def test_order_on_a_plane_without_barriers():
    of = problem((0, 0), planes=1, barrier=False)
    assert witness(of, change(0, 0, 2, 0), send(0, 2, 6, 0, 1), send(0, 6, 10, 0, 2)) == "None"
    swapped = (change(0, 0, 2, 0), send(0, 2, 6, 0, 2), send(0, 6, 10, 0, 1))
    assert witness(of, *swapped) == "step 1, plane 0: it sends after step 2 has been served"
    apart = problem(barrier=False)
    together = (*RIGHT[:3], send(1, 2, 6, 1, 2))
    assert witness(apart, *together) == "None"
    assert "before all of the steps" in witness(problem(), *together)


def test_the_whole_fabric_stops():
    of = problem(overlap=False)
    held = (change(0, 0, 2, 0), send(0, 2, 6, 0, 1), change(1, 6, 8, 1), send(1, 8, 12, 1, 2))
    assert witness(of, *held) == "None"
    while_sending = (*held[:2], change(1, 3, 5, 1), send(1, 6, 10, 1, 2))
    assert witness(of, *while_sending) == "step 1, plane 0: it sends while the fabric stops at 3 s"
    staggered = (change(0, 0, 2, 0), change(1, 1, 3, 1), send(0, 3, 7, 0, 1), send(1, 7, 11, 1, 2))
    assert witness(of, *staggered) == "a stop begins at 1 s, while another lasts to 2 s"
    costly = PlaneProblem((0, 1), (4, 4), 2, 1, Change(2, Fraction(1, 2), overlap=False))
    both = (
        *(change(0, 0, 2 + EPS, 0), change(1, 0, 2 + EPS, 1)),
        *(send(0, 3, 7, 0, 1), send(1, 7, 11, 1, 2)),
    )
    assert "is too short for 2 circuits, which take 3 s" in witness(costly, *both)
    inside = (
        *(change(0, 0, 2, 0), change(1, 0, 2, 0), send(0, 2, 4, 0, 1)),
        *(change(0, 4, 6, 1), send(1, 6, 8, 0, 1), send(0, 8, 12, 1, 2)),
    )
    assert witness(of, *inside) == (
        "step 1, plane 1: it sends after a stop at 4 s that is after the step"
    )


def test_columns_rows_and_forms():
    timeline = plan_planes(listed((1, 2, 2), (10, 1, 10), "0.2")).timeline
    assert Timeline.of(reversed(list(timeline))) == timeline
    names = ["-", "ring", "star"]
    answer = SimpleNamespace(listed=SimpleNamespace(names=names))
    rows = [records()["interval"].json(row, answer) for row in timeline]
    table = timeline_table(timeline, names).rows
    assert len(timeline) == len(timeline.plane) == len(table) == len(rows)
    assert timeline.total_s == Fraction(61, 100_000)
    busy = [timeline.busy_s(activity) for activity in Activity]
    assert sum(busy) == 2 * timeline.total_s
    assert busy[0] == Fraction(21, 50_000)
    assert {row["configuration"] for row in rows} <= {None, "ring", "star"}
    assert sum(Fraction(row["bytes_exact"]) for row in rows) == 21 * 10**6
    assert all(float(Fraction(row["end_s_exact"])) == row["end_s"] for row in rows)
    assert {row[4] for row in table} <= {"", "ring", "star"}
    assert Timeline.of([]).total_s == 0
    with pytest.raises(ValueError, match="the columns of a timeline have the same length"):
        replace(timeline, plane=())
