"""Books of schedules for groups of ranks: who takes them, where they run, and what they cost."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.network import Network, shortest_routes
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.core.networks.products import leaf_spine
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.jobs.issue import run
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.on_links import LinkPlans, alone_ticks, on_clock, placed, run_on_links
from ocs_codesign.jobs.prices import (
    GroupBook,
    Level,
    Machine,
    plan_cost,
    priced,
    priced_by_books,
    served_by,
)
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.simulate.transfers import TimingRules

BYTE_A_TICK = TimingRules(unit_Bps=Fraction(10**9))
AT_ONCE = TimingRules(unit_Bps=Fraction(10**9), cut_through=True)


def ring_book(num_ranks, collective="allgather"):
    """The best schedule of a ring with links both ways, of a byte a tick."""
    recipe = f"BiRing(2, {num_ranks})"
    schedule = build(recipe, collective).schedule
    pages = (Page(0, recipe, schedule),)
    network = direct(as_topology(recipe), 1)
    return Book(network, Fraction(1), schedule.collective, pages)


def star_book(num_ranks):
    """The same ring's allgather as sends that name the switch of a star."""
    recipe = as_topology(f"BiRing(2, {num_ranks})")
    routes = shortest_routes(recipe, star(num_ranks, 1))
    schedule = routes.through(build(f"BiRing(2, {num_ranks})", "allgather").schedule)
    pages = (Page(0, "through", schedule),)
    return Book(star(num_ranks, 1), Fraction(1), Collective.ALLGATHER, pages)


def rings(*groups):
    """Hosts whose groups are rings with links both ways, and of nothing else."""
    pairs = [
        (group[at], group[(at + step) % len(group)])
        for group in groups
        for at in range(len(group))
        for step in (1, -1)
    ]
    hosts = max(map(max, groups)) + 1
    return Network(hosts, hosts, *zip(*pairs, strict=True), [1] * len(pairs))


def job(groups, size=800, name="allgather", labels=None, machine=None):
    draft = JobDraft(max(map(max, groups)) + 1)
    for at, group in enumerate(groups):
        draft.collective(name, group, size, {}, label=labels[at] if labels else "")
    return draft.graph() if machine is None else priced(draft.graph(), machine)


def machine_of(*sizes, bandwidth=2 * 10**9, alpha=0):
    return Machine(tuple(Level(size, CostModel(alpha, bandwidth)) for size in sizes))


@pytest.mark.parametrize(
    "groups",
    [[(0, 1, 2, 3), (4, 5, 6, 7)], [(0, 2, 4, 6), (1, 3, 5, 7)], [(0, 1, 4, 7), (2, 3, 5, 6)]],
)
def test_groups_side_by_side_take_a_book_of_their_size_as_the_formula_has_it(groups):
    machine, books = machine_of(8), [GroupBook(ring_book(4))]
    graph = job(groups, machine=machine)
    # Two steps: a shard of 200 each way, then half of one: 300 of M = 800 at 2 bytes a tick.
    found = priced_by_books(graph, books, machine)
    assert run(found).total_s == Fraction(300, 10**9)
    on = placed(on_clock(found, Fraction(1, 10**9)), rings(*groups), BYTE_A_TICK,
                LinkPlans(machine, books))  # fmt: skip
    done = run_on_links(on_clock(found, on.network.tick_s), on)
    assert done.instance_ticks().tolist() == [300, 300]
    assert not done.waited.any()
    assert set(on.names) == {"allgather, book of 4 ranks, from 0 bytes"}
    # Without the book a ring goes one way round: three steps of 200 over one of two links.
    ring = placed(graph, rings(*groups), BYTE_A_TICK, LinkPlans(machine))
    assert run_on_links(graph, ring).instance_ticks().tolist() == [600, 600]


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
@settings(max_examples=8)
@given(st.integers(2, 6), st.integers(1, 3), st.integers(1, 300))
def test_both_fidelities_agree_where_links_are_not_shared(collective, size, count, kilobytes):
    groups = [tuple(range(at, size * count, count)) for at in range(count)]
    network = rings(*groups).with_latency(100)
    machine = machine_of(size * count, alpha=Fraction(100, 10**9))
    books = [GroupBook(ring_book(size, collective))]
    graph = job(groups, 120_000 * kilobytes, collective, machine=machine)
    found = on_clock(priced_by_books(graph, books, machine), network.tick_s)
    on = placed(found, network, BYTE_A_TICK, LinkPlans(machine, books))
    links, formula = run_on_links(found, on).job_run.total_s, run(found).total_s
    assert abs(links / formula - 1) < Fraction(2, 100)


def test_groups_that_share_links_wait_by_what_others_send():
    # Two rings of four over the same links, host by host: every link carries twice as much.
    network = rings((0, 1, 2, 3))
    machine, books = machine_of(4), [GroupBook(ring_book(4))]
    graph = job([(0, 1, 2, 3)] * 2, machine=machine)
    draft = JobDraft(8)
    for ranks in ((0, 2, 4, 6), (1, 3, 5, 7)):
        draft.collective("allgather", ranks, 800, {})
    together = draft.graph()
    # A ring of eight hosts: neighbours in a group are two hops apart, so links are shared.
    eight = rings(tuple(range(8)))
    on = placed(together, eight, AT_ONCE, LinkPlans(books=books))
    done = run_on_links(together, on)
    assert alone_ticks(on).tolist() == [300, 300]
    assert done.job_run.total_ticks == 600
    assert done.link_busy().tolist() == [600] * 16
    assert (done.waited_of > 0).any()
    alone = run_on_links(graph, placed(graph, network, BYTE_A_TICK, LinkPlans(machine, books)))
    assert alone.job_run.total_ticks == 600


def test_switches_of_the_network_stand_in_for_those_of_a_book():
    book = star_book(4)
    leaves = leaf_spine(3, 4, 1, 1, 1)
    groups = [(0, 1, 2, 3), (4, 5, 6, 7), (11, 8, 10, 9)]
    draft = JobDraft(12)
    for group in groups:
        draft.collective("allgather", group, 800, {})
    graph = draft.graph()
    on = placed(graph, leaves, BYTE_A_TICK, LinkPlans(books=[GroupBook(book)]))
    done = run_on_links(graph, on)
    own = job([(0, 1, 2, 3)])
    alone = placed(own, star(4, 1), BYTE_A_TICK, LinkPlans(books=[GroupBook(book)]))
    assert alone.names == on.names[:1]
    ticks = run_on_links(own, alone).job_run.total_ticks
    assert done.instance_ticks().tolist() == [ticks] * 3
    # Only links of hosts to their leaves send.
    used = np.flatnonzero(done.link_busy())
    ends = np.stack([leaves.tail[used], leaves.head[used]])
    assert (ends.min(axis=0) < 12).all()
    draft = JobDraft(12)
    draft.collective("allgather", (0, 1, 2, 8), 800, {})
    with pytest.raises(ValueError, match="no switches of the network join the hosts 0, 1, 2, 8"):
        placed(draft.graph(), leaves, BYTE_A_TICK, LinkPlans(books=[GroupBook(book)]))


def test_a_book_of_its_label_comes_before_one_of_its_level_and_of_its_size():
    machine = machine_of(4, 8, alpha=Fraction(5, 10**9))
    groups = [(0, 1, 2, 3), (4, 5, 6, 7), (0, 2, 4, 6), (0, 4)]
    graph = job(groups, labels=["a", "b", "c", "d"], machine=machine)
    books = [
        GroupBook(ring_book(4)),
        GroupBook(ring_book(4), level=0),
        GroupBook(ring_book(4), label="b"),
    ]
    assert served_by(graph, books, machine)[graph.kind >= 3].tolist() == (
        [1] * 4 + [2] * 4 + [0] * 4 + [-1] * 2
    )
    on = placed(graph, leaf_spine(2, 4, 1, 1, 1), BYTE_A_TICK, LinkPlans(machine, books))
    assert on.names == (
        "allgather, book of 4 ranks of level 0, from 0 bytes",
        "allgather, book of 4 ranks of b, from 0 bytes",
        "allgather, book of 4 ranks, from 0 bytes",
        "allgather, ring",
    )
    alone = [GroupBook(ring_book(4), label="b")]
    before, after = graph, priced_by_books(graph, alone, machine)
    changed = before.ticks != after.ticks * int(before.tick_s / after.tick_s)
    assert {graph.labels[at] for at in graph.label[changed].tolist()} == {"b"}


@pytest.mark.parametrize(
    ("label", "level", "size", "rule"),
    [
        (None, None, 5, "no message takes the book of 5 ranks: of allgather there are groups of 2"),
        ("a", None, 2, "no message takes the book of 2 ranks of a: of allgather .* of 4 ranks"),
        ("z", None, 4, "for messages called 'z': there are 'a', 'b'"),
        (None, 2, 4, "a book is for level 2: the machine has 0 to 1"),
        (None, 1, 4, "level 1: of allgather there are groups of 2 ranks"),
    ],
)
def test_a_book_that_no_message_takes_is_refused(label, level, size, rule):
    machine = machine_of(4, 8)
    graph = job([(0, 1, 2, 3), (0, 4), (3, 7)], labels=["a", "b", "b"], machine=machine)
    with pytest.raises(ValueError, match=rule):
        priced_by_books(graph, [GroupBook(ring_book(size), label, level)], machine)


def test_books_that_jobs_do_not_have_are_refused():
    with pytest.raises(ValueError, match="for the label 'a' or level 0"):
        GroupBook(ring_book(4), "a", 0)
    two = [GroupBook(ring_book(4), "a")] * 2
    with pytest.raises(ValueError, match="another book of 4 ranks of a is of allgather too"):
        LinkPlans(books=two)


@settings(max_examples=15)
@given(st.sampled_from(["ring", "bruck", "direct"]), st.integers(2, 7), st.booleans())
def test_messages_cost_what_their_busiest_links_send(maker, num_ranks, on_ring):
    plan = CLASSIC[maker].messages("allgather", num_ranks)
    network = direct(as_topology(f"BiRing(2, {num_ranks})"), 3) if on_ring else star(num_ranks, 3)
    found = plan_cost(plan, network)
    if not on_ring:
        # Every host has one link each way: a step takes what some host sends or receives most.
        sent = sum(plan.one_port_loads(), Fraction(0))
        assert found == Cost(plan.num_steps, sent / num_ranks)
    assert found.t_b >= Fraction(num_ranks - 1, num_ranks)
    assert plan_cost(build("BiRing(2, 5)", "allgather").schedule, network).steps == 2
