"""Forests over switches that add up: shares of links, pools and adding, and their packets."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_aggregation import NS, GBps, pool

from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.aggregation import aggregation_named
from ocs_codesign.core.networks.aggregation_trees import aggregation_trees
from ocs_codesign.core.networks.builders import star
from ocs_codesign.core.networks.products import h100_rail, leaf_spine
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.schedules.compare.in_network import aggregation_forest, in_network_rates
from ocs_codesign.schedules.simulate import aggregated
from ocs_codesign.schedules.simulate.aggregated import simulate_aggregation


def rate(network, profile, *forest):
    return simulate_aggregation(network, profile, GBps, profile.slot_bytes, *forest).rate_Bps / GBps


def rails(num_rails, width, latency=0):
    """Hosts that each are on every one of some switches."""
    hosts = 3
    pairs = [(host, hosts + rail) for host in range(hosts) for rail in range(num_rails)]
    pairs += [pair[::-1] for pair in pairs]
    tail, head = zip(*pairs, strict=True)
    return Network(
        hosts, hosts + num_rails, tail, head, [width] * len(pairs), [latency] * len(pairs)
    )


def check_shares(network, profile, trees, slots):
    """No link, pool or switch has more than it can."""
    loads, taken = Counter(), Counter()
    for at, tree in enumerate(trees):
        for link, load in tree.link_loads().items():
            loads[link] += load * tree.bandwidth
        for switch in tree.switches:
            taken[switch] += slots[at] if slots is not None else 0
    assert all(load <= network.bandwidth[link] for link, load in loads.items())
    assert all(number <= profile.num_slots for number in taken.values())
    assert slots is None or min(slots) >= 1


def test_where_one_tree_is_best_it_is_that_one():
    network = star(4, 10, 500)
    trees, slots = aggregation_forest(network, pool(4), GBps)
    assert slots is None
    assert [tree.root for tree in trees] == [4]
    assert trees[0].bandwidth == 10


def test_rails_of_boxes_are_all_used():
    # A switch adds up 23.75 GB/s, and eight of them eight times as much; the widest trees leave
    # of the links in boxes enough for three alone.
    network, profile = h100_rail(2), aggregation_named("sharp")
    trees, slots = aggregation_forest(network, profile, GBps)
    check_shares(network, profile, trees, slots)
    assert rate(network, profile) == 3 * Fraction(95, 4)
    assert rate(network, profile, trees, slots) == pytest.approx(8 * 23.75, rel=1e-5)
    done = simulate_aggregation(network, profile, GBps, 2**20, trees, slots)
    plain = simulate_aggregation(network, profile, GBps, 2**20)
    assert done.total_ticks < plain.total_ticks
    # Nothing is faster than its rate.
    assert done.num_packets * 1024 / done.total_s <= float(done.rate_Bps) * 1.001


def test_converting_hosts_are_shared_by_their_trees():
    # Two links of 10 each a host, which converts 12: trees of both switches have 12 together.
    network, profile = rails(2, 10), pool(64, conversion_Bps=12 * GBps)
    trees, slots = aggregation_forest(network, profile, GBps)
    check_shares(network, profile, trees, slots)
    assert sum(tree.bandwidth for tree in trees) >= 12
    done = simulate_aggregation(network, profile, GBps, 4_000_000, trees, slots)
    # Times are cut to whole ticks, 83.3 ns of a packet to 83.
    assert 0.995 < done.total_s / Fraction(4_000_000, 12 * 10**9) < 1.01
    assert done.rate_Bps == 12 * GBps


@pytest.mark.parametrize("slots", [1, 2, 5, 40])
def test_pools_of_two_switches_are_twice_one(slots):
    # A round trip is 2 (1000 / 10 + 450) = 1100 ns; two switches have two pools.
    network, profile = rails(2, 10, 450), pool(slots)
    forest = aggregation_forest(network, profile, GBps)
    check_shares(network, profile, *forest)
    assert rate(network, profile, *forest) == min(20, 2 * Fraction(slots * 1000, 1100))


def test_trees_that_share_a_pool_have_their_parts_of_it():
    network = boxes(2, 4, 20, 5, outer=1).with_latency(200)
    profile = pool(8, latency_s=100 * NS)
    trees, slots = aggregation_forest(network, profile, GBps)
    check_shares(network, profile, trees, slots)
    assert len(trees) > 1
    done = simulate_aggregation(network, profile, GBps, 400_000, trees, slots)
    # A slot is taken for 2 (1000 / 5 + 200) + 100 ns at least, of 8 there are.
    assert 400_000 / done.total_ticks <= 8 * 1000 / 900
    bound = in_network_rates(network, profile, GBps)
    assert bound.trees <= bound.pooled


@settings(max_examples=5)
@given(
    st.integers(2, 3), st.integers(2, 4), st.integers(1, 4), st.integers(1, 2),
    st.sampled_from([1, 3, 16]), st.sampled_from([None, GBps / 2]), st.integers(0, 300),
)  # fmt: skip
def test_forests_are_no_slower_than_trees_and_no_faster_than_bounds(
    num_boxes, size, inner, outer, slots, adding, latency
):
    network = boxes(num_boxes, size, inner, 1, outer=outer).with_latency(latency)
    profile = pool(slots, rate_Bps=adding)
    trees, shares = aggregation_forest(network, profile, GBps)
    check_shares(network, profile, trees, shares)
    assert rate(network, profile, trees, shares) >= rate(network, profile)
    found = in_network_rates(network, profile, GBps)
    assert found.trees <= found.adding
    done = simulate_aggregation(network, profile, GBps, 50_000, trees, shares)
    assert sum(run.job.num_packets for run in done.runs) == done.num_packets == 50
    assert done.is_exact


def test_many_packets_of_trees_that_meet_are_sampled(monkeypatch):
    network, profile = leaf_spine(2, 2, 2, 4, 1).with_latency(100), pool(16)
    trees = aggregation_trees(network)
    assert len(trees) > 1
    every = simulate_aggregation(network, profile, GBps, 4_000_000)
    assert every.is_exact
    monkeypatch.setattr(aggregated, "MAX_HOPS", 60_000)
    some = simulate_aggregation(network, profile, GBps, 4_000_000)
    assert not some.is_exact
    assert some.num_simulated < every.num_simulated
    assert some.total_ticks == pytest.approx(every.total_ticks, rel=0.02)
