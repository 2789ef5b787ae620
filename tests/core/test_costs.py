"""Collective, Cost, CostModel and the lower bounds."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import multigraphs

from ocs_codesign.core.bounds import bound, hop_sum, moore_steps, topology_bound
from ocs_codesign.core.collective import GATHERING, WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure_topology

costs = st.builds(Cost, st.integers(0, 9), st.fractions(0, 3, max_denominator=6))


@pytest.mark.parametrize(
    ("text", "collective"),
    [
        ("allgather", Collective.ALLGATHER),
        (" AllGather ", Collective.ALLGATHER),
        ("reduce-scatter", Collective.REDUCE_SCATTER),
        ("REDUCE_SCATTER", Collective.REDUCE_SCATTER),
        ("allreduce", Collective.ALLREDUCE),
        (Collective.ALLREDUCE, Collective.ALLREDUCE),
        ("alltoall", Collective.ALLTOALL),
        ("All-to-All", Collective.ALLTOALL),
        ("all_to_all", Collective.ALLTOALL),
    ],
)
def test_parse_collective(text, collective):
    assert Collective.parse(text) == collective


@pytest.mark.parametrize("text", ["", "all reduces", "allgather,"])
def test_unknown_collective_lists_the_known(text):
    with pytest.raises(ValueError, match=r"unknown collective .* allgather, reduce-scatter"):
        Collective.parse(text)


def test_mirror_is_an_involution():
    assert all(member.mirrored.mirrored == member for member in WITHOUT_PARAMETERS)
    assert Collective.ALLREDUCE.mirrored == Collective.ALLREDUCE
    assert Collective.ALLTOALL.mirrored == Collective.ALLTOALL


def test_gathering_collectives_parse_and_all_to_all_does_not():
    assert [Collective.parse_gathering(kind.name) for kind in GATHERING] == list(GATHERING)
    with pytest.raises(ValueError, match="not all-to-all"):
        Collective.parse_gathering("all-to-all")
    with pytest.raises(ValueError, match="unknown collective 'scan'"):
        Collective.parse_gathering("scan")
    with pytest.raises(ValueError, match=r"equal shards of all nodes, not of unequal sizes$"):
        Collective.parse_gathering(Collective("allgather", sizes=(1, 2)))


@given(costs, costs)
def test_dominance_is_strict_and_exact(one, other):
    better = one.steps <= other.steps and one.t_b <= other.t_b
    assert one.dominates(other) == (better and one != other)
    assert not (one.dominates(other) and other.dominates(one))
    assert not one.dominates(one)


def test_dominance_has_no_tolerance():
    near = Cost(3, Fraction(1) + Fraction(1, 10**30))
    assert Cost(3, Fraction(1)).dominates(near)


def test_costs_add_up():
    assert Cost(2, Fraction(1, 2)) + Cost(3, Fraction(1, 3)) == Cost(5, Fraction(5, 6))


def test_time_is_alpha_times_steps_and_bytes_over_bandwidth():
    model = CostModel(1e-5, 12.5e9)
    assert Cost(3, Fraction(7, 8)).time_s(model, 1e6) == pytest.approx(3e-5 + 7e-5)
    assert Cost(3, Fraction(7, 8)).time_s(model, 0) == pytest.approx(3e-5)


@pytest.mark.parametrize("size", [-1, nan, inf])
def test_bad_message(size):
    with pytest.raises(ValueError, match="message_bytes is"):
        Cost(1, Fraction(1)).time_s(CostModel(0, 1), size)


@pytest.mark.parametrize(
    ("alpha", "bandwidth", "name"),
    [
        (-1e-6, 1, "alpha_s"),
        (nan, 1, "alpha_s"),
        (inf, 1, "alpha_s"),
        (0, 0, "node_bandwidth_Bps"),
        (0, -1, "node_bandwidth_Bps"),
        (0, nan, "node_bandwidth_Bps"),
        (0, inf, "node_bandwidth_Bps"),
    ],
)
def test_bad_cost_model(alpha, bandwidth, name):
    with pytest.raises(ValueError, match=f"{name} is"):
        CostModel(alpha, bandwidth)


@given(st.integers(1, 3000), st.integers(1, 12))
def test_moore_steps_by_definition(nodes, degree):
    steps = moore_steps(nodes, degree)
    assert sum(degree**k for k in range(steps + 1)) >= nodes
    assert steps == 0 or sum(degree**k for k in range(steps)) < nodes


@pytest.mark.parametrize(("nodes", "degree"), [(0, 1), (5, 0), (-1, 3)])
def test_bad_moore(nodes, degree):
    with pytest.raises(ValueError, match="both must be at least 1"):
        moore_steps(nodes, degree)
    with pytest.raises(ValueError, match="both must be at least 1"):
        hop_sum(nodes, degree)


def test_moore_of_a_long_ring_is_immediate():
    assert moore_steps(2**62, 1) == 2**62 - 1
    assert hop_sum(2**62, 1) == 2**61 * (2**62 - 1)


@pytest.mark.parametrize(
    ("nodes", "degree", "hops"),
    [
        (1, 3, 0),
        (2, 1, 1),
        (8, 1, 28),
        (8, 2, 13),
        (8, 3, 11),
        (8, 9, 7),
        (12, 2, 25),
        (16, 2, 38),
        (16, 4, 26),
        (64, 2, 264),
        (64, 4, 165),
        (256, 4, 912),
        (1024, 4, 4667),
    ],
)
def test_hop_sum(nodes, degree, hops):
    assert hop_sum(nodes, degree) == hops
    assert bound(nodes, degree, "alltoall") == Cost(
        moore_steps(nodes, degree), Fraction(hops, nodes)
    )


@given(st.integers(1, 300), st.integers(1, 6))
def test_hop_sum_by_definition(nodes, degree):
    """In the full tree the parent of node v > 0 is (v - 1) // d."""
    depth = [0]
    for node in range(1, nodes):
        depth.append(depth[(node - 1) // degree] + 1)
    assert hop_sum(nodes, degree) == sum(depth)


@pytest.mark.parametrize(
    "text",
    ["Complete(2)", "Complete(5)", "BiRing(2, 9)", 'Named("petersen")', "Circulant(8, (1, 2))"],
)
def test_hop_sums_of_links_both_ways_are_met(text):
    topology = parse(text).topology()
    nodes, degree = topology.num_nodes, topology.degree
    hops = hop_sum(nodes, degree, bidirectional=True)
    assert topology.distances()[0].sum() == hops
    both = bound(nodes, degree, "alltoall", bidirectional=True)
    assert both == Cost(topology.diameter(), Fraction(hops, nodes))
    assert both.t_b >= bound(nodes, degree, "alltoall").t_b


def test_bound_of_an_allreduce_is_both_halves():
    assert bound(1024, 4, "allreduce") == Cost(10, Fraction(1023, 512))
    assert bound(1024, 4, Collective.REDUCE_SCATTER) == bound(1024, 4)


def test_topology_bound_counts_ports_that_lead_nowhere():
    loops = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 0, 1, 2])
    assert topology_bound(loops) == Cost(2, Fraction(2, 1) * Fraction(2, 3))
    assert topology_bound(loops, "allreduce").t_b == Fraction(8, 3)


def test_topology_bound_of_unequal_speeds():
    pair = Topology(2, [0, 1, 0], [1, 0, 1], [1, 2, 3])
    assert topology_bound(pair).t_b == Fraction(1, 2) * 4 / 2
    assert topology_bound(pair, "reduce-scatter").t_b == Fraction(1, 2) * 4 / 2
    out = Topology(3, [0, 1, 2, 0], [1, 2, 0, 1], [1, 1, 1, 2])
    assert topology_bound(out).t_b == topology_bound(out, "reduce-scatter").t_b == 2


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("Complete(5)", Cost(1, Fraction(4, 5))),
        ("CompleteBipartite(4)", Cost(2, Fraction(5, 4))),
        ("Hypercube(3)", Cost(3, Fraction(3, 2))),
        ("Named('petersen')", Cost(2, Fraction(3, 2))),
        ("Torus((4, 4))", Cost(4, Fraction(2))),
        ("BiRing(2, 12)", Cost(6, Fraction(3))),
    ],
)
def test_alltoall_bound_of_symmetric_topologies(text, least):
    """Equal to the exact values that are known: these graphs are arc-transitive."""
    topology = parse(text).topology()
    assert topology_bound(topology, "alltoall") == least
    assert topology_bound(topology, "alltoall", topology.diameter()) == least


def test_alltoall_bound_of_unequal_speeds():
    """9 hops on links of speed 8 in all, 2 pieces into node 0 at speed 1; node 2 has egress 10."""
    fast = Topology(3, [0, 1, 2, 0, 2], [1, 2, 0, 1, 2], [1, 2, 1, 4, 9])
    hops = Fraction(9, 8) * 10 / 3
    ingress = Fraction(2, 3) * 10 / 1
    assert fast.node_speed() == 10
    assert topology_bound(fast, "alltoall") == Cost(2, max(hops, ingress))
    even = Topology(3, [0, 1, 2, 0], [1, 2, 0, 0])
    assert topology_bound(even, "alltoall").t_b == Fraction(9, 3) * Fraction(2, 3)


@given(multigraphs())
def test_alltoall_bound_is_no_less_than_any_topology_can(topology):
    least = topology_bound(topology, "alltoall")
    lower = bound(topology.num_nodes, topology.degree, "alltoall")
    assert least.steps >= lower.steps
    assert least.t_b >= lower.t_b
    for collective in ("allgather", "reduce-scatter"):
        assert least.t_b >= topology_bound(topology, collective).t_b


@given(multigraphs())
def test_nothing_beats_the_bounds(topology):
    for collective in GATHERING:
        cost = measure_topology(topology, collective).cost
        least = topology_bound(topology, collective)
        assert least == topology_bound(topology, collective, topology.diameter())
        assert cost.steps >= least.steps
        assert cost.t_b >= least.t_b
        lower = bound(topology.num_nodes, topology.degree, collective)
        assert least.steps >= lower.steps
        assert least.t_b >= lower.t_b
