"""``ocs-codesign demand``: what it prints, its JSON and files, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from demand_oracle import KNOWN
from folders import EXAMPLES

from ocs_codesign.faces.cli import main

EXAMPLE = EXAMPLES / "demand.csv"
MODEL = ["--delta", "1s", "--bandwidth", "1B/s"]


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in KNOWN), encoding="utf-8")
    return str(path)


def answer(capsys, *arguments):
    assert main(["demand", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_says_what_is_proven_and_compares(capsys, known):
    assert main(["demand", known, *MODEL]) == 0
    out = capsys.readouterr().out
    assert "17 s, proven optimal" in out
    assert "17 s, by a search of all plans" in out
    assert "6 on 1 switch, 1 s each: 35.3% of the time is dark" in out
    assert "100.0% demanded, 0.0% after it, 0.0% where nothing is" in out
    assert "9 B from nodes to themselves, served over circuits" in out
    assert "round robin" in out
    assert len([line for line in out.splitlines() if ">" in line]) == 6


def test_json_is_the_whole_plan(capsys, known):
    found = answer(capsys, known, "--delta", "5s", "--bandwidth", "1B/s", "--switches", "2")
    assert (found["time_exact_s"], found["optimal"], found["gap"]) == ("17", True, 0.0)
    served = np.full((4, 4), Fraction(0), dtype=object)
    busy = [Fraction(0)] * 2
    for one in found["configurations"]:
        duration = Fraction(one["duration_exact_s"])
        served[np.arange(4), one["circuits"]] += duration
        busy[one["switch"]] += duration + 5
    assert (served >= np.array(KNOWN)).all()
    assert max(busy) == 17
    assert sum(found["shares"][name] for name in ("served", "overserved", "idle")) == 1.0


def test_the_unit_and_the_names_of_a_file(capsys, tmp_path):
    path, out = tmp_path / "d.json", tmp_path / "plan.csv"
    matrix = {"unit": "MiB", "names": ["x", "y"], "matrix": [[0, 2], [1, 0]]}
    path.write_text(json.dumps(matrix), encoding="utf-8")
    found = answer(capsys, str(path), "--delta", "10us", "--bandwidth", "8Gbps", "--out", str(out))
    assert found["time_s"] == pytest.approx(2 * 2**20 / 1e9 + 1e-5)
    assert found["names"] == ["x", "y"]
    with out.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["circuits"] == "x>y y>x"
    assert float(row["up_from_s"]) == 1e-5
    assert main(["demand", str(path), "--delta", "10us", "--bandwidth", "8Gbps"]) == 0
    assert "all nodes i > i + 1" in capsys.readouterr().out


def test_the_example_of_tokens(capsys):
    """Numbers of tokens, 8 KiB each; all that a host sends leaves it, at most 4096 to 2 experts."""
    command = [str(EXAMPLE), "--delta", "20us", "--bandwidth", "400Gbps"]
    found = answer(capsys, *command)
    assert found["names"] == [f"host{host}" for host in range(8)]
    assert found["total_bytes"] == 57424 * 8192
    assert found["busiest_node_bytes"] == 10933 * 8192
    assert found["bound_s"] >= 10933 * 8192 / 50e9 + 7 * 20e-6 - 1e-15
    assert found["time_s"] < found["fitted_round_robin_s"] < found["round_robin_s"]


def test_circuits_that_stay_may_be_better(capsys, tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("0 9 1\n1 0 9\n9 1 0\n", encoding="utf-8")
    command = ["demand", str(path), "--bandwidth", "1B/s", "--delta"]
    assert main([*command, "100s"]) == 0
    assert "changing circuits does not pay" in capsys.readouterr().out
    assert main([*command, "1ms"]) == 0
    assert "no circuits that stay take less than" in capsys.readouterr().out


def test_many_configurations_are_left_to_the_file(capsys, tmp_path):
    path, out = tmp_path / "d.csv", tmp_path / "plan.csv"
    entries = np.random.default_rng(0).integers(1, 50, (40, 40))
    np.savetxt(path, entries, fmt="%d", delimiter=",")
    assert main(["demand", str(path), *MODEL, "--time-limit", "200ms", "--out", str(out)]) == 0
    assert "more configurations: --out FILE has them all" in capsys.readouterr().out
    assert len(out.read_text(encoding="utf-8").splitlines()) > 40


def test_exact_searches_longer(capsys, tmp_path):
    path = tmp_path / "d.csv"
    entries = np.random.default_rng(8).integers(1, 9, (5, 5))
    np.savetxt(path, entries, fmt="%d")
    found = answer(capsys, str(path), *MODEL, "--exact", "--time-limit", "3600s")
    assert found["optimal"]


def test_pictures_of_nothing_and_of_one_node(capsys, tmp_path):
    for text in ("0 0\n0 0\n", "5\n"):
        path, picture = tmp_path / "d.csv", tmp_path / "d.png"
        path.write_text(text, encoding="utf-8")
        assert main(["demand", str(path), *MODEL, "--switches", "2", "--plot", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--delta", "1s"], "Missing option"),
        (["--bandwidth", "1B/s"], "give --delta, or --ports for circuits that stay"),
        ([*MODEL, "--switches", "0"], "'0' is not a whole number"),
        ([*MODEL, "--switches", "2000"], "there must be 1 to 1024"),
        ([*MODEL, "--unit", "furlong"], "unknown unit"),
        ([*MODEL, "--unit", "0B"], "the unit is '0B': it must be positive"),
        ([*MODEL, "--out", "-", "--json", "-"], "only one output"),
    ],
)
def test_what_is_refused(capsys, known, arguments, rule):
    assert main(["demand", known, *arguments]) == 2
    error = capsys.readouterr().err
    assert rule in error
    assert error.count("\n") == 1


def test_bad_files_are_named_and_nothing_is_written(capsys, tmp_path):
    path, out = tmp_path / "d.csv", tmp_path / "plan.csv"
    path.write_text("0,1\n-1,0\n", encoding="utf-8")
    assert main(["demand", str(path), *MODEL, "--out", str(out)]) == 2
    assert "d.csv, line 2, column 1: -1 is negative" in capsys.readouterr().err
    assert not out.exists()
    assert main(["demand", str(tmp_path / "none.csv"), *MODEL]) == 2
    assert "none.csv" in capsys.readouterr().err


def test_exact_is_for_small_demands(capsys, tmp_path):
    path = tmp_path / "d.csv"
    np.savetxt(path, np.ones((9, 9)), fmt="%d")
    assert main(["demand", str(path), *MODEL, "--exact"]) == 2
    assert "--exact is for up to 8 senders and receivers, and here are 9" in capsys.readouterr().err


def test_the_example_compiles_nothing():
    """A newcomer's first command waits for no compiler: numba is not even imported."""
    command = ["demand", str(EXAMPLE), "--delta", "20us", "--bandwidth", "400Gbps"]
    command += ["--time-limit", "100ms"]
    code = "import sys\nfrom ocs_codesign.faces.cli import main\nmain({})\n"
    code += "print('numba' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code.format([*command, "--json", os.devnull])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "False"
