"""The simulator: the formula where steps have barriers, a second engine, hand cases, invariants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import chain
from math import lcm

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from samples import loaded_topologies
from simulate_oracle import Oracle, transfers
from simulate_samples import ASTRA, MIB, fully_connected, switched
from strategies import recipes

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.core.network import Network, direct_routes, shortest_routes
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.schedules.design import build, build_topology
from ocs_codesign.schedules.simulate.engine import simulate_transfers, timed
from ocs_codesign.schedules.simulate.making import transfers_of_messages, transfers_of_schedule
from ocs_codesign.schedules.simulate.reasons import IDLE_REASONS, critical_path, idle_ticks
from ocs_codesign.schedules.simulate.transfers import TimingRules, Transfers
from ocs_codesign.verification.circuits import check_timed
from ocs_codesign.verification.simulated import check_simulated

NAMES = ("allgather", "reduce-scatter", "allreduce")
BYTE_A_TICK = TimingRules(unit_Bps=10**9)
MODES = [
    {},
    {"blocking": True},
    {"cut_through": True},
    {"pipelined": True},
    {"overhead_ticks": 3},
    {"injection_Bps": 2 * 10**9, "memory_Bps": 10**9},
]


def simulated_schedule(schedule, latency=3, rules=BYTE_A_TICK, **sequence):
    """On its own graph, M such that a chunk takes whole ticks on every link, and M."""
    topology = schedule.topology
    chunk_bytes = lcm(*topology.speeds().tolist())
    units = max(demand.message_units for demand in schedule.demands) * schedule.chunks_per_unit
    routes = direct_routes(topology, direct(topology, 1, latency))
    made = transfers_of_schedule(schedule, routes, units * chunk_bytes, **sequence)
    return simulate_transfers(made, rules), units * chunk_bytes


@st.composite
def schedules(draw):
    name = draw(st.sampled_from(NAMES))
    if draw(st.integers(0, 4)):
        return build(draw(recipes(max_nodes=16, max_depth=1)), name).schedule
    return build_topology(draw(st.sampled_from(loaded_topologies())), name).schedule


@given(schedules(), st.integers(0, 9))
def test_barriers_make_the_formula(schedule, latency):
    """alpha * steps + t_b * M / B, exactly."""
    done, message = simulated_schedule(schedule, latency, barriers=True, addition_ticks=0)
    model = CostModel(Fraction(latency, 10**9), schedule.topology.node_speed() * 10**9)
    assert done.total_s == schedule.synchronous_cost().time_s(model, message)


@settings(max_examples=60)
@given(schedules(), st.sampled_from(MODES), st.booleans(), st.booleans())
def test_schedules_in_time(schedule, mode, barriers, chained):
    rules = replace(BYTE_A_TICK, **mode)
    done, _ = simulated_schedule(schedule, rules=rules, barriers=barriers, chained=chained)
    assert check_simulated(done) is None
    assert check_timed(timed(done, schedule), 3) is None


@settings(max_examples=100, phases=[Phase.generate])
@given(transfers(), st.booleans())
def test_a_second_engine_finds_the_same(made, blocking):
    rules = replace(BYTE_A_TICK, blocking=blocking)
    done, oracle = simulate_transfers(made, rules), Oracle(made, rules)
    assert done.start.tolist() == oracle.start
    assert done.end.tolist() == oracle.end


@settings(max_examples=100, phases=[Phase.generate])
@given(transfers(), st.sampled_from(MODES))
def test_invariants(made, mode):
    done = simulate_transfers(made, replace(BYTE_A_TICK, **mode))
    assert check_simulated(done) is None
    again = simulate_transfers(made, replace(BYTE_A_TICK, **mode))
    assert np.array_equal(done.hop_start, again.hop_start)
    network, owner = made.network, done.owner()
    busy = np.zeros(network.num_links, dtype=int)
    alone = made.compute.copy()
    for entry, link in enumerate(made.path_link.tolist()):
        lasts = int(made.size[owner[entry]] * made.chunk_bytes / int(network.bandwidth[link]))
        busy[link] += lasts
        alone[owner[entry]] += (0 if mode.get("cut_through") else lasts) + network.latency[link]
    assert done.link_busy().tolist() == busy.tolist()
    assert (idle_ticks(done).sum(axis=1) + busy == done.total_ticks).all()
    assert idle_ticks(done).min() >= 0
    for transfer, (first, last) in enumerate(
        zip(made.wait_start, made.wait_start[1:], strict=False)
    ):
        waited = done.end[made.wait_for[first:last]].max(initial=0)
        assert done.end[transfer] >= waited + alone[transfer]
    path = critical_path(done)
    ends = [0, *(stretch.end for stretch in path)]
    assert [stretch.start for stretch in path] == ends[:-1]
    assert ends[-1] == done.total_ticks


def line(size, bandwidth, latency, **rules):
    """One message of so many bytes over links one after the other: its end."""
    hops = len(bandwidth)
    own = np.arange(hops)
    network = Network(hops + 1, hops + 1, own, own + 1, bandwidth, latency)
    made = Transfers(network, 1, [size], [0, hops], own, [0, 0], np.array([], dtype=int))
    done = simulate_transfers(made, TimingRules(unit_Bps=10**9, **rules))
    assert check_simulated(done) is None
    return done.total_ticks


def test_one_message_alone():
    assert line(7, [2, 3], [5, 6]) == (5 + 3) + (6 + 2)
    assert line(7, [2, 3], [5, 6], cut_through=True) == 5 + 6 + 3
    assert line(7, [3, 2], [5, 6], cut_through=True) == 5 + 6 + 3
    assert line(7, [2], [5], overhead_ticks=4) == 4 + 3 + 5 + 4
    assert line(7, [7], [5], injection_Bps=10**9) == 7 + 5


def fan(kinds, **rules):
    """Four bytes from each of two nodes to a third, or from it to each: when they end."""
    network = Network(3, 3, [0, 1, 2, 2], [2, 2, 0, 1], [1] * 4, [5] * 4)
    path = [0, 1] if kinds else [2, 3]
    made = Transfers(network, 4, [1, 1], [0, 1, 2], path, [0, 0, 0], path[:0], kind=[kinds] * 2)
    return simulate_transfers(made, TimingRules(unit_Bps=10**9, **rules)).end.tolist()


def test_what_nodes_take():
    assert fan(0) == [9, 9]
    assert fan(0, overhead_ticks=3) == [15, 18]
    assert fan(0, injection_Bps=10**9) == [9, 13]
    assert fan(1, overhead_ticks=3) == [15, 18]
    assert fan(1, memory_Bps=3 * 10**9) == [13, 17]
    assert fan(0, memory_Bps=3 * 10**9) == [9, 9]


def test_on_a_pair_alpha_blocks_or_flies():
    """Four messages of 10 ticks on a link of latency 5."""
    network = Network(2, 2, [0], [1], [1], [5])
    columns = [1] * 4, range(5), [0] * 4, [0] * 5, np.array([], dtype=int), [-1, 0, 1, 2]
    made = Transfers(network, 10, *columns)
    ends = {
        mode: simulate_transfers(made, TimingRules(unit_Bps=10**9, **{mode: True})).end.tolist()
        for mode in ("pipelined", "blocking")
    }
    assert ends == {"pipelined": [15, 25, 35, 45], "blocking": [15, 30, 45, 60]}
    assert simulate_transfers(made, BYTE_A_TICK).end.tolist() == ends["blocking"]


def test_a_link_serves_in_the_order_of_requests():
    """Two hosts send over a switch to a third: what comes first goes first, ties by number."""
    routes = switched(3, 1, 0)
    exchange = Messages(3, Collective("allgather"), 3, [1, 1], [0, 1], [2, 2], [0, 1], [0, 0])
    done = simulate_transfers(transfers_of_messages(exchange, routes, 12), BYTE_A_TICK)
    assert done.end.tolist() == [8, 12]
    path = critical_path(done)
    assert [(stretch.part, stretch.transfer, stretch.end) for stretch in path] == [
        ("send", 0, 4),
        ("send", 0, 8),
        ("send", 1, 12),
    ]
    idle = dict(zip(IDLE_REASONS, idle_ticks(done).sum(axis=0).tolist(), strict=True))
    assert idle == {"data": 0, "link": 4, "barrier": 0, "dark": 0, "node": 0, "done": 52}


def rows_then_columns(delta):
    """A bucket allgather on 4 x 4 that stops everything between rows and columns, by messages."""
    routes = fully_connected(16)
    link = {
        (int(a), int(b)): i
        for i, (a, b) in enumerate(zip(routes.topology.tail, routes.topology.head, strict=True))
    }
    sends, waits, sizes, last = [], [], [], {}
    for phase, (step, size) in enumerate((((0, 1), MIB), ((1, 0), 4 * MIB))):
        if phase:
            ends = [last[rank] for rank in range(16)]
            told = []
            for rank in range(1, 16):
                told.append(len(sends))
                sends.append(link[rank, 0]), waits.append([ends[rank]]), sizes.append(1)
            gate = len(sends)
            sends.append(None), waits.append([*told, ends[0]]), sizes.append(0)
            for rank in range(1, 16):
                last[rank] = len(sends)
                sends.append(link[0, rank]), waits.append([gate]), sizes.append(1)
            last[0] = [last[rank] for rank in range(1, 16)]
        for _ in range(3):
            now = {}
            for rank in range(16):
                row, column = divmod(rank, 4)
                to = (row + step[0]) % 4 * 4 + (column + step[1]) % 4
                before = last.get(rank, [])
                now[to] = len(sends)
                (
                    sends.append(link[rank, to]),
                    waits.append(before if isinstance(before, list) else [before]),
                    sizes.append(size),
                )
            last = now
    paths = [[] if send is None else [send] for send in sends]
    made = Transfers(
        routes.network,
        1,
        sizes,
        np.cumsum([0, *map(len, paths)]),
        list(chain(*paths)),
        np.cumsum([0, *map(len, waits)]),
        list(chain(*waits)),
        compute=[0 if path else delta for path in paths],
        kind=[0 if path else 3 for path in paths],
    )
    return simulate_transfers(made, ASTRA).total_ticks


@pytest.mark.parametrize(("delta", "ns"), [(1000, 297_968), (10_000, 306_968), (10**6, 1_296_968)])
def test_a_global_stop_by_messages(delta, ns):
    assert rows_then_columns(delta) == 3 * 20_031 + 500 + delta + 500 + 3 * 78_625 == ns


def test_what_an_addition_takes():
    ring = Messages(2, Collective("reduce-scatter"), 2, [1, 1], [0, 1], [1, 0], [1, 0], [1, 1])
    routes = fully_connected(2)
    assert (
        simulate_transfers(transfers_of_messages(ring, routes, 2 * MIB), ASTRA).total_ticks
        == 20_032
    )
    done = simulate_transfers(
        transfers_of_messages(ring, routes, 2 * MIB, addition_ticks=7000), ASTRA
    )
    assert done.total_ticks == 27_031
    assert [stretch.part for stretch in critical_path(done)] == ["send", "latency", "addition"]


@pytest.mark.parametrize("network", ["a100(1)", "leaf_spine(2, 2, 2, 4, 4)"])
@pytest.mark.parametrize("name", NAMES)
def test_sends_that_name_switches(network, name):
    """A switch passes on what it gets in the same step; hosts wait for the step before."""
    from ocs_codesign.schedules.registry import Task, made_by

    given_network = parse_network(network)
    task = Task(given_network.topology(), Collective.parse(name), None, network=given_network)
    schedule = made_by("forest", task).schedule
    routes = direct_routes(given_network.topology(), given_network)
    done = simulate_transfers(
        transfers_of_schedule(schedule, routes, 2**20), TimingRules(unit_Bps=10**9)
    )
    assert check_simulated(done) is None
    cost = schedule.steady_state_t_b()
    rate = given_network.host_bandwidth()
    slack = Fraction(schedule.num_sends, 10**9)
    assert done.total_s + slack >= cost * 2**20 / (rate * 10**9)


def test_shortest_routes_over_hosts_and_switches():
    ring = parse_network("Torus((6,))")
    pairs = Topology(6, [0, 0, 1], [3, 2, 0])
    routes = shortest_routes(pairs, ring)
    assert np.diff(routes.start).tolist() == [3, 2, 1]
    tree = parse_network("leaf_spine(2, 2, 2, 4, 4)")
    hosts = tree.num_hosts
    source, target = np.divmod(np.arange(hosts**2), hosts)
    apart = source != target
    routes = shortest_routes(Topology(hosts, source[apart], target[apart]), tree)
    spines = routes.link_loads(np.ones(hosts * (hosts - 1), dtype=int))[tree.tail >= hosts]
    assert spines.max() - spines.min() <= 1 + hosts
    lonely = Network(3, 3, [0, 1], [1, 0], [1, 1])
    with pytest.raises(ValueError, match="no path of the network leads from node 0 to 2"):
        shortest_routes(Topology(3, [0], [2]), lonely)


NET = Network(2, 2, [0, 1], [1, 0], [1, 1])
GOOD = {
    "size": [1, 1],
    "path_start": [0, 1, 2],
    "path_link": [0, 1],
    "wait_start": [0, 0, 1],
    "wait_for": [0],
}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"chunk_bytes": -1}, "chunk_bytes is -1"),
        ({"size": [1, -1]}, "transfer 1: a size is at least 0"),
        ({"size": [0.5, 1]}, "size must be 2 whole numbers"),
        ({"path_link": [0, 2]}, "links are from 0 to 1"),
        ({"path_start": [0, 2, 2]}, "transfer 1: what is sent has a path"),
        ({"path_start": [0, 1, 3]}, "every link of a path"),
        ({"path_start": [0, 2, 2], "path_link": [0, 0], "kind": [0, 2]}, "transfer 0: its path is"),
        ({"wait_for": [2]}, "transfers waited for are from 0 to 1"),
        ({"previous": [-1, 1]}, "transfer 1: no transfer is before itself"),
        ({"previous": [-1, 2]}, "transfer 1: previous is a transfer or -1"),
        ({"previous": [-1, 0]}, "transfer 1: its previous one begins on another link"),
        (
            {
                "size": [1] * 3,
                "path_start": range(4),
                "path_link": [0] * 3,
                "wait_for": [],
                "wait_start": [0] * 4,
                "previous": [-1, 0, 0],
            },
            "transfer 0 is the previous one of several",
        ),
        ({"compute": [0, -1]}, "transfer 1: compute is at least 0 ticks"),
        ({"kind": [0, 4]}, "transfer 1: kinds are 0 to 3"),
        ({"step": [1]}, "step must be 2 whole numbers"),
        ({"step": [1, 2**40]}, "step must hold numbers from"),
    ],
)
def test_what_is_no_transfers(change, rule):
    Transfers(NET, 1, **GOOD)
    columns = {"chunk_bytes": 1, **GOOD, **change}
    with pytest.raises(ValueError, match=rule):
        Transfers(NET, **columns)


def test_what_cannot_be_simulated():
    circle = Transfers(NET, 1, **{**GOOD, "wait_start": [0, 1, 2], "wait_for": [1, 0]})
    with pytest.raises(ValueError, match="2 transfers wait for each other in a circle"):
        simulate_transfers(circle, BYTE_A_TICK)
    with pytest.raises(ValueError, match="unit_Bps is 0: it must be positive"):
        TimingRules(unit_Bps=0)
    with pytest.raises(ValueError, match="overhead_ticks is -1"):
        TimingRules(unit_Bps=1, overhead_ticks=-1)
    with pytest.raises(ValueError, match="ticks of a link"):
        simulate_transfers(Transfers(NET, 2**70, **GOOD), BYTE_A_TICK)
    pair = Topology(2, [0, 1], [1, 0])
    swap = Schedule(pair, Collective.ALLGATHER, 1, [0, 1], [0, 0], [1, 1], [0, 1], [1, 1])
    with pytest.raises(ValueError, match="not on the topology of these routes"):
        transfers_of_schedule(swap, fully_connected(3), 1)
    relayed = transfers_of_schedule(swap, shortest_routes(pair, switched(2).network), 2)
    with pytest.raises(ValueError, match="lead over switches"):
        timed(simulate_transfers(relayed, BYTE_A_TICK), swap)
    with pytest.raises(ValueError, match="not this schedule"):
        timed(
            simulate_transfers(
                Transfers(NET, 1, [], [0], GOOD["wait_for"][:0], [0], GOOD["wait_for"][:0]),
                BYTE_A_TICK,
            ),
            swap,
        )
    told = Messages(3, Collective("allgather"), 3, [1], [0], [2], [0], [False])
    ring = direct_routes(Topology(3, [0, 1, 2], [1, 2, 0]), parse_network("UniRing(1, 3)"))
    with pytest.raises(ValueError, match="node 0 sends to 2, but the routes have no path"):
        transfers_of_messages(told, ring, 3)


def test_a_message_of_another_size():
    done, message = simulated_schedule(build("Torus((3,3))", "allgather").schedule)
    larger = done.transfers.with_chunk_bytes(4 * done.transfers.chunk_bytes)
    assert larger.num_bytes == 4 * done.transfers.num_bytes
    assert simulate_transfers(larger, BYTE_A_TICK).total_ticks > done.total_ticks
    assert message == 4 * done.transfers.chunk_bytes * 9 / 4
