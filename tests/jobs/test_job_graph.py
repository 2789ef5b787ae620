"""Jobs as graphs: what they refuse, ASTRA-sim's rule on them, and what no run may do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ocs_codesign.core.cost import CostModel
from ocs_codesign.jobs.issue import Discipline, IssueOrder, run
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.job_graph import COMPUTE, RECEIVE
from ocs_codesign.jobs.prices import ALGORITHMS, Level, Machine, priced

US = 1000
CASES = {
    "A": ([40, 20, 30], (170, 170)),
    "C": ([10, 10, 90], (190, 180)),
    "D": ([90, 10, 10], (210, 210)),
}


def step(allreduce, *, in_layer_order, num_ranks=4, work=None):
    """Forward, backward, next forward of three layers on ranks of their own."""
    draft = JobDraft(num_ranks)
    owners, layers = range(num_ranks), range(3)
    nodes = {
        what: [[draft.compute(owner, ticks * US) for _ in layers] for owner in owners]
        for what, ticks in (("forward", 10), ("backward", 20), ("next", 10))
    }
    for owner in owners:
        down = nodes["backward"][owner][::-1]
        draft.in_turn([*nodes["forward"][owner], *down, *nodes["next"][owner]])
    for layer in layers if in_layer_order else reversed(layers):
        after = {owner: [nodes["backward"][owner][layer]] for owner in owners}
        size = allreduce[layer] * US
        ends = draft.collective("allreduce", owners, size, after, work=size if work else 0)
        for owner in owners:
            draft.wait(nodes["next"][owner][layer], ends[owner])
    return draft.graph()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("in_layer_order", [False, True])
def test_issue_rule_of_astra_sim(case, in_layer_order):
    """Numbers of an unmodified ASTRA-sim on 4 NPUs; the ring's 3/2 M over 1.5 GB/s is M ns."""
    allreduce, expected = CASES[case]
    job = step(allreduce, in_layer_order=in_layer_order)
    done = run(priced(job, Machine((Level(4, CostModel(0, 1.5e9)),))))
    assert done.total_s == Fraction(expected[in_layer_order], 10**6)


def test_output_of_a_run():
    done = run(step([10, 10, 90], in_layer_order=True, work=True))
    assert done.compute_ticks().tolist() == [120 * US] * 4
    assert done.channel_ticks().tolist() == [110 * US] * 4
    assert done.exposed_ticks().tolist() == [60 * US] * 4
    assert done.group_ticks() == {"": 110 * US}
    assert (done.start >= 0).all()


def test_a_receive_ends_when_its_message_came_and_it_was_posted():
    draft = JobDraft(2)
    late = draft.compute(1, 50)
    draft.send(0, 1, 1, after_at_head=[late], work=10)
    draft.send(0, 1, 1, work=100)
    assert run(draft.graph()).end.tolist() == [50, 10, 50, 110, 110]


def test_two_orders_that_wait_for_each_other_are_named():
    draft = JobDraft(2)
    draft.collective("allreduce", (0, 1), 8, {}, priority=5, work=1)
    draft.collective("alltoall", (0, 1), 8, {}, priority=4, work=1)
    graph = draft.graph()
    assert run(graph).total_ticks == 2
    priority = graph.priority.copy()
    priority[[0, 2]] = 1, 9
    with pytest.raises(ValueError, match="wait for each other for ever: node 0, allreduce of rank"):
        run(graph.changed(priority=priority))


def pair():
    draft = JobDraft(3)
    draft.compute(0, 1, label="begin")
    draft.collective("allreduce", (0, 1), 8, {0: [0]}, label="sum")
    draft.send(1, 2, 8)
    return draft.graph()


BAD = {
    "a send without a receive": ("kind", 4, 0, "has no partner"),
    "two sends": ("kind", 4, 1, "is not one send that meets one receive"),
    "bytes differ": ("size_bytes", 2, 9, "disagrees with node 1"),
    "kinds differ": ("kind", 2, 4, "disagrees with node 1"),
    "an owner twice": ("owner", 2, 0, "has not one node of every rank of its group"),
    "a stranger": ("owner", 2, 2, "they are \\[0, 1\\]"),
    "no such owner": ("owner", 2, 3, "owner is 3: it is from 0 to 2"),
    "no such kind": ("kind", 2, 99, "kind is 99"),
    "negative work": ("work", 0, -1, "work is -1"),
    "alone": ("instance", 3, -1, "has no partner"),
    "no group": ("group", slice(1, 3), -1, "node 1 \\(sum\\), allreduce of rank 0, has no group"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_job_is_refused(case):
    column, at, value, message = BAD[case]
    graph = pair()
    changed = getattr(graph, column).copy()
    changed[at] = value
    with pytest.raises(ValueError, match=message):
        graph.changed(**{column: changed})


def test_circles_are_refused_also_through_collectives_and_messages():
    draft = JobDraft(2)
    sums = draft.collective("allreduce", (0, 1), 8, {})
    first = draft.compute(0, 1, after=sums[:1])
    draft.wait(sums[1], draft.send(0, 1, 8, after=[first])[1])
    with pytest.raises(ValueError, match="waits for itself: the nodes form a circle"):
        draft.graph()
    with pytest.raises(ValueError, match="it has at least one"):
        JobDraft(1).graph()
    with pytest.raises(ValueError, match="no collective of jobs"):
        JobDraft(1).collective("allsum", (0,), 1, {})
    with pytest.raises(ValueError, match="a rank twice"):
        JobDraft(2).collective("allreduce", (0, 0), 1, {})


@st.composite
def jobs(draw):
    """Jobs of a few ranks whose nodes wait for some before them."""
    num_ranks = draw(st.integers(1, 4))
    draft = JobDraft(num_ranks)
    last = [[] for _ in range(num_ranks)]
    everything = [[] for _ in range(num_ranks)]
    for _ in range(draw(st.integers(1, 14))):
        ticks = draw(st.integers(0, 9))
        what = draw(st.sampled_from(["compute", "collective", "send"]))
        owners = draw(st.permutations(range(num_ranks)))[: draw(st.integers(1, num_ranks))]
        after = {
            owner: draw(st.sampled_from([last[owner], last[owner][-1:], []])) for owner in owners
        }
        if what == "send" and len(owners) > 1:
            one, other = owners[:2]
            made = draft.send(one, other, 1, after[one], after[other], work=ticks)
            nodes = dict(zip((one, other), made, strict=True))
        elif what == "collective":
            made = draft.collective("allgather", owners, 1, after, work=ticks, is_gradient=True)
            nodes = dict(zip(sorted(owners), made, strict=True))
        else:
            nodes = {owners[0]: draft.compute(owners[0], ticks, after[owners[0]])}
        for owner, node in nodes.items():
            last[owner] = [*last[owner][-1:], node]
            everything[owner].append(node)
    return draft.graph()


def finished(graph, discipline):
    """The run, unless ranks wait for each other for ever, as the rule lets them."""
    try:
        return run(graph, discipline)
    except ValueError as error:
        assume("wait for each other for ever" not in str(error))
        raise


@given(jobs(), st.booleans())
def test_no_run_breaks_the_rules(graph, exclusive):
    done = finished(graph, Discipline(exclusive=exclusive))
    before, node = graph.edges()
    alone = graph.kind != RECEIVE
    assert (done.start[node] >= done.end[before]).all()
    assert ((done.end - done.start)[alone] == graph.ticks[alone]).all()
    sends, receives = graph.pairs()
    assert (done.end[receives] == np.maximum(done.start[receives], done.end[sends])).all()
    for kind in (graph.kind == COMPUTE, graph.is_communication):
        for owner in range(graph.num_owners):
            mine = np.flatnonzero(kind & (graph.owner == owner) & (graph.ticks > 0))
            mine = mine[np.argsort(done.start[mine])]
            assert (done.start[mine][1:] >= done.end[mine][:-1]).all()
    busy = graph.is_communication
    expected = np.bincount(graph.owner[busy], graph.ticks[busy], graph.num_owners)
    assert done.channel_ticks().tolist() == expected.tolist()
    assert (done.exposed_ticks() >= 0).all()
    if exclusive:
        assert done.exposed_ticks().tolist() == done.channel_ticks().tolist()
    assert (done.exposed_ticks() + done.compute_ticks() <= done.total_ticks).all()


@given(jobs(), st.sampled_from(IssueOrder))
def test_nobody_idles_while_something_is_ready(graph, order):
    """Of one rank, the end is at most all work in turn, and at least the longest of both."""
    done = finished(graph, Discipline(order))
    assert done.total_ticks <= int(graph.ticks.sum())
    computes = graph.kind == COMPUTE
    assert done.total_ticks >= max(done.compute_ticks().max(), done.channel_ticks().max())
    assert done.compute_ticks().sum() == graph.ticks[computes].sum()


def test_iterations_follow_each_other():
    draft = JobDraft(1)
    nodes = [draft.compute(0, 3), draft.compute(0, 4)]
    draft.in_turn(nodes)
    draft.carry(nodes[1], nodes[0])
    graph = draft.graph()
    assert run(graph.unrolled(5)).total_ticks == 35
    with pytest.raises(ValueError, match="too many nodes"):
        graph.unrolled(2**24)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_send_what_must_be_sent(name):
    for ranks in range(1, 20):
        for collective in ("allgather", "reduce-scatter", "alltoall"):
            cost = ALGORITHMS[name](collective, ranks)
            assert cost.t_b >= Fraction(ranks - 1, ranks)
            assert cost.steps >= (ranks > 1)
            assert (cost.t_b == 0) == (ranks == 1)
        assert ALGORITHMS[name]("allreduce", ranks).t_b == Fraction(2 * (ranks - 1), ranks)


def test_machines_and_prices():
    inside, between = CostModel(1e-6, 3e9), CostModel(10e-6, 1e9)
    machine = Machine((Level(2, inside), Level(4, between, "direct")))
    draft = JobDraft(4)
    for group in ((0, 1), (1, 2), (0, 1, 2, 3)):
        draft.collective("allreduce", group, 1000, {})
    draft.send(2, 3, 1000)
    job = priced(draft.graph(), machine)
    assert job.tick_s == Fraction(1, 3 * 10**9)
    each = dict(zip(job.instance.tolist(), zip(job.latency, job.work, strict=True), strict=True))
    ns = {key: (int(a) / 3, int(b) / 3) for key, (a, b) in each.items()}
    assert ns[0] == (2000, pytest.approx(1000 / 3))
    assert ns[1] == (20_000, 1000)
    assert ns[2] == (20_000, 1500)
    sends, _ = job.pairs()
    assert job.ticks[sends].tolist() == [3000 + 1000]
    with pytest.raises(ValueError, match="rank 4 is not there: the machine has 4"):
        machine.level_of(0, 4)
    with pytest.raises(ValueError, match="a level of 3 ranks is not several blocks of 2"):
        Machine((Level(2, inside), Level(3, between)))
    with pytest.raises(ValueError, match="has a level"):
        Machine(())
    with pytest.raises(ValueError, match="algorithm is 'tree'"):
        Level(2, inside, "tree")
    with pytest.raises(ValueError, match="it is at least 1"):
        Level(0, inside)


def test_prices_that_no_tick_divides_are_rounded():
    draft = JobDraft(2)
    for size in range(1000, 1040):
        draft.send(0, 1, size)
    machine = Machine((Level(2, CostModel(Fraction(1, 997), Fraction(10**9 + 7, 10**3 + 9))),))
    job = priced(draft.graph(), machine)
    wanted = [float(sum(machine.parts_s(1, 2, size, 0, 1))) for size in range(1000, 1040)]
    sends, _ = job.pairs()
    assert (job.ticks[sends] * float(job.tick_s)).tolist() == pytest.approx(wanted, abs=2e-12)


@pytest.mark.slow
def test_a_hundred_thousand_nodes():
    draft = JobDraft(1024)
    ranks = range(1024)
    ends = {owner: [] for owner in ranks}
    for layer in range(50):
        ends = {owner: [draft.compute(owner, 100 + layer, ends[owner])] for owner in ranks}
        made = draft.collective("allreduce", ranks, 8, ends, work=77)
        if layer % 5 == 4:
            ends = {owner: [made[owner]] for owner in ranks}
    graph = draft.graph()
    assert graph.num_nodes == 102_400
    done = run(graph)
    assert done.total_ticks >= 50 * 100
