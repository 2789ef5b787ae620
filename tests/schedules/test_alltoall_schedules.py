"""All-to-all schedules: replay, witness of every rule, costs in pieces, reversal, files."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from alltoall_samples import (
    Send,
    alltoall,
    alltoalls,
    bipartite,
    complete,
    one_way_ring,
    random_alltoall,
    samples,
    two_way_ring,
)
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS, applicable, mutated, without
from replay_oracle import is_valid, runs_correctly
from small_design import arrays_of
from strategies import multigraphs, permutation_digraph

from ocs_codesign.core.bounds import bound, topology_bound
from ocs_codesign.core.collective import GATHERING, WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.design import verified
from ocs_codesign.schedules.files.designs import load_design, save_design
from ocs_codesign.verification import schedules as verification
from ocs_codesign.verification.schedules import verify
from ocs_codesign.verification.sends import Witness

RING = Topology(3, [0, 1, 2], [1, 2, 0])
MOVES: list[Send] = [
    *((root, (root + 1) % 3, (root + 1) % 3 + 1, root, 1) for root in range(3)),
    *((root, (root + 2) % 3, (root + 2) % 3 + 1, root, 1) for root in range(3)),
    *((root, (root + 2) % 3, (root + 2) % 3 + 1, (root + 1) % 3, 2) for root in range(3)),
]
ALWAYS_CAUGHT = {"delete", "duplicate", "change_root", "change_interval"}
TINY = st.integers(0, 2**32).map(np.random.default_rng)


def ring(sends: list[Send]) -> Schedule:
    return alltoall(RING, 3, sends)


def witness_of(schedule: Schedule) -> Witness:
    verdict = verify(schedule)
    assert verdict.witness is not None
    assert not is_valid(schedule)
    return verdict.witness


def at(schedule: Schedule, witness: Witness) -> Send:
    """The send that a witness names, once its own fields agree with it."""
    send = tuple(int(column[witness.row]) for column in schedule.columns())
    assert (witness.root, witness.link, witness.step) == (send[0], send[3], send[4])
    assert witness.node is None
    assert send[1] <= witness.chunk < send[2]
    return send


# Good schedules and what they cost.


@pytest.mark.parametrize(
    ("schedule", "cost"),
    [
        (complete(2), Cost(1, Fraction(1, 2))),
        (complete(5), Cost(1, Fraction(4, 5))),
        (one_way_ring(3), Cost(2, Fraction(1))),
        (one_way_ring(8), Cost(7, Fraction(7, 2))),
        (two_way_ring(5), Cost(2, Fraction(6, 5))),
        (two_way_ring(12), Cost(6, Fraction(3))),
        (bipartite(4), Cost(2, Fraction(5, 4))),
    ],
    ids=repr,
)
def test_known_schedules_are_optimal(schedule, cost):
    verdict = verify(schedule, cost)
    assert verdict.ok
    assert is_valid(schedule)
    assert runs_correctly(schedule)
    assert topology_bound(schedule.topology, "alltoall") == cost
    assert len(schedule.topology.tail) == schedule.topology.degree * schedule.topology.num_nodes


def test_loads_are_in_pieces():
    assert verify(one_way_ring(5)).max_loads == one_way_ring(5).max_loads() == (4, 3, 2, 1)
    assert verify(bipartite(4)).max_loads == (Fraction(7, 4), Fraction(3, 4))
    assert bipartite(4).chunks_per_unit == 4
    assert bfb(RING).chunks_per_unit == bfb(RING).num_chunks


def cost_by_hand(schedule: Schedule) -> Cost:
    """The cost send by send: links are busy for pieces / speed, steps for their busiest link."""
    topology, nodes = schedule.topology, schedule.topology.num_nodes
    speeds = topology.speeds().tolist()
    busy: dict[tuple[int, int], Fraction] = {}
    for _, lo, hi, link, step in zip(*(c.tolist() for c in schedule.columns()), strict=True):
        pieces = Fraction((hi - lo) * nodes, schedule.num_chunks)
        busy[step, link] = busy.get((step, link), Fraction(0)) + pieces / speeds[link]
    total = sum(
        max((time for (at, _), time in busy.items() if at == step), default=Fraction(0))
        for step in range(1, schedule.num_steps + 1)
    )
    egress = [0] * nodes
    for node, speed in zip(topology.tail.tolist(), speeds, strict=True):
        egress[node] += speed
    return Cost(schedule.num_steps, total * Fraction(max(egress), nodes))


@given(alltoalls())
def test_random_schedules_are_valid_and_cost_what_they_send(schedule):
    verdict = verify(schedule, cost_by_hand(schedule))
    assert verdict.ok
    assert verdict.max_loads == schedule.max_loads()
    assert is_valid(schedule)
    assert runs_correctly(schedule)
    topology = schedule.topology
    least = topology_bound(topology, "all-to-all")
    lower = bound(topology.num_nodes, topology.degree, "all-to-all")
    assert verdict.cost.steps >= least.steps >= lower.steps
    assert verdict.cost.t_b >= least.t_b >= lower.t_b


@given(alltoalls(), st.integers(1, 5))
def test_finer_chunks_and_other_link_numbers(schedule, factor):
    finer = schedule.with_chunks(schedule.num_chunks * factor)
    assert verify(finer, cost_by_hand(schedule)).ok
    order = np.arange(schedule.topology.num_links)[::-1]
    topology = schedule.topology
    other = Topology(
        topology.num_nodes, topology.tail[order], topology.head[order], topology.speeds()[order]
    )
    assert verify(schedule.on_links_of(other), cost_by_hand(schedule)).ok


def test_a_chunk_may_wait_and_go_a_long_way_round():
    """From 0 to 1 by way of 2 and 3, which is met twice."""
    tail, head = [0, 0, 2, 3, 4, 3, 1], [1, 2, 3, 4, 3, 1, 0]
    topology = Topology(5, tail, head)
    rest = random_alltoall(topology, 1, np.random.default_rng(1))
    keep = (rest.root != 0) | (rest.lo != 1)
    assert (rest.hi == rest.lo + 1)[~keep].all()
    sends = np.array(rest.columns()).T[keep].tolist()
    detour = [
        (0, 1, 2, link, step) for step, link in zip((2, 4, 5, 7, 8), (1, 2, 3, 4, 5), strict=True)
    ]
    schedule = alltoall(topology, 5, sends + detour)
    assert verify(schedule).ok
    assert is_valid(schedule)
    assert verify(schedule.reversed()).ok


# A witness for every rule.


def test_sender_does_not_hold_the_chunk_yet():
    early = ring([*MOVES[:6], (0, 2, 3, 1, 1), *MOVES[7:]])
    witness = witness_of(early)
    assert at(early, witness) == (0, 2, 3, 1, 1)
    assert witness.rule == "the sender does not hold this chunk before the step"


def test_sender_never_holds_the_chunk():
    schedule = ring([send for send in MOVES if send[:4] != (0, 2, 3, 0)])
    assert at(schedule, witness_of(schedule)) == (0, 2, 3, 1, 2)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_chunk_is_sent_on_twice(step):
    schedule = ring([*MOVES, (0, 1, 2, 0, step)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 0, step)
    assert witness.rule == "the sender has already sent this chunk on"


def test_a_chunk_leaves_the_node_it_is_for():
    schedule = ring([*MOVES, (0, 1, 2, 1, 3)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 1, 3)
    assert witness.rule == "the sender is the node that this chunk is for, so it must stay"


def test_detour_past_the_destination():
    """The piece of 0 for 1 goes on to 2 and comes back to 1."""
    ring = Topology(3, [0, 1, 2, 1, 2], [1, 2, 0, 0, 1])
    good = random_alltoall(ring, 1, np.random.default_rng(0))
    assert verify(good).ok
    sends = np.array(good.columns()).T.tolist()
    schedule = alltoall(ring, 3, [*sends, (0, 1, 2, 1, 4), (0, 1, 2, 4, 5)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 1, 4)
    assert "must stay" in witness.rule


def test_a_chunk_comes_back_to_its_root():
    star = Topology(3, [0, 0, 1, 2], [1, 2, 0, 0])
    sends = [(0, 1, 2, 0, 1), (0, 2, 3, 1, 1), (1, 0, 1, 2, 1), (2, 0, 1, 3, 1)]
    sends += [(1, 2, 3, 2, 2), (1, 2, 3, 1, 3), (2, 1, 2, 3, 2), (2, 1, 2, 0, 3)]
    assert verify(alltoall(star, 3, sends)).ok
    back = [(0, 1, 2, 1, 1), (0, 1, 2, 3, 2), (0, 1, 2, 0, 3)]
    schedule = alltoall(star, 3, [*sends[1:], *back])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 3, 2)
    assert witness.rule == "this chunk comes back to the root that sent it"
    assert "must stay" in witness_of(schedule.reversed()).rule


def test_the_own_piece_is_never_sent():
    for own in ((1, 1, 2, 1, 1), (1, 0, 3, 1, 3)):
        schedule = ring([*MOVES, own])
        witness = witness_of(schedule)
        assert at(schedule, witness) == own
        rules = {
            (1, 1, 2, 1, 1): "this chunk is of the root's piece for itself, which is never sent",
            (1, 0, 3, 1, 3): "the sender has already sent this chunk on",
        }
        assert witness.rule == rules[own]


def test_a_self_loop_never_helps():
    loops = Topology(2, [0, 1, 0, 1], [1, 0, 0, 1])
    good = [(0, 1, 2, 0, 2), (1, 0, 1, 1, 1)]
    assert verify(alltoall(loops, 2, good)).ok
    schedule = alltoall(loops, 2, [*good, (0, 1, 2, 2, 1)])
    witness = witness_of(schedule)
    assert at(schedule, witness) == (0, 1, 2, 2, 1)
    assert witness.rule == "the link leads from the sender to itself, so this chunk does not move"


def test_a_chunk_never_arrives():
    rule = "this chunk never reaches the node that it is for"
    assert witness_of(ring(MOVES[:-1])) == Witness(rule, root=2, chunk=1, node=1)
    assert witness_of(ring(MOVES[1:])) == Witness(rule, root=0, chunk=1, node=1)
    assert str(witness_of(ring([]))) == f"root 0, chunk 1, node 1: {rule}"
    half = alltoall(RING, 6, [(r, 2 * lo, 2 * hi, e, s) for r, lo, hi, e, s in MOVES[:-1]])
    half = alltoall(RING, 6, [*np.array(half.columns()).T.tolist(), (2, 2, 3, 0, 2)])
    assert witness_of(half) == Witness(rule, root=2, chunk=3, node=1)


def test_nothing_is_to_be_sent():
    lonely = Topology(1, [], [])
    assert verify(alltoall(lonely, 4, [])).ok
    assert not verify(alltoall(Topology(1, [0], [0]), 1, [(0, 0, 1, 0, 1)])).ok


def test_a_wrong_claim():
    assert "the claimed cost" in str(verify(ring(MOVES), Cost(2, Fraction(2))).witness)


def test_one_send_may_be_for_many_nodes():
    """All that node 0 has for nodes 1, 2 and 3 crosses its only link at once."""
    line = Topology(4, [0, 1, 2, 3, 2, 1], [1, 2, 3, 2, 1, 0])
    sends = np.array(random_alltoall(line, 1, np.random.default_rng(0)).columns()).T.tolist()
    assert [0, 1, 4, 0, 1] in sends
    schedule = alltoall(line, 4, sends)
    assert verify(schedule).ok
    assert verify(schedule).max_loads[0] == 3
    assert verify(schedule.reversed(), verify(schedule).cost).ok


# Spoiled schedules.


@pytest.mark.parametrize("name", [name for name in MUTATIONS if name != "swap_phase"])
def test_spoiled_schedules_are_caught(name):
    random = np.random.default_rng(sum(map(ord, name)))
    for schedule in samples():
        for row in random.integers(schedule.num_sends, size=8).tolist():
            if not applicable(name, schedule):
                continue
            spoiled = mutated(schedule, name, row, random)
            verdict = verify(spoiled)
            assert verdict.ok == is_valid(spoiled)
            assert not (verdict.ok and name in ALWAYS_CAUGHT)
            if verdict.ok:
                assert runs_correctly(spoiled)
            if name == "move" and verdict.ok:
                links = [schedule.topology.tail, schedule.topology.head]
                changed = [np.sort(end[spoiled.link]) for end in links]
                before = [np.sort(end[schedule.link]) for end in links]
                assert all(map(np.array_equal, changed, before))


@pytest.mark.slow
@given(st.data())
def test_swapped_steps_of_a_path_are_caught(data):
    """Where a piece's hops change their order in time, one of them is too early."""
    schedule = random_alltoall(data.draw(multigraphs()), 1, data.draw(TINY), 2, merge=False)
    columns = [column.copy() for column in schedule.columns()]
    same = [
        (i, j)
        for i in range(schedule.num_sends)
        for j in range(i)
        if schedule.root[i] == schedule.root[j] and schedule.lo[i] == schedule.lo[j]
    ]
    if not same:
        return
    i, j = data.draw(st.sampled_from(same))
    columns[4][[i, j]] = columns[4][[j, i]]
    spoiled = Schedule(schedule.topology, Collective.ALLTOALL, schedule.num_chunks, *columns)
    assert not verify(spoiled).ok
    assert not is_valid(spoiled)


@given(st.data())
def test_verdict_on_schedules_spoiled_more_than_once(data):
    schedule = data.draw(st.sampled_from(samples()))
    random = data.draw(TINY)
    names = [name for name in MUTATIONS if applicable(name, schedule)]
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=4)):
        if schedule.num_sends:
            schedule = mutated(schedule, name, int(random.integers(schedule.num_sends)), random)
    assert verify(schedule).ok == is_valid(schedule)


@given(st.data())
def test_verdict_on_sends_at_random(data):
    topology = data.draw(multigraphs(max_nodes=3, max_extra=2, speeds=False))
    nodes, links = st.integers(0, topology.num_nodes - 1), st.integers(0, topology.num_links - 1)
    send = st.tuples(nodes, nodes, links, st.integers(1, 4))
    rows = data.draw(st.lists(send, min_size=1, max_size=9))
    sends = [(root, node, node + 1, link, step) for root, node, link, step in rows]
    schedule = alltoall(topology, topology.num_nodes, sends)
    assert verify(schedule).ok == is_valid(schedule)
    if verify(schedule).ok:
        assert runs_correctly(schedule)


# However it is cut.


def test_blocks_of_roots_give_the_same_verdicts(monkeypatch):
    random = np.random.default_rng(3)
    good = [*samples(), random_alltoall(permutation_digraph(24, 2, 1), 1, random)]
    good += [schedule.reversed() for schedule in good[:6]]
    cases = good + [without(schedule, schedule.num_sends // 2) for schedule in good]
    whole = [verify(schedule) for schedule in cases]
    assert [verdict.ok for verdict in whole] == [True] * len(good) + [False] * len(good)
    for entries in (1, 30, 500):
        monkeypatch.setattr(verification, "_BLOCK_ENTRIES", entries)
        # A missing row harms one root only, so that the witness is the same in any block.
        assert [verify(schedule) for schedule in cases] == whole


@pytest.mark.parametrize("chunks", [2**24 // 6 * 6 + 6, 2**31 - 2])
def test_very_many_chunks(chunks):
    small = two_way_ring(6)
    scaled = small.with_chunks(chunks - chunks % small.num_chunks)
    assert verify(scaled) == verify(small)
    columns = [column.copy() for column in scaled.columns()]
    columns[1][0] += 1
    witness = verify(Schedule(scaled.topology, scaled.collective, scaled.num_chunks, *columns))
    assert not witness.ok
    assert verify(scaled.reversed()).ok


# Time and links reversed.


@given(alltoalls())
def test_reversed(schedule):
    back = schedule.reversed()
    assert back.collective == Collective.ALLTOALL
    assert back.topology == schedule.topology.transpose()
    assert back.max_loads() == schedule.max_loads()[::-1]
    assert verify(back).ok
    assert runs_correctly(back)
    assert back.reversed().reversed() == back
    assert verify(back.reversed()).max_loads == schedule.max_loads()


def test_roots_and_destinations_change_places():
    schedule = alltoall(RING, 6, [(2, 1, 4, 2, 1), (1, 0, 2, 2, 3)])
    back = schedule.reversed()
    rows = list(zip(*(column.tolist() for column in back.columns()), strict=True))
    assert rows == [(0, 2, 4, 2, 1), (0, 5, 6, 2, 3), (1, 4, 6, 2, 3)]
    split = [(2, 1, 2, 2, 1), (2, 2, 4, 2, 1), (1, 0, 2, 2, 3)]
    assert back.reversed() == alltoall(RING, 6, split)
    assert ring([]).reversed().num_sends == 0


@given(alltoalls(max_nodes=4))
def test_a_schedule_that_is_wrong_is_wrong_reversed(schedule):
    spoiled = without(schedule, 0)
    assert not verify(spoiled).ok
    assert not verify(spoiled.reversed()).ok


# What it is not for.


def test_then_refuses():
    for halves in ((ring(MOVES), bfb(RING)), (bfb(RING, "reduce-scatter"), ring(MOVES))):
        with pytest.raises(ValueError, match="a reduce-scatter and then an allgather, not "):
            halves[0].then(halves[1])


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_every_shard_has_a_piece_for_each_node(chunks):
    with pytest.raises(ValueError, match="a multiple of the 3 units"):
        alltoall(RING, chunks, [])
    with pytest.raises(ValueError, match=r"an allreduce, and only an allreduce, has a phase"):
        Schedule(RING, Collective.ALLTOALL, 3, [0], [1], [2], [0], [1], [0])


def test_what_makes_gathering_schedules_refuses():
    from ocs_codesign.schedules.design import (
        build,
        build_topology,
        measure,
        measure_topology,
        predict,
    )
    from ocs_codesign.search.catalogue.entry import Entry, find
    from ocs_codesign.search.frontiers import frontier

    recipe = parse("Line(Complete(3))")
    entry = Entry("r", "l", 6, 2, False, False, Cost(1, 0), Cost(1, 0), "bfb", True)
    attempts = [
        lambda: bfb(RING, "all-to-all"),
        lambda: recipe.predict("all_to_all"),
        lambda: recipe.expansion_schedule(Collective.ALLTOALL),
        lambda: predict(recipe, "alltoall"),
        lambda: measure(recipe, "alltoall"),
        lambda: build(recipe, "alltoall"),
        lambda: build_topology(RING, "alltoall"),
        lambda: measure_topology(RING, "alltoall"),
        lambda: frontier(8, 2, "alltoall"),
        lambda: entry.cost(Collective.ALLTOALL),
        lambda: find(None, None, "alltoall"),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"^BFB makes allgather, .* not all-to-all$"):
            attempt()
    with pytest.raises(ValueError, match=r"what L\(K3\) costs for alltoall is not known"):
        measure(recipe).cost_of(Collective.ALLTOALL)


def test_gathering_collectives_are_all_others():
    assert set(WITHOUT_PARAMETERS) - set(GATHERING) == {Collective.ALLTOALL}


# On disk.


@pytest.fixture
def saved(tmp_path):
    schedule = bipartite(2)
    recipe = parse("CompleteBipartite(2)")
    design = verified(recipe, schedule, "by hand")
    save_design(design, tmp_path / "d")
    return tmp_path / "d", design


def test_schedules_come_back(saved):
    path, design = saved
    loaded = load_design(path)
    assert loaded.schedule == design.schedule
    assert (loaded.claimed, loaded.loads) == (design.cost, design.loads)
    assert verify(loaded.schedule, loaded.claimed).ok
    assert load_design(path / "schedule.npz").schedule == design.schedule
    assert arrays_of(design.schedule)["collective"][()] == "alltoall"


def test_the_command_line_verifies(saved, capsys):
    assert main(["verify", str(saved[0])]) == 0
    out = capsys.readouterr().out
    assert "alltoall" in out
    assert "largest load (pieces)" in out


def test_the_command_line_finds_a_fault(saved, capsys):
    path, design = saved
    broken = replace(design, built=without(design.schedule, 0), recipes=())
    save_design(broken, path)
    assert main(["verify", str(path)]) == 1
    assert "Not valid: " in capsys.readouterr().out
