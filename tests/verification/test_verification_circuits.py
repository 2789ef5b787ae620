"""Schedules over circuits that change: the first witness, and agreement with a slow judge."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from program_oracle import is_valid_program, slow_changes, slow_t_b
from program_samples import changed, designs, direct, halving_doubling
from replay_oracle import runs_correctly

from ocs_codesign.core.circuits import CircuitProgram
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.verification.circuits import (
    NO_TIME,
    NOT_UP,
    RECONFIGURED,
    TOO_LATE,
    TWO_IN,
    TWO_OUT,
    verify_program,
)
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import Witness


def moved_send(schedule, row, step):
    columns = [column.copy() for column in schedule.columns()]
    columns[4][row] = step
    return Schedule(schedule.topology, schedule.collective, schedule.num_chunks, *columns)


def test_what_makers_make_is_valid():
    for design in designs():
        assert is_valid_program(design.program, design.schedule)
        assert runs_correctly(design.schedule)
        verdict = verify_program(design.program, design.schedule)
        assert verdict == design.verdict
        assert verdict.cost == Cost(
            design.schedule.num_steps, slow_t_b(design.program, design.schedule)
        )
        assert [
            (one.step, one.plane, one.num_circuits, one.dark_steps) for one in verdict.changes
        ] == slow_changes(design.program)
        assert verdict.num_configurations == len({one.step for one in verdict.changes})


# One rule after the other.


def halving(overlap):
    return halving_doubling(8, 2, overlap=overlap)


def test_a_send_in_a_step_without_its_circuit():
    """Shift 1 is up in step 1 only; its port is held by another circuit in step 2."""
    design = direct(5)
    schedule = moved_send(design.schedule, 3, 2)
    row = int(np.flatnonzero((schedule.step == 2) & (schedule.link == design.schedule.link[3]))[0])
    link = int(design.schedule.link[3])
    root, chunk = int(schedule.root[row]), int(schedule.lo[row])
    verdict = verify_program(design.program, schedule)
    assert verdict.witness == Witness(NOT_UP, root, chunk, None, row, 2, link, 0)
    assert str(verdict.witness).startswith(f"row {row}, step 2, link {link}, root {root}")
    assert verify(schedule).ok  # the links alone do not tell


def test_a_send_while_its_plane_changes():
    """Halving with overlap: the free plane is dark in the second step."""
    design = halving(overlap=True)
    program = design.program
    late = program.link[program.first_step == 3]
    row = int(np.flatnonzero((design.schedule.step == 3) & np.isin(design.schedule.link, late))[0])
    schedule = moved_send(design.schedule, row, 2)
    witness = verify_program(program, schedule).witness
    assert (witness.rule, witness.step) == (RECONFIGURED, 2)
    assert witness.link == design.schedule.link[row]
    assert witness.plane == program.plane[witness.link]


def test_a_plane_that_is_dark_when_it_should_send():
    design = halving(overlap=False)
    program = design.program
    late = program.first_step == 2
    first = np.where(late, 3, program.first_step)
    last = np.maximum(program.last_step, first)
    pauses = np.setdiff1d(program.pauses, [2])
    darker = changed(program, first_step=first, last_step=last, pauses=pauses)
    witness = verify_program(darker, design.schedule).witness
    assert (witness.rule, witness.step) == (RECONFIGURED, 2)
    assert witness.link in program.link[late]
    assert (
        witness.row
        == np.flatnonzero(
            (design.schedule.step == 2) & np.isin(design.schedule.link, program.link[late])
        )[0]
    )


def test_two_circuits_out_of_a_port():
    design = direct(5)
    program = design.program
    row = int(np.flatnonzero(program.first_step == 2)[1])
    node = int(program.topology.tail[program.link[row]])
    earlier = np.flatnonzero((program.first_step == 1) & (program.topology.tail == node))[0]
    last = program.last_step.copy()
    last[earlier] = 2
    verdict = verify_program(changed(program, last_step=last), design.schedule)
    link = int(program.link[row])
    assert verdict.witness == Witness(TWO_OUT, None, None, node, None, 2, link, 0)
    assert verdict.changes == ()


def test_two_circuits_into_a_port():
    topology = Topology(3, [0, 1, 2, 0], [1, 2, 0, 2])
    schedule = Schedule(topology, Collective.ALLGATHER, 1, [0], [0], [1], [0], [1])
    program = CircuitProgram(topology, [0] * 4, [0, 1, 2, 3], [1, 1, 1, 2], [1, 2, 3, 4], [2])
    assert verify_program(program, schedule).witness == Witness(
        TWO_IN, None, None, 2, None, 2, 3, 0
    )
    apart = CircuitProgram(topology, [0, 0, 0, 1], [0, 1, 2, 3], [1, 1, 1, 1], [1, 2, 3, 4])
    assert "never receives" in verify_program(apart, schedule).witness.rule


@pytest.mark.parametrize("design", [direct(6, 2), halving(overlap=False)])
def test_every_pause_is_needed(design):
    program = design.program
    for pause in program.pauses.tolist():
        rest = np.setdiff1d(program.pauses, [pause])
        witness = verify_program(changed(program, pauses=rest), design.schedule).witness
        assert (witness.rule, witness.step, witness.row) == (NO_TIME, pause, None)
        first = program.first_step[program.link == witness.link]
        assert pause in first
        ends = program.topology.tail[witness.link], program.topology.head[witness.link]
        assert witness.node in ends


def test_every_dark_step_is_needed():
    design = halving(overlap=True)
    program = design.program
    assert len(program.pauses) == 0
    for change in design.verdict.changes[2:]:
        assert change.dark_steps == 1
        last = program.last_step.copy()
        same = program.plane[program.link] == change.plane
        last[same & (program.last_step == change.step - 2)] += 1
        witness = verify_program(changed(program, last_step=last), design.schedule).witness
        assert (witness.rule, witness.step, witness.plane) == (NO_TIME, change.step, change.plane)


def test_circuits_that_come_too_late():
    design = direct(5)
    program = design.program
    again = {"link": 0, "first_step": 9, "last_step": 9}
    columns = {name: np.append(getattr(program, name), again[name]) for name in again}
    witness = verify_program(changed(program, **columns), design.schedule).witness
    assert witness == Witness(TOO_LATE, step=9, link=0, plane=0)
    longer = changed(program, last_step=np.where(program.last_step == 4, 50, program.last_step))
    assert verify_program(longer, design.schedule) == design.verdict


def test_what_the_replay_finds_is_found():
    design = direct(5)
    columns = [column.copy() for column in design.schedule.columns()]
    columns[0][2] = (columns[0][2] + 1) % 5
    spoiled = Schedule(design.program.topology, Collective.ALLTOALL, 5, *columns)
    assert verify_program(design.program, spoiled).witness == verify(spoiled).witness


def test_claims():
    design = direct(5)
    assert verify_program(design.program, design.schedule, Cost(4, Fraction(4, 5))).ok
    witness = verify_program(design.program, design.schedule, Cost(4, Fraction(3, 5))).witness
    assert "claimed cost is 4 steps and t_b 3/5, the sends take 4 steps and t_b 4/5" in str(witness)


def test_b_is_shared_by_ports_not_by_circuits():
    """The union of all shifts has degree 4, but a node has one port: t_b is that of one."""
    design = direct(5)
    assert design.program.topology.degree == 4
    assert verify(design.schedule).cost.t_b == 4 * design.cost.t_b


def test_links_of_other_programs_are_refused():
    schedule = direct(6).schedule
    with pytest.raises(ValueError, match="not those of the program's circuits"):
        verify_program(direct(5).program, schedule)


def test_an_empty_schedule_uses_nothing():
    program = direct(5).program
    nothing = Schedule(program.topology, Collective.ALLTOALL, 5, [], [], [], [], [])
    assert verify_program(program, nothing).witness.rule == TOO_LATE
