"""Sums in the network: profiles, trees, packets on the clock, and what checks them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.aggregation import (
    AGGREGATION_PROFILES,
    FIXED,
    FLOATING,
    HOST,
    LINK,
    POOL,
    SWITCH,
    AggregationProfile,
    aggregation_named,
)
from ocs_codesign.core.networks.aggregation_trees import aggregating, aggregation_trees
from ocs_codesign.core.networks.builders import fat_tree, star
from ocs_codesign.core.networks.products import leaf_spine
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.schedules.compare.in_network import aggregation_forest
from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation, simulate_plan
from ocs_codesign.schedules.simulate.aggregating import (
    AggregationJob,
    aggregation_plan,
    shared_slots,
)
from ocs_codesign.schedules.simulate.engine import Simulated, simulate_transfers
from ocs_codesign.schedules.simulate.transfers import TimingRules, with_fine_ticks
from ocs_codesign.verification import simulated as checks

GBps = Fraction(10**9)
NS = Fraction(1, 10**9)


def pool(num_slots=4, slot_bytes=1000, **more):
    return AggregationProfile(
        name="pool", arithmetic=FIXED, num_slots=num_slots, slot_bytes=slot_bytes, **more
    )


def run_of(network, profile, num_packets, num_slots=None):
    tree, *_ = aggregation_trees(network)
    job = AggregationJob(tree, num_packets, num_slots or profile.num_slots)
    return aggregation_plan(network, profile, GBps, [job])


class TestByHand:
    def test_one_packet_goes_up_and_down(self):
        # 1000 bytes at 1 B/ns and 700 ns, 500 ns in the switch, 1000 bytes and 700 ns.
        profile = pool(latency_s=500 * NS)
        assert simulate_aggregation(star(3, 1, 700), profile, GBps, 1000).total_s / NS == 3900

    def test_links_that_are_kept_busy(self):
        # The pool is larger than the way: 9 packets after the first, 1000 ns each.
        profile = pool(16, latency_s=500 * NS)
        done = simulate_aggregation(star(3, 1, 700), profile, GBps, 10_000)
        assert done.total_s / NS == 3900 + 9 * 1000
        assert done.runs[0].limit == LINK

    def test_workers_stall_when_the_pool_is_exhausted(self):
        # 3900 ns round, 2 slots: packets 0 1, 2 3, 4 5, ... two a round.
        profile = pool(2, latency_s=500 * NS)
        done = simulate_aggregation(star(3, 1, 700), profile, GBps, 10_000)
        assert done.total_s / NS == 5 * 3900 + 1000
        assert (done.runs[0].limit, done.runs[0].rate_Bps) == (POOL, Fraction(2000, 3900) * GBps)

    def test_a_window_is_less_than_the_pool(self):
        profile = pool(64, window=1, latency_s=500 * NS)
        assert simulate_aggregation(star(3, 1, 700), profile, GBps, 10_000).total_s / NS == 39_000

    def test_a_switch_that_adds_up_slowly(self):
        # 1000 bytes take the switch 4000 ns, which leave with latency: 1700 + 4500 + 1700.
        profile = pool(16, latency_s=500 * NS, rate_Bps=GBps / 4)
        done = simulate_aggregation(star(3, 1, 700), profile, GBps, 10_000)
        assert done.total_s / NS == 7900 + 9 * 4000
        assert done.runs[0].limit == SWITCH

    def test_hosts_that_convert_slowly(self):
        profile = pool(16, conversion_Bps=GBps / 2)
        done = simulate_aggregation(star(3, 1, 700), profile, GBps, 10_000)
        assert done.total_s / NS == 2000 + 1700 + 1700 + 2000 + 9 * 2000
        assert done.runs[0].limit == HOST

    def test_headers_take_the_link(self):
        profile = pool(16, header_bytes=250)
        done = simulate_aggregation(star(3, 1), profile, GBps, 10_000)
        assert done.total_s / NS == 2 * 1250 + 9 * 1250
        assert done.runs[0].rate_Bps == Fraction(4, 5) * GBps

    def test_rack_and_spine(self):
        # Three passes of 500 ns, four links of 1700: up, up, down, down.
        profile = pool(2, latency_s=500 * NS)
        tree = fat_tree((2, 3), (1, 1), 1, 700)
        done = simulate_aggregation(tree, profile, GBps, 4000)
        assert done.runs[0].round_trip_s == 8300 * NS
        assert done.total_s / NS == 2 * 8300 + 1000

    def test_numbers_of_two_bytes_in_four(self):
        profile = pool(16, expansion=2)
        assert simulate_aggregation(star(2, 1), profile, GBps, 10_000).total_s / NS == 21_000

    def test_a_slow_worker_holds_up_all(self):
        # 10 B/ns but for one of 1 B/ns, both ways.
        done = simulate_aggregation(star(3, [10, 10, 1]), pool(16), GBps, 10_000)
        assert done.total_s / NS == 2000 + 9 * 1000

    def test_jobs_share_a_pool_and_their_hosts_links(self):
        network = star(4, 1, 700)
        trees = [*aggregation_trees(network, [0, 1]), *aggregation_trees(network, [2, 3])]
        profile = pool(4, latency_s=500 * NS)
        assert shared_slots(profile, trees) == (2, 2)
        # Side by side, each has the half of the pool: 3900 ns a round of 2 packets.
        both = simulate_aggregation(network, profile, GBps, 20_000, trees)
        assert [run.total_ticks * both.network.tick_s / NS for run in both.runs] == [
            5 * 3900 + 1000
        ] * 2
        alone = simulate_aggregation(network, profile, GBps, 10_000, trees[:1])
        # With all of it 4000 ns of packets are on their way: the link is never idle.
        assert alone.total_s / NS == 3900 + 9 * 1000


@settings(max_examples=25)
@given(
    hosts=st.integers(2, 7),
    speed=st.integers(1, 5),
    latency=st.integers(0, 3000),
    num_slots=st.integers(1, 9),
    packets=st.integers(1, 40),
    adding=st.sampled_from([None, 1, 2, 7]),
    turn=st.integers(0, 900),
)
def test_the_clock_is_the_closed_form(hosts, speed, latency, num_slots, packets, adding, turn):
    profile = pool(
        num_slots, 840, latency_s=turn * NS, rate_Bps=None if adding is None else adding * GBps
    )
    network = star(hosts, speed, latency)
    done = simulate_aggregation(network, profile, GBps, 840 * packets)
    trip = 2 * (840 // speed + latency) + turn + (0 if adding is None else 840 // adding)
    run = done.runs[0]
    assert run.round_trip_s == trip * NS
    gap = max(840 // speed, 0 if adding is None else 840 // adding)
    # The switch takes the last of a burst later if it is slower, and every round waits for that.
    rounds, rest = divmod(packets - 1, num_slots)
    assert done.total_s / NS == trip + rounds * max(trip, num_slots * gap) + rest * gap
    assert done.total_s == profile.stream_s(840 * packets, speed * GBps, run.round_trip_s)
    assert run.rate_Bps == min(
        speed * GBps, num_slots * 840 / (trip * NS), GBps * (adding or 10**6)
    )


def slow(tree, network, profile, packets, num_slots):
    """When every packet's result is with every host, by recurrences over packets."""
    size, turn = profile.packet_bytes, int(profile.latency_s / network.tick_s)
    width, latency = network.bandwidth.tolist(), network.latency.tolist()
    free = {}

    def over(links, time):
        for link in links:
            begin = max(time, free.get(link, 0))
            free[link] = begin + ceil(size / (width[link] * GBps * network.tick_s))
            time = free[link] + latency[link]
        return time

    flying = min(profile.window, num_slots)
    child, parent = tree.child.tolist(), tree.parent.tolist()
    back, copied = [], []
    for packet in range(packets):
        there, summed = {}, {}
        for at, (node, above) in enumerate(zip(child, parent, strict=True)):
            ready = summed.get(node, back[packet - flying][node] if packet >= flying else 0)
            there.setdefault(above, []).append(over(tree.up[at], ready))
            if len(there[above]) == parent.count(above):
                before = copied[packet - num_slots][above] if packet >= num_slots else 0
                summed[above] = max(*there[above], before) + turn
        came, last = {tree.root: summed[tree.root]}, {}
        for at in reversed(range(len(child))):
            node, above = child[at], parent[at]
            came[node] = over(tree.down[at], came[above]) + (turn if node in parent else 0)
            last[above] = max(last.get(above, 0), came[node])
        back.append(came)
        copied.append(last)
    return max(back[-1].values())


@settings(max_examples=20)
@given(data=st.data())
def test_unequal_links_over_two_levels_as_a_slow_recurrence(data):
    racks, hosts = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 3))
    base = fat_tree((hosts, racks), (1, 1), 1)
    half = base.num_links // 2
    whole = st.lists(st.integers(1, 9), min_size=2 * half, max_size=2 * half)
    network = base.changed(bandwidth=data.draw(whole), latency=data.draw(whole))
    num_slots, packets = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 60))
    profile = pool(num_slots, 120, latency_s=data.draw(st.integers(0, 50)) * NS)
    tree, *_ = aggregation_trees(network)
    done = simulate_aggregation(network, profile, GBps, 120 * packets, [tree])
    assert done.total_ticks == slow(tree, with_fine_ticks(network), profile, packets, num_slots)


def test_what_repeats_is_what_all_packets_take():
    network = fat_tree((3, 2), (1, 1), (3, 2), (50, 90))
    profile = pool(5, 700, latency_s=33 * NS, rate_Bps=3 * GBps / 2)
    short = simulate_aggregation(network, profile, GBps, 700 * 1003)
    assert short.num_simulated < 60
    whole = simulate_plan(run_of(with_fine_ticks(network), profile, 1003))
    assert short.total_ticks == whole.total_ticks


def test_a_terabyte_takes_no_longer_to_simulate():
    done = simulate_aggregation(star(4, 10, 500), pool(64), GBps, 10**12)
    assert done.num_simulated < 64 * 6
    assert done.total_s / NS == 2 * (100 + 500) + (10**9 - 1) * 100


class TestTrees:
    def test_a_spine_is_enough_where_hosts_have_one_link(self):
        (tree,) = aggregation_trees(leaf_spine(4, 4, 2, 4, 4))
        assert tree.bandwidth == 4
        assert len(tree.switches) == 5

    def test_trees_take_what_others_leave(self):
        trees = aggregation_trees(leaf_spine(2, 2, 3, 8, 4))
        assert [tree.bandwidth for tree in trees] == [4, 4]
        assert len({tree.root for tree in trees}) == 2
        done = simulate_aggregation(leaf_spine(2, 2, 3, 8, 4), pool(64), GBps, 10**6)
        assert done.rate_Bps == 8 * GBps
        assert sum(run.job.num_packets for run in done.runs) == done.num_packets == 1000

    def test_switches_that_only_forward_carry_every_packet(self):
        network = fat_tree((3, 2), (1, 1), 6)
        spine = network.num_nodes - 1
        only = Network(
            *(network.num_hosts, network.num_nodes, network.tail, network.head),
            network.bandwidth,
            multicast=[spine],
            aggregate=[spine],
        )
        (tree,) = aggregation_trees(only)
        assert tree.switches == (spine,)
        assert tree.bandwidth == 2
        assert max(tree.link_loads().values()) == 3
        # The third of three packets over one link is at the spine after 3 + 1 of 200 ns.
        assert simulate_aggregation(only, pool(slot_bytes=1200), GBps, 1200).total_s / NS == 1600

    def test_a_part_of_the_hosts_stays_low(self):
        tree, *_ = aggregation_trees(fat_tree((2, 2), (1, 1), 10), [2, 3])
        assert (tree.root, tree.child.tolist()) == (5, [2, 3])

    def test_which_switches_add_up(self):
        network = star(2, 1, multicast=True)
        assert not aggregating(network).any()
        with pytest.raises(ValueError, match="no switch that adds up"):
            aggregation_trees(network)

    @pytest.mark.parametrize("hosts", [[0], [], [0, 9], [-1, 0]])
    def test_hosts_that_are_not_several(self, hosts):
        with pytest.raises(ValueError, match="at least 2"):
            aggregation_trees(star(4, 1), hosts)

    def test_hosts_that_nothing_joins(self):
        apart = Network(4, 6, [0, 1, 2, 3, 4, 4, 5, 5], [4, 4, 5, 5, 0, 1, 2, 3], [1] * 8)
        with pytest.raises(ValueError, match="no switch that adds up is joined to all of 4 hosts"):
            aggregation_trees(apart)


class TestProfiles:
    @pytest.mark.parametrize("profile", AGGREGATION_PROFILES.values(), ids=lambda each: each.name)
    def test_every_number_has_a_source(self, profile):
        named = {field for field, _ in profile.sources}
        told = {"num_slots", "slot_bytes", "header_bytes", "latency_s"}
        told |= {name for name in ("rate_Bps", "conversion_Bps") if getattr(profile, name)}
        assert told <= named
        for _, text in profile.sources:
            years = ("2020", "2021", "2025", "2026")
            assert text.startswith("assumption: ") or any(year in text for year in years)

    @pytest.mark.parametrize(("name", "busbw"), [("nvls", 480), ("nvls_blackwell", 843)])
    def test_sums_in_nvswitch_take_what_is_measured(self, name, busbw):
        """busbw of 8 in one box, and 25 us for next to nothing."""
        peak, profile = 450 if name == "nvls" else 900, aggregation_named(name)
        network = boxes(1, 8, peak, 50, outer=8, unit="GB/s")
        trees, slots = aggregation_forest(network, profile, GBps)
        small, large = (
            float(simulate_aggregation(network, profile, GBps, size, trees, slots).total_s)
            for size in (2**10, 2**32)
        )
        assert small == pytest.approx(25e-6, rel=0.02)
        assert 1.75 * 2**32 / large / 1e9 == pytest.approx(busbw, rel=0.01)

    def test_arithmetic(self):
        assert aggregation_named("switchml").arithmetic == FIXED
        assert aggregation_named(" sharp() ").arithmetic == FLOATING

    def test_numbers_of_ones_own(self):
        changed = aggregation_named("switchml(num_slots=128, latency_s=1e-6, conversion_Bps=None)")
        assert (changed.num_slots, changed.window, changed.conversion_Bps) == (128, 128, None)
        assert changed.latency_s == Fraction(1, 10**6)
        assert dict(changed.sources)["num_slots"] == "as given"

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("switch", "no aggregation is named 'switch'"),
            ("switchml(slots=3)", "not one of num_slots"),
            ("switchml(num_slots=1.5)", "whole number"),
            ("switchml(num_slots=0)", "1 to 2"),
            ("switchml(latency_s=1/0)", "it is a number"),
            ("switchml(latency_s=1e9999999)", "it is a number"),
            ("switchml(rate_Bps=0)", "must be positive"),
            ("switchml(num_slots=1, num_slots=2)", "once"),
            ("sharp(conversion_Bps=1)", "nothing is converted"),
            ("switchml(", "no aggregation"),
        ],
    )
    def test_nonsense(self, text, rule):
        with pytest.raises(ValueError, match=rule):
            aggregation_named(text)


class TestWhatIsRefused:
    def test_more_jobs_than_slots(self):
        network = star(6, 1)
        trees = [aggregation_trees(network, hosts)[0] for hosts in ([0, 1], [2, 3], [4, 5])]
        with pytest.raises(ValueError, match="needs a slot"):
            simulate_aggregation(network, pool(2), GBps, 10**4, trees)
        jobs = [AggregationJob(tree, 3, 2) for tree in trees]
        with pytest.raises(ValueError, match="jobs take 6 slots"):
            aggregation_plan(network, pool(4), GBps, jobs)

    def test_more_packets_than_can_be_simulated(self):
        with pytest.raises(ValueError, match="at most"):
            run_of(star(4, 1), pool(), 10**7)

    def test_a_part_of_a_tick(self):
        with pytest.raises(ValueError, match="whole number of them"):
            run_of(star(4, 1), pool(latency_s=NS / 3), 1)


def changed(done, **columns):
    """The simulation with other times."""
    made = {name: getattr(done, name).copy() for name in ("hop_start", "arrival", "end")}
    for name, change in columns.items():
        change(made[name])
    return Simulated(done.transfers, done.rules, **made)


class TestChecker:
    """Spoiled simulations are found by the rule that they break."""

    network = fat_tree((2, 2), (1, 1), 1, 40)

    def run(self, num_slots=2, packets=9):
        plan = run_of(self.network, pool(num_slots, 100), packets)
        rules = TimingRules(unit_Bps=plan.unit_Bps, pipelined=True)
        done = simulate_transfers(plan.transfers, rules)
        assert checks.check_aggregation(plan, done) is None
        return plan, done

    def test_a_sum_before_its_packets(self):
        plan, done = self.run()
        num = len(plan.jobs[0].tree.child)

        def early(column):
            column[num] -= 1

        spoiled = changed(done, arrival=early)
        witness = checks.check_aggregation(plan, spoiled)
        assert (witness.rule, witness.row) == (checks.TOO_EARLY, num)

    def test_packets_that_are_sent_on_before_they_are_added_up(self):
        plan, done = self.run()

        def early(column):
            column[int(plan.transfers.path_start[4])] -= 1

        assert (
            checks.check_aggregation(plan, changed(done, hop_start=early)).rule == checks.NOT_ADDED
        )

    def test_more_packets_than_the_window(self):
        plan, done = self.run()
        narrow = replace(plan, profile=replace(plan.profile, window=1))
        assert checks.check_aggregation(narrow, done).rule == checks.TOO_MANY_PACKETS

    def test_more_sums_than_slots(self):
        plan, done = self.run()
        small = replace(plan, profile=replace(plan.profile, num_slots=1, window=2))
        assert checks.check_aggregation(small, done).rule == checks.TOO_MANY_SLOTS

    def test_a_slot_that_is_taken(self):
        plan, done = self.run()
        job = plan.jobs[0]
        small = replace(plan, jobs=(replace(job, num_slots=1),))
        assert checks.check_aggregation(small, done).rule == checks.SLOT_TAKEN

    def test_a_host_that_is_left_out_or_counted_twice(self):
        plan, done = self.run()
        job = plan.jobs[0]
        parent = job.tree.parent.copy()
        assert job.tree.child[0] == 0
        parent[0] = 5
        wrong = replace(plan, jobs=(replace(job, tree=replace(job.tree, parent=parent)),))
        assert checks.check_aggregation(wrong, done).rule == checks.NOT_JOINED

    def test_links_that_are_not_the_trees(self):
        plan, done = self.run()
        job = plan.jobs[0]
        other = replace(job.tree, up=(job.tree.up[1], *job.tree.up[1:]))
        wrong = replace(plan, jobs=(replace(job, tree=other),))
        assert checks.check_aggregation(wrong, done).rule == checks.NOT_JOINED

    def test_packets_on_a_link_beside_that_of_the_tree(self):
        ends = [0, 1, 0, 2, 2], [2, 2, 2, 0, 1]
        plan = run_of(Network(2, 3, *ends, [1] * 5), pool(), 3)
        done = simulate_plan(plan)
        job = plan.jobs[0]
        assert job.tree.up[0] == (0,)
        other = replace(job.tree, up=((2,), job.tree.up[1]))
        wrong = replace(plan, jobs=(replace(job, tree=other),))
        assert checks.check_aggregation(wrong, done).rule == checks.WRONG_WAY

    def test_slots_are_used_to_the_last(self):
        # The checker's count is met: with one slot less than are used it fails.
        plan, done = self.run(num_slots=3, packets=12)
        assert np.diff(done.end).any()
        less = replace(plan, profile=replace(plan.profile, num_slots=2, window=3))
        assert checks.check_aggregation(less, done).rule == checks.TOO_MANY_SLOTS
