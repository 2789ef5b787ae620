"""Sums in boxes first: hosts add up what others of their box send, then switches between them."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_aggregation import NS, GBps, changed, pool

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.aggregation import HOST, POOL
from ocs_codesign.core.networks.aggregation_trees import aggregation_trees
from ocs_codesign.core.networks.products import a100, h100_rail
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation, simulate_plan
from ocs_codesign.schedules.simulate.aggregating import AggregationJob, aggregation_plan
from ocs_codesign.schedules.simulate.transfers import with_fine_ticks
from ocs_codesign.verification.simulated import (
    NO_TREE,
    NOT_JOINED,
    SLOT_TAKEN,
    TOO_MANY_PACKETS,
    check_aggregation,
)


def pairs_of_hosts():
    """Hosts 0 and 1, 2 and 3 side by side at 2 bytes a tick; 0 and 2 at 1 on switch 4."""
    one, other, width = [0, 2, 0, 2], [1, 3, 4, 4], [2, 2, 1, 1]
    ends = [*one, *other], [*other, *one]
    return Network(4, 5, *ends, width * 2, [100] * 8)


def plan_of(network, profile, packets, tree=None):
    tree = tree or aggregation_trees(network)[0]
    job = AggregationJob(tree, packets, profile.num_slots)
    return aggregation_plan(network, profile, GBps, [job])


class TestByHand:
    def test_the_tree(self):
        (tree,) = aggregation_trees(pairs_of_hosts())
        assert (tree.root, tree.switches, tree.adding_hosts) == (4, (4,), (0, 2))
        assert tree.child.tolist() == [0, 1, 2, 3, 5, 7]
        assert tree.parent.tolist() == [5, 5, 7, 7, 4, 4]
        assert [len(links) for links in tree.up] == [0, 1, 0, 1, 1, 1]
        assert (tree.bandwidth, tree.num_steps) == (1, 4)

    def test_one_packet(self):
        # 1000 bytes: 500 in the box, 1000 to the switch, 500 there, and back; 100 for every link.
        done = simulate_aggregation(pairs_of_hosts(), pool(latency_s=500 * NS), GBps, 1000)
        assert done.total_s / NS == 600 + 1100 + 500 + 1100 + 600

    def test_a_pool_is_held_for_the_network_alone(self):
        # Packets leave the box two by two, every 2700 ns: the 9th and 10th four rounds later.
        profile = pool(2, latency_s=500 * NS)
        done = simulate_aggregation(pairs_of_hosts(), profile, GBps, 10_000)
        assert done.total_s / NS == 600 + 4 * 2700 + 1000 + 2700 + 600
        assert (done.runs[0].limit, done.runs[0].rate_Bps) == (POOL, Fraction(2000, 2700) * GBps)
        assert done.runs[0].round_trip_s == 3900 * NS

    def test_a_long_way_in_the_box_takes_two_windows(self):
        network = pairs_of_hosts()
        slow = network.changed(latency=np.where(network.bandwidth == 2, 5000, 100))
        done = simulate_aggregation(slow, pool(2, latency_s=500 * NS), GBps, 100_000)
        trip = 3900 + 2 * 4900
        assert done.runs[0].round_trip_s == trip * NS
        assert done.runs[0].rate_Bps == Fraction(4000, trip) * GBps
        # Four packets a round trip: two of them wait for those before them in the switch, once.
        assert done.total_s / NS == 25 * trip + 2700 + 1000

    def test_only_those_that_send_to_switches_convert(self):
        profile = pool(16, conversion_Bps=GBps / 2)
        done = simulate_aggregation(pairs_of_hosts(), profile, GBps, 1000)
        assert done.total_s / NS == 600 + 2000 + 1100 + 1100 + 2000 + 600
        assert done.runs[0].limits_Bps[HOST] == GBps / 2


class TestBoxes:
    @pytest.mark.parametrize(
        ("network", "roots", "num_adding"),
        [
            (a100(2), {34, 35}, 2),
            (a100(3), {51, 52}, 3),
            (h100_rail(2), set(range(18, 26)), 2),
            (boxes(3, 4, 100, 10, outer=2), {15, 16}, 3),
        ],
        ids=["a100", "a100(3)", "h100", "boxes"],
    )
    def test_one_host_of_a_box_sends_to_the_network(self, network, roots, num_adding):
        trees = aggregation_trees(network)
        assert {tree.root for tree in trees} <= roots
        loads = np.zeros(network.num_links)
        for tree in trees:
            assert len(tree.adding_hosts) == num_adding
            assert tree.switches == (tree.root,)
            for link, load in tree.link_loads().items():
                loads[link] += load * float(tree.bandwidth)
        assert (loads <= network.bandwidth + 1e-9).all()

    def test_switches_in_boxes_add_up_if_the_network_says_so(self):
        network = h100_rail(2)
        able = list(range(16, 26))
        said = Network(
            16, 26, network.tail, network.head, network.bandwidth, network.latency,
            network.dimension, multicast=able, aggregate=able, unit=network.unit,
        )  # fmt: skip
        assert {16, 17} < set(aggregation_trees(said)[0].switches)
        done = simulate_aggregation(said, pool(64), GBps, 20_000)
        assert done.num_packets == 20

    def test_hosts_hand_on_sums_over_their_links(self):
        # Two chains of three hosts, of which the first ones are on a switch.
        one, other = [0, 1, 3, 4, 0, 3], [1, 2, 4, 5, 6, 6]
        chains = Network(6, 7, [*one, *other], [*other, *one], [1] * 12, [10] * 12)
        (tree,) = aggregation_trees(chains)
        assert (tree.switches, tree.adding_hosts) == ((6,), (0, 1, 3, 4))
        assert simulate_aggregation(chains, pool(), GBps, 1000).total_s / NS == 6 * 1010

    @settings(max_examples=10)
    @given(
        st.integers(2, 3), st.integers(2, 4), st.integers(1, 4), st.integers(1, 6),
        st.integers(1, 30), st.sampled_from([None, GBps, GBps / 3]), st.booleans(),
    )  # fmt: skip
    def test_packets_are_summed_up_once_and_no_faster_than_the_rates(
        self, num_boxes, size, inner, slots, packets, rate, converts
    ):
        network = boxes(num_boxes, size, inner, 1, outer=1).with_latency(70)
        conversion = GBps if converts else None
        profile = pool(slots, rate_Bps=rate, conversion_Bps=conversion, latency_s=30 * NS)
        done = simulate_aggregation(network, profile, GBps, packets * 1000)
        assert sum(run.job.num_packets for run in done.runs) == packets
        for run in done.runs:
            if run.job.num_packets:
                spent = run.total_ticks * done.network.tick_s - run.round_trip_s
                rounds = Fraction(run.job.num_packets - run.job.num_slots, 1) * 1000
                assert spent >= rounds / run.rate_Bps - len(done.runs) * run.round_trip_s

    @pytest.mark.parametrize("slots", [1, 3, 8])
    def test_what_repeats_is_what_all_packets_take(self, slots):
        network = pairs_of_hosts().with_latency(1300)
        profile = pool(slots, latency_s=500 * NS, rate_Bps=GBps * 2 / 3)
        done = simulate_aggregation(network, profile, GBps, 101_000)
        every = simulate_plan(plan_of(with_fine_ticks(network), profile, 101))
        assert done.total_ticks == every.total_ticks
        assert done.num_simulated < 101


class TestChecker:
    def test_the_data_of_a_host_that_adds_up_is_not_left_out(self):
        network, (tree,) = pairs_of_hosts(), aggregation_trees(pairs_of_hosts())
        keep = [1, 2, 3, 4, 5]
        less = replace(
            tree,
            child=tree.child[keep],
            parent=tree.parent[keep],
            up=tuple(tree.up[at] for at in keep),
            down=tuple(tree.down[at] for at in keep),
        )
        plan = plan_of(network, pool(4), 5, tree)
        done = simulate_plan(plan)
        assert check_aggregation(plan, done) is None
        short = plan_of(network, pool(4), 5, less)
        with pytest.raises(RuntimeError, match="the aggregation fails"):
            simulate_plan(short)

    def test_what_a_host_adds_up_is_not_sent(self):
        (tree,) = aggregation_trees(pairs_of_hosts())
        wrong = replace(tree, up=((0,), *tree.up[1:]))
        plan = plan_of(pairs_of_hosts(), pool(4), 5, tree)
        done = simulate_plan(plan)
        job = replace(plan.jobs[0], tree=wrong)
        assert check_aggregation(replace(plan, jobs=(job,)), done).rule == NOT_JOINED

    def test_a_circle_is_no_tree(self):
        (tree,) = aggregation_trees(pairs_of_hosts())
        parent = tree.parent.copy()
        parent[4] = 7
        parent[5] = 5
        plan = plan_of(pairs_of_hosts(), pool(4), 5, tree)
        done = simulate_plan(plan)
        job = replace(plan.jobs[0], tree=replace(tree, parent=parent, root=7))
        rules = set()
        for root in (4, 7, 5):
            spoiled = replace(job, tree=replace(job.tree, root=root))
            rules.add(check_aggregation(replace(plan, jobs=(spoiled,)), done).rule)
        assert NO_TREE in rules or NOT_JOINED in rules

    def test_windows_and_slots(self):
        plan = plan_of(pairs_of_hosts(), pool(4), 12)
        done = simulate_plan(plan)
        # As if the window were one, and as if slots were free later than they are.
        narrow = replace(plan, profile=pool(4, window=1))
        assert check_aggregation(narrow, done).rule == TOO_MANY_PACKETS
        each = plan.jobs[0].num_transfers

        def later(end):
            end[each - 1] += 10**6

        spoiled = check_aggregation(plan, changed(done, end=later))
        assert spoiled.rule in (SLOT_TAKEN, TOO_MANY_PACKETS)
