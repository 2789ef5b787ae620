"""The interpreter of programs of ranks: what it must find, and name."""

from __future__ import annotations

import pytest
from lowering_samples import plan
from program_by_hand import NO, out, program_of, puts_round_the_ring
from race_oracle import races
from rank_program_mutations import does_harm
from rank_program_oracle import StuckError, run

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.plans import (
    ADD,
    COPY,
    GET,
    INPUT,
    RECEIVE,
    RECEIVE_ADD,
    SCRATCH,
    SEND,
    SIGNAL,
    WAIT,
)
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.verification.rank_programs import check_program

ALLGATHER, ALLREDUCE = Collective.ALLGATHER, Collective.ALLREDUCE


@pytest.mark.parametrize("ranks", [2, 4, 7])
def test_puts_and_signals(ranks):
    program = puts_round_the_ring(ranks)
    assert check_program(program).ok
    assert races(program) == {}
    assert all(run(program, seed) for seed in range(3))
    if ranks > 2:
        loose = puts_round_the_ring(ranks, acknowledged=False)
        assert races(loose)
        assert "nothing orders this and operation" in check_program(loose).witness.rule


def gets_of_two(*, hasty=False):
    """An allgather of two that get each other's input, or, ``hasty``, what stands in the output."""
    rows = []
    for rank in range(2):
        there = out(1 - rank) if hasty else (INPUT, 0)
        rows.append((rank, 0, COPY, -1, 0, (INPUT, 0), out(rank), 1))
        rows.append((rank, 1, GET, 1 - rank, 0, out(1 - rank), there, 1))
    return program_of(ALLGATHER, 2, rows, in_place=False)


def test_gets():
    assert check_program(gets_of_two()).ok
    assert run(gets_of_two(), 1)
    assert races(gets_of_two(hasty=True))
    assert "nothing orders" in check_program(gets_of_two(hasty=True)).witness.rule


def swap(change=lambda _, rows: rows, **options):
    """An allgather of two ranks, in which a rank's two operations may be changed."""
    rows = []
    for rank in range(2):
        mine = [
            [rank, 0, SEND, 1 - rank, 0, out(rank), NO, 1],
            [rank, 1, RECEIVE, 1 - rank, 0, NO, out(1 - rank), 1],
        ]
        rows += change(rank, mine)
    return program_of(ALLGATHER, 2, rows, **options)


def only(rank_changed, place, column, value):
    def change(rank, rows):
        if rank == rank_changed:
            rows[place][column] = value
        return rows

    return change


@pytest.mark.parametrize(
    ("change", "rank", "operation", "rule"),
    [
        (only(1, 1, 6, out(2)), 1, 3, "this reaches beyond the output of rank 1, which has 2"),
        (only(0, 0, 5, (INPUT, 0)), 0, 0, "this reaches beyond the input of rank 0, which has 0"),
        (only(0, 0, 4, 1), 0, 0, "what is sent here is never received"),
        (only(1, 1, 4, 1), 0, 0, "what is sent here is never received"),
        (lambda r, rows: rows[r:], 0, 1, "what is received here is never sent"),
        (only(0, 1, 7, 2), 0, 1, "this reaches beyond"),
        (only(1, 1, 2, RECEIVE_ADD), 1, 3, "something would be added that never was written"),
        (only(1, 0, 5, out(0)), 1, 3, "nothing orders this and operation 2"),
        (only(0, 0, 5, out(1)), 0, 1, "nothing orders this and operation 0"),
    ],
)
def test_witnesses(change, rank, operation, rule):
    assert check_program(swap()).ok
    witness = check_program(swap(change)).witness
    assert witness.rule.startswith(rule)
    assert (witness.rank, witness.operation) == (rank, operation)
    assert "beyond" in rule or does_harm(swap(change), 1)


def test_unequal_counts():
    columns = Collective("allgather", sizes=(2, 2))
    rows = []
    for rank in range(2):
        size = 2 if rank else 1
        rows.append((rank, 0, SEND, 1 - rank, 0, out(2 * rank), NO, size))
        rows.append((rank, 1, RECEIVE, 1 - rank, 0, NO, out(2 - 2 * rank), 1))
    witness = check_program(program_of(columns, 2, rows)).witness
    assert (witness.rank, witness.operation) == (0, 1)
    assert witness.rule == (
        "this receives 1 chunks of 2 that are sent (receive, peer 1, channel 0)"
    )


def test_nothing_is_left_over_or_without_data():
    half = swap(lambda rank, rows: rows[:1] if rank == 0 else rows[1:])
    witness = check_program(half).witness
    assert witness.rule == "this rank never gets a chunk that it must have"
    assert (witness.root, witness.chunk, witness.rank) == (1, 0, 0)
    assert str(witness) == (
        "root 1, chunk 0, rank 0: this rank never gets a chunk that it must have"
    )
    signalled = swap(lambda rank, rows: [*rows, [rank, 2, SIGNAL, 1 - rank, 5, NO, NO, 0]])
    assert "no wait takes what is signalled here" in check_program(signalled).witness.rule
    waiting = swap(lambda rank, rows: [*rows, [rank, 2, WAIT, 1 - rank, 5, NO, NO, 0]])
    assert "never signalled" in check_program(waiting).witness.rule


def test_receives_before_sends_are_stuck_and_the_circle_is_named():
    def change(rank, rows):
        del rank
        return [[*row[:1], 0, *row[2:]] for row in rows[::-1]]

    program = swap(change)
    witness = check_program(program).witness
    assert witness.rule.startswith("this operation waits for ever: operations ")
    assert "wait for each other in a circle" in witness.rule
    assert witness.rank in (0, 1)
    with pytest.raises(StuckError):
        run(program, 1)


def test_depth_of_channels():
    """Both send twice before they receive: a channel that holds two is enough, one is not."""
    collective = Collective("allgather", sizes=(2, 2))
    rows = []
    for rank in range(2):
        there = 1 - rank
        rows += [(rank, 0, SEND, there, 0, out(2 * rank + i), NO, 1) for i in range(2)]
        rows += [(rank, 0, RECEIVE, there, 0, NO, out(2 * there + i), 1) for i in range(2)]
    program = program_of(collective, 2, rows)
    for depth in (None, 2, 8):
        assert check_program(program, fifo_depth=depth).ok
        assert run(program, 1, depth)
    assert "waits for ever" in check_program(program, fifo_depth=1).witness.rule
    with pytest.raises(StuckError):
        run(program, 1, 1)
    with pytest.raises(ValueError, match="fifo_depth is 0: a channel holds a send or more"):
        check_program(program, fifo_depth=0)


def summed_at_two(kinds, chunks=(0, 1)):
    """An allreduce of two where each sends both shards aside and adds them in its own order."""
    rows, needs = [], []
    for rank in range(2):
        first = len(rows)
        rows.append((rank, 0, SEND, 1 - rank, 0, (INPUT, 0), NO, 2))
        rows.append((rank, 1, RECEIVE, 1 - rank, 0, NO, (SCRATCH, 0), 2))
        for chunk, kind in zip(chunks, kinds, strict=True):
            needs += [(len(rows), first), (len(rows), first + 1)]
            rows.append((rank, 2, kind, -1, 0, (SCRATCH, chunk), (INPUT, chunk), 1))
    return program_of(ALLREDUCE, 2, rows, scratch=2, needs=needs)


def test_additions():
    assert check_program(summed_at_two([ADD, ADD])).ok
    assert run(summed_at_two([ADD, ADD]), 1)
    twice = check_program(summed_at_two([ADD, ADD, ADD], (0, 1, 1))).witness
    assert twice.rule.startswith("a contribution would be added a second time")
    kept = check_program(summed_at_two([ADD, COPY])).witness
    assert kept.rule == "the sum of this chunk at this rank is not whole"
    assert not run(summed_at_two([ADD, COPY]), 1)


def test_different_chunks_are_not_added_nor_taken_for_each_other():
    rows = []
    for rank in range(2):
        rows.append((rank, 0, SEND, 1 - rank, 0, (INPUT, 0), NO, 1))
        rows.append((rank, 1, RECEIVE_ADD, 1 - rank, 0, NO, (INPUT, 1), 1))
    mixed = check_program(program_of(ALLREDUCE, 2, rows)).witness
    assert mixed.rule.startswith("parts of different chunks would be added")
    pieces = [
        (rank, 0, COPY, -1, 0, (INPUT, piece), out(1 - piece), 1)
        for rank in range(2)
        for piece in range(2)
    ]
    other = check_program(program_of(Collective.ALLTOALL, 2, pieces, in_place=False)).witness
    assert other.rule == "this rank has another chunk where this one must be"


def test_a_copy_onto_itself():
    rows = [(0, 0, COPY, -1, 0, out(0), out(1), 2)]
    columns = Collective("allgather", sizes=(2, 2))
    witness = check_program(program_of(columns, 2, rows)).witness
    assert witness.rule == "this reads slots that it writes (copy)"


def test_sends_that_may_overtake_each_other():
    """Two streams of one rank send over one channel; which is first is not told."""
    collective = Collective("broadcast", root=0)
    for split, ok in ((False, True), (True, False)):
        rows = [
            (0, 0, SEND, 1, 0, out(0), NO, 1),
            (0, int(split), SEND, 1, 0, out(0), NO, 1),
            (1, 0, RECEIVE, 0, 0, NO, (SCRATCH, 0), 1),
            (1, 0, RECEIVE, 0, 0, NO, out(0), 1),
        ]
        verdict = check_program(program_of(collective, 2, rows, scratch=1))
        assert verdict.ok is ok
    assert "this may overtake operation 0" in verdict.witness.rule
    assert not verdict


def test_order_that_only_other_ranks_give_is_found():
    """In an allreduce the whole sum overwrites a part that was sent: the sum comes after it."""
    program = lower(plan("Torus((3, 3))", ALLREDUCE), in_place=True)
    assert check_program(program).ok
    assert races(program) == {}
    over_sent = [
        o
        for o in range(program.num_operations)
        if program.kind[o] == RECEIVE and program.need_start[o] == program.need_start[o + 1]
    ]
    assert len(over_sent) == 48


def test_it_is_the_same_as_written_and_compiled(monkeypatch):
    from ocs_codesign.core.compute import kernels

    programs = [
        lower(plan("DirectedCirculant(8, (1, 3))", Collective.REDUCE_SCATTER), ordered_adds=tidy)
        for tidy in (True, False)
    ]
    told = []
    for little in (10**9, 0):
        monkeypatch.setattr(kernels, "LITTLE_WORK", little)
        told.append([str(check_program(program, fifo_depth=2).witness) for program in programs])
    assert told[0] == told[1]


def test_buffers_of_any_size_take_no_room():
    """A file may say that a rank has 10^12 chunks of scratch."""
    program = swap(scratch=10**12)
    assert check_program(program).ok
