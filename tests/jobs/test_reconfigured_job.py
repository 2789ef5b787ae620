"""Circuits that change inside an iteration: known answers, brute force, and a replay of runs."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.options import FabricOption
from ocs_codesign.core.cost import CostModel
from ocs_codesign.graphs.text import parse
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.on_links import steady_on_links
from ocs_codesign.jobs.prices import Level, Machine
from ocs_codesign.jobs.reconfigured.clock import (
    changes_of,
    cuts_of,
    formula_clock,
    is_change,
    with_changes,
)
from ocs_codesign.jobs.reconfigured.on_networks import on_networks
from ocs_codesign.jobs.reconfigured.planning import plan_iteration
from ocs_codesign.jobs.reconfigured.prices import ConfiguredJob, Reach, configured, fastest_way
from ocs_codesign.jobs.reconfigured.search import Search, bound_s

RINGS = [parse("DirectedCirculant(4, (1,))"), parse("DirectedCirculant(4, (2,))")]
ONE_LEVEL = Machine((Level(4, CostModel(0, 1)),))


def sums(*, gap=0, beside=0):
    """All four sum 8 bytes: 12 s, on the ring alone; then pairs two apart 24: 24 s, there 48 s.

    Between the two ``gap`` s of computation, and ``beside`` s that nothing but the end waits for.
    """
    draft = JobDraft(1, [4])
    last = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3), label="all")
    if gap:
        last = [draft.compute(0, gap * 10**9, last)]
    draft.collective("allreduce", (0,), 24, {0: last}, num_ranks=2, between=(0, 2), label="pairs")
    if beside:
        draft.compute(0, beside * 10**9)
    return draft.graph()


def planned(delay_s, **options):
    job = configured(sums(**options), ONE_LEVEL, RINGS, Change(delay_s))
    return plan_iteration(job)


@pytest.mark.parametrize(
    ("delay_s", "period_s", "choice"),
    [
        (0, 36, [0, 1]),
        (5, 46, [0, 1]),
        (Fraction("11.5"), 59, [0, 1]),
        (12, 60, [0, 0]),
        (13, 60, [0, 0]),
        (1000, 60, [0, 0]),
    ],
)
def test_two_messages_on_two_configurations(delay_s, period_s, choice):
    found = planned(delay_s)
    assert (found.best.period_s, found.best.choice.tolist()) == (period_s, choice)
    assert [None if one is None else one.period_s for one in found.held] == [60, None]
    assert (found.best_held, found.is_proven, found.bound_s) == (0, True, period_s)
    assert found.break_even_s == 12


@pytest.mark.parametrize(
    ("delay_s", "period_s", "waits_s"),
    [(0, 43, 0), (6, 49, 6), (7, 50, 7), (10, 56, 13), (15, 66, 23), (15.5, 67, None)],
)
def test_computation_hides_a_change(delay_s, period_s, waits_s):
    """7 s between the messages hide the change there, nothing hides the one back: 43 + 2 d - 7."""
    found = planned(delay_s, gap=7)
    assert found.best.period_s == period_s
    assert found.break_even_s == Fraction("15.5")
    changes = changes_of(found.job, found.best)
    if waits_s is None:
        assert (changes, found.best.num_changes) == ((), 0)
        return
    assert sum(one.exposed_s for one in changes) == waits_s
    assert [(one.position, one.label, one.before, one.after) for one in changes] == [
        (0, "all", 1, 0),
        (1, "pairs", 0, 1),
    ]
    assert {one.dark_s for one in changes} == {Fraction(delay_s)}


def test_computation_beside_both_messages_hides_all():
    """100 s that overlap everything: no change and no message shows."""
    found = planned(10, beside=100)
    assert found.best.period_s == 100
    assert found.best.num_changes == 0  # of equal sequences the one that changes less
    assert found.break_even_s is None


def test_a_single_message_needs_no_change():
    draft = JobDraft(1, [4])
    draft.collective("alltoall", (0,), 8, {}, num_ranks=4, between=(0, 3))
    job = configured(draft.graph(), ONE_LEVEL, RINGS, Change(0))
    found = plan_iteration(job)
    assert (found.best.choice.tolist(), found.best.period_s) == ([0], 12)


def test_nothing_can_be_held():
    """Pairs one apart and pairs two apart, on circuits for one of both alone."""
    draft = JobDraft(1, [4])
    last = draft.collective("allreduce", (0,), 24, {}, num_ranks=2, between=(0, 2))
    draft.send(0, 0, 8, last, between=(0, 2))
    swap = [parse("DirectedCirculant(4, (2,))"), parse("Circulant(4, (1,))")]
    with pytest.raises(ValueError, match="one fabric holds all designs"):
        configured(draft.graph(), ONE_LEVEL, swap, Change(1))
    drawn = drawn_job([[3, None], [None, 4]], [0, 0], 5)
    found = plan_iteration(drawn)
    assert found.held == (None, None)
    assert (found.best_held, found.break_even_s) == (None, None)
    assert (found.best.period_s / drawn.graph.tick_s, found.is_proven) == (3 + 4 + 2 * 5, True)


def drawn_job(costs, gaps, delay, *, chain=True):
    """A job whose messages cost so much by configuration, a gap of computation before each."""
    draft, last = JobDraft(1, [2]), []
    carried = []
    for number, gap in enumerate(gaps):
        before = last
        if gap:
            last = [draft.compute(0, gap, last, label="gap")]
        first = draft.collective(
            *("allreduce", (0,), 1, {0: last}),
            num_ranks=2,
            between=(0, 1),
            label=f"m{number}",
            is_gradient=not chain,
        )
        if chain:
            last = first
        else:
            carried += [(first[0], last[0])] if last else []
            last = last or before
    for one, other in carried:
        draft.carry(one, other)
    if chain:
        draft.carry(last[0], 0)
    graph = draft.graph()
    talks = np.flatnonzero(graph.is_communication)
    many = len(costs[0])
    work = np.tile(graph.work, (many, 1))
    serves = np.ones((many, len(costs)), dtype=bool)
    for which, row in enumerate(costs):
        for at, cost in enumerate(row):
            serves[at, which] = cost is not None
            work[at, talks[which]] = cost or 0
    dead = np.where(np.eye(many, dtype=bool), 0, np.asarray(delay)).astype(np.int64)
    return ConfiguredJob(
        graph,
        tuple(FabricOption(f"configuration {at}") for at in range(many)),
        *(np.zeros_like(work), work, np.ones(len(costs), dtype=bool), serves, dead),
    )


def total_of(job, costs, gaps, choice):
    """What a round takes by hand: messages, computation, and what it does not hide of changes."""
    total = 0
    for at, one in enumerate(choice):
        dead = int(job.dead_ticks[choice[at - 1], one])
        total += costs[at][one] + max(gaps[at], dead)
    return total


@st.composite
def rounds(draw):
    many = draw(st.integers(2, 3))
    number = draw(st.integers(1, 5))
    cost = st.integers(1, 30)
    costs = [
        draw(st.lists(st.one_of(cost, cost, cost, st.none()), min_size=many, max_size=many))
        for _ in range(number)
    ]
    for row in costs:
        if all(one is None for one in row):
            row[draw(st.integers(0, many - 1))] = draw(cost)
    gaps = draw(st.lists(st.integers(0, 12), min_size=number, max_size=number))
    if draw(st.booleans()):
        delay = draw(st.integers(0, 20))
    else:
        row = st.lists(st.integers(0, 20), min_size=many, max_size=many)
        delay = draw(st.lists(row, min_size=many, max_size=many))
    return costs, gaps, delay


def sequences(job):
    number = int(job.over_circuits.sum())
    for choice in product(range(job.num_configurations), repeat=number):
        if job.serves[list(choice), np.arange(number)].all():
            yield np.array(choice, dtype=np.int64)


@settings(max_examples=25)
@given(rounds())
def test_the_plan_of_a_chain_is_the_best_of_all(drawn):
    costs, gaps, delay = drawn
    job = drawn_job(costs, gaps, delay)
    found = plan_iteration(job)
    every = [total_of(job, costs, gaps, choice) for choice in sequences(job)]
    assert found.best.period_s == min(every) * job.graph.tick_s
    assert found.is_proven
    order = np.arange(len(costs))
    for choice in list(sequences(job))[:4]:  # the clock agrees with what is counted by hand
        clocked = formula_clock(job, order, choice).period_s
        assert clocked == total_of(job, costs, gaps, choice) * job.graph.tick_s


@settings(max_examples=15)
@given(rounds())
def test_where_computation_overlaps(drawn):
    """Few sequences are all tried; no bound is above any; what is found replays."""
    costs, gaps, delay = drawn
    job = drawn_job(costs, [gap + 1 for gap in gaps], delay, chain=False)
    search = Search(job, formula_clock)
    found = plan_iteration(job)
    periods = {
        (number, tuple(choice)): formula_clock(job, order.instances, choice).period_s
        for number, order in enumerate(search.orders)
        for choice in sequences(job)
    }
    assert found.best.period_s == min(periods.values())
    for number, order in enumerate(search.orders):
        least = min(one for (which, _), one in periods.items() if which == number)
        assert bound_s(job, order) <= least
    replay(job, found.best)


@st.composite
def jobs_of_groups(draw):
    """Four ranks, groups of some of them side by side, two configurations with drawn prices."""
    job, last = JobDraft(4), {}
    number = draw(st.integers(2, 5))
    for at in range(number):
        group = sorted(draw(st.sets(st.integers(0, 3), min_size=2)))
        for rank in group:
            if draw(st.booleans()):
                last[rank] = job.compute(
                    rank, draw(st.integers(0, 9)), [last[rank]] if rank in last else []
                )
        after = {rank: [last[rank]] for rank in group if rank in last}
        gradient = draw(st.booleans())
        nodes = job.collective("allreduce", group, 1, after, label=f"m{at}", is_gradient=gradient)
        if not gradient:
            last |= dict(zip(group, nodes, strict=True))
    graph = job.graph()
    talks = graph.is_communication
    work = np.tile(graph.work, (2, 1))
    drawn = draw(st.lists(st.integers(0, 20), min_size=2 * number, max_size=2 * number))
    for at in range(2):
        work[at, talks] = np.array(drawn).reshape(2, number)[at][graph.instance[talks]]
    delay = draw(st.integers(0, 15))
    return ConfiguredJob(
        *(graph, (FabricOption("one"), FabricOption("other")), np.zeros_like(work), work),
        *(np.ones(number, dtype=bool), np.ones((2, number), dtype=bool)),
        np.array([[0, delay], [delay, 0]]),
    )


@settings(max_examples=15)
@given(jobs_of_groups())
def test_groups_side_by_side(job):
    """The whole fabric stops for a change, whichever ranks send; a delay never helps."""
    found = plan_iteration(job)
    held = [one.period_s for one in found.held]
    assert found.bound_s <= found.best.period_s <= min(held)
    replay(job, found.best)
    if found.break_even_s is not None:
        assert plan_iteration(job.with_delay(Fraction(0))).best.period_s < min(held)
    for order in Search(job, formula_clock).orders:
        for choice in sequences(job):
            assert found.bound_s <= formula_clock(job, order.instances, choice).period_s


def replay(job, found):
    """No message over circuits is in flight while they are dark, or on another configuration."""
    graph, done = job.graph, found.steady.job_run
    times = found.steady.num_iterations
    num = done.graph.num_nodes // times
    config = dict(zip(found.order.tolist(), found.choice.tolist(), strict=True))
    sends = []
    for turn in range(times):
        for node in np.flatnonzero(graph.is_communication).tolist():
            which = int(graph.instance[node])
            if job.over_circuits[which]:
                place = turn * num + node
                sends.append((int(done.start[place]), int(done.end[place]), config[which]))
                work = job.latency[config[which], node] + job.work[config[which], node]
                assert done.end[place] - done.start[place] == work
    dark = np.flatnonzero(is_change(done))
    dark = [(int(done.start[one]), int(done.end[one])) for one in dark]
    assert len(dark) == times * len(cuts_of(found.choice))
    for begin, end in dark:
        assert all(stop <= begin or start >= end for start, stop, _ in sends if start < stop)
    ordered = sorted(one for one in sends if one[0] < one[1])
    for (_, stop, held), (start, _, other) in pairwise(ordered):
        if held != other:
            dead = job.dead_ticks[held, other]
            assert any(
                stop <= begin and end <= start and end - begin == dead for begin, end in dark
            )


def test_the_replay_sees_messages_that_do_not_wait():
    """A change of which messages know nothing is caught."""
    job = drawn_job([[3, 9], [9, 4]], [1, 1], 5)
    order, choice = np.arange(2), np.array([0, 1])
    replay(job, Search(job, formula_clock).best())
    free = ConfiguredJob(
        *(job.graph, job.options, job.latency, job.work, job.over_circuits, job.serves),
        np.zeros_like(job.dead_ticks),
    )
    found = Search(free, formula_clock).best()
    assert found.choice.tolist() == choice.tolist()
    with pytest.raises(AssertionError):
        replay(job, found)
    assert with_changes(job, order, choice).num_nodes == job.graph.num_nodes + 2


def test_a_long_round_is_planned_and_its_changes_moved():
    """Thirty gradients: more sequences than are tried, never slower than what is held."""
    rng = np.random.default_rng(3)
    costs = rng.integers(1, 30, (30, 2)).tolist()
    gaps = rng.integers(1, 9, 30).tolist()
    job = drawn_job(costs, gaps, 4, chain=False)
    found = plan_iteration(job)
    held = min(one.period_s for one in found.held)
    assert found.bound_s <= found.best.period_s < held
    assert not found.all_tried
    assert found.break_even_s * found.best.num_changes <= held
    replay(job, found.best)
    again = plan_iteration(job)
    assert again.best.choice.tolist() == found.best.choice.tolist()


class TestPrices:
    def test_groups_use_their_own_links_or_those_of_others(self):
        job = configured(sums(), ONE_LEVEL, RINGS, Change(1))
        ticks = (job.latency + job.work)[:, :2] * job.graph.tick_s
        assert ticks[:, 0].tolist() == [12, 0]
        assert ticks[:, 1].tolist() == [48, 24]
        assert job.serves.tolist() == [[True, True], [False, True]]
        assert job.dead_ticks.tolist() == [[0, job.dead_ticks[0, 1]], [job.dead_ticks[1, 0], 0]]

    def test_all_to_all_takes_the_best_routing(self):
        """On the ring of eight 7/2, as on any ring; on K(4,4) 5/4, after two steps."""
        draft = JobDraft(1, [8])
        draft.collective("alltoall", (0,), 80, {}, num_ranks=8, between=(0, 7))
        machine = Machine((Level(8, CostModel(2, 1)),))
        both = [parse("CompleteBipartite(4)"), parse("Circulant(8, (1, 2))")]
        job = configured(draft.graph(), machine, both, Change(1))
        tick_s = job.graph.tick_s
        assert (job.latency[0, 0] * tick_s, job.work[0, 0] * tick_s) == (4, 100)
        from ocs_codesign.schedules.paths.throughput import throughput

        time = throughput(both[1].topology()).time
        assert job.work[1, 0] * tick_s == 80 * time

    def test_changes_count_circuits(self):
        job = configured(sums(), ONE_LEVEL, RINGS, Change(1, 2))
        assert (job.dead_ticks * job.graph.tick_s).tolist() == [[0, 9], [9, 0]]

    def test_servers_on_rails(self):
        """Blocks of two: inside a reduce-scatter and an allgather, half of M over the circuits."""
        machine = Machine((Level(2, CostModel(0, 4)), Level(8, CostModel(0, 1))))
        draft = JobDraft(1, [8])
        draft.collective("allreduce", (0,), 8, {}, num_ranks=8, between=(0, 7))
        draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 6))
        draft.collective("allreduce", (0,), 8, {}, num_ranks=2, between=(0, 1))
        draft.send(0, 0, 8, between=(0, 2))
        job = configured(draft.graph(), machine, RINGS, Change(1))
        times = job.work[0] * job.graph.tick_s
        assert times[:2].tolist() == [2 + 6, 12]  # inside 8 (1/2 + 1/2) / 4, outside 4 * 3/2
        assert job.over_circuits.tolist() == [True, True, False, True]
        assert times[3] == 8  # there and back round the ring, over links of their own

    @pytest.mark.parametrize(
        ("recipes", "rule"),
        [
            (RINGS[:1], "1 different configurations: from 2 to 16"),
            (RINGS[:1] * 2, "1 different configurations: from 2 to 16"),
            (
                [parse("DirectedCirculant(5, (1,))"), parse("DirectedCirculant(5, (2,))")],
                "circuits of this job of 4 ranks join 4",
            ),
        ],
    )
    def test_refuses(self, recipes, rule):
        with pytest.raises(ValueError, match=rule):
            configured(sums(), ONE_LEVEL, recipes, Change(1))

    def test_refuses_a_message_that_nothing_serves(self):
        both = [parse("DirectedCirculant(4, (2,))"), parse("Circulant(4, (2,))")]
        with pytest.raises(ValueError, match=r"node 0 \(all\), allreduce .* cannot be sent"):
            configured(sums(), ONE_LEVEL, both, Change(1))

    def test_refuses_a_job_without_messages(self):
        draft = JobDraft(4)
        draft.compute(0, 5)
        job = configured(draft.graph(), ONE_LEVEL, RINGS, Change(1))
        with pytest.raises(ValueError, match="no message of this job goes over circuits"):
            plan_iteration(job)


class TestOnLinks:
    def pairs_and_all(self):
        """Four ranks that gather 8 bytes of each other, then send each other 24 two by two."""
        draft = JobDraft(4)
        last = draft.collective("allgather", range(4), 8, {}, label="all")
        for low in (0, 1):
            group = (low, low + 2)
            after = {rank: [last[rank]] for rank in group}
            draft.collective("allgather", group, 24, after, label="pairs")
        return draft.graph()

    def on_rings(self, delay_s=5, **options):
        job = configured(self.pairs_and_all(), ONE_LEVEL, RINGS, Change(delay_s))
        return job, on_networks(job, ONE_LEVEL, None, cut_through=False, **options)

    def test_by_hand(self):
        """2 s a shard round the ring: 6; pairs on links of their own 12, over the ring 24."""
        job, placed = self.on_rings()
        found = plan_iteration(placed.job, placed.clock, least=placed.least)
        assert found.held[0].period_s == 6 + 2 * 12
        assert found.held[1] is None
        assert (found.best.period_s, found.best.choice.tolist()) == (6 + 12 + 2 * 5, [0, 1, 1])
        assert found.bound_s <= found.best.period_s
        assert found.break_even_s == 6
        assert formula_clock(job, found.best.order, found.best.choice).period_s == 28
        replay_bytes(placed, found.best)

    def test_waits_at_the_links_of_its_own_configuration(self):
        """Both pairs share every link of the ring, and none of their own circuits."""
        _, placed = self.on_rings(1)
        order = np.arange(3)
        for choice, busy in (([0, 0, 0], [6 + 24] * 4 + [0] * 4), ([0, 1, 1], [6] * 4 + [12] * 4)):
            steady = placed.clock(placed.job, order, np.array(choice))
            shape_of = placed.shapes_of(placed.job, order, np.array(choice))
            used = placed.together.link_ticks(shape_of) * placed.together.network.tick_s
            assert used.tolist() == busy
            assert steady.is_steady

    def test_side_by_side_is_each_alone(self):
        """A configuration that is held is the job on its network, whatever stands beside it."""
        graph = self.pairs_and_all()
        recipes = [parse("BiRing(2, 4)"), parse("Circulant(4, (1,))"), parse("UniRing(2, 4)")]
        job = configured(graph, ONE_LEVEL, recipes, Change(1))
        placed = on_networks(job, ONE_LEVEL, Fraction(1, 10), cut_through=True)
        for at, one in enumerate(placed.by_configuration):
            alone, _ = steady_on_links(with_changes(placed.job, np.arange(3), np.full(3, at)), one)
            together = placed.clock(placed.job, np.arange(3), np.full(3, at))
            assert alone.period_s == together.period_s
            assert np.array_equal(alone.job_run.end, together.job_run.end)

    def test_a_chain_is_proven(self):
        """One message after the other: what they take alone is what they take."""
        draft, last = JobDraft(1, [8]), []
        for name in ("allgather", "alltoall", "allreduce"):
            last = [draft.compute(0, 3 * 10**9, last)]
            last = draft.collective(name, (0,), 80, {0: last}, num_ranks=8, between=(0, 7))
        machine = Machine((Level(8, CostModel(2, 1)),))
        recipes = [parse("CompleteBipartite(4)"), parse("Circulant(8, (1, 2))")]
        job = configured(draft.graph(), machine, recipes, Change(1))
        placed = on_networks(job, machine, None, cut_through=False)
        found = plan_iteration(placed.job, placed.clock, least=placed.least)
        every = [
            placed.clock(placed.job, found.best.order, choice).period_s for choice in sequences(job)
        ]
        assert found.best.period_s == min(every) == found.bound_s

    def test_refuses_several_levels(self):
        machine = Machine((Level(2, CostModel(0, 4)), Level(8, CostModel(0, 1))))
        draft = JobDraft(8)
        draft.collective("allreduce", range(8), 8, {})
        job = configured(draft.graph(), machine, RINGS, Change(1))
        with pytest.raises(ValueError, match="the machine has 2 levels"):
            on_networks(job, machine, None, cut_through=False)

    def test_refuses_classes(self):
        job = configured(sums(), ONE_LEVEL, RINGS, Change(1))
        with pytest.raises(ValueError, match="every rank is simulated by itself"):
            on_networks(job, ONE_LEVEL, None, cut_through=False)


def replay_bytes(placed, found):
    """While circuits are dark no message is in flight, and each uses links of one configuration."""
    job, done = placed.job, found.steady.job_run
    dark = np.flatnonzero(is_change(done))
    for begin, end in zip(done.piece_begin, done.piece_end, strict=True):
        assert all(end <= done.start[one] or begin >= done.end[one] for one in dark)
    shapes = placed.shapes_of(job, found.order, found.choice)
    start = np.append(0, np.cumsum([one.network.num_links for one in placed.by_configuration]))
    used = placed.together
    for which, at in zip(found.order, found.choice, strict=True):
        mine = slice(used.used_start[shapes[which]], used.used_start[shapes[which] + 1])
        links = used.used_link[mine]
        assert ((links >= start[at]) & (links < start[at + 1])).all()


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@pytest.mark.parametrize("group", [(0, 4, 8, 12), (0, 1, 2, 3), (1, 2, 7)])
def test_the_way_of_the_formula_is_that_of_the_links(collective, group):
    """Inside its own links a group takes what the formula says, on shared paths no less."""
    model = CostModel(Fraction(1, 1000), 1)
    machine = Machine((Level(16, model),))
    draft = JobDraft(16)
    beside = Reach(group).groups(16)
    for one in beside:  # the formula counts what they send too
        draft.collective(collective, one, 4800, {})
    recipes = [parse("Circulant(16, (1, 4))"), parse("Torus((4, 4))")]
    job = configured(draft.graph(), machine, recipes, Change(0))
    ways = [
        fastest_way(one, Reach(group), collective, model, Fraction(4800)) for one in job.options
    ]
    placed = on_networks(job, machine, Fraction(1, 1000), cut_through=False)
    order = np.arange(len(beside))
    for at, way in enumerate(ways):
        took = placed.clock(placed.job, order, np.full(len(order), at)).period_s
        formula = formula_clock(job, order, np.full(len(order), at)).period_s
        if way[0] == "inside":
            assert took == pytest.approx(float(formula), rel=1e-3)
        else:
            assert took >= formula * Fraction(999, 1000)
