"""Lowering: every plan, run by the interpreter and by a slow oracle with real numbers."""

from __future__ import annotations

import numpy as np
import pytest
from classic_samples import everything
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_samples import COLLECTIVES, DESIGNS, NETWORKS, classic, plan, switched
from race_oracle import races
from rank_program_oracle import run
from strategies import multigraphs, recipes

from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.demand import COPY, MOVE, SUM, Demand
from ocs_codesign.core.plans import KINDS, RECEIVE, RECEIVE_ADD, SCRATCH, SEND
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.rank_programs import check_program
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import Abilities

FEW = 250
"""Operations up to which a program is run by the slow oracle as well."""


def check_lowered(plan_, in_place: bool):
    program = lower(plan_, in_place=in_place)
    for depth in (None, 1, 2, 8):
        verdict = check_program(program, fifo_depth=depth)
        assert verdict.ok, str(verdict.witness)
    if program.num_operations <= FEW:
        assert races(program) == {}
        assert all(run(program, seed, depth) for seed, depth in enumerate((None, 1)))
    return program


def places(collective: Collective):
    return (False,) if collective.name == "alltoall" else (False, True)


@pytest.mark.parametrize("design", DESIGNS)
def test_designs(design):
    for collective in WITHOUT_PARAMETERS:
        for in_place in places(collective):
            check_lowered(plan(design, collective), in_place)


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda collective: collective.text)
def test_collectives_with_roots_sizes_and_groups(collective):
    for design in ("DirectedCirculant(5, (1, 2))", "UniRing(2, 5)"):
        schedule = plan(design, collective, "greedy")
        for in_place in places(collective):
            check_lowered(schedule, in_place)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("maker", ["forest", "greedy"])
def test_schedules_over_switches(name, maker):
    for collective in WITHOUT_PARAMETERS[: 3 if maker == "forest" else 4]:
        schedule = switched(name, collective, maker)
        assert verify(schedule, abilities=Abilities.of(NETWORKS[name])).ok
        program = check_lowered(schedule, in_place=False)
        assert program.num_ranks == NETWORKS[name].num_hosts


@pytest.mark.parametrize(("name", "kind"), everything())
def test_classic_algorithms(name, kind):
    made = 0
    for ranks in (1, 2, 3, 4, 5, 6, 8, 9):
        try:
            messages = classic(name, kind, ranks)
        except ValueError:
            continue
        made += 1
        for in_place in places(messages.collective):
            check_lowered(messages, in_place)
    assert made


@settings(max_examples=15)
@given(recipes(16), st.sampled_from(WITHOUT_PARAMETERS[:3]), st.booleans())
def test_any_recipe(recipe, collective, in_place):
    check_lowered(bfb(recipe.topology(), collective), in_place)


@settings(max_examples=15)
@given(multigraphs(6), st.sampled_from(WITHOUT_PARAMETERS), st.booleans())
def test_any_graph(topology, collective, in_place):
    schedule = made_by("greedy", Task(topology, collective)).schedule
    check_lowered(schedule, in_place and collective.name != "alltoall")


def test_what_the_ring_does():
    """The golden program: every rank passes on, on one channel, what it got last."""
    program = lower(plan("UniRing(1, 4)", Collective.ALLGATHER), in_place=True)
    assert program.chunks_per_unit == 1
    assert int((program.kind == SEND).sum()) == 12
    for rank in range(4):
        mine = program.operations_of(rank)
        rows = [getattr(program, name)[mine].tolist() for name in ("kind", "peer", "step")]
        after, before = (rank + 1) % 4, (rank - 1) % 4
        assert rows[0] == [SEND, RECEIVE] * 3
        assert rows[1] == [after, before] * 3
        assert rows[2] == [1, 1, 2, 2, 3, 3]
        sent = program.source[mine][::2]
        assert sent.tolist() == [(rank - k) % 4 for k in range(3)]
        assert program.target[mine][1::2].tolist() == [(rank - k) % 4 for k in (1, 2, 3)]
        begin, end = program.need_start[mine.start], program.need_start[mine.stop]
        assert program.need[begin:end].tolist() == [mine.start + 1, mine.start + 3]


@pytest.mark.parametrize(
    ("design", "in_slots"), [("Torus((4, 4))", 704), ("DirectedCirculant(8, (1, 3))", 32)]
)
@pytest.mark.parametrize("in_place", [False, True])
def test_unordered_additions_race(design, in_slots, in_place):
    schedule = plan(design, Collective.REDUCE_SCATTER)
    loose = lower(schedule, in_place=in_place, ordered_adds=False)
    found = races(loose)
    assert found.total() == in_slots
    assert {int(loose.kind[o]) for pair in found for o in pair} == {RECEIVE_ADD}
    witness = check_program(loose).witness
    assert "nothing orders this and operation" in witness.rule
    assert any(witness.operation in pair for pair in found)
    program = lower(schedule, in_place=in_place)
    assert races(program) == {}
    assert check_program(program).ok


def test_parallel_links_are_channels():
    program = lower(plan("UniRing(2, 3)", Collective.ALLGATHER), in_place=True)
    assert set(program.channel[program.kind == SEND].tolist()) == {0, 1}
    streams = {(int(r), int(s)) for r, s in zip(program.rank, program.stream, strict=True)}
    assert len(streams) == 3 * 4


def test_contiguous_chunks_are_one_transfer():
    pair = Topology(2, [0, 1], [1, 0])
    columns = [0, 0, 1, 1], [0, 1, 0, 2], [1, 3, 2, 3], [0, 0, 1, 1], [1, 1, 1, 2]
    program = lower(Schedule(pair, Collective.ALLGATHER, 3, *columns), in_place=True)
    sends = program.kind == SEND
    assert program.count[sends].tolist() == [3, 2, 1]  # one step is one transfer, two are two


def test_pieces_of_several_ranks_travel_together_and_relays_keep_them_in_scratch():
    """On a one-way ring of four what is not for the next rank goes there as one, and on from it."""
    ring = Topology(4, [0, 1, 2, 3], [1, 2, 3, 0])
    rows = [
        (root, (root + far) % 4, (root + hop) % 4, hop + 1)
        for root in range(4)
        for hop in range(3)
        for far in range(hop + 1, 4)
    ]
    root, piece, link, step = np.array(rows).T
    exchange = Schedule(ring, Collective.ALLTOALL, 4, root, piece, piece + 1, link, step)
    assert verify(exchange).ok
    program = check_lowered(exchange, in_place=False)
    assert program.scratch.tolist() == [3, 3, 3, 3]
    mine = (program.kind == SEND) & (program.rank == 0)
    assert program.count[mine & (program.step == 1)].tolist() == [1, 2]


def test_out_of_place_the_input_stays():
    for design in ("Torus((3, 3))", "DirectedCirculant(5, (1, 2))"):
        for collective in WITHOUT_PARAMETERS:
            program = lower(plan(design, collective))
            writes = program.kind != SEND
            assert (program.target_buffer[writes] != 0).all()


def test_what_is_sent_while_it_is_written_goes_aside():
    """In recursive doubling a rank sends its sum and adds what comes for it in one step."""
    program = lower(classic("recursive-doubling-full", "allreduce", 4), in_place=True)
    kinds = [KINDS[kind] for kind in program.kind[program.operations_of(0)].tolist()]
    assert kinds == ["send", "receive", "add", "send", "receive", "add"]
    received = program.kind == RECEIVE
    assert (program.target_buffer[received] == SCRATCH).all()


def test_what_is_received_again_is_left_out():
    ring = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1])
    once = bfb(ring, Collective.ALLGATHER)
    columns = [np.append(column, column[-1:]) for column in once.columns()]
    columns[4][-1] += 1
    columns[0], columns[3] = np.append(columns[0], 0), np.append(columns[3], 1)
    columns[1], columns[2] = np.append(columns[1], 0), np.append(columns[2], once.num_chunks)
    columns[4] = np.append(columns[4], columns[4].max())
    twice = Schedule(ring, Collective.ALLGATHER, once.num_chunks, *columns)
    assert not verify(twice).ok
    assert verify(twice, strictness="at least once").ok
    assert lower(twice) == lower(once)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_demands_without_a_name(ranks):
    """A sum at a root that has no part of it, a copy for one other, and a move."""
    hosts = ranks + 3
    ring = Topology(hosts, range(hosts), [(i + 1) % hosts for i in range(hosts)])
    columns = [SUM, COPY, MOVE], [2, 0, 1], [0, 1, 2, 3], [2, 1, 3], [0, 1, 2]
    demand = Demand(hosts, *columns, [0, 2, 3, 4], [0, 1, 2, 0], 6)
    rows = [(0, 2, 0, 1), (1, 1, 0, 1), (0, 2, 1, 2), (1, 1, 1, 2)]
    rows += [(2, 3, link, link) for link in range(1, hosts)]
    rows.sort(key=lambda row: row[3])
    item, chunks, link, step = (list(column) for column in zip(*rows, strict=True))
    schedule = Schedule(ring, demand, 3, item, [0] * len(rows), chunks, link, step)
    schedule_ok = verify(schedule)
    assert schedule_ok.ok, str(schedule_ok.witness)
    check_lowered(schedule, in_place=False)
    with pytest.raises(ValueError, match="a demand of no name is not in place"):
        lower(schedule, in_place=True)


def test_what_cannot_be_lowered():
    ring = Topology(3, [0, 1, 2], [1, 2, 0])
    astray = Schedule(ring, Collective.ALLTOALL, 3, [0], [2], [3], [1], [1])
    with pytest.raises(ValueError, match="step 1: node 1 sends to 2 what it does not have"):
        lower(astray)
    star = Topology(3, [0, 2, 1], [2, 1, 2])
    kept = Schedule(star, Collective.ALLGATHER, 1, [0], [0], [1], [1], [1], num_hosts=2)
    with pytest.raises(ValueError, match="does not pass a switch from host to host"):
        lower(kept)
    with pytest.raises(ValueError, match="an all-to-all is not in place"):
        lower(plan("Complete(2)", Collective.ALLTOALL), in_place=True)


def test_messages_may_have_fewer_items_than_shards():
    columns = [1, 1], [0, 1], [1, 0], [0, 0], [True, True]
    program = check_lowered(Messages(2, Collective.ALLREDUCE, 1, *columns), in_place=False)
    assert program.chunks_per_unit == 1
    assert program.count[program.kind == SEND].tolist() == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("design", ["Torus((32, 32))", "GeneralizedKautz(4, 1024)"])
def test_a_thousand_ranks(design):
    schedule = bfb(parse(design).topology(), Collective.ALLGATHER)
    program = lower(schedule, in_place=True)
    assert int((program.kind == SEND).sum()) <= schedule.num_sends
    assert check_program(program).ok
