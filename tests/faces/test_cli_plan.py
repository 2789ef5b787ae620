"""``plan``: its tables and sentences, its exact JSON, odd inputs, and what an interrupt leaves."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import pytest
from command_lines import instead
from interrupts import interrupted

from ocs_codesign.faces.cli import main

TRACE = """\
collective,message,gap,count
allreduce,8MB,,3
alltoall,8MB,2us,4
allreduce,80MB,,2
"""
RING, KAUTZ = "DirectedCirculant(12, (1, 2, 9))", "GeneralizedKautz(3, 12)"
MODEL = ["--nodes", "12", "--degree", "3", "--alpha", "1us", "--bandwidth", "1GB/s"]
DESIGNS = ["--designs", RING, "--designs", KAUTZ]
NEEDED = [*MODEL, *DESIGNS, "--delta", "1ms"]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "job.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def answer(capsys, *arguments):
    assert main(["plan", *arguments, *MODEL, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def names(found):
    return [design["recipe"] for design in found["designs"]]


def costs(found, recipe):
    """Seconds of a reduce of 8 MB, an exchange of 8 MB and a reduce of 80 MB, from the costs."""
    (one,) = (design for design in found["designs"] if design["recipe"] == recipe)
    halves = [one["allgather"], one["reduce_scatter"]]
    steps = sum(half["steps"] for half in halves)
    t_b = sum(Fraction(half["t_b"]) for half in halves)
    alpha = Fraction(1, 10**6)
    exchange = one["alltoall"]["steps"] * alpha + Fraction(one["alltoall"]["t_b"]) / 125
    return steps * alpha + t_b / 125, exchange, steps * alpha + t_b * 2 / 25


def test_json_is_exact(capsys, trace):
    found = answer(capsys, trace, *DESIGNS, "--delta", "1ms", "--start", RING)
    small, exchange, large = costs(found, RING)
    other = costs(found, KAUTZ)
    delta, gap = Fraction(1, 1000), Fraction(2, 10**6)
    stay = 3 * small + 4 * exchange + 2 * large
    away = 3 * small + 4 * other[1] + 2 * large + 2 * delta - gap
    assert (found["trace"], found["jobs"], found["start"]) == ("job.csv", 9, RING)
    assert Fraction(found["compute_s"]) == Fraction(8, 10**6)
    assert Fraction(found["offline"]["total_s"]) == min(stay, away)
    assert found["offline"]["proven_optimal"] is True
    assert Fraction(found["static"]["total_s"]) == stay
    assert found["static"]["design"] == RING
    assert found["pays"] == (away < stay)
    assert found["online"]["promised_ratio"] is None
    (span,) = found["paying"]
    assert span["from_delta_s"] == "0"
    assert 2 * Fraction(span["to_delta_s"]) - gap == 4 * (exchange - other[1])
    assert found["break_even"]["complete"] is True
    assert found["break_even"]["pieces"][-1]["to_delta_s"] is None
    runs = found["offline"]["runs"]
    assert [(run["first_job"], run["last_job"]) for run in runs] == [(1, 3), (4, 7), (8, 9)]
    assert [run["design"] for run in runs] == [RING, KAUTZ, RING]
    assert [run["hidden_s"] for run in runs] == ["0", "1/500000", "0"]
    assert sum(Fraction(run["dark_s"]) for run in runs) == Fraction(found["offline"]["dark_s"])


def test_the_form_of_the_json(capsys, trace):
    found = answer(capsys, trace, *DESIGNS, "--delta", "1ms", "--delta-per-circuit", "1us")
    keys = "answer trace jobs compute_s nodes degree delta_exact_s delta_per_circuit_s start "
    keys += "cost_model designs "
    keys += (
        "designs_compared left_out offline online fat_tree_s static greedy break_even pays paying "
    )
    keys += "inside "
    assert " ".join(found) == f"{keys}sentences"
    assert (found["delta_exact_s"], found["delta_per_circuit_s"]) == ("1/1000", "1/1000000")
    assert found["start"] == "cold"
    assert found["online"]["ratio"] >= 1
    first = found["offline"]["runs"][0]
    assert Fraction(first["dark_s"]) == Fraction(1, 1000) + 36 * Fraction(1, 10**6)


def test_tables_sentences_and_a_picture(capsys, trace, tmp_path):
    picture = tmp_path / "p.svg"
    assert main(["plan", trace, *NEEDED, "--start", RING, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"<?xml")
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert "job.csv: 9 jobs (allreduce, alltoall)" in lines[0]
    for text in (
        "computation between  8 us",
        "The optimum in hindsight:",
        "proven",
        "no policy",
        "Switching between jobs pays at delta 1 ms: ",
        f"on {RING}, the best single design. It pays for delta below ",
        f"Inside one allreduce (reduce-scatter, then allgather) on {RING}, bandwidth-optimal in 6 "
        "steps, switching can save 2 steps at most (2 us, and a switch costs 1 ms at least), so it "
        "cannot gain.",
    ):
        assert text in out
    rows = [line.split() for line in lines if line.strip().startswith(("1-3", "4-7", "8-9"))]
    assert [row[-1] for row in rows] == ["A", "B", "A"]


def test_when_it_does_not_pay(capsys, trace):
    found = answer(capsys, trace, *DESIGNS, "--delta", "1s", "--start", RING)
    assert not found["pays"]
    assert found["offline"]["num_switches"] == 0
    first = f"Switching between jobs does not pay at delta 1 s: hold {RING}. It pays for delta "
    assert found["sentences"][0].startswith(f"{first}below ")
    one = answer(capsys, trace, "--designs", RING, "--delta", "1us", "--start", "warm")
    assert one["sentences"][0] == (
        f"Switching between jobs does not pay at delta 1 us: hold {RING}. "
        "It does not at any other delta either."
    )


def test_designs_of_the_catalogue_and_held_ones(capsys, trace):
    found = answer(capsys, trace, "--delta", "10us", "--start", "warm")
    assert len(names(found)) > 2
    assert found["start"] == "warm"
    assert found["offline"]["runs"][0]["dark_s"] == "0"
    assert names(answer(capsys, trace, "--delta", "10us", "--start", KAUTZ))[0] == KAUTZ
    assert KAUTZ not in names(answer(capsys, trace, "--delta", "1s", "--bidirectional"))
    held = answer(capsys, trace, "--designs", KAUTZ, "--delta", "1ms", "--start", RING)
    assert names(held) == [KAUTZ, RING]
    again = answer(capsys, trace, *DESIGNS, "--designs", RING, "--delta", "1ms", "--start", RING)
    assert names(again) == [RING, KAUTZ]


def test_only_what_the_trace_needs_is_measured(capsys, tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("there is no all-to-all in this trace")

    monkeypatch.setattr("ocs_codesign.circuits.legs.options.throughput", fail)
    path = tmp_path / "t.json"
    path.write_text('[{"collective": "allgather", "message": "1MiB"}]', encoding="utf-8")
    found = answer(capsys, str(path), *DESIGNS, "--delta", "1ms")
    assert found["designs"][0]["alltoall"] is None
    assert found["designs"][0]["allgather"]["steps"] == 3


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([*MODEL, *DESIGNS], "Missing option '--delta'"),
        (instead(NEEDED, "--degree", "2"), "12 nodes of degree 3: the fabric has 12 of degree 2"),
        ([*NEEDED, "--start", "frozen"], "'frozen' in a recipe"),
        ([*NEEDED, "--start", "Complete(4)"], "Complete(4) has 4 nodes of degree 3"),
        ([*NEEDED, "--bidirectional"], f"{RING} does not have every link in both directions"),
        ([*NEEDED, "--plot", "timeline.gif"], "saved as .png, .svg or .pdf"),
        ([*NEEDED, "--plot", "x.png", "--json", "x.png"], "two outputs go to the same file"),
        ([*NEEDED, "--catalogue", "nowhere.sqlite"], "there is no catalogue at nowhere.sqlite"),
        (
            [*instead(MODEL, "--nodes", "9"), "--bidirectional", "--delta", "1s"],
            "no design for 9 nodes of degree 3 with links in both directions is known",
        ),
    ],
)
def test_odd_arguments(capsys, trace, tmp_path, monkeypatch, arguments, rule):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", trace, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert rule in " ".join(err.split())
    assert os.listdir(tmp_path) == ["job.csv"]


@pytest.mark.parametrize(("module", "where"), [("options", "measure"), ("trace", "break_even")])
def test_ctrl_c_leaves_nothing(trace, tmp_path, module, where):
    script = (
        "import sys\n"
        f"import ocs_codesign.circuits.legs.{module} as module\n"
        "def slow(*args, **kwargs):\n"
        "    print('ready', flush=True)\n"
        "    wait_for_ctrl_c()\n"
        f"module.{where} = slow\n"
        "from ocs_codesign.faces.cli import main\n"
        f"sys.exit(main({['plan', trace, *NEEDED, '--plot', 'p.png', '--json', 'j']!r}))"
    )
    code, out, err = interrupted(script, tmp_path)
    assert (code, out) == (130, "")
    assert err == "Interrupted: nothing was written."
    assert os.listdir(tmp_path) == ["job.csv"]
