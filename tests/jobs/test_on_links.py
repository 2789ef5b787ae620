"""Jobs on links: known nanoseconds, groups that share links, and the formula beside them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.network import Network, shortest_routes
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.core.networks.products import leaf_spine
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.core.topology import Topology
from ocs_codesign.jobs.issue import (
    Discipline,
    IssueOrder,
    RanksStuckError,
    period_bound_s,
    run,
    steady,
)
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.layers import LayerTimes
from ocs_codesign.jobs.on_links import (
    LinkPlans,
    alone_ticks,
    bound_on_links_s,
    on_clock,
    placed,
    run_on_links,
    steady_on_links,
)
from ocs_codesign.jobs.prices import GroupBook, Level, Machine, priced
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.simulate.engine import simulate_transfers
from ocs_codesign.schedules.simulate.making import transfers_of_messages
from ocs_codesign.schedules.simulate.transfers import TimingRules

MIB = 2**20
ASTRA = TimingRules(unit_Bps=Fraction(2**30), in_doubles=True)
BYTE_A_TICK = TimingRules(unit_Bps=Fraction(10**9))


def machine_of(num_ranks, algorithm="ring"):
    return Machine((Level(num_ranks, CostModel(0, 1), algorithm),))


def alone(network, name, num_ranks, size, algorithm="ring", rules=ASTRA):
    """Ticks of one collective of all ranks by itself."""
    draft = JobDraft(num_ranks)
    draft.collective(name, range(num_ranks), size, {})
    graph = draft.graph()
    on = placed(graph, network, rules, LinkPlans(machine_of(num_ranks, algorithm)))
    done = run_on_links(graph, on)
    assert alone_ticks(on).tolist() == [done.job_run.total_ticks]
    return done.job_run.total_ticks


@pytest.mark.parametrize(
    ("graph", "name", "size", "algorithm", "ticks"),
    [
        ("Complete(4)", "allgather", 4 * MIB, "ring", 60_093),
        ("Complete(8)", "allgather", 8 * MIB, "ring", 140_217),
        ("BiRing(2, 16)", "allgather", 16 * MIB, "ring", 300_465),
        ("Complete(4)", "allgather", 4 * 1_000_003, "ring", 57_378),
        ("Complete(8)", "reduce-scatter", 8 * MIB, "ring", 140_224),
        ("Complete(8)", "allreduce", MIB, "ring", 41_181),
        ("BiRing(2, 8)", "allreduce", 8 * MIB, "ring", 280_441),
        ("Complete(6)", "allgather", 6 * MIB, "bruck", 59_593),
        ("BiRing(2, 6)", "allgather", 6 * MIB, "bruck", 99_155),
        ("Complete(8)", "alltoall", 8 * MIB, "bruck", 235_875),
        ("BiRing(2, 8)", "alltoall", 8 * MIB, "bruck", 550_375),
        ("BiRing(2, 6)", "alltoall", 6 * MIB, "direct", 118_186),
        ("BiRing(2, 6)", "alltoall", 6 * MIB, "ring", 118_186),
    ],
)
def test_a_collective_by_itself_takes_the_known_nanoseconds(graph, name, size, algorithm, ticks):
    network = direct(as_topology(graph), 50, 500)
    assert alone(network, name, network.num_hosts, size, algorithm) == ticks


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
@pytest.mark.parametrize("num_ranks", [2, 5])
def test_rooted_collectives_take_the_steps_of_the_formula(name, num_ranks):
    network = direct(as_topology(f"Complete({num_ranks})"), 1)
    size = 120 * num_ranks
    additions = num_ranks - 1 if name == "reduce" else 0
    found = alone(network, name, num_ranks, size, rules=BYTE_A_TICK)
    assert 0 <= found - (2 * num_ranks - 2) * 120 <= additions + num_ranks


def dumbbell(width=1, latency=0):
    """Hosts 0 and 1 on one switch, 2 and 3 on the other, and a trunk between them."""
    ends = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 5)]
    ends += [(head, tail) for tail, head in ends]
    tail, head = zip(*ends, strict=True)
    widths = [1, 1, 1, 1, width] * 2
    return Network(4, 6, tail, head, widths, [latency] * 10)


def groups_job(groups, size=1000, name="allgather"):
    draft = JobDraft(4)
    for group in groups:
        draft.collective(name, group, size, {}, label=f"{group}")
    return draft.graph()


@pytest.mark.parametrize(
    ("cut_through", "width", "ends"),
    [
        # A half of 500 bytes crosses three links: stored and forwarded 1500, the other behind it
        # on the trunk; in one go 500 and 1000, also where the trunk is faster than what feeds it.
        (False, 1, [1500, 2000]),
        (True, 1, [500, 1000]),
        (False, 2, [1250, 1500]),
        (True, 2, [500, 1000]),
    ],
)
def test_two_groups_on_one_trunk_are_slower_by_the_right_factor(cut_through, width, ends):
    rules = TimingRules(unit_Bps=Fraction(10**9), cut_through=cut_through)
    graph = groups_job([(0, 2), (1, 3)])
    on = placed(graph, dumbbell(width), rules, LinkPlans())
    done = run_on_links(graph, on)
    assert done.instance_ticks().tolist() == ends
    assert alone_ticks(on).tolist() == [ends[0]] * 2
    waits = ends[1] - ends[0]
    assert done.waited_of.tolist() == [0, 2 * waits]
    trunk = 4
    assert done.waited[trunk] == waits
    assert set(np.flatnonzero(done.waited)) == {trunk, trunk + 5}
    assert done.link_busy()[[0, trunk]].tolist() == [500, 2 * 500 // width]
    beside = groups_job([(0, 1), (2, 3)])
    apart = run_on_links(beside, placed(beside, dumbbell(width), rules, LinkPlans()))
    assert not apart.waited.any()
    assert len(set(apart.instance_ticks().tolist())) == 1


def test_more_groups_on_one_link_take_as_many_times_as_long():
    # Eight hosts in pairs over one link each way, whose hosts have links of their own to it.
    leaf = leaf_spine(2, 4, 1, 1, 1)
    rules = TimingRules(unit_Bps=Fraction(10**9), cut_through=True)
    draft = JobDraft(8)
    for at in range(4):
        draft.collective("allgather", (at, at + 4), 2000, {})
    graph = draft.graph()
    done = run_on_links(graph, placed(graph, leaf, rules, LinkPlans()))
    assert done.instance_ticks().tolist() == [1000, 2000, 3000, 4000]


@pytest.mark.parametrize("algorithm", ["ring", "direct", "bruck"])
@pytest.mark.parametrize("name", ["allgather", "reduce-scatter", "allreduce", "alltoall"])
def test_both_fidelities_agree_where_links_are_not_shared(algorithm, name):
    # Every rank sends to one other at a time, or has a link to each: the formula is right but for
    # additions and floors. Through a switch all would send to one rank at once with direct.
    num_ranks, size = 6, 6 * MIB
    network = star(num_ranks, 50).with_latency(250)
    if algorithm == "direct":
        network = direct(as_topology("Complete(6)"), 10, 500)
    rules = TimingRules(unit_Bps=Fraction(10**9), cut_through=True)
    draft = JobDraft(num_ranks)
    first = [draft.compute(rank, 5000) for rank in range(num_ranks)]
    after = {rank: [node] for rank, node in enumerate(first)}
    draft.collective(name, range(num_ranks), size, after)
    level = Level(num_ranks, CostModel(Fraction(500, 10**9), 50 * 10**9), algorithm)
    graph = priced(draft.graph(), Machine((level,)))
    formula = run(graph).total_s
    ticked = on_clock(graph, network.tick_s)
    found = run_on_links(ticked, placed(ticked, network, rules, LinkPlans(Machine((level,)))))
    assert abs(found.job_run.total_s / formula - 1) < Fraction(2, 100)


@pytest.mark.parametrize("algorithm", ["ring", "direct", "bruck"])
@settings(max_examples=15)
@given(
    st.integers(2, 7),
    st.sampled_from(["allgather", "reduce-scatter", "allreduce", "alltoall"]),
    st.integers(1, 5000),
    st.integers(0, 300),
    st.booleans(),
)
def test_a_collective_by_itself_is_what_the_simulator_has(
    algorithm, num_ranks, name, size, latency, cut_through
):
    network = direct(as_topology(f"BiRing(2, {num_ranks + 1})"), 3).with_latency(latency)
    rules = TimingRules(unit_Bps=Fraction(10**9), cut_through=cut_through)
    draft = JobDraft(num_ranks)
    draft.collective(name, range(num_ranks), size, {})
    graph = draft.graph()
    on = placed(graph, network, rules, LinkPlans(machine_of(num_ranks, algorithm)))
    done = run_on_links(graph, on)
    maker = "shift" if (algorithm, name) == ("ring", "alltoall") else algorithm
    messages = CLASSIC[maker].messages(name, num_ranks)
    pairs = np.unique(messages.source.astype(np.int64) * (num_ranks + 1) + messages.target)
    topology = Topology(num_ranks + 1, *np.divmod(pairs, num_ranks + 1))
    routes = shortest_routes(topology, network)
    simulated = simulate_transfers(transfers_of_messages(messages, routes, size), rules)
    assert done.job_run.total_ticks == simulated.total_ticks
    assert done.link_busy().tolist() == simulated.link_busy().tolist()


@settings(max_examples=20)
@given(st.randoms(use_true_random=False), st.integers(1, 2), st.booleans())
def test_links_serve_one_message_at_a_time_and_all_that_is_sent(random, window, exclusive):
    network = star(5, 2).with_latency(3)
    draft = JobDraft(5)
    last = [[draft.compute(rank, random.randint(0, 40))] for rank in range(5)]
    for _ in range(6):
        group = random.sample(range(5), random.randint(2, 5))
        name = random.choice(["allgather", "allreduce", "alltoall"])
        after = {rank: last[rank] for rank in group}
        nodes = draft.collective(name, group, random.randint(1, 99), after, priority=0)
        for rank, node in zip(sorted(group), nodes, strict=True):
            last[rank] = [node] if random.random() < 0.7 else last[rank]
    tail, head = random.sample(range(5), 2)
    draft.send(tail, head, 10, last[tail], last[head])
    graph = draft.graph()
    on = placed(graph, network, BYTE_A_TICK, LinkPlans())
    discipline = Discipline(IssueOrder.FIRST_READY, window=window, exclusive=exclusive)
    try:
        done = run_on_links(graph, on, discipline)
    except RanksStuckError:
        return
    order = np.lexsort((done.bar_begin, done.bar_link))
    link, begin, end = (column[order] for column in (done.bar_link, done.bar_begin, done.bar_end))
    same = link[1:] == link[:-1]
    assert (begin[1:][same] >= end[:-1][same]).all()
    for one in done.lanes.tolist():
        assert (end - begin)[link == one].sum() == done.link_busy()[one]
    before, node = graph.edges()
    assert (done.job_run.start[node] >= done.job_run.end[before]).all()
    shape = on.shape_of
    assert (done.instance_ticks() >= on.busiest[shape]).all()
    again = run_on_links(graph, on, discipline)
    assert again.job_run.end.tolist() == done.job_run.end.tolist()
    bound = bound_on_links_s(graph, on)
    assert bound <= done.job_run.total_s


@pytest.mark.parametrize("allreduces", [(40, 20, 30), (10, 10, 90), (90, 10, 10)])
def test_what_has_no_bytes_takes_its_time(allreduces):
    # The cases A, C and D of the policies: the issue rule is the same one, to the tick.
    graph = LayerTimes([10] * 3, [20] * 3, allreduces).graph()
    network = star(2, 1).changed(tick_s=Fraction(1))
    on = placed(graph, network, TimingRules(unit_Bps=Fraction(1)), LinkPlans())
    for discipline in (None, Discipline(IssueOrder.FIRST_READY), Discipline(exclusive=True)):
        found, done = steady_on_links(graph, on, discipline)
        known = steady(graph, discipline)
        assert found.period_s == known.period_s
        assert found.exposed_s == known.exposed_s
        assert not done.link_busy().any()
    assert bound_on_links_s(graph, on) == period_bound_s(graph)


def test_sends_cross_links_and_receives_wait_for_them():
    network = dumbbell(latency=5)
    draft = JobDraft(4)
    late = draft.compute(3, 5000)
    draft.send(0, 2, 100)
    draft.send(1, 3, 100, after_at_head=[late])
    graph = draft.graph()
    done = run_on_links(graph, placed(graph, network, BYTE_A_TICK, LinkPlans()))
    # Three links of 100 and 5 each; the second waits for the trunk for another 100.
    assert done.job_run.end.tolist() == [5000, 315, 315, 415, 5000]


def test_a_book_is_for_groups_of_its_ranks_and_a_topology_for_those_of_its_size():
    ring = as_topology("BiRing(2, 4)")
    network = direct(ring, 1)
    schedule = build("BiRing(2, 4)", "allgather").schedule
    book = Book(network, Fraction(1), Collective.ALLGATHER, (Page(0, "bfb", schedule),))
    graph = groups_job([(0, 1, 2, 3)], 800)
    found = placed(graph, network, BYTE_A_TICK, LinkPlans(books=[GroupBook(book)]))
    # Two steps of BFB: a shard each way, then half a shard each way.
    assert run_on_links(graph, found).job_run.total_ticks == 300
    assert found.names == ("allgather, book of 4 ranks, from 0 bytes",)
    level = Level(
        4, CostModel(0, 1), costs={("allgather", 4): schedule.synchronous_cost()},
        topologies={4: "BiRing(2, 4)"},
    )  # fmt: skip
    same = placed(graph, network, BYTE_A_TICK, LinkPlans(Machine((level,))))
    assert run_on_links(graph, same).job_run.total_ticks == 300
    pairs = groups_job([(0, 1), (2, 3)], 800)
    other = placed(pairs, network, BYTE_A_TICK, LinkPlans(books=[GroupBook(book)]))
    assert run_on_links(pairs, other).instance_ticks().tolist() == [400, 400]
    with pytest.raises(ValueError, match="another book of 4 ranks is of allgather too"):
        LinkPlans(books=[GroupBook(book), GroupBook(book)])


def test_windows_send_several_at_once():
    network = dumbbell()
    draft = JobDraft(4)
    for _ in range(3):
        draft.collective("allgather", (0, 2), 1000, {})
    graph = draft.graph()
    on = placed(graph, network, BYTE_A_TICK, LinkPlans())
    ends = [
        run_on_links(graph, on, Discipline(window=window)).job_run.total_ticks
        for window in (1, 2, 3)
    ]
    # Halves of 500 over three links, 1500 alone; those in flight together follow each other.
    assert ends == [4500, 3000, 2500]


def test_a_class_is_all_ranks_of_its_group_or_refused():
    graph = LayerTimes([1], [1], [0.5]).graph(4, [1000])
    network = star(4, 1)
    on = placed(on_clock(graph, network.tick_s), network, BYTE_A_TICK, LinkPlans())
    # An allreduce of 1000: six steps over two links, three of them with an addition.
    assert alone_ticks(on).tolist() == [6 * 2 * 250 + 3]
    draft = JobDraft(1, [4])
    draft.collective("allreduce", (0,), 8, {}, num_ranks=2)
    with pytest.raises(ValueError, match="a class of 4 like ranks"):
        placed(draft.graph(), network, BYTE_A_TICK, LinkPlans())


def test_what_does_not_fit_is_refused():
    graph = groups_job([(0, 2)])
    with pytest.raises(ValueError, match="4 ranks on a network of 2 hosts"):
        placed(graph, star(2, 1), BYTE_A_TICK, LinkPlans())
    costly = TimingRules(unit_Bps=Fraction(1), overhead_ticks=1)
    with pytest.raises(ValueError, match="nodes take nothing"):
        placed(graph, dumbbell(), costly, LinkPlans())
    on = placed(graph, dumbbell(), BYTE_A_TICK, LinkPlans())
    with pytest.raises(ValueError, match="not interrupted"):
        run_on_links(graph, on, Discipline(preemptive=True))
    with pytest.raises(ValueError, match="other ticks"):
        run_on_links(graph.changed(tick_s=Fraction(1)), on)
    with pytest.raises(ValueError, match="not the messages of this job"):
        run_on_links(groups_job([(0, 2), (1, 3)]).unrolled(1).changed(), placed(
            groups_job([(0, 2), (1, 3), (0, 1)]), dumbbell(), BYTE_A_TICK, LinkPlans()
        ))  # fmt: skip
