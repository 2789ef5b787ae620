"""The replay: a witness for every rule, exact costs, and the same verdict however it is cut."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import without
from replay_oracle import is_valid, runs_correctly
from samples import loaded_topologies
from strategies import multigraphs, permutation_digraph

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.verification import schedules as verification
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import Witness

RING = Topology(3, [0, 1, 2], [1, 2, 0])
Send = tuple[int, int, int, int, int]
"""root, lo, hi, link, step"""

GATHER: list[Send] = [
    *((root, 0, 2, root, 1) for root in range(3)),
    *((root, 0, 2, (root + 1) % 3, 2) for root in range(3)),
]
REDUCE: list[Send] = [
    *((root, 0, 2, (root + 1) % 3, 1) for root in range(3)),
    *((root, 0, 2, (root + 2) % 3, 2) for root in range(3)),
]


def ring(sends: list[Send], collective: Collective = Collective.ALLGATHER) -> Schedule:
    return Schedule(RING, collective, 2, *np.array(sends).T)


def reduce(sends: list[Send]) -> Schedule:
    return ring(sends, Collective.REDUCE_SCATTER)


def witness_of(schedule: Schedule) -> Witness:
    verdict = verify(schedule)
    assert not verdict.ok
    assert verdict.witness is not None
    assert not is_valid(schedule)
    return verdict.witness


def at(schedule: Schedule, witness: Witness) -> Send:
    """The send that a witness names, once its own fields agree with it."""
    row = witness.row
    assert row is not None
    send = tuple(int(column[row]) for column in schedule.columns()[:5])
    assert (witness.root, witness.link, witness.step) == (send[0], send[3], send[4])
    assert witness.node is None
    assert send[1] <= witness.chunk < send[2]
    return send


def test_good_schedules():
    for schedule in (ring(GATHER), reduce(REDUCE), reduce(REDUCE).then(ring(GATHER))):
        verdict = verify(schedule)
        assert verdict.ok
        assert verdict.witness is None
        assert is_valid(schedule)
        assert runs_correctly(schedule)
    assert verdict.cost == Cost(4, Fraction(4, 3))
    assert verdict.max_loads == (1, 1, 1, 1)


def test_sender_does_not_hold_the_chunk():
    early = ring([*GATHER[:5], (2, 1, 2, 0, 1), (2, 0, 1, 0, 2)])
    witness = witness_of(early)
    assert at(early, witness) == (2, 1, 2, 0, 1)
    assert witness.chunk == 1
    assert witness.rule == "the sender does not hold this chunk before the step"


def test_sender_never_holds_the_chunk():
    schedule = ring([*GATHER[1:], (0, 0, 2, 1, 3)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 0, 2, 1, 2)
    assert "does not hold" in witness.rule


def test_receiver_holds_the_chunk():
    schedule = ring([*GATHER, (1, 1, 2, 1, 3)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (1, 1, 2, 1, 3)
    assert witness.chunk == 1
    assert witness.rule == "the receiver already holds this chunk"


def test_shard_comes_home():
    schedule = ring([*GATHER, (1, 0, 1, 0, 3)])
    assert at(schedule, witness_of(schedule)) == (1, 0, 1, 0, 3)


def test_a_self_loop_never_helps():
    loops = Topology(2, [0, 1, 0], [1, 0, 0])
    swap = ([0, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 2], [1, 1, 1])
    assert "already holds" in str(verify(Schedule(loops, Collective.ALLGATHER, 1, *swap)).witness)
    home = ([1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 2], [2, 2, 1])
    lost = verify(Schedule(loops, Collective.REDUCE_SCATTER, 1, *home)).witness
    assert "already sent its partial sum" in str(lost)


def test_root_sends_its_sum_away():
    schedule = reduce([*REDUCE, (1, 0, 1, 1, 3)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (1, 0, 1, 1, 3)
    assert witness.rule == "the root sends away the sum that must end with it"


def test_partial_sum_is_sent_twice():
    schedule = reduce([*REDUCE, (0, 1, 2, 1, 3)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 1, 3)
    assert witness.rule == "the sender has already sent its partial sum of this chunk"


def test_partial_sum_is_incomplete():
    """Node 2 sends in the step in which it receives node 1's contribution for root 0."""
    schedule = reduce([*REDUCE[1:3], *REDUCE[4:], (0, 0, 2, 1, 1), (0, 0, 2, 2, 1)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 0, 2, 2, 1)
    assert "receives a contribution in this very step" in witness.rule


def test_contribution_is_lost():
    """Node 2 has sent its sum for root 0 when node 1's contribution arrives."""
    schedule = reduce([*REDUCE[1:3], *REDUCE[4:], (0, 0, 2, 2, 1), (0, 0, 2, 1, 2)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 0, 2, 1, 2)
    assert witness.rule.endswith("so the contribution is lost")


def test_node_never_receives():
    witness = witness_of(ring(GATHER[:-1]))
    assert witness == Witness("the node never receives this chunk", root=2, chunk=0, node=1)
    half = witness_of(ring([*GATHER[:-1], (2, 0, 1, 0, 2)]))
    assert (half.root, half.chunk, half.node, half.row) == (2, 1, 1, None)


def test_node_never_contributes():
    witness = witness_of(reduce([*REDUCE[:1], *REDUCE[2:]]))
    rule = "the node's contribution to this chunk is never sent"
    assert witness == Witness(rule, root=1, chunk=0, node=2)


def test_root_copies_out_before_its_sum_is_complete():
    good = reduce(REDUCE).then(ring(GATHER))
    columns = [column.copy() for column in good.columns()]
    row = int(np.flatnonzero((columns[4] == 3) & (columns[0] == 1))[0])
    columns[4][row] = 2
    early = Schedule(RING, Collective.ALLREDUCE, 2, *columns)
    witness = witness_of(early)
    assert at(early, witness) == (1, 0, 2, 1, 2)
    assert witness.rule == "the sender does not hold this chunk before the step"


@pytest.mark.parametrize("collective", GATHERING)
def test_nothing_is_sent(collective):
    columns = [[]] * (6 if collective == Collective.ALLREDUCE else 5)
    schedule = Schedule(RING, collective, 1, *columns)
    verdict = verify(schedule)
    assert not verdict.ok
    assert verdict.cost == Cost(0, Fraction(0))
    assert verdict.max_loads == ()
    lonely = Schedule(Topology(1, [], []), collective, 1, *columns)
    assert verify(lonely).ok


def test_claimed_cost():
    schedule = ring(GATHER)
    assert verify(schedule, Cost(2, Fraction(2, 3))).ok
    for claimed in (Cost(1, Fraction(2, 3)), Cost(2, Fraction(2, 3) + Fraction(1, 10**40))):
        verdict = verify(schedule, claimed)
        assert not verdict.ok
        assert verdict.cost == Cost(2, Fraction(2, 3))
        assert verdict.witness.root is verdict.witness.row is verdict.witness.node is None
        text = f"the claimed cost is {claimed.steps} steps and t_b {claimed.t_b}, "
        assert str(verdict.witness) == text + "the sends take 2 steps and t_b 2/3"


def test_a_bad_send_comes_before_a_wrong_claim():
    verdict = verify(ring(GATHER[:-1]), Cost(9, Fraction(9)))
    assert "never receives" in str(verdict.witness)


def test_witness_as_text():
    schedule = ring([*GATHER, (1, 1, 2, 1, 3)])
    assert str(verify(schedule).witness) == (
        "row 6, step 3, link 1, root 1, chunk 1: the receiver already holds this chunk"
    )


def test_idle_steps_cost_a_step():
    schedule = ring([(*send[:4], 2 * send[4] + 1) for send in GATHER])
    verdict = verify(schedule)
    assert verdict.ok
    assert verdict.max_loads == schedule.max_loads() == (0, 0, 1, 0, 1)
    assert verdict.cost == Cost(5, Fraction(2, 3))


def test_unequal_speeds():
    """Link 0 is twice as fast: B is 3 units, the other direction has 1."""
    pair = Topology(2, [0, 0, 1], [1, 1, 0], [2, 1, 1])
    sends = ([0, 0, 1], [0, 4, 0], [4, 6, 6], [0, 1, 2], [1, 1, 1])
    verdict = verify(Schedule(pair, Collective.ALLGATHER, 6, *sends))
    assert verdict.ok
    assert verdict.max_loads == (Fraction(1),)
    assert verdict.cost == Cost(1, Fraction(3, 2))
    slower = verify(Schedule(pair, Collective.ALLGATHER, 6, [0, 1], [0, 0], [6, 6], [1, 2], [1, 1]))
    assert slower.cost == verdict.cost
    fast = Topology(2, [0, 1], [1, 0], [3, 2])
    assert verify(bfb(fast)).max_loads == (Fraction(1, 2),)


def exact_max_loads(schedule: Schedule) -> list[Fraction]:
    """Largest load of every step, summed send by send in fractions."""
    loads: dict[tuple[int, int], Fraction] = {}
    speeds = schedule.topology.speeds().tolist()
    rows = zip(*(column.tolist() for column in schedule.columns()[1:5]), strict=True)
    for lo, hi, link, step in rows:
        share = Fraction(hi - lo, schedule.num_chunks * speeds[link])
        loads[step, link] = loads.get((step, link), Fraction(0)) + share
    steps = range(1, schedule.num_steps + 1)
    return [max((v for (s, _), v in loads.items() if s == step), default=0) for step in steps]


@given(st.data())
def test_loads_of_any_sends(data):
    """Good or bad, a schedule costs what its sends add up to."""
    topology = data.draw(multigraphs(max_nodes=4, max_extra=4))
    chunks = data.draw(st.integers(1, 5) | st.integers(2**24, 2**31 - 1))
    ends = st.tuples(st.integers(0, chunks), st.integers(0, chunks)).map(sorted)
    nodes, links = st.integers(0, topology.num_nodes - 1), st.integers(0, topology.num_links - 1)
    send = st.tuples(nodes, ends.filter(lambda e: e[0] < e[1]), links, st.integers(1, 4))
    sends = data.draw(st.lists(send, min_size=1, max_size=8))
    rows = [(root, lo, hi, link, step) for root, (lo, hi), link, step in sends]
    schedule = Schedule(topology, Collective.ALLGATHER, chunks, *np.array(rows).T)
    verdict = verify(schedule)
    assert list(verdict.max_loads) == exact_max_loads(schedule)
    assert schedule.max_loads() == verdict.max_loads
    assert verdict.cost == Cost(schedule.num_steps, topology.t_b(sum(verdict.max_loads)))


@pytest.mark.parametrize("collective", GATHERING)
def test_blocks_of_roots_give_the_same_verdicts(collective, monkeypatch):
    schedules = [bfb(topology, collective) for topology in loaded_topologies()]
    schedules.append(bfb(permutation_digraph(40, 3, 1), collective))
    broken = [without(schedule, schedule.num_sends // 2) for schedule in schedules]
    whole = [verify(schedule) for schedule in schedules + broken]
    for entries in (1, 100, 5000):
        monkeypatch.setattr(verification, "_BLOCK_ENTRIES", entries)
        for schedule, verdict in zip(schedules + broken, whole, strict=True):
            cut = verify(schedule)
            assert (cut.ok, cut.cost) == (verdict.ok, verdict.cost)
            if entries == 1:
                assert_first_bad_root(schedule, cut.witness)


def assert_first_bad_root(schedule: Schedule, witness: Witness | None) -> None:
    """Roots before the witness's are right: break one of them, and it is the witness's root."""
    if witness is None:
        return
    for row in np.flatnonzero(schedule.root < witness.root)[:3].tolist():
        assert verify(without(schedule, row)).witness.root == schedule.root[row]


HUGE = 2**31 - 1


@pytest.mark.parametrize("chunks", [2**24 + 2, 2**30, HUGE])
@pytest.mark.parametrize("collective", GATHERING)
def test_very_many_chunks(chunks, collective):
    small = bfb(loaded_topologies()[3], collective)
    scaled: Any = small.with_chunks(chunks - chunks % small.num_chunks)
    assert verify(scaled).ok
    assert verify(scaled).cost == verify(small).cost
    columns = [column.copy() for column in scaled.columns()]
    columns[1][0] += 1
    broken = Schedule(scaled.topology, collective, scaled.num_chunks, *columns)
    witness = verify(broken).witness
    assert witness.chunk == scaled.lo[0]
    assert witness.root == scaled.root[0]


def test_very_many_chunks_overlapping_by_one():
    pair = Topology(2, [0, 1, 0], [1, 0, 1])
    half = HUGE // 2
    good = ([0, 0, 1], [0, half, 0], [half, HUGE, HUGE], [0, 2, 1], [1, 1, 1])
    assert verify(Schedule(pair, Collective.ALLGATHER, HUGE, *good)).ok
    bad = ([0, 0, 1], [0, half - 1, 0], [half, HUGE, HUGE], [0, 2, 1], [1, 1, 1])
    witness = verify(Schedule(pair, Collective.ALLGATHER, HUGE, *bad)).witness
    assert (witness.chunk, witness.link) == (half - 1, 2)
