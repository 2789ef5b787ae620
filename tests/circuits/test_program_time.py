"""Times of programs: sums that are known, and longest paths."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_samples import direct, halving_doubling

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.programs.designs import program_time
from ocs_codesign.core.circuits import PlaneChange
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.verification.circuits import ProgramVerdict, check_timed
from ocs_codesign.verification.sends import Witness

MODEL = CostModel(2e-6, 1e10)


def test_what_changes_in_the_dark_waits_for_nobody():
    design = halving_doubling(64, 4, overlap=True)
    hidden = Change(1e-6, cold_start=False)
    time = program_time(design.verdict, MODEL, 64 * 10**6, hidden)
    assert time.dead_s == 0
    steps = zip(time.begin_s, time.begin_s[1:], design.verdict.max_loads, strict=False)
    per_load = Fraction(4, 64) * Fraction(64 * 10**6, 10**10)
    assert all(
        after - begin == Fraction(2, 10**6) + load * per_load for begin, after, load in steps
    )
    stopping = Change(1e-6, cold_start=False, overlap=False)
    stopped = program_time(design.verdict, MODEL, 64 * 10**6, stopping)
    assert stopped.dead_s == 8 * Fraction(1, 10**6)


def test_two_planes_that_hold_what_four_steps_need():
    """Steps of 4, 2, 2, 4 MB on 50 GB/s, configurations 1, 2, 2, 1, delta 0.2 ms: 0.44 ms."""
    loads = tuple(Fraction(size) for size in (4, 2, 2, 4))
    changes = (PlaneChange(1, 0, 8, 0), PlaneChange(1, 1, 8, 0))
    verdict = ProgramVerdict(Cost(4, Fraction(12)), loads, changes, None)
    time = program_time(verdict, CostModel(0, 50e9), 10**6, Change(2e-4))
    assert time.total_s == Fraction(44, 10**5)


@st.composite
def verdicts(draw):
    steps = draw(st.integers(1, 6))
    loads = tuple(Fraction(draw(st.integers(0, 4))) for _ in range(steps))
    changes = [PlaneChange(1, plane, draw(st.integers(1, 5)), 0) for plane in range(2)]
    for plane in range(2):
        before = 1
        for step in sorted(draw(st.sets(st.integers(2, 6)))):
            if step <= steps:
                dark = draw(st.integers(0, step - before))
                changes.append(PlaneChange(step, plane, draw(st.integers(1, 5)), dark))
                before = step
    changes.sort(key=lambda change: (change.step, change.plane))
    cost = Cost(steps, sum(loads, Fraction(0)))
    return ProgramVerdict(cost, loads, tuple(changes), None)


@given(verdicts(), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 3))
def test_the_last_step_ends_when_the_longest_path_does(verdict, cold, overlap, fixed, each):
    """Events are ends of steps and of changes; relaxed until nothing moves."""
    delta = Change(fixed, each, cold_start=cold, overlap=overlap)
    time = program_time(verdict, CostModel(1, 1), 1, delta)
    end = dict.fromkeys(range(len(verdict.max_loads) + 1), 0)
    for _ in range(len(end)):
        for step, load in enumerate(verdict.max_loads, 1):
            begin = end[step - 1]
            mine = [change for change in verdict.changes if change.step == step]
            if step == 1 and not cold:
                mine = []
            if overlap:
                for change in mine:
                    since = end[step - 1 - change.dark_steps]
                    begin = max(begin, since + fixed + each * change.num_circuits)
            elif mine:
                begin += fixed + each * sum(change.num_circuits for change in mine)
            end[step] = max(end[step], begin + 1 + load)
    assert time.total_s == max(end.values())
    assert time.total_s == time.steps_s + time.transmission_s + time.dead_s
    assert time.dead_s >= 0


@pytest.mark.parametrize("overlap", [False, True])
def test_programs_are_in_time(overlap):
    """Held by start, link free, circuit up from when its change is done to when it goes."""
    design = halving_doubling(16, 4, overlap=overlap)
    delta = Change(Fraction(1, 10**5), cold_start=False, overlap=overlap)
    time = program_time(design.verdict, MODEL, 2**20, delta)
    timed = time.timed(design.schedule)
    assert timed.total_s == time.total_s
    program, ended = design.program, [Fraction(0), *time.end_s]
    ready = {
        (change.step, change.plane): ended[change.step - 1 - change.dark_steps * overlap]
        + delta.fixed_s * (change.step > 1)
        for change in design.verdict.changes
    }
    rows = zip(program.link, program.first_step, program.last_step, strict=True)
    up = [
        (link, ready[first, program.plane[link]] / timed.tick_s, ended[last] / timed.tick_s)
        for link, first, last in rows
    ]
    columns = [np.array(list(map(int, column))) for column in zip(*up, strict=True)]
    latency = int(MODEL.alpha_s / timed.tick_s)
    assert check_timed(timed, latency, tuple(columns)) is None
    columns[1][-1] += int(ended[-1] / timed.tick_s)
    assert "is not up" in str(check_timed(timed, latency, tuple(columns)))
    with pytest.raises(ValueError, match="steps, but"):
        time.timed(direct(4).schedule)


def test_what_has_no_time():
    verdict = direct(4).verdict
    delta = Change(1e-6)
    with pytest.raises(ValueError, match="not valid has no time: row 3: no"):
        program_time(replace(verdict, witness=Witness("no", row=3)), MODEL, 1, delta)
    with pytest.raises(ValueError, match="barrier cannot be False"):
        program_time(verdict, MODEL, 1, Change(1e-6, barrier=False))
    with pytest.raises(ValueError, match="message_bytes is -1"):
        program_time(verdict, MODEL, -1, delta)
    with pytest.raises(ValueError, match="message_bytes is inf"):
        program_time(verdict, MODEL, float("inf"), delta)
