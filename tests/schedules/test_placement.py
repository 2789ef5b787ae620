"""Classic messages placed on topologies: known loads, closed forms, rank maps, and schedules."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from classic_samples import CASES, messages_of, options_of

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.compute import kernels
from ocs_codesign.core.cost import Cost
from ocs_codesign.core.given import as_topology
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import torus as networks_torus
from ocs_codesign.core.schedule import Messages
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.classic import placement
from ocs_codesign.schedules.classic.alltoall import in_network_bound
from ocs_codesign.schedules.classic.conversion import schedule_of
from ocs_codesign.schedules.classic.placement import (
    ROUTINGS,
    Router,
    gray,
    messages_on,
    named_map,
    place,
    snake,
)
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.verification.schedules import verify


def placed(name, collective, recipe, routing="even", **options):
    topology = as_topology(recipe)
    return place(
        CLASSIC[name].messages(collective, topology.num_nodes, **options), topology, routing
    )


def slow_loads(messages, topology, routing):
    """Loads of every step, message by message over exact fractions, a node at a time."""
    distance = topology.distances()
    heads = topology.head.tolist()
    out = [np.flatnonzero(topology.tail == v).tolist() for v in range(topology.num_nodes)]
    steps = [{} for _ in range(messages.num_steps)]
    for row in range(len(messages.step)):
        load, end = steps[messages.step[row] - 1], int(messages.target[row])
        amounts = {int(messages.source[row]): Fraction(1)}
        while amounts:
            node = max(amounts, key=lambda v: distance[v, end])
            amount = amounts.pop(node)
            nearer = [i for i in out[node] if distance[heads[i], end] == distance[node, end] - 1]
            if routing == "lowest":
                nearer = [i for i in nearer if heads[i] == min(heads[j] for j in nearer)]
            for link in nearer:
                part = amount / len(nearer)
                load[link] = load.get(link, 0) + part / int(topology.speeds()[link])
                if heads[link] != end:
                    amounts[heads[link]] = amounts.get(heads[link], 0) + part
    return tuple(max(load.values()) * messages.item_shards for load in steps)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_known_loads(case):
    made, topology = messages_of(case), as_topology(case["topology"])
    for routing in ROUTINGS:
        found, known = place(made, topology, routing, case.get("rank_to_node")), case[routing]
        assert [str(load) for load in found.loads] == known["max_link_load"]
        assert list(found.hops) == case["hops"]
        assert str(found.t_b) == known["t_b"]
        assert str(found.t_b_store_and_forward) == known["t_b_store_and_forward"]
        assert found.store_and_forward.steps == sum(case["hops"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("blocks", [None, 64])
def test_loads_are_those_of_a_slow_oracle(seed, blocks, monkeypatch):
    """On random topologies with parallel links, loops and speeds; counted in blocks as well."""
    if blocks is not None:
        monkeypatch.setattr(placement, "_BLOCK_LINKS", blocks)
        monkeypatch.setattr(placement, "_MOST", 2**5)
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(4, 9))
    cycle = rng.permutation(nodes)
    tail = np.concatenate([cycle, rng.integers(0, nodes, 2 * nodes)])
    head = np.concatenate([np.roll(cycle, 1), rng.integers(0, nodes, 2 * nodes)])
    topology = Topology(nodes, tail, head, rng.integers(1, 4, 3 * nodes))
    for name, collective in (("direct", "alltoall"), ("bruck", "alltoall"), ("ring", "allreduce")):
        made = CLASSIC[name].messages(collective, nodes)
        for routing in ROUTINGS:
            assert place(made, topology, routing).loads == slow_loads(made, topology, routing)


@pytest.mark.parametrize("nodes", [4, 8, 16, 32, 64])
def test_closed_forms_on_two_way_rings(nodes):
    ring, k = f"BiRing(2, {nodes})", nodes.bit_length() - 1
    least = Fraction(nodes - 1, nodes)
    assert placed("ring", "allgather", ring).t_b == 2 * least
    for name in ("ring-halves", "ring-outward"):
        assert placed(name, "allgather", ring).t_b == least
    far = placed("recursive-doubling", "allgather", ring)
    assert far.t_b == k - Fraction(1, 2)
    near = Fraction(2, nodes) * (Fraction(4 ** (k - 1) - 1, 3) + Fraction(4 ** (k - 1), 2))
    assert placed("recursive-doubling", "allgather", ring, first="near").t_b == near
    assert placed("pat", "allgather", ring).loads == far.loads
    deltas = [(2 ** (s + 1) - (-1) ** (s + 1)) // 3 for s in range(k)]
    swing = sum(Fraction(delta + 1, 2 ** (s + 1)) for s, delta in enumerate(deltas))
    assert placed("swing", "allgather", ring).t_b == swing
    both = sum(Fraction(delta, 2 ** (s + 1)) for s, delta in enumerate(deltas))
    assert placed("swing-multiport", "allgather", ring).t_b == both
    for collective in ("allgather", "alltoall"):
        assert placed("direct", collective, ring).t_b == Fraction(nodes, 4)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_closed_forms_on_hypercubes(k):
    least = Fraction(2**k - 1, 2**k)
    for first in ("near", "far"):
        found = placed("recursive-doubling", "allgather", f"Hypercube({k})", first=first)
        assert (found.t_b, found.store_and_forward.steps) == (k * least, k)


@pytest.mark.parametrize("sides", [(4, 4), (3, 3), (6, 6), (4, 4, 4)])
def test_closed_forms_on_tori(sides):
    nodes, torus = int(np.prod(sides)), f"Torus({sides})"
    least = Fraction(nodes - 1, nodes)
    assert placed("bucket", "allgather", torus, dims=sides).t_b == 2 * len(sides) * least
    assert placed("bucket-multiport", "allgather", torus, dims=sides).t_b == least
    both = placed("bucket-multiport", "allreduce", torus, dims=sides)
    assert (both.t_b, both.cut_through.steps) == (2 * least, 2 * sum(a - 1 for a in sides))


@pytest.mark.parametrize(
    ("sides", "bandwidths"), [((3, 4), (10, 40)), ((4, 3, 2), (1, 2, 8)), ((5, 3), (7, 3))]
)
def test_blueconnect_on_unequal_dimensions(sides, bandwidths):
    """Levels p_0, p_1, .., the fastest first: 2 (p_i - 1) / (p_0 .. p_i) of M over each link."""
    network = networks_torus(sides, bandwidths)
    made = CLASSIC["bucket"].messages("allreduce", network.num_hosts, dims=sides)
    levels = list(zip(sides, bandwidths, strict=True))[::-1]
    share, seconds = Fraction(1), Fraction(0)
    for side, bandwidth in levels:
        share /= side
        seconds += 2 * (side - 1) * share / bandwidth
    found = place(made, network)
    assert found.t_b == found.t_b_store_and_forward == seconds * network.host_bandwidth()
    assert found.cut_through.steps == 2 * sum(side - 1 for side in sides)


def test_formula_routed_loads_and_schedules_agree_where_paths_are_links():
    """Where every message has a link of its own, a rank's ports are as busy as its busiest one."""
    for name in ("ring", "shift", "bruck", "recursive-doubling"):
        made = CLASSIC[name].messages("allgather", 8)
        for routing in ROUTINGS:
            found = place(made, as_topology("Complete(8)"), routing)
            assert found.loads == made.one_port_loads()
            assert found.t_b == found.t_b_store_and_forward
            assert found.t_b == 7 * sum(made.one_port_loads()) / 8
        schedule = schedule_of(made, as_topology("Complete(8)"))
        assert schedule.synchronous_cost() == found.cut_through


def is_cycle(node, recipe):
    topology = as_topology(recipe)
    links = set(zip(topology.tail.tolist(), topology.head.tolist(), strict=True))
    ends = [*node.tolist(), int(node[0])]
    return set(ends) == set(range(topology.num_nodes)) and set(pairwise(ends)) <= links


def test_hamiltonian_cycles():
    for sides in ((4, 4), (2, 3), (4, 3, 5), (2, 2, 2, 3)):
        assert is_cycle(snake(sides), f"Torus({sides})")
    for k in range(1, 7):
        assert is_cycle(gray(2**k), f"Hypercube({k})")
    with pytest.raises(ValueError, match="6 ranks: a Gray code takes a power of two"):
        gray(6)


@pytest.mark.parametrize(
    ("recipe", "name", "most"),
    [("GeneralizedKautz(4, 24)", "ring", "23/6"), ("BiRing(2, 6)", "two-level", "20/3")],
)
def test_searched_maps(recipe, name, most, monkeypatch):
    """Never worse than as numbered, the same as written and compiled; a ring finds its links."""
    monkeypatch.setattr("ocs_codesign.schedules.classic.placement._MOST_PLACED", 30)
    topology = as_topology(recipe)
    kind = "allgather" if name == "ring" else "allreduce"
    made = CLASSIC[name].messages(kind, topology.num_nodes)
    router = Router(topology, "even", topology.num_nodes)
    found = named_map("search", made, router, seed=3)
    monkeypatch.setattr(kernels, "LITTLE_WORK", 0)
    assert np.array_equal(found, named_map("search", made, router, seed=3))
    t_b = place(made, topology, "even", found).t_b
    assert t_b <= min(place(made, topology).t_b, Fraction(most))


def test_a_network_with_switches():
    """Two hosts a switch, the switches linked at half of the speed: two ranks share the trunk."""
    tail, head = [0, 1, 2, 3, 4, 4, 5, 5, 4, 5], [4, 4, 5, 5, 0, 1, 2, 3, 5, 4]
    network = Network(4, 6, tail, head, [2] * 8 + [1] * 2)
    made = CLASSIC["recursive-doubling"].messages("allgather", 4)
    found = place(made, network)
    assert found.hops == (3, 2)
    assert found.loads == (2, 1)
    assert found.t_b == Fraction(2, 4) * 3
    with pytest.raises(ValueError, match="one on node 4: hosts are 0 to 3"):
        place(made, network, "even", [0, 1, 2, 4])


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_schedules(case):
    """Where every path is a link and nothing comes twice there is one, and it costs as much."""
    made, topology = messages_of(case), as_topology(case["topology"])
    ranks = case.get("rank_to_node")
    try:
        schedule = schedule_of(made, topology, ranks)
    except ValueError as refusal:
        told = str(refusal)
    else:
        found = place(made, topology, "even", ranks)
        verdict = verify(schedule)
        assert verdict.ok, verdict.witness
        assert verdict.cost == found.cut_through
        assert schedule.collective.name == case["collective"]
        return
    needs_relays = max(case["hops"]) > 1
    assert ("no link leads there" in told) == (needs_relays and "twice" not in told)
    if not needs_relays:
        whole = ("double-binary-tree", "parameter-server", "rabenseifner")
        assert case["algorithm"] in whole


def test_bound_of_sums_in_switches():
    """Hosts of 4 and of 2, two levels: nothing is faster than the slowest host's way in and out."""
    tail, head = [0, 1, 2, 3, 4, 4, 5, 5, 4, 5], [4, 4, 5, 5, 0, 1, 2, 3, 5, 4]
    network = Network(4, 6, tail, head, [4, 4, 4, 2, 4, 4, 4, 4, 9, 9])
    assert in_network_bound(network) == Cost(3, Fraction(2))
    assert in_network_bound(Network(1, 1, [], [], [])) == Cost(0, Fraction(0))
    with pytest.raises(ValueError, match="no path leads from host 1 to host 0"):
        in_network_bound(Network(2, 2, [0], [1], [1]))


def test_parallel_links_share_what_is_sent():
    made = CLASSIC["ring"].messages("allreduce", 4)
    schedule = schedule_of(made, as_topology("UniRing(3, 4)"))
    assert (schedule.num_chunks, verify(schedule).cost.t_b) == (3, Fraction(3, 2))
    mapped = schedule_of(
        CLASSIC["chain"].messages("broadcast", 4, root=1, chunks=2),
        as_topology("Complete(4)"),
        [2, 0, 3, 1],
    )
    assert verify(mapped).ok
    assert mapped.collective == Collective("broadcast", root=0)


def test_maps_and_grids_by_name():
    torus = as_topology("Torus((4, 4))")
    options = {"rank_to_node": "snake"}
    _, nodes = messages_on(torus, "ring", Collective.ALLGATHER, options, (4, 4))
    known = next(case for case in CASES if case["id"] == "k09")
    assert nodes.tolist() == known["rank_to_node"]
    network = networks_torus((4, 4), 1)  # whose sides nobody knows
    on_rows = {**options, "dims": (4, 4)}
    made, nodes = messages_on(network, "ring", Collective.ALLGATHER, on_rows)
    assert set(place(made, network, "even", nodes).hops) == {1}
    for wrong in ((4, 2), (), (-4, -4)):
        with pytest.raises(ValueError, match="their product must be 16 ranks"):
            messages_on(network, "ring", Collective.ALLGATHER, {**options, "dims": wrong})
    with pytest.raises(ValueError, match="ring has no option dims"):
        messages_on(network, "ring", Collective.ALLGATHER, {"dims": (4, 4)})
    made, _ = messages_on(torus, "bucket", Collective.ALLREDUCE, {}, (4, 4))
    assert made.num_steps == 12
    rooted, _ = messages_on(torus, "binomial", Collective("broadcast", root=5), {})
    assert rooted.source[0] == 5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"routing": "odd"}, "routing is 'odd': it must be one of even, lowest"),
        ({"rank_to_node": [0, 1, 2]}, "a node for every one of 4 ranks"),
        ({"rank_to_node": [0, 1, 2, 2]}, "two ranks are on one node"),
        ({"rank_to_node": [0, 1, 2, -1]}, "one on node -1: hosts are 0 to 3"),
        ({"graph": Topology(3, [0, 1, 2], [1, 2, 0])}, "one on node 3: hosts are 0 to 2"),
        ({"graph": Topology(4, [0, 1, 2], [1, 2, 3])}, "no path leads from node 3 to node 0"),
    ],
)
def test_what_cannot_be_placed(change, says):
    made = CLASSIC["ring"].messages("allgather", 4)
    given = {"graph": "UniRing(1, 4)"} | change
    with pytest.raises(ValueError, match=says):
        place(made, **given)


def test_what_has_no_map_or_schedule():
    ring, torus = CLASSIC["ring"].messages("allgather", 6), as_topology("Torus((3, 2))")
    router = Router(torus, "even", 6)
    for name, says in (("snake", "give dims"), ("best", "it is one of identity, snake, gray")):
        with pytest.raises(ValueError, match=says):
            named_map(name, ring, router)
    with pytest.raises(ValueError, match="6 ranks for 8 nodes"):
        schedule_of(ring, as_topology("Hypercube(3)"))
    with pytest.raises(ValueError, match="equal parts and all hosts: allgather, 6 sizes"):
        messages_on(torus, "ring", Collective("allgather", sizes=(1, 2, 3, 4, 5, 6)), {})
    nothing = Messages(2, Collective.ALLREDUCE, 2, [], [], [], [], [])
    assert place(nothing, as_topology("Complete(2)")).t_b == 0


def test_the_known_cases_name_their_options():
    assert all(set(options_of(case)) <= set(CLASSIC[case["algorithm"]].options) for case in CASES)
