"""Any demand over any network: verified schedules, what switches may do, and mutations caught."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from delivery import arrives, complete, directly, link_between, over_star
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.circuits import Timed, synchronous
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.demand import COPY, MOVE, SUM, Demand, demand_of, demands_of, mirrored_demand
from ocs_codesign.core.network import Routes, direct_routes
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.verification import sends as switches
from ocs_codesign.verification.circuits import BUSY, DARK, check_timed
from ocs_codesign.verification.schedules import AT_LEAST_ONCE, verify, verify_on

UNEQUAL = ((0, 3, 1, 2), (2, 0, 0, 1), (1, 1, 0, 4), (0, 2, 5, 0))
ON_FOUR_HOSTS = {
    "allgather": (Collective.ALLGATHER, Fraction(3, 4)),
    "broadcast": (Collective("broadcast", root=1), Fraction(3)),
    "reduce": (Collective("reduce", root=1), Fraction(3)),
    "scatter": (Collective("scatter", root=2), Fraction(3, 4)),
    "gather": (Collective("gather", root=2), Fraction(3, 4)),
    "allgatherv": (Collective("allgather", sizes=(1, 0, 4, 2)), Fraction(12, 7)),
    "alltoallv": (Collective("alltoall", sizes=UNEQUAL), Fraction(1)),
    "groups": (Collective("allreduce", groups=((0, 2), (3, 1))), Fraction(1)),
}
"""Collectives of four hosts, and t_b when all goes directly over a star of equal links."""

every_collective = pytest.mark.parametrize("name", sorted(ON_FOUR_HOSTS))


@every_collective
def test_four_hosts_on_one_switch(name):
    collective, t_b = ON_FOUR_HOSTS[name]
    routes = over_star(star(4, 10))
    schedule = directly(collective, 4)
    verdict = verify_on(routes, schedule, Cost(schedule.num_steps, t_b))
    assert verdict.ok, verdict.witness
    assert routes.synchronous_cost(schedule) == verdict.cost
    assert verify(schedule).ok
    assert arrives(schedule)


def test_the_worked_check():
    routes = over_star(star(4, 1))
    loads = routes.link_loads(np.ones(12, dtype=int))
    assert loads.tolist() == [3] * 8
    assert routes.steady_state_t_b(directly(Collective.ALLGATHER, 4)) == Fraction(3, 4)


@pytest.mark.parametrize("mutation", ["drop", "repeat", "reroute", "shift", "advance"])
@every_collective
def test_mutations_are_caught(name, mutation):
    collective, _ = ON_FOUR_HOSTS[name]
    schedule = directly(collective, 4, chunks=2)
    routes = over_star(star(4, 10))
    random = np.random.default_rng(1)
    for row in range(schedule.num_sends):
        mutant = _mutant(schedule, mutation, row, random)
        if mutant is None or mutant == schedule:
            continue
        verdict = verify_on(routes, mutant)
        assert verdict.ok == verify(mutant).ok
        assert not verdict.ok or arrives(mutant)
        if mutation in ("drop", "repeat"):
            assert not verdict.ok


def _mutant(schedule, mutation, row, random):
    columns = [column.copy() for column in schedule.columns()]
    if mutation == "drop":
        columns = [np.delete(column, row) for column in columns]
    elif mutation == "repeat":
        columns = [np.append(column, column[row]) for column in columns]
    elif mutation == "reroute":
        links = schedule.topology.num_links
        columns[3][row] = (columns[3][row] + random.integers(1, links)) % links
    elif mutation == "shift":
        columns[1][row] += 1
        columns[2][row] += 1
    elif columns[4][row] > 1:
        columns[4][row] -= 1
    try:
        return Schedule(schedule.topology, schedule.collective, schedule.num_chunks, *columns)
    except ValueError:
        return None  # out of range: not even a schedule


@st.composite
def collectives(draw):
    """A collective of any name on up to six hosts, and their number."""
    hosts = draw(st.integers(2, 6))
    name = draw(
        st.sampled_from(
            ["allgather", "reduce-scatter", "allreduce", "alltoall"] * 2
            + ["broadcast", "reduce", "scatter", "gather"]
        )
    )
    groups = None
    ranks = hosts
    if draw(st.booleans()):
        order = draw(st.permutations(range(hosts)))
        ranks = draw(st.integers(1, hosts))
        groups = [order[:ranks]]
        if 2 * ranks <= hosts:
            groups.append(order[ranks : 2 * ranks])
    root = (
        draw(st.integers(0, ranks - 1))
        if name in ("broadcast", "reduce", "scatter", "gather")
        else None
    )
    sizes = None
    if name not in ("broadcast", "reduce") and draw(st.booleans()):
        row = st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks)
        sizes = draw(st.lists(row, min_size=ranks, max_size=ranks) if name == "alltoall" else row)
        if not np.any(sizes):
            sizes = None
    return Collective(name, root, sizes, groups), hosts


@given(collectives(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_what_verifies_arrives(given_collective, chunks, random):
    collective, hosts = given_collective
    try:
        schedule = directly(collective, hosts, chunks)
    except ValueError:
        return  # nothing at all to send
    assert verify(schedule).ok
    assert arrives(schedule)
    mirrored = schedule.reversed()
    assert verify(mirrored).ok, verify(mirrored).witness
    assert mirrored.collective == collective.mirrored
    assert mirrored.reversed().num_sends == schedule.num_sends
    row = random.randrange(schedule.num_sends)
    mutant = _mutant(
        schedule, random.choice(["reroute", "shift", "advance"]), row, np.random.default_rng(chunks)
    )
    if mutant is not None and verify(mutant).ok:
        assert arrives(mutant)


@given(collectives())
def test_demands_mirror_back(given_collective):
    collective, hosts = given_collective
    for demand in demands_of(collective, hosts):
        assert mirrored_demand(mirrored_demand(demand)).item_weight().sum() == demand.weight.sum()
    assert collective.mirrored.mirrored == collective


def test_a_demand_without_a_name():
    # Host 0 multicasts to 1 and 2 while host 1 moves something to 0.
    demand = Demand(3, [COPY, MOVE], [0, 1], [0, 1, 2], [2, 1], [0, 1], [0, 2, 3], [1, 2, 0], 2)
    links = [link_between(3, *ends) for ends in ((0, 1), (0, 2), (1, 0))]
    schedule = Schedule(complete(3), demand, 2, [0, 0, 1], [0, 0, 0], [2, 2, 1], links, [1, 1, 1])
    assert verify(schedule).cost == Cost(1, Fraction(2))
    assert schedule.collective.name == "custom"
    late = Schedule(complete(3), demand, 2, [0, 1], [0, 0], [2, 1], links[::2], [1, 1])
    assert (
        str(verify(late).witness) == "root 0, chunk 0, node 2: the node never receives this chunk"
    )


# Switches as nodes: up links 0 to 3, down links 4 to 7, node 4 the switch.


def _through(network, rows, collective=None, kind_phase=None):
    columns = [list(column) for column in zip(*rows, strict=True)]
    collective = collective or Collective("broadcast", root=0)
    return Schedule(network.topology(), collective, 1, *columns, kind_phase, num_hosts=4)


FAN_OUT = [(0, 0, 1, 0, 1), *((0, 0, 1, 4 + host, 1) for host in (1, 2, 3))]
"""Host 0 sends once, the switch to the three others in the same step."""


def test_a_switch_that_multicasts_may_duplicate_and_one_that_forwards_may_not():
    able, plain = star(4, 1, multicast=True), star(4, 1)
    for network, rule in ((able, None), (plain, switches.DUPLICATED)):
        schedule = _through(network, FAN_OUT)
        verdict = verify_on(direct_routes(schedule.topology, network), schedule)
        assert (verdict.witness and verdict.witness.rule) == rule
    assert verify_on(direct_routes(schedule.topology, able), schedule).cost == Cost(1, Fraction(1))
    assert verify(schedule).witness.rule == switches.DUPLICATED


def test_a_switch_that_aggregates_adds_up():
    rows = [*((0, 0, 1, host, 1) for host in (1, 2, 3)), (0, 0, 1, 4, 1)]
    able, plain = star(4, 1, aggregate=True), star(4, 1)
    for network, rule in ((able, None), (plain, switches.MERGED)):
        schedule = _through(network, rows, Collective("reduce", root=0))
        verdict = verify_on(direct_routes(schedule.topology, network), schedule)
        assert (verdict.witness and verdict.witness.rule) == rule
    missing = _through(able, rows[1:], Collective("reduce", root=0))
    assert "never sent" in verify_on(direct_routes(missing.topology, able), missing).witness.rule


def test_allreduce_in_the_network():
    both = star(4, 1, multicast=True, aggregate=True)
    rows = [(item, 0, 1, host, 1) for item in range(4) for host in range(4) if host != item]
    rows += [(item, 0, 1, 4 + item, 1) for item in range(4)]
    back = [(item, 0, 1, item, 2) for item in range(4)]
    back += [(item, 0, 1, 4 + host, 2) for item in range(4) for host in range(4) if host != item]
    phase = [0] * len(rows) + [1] * len(back)
    schedule = _through(both, rows + back, Collective.ALLREDUCE, phase)
    verdict = verify_on(direct_routes(schedule.topology, both), schedule)
    assert verdict.ok, verdict.witness
    assert verdict.cost == Cost(2, Fraction(3, 2))


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (FAN_OUT[:1], switches.KEPT),
        (FAN_OUT[1:], switches.OUT_OF_NOTHING),
        ([FAN_OUT[0], *((*row[:4], 2) for row in FAN_OUT[1:])], switches.KEPT),
        ([(0, 0, 1, 1, 1), *FAN_OUT[1:]], "the sender does not hold this chunk before the step"),
        ([*FAN_OUT, (0, 0, 1, 4, 1)], "the receiver already holds this chunk"),
        (FAN_OUT[:3], "the node never receives this chunk"),
    ],
)
def test_what_a_multicasting_switch_may_not(rows, rule):
    network = star(4, 1, multicast=True)
    schedule = _through(network, rows)
    verdict = verify_on(direct_routes(schedule.topology, network), schedule)
    assert verdict.witness.rule == rule


def test_nothing_comes_from_a_circle_of_switches():
    # Host 0 - switch 2, switches 2 and 3 in a circle, switch 3 - host 1.
    topology = Topology(4, [2, 3, 2, 3], [3, 2, 3, 1])
    columns = [0] * 3, [0] * 3, [1] * 3, [0, 1, 3], [1] * 3
    schedule = Schedule(topology, Collective("broadcast", root=0), 1, *columns, num_hosts=2)
    assert verify(schedule).witness.rule in (
        switches.OUT_OF_NOTHING,
        switches.KEPT,
        switches.DUPLICATED,
    )
    closed = [column[:2] for column in columns]
    circle = Schedule(topology, Collective("broadcast", root=0), 1, *closed, num_hosts=2)
    assert verify(circle).witness.rule == switches.IN_A_CIRCLE


def test_a_forwarding_switch_as_a_node_costs_what_its_route_does():
    network = star(4, 2)
    rows = [
        (item, 0, 1, link, step + 1)
        for step in range(3)
        for item in range(4)
        for link in (item, 4 + (item + step + 1) % 4)
    ]
    through = _through(network, rows, Collective.ALLGATHER)
    verdict = verify_on(direct_routes(through.topology, network), through)
    assert verdict.ok, verdict.witness
    assert verdict.cost == Cost(3, Fraction(3, 4))


def test_at_least_once_drops_second_copies():
    schedule = directly(Collective.ALLGATHER, 3)
    twice = _mutant(schedule, "repeat", 0, None)
    assert verify(twice).witness.rule == "the receiver already holds this chunk"
    assert verify(twice, strictness=AT_LEAST_ONCE).ok
    with pytest.raises(ValueError, match="strictness is 'sometimes'"):
        verify(schedule, strictness="sometimes")


@pytest.mark.parametrize(
    ("start", "link", "rule"),
    [
        ([0, 1, 2], [0, 1], "the path of logical link 0 leads from 0 to 2"),
        ([0, 2, 4], [0, 2, 1, 3], "not end to end|leads from"),
        ([0, 2, 2], [0, 3], "logical link 1 has no path"),
        ([0, 2, 4], [0, 3, 1, 9], "paths are of the links 0 to 3"),
    ],
)
def test_routes_that_are_none(start, link, rule):
    with pytest.raises(ValueError, match=rule):
        Routes(Topology(2, [0, 1], [1, 0]), star(2, 1), start, link)


def test_routes_do_not_lead_through_hosts():
    ring = Topology(3, [0, 1, 2], [1, 2, 0])
    from ocs_codesign.core.networks.builders import direct

    with pytest.raises(ValueError, match="leads through host 1"):
        Routes(Topology(3, [0], [2]), direct(ring, 1), [0, 2], [0, 1])


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("shout",), "unknown collective 'shout'"),
        (("broadcast",), "broadcast has a root"),
        (("allgather", 1), "allgather has no root"),
        (("reduce", 0, (1, 2)), "reduce has no sizes"),
        (("alltoall", None, ((1, 2), (3,))), "a row of sizes a rank"),
        (("allgather", None, (0, 0)), "one of them is above 0"),
        (("allgather", None, None, ((0, 1), (1, 2))), "host 1 is in groups twice"),
        (("allgather", None, None, ()), "there is a group"),
    ],
)
def test_collectives_that_are_none(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        Collective(*arguments)


def test_collectives_that_do_not_fit():
    with pytest.raises(ValueError, match="a group names host 5"):
        demand_of(Collective("allgather", groups=((0, 5),)), 4)
    with pytest.raises(ValueError, match="3 sizes for 4 ranks"):
        demand_of(Collective("allgather", sizes=(1, 2, 3)), 4)
    with pytest.raises(ValueError, match="root is 4"):
        demand_of(Collective("scatter", root=4), 4)
    with pytest.raises(ValueError, match="allreduce has 2 demands"):
        demand_of(Collective.ALLREDUCE, 4)
    with pytest.raises(ValueError, match="a piece that is moved is for one host"):
        Demand(2, [MOVE], [0], [0, 1], [1], [0], [0, 2], [0, 1], 1)
    assert SUM == 2


# Times.


def _ring_gather():
    ring = Topology(3, [0, 1, 2], [1, 2, 0])
    items, links = [0, 1, 2, 2, 0, 1], [0, 1, 2, 0, 1, 2]
    return Schedule(
        ring, Collective.ALLGATHER, 1, items, [0] * 6, [1] * 6, links, [1] * 3 + [2] * 3
    )


def test_times_are_checked():
    schedule, tick = _ring_gather(), Fraction(1, 10**9)
    assert check_timed(synchronous(schedule, [0, 5], 5, 0, tick)) is None
    # Nothing but what is sent on counts: without barriers the second round may begin one by one.
    eager = Timed(schedule, [0, 0, 0, 9, 5, 7], [5, 7, 9, 12, 8, 11], tick)
    assert check_timed(eager) is not None
    assert check_timed(Timed(schedule, [0, 0, 0, 9, 7, 9], [5, 7, 9, 12, 9, 11], tick)) is None
    early = Timed(schedule, [0, 0, 0, 5, 5, 7], [5, 5, 7, 9, 9, 9], tick)
    assert check_timed(early).rule == "the sender does not hold this chunk before the step"
    busy = Timed(schedule, [0, 0, 0, 4, 5, 5], [5, 5, 4, 9, 9, 9], tick)
    assert check_timed(busy).rule == BUSY
    # A link whose latency is 1 is free one tick before the end.
    assert check_timed(busy, latency=[1, 1, 1]) is None


def test_circuits_must_be_up():
    timed = synchronous(_ring_gather(), [0, 5], 5, 0, Fraction(1))
    up = [0, 1, 2], [0, 0, 0], [10, 10, 10]
    assert check_timed(timed, up=up) is None
    dark = check_timed(timed, up=([0, 1, 2, 2], [0, 0, 0, 6], [10, 10, 5, 10]))
    assert (dark.rule, dark.link, dark.step) == (DARK, 2, 2)


def test_sums_are_complete_in_time():
    mirrored = _ring_gather().reversed()
    assert check_timed(synchronous(mirrored, [0, 5], 5, 0, Fraction(1))) is None
    wrong = check_timed(synchronous(mirrored, [0, 4], 4, 1, Fraction(1)), latency=1)
    assert "partial sum is incomplete" in wrong.rule


def test_times_that_are_none():
    with pytest.raises(ValueError, match="send 1 runs from tick 4 to 3"):
        Timed(_ring_gather(), [0, 4, 0, 0, 0, 0], [1, 3, 1, 1, 1, 1], Fraction(1))
    with pytest.raises(ValueError, match="start must be 6 whole numbers"):
        Timed(_ring_gather(), [0.5] * 6, [1] * 6, Fraction(1))
