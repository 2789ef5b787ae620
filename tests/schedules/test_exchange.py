"""All-to-alls on any network: the exact optimum, the paths that reach it, experts' traffic."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from folders import DATA
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.lp import Options
from ocs_codesign.core.network import Network, direct_routes
from ocs_codesign.core.networks.builders import damaged, star
from ocs_codesign.core.networks.products import h100_rail
from ocs_codesign.core.networks.registry import NETWORKS as BUILDERS
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.schedules.compare import contest as contests
from ocs_codesign.schedules.compare.choosing import of_least_t_b
from ocs_codesign.schedules.compare.contest import Contest, most_algbw
from ocs_codesign.schedules.compare.play import Entrant, play, timed_of
from ocs_codesign.schedules.exchange.cuts import cut_bound
from ocs_codesign.schedules.exchange.experts import KINDS, expert_counts
from ocs_codesign.schedules.exchange.optimum import (
    exchange_optimum,
    program_options,
    solved_exchange,
)
from ocs_codesign.schedules.exchange.paths import ENOUGH, exchange_paths
from ocs_codesign.schedules.exchange.program import exchange_of, price_bound
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.schedules.simulate.clocked import clocked_t_b
from ocs_codesign.verification.schedules import verify_on

CASES = json.loads((DATA / "alltoall_any.json").read_text())["cases"]
DRAWN = ("experts", "top_k", "ranks", "tokens", "seed", "step", "layer", "once")
NETWORKS = {
    "h100_rail(3)": 2,
    "a100(2)": 2,
    "mi250(1)": 5,
    "dgx1()": 2,
    "leaf_spine(4, 4, 2, 4, 4)": 1,
    "leaf_spine(3, 3, 2, 4, 3)": 1,
    "star(5, (10, 10, 10, 5, 1))": 1,
    "Torus((3, 5))": 4,
    "Circulant(12, (2, 3))": 4,
    "mesh((4, 5), 1)": 7,
}
"""Networks and the most hops between hosts that a path has."""


def counts_of(case: dict) -> np.ndarray:
    return expert_counts(case["kind"], **{name: case[name] for name in DRAWN})


def network_of(case: dict) -> Network:
    if "links" not in case:
        return parse_network(case["product_network"])
    return Network(case["hosts"], case["nodes"], *zip(*case["links"], strict=True))


def demand_of(case: dict) -> np.ndarray | None:
    drawn = counts_of(case["matrix_of"]) if "matrix_of" in case else None
    return np.array(case["matrix"]) if "matrix" in case else drawn


def with_time(*, large: bool) -> list:
    return [
        pytest.param(case, id=case["name"])
        for case in CASES
        if "time" in case and case["group"] != "ports" and (case["hosts"] > 500) == large
    ]


@pytest.mark.parametrize("case", with_time(large=False))
def test_known_optima(case):
    check_known(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", with_time(large=True))
def test_known_optima_of_thousands(case):
    check_known(case)


def check_known(case: dict) -> None:
    found = exchange_optimum(network_of(case), demand_of(case), None if case["hosts_relay"] else ())
    assert found.value == found.bound == Fraction(case["time"])
    assert found.proof == "prices"
    if case.get("cut_is_tight") and case["hosts_relay"]:
        assert found.bottleneck is not None
    if found.bottleneck is not None:
        assert found.bottleneck.inv_rate == found.value
    assert found.num_columns <= case["columns"]


def random_network(seed: int) -> Network:
    """Hosts on a tree of switches, and links in one direction wherever they fall."""
    rng = np.random.default_rng(seed)
    hosts, switches = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    links = [
        (host, hosts + int(rng.integers(switches)), int(rng.integers(1, 9)))
        for host in range(hosts)
    ]
    for switch in range(1, switches):
        above = hosts + int(rng.integers(switch))
        links.append((hosts + switch, above, int(rng.integers(1, 12))))
    links += [(head, tail, width) for tail, head, width in links]
    for _ in range(int(rng.integers(0, 10))):
        ends = rng.integers(0, hosts + switches, 2).tolist()
        links.append((*ends, int(rng.integers(1, 9))))
    return Network(hosts, hosts + switches, *zip(*links, strict=True))


def plain_optimum(network: Network, demand: np.ndarray, *, relays: bool) -> float:
    """The program as it stands, a flow a source and link, without any colours."""
    hosts, nodes, links = network.num_hosts, network.num_nodes, network.num_links
    rows, columns, values, needed = [], [], [], []
    bounds = [(0, None)] * (hosts * links) + [(0, None)]
    for source in range(hosts):
        for node in set(range(nodes)) - {source}:
            for ends, sign in ((network.head, 1), (network.tail, -1)):
                near = np.flatnonzero((ends == node) & (network.tail != network.head))
                rows += [len(needed)] * len(near)
                columns += (source * links + near).tolist()
                values += [sign] * len(near)
            needed.append(demand[source, node] if node < hosts else 0)
        for link in range(links):
            tail = network.tail[link]
            if network.head[link] == source or (not relays and source != tail < hosts):
                bounds[source * links + link] = (0, 0)
    loads = np.hstack([np.tile(np.eye(links), hosts), -network.bandwidth[:, None].astype(float)])
    shape = (len(needed), hosts * links + 1)
    found = linprog(
        np.eye(1, shape[1], shape[1] - 1)[0],
        A_ub=csr_matrix(loads),
        b_ub=np.zeros(links),
        A_eq=csr_matrix((values, (rows, columns)), shape=shape),
        b_eq=needed,
        bounds=bounds,
        method="highs",
    )
    return float(found.fun)


def check_random(seed: int) -> None:
    network, rng = random_network(seed), np.random.default_rng(seed)
    shape = (network.num_hosts,) * 2
    matrix = None if seed % 2 else rng.integers(0, 9, shape) + np.eye(*shape, k=1, dtype=int)
    demand = (1 if matrix is None else matrix) * (1 - np.eye(*shape, dtype=int))
    relays = None if seed % 3 else ()
    found = exchange_optimum(network, matrix, relays)
    assert found.value == found.bound
    assert float(found.value) == pytest.approx(
        plain_optimum(network, demand, relays=relays is None)
    )
    cut = cut_bound(network, matrix)
    assert cut is None or cut.inv_rate <= found.value


@pytest.mark.parametrize("seed", range(16))
def test_prices_meet_the_plain_program(seed):
    check_random(seed)


@pytest.mark.slow
def test_prices_meet_the_plain_program_on_200_networks():
    for seed in range(16, 216):
        check_random(seed)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 10**6), st.integers(2, 7))
def test_what_changes_the_optimum_and_what_does_not(seed, factor):
    network, rng = random_network(seed), np.random.default_rng(seed)
    one, other = (rng.integers(1, 9, (network.num_hosts,) * 2) for _ in range(2))
    least = exchange_optimum(network, one).value
    assert (
        exchange_optimum(network.changed(network.bandwidth * factor), one).value * factor == least
    )
    assert exchange_optimum(network, one * factor).value == least * factor
    both = exchange_optimum(network, one + other).value
    assert both <= least + exchange_optimum(network, other).value
    assert exchange_optimum(network, one, ()).value >= least
    order = rng.permutation(network.num_hosts)
    place = np.append(np.argsort(order), np.arange(network.num_hosts, network.num_nodes))
    named = Network(
        *(network.num_hosts, network.num_nodes, place[network.tail], place[network.head]),
        network.bandwidth,
    )
    assert exchange_optimum(named, one[np.ix_(order, order)]).value == least
    wider = Network(
        *(network.num_hosts, network.num_nodes),
        *(np.append(network.tail, 0), np.append(network.head, 1), np.append(network.bandwidth, 3)),
    )
    assert exchange_optimum(wider, one).value <= least


def test_prices_that_are_not_the_best_prove_less():
    exchange = exchange_of(h100_rail(2))
    least = exchange_optimum(h100_rail(2)).value
    rng = np.random.default_rng(1)
    for _ in range(20):
        price = rng.integers(0, 5, len(exchange.tail))
        assert price_bound(exchange, price) <= least


@cache
def found_on(text: str):
    return exchange_paths(parse_network(text))


@pytest.mark.parametrize("text", NETWORKS)
def test_paths_reach_the_optimum(text):
    paths, network = found_on(text), parse_network(text)
    carried = np.repeat(paths.amount, np.diff(paths.start))
    loads = np.bincount(paths.link, carried, network.num_links) / network.bandwidth
    assert loads.max() == pytest.approx(float(paths.optimum.value), rel=1e-5)
    assert int(paths.hop.max()) + 1 <= NETWORKS[text]
    pair = paths.source * network.num_hosts + paths.target
    sums = np.bincount(pair, paths.amount)
    assert sums[sums > 0] == pytest.approx(1)
    parts = paths.parts_within()
    schedule = paths.schedule(parts)
    verdict = verify_on(direct_routes(schedule.topology, network), schedule)
    assert verdict.witness is None
    assert schedule.num_steps == parts + int(paths.hop.max())
    assert verdict.cost.t_b <= ENOUGH * paths.optimum.t_b
    assert verdict.cost.t_b >= paths.optimum.t_b


@pytest.mark.parametrize("seed", range(10))
def test_schedules_on_random_networks(seed):
    network = random_network(seed)
    paths = exchange_paths(network)
    schedule = paths.schedule(2)
    assert verify_on(direct_routes(schedule.topology, network), schedule).witness is None
    assert float(schedule.synchronous_cost().t_b) >= float(paths.optimum.t_b) * (1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_uneven_schedules(kind):
    network = h100_rail(2)
    demand = expert_counts(kind, experts=32, top_k=4, ranks=16, tokens=12)
    np.fill_diagonal(demand, 0)
    paths = exchange_paths(network, demand)
    schedule = paths.schedule(4)
    assert verify_on(direct_routes(schedule.topology, network), schedule).witness is None
    assert paths.time(16) <= 1.05 * float(paths.optimum.value)


def test_damage_is_no_other_question():
    network = damaged(h100_rail(4), ("h3-s7",))
    found = exchange_optimum(network)
    assert found.is_optimal
    assert found.value > exchange_optimum(h100_rail(4)).value
    schedule = exchange_paths(network).schedule(1)
    assert verify_on(direct_routes(schedule.topology, network), schedule).witness is None


def test_large_programs_go_without_presolve(monkeypatch):
    network = damaged(h100_rail(2), ("h3-s5",))
    demand = expert_counts("zipf", experts=16, top_k=4, ranks=16, tokens=32)
    found = solved_exchange(network, demand)
    assert program_options(found.small.program, Options()) == Options()
    monkeypatch.setattr("ocs_codesign.schedules.exchange.optimum.MAX_SIMPLEX_COLUMNS", 0)
    quick = program_options(found.small.program, Options())
    monkeypatch.setattr("ocs_codesign.schedules.exchange.optimum.MAX_PRESOLVED_COLUMNS", 0)
    assert program_options(found.small.program, Options()) == replace(quick, presolve=False)
    plain = solved_exchange(network, demand).optimum
    assert plain.value == plain.bound == found.optimum.value


def test_the_scheduler_is_the_best_of_all():
    network = parse_network("a100(2)")
    task = Task(network.topology(), Collective.ALLTOALL, network=network)
    made = made_by("flow", task)
    assert made.bound == exchange_optimum(network).t_b
    assert made.schedule.synchronous_cost().t_b <= ENOUGH * made.bound
    with pytest.raises(ValueError, match="sends are too many"):
        made_by("flow", Task(network.topology(), Collective.ALLTOALL, network=network, max_sends=9))


def check_near_the_bound(network: Network, make) -> None:
    """What is made without a message, with 1 us a link, from 16 MiB on."""
    schedule = make(Task(network.topology(), Collective.ALLTOALL, network=network)).schedule
    network, sizes = network.changed(latency=[1000] * network.num_links), (2**24, 2**30)
    contest = Contest("", network, Collective.ALLTOALL, sizes, Fraction(10**9))
    floor = contest.floor_s()
    for time_s, size in zip(timed_of(contest, schedule)[0], sizes, strict=True):
        assert time_s <= ENOUGH * floor.at(size)


@pytest.mark.parametrize(
    "text",
    [
        "a100(2)",
        "boxes(3, 5, 30, 7)",
        "leaf_spine(3, 3, 2, 4, 3)",
        "fat_tree((4, 2, 2), (1, 2, 1), (9, 9, 20))",
    ],
)
def test_parts_suffice_on_the_clock(text):
    """In one part pieces meet on their way through switches: 1.08 to 1.40 times the bound."""
    check_near_the_bound(parse_network(text), partial(made_by, "flow"))


@pytest.mark.parametrize("seed", [5006, 5027, 5042])
def test_the_default_is_near_the_bound_on_the_clock(seed):
    """Also where another scheduler has the same t_b in fewer steps."""
    check_near_the_bound(random_network(seed), of_least_t_b)


@pytest.mark.parametrize("seed", [5006, 5014, 5043])
def test_parts_are_the_fewest_that_are_near_on_the_clock(seed):
    network = random_network(seed)
    paths = exchange_paths(network)
    parts, t_b = paths.parts_within(), float(paths.optimum.t_b)
    assert parts > 1
    near = [clocked_t_b(network, paths.schedule(p)) / t_b <= ENOUGH for p in (parts // 2, parts)]
    assert near == [False, True]


@pytest.mark.parametrize("text", NETWORKS)
def test_bounds_of_comparisons_are_the_optimum(text):
    network = parse_network(text)
    assert most_algbw(network, Collective.ALLTOALL) == exchange_optimum(network).algbw


BUILT = {
    "direct": ("GeneralizedKautz(3, 10)", "Circulant(12, (2, 3))"),
    "torus": ("torus((4, 4), 1)", "torus((3, 4), (2, 5))"),
    "mesh": ("mesh((4, 5), 1)", "mesh((3, 4), (2, 5))"),
    "star": ("star(6, 10)", "star(4, (10, 10, 10, 1))"),
    "fat_tree": (
        "fat_tree((2, 2, 4), (1, 2, 2), 10)",
        "fat_tree((4, 4, 2), (1, 2, 1), (9, 9, 20))",
    ),
    "boxes": ("boxes(4, 4, 100, 10, outer=2)", "boxes(3, 5, 30, 7)"),
    "leaf_spine": ("leaf_spine(4, 4, 2, 4, 2)", "leaf_spine(3, 3, 2, 4, 3)"),
    "a100": ("a100(1)", "a100(2)"),
    "h100_rail": ("h100_rail(1)", "h100_rail(2)"),
    "mi250": ("mi250(1)",),
    "dgx1": ("dgx1()",),
    "ndv2": ("ndv2(1)", "ndv2(2)"),
    "dgx2": ("dgx2(1)", "dgx2(2)"),
    "servers": (),
    "damaged": (),
}
"""Networks of every builder; those that take networks are called below."""


def built(builder: str) -> list[Network]:
    inner, outer = parse_network("star(4, 30)"), parse_network("star(6, 5)")
    of_networks = {
        "servers": [BUILDERS["servers"](6, inner, outer, 2, attach="gpu")],
        "damaged": [
            damaged(parse_network("h100_rail(2)"), ("h3-s5",)),
            damaged(parse_network("mi250(1)"), ("h0-h1",)),
            damaged(parse_network("torus((4, 4), 1)"), ("h3-h2",)),
        ],
    }
    return of_networks.get(builder, []) + [parse_network(text) for text in BUILT[builder]]


def check_stated(network: Network, least: float, monkeypatch) -> None:
    """What comparisons state, with the program and as on networks that are too large for it."""
    hosts = network.num_hosts
    even = np.ones((hosts, hosts), dtype=int) - np.eye(hosts, dtype=int)
    optimum = plain_optimum(network, even, relays=True)
    for cells, part in ((contests._MAX_CELLS, 0.98), (0, least)):
        with monkeypatch.context() as patch:
            patch.setattr(contests, "_MAX_CELLS", cells)
            stated = hosts / float(most_algbw(network, Collective.ALLTOALL))
        assert part * optimum <= stated <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("builder", BUILDERS)
def test_stated_bounds_of_every_builder(builder, monkeypatch):
    for network in built(builder):
        check_stated(network, 0.95, monkeypatch)


@pytest.mark.parametrize("seed", [62, *range(300, 306)])
def test_stated_bounds_of_random_networks(seed, monkeypatch):
    check_stated(random_network(seed), 0.9, monkeypatch)


@pytest.mark.slow
def test_stated_bounds_of_100_random_networks(monkeypatch):
    for seed in range(200, 300):
        check_stated(random_network(seed), 0.9, monkeypatch)


def test_bounds_of_thousands_of_hosts_on_rails_need_no_program():
    network = h100_rail(512)
    assert network.num_hosts / most_algbw(network, Collective.ALLTOALL) == Fraction(4 * 511, 25)


@pytest.mark.slow
def test_hundreds_of_hosts_without_symmetry():
    demand = expert_counts("zipf", experts=256, top_k=8, ranks=128, tokens=128)
    assert exchange_optimum(h100_rail(16), demand).is_optimal
    paths = exchange_paths(h100_rail(64))
    schedule = paths.schedule(1)
    network = paths.network
    assert verify_on(direct_routes(schedule.topology, network), schedule).witness is None
    assert schedule.synchronous_cost().t_b == paths.optimum.t_b


@pytest.mark.parametrize("case", [case for case in CASES if case["group"] == "counts"])
def test_drawn_experts(case):
    counts = counts_of(case)
    assert counts.sum(axis=0).tolist() == case["columns"]
    assert counts[0].tolist() == case["first_row"]
    assert counts.sum() == case["sum"]


def test_what_is_no_exchange_is_said():
    network = star(3, 10)
    one_way = Network(2, 2, [0], [1], [5])
    for demand, text in (
        (np.zeros((3, 3), dtype=int), "nothing is to be sent"),
        (-np.ones((3, 3), dtype=int), "none < 0"),
        (np.ones((2, 2), dtype=int), "3 rows of 3"),
    ):
        with pytest.raises(ValueError, match=text):
            exchange_optimum(network, demand)
    with pytest.raises(ValueError, match=r"h1 has something for h0, and no path leads there$"):
        exchange_optimum(one_way)
    ring = Network(3, 3, [0, 1, 2], [1, 2, 0], [1, 1, 1])
    with pytest.raises(ValueError, match=r"h0 has something for h2, .* without relays"):
        exchange_optimum(ring, relays=())
    with pytest.raises(ValueError, match="relays are hosts"):
        exchange_optimum(network, relays=(3,))
    with pytest.raises(ValueError, match="are refined"):
        exchange_optimum(star(20000, 1))
    with pytest.raises(ValueError, match="unknown kind"):
        expert_counts("odd", experts=4, top_k=1, ranks=2, tokens=1)
    with pytest.raises(ValueError, match="every rank has as many"):
        expert_counts("even", experts=5, top_k=1, ranks=2, tokens=1)
    with pytest.raises(ValueError, match="a token needs 4"):
        expert_counts("silent", experts=4, top_k=4, ranks=4, tokens=1)


@pytest.mark.parametrize("case", [case for case in CASES if case["group"] == "latency"])
def test_cuts_with_latency(case):
    plain = parse_network(case["product_network"])
    ticks = [int(case["latency_us_a_link"] * 1000)] * plain.num_links
    contest = Contest("", plain.changed(latency=ticks), Collective.ALLTOALL, (1,), Fraction(10**9))
    least_us = float(contest.floor_s().at(case["bytes"]) * 10**6)
    assert least_us == pytest.approx(case["cut_with_latency_us"])
    assert least_us > case["flow_bound_us"]


@pytest.mark.parametrize(
    "text",
    ["h100_rail(2)", pytest.param("a100(2)", marks=pytest.mark.slow), "leaf_spine(3, 3, 2, 4, 3)"],
)
@pytest.mark.parametrize("name", ["allgather", "reduce-scatter", "allreduce", "alltoall"])
def test_nothing_is_below_the_bound_with_latency(text, name):
    network = parse_network(text)
    network = network.changed(latency=np.arange(network.num_links) % 7 * 300)
    sizes = (1, 2**14, 2**20, 2**24)
    contest = Contest(text, network, Collective(name), sizes, Fraction(10**9))
    floor = contest.floor_s()
    for entrant in (
        Entrant("flow", (("parts", 4),)),
        Entrant("forest"),
        Entrant("direct", (), True),
    ):
        outcome = play(contest, entrant)
        for size, time_s in zip(sizes, outcome.times_s, strict=False):
            assert time_s >= float(floor.at(size)) * (1 - 1e-12)


def test_rails_take_what_the_bound_with_latency_says():
    network = h100_rail(2)
    network = network.changed(latency=[1000] * network.num_links)
    contest = Contest("", network, Collective.ALLTOALL, (2**24,), Fraction(10**9))
    outcome = play(contest, Entrant("flow", (("parts", 1),)))
    assert outcome.times_s[0] <= 1.001 * float(contest.floor_s().at(2**24))
