"""Spoiled programs and sends: the verdict is that of a slow judge, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import MUTATIONS, applicable, mutated
from program_oracle import is_valid_program, ports_are_right, slow_changes, slow_t_b
from program_samples import Columns, designs

from ocs_codesign.circuits.programs.wiring import wire
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.verification.circuits import NO_TIME, TWO_IN, TWO_OUT, verify_program


def drop_pause(columns, random):
    columns.pauses = np.delete(columns.pauses, random.integers(max(1, len(columns.pauses))))


def add_pause(columns, random):
    columns.pauses = np.append(columns.pauses, random.choice(columns.first_step))


def other_plane(columns, random):
    link = random.integers(len(columns.plane))
    columns.plane[link] = random.integers(columns.plane.max() + 2)


def other_planes(columns, random):
    columns.plane[:] = random.permutation(columns.plane)


def begin(columns, random):
    columns.first_step[random.integers(len(columns.link))] += random.integers(-2, 3)


def end(columns, random):
    columns.last_step[random.integers(len(columns.link))] += random.integers(-2, 3)


def delay(columns, random):
    row, by = random.integers(len(columns.link)), random.integers(1, 3)
    columns.first_step[row] += by
    columns.last_step[row] += by


def other_link(columns, random):
    columns.link[random.integers(len(columns.link))] = random.integers(len(columns.plane))


def one_more(columns, random):
    step = random.integers(1, columns.last_step.max() + 2)
    columns.link = np.append(columns.link, random.integers(len(columns.plane)))
    columns.first_step = np.append(columns.first_step, step)
    columns.last_step = np.append(columns.last_step, step)


SPOILERS = [drop_pause, add_pause, other_plane, other_planes, begin, end, delay, other_link]
SPOILERS += [one_more]


def agree(program, schedule):
    verdict = verify_program(program, schedule)
    assert verdict.ok == is_valid_program(program, schedule)
    assert verdict.cost.t_b == slow_t_b(program, schedule)
    if verdict.ok:
        assert [
            (one.step, one.plane, one.num_circuits, one.dark_steps) for one in verdict.changes
        ] == slow_changes(program)
    return verdict


@pytest.mark.parametrize("spoil", SPOILERS)
def test_verdict_on_spoiled_circuits(spoil):
    random = np.random.default_rng(sum(map(ord, spoil.__name__)))
    refused = wrong = 0
    for design in designs():
        for _ in range(12):
            columns = Columns.of(design.program)
            if spoil is drop_pause and not len(columns.pauses):
                continue
            spoil(columns, random)
            try:
                program = columns.program()
            except ValueError:
                refused += 1
                continue
            verdict = agree(program, design.schedule)
            wrong += not verdict.ok
            # A tampered table that still works shows in the claims, or is the same again.
            if spoil is drop_pause:
                assert verdict.witness.rule == NO_TIME
    assert refused + wrong > 0


@given(st.data())
@settings(max_examples=120)
def test_verdict_on_spoiled_sends(data):
    design = data.draw(st.sampled_from(designs()))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    schedule = design.schedule
    names = [name for name in MUTATIONS if applicable(name, schedule)]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2)):
        schedule = mutated(schedule, name, int(random.integers(schedule.num_sends)), random)
    agree(design.program, schedule)


@given(st.data())
@settings(max_examples=150)
def test_ports_of_tables_at_random(data):
    """Random targets: two planes of four nodes, dark or not, permutations or not."""
    steps = data.draw(st.integers(1, 5))
    row = st.permutations([0, 1, 2, 3]) | st.lists(st.integers(-1, 3), min_size=4, max_size=4)
    table = np.array(data.draw(st.lists(row, min_size=2 * steps, max_size=2 * steps)))
    table = table.reshape(steps, 2, 4).astype(np.int32)
    table[0, :, 0] = 1, 2
    program, port_link = wire(table)
    schedule = Schedule(
        program.topology, Collective.ALLGATHER, 1, [0], [0], [1], [port_link[0, 0, 0]], [steps]
    )
    verdict = verify_program(program, schedule)
    fits = all(
        len(set(used)) == len(used)
        for used in ([int(v) for v in plane if v >= 0] for step in table for plane in step)
    )
    assert ports_are_right(program) == fits
    assert (verdict.witness.rule in (TWO_IN, TWO_OUT)) == (not fits)
    if fits:
        assert verdict.witness.rule != NO_TIME
        assert [
            (one.step, one.plane, one.num_circuits, one.dark_steps) for one in verdict.changes
        ] == slow_changes(program)
        for step, plane, node in np.ndindex(table.shape):
            link = port_link[step, plane, node]
            assert (link < 0) == (table[step, plane, node] < 0)
            if link >= 0:
                assert program.is_up([link], [step + 1]).all()
                assert program.topology.head[link] == table[step, plane, node]
