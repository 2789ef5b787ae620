"""All-to-alls that are guided: over rails in closed form, by sketches, in phases, held plans."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from folders import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.machines.machine import machine_named
from ocs_codesign.core.network import direct_routes
from ocs_codesign.core.networks.builders import damaged, star
from ocs_codesign.core.networks.products import a100, h100_rail
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse_network
from ocs_codesign.schedules.classic.alltoall import (
    bruck_exchange,
    grid_exchange,
    two_phase_exchange,
)
from ocs_codesign.schedules.classic.radices import (
    MessageCost,
    best_bruck_radix,
    best_phases,
    bruck_time_s,
    even_phases,
    even_radices,
    phases_time_s,
)
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import Entrant, entrants, play
from ocs_codesign.schedules.exchange.drift import held_experts, held_plans
from ocs_codesign.schedules.exchange.experts import (
    KINDS,
    expert_counts,
    expert_tokens,
    moved_experts,
    placed_experts,
    side_by_side,
)
from ocs_codesign.schedules.exchange.optimum import (
    balanced_exchange,
    exchange_optimum,
    solved_exchange,
)
from ocs_codesign.schedules.exchange.paths import exchange_paths
from ocs_codesign.schedules.exchange.rails import rails_of
from ocs_codesign.schedules.exchange.sketches import load_sketch, sketch_on
from ocs_codesign.verification.schedules import verify_on

CASES = json.loads((DATA / "alltoall_any.json").read_text())["cases"]


def cases(group: str) -> list[dict]:
    return [case for case in CASES if case["group"] == group]


def drawn(case: dict) -> np.ndarray | None:
    return expert_counts(**case["matrix_of"]) if "matrix_of" in case else None


def is_valid(paths, parts: int) -> bool:
    schedule = paths.schedule(parts)
    routes = direct_routes(schedule.topology, paths.network)
    return verify_on(routes, schedule).witness is None


# Over rails, in closed form.


@pytest.mark.parametrize("ranks", [16, 64, 512])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_parts_over_rails_are_as_narrow_as_a_cut(kind, ranks):
    counts = expert_counts(kind, experts=2 * ranks, top_k=4, ranks=ranks, tokens=64)
    network = h100_rail(ranks // 8)
    found = balanced_exchange(network, counts)
    assert found is not None
    assert found.optimum.bottleneck.inv_rate == found.optimum.value == found.optimum.bound
    if ranks == 16:
        assert found.optimum.value == solved_exchange(network, counts).optimum.value
        paths = exchange_paths(network, counts)
        assert paths._loads.sum(axis=0).max() == pytest.approx(float(found.optimum.value))
        assert is_valid(paths, 2)


@pytest.mark.parametrize("text", ["h100_rail(2)", "boxes(4, 8, 50, 50, outer=8)", "h100_rail(512)"])
def test_even_exchanges_over_rails_need_no_program(text):
    network = parse_network(text)
    found = balanced_exchange(network, None)
    assert found.optimum.bottleneck.inv_rate == found.optimum.value
    if network.num_hosts < 100:
        assert found.optimum.value == solved_exchange(network).optimum.value
    else:
        assert found.optimum.value == Fraction(2044, 25)


def test_where_equal_parts_lose_a_program_is_solved():
    everything_to_one = np.zeros((16, 16), dtype=np.int64)
    everything_to_one[:, 3] = 5
    assert balanced_exchange(h100_rail(2), everything_to_one) is None
    assert exchange_optimum(h100_rail(2), everything_to_one).value == Fraction(3, 20)


@pytest.mark.parametrize(
    "network",
    [a100(2), star(8, 3), damaged(h100_rail(2), ("h3-s5",)), parse_network("Torus((3, 3))")],
)
def test_what_has_no_rails(network):
    assert rails_of(network) is None


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(1, 6), st.integers(0, 2**16))
def test_rails_of_any_shape(boxes, size, ratio, seed):
    rng = np.random.default_rng(seed)
    network = parse_network(f"boxes({boxes}, {size}, {6 * ratio}, 6, outer={size})")
    order = rng.permutation(network.num_hosts)
    rails = rails_of(network)
    assert (rails.num_rails, rails.host.size) == (size, boxes * size)
    demand = rng.integers(0, 9, (len(order), len(order)))
    np.fill_diagonal(demand, 0)
    if demand.any():
        paths = rails.paths(demand)
        loads = np.zeros(network.num_links)
        alike = (
            np.where(rails.box[paths[0]] == rails.box[paths[1]], 1.0, 1 / size)
            * demand[paths[0], paths[1]]
        )
        np.add.at(loads, paths[3], np.repeat(alike, paths[2]))
        assert (loads / network.bandwidth).max() == pytest.approx(float(rails.time(demand)))
        assert rails.time(demand) >= solved_exchange(network, demand).optimum.bound


# Sketches.


@pytest.mark.parametrize("case", cases("sketch"))
def test_known_sketches(case):
    network, demand = parse_network(case["product_network"]), drawn(case)
    assert float(exchange_optimum(network, demand).value) == pytest.approx(case["free"])
    for names, value in case["phases"].items():
        sketch = sketch_on(network, names.split(","))
        found = exchange_optimum(network, demand, phases=sketch.phases)
        assert found.proof == "prices"
        assert float(found.value) == pytest.approx(value)
        paths = exchange_paths(network, demand, phases=sketch.phases)
        assert is_valid(paths, 2)
        if names == "inside,rail":
            of_paths = np.split(network.dimension[paths.link], paths.start[1:-1])
            assert all((np.diff(levels) >= 0).all() for levels in of_paths)


@pytest.mark.parametrize("text", ["leaf_spine(3, 3, 2, 4, 3)", "Torus((3, 4))", "mi250(1)"])
def test_one_phase_of_all_links_is_the_free_optimum(text):
    network = parse_network(text)
    everything = np.arange(network.num_links)
    free = exchange_optimum(network).value
    assert exchange_optimum(network, phases=[everything]).value == free
    assert exchange_optimum(network, phases=[everything, everything]).value == free
    if text.startswith("leaf"):
        alone = exchange_optimum(network, relays=()).value
        assert exchange_optimum(network, relays=(), phases=[everything] * 2).value == alone


@pytest.mark.parametrize("seed", range(6))
def test_phases_never_help(seed):
    rng = np.random.default_rng(seed)
    network = parse_network("Torus((3, 4))")
    demand = rng.integers(0, 5, (12, 12))
    free = exchange_optimum(network, demand).value
    axis = network.head // 4 == network.tail // 4
    links = [np.flatnonzero(one) for one in (axis, ~axis)]
    for phases in (links, links[::-1], [*links, links[0]]):
        assert exchange_optimum(network, demand, phases=phases).value >= free


def test_sketch_files(tmp_path, capsys):
    file = tmp_path / "two.yaml"
    file.write_text("phases: [inside, [rail, h0-s0]]\nrelays: none\nparts: 3\n")
    network = h100_rail(2)
    sketch = load_sketch(str(file), network)
    assert (sketch.names, sketch.relays, sketch.parts) == (("inside", "rail+h0-s0"), (), 3)
    asked = ["optimum", "h100_rail(2)", "--collective", "alltoall", "--sketch"]
    assert main([*asked, "inside,rail", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sketch"].pop("collective") == "alltoall"
    assert told["sketch"] == {
        "phases": ["inside", "rail"],
        "relays": "any",
        "free": "4/25",
        "loss": "1",
    }
    for given_text, rule in (
        ("inside", "h0 has something for h8, and no path leads there in these phases"),
        ("dim9", "the phase 'dim9' has no links: dimensions are dim0 to dim1"),
        ("inside,nowhere", "'nowhere' is no node and no link"),
        (str(tmp_path / "no.yaml"), "no such file"),
    ):
        assert main([*asked, given_text]) == 2
        assert rule in capsys.readouterr().err
    file.write_text("phases: []\n")
    assert main([*asked, str(file)]) == 2
    assert "phases" in capsys.readouterr().err
    file.write_text("phases: [inside]\nrelay: none\n")
    assert main([*asked, str(file)]) == 2
    assert "relay" in capsys.readouterr().err


def test_build_of_a_demand_by_a_sketch(tmp_path, capsys):
    file = tmp_path / "demand.json"
    demand = [[(7 * i + 3 * j) % 5 if i != j else 0 for j in range(16)] for i in range(16)]
    file.write_text(json.dumps(demand))
    build = ["build", "--network", "h100_rail(2)", "--collective", "alltoall"]
    asked = [*build, "--demand", str(file), "--out", str(tmp_path / "made")]
    assert main([*asked, "--sketch", "rail,inside"]) == 0
    assert "flow" in capsys.readouterr().out
    assert main(["verify", str(tmp_path / "made")]) == 0
    assert "alltoall, 16 sizes" in capsys.readouterr().out
    assert main([*asked, "--scheduler", "direct"]) == 2
    assert main([*build, "--demand", str(file), "--message", "1MiB", "--out", "x"]) == 2
    assert main(["build", "Torus((3, 3))", "--sketch", "all", "--out", "x"]) == 2
    scatter = [
        "build",
        "--network",
        "h100_rail(2)",
        "-c",
        "scatter",
        "--sketch",
        "all",
        "--out",
        "x",
    ]
    assert main(scatter) == 2
    assert "--sketch is not for a scatter" in capsys.readouterr().err


# Phases of small messages.


@pytest.mark.parametrize("case", cases("phases"))
def test_known_phases(case):
    wire = MessageCost(case["overhead_us"] / 1e6, case["alpha_us"] / 1e6, case["bytes_a_us"] * 1e6)
    hosts, size = case["hosts"], case["bytes"]
    best = best_phases(hosts, size, wire)
    assert list(best) == case["best_factors"]
    assert phases_time_s(best, size, wire) * 1e6 == pytest.approx(case["time_us"])
    assert phases_time_s((hosts,), size, wire) * 1e6 == pytest.approx(case["direct_us"])
    radix = best_bruck_radix(hosts, size, wire)
    # The values were looked for among small radices alone.
    assert bruck_time_s(hosts, radix, size, wire) * 1e6 <= case["bruck_us"] * (1 + 1e-9)
    known = bruck_time_s(hosts, case["best_bruck_radix"], size, wire)
    assert known * 1e6 == pytest.approx(case["bruck_us"])


@pytest.mark.parametrize("ranks", [2, 6, 7, 12, 16])
def test_times_count_what_the_patterns_send(ranks):
    wire = MessageCost(1e-6, 2e-6, 1e9)
    for radix in (2, 3, ranks):
        steps = bruck_exchange(ranks, radix).steps
        pieces = sum(step.item.shape[1] for step in steps)
        messages = sum(len(np.unique(step.target[0])) for step in steps)
        told = bruck_time_s(ranks, radix, 1000 * ranks, wire) * 1e6
        assert told == pytest.approx(messages + pieces + 2 * len(steps))
    for dims in even_phases(ranks):
        sends = sum(step.num_sends for step in grid_exchange(ranks, dims).steps)
        moved = sum(ranks * ranks * (side - 1) // side for side in dims)
        assert sends == moved


def test_comparisons_try_phases():
    network = star(12, 50)
    asked = Contest("n", network, Collective.ALLTOALL, (2**10,), Fraction(10**9))
    told = [one.label for one in entrants(asked)]
    radices = [f"bruck{radix}" for radix in (" radix=4", " radix=3", "")]
    assert [one for one in told if one[:4] == "grid"] == ["grid dims=3,4", "grid dims=2,2,3"]
    assert [one for one in told if one[:5] == "bruck"] == radices
    assert even_radices(2) == even_phases(7) == []


# Boxes.


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        *(("h100_rail(2)", (2, 8)), ("leaf_spine(3, 4, 2, 4, 4)", (3, 4)), ("star(8, 3)", ())),
        *(("mi250(2)", (2, 16)), ("Torus((4, 4))", ()), ("h100_rail(1)", ())),
        ("leaf_spine(3, 1, 2, 4, 4)", ()),
    ],
)
def test_boxes_of_networks(text, boxes):
    contest = Contest("", parse_network(text), Collective.ALLTOALL, (1,), Fraction(1))
    assert contest.boxes == boxes


@pytest.mark.parametrize(("boxes", "size"), [(2, 8), (64, 8), (3, 5), (1, 6), (5, 1)])
def test_two_phases_take_few_messages(boxes, size):
    hosts, steps = boxes * size, two_phase_exchange(boxes * size, (boxes, size)).steps
    sent = np.zeros(hosts, dtype=np.int64)
    for step in steps:
        pairs = np.unique(step.source * hosts + step.target)
        sent += np.bincount(pairs // hosts, minlength=hosts)
    assert (sent == (size - 1) * (1 + (boxes > 1)) + (boxes - 1) * (1 + (size > 1))).all()


def test_two_phases_near_the_bound_of_hundreds():
    """On 64 GPUs of rails by links of 1 us, 16 MiB, as many messages as boxes and mates."""
    network = h100_rail(8)
    contest = Contest(
        "",
        network.changed(latency=[1000] * 128 * 2),
        Collective.ALLTOALL,
        (2**24,),
        Fraction(10**9),
    )
    (options,) = (one.options for one in entrants(contest) if one.maker == "two-phase")
    outcome = play(contest, Entrant("two-phase", options, True))
    assert outcome.times_s[0] <= 1.03 * float(contest.floor_s().at(2**24))
    with pytest.raises(ValueError, match="they are boxes and ranks of one"):
        two_phase_exchange(8, (2, 2, 2))


@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_few_steps_between_boxes_and_inside(name):
    contest = Contest(
        *("", h100_rail(8), Collective(name), (2**16,), Fraction(10**9)),
        machine=machine_named("h100"),
    )
    bucket = Entrant("bucket", (("dims", (8, 8)), ("inner", "direct")), True)
    assert bucket in entrants(contest)
    doubling = Entrant("recursive-doubling", (), True)
    assert 2 * play(contest, bucket).times_s[0] < play(contest, doubling).times_s[0]


# Experts that are placed, and groups side by side.


@pytest.mark.parametrize("kind", ["zipf", "hot_rank", "silent"])
@pytest.mark.parametrize("spare", [0, 5, 16])
def test_placed_experts_share_what_comes(kind, spare):
    ranks, drawn = 8, {"experts": 32, "top_k": 4, "tokens": 64}
    tokens = expert_tokens(kind, ranks=ranks, **drawn)
    assert tokens.sum() == ranks * drawn["tokens"] * drawn["top_k"]
    home = placed_experts(tokens, ranks, spare)
    places = home[home >= 0]
    each = -(-(drawn["experts"] + spare) // ranks)
    assert (home[:, 0] >= 0).all()
    assert np.bincount(places, minlength=ranks).tolist() == [each] * ranks
    copies = (home >= 0).sum(axis=1)
    assert all(len(set(row[row >= 0].tolist())) == (row >= 0).sum() for row in home)
    for once in (False, True):
        counts = expert_counts(kind, ranks=ranks, **drawn, once=once, home=home)
        plain = expert_counts(kind, ranks=ranks, **drawn, once=once)
        assert counts.sum(axis=0).max() <= plain.sum(axis=0).max()
        assert once or counts.sum() == plain.sum() == tokens.sum()
    share = max(tokens.sum() / ranks, (tokens / copies).max())
    busiest = expert_counts(kind, ranks=ranks, **drawn, once=False, home=home).sum(axis=0).max()
    # Longest first is within 4/3 of the best (Graham, 1969); places and turns add a little.
    assert busiest <= 1.4 * share


def test_the_same_tokens_wherever_experts_are():
    drawn = {"experts": 16, "top_k": 2, "ranks": 4, "tokens": 50}
    plain = expert_counts("zipf", **drawn, once=False)
    back = np.arange(16)[:, None] // 4
    assert (expert_counts("zipf", **drawn, once=False, home=back) == plain).all()
    assert (expert_counts("zipf", **drawn, once=False, home=3 - back) == plain[:, ::-1]).all()
    with pytest.raises(ValueError, match="a home is a row of ranks"):
        expert_counts("zipf", **drawn, home=back[:3])
    with pytest.raises(ValueError, match="every rank has as many"):
        placed_experts(np.ones(7), 2)


def test_what_placing_anew_moves():
    before = placed_experts(expert_tokens("moving", experts=32, top_k=4, ranks=8, tokens=64), 8, 8)
    after = placed_experts(
        expert_tokens("moving", experts=32, top_k=4, ranks=8, tokens=64, step=3), 8, 8
    )
    moves = moved_experts(before, after, 8)
    new = sum(len({*new} - {*old} - {-1}) for old, new in zip(before, after, strict=True))
    assert moves.sum() == new > 0
    assert not moves.diagonal().any()
    assert not moved_experts(after, after, 8).any()


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 4), st.sampled_from([1, 2, 4]), st.integers(0, 2**16))
def test_groups_take_what_the_slowest_takes_where_they_share_nothing(size, stride, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(1, 9, (4, size, size))
    whole = side_by_side(groups, stride)
    assert whole.sum() == groups.sum()
    star_of_all, star_of_one = star(4 * size, 3), star(size, 3)
    slowest = max(exchange_optimum(star_of_one, one).value for one in groups)
    assert exchange_optimum(star_of_all, whole).value == slowest


def test_groups_in_files(tmp_path, capsys):
    file, asked = tmp_path / "groups.json", {"kind": "zipf", "experts": 8, "top_k": 2, "ranks": 4}
    asked |= {"tokens": 16, "groups": 4, "stride": 4}
    file.write_text(json.dumps({"matrix_of": asked}))
    given_file = ["optimum", "h100_rail(2)", "--collective", "alltoall", "--demand", str(file)]
    assert main([*given_file, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    drawn = {key: asked[key] for key in ("experts", "top_k", "ranks", "tokens")}
    groups = [expert_counts("zipf", **drawn, seed=1 + group) for group in range(4)]
    assert Fraction(told["U"]) == exchange_optimum(h100_rail(2), side_by_side(groups, 4)).value
    for change, rule in (
        ({"stride": 3}, "4 groups are not whole blocks of groups 3 apart"),
        ({"groups": 0}, "matrix_of has 0 groups"),
    ):
        file.write_text(json.dumps({"matrix_of": {**asked, **change}}))
        assert main(given_file) == 2
        assert rule in capsys.readouterr().err


# Plans that are held.

DRIFTING = ("leaf_spine(3,3,2,4,3)", "h100_rail(2)", "Torus((3,3))", "star(6,(4,4,4,2,2,1))")


@pytest.mark.parametrize("seed", range(8))
def test_regrets_stay_under_their_limit(seed):
    check_regrets(seed)


@pytest.mark.slow
def test_regrets_of_a_hundred_sequences():
    for seed in range(8, 108):
        check_regrets(seed)


def check_regrets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = parse_network(DRIFTING[seed % 4])
    hosts = network.num_hosts
    demand, demands = rng.integers(0, 20, (hosts, hosts)), []
    for _ in range(6):
        demand = np.maximum(0, demand + rng.integers(-6, 7, (hosts, hosts)))
        demand[0, 1] += 1
        demands.append(demand)
    replanning = (0.0, 0.5, 2.0, 20.0)[seed // 4 % 4]
    found = held_plans(network, demands, replanning)
    assert found.total <= found.limit * (1 + 1e-9)
    assert (found.time >= found.least).all()
    if replanning == 0:
        assert found.time == pytest.approx(found.least, rel=1e-6)


def at_homes(kind: str, steps: list[dict], at: int, home: np.ndarray) -> np.ndarray:
    return expert_counts(kind, **steps[at], home=home)


@pytest.mark.slow
def test_regrets_of_a_hundred_sequences_of_experts():
    """Popularity of every kind, moves of any price, products that take nothing or much."""
    for seed in range(100):
        drawn = {"experts": 8, "top_k": 2, "ranks": 4, "tokens": 32, "seed": seed}
        kind, spare = list(KINDS)[seed % 8], seed % 3 * 4
        steps = [{**drawn, "step": step, "layer": step // 3 * (seed % 2)} for step in range(6)]
        popular = [expert_tokens(kind, **each) for each in steps]
        counts = partial(at_homes, kind, steps)
        units, working = (0, 3, 30, 3000)[seed // 8 % 4], seed // 4 % 3 * 0.5
        found = held_experts("star(4, 1)", popular, counts, units, spare, working=working)
        assert found.total <= found.limit * (1 + 1e-9)
        assert (found.time >= found.least).all()
        assert len(found.planned) == 1 or found.replanning > 0 or not units


@pytest.mark.parametrize("kind", ["moving", "zipf"])
def test_experts_stay_until_regrets_pay_for_their_way(kind):
    given_all = {"experts": 8, "top_k": 1, "ranks": 4, "tokens": 64}
    steps = [{**given_all, "step": step, "layer": step // 2} for step in range(4)]
    tokens = [expert_tokens(kind, **each) for each in steps]
    counts = partial(at_homes, kind, steps)
    plans = []
    for expert_units in (0, 5, 5000):
        found = held_experts("star(4, 1)", tokens, counts, expert_units, 4)
        assert found.total <= found.limit * (1 + 1e-9)
        assert (found.time >= found.least).all()
        assert expert_units or found.time == pytest.approx(found.least)
        plans.append(len(found.planned))
    assert plans == sorted(plans, reverse=True)
    assert plans[-1] == 1 < plans[0]
    with pytest.raises(ValueError, match="a step or more"):
        held_experts("star(8, 1)", [], counts, 1)


def test_a_plan_serves_pairs_that_it_did_not_know():
    demand = np.zeros((6, 6), dtype=np.int64)
    demand[0, 1] = 3
    other = np.roll(demand, 2, axis=(0, 1))
    found = held_plans("star(6, 3)", [demand, other], 100)
    assert found.planned.tolist() == [0]
    assert found.time.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="a demand or more"):
        held_plans("star(6, 3)", [], 1)
