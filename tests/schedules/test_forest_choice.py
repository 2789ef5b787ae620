"""The choice of trees, parts or BFB for a message size: exact against trying all, within bounds."""

from __future__ import annotations

import json
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from forest_samples import known_network, networks
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.network import Network, shortest_routes
from ocs_codesign.core.networks.builders import direct, star
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import as_recipe, parse_network
from ocs_codesign.schedules.classic.conversion import schedule_of, schedule_through
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.forest.building import forests
from ocs_codesign.schedules.forest.choice import NEAR_OPTIMUM, contenders, near_optimum
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.pipeline import Pipeline
from ocs_codesign.schedules.simulate.clocked import clocked_t_b
from ocs_codesign.verification.schedules import verify, verify_on

AG = Collective.ALLGATHER
MESSAGE = 2**24


@settings(max_examples=40, deadline=None)
@given(network=networks(), exponent=st.integers(0, 34), alpha=st.sampled_from([0, 1e-7, 1e-5]))
def test_the_best_parts_are_the_best_of_all(network, exponent, alpha):
    try:
        made = forests(network, AG)
    except ValueError:
        return
    pipeline, model = Pipeline(made, AG), CostModel(alpha, 1e10)
    for most in (1, 3, 40):
        times = [pipeline.cost(parts).time_s(model, 2**exponent) for parts in range(1, most + 1)]
        best = pipeline.best_parts(model, 2**exponent, most)
        assert (times[best - 1], times.index(min(times))) == (min(times), best - 1)


@settings(max_examples=15, deadline=None)
@given(network=networks(), parts=st.integers(1, 12))
def test_costs_are_those_of_the_schedule(network, parts):
    """Also where parts are more than the steps of one, whose cost is not summed up."""
    try:
        pipeline = Pipeline(forests(network, AG), AG)
    except ValueError:
        return
    if pipeline.trees_a_unit < 1000:
        verdict = verify(pipeline.schedule(parts), pipeline.cost(parts))
        assert verdict.ok, verdict.witness


@pytest.mark.parametrize(
    ("network", "bandwidth"),
    [
        (direct(as_recipe("Hypercube(6)").topology(), 1), 12.5e9),
        (direct(as_recipe("Torus((8, 8))").topology(), 1), 12.5e9),
        (known_network("mi250-2"), 316e9),
    ],
)
def test_the_time_of_16_mib_is_that_of_full_pipelines_or_less(network, bandwidth):
    field, t_b = contenders(network, AG), float(optimum(network, AG).t_b)
    for alpha in (1e-6, 1e-5):
        check_full_pipelines(field, t_b, bandwidth, alpha)


def check_full_pipelines(field, t_b, bandwidth, alpha):
    choice = field.choice(CostModel(alpha, bandwidth), MESSAGE)
    t_b_s = t_b * MESSAGE / bandwidth
    assert len({one.pipeline for one in choice.contenders}) >= 2
    best = next(one for one in choice.contenders if one.pipeline is not None)
    assert best.height == best.pipeline.forests[0].height
    assert best.pipeline.chunk_bytes(MESSAGE, best.num_parts) >= 1024
    full_s = (sqrt(t_b_s) + sqrt((best.height - 1) * alpha)) ** 2
    assert t_b_s + alpha * choice.least.steps <= choice.time_s(best.cost) <= 1.15 * full_s
    times = [choice.time_s(one.cost) for one in choice.contenders]
    assert times == sorted(times)


def test_least_steps_count_hosts_alone():
    for network, steps in (
        (star(5, 3), 1),
        (known_network("leafspine-4x4-2-4-4"), 1),
        (known_network("a100-4"), 2),
        (direct(as_recipe("GeneralizedKautz(2, 9)").topology(), 1), 3),
    ):
        assert contenders(network, AG).least.steps == steps
    ring = direct(as_recipe("UniRing(1, 5)").topology(), 1)
    assert contenders(ring, Collective("broadcast", root=2)).least.steps == 4
    assert contenders(ring, Collective("reduce", root=2)).least.steps == 4
    assert contenders(ring, Collective("allgather", groups=[(0, 2)])).least.steps == 3


def test_rings_through_switches_compete():
    """A ring of the hosts takes N - 1 steps at the bound, and is what its routes cost."""
    network = known_network("leafspine-4x4-2-4-4")
    for half in Collective.ALLREDUCE.halves():
        field = contenders(network, half)
        costs = {one.maker: one.cost for one in field.others}
        assert costs["ring"] == Cost(15, Fraction(15, 16))
        assert costs["ring-outward"].steps == 8
        messages = CLASSIC["ring"].messages(half.name, 16)
        pairs = Topology(16, range(16), [*range(1, 16), 0])
        routes = shortest_routes(pairs, network)
        placed = schedule_of(messages, pairs)
        assert routes.synchronous_cost(placed) == costs["ring"]
        verdict = verify_on(routes, placed)
        assert (verdict.witness, verdict.cost) == (None, costs["ring"])
        assert [one.maker for one in field.choice(CostModel(1e-6, 1e10), 2**20, 4).contenders] == [
            "forest"
        ] * len(field.pipelines), "only forests have parts"
    assert not contenders(network, Collective("broadcast", root=0)).others
    assert not contenders(network, AG, 1).others


def test_no_ring_where_hosts_would_have_to_forward():
    """Switch 3 joins hosts 0 and 1, and a link 1 and 2: a ring would pass host 1 in a step."""
    pairs = [(0, 3), (3, 0), (1, 3), (3, 1), (1, 2), (2, 1)]
    network = Network(3, 4, *np.array(pairs).T, [1] * 6)
    assert not contenders(network, AG).others
    messages = CLASSIC["ring"].messages("allgather", 3)
    with pytest.raises(ValueError, match="leads through host 1: only switches pass on"):
        schedule_through(messages, network)


@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce"])
def test_a_classic_is_built_where_it_is_fastest(capsys, tmp_path, collective):
    options = ["--network", "leaf_spine(4, 4, 2, 4, 4)", "--collective", collective]
    times = ["--alpha", "1us", "--bandwidth", "100Gbps", "--message", "1MiB"]
    answer = built(capsys, tmp_path, *options, *times)
    played = answer["compared"]["entrants"]
    times_s = {one["entrant"]: one["times_s"][0] for one in played if not one["refusal"]}
    assert answer["schedule"] in CLASSIC
    assert min(times_s, key=times_s.get).startswith(answer["schedule"])
    assert any("forest" in one for one in times_s)


def built(capsys, tmp_path, *options):
    out = str(tmp_path / "d")
    assert main(["build", *options, "--out", out, "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert main(["verify", out]) == 0
    capsys.readouterr()
    return answer


MODEL = ("--alpha", "10us", "--bandwidth", "150GB/s")


def test_the_fastest_is_built(capsys, tmp_path):
    command = ("GeneralizedKautz(2, 9)", "--scheduler", "forest", *MODEL, "--message")
    small = built(capsys, tmp_path, *command, "1MiB")
    assert small["schedule"] == "bfb"
    large = built(capsys, tmp_path, *command, "1GiB")
    assert large["schedule"].startswith("forest")
    (choice,) = large["choices"]
    best = choice["contenders"][0]
    assert {key: best[key] for key in ("steps", "t_b", "t_b_float")} == large["cost"]
    assert best["steps"] == best["parts"] + best["height"] - 1
    assert choice["least_time"]["time_s"] * choice["over_bound"] == pytest.approx(best["time_s"])
    assert choice["full_pipeline_s"] * choice["over_full_pipeline"] == pytest.approx(best["time_s"])
    coarse = built(capsys, tmp_path, *command, "1GiB", "--min-chunk", "8MiB", "--trees", "6")
    (choice,) = coarse["choices"]
    assert [one["schedule"] for one in choice["contenders"]] == ["forest"]
    assert choice["contenders"][0]["chunk_bytes"] >= 2**23
    both = built(capsys, tmp_path, *command, "1GiB", "--collective", "allreduce", "--parts", "4")
    # Both halves at once, where the next part is summed up while one is copied, is faster.
    (choice,) = both["choices"]
    assert [one.get("parts") for one in choice["contenders"]] == [4, None]
    assert choice["contenders"][0]["schedule"] == both["schedule"] == "forests of both halves"


def test_cost_compares_trees_with_all_others(capsys):
    sizes = ("--alpha", "10us", "--bandwidth", "100Gbps", "--message", "1KiB,4MiB,1GiB")
    asked = ("--exact", "--chunks", "2", "--max-steps", "4", "--scheduler", "forest", *sizes)
    assert main(["cost", "GeneralizedKautz(2, 9)", *asked, "--json", "-"]) == 0
    (half,) = json.loads(capsys.readouterr().out)["halves"]
    assert (half["collective"], half["bound"]) == ("allgather", {"steps": 3, "t_b": "8/9"})
    found = {"forest": [], "bfb": [], "exact": []}
    for one in half["schedules"]:
        found[one["schedule"]].append((one["steps"], one["t_b"], one["least_t_b"]))
    assert found["bfb"] == [(3, "14/9", "14/9")]
    assert found["exact"] == [(3, "14/9", "14/9"), (4, "10/9", "10/9")]
    assert found["forest"][0][2] == "8/9"
    assert found["forest"][0][0] <= 6
    winners = [one["contenders"][0]["schedule"] for one in half["messages"]]
    assert (winners[0], winners[2]) == ("bfb", "forest")
    assert main(["cost", "GeneralizedKautz(2, 9)", *asked]) == 0
    told = capsys.readouterr().out
    assert "nothing beats 3 steps, t_b 8/9 (0.888889); trees reach the t_b." in told
    assert "1 KiB  30.07 us     1  30.13 us" in told


def test_cost_of_a_network(capsys):
    assert main(["cost", "--network", "star(3, (2, 2, 1))", "--collective", "allreduce"]) == 0
    told = capsys.readouterr().out
    assert "hosts, switches  3, 1" in told
    assert "Reduce-scatter: nothing beats 1 step, t_b 4/3 (1.33333); trees reach the t_b." in told
    assert "Times at" not in told
    assert main(["cost", "Line(Complete(3))", "--scheduler", "forest"]) == 0
    assert "Allgather: nothing beats 2 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--network", "star(3, 2)", "--scheduler", "best"), "--scheduler best is for a RECIPE"),
        (("--network", "star(3, 2)", "--collective", "alltoall"), "not for alltoall"),
        (("--network", "star(3, 2)", "--exact"), "links between hosts"),
        (("Complete(3)", "--scheduler", "forest", "--gap", "1%"), "--gap and --fallback are for"),
        (("Complete(3)", "--network", "star(3, 2)"), "give either a RECIPE"),
    ],
)
def test_bad_costs(capsys, options, rule):
    assert main(["cost", *options]) == 2
    assert rule in capsys.readouterr().err


def test_the_choice_is_told(capsys, tmp_path):
    command = [
        "build",
        "Torus((3, 3))",
        "--scheduler",
        "forest",
        *MODEL,
        "--message",
        "1GiB",
        "--out",
    ]
    assert main([*command, str(tmp_path / "d")]) == 0
    told = capsys.readouterr().out
    assert "Best for 1 GiB, allgather at alpha 10 us" in told
    assert (
        "In whole steps nothing takes less than 6.383 ms: 2 steps and the bytes at t_b 0.888889."
        in told
    )
    assert "(sqrt(T_B) + sqrt((H - 1) alpha))^2" in told


@pytest.mark.parametrize(
    ("text", "collective"),
    [
        ("leaf_spine(2, 3, 2, 4, 3)", "allgather"),
        ("fat_tree((2, 2, 2), (1, 2, 2), 10)", "allgather"),
        ("boxes(4, 4, 100, 10, outer=2)", "reduce-scatter"),
    ],
)
def test_parts_are_enough_on_the_clock_too(text, collective):
    """Half of them are by steps, and take 1.11 to 1.17 times what many do."""
    network = parse_network(text)
    pipeline, parts = near_optimum(optimum(network, collective), Collective(collective))
    few, enough = (
        clocked_t_b(network, pipeline.schedule(num)) / pipeline.steady_state_t_b
        for num in (parts // 2, parts)
    )
    assert pipeline.cost(parts // 2).t_b <= NEAR_OPTIMUM * pipeline.steady_state_t_b
    assert enough <= NEAR_OPTIMUM < few


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--message", "1MiB"), "only given together"),
        ((*MODEL, "--message", "1MiB", "--scheduler", "bfb"), "--message is for --scheduler"),
        (("--min-chunk", "4KiB", "--scheduler", "forest"), "--min-chunk is for --message"),
        ((*MODEL, "--message", "1MiB", "--min-chunk", "0", "--scheduler", "forest"), "min-chunk"),
    ],
)
def test_bad_questions(capsys, tmp_path, options, rule):
    assert main(["build", "Torus((3, 3))", *options, "--out", str(tmp_path / "d")]) == 2
    assert rule in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
