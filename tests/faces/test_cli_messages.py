"""``--message`` several times: a column a size, the best of each size, lists in JSON."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

from ocs_codesign.faces.cli import main

MODEL = ["--alpha", "10us", "--bandwidth", "100Gbps"]
SIZES = [2.0**10, 2.0**20, 2.0**26]
ASKED = [*MODEL, "--message", "1KiB,1MiB", "--message", "64MiB"]
FRONTIER = ["frontier", "--nodes", "12", "--degree", "2"]
SHORT = "GeneralizedKautz(2, 12)"
EVEN = "Cayley(Affine(2, ((0, 1), (1, 1)), 3), (((0, 0), 1), ((0, 1), 1)))"
FABRIC = """\
name: small
hosts: {count: 12}
planes:
- count: 2
  switches: [{profile: polatis-384, ports: 12, delta: 25ms}]
alpha: 10us
node_bandwidth: 100Gbps
losses: {connector_db: 0.25, circulator_db: 0, budget_db: 9}
"""


def json_of(capsys, *words):
    assert main([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def table_of(capsys, *words):
    assert main([*words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def time_s(steps, t_b, size):
    return float(steps * Fraction(1, 10**5) + Fraction(t_b) * Fraction(size) / (125 * 10**8))


def test_frontier(capsys):
    found = json_of(capsys, *FRONTIER, *ASKED)
    assert found["cost_model"]["messages_bytes"] == SIZES
    for one in (*found["candidates"], *found["dominated"]):
        assert one["times_s"] == [time_s(one["steps"], one["t_b"], size) for size in SIZES]
    for at, best in enumerate(found["best"]):
        times = {one["recipe"]: one["times_s"][at] for one in found["candidates"]}
        assert times[best] == min(times.values())
    assert len(set(found["best"])) == 2
    out = table_of(capsys, *FRONTIER, *ASKED)
    assert "  at 1 KiB  at 1 MiB  at 64 MiB  " in out
    assert re.findall("Best for (.*?) at", out) == ["1 KiB", "1 MiB", "64 MiB"]


@pytest.mark.parametrize("kind", [["--criteria", "joint"], ["--collective", "alltoall"]])
def test_frontier_of_all_to_all(capsys, kind):
    words = ["frontier", "--nodes", "8", "--degree", "4", *kind, *ASKED]
    found = json_of(capsys, *words)
    (only,) = found["candidates"]
    assert found["best"] == [only["recipe"]] * 3
    steps, t_b = only["diameter"], only["alltoall_t_b"]
    assert only["alltoall_s"] == [time_s(steps, t_b, size) for size in SIZES]
    assert "  at 1 KiB  at 1 MiB  at 64 MiB  " in table_of(capsys, *words)


def test_frontier_that_changes_circuits(capsys, tmp_path):
    picture = tmp_path / "f.png"
    words = ["frontier", "--nodes", "8", "--degree", "2", "--collective", "alltoall", *ASKED]
    words += ["--delta", "10us,1ms", "--plot", str(picture), "--json", str(tmp_path / "f.json")]
    out = table_of(capsys, *words)
    found = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    asked = [(size, delta) for size in SIZES for delta in (1e-5, 1e-3)]
    verdicts = found["verdicts"]
    assert [(each["message_bytes"], each["reconfiguration_s"]) for each in verdicts] == asked
    assert len(found["break_even_s"]) == 3
    for one in found["candidates"]:
        for at, (size, delta) in enumerate(asked):
            dead = (one["configurations"] - 1) * delta
            expected = pytest.approx(time_s(one["steps"], one["t_b"], size) + dead, rel=1e-12)
            assert one["times_by_dead_time_s"][at // 2][at % 2] == expected
    assert "  1 KiB at 10 us  1 KiB at 1 ms  1 MiB at 10 us  " in out
    assert out.count("changing circuits pays below") == 3
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_cost(capsys):
    found = json_of(capsys, "cost", "Kautz(2, 2)", *ASKED)
    assert found["times_s"] == [time_s(found["steps"], found["t_b"], size) for size in SIZES]
    out = table_of(capsys, "cost", "Kautz(2, 2)", *ASKED)
    assert "\nmessage  1 KiB     1 MiB     64 MiB\n" in out
    found = json_of(capsys, "cost", "Kautz(2, 2)", "--collective", "alltoall", *ASKED)
    assert found["times_s"] == [time_s(3, found["t_b"], size) for size in SIZES]
    assert "times_s" not in json_of(capsys, "cost", "Kautz(2, 2)")


def test_cost_of_exact_schedules(capsys):
    words = ["cost", "Kautz(2, 1)", "--exact", *ASKED]
    for point in json_of(capsys, *words)["points"]:
        assert point["times_s"] == [time_s(point["steps"], point["t_b"], size) for size in SIZES]
    out = table_of(capsys, *words)
    best = re.findall("Best for (.*?) at .*: ([0-9]) steps in", out)
    assert best == [("1 KiB", "2"), ("1 MiB", "3"), ("64 MiB", "3")]


@pytest.fixture
def fabric(tmp_path):
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC, encoding="utf-8")
    designs = (SHORT, EVEN, "BiRing(2, 12)")
    return ["select", "--fabric", str(path), *(w for one in designs for w in ("--designs", one))]


def test_select(capsys, fabric):
    words = [*fabric, "--collective", "allgather", "--message", "1KiB,64MiB"]
    found = json_of(capsys, *words)
    assert found["messages_bytes"] == [2**10, 2**26]
    for size, best, each in zip((2**10, 2**26), found["best"], found["selections"], strict=True):
        times = {}
        for plan in each["ranked"]:
            (part,) = plan["parts"]
            seconds = Fraction(plan["alpha_s"]) + Fraction(plan["bandwidth_s"])
            assert float(seconds) == time_s(part["cost"]["steps"], part["cost"]["t_b"], size)
            times[plan["designs"][0]] = seconds
        assert len(times) == 3
        assert times[best] == min(times.values())
    assert found["best"] == [SHORT, EVEN]
    out = table_of(capsys, *words)
    assert "at 1 KiB  at 64 MiB  handle   label\n" in out
    assert [line for line in out.splitlines() if line.startswith("Best for ")] == [
        f"Best for 1 KiB: {SHORT} in 30.1 us, with its circuits up.",
        f"Best for 64 MiB: {EVEN} in 4.961 ms, with its circuits up.",
    ]
    one = json_of(capsys, *fabric, "--message", "1KiB")
    assert one["ranked"][0]["parts"][0]["collective"] == "allreduce"


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([], "give either --workload or --message"),
        (["--collective", "allreduce"], "give either --workload or --message"),
        (["--workload", "w", "--message", "1KiB"], "give either --workload or --message"),
        (["--message", "1KiB,", "--plot", "x.png"], "'' is not a size"),
        (["--message", "1KiB,2KiB", "--plot", "x.png"], "--plot and --pick are for one ranking"),
    ],
)
def test_select_refuses(capsys, fabric, words, rule):
    assert main([*fabric, *words]) == 2
    error = capsys.readouterr().err
    assert rule in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([*FRONTIER, "--message", "1KiB,2KiB"], "only given together"),
        (["cost", "Complete(4)", *MODEL], "only given together"),
        ([*FRONTIER, *MODEL, "--message", "1KiB,x"], "'x' is not a size"),
    ],
)
def test_refusals(capsys, words, rule):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert rule in error
    assert error.count("\n") == 1


def test_a_size_that_is_repeated_counts_once(capsys):
    found = json_of(capsys, "cost", "Complete(4)", *MODEL, "--message", "1KiB,1024B,1KiB")
    assert found["cost_model"]["messages_bytes"] == [1024]
