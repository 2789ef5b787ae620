"""``iterate --designs``: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest
from folders import EXAMPLES

from ocs_codesign.faces.cli import main

GROUPS, LAYERS = str(EXAMPLES / "groups.yaml"), str(EXAMPLES / "layers.yaml")
RINGS = [*("--designs", "DirectedCirculant(4,(1,))"), *("--designs", "DirectedCirculant(4,(2,))")]


def answer_of(capsys, *words):
    assert main([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_groups_and_all(capsys, tmp_path):
    """Tokens on the ring: 3 alpha and 3/2 M/B; sums of pairs on their own circuits, M/B."""
    picture = tmp_path / "c.svg"
    found = answer_of(capsys, "iterate", GROUPS, *RINGS, "--delta", "20us", "--plot", str(picture))
    size_s = 4 * 2**20 / 150e9
    tokens_s, sums_s = 3 * 500e-9 + 1.5 * size_s, 2 * 500e-9 + size_s
    assert found["period_s"] == pytest.approx(100e-6 + tokens_s + 20e-6 + sums_s)
    first, second = found["configurations"]
    assert (first["recipe"], second["held_period_s"]) == ("DirectedCirculant(4, (1,))", None)
    assert first["held_period_s"] == pytest.approx(100e-6 + tokens_s + 2 * size_s + 4 * 500e-9)
    assert found["gain"] == pytest.approx(1 - found["period_s"] / first["held_period_s"])
    assert found["break_even_s"] == pytest.approx(1e-6 + size_s)
    assert (found["choice"], found["is_proven"]) == ([0, 1, 1], True)
    assert [one["position"] for one in found["changes"]] == [0, 1]
    assert found["dark_s"] == pytest.approx(40e-6)
    assert found["exposed_reconfiguration_s"] == pytest.approx(20e-6)  # back beside the forward
    text = picture.read_text(encoding="utf-8")
    assert ("circuits" in text, "dark" in text) == (True, True)
    again = tmp_path / "again.svg"
    same = answer_of(capsys, *("iterate", GROUPS, *RINGS, "--delta", "20us", "--plot", str(again)))
    assert (same, again.read_bytes()) == (found, picture.read_bytes())


def test_a_slow_change_does_not_pay(capsys):
    words = ["iterate", GROUPS, *RINGS, "--delta", "29us"]
    found = answer_of(capsys, *words)
    assert (found["choice"], found["changes"], found["gain"]) == ([0, 0, 0], [], 0)
    assert found["break_even_s"] == pytest.approx(28.962e-6, rel=1e-4)
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "no change beats A held throughout" in told
    assert "changes of less than 28.96 us pay" in told
    assert "in turn" not in told
    assert main([*words[:-1], "1us", "--delta-per-circuit", "1us"]) == 0
    assert "2 changes an iteration, dark for 10 us" in capsys.readouterr().out


def test_over_links(capsys):
    """Shared links make all but the rounding of ticks; the switch points are the formula's."""
    words = ["iterate", GROUPS, *RINGS, "--delta", "20us"]
    formula = answer_of(capsys, *words)
    found = answer_of(capsys, *words, "--fidelity", "transfers")
    assert (formula["fidelity"], found["fidelity"]) == ("formula", "transfers")
    assert found["choice"] == formula["choice"] == [0, 1, 1]
    assert found["formula_period_s"] == formula["period_s"]
    assert found["period_s"] == pytest.approx(formula["period_s"], rel=5e-3)
    assert found["period_s"] >= found["bound_s"]
    slower = answer_of(capsys, *words, "--fidelity", "transfers", "--latency", "5us")
    assert slower["period_s"] > found["period_s"]
    assert main([*words, "--fidelity", "transfers"]) == 0
    assert "over the links -0.2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ([GROUPS, *RINGS], "--designs needs --delta"),
        ([GROUPS, "--delta", "1us"], "--delta and --delta-per-circuit are for --designs"),
        ([GROUPS, *RINGS[:2], "--delta", "1us"], "1 different configurations: from 2 to 16"),
        ([GROUPS, *RINGS, "--delta", "-1us"], "-1us"),
        ([GROUPS, *RINGS, "--designs", "Torus((2,2))", "--delta", "1us"], "one fabric"),
        ([GROUPS, *RINGS, "--designs", "Torus(", "--delta", "1us"], "Torus("),
        ([LAYERS, *RINGS, "--delta", "1us"], "its messages have times of their own"),
        ([GROUPS, *RINGS, "--delta", "1us", "--aggregation", "switchml"], "no switches"),
        ([GROUPS, *RINGS, "--delta", "1us", "--network", "star(4,1)"], "give no --network"),
        ([GROUPS, *RINGS, "--delta", "1us", "--latency", "1us"], "are for --fidelity transfers"),
        ([GROUPS, "--fidelity", "transfers"], "--fidelity transfers needs --network"),
    ],
)
def test_refuses(capsys, words, rule):
    assert main(["iterate", *words]) == 2
    told = capsys.readouterr()
    assert rule in told.err
    assert (told.out, told.err.count("\n")) == ("", 1) or "Usage" in told.err
