"""``ocs-codesign planes``: what it prints, its JSON and picture, and what it refuses."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import pytest
from command_lines import instead
from interrupts import interrupted

from ocs_codesign.circuits.planes.plan import PLANE_METHODS
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.plan import METHODS

FABRIC = ["--planes", "2", "--bandwidth", "400Gb/s"]
MODEL = [*FABRIC, "--delta", "200us"]


def listed(tmp_path, needed=(1, 2, 2, 1), megabytes=(4, 2, 2, 4)):
    rows = [f"c{one},{size}MB" for one, size in zip(needed, megabytes, strict=True)]
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(["configuration,size", *rows]), encoding="utf-8")
    return str(path)


def answer(capsys, *arguments):
    assert main(["planes", *arguments, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_planes_may_hold_what_no_step_uses(capsys, tmp_path):
    """It goes at the first change, as if the plane held any other configuration."""
    steps = listed(tmp_path)
    found = answer(capsys, steps, *MODEL, "--start", "c9,-")
    assert found["held"] == ["c9", None]
    assert found["time_exact_s"] == answer(capsys, steps, *MODEL)["time_exact_s"]
    assert main(["planes", steps, *MODEL, "--start", "c9,-"]) == 0
    assert "used by no step  c9" in capsys.readouterr().out
    path, steps = tmp_path / "known.json", [{"configuration": "a", "size": "1MB"}]
    circuits = {"a": [[0, 1], [1, 0]]}
    path.write_text(json.dumps({"steps": steps, "configurations": circuits}), encoding="utf-8")
    assert main(["planes", str(path), *MODEL, "--start", "c9,-"]) == 2
    assert "there is no configuration 'c9': there are a" in capsys.readouterr().err


def test_the_methods_are_those_there_are():
    assert METHODS == PLANE_METHODS


def test_what_is_printed_and_drawn(capsys, tmp_path):
    picture = tmp_path / "p.png"
    assert main(["planes", listed(tmp_path), *MODEL, "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    for said in (
        "steps.csv: 4 steps, 12 MB a node, 2 configurations",
        "2, 400 Gb/s each",
        "200 us dead time",
        "planes change while others send, barriers between steps, cold start",
        "440 us (11/25000 s), optimal but for rounding (at most ",
        "planes are in changes for 45.5% of their time; no plane sends for 200 us (45.5%)",
        "440 us (as long) if the whole fabric stops for a change",
        "440 us (as long) if the planes hold c1, c2",
    ):
        assert said in out
    assert ["1", "200", "us", "280", "us", "4", "MB", "c1", "0", "0", "200", "us"] in [
        line.split() for line in out.splitlines()
    ]
    assert ["1", "280", "320", "send", "c2", "2", "2e+06"] in [
        line.split() for line in out.splitlines()
    ]


def test_json_is_the_whole_plan(capsys, tmp_path):
    found = answer(capsys, listed(tmp_path, (1, 2, 2), (10, 1, 10)), *MODEL)
    assert (found["time_exact_s"], found["bound_s"]) == ("61/100000", pytest.approx(61e-5))
    sends = [one for one in found["timeline"] if one["activity"] == "send"]
    for step in found["steps"]:
        mine = [one for one in sends if one["step"] == step["step"]]
        assert sum(Fraction(one["bytes_exact"]) for one in mine) == step["bytes"]
        assert [one["plane"] for one in mine] == step["planes"]
        assert {one["configuration"] for one in mine} == {step["configuration"]}
        assert min(one["start_s"] for one in mine) == step["begin_s"]
        assert max(one["end_s"] for one in mine) == step["end_s"]
    assert sum(step["dead_s"] for step in found["steps"]) == pytest.approx(found["dead_s"])
    assert found["compared"]["serial"]["time_s"] >= found["time_s"]
    assert found["compared"]["static"]["held"] == ["c1", "c2"]


def test_the_rules_of_the_fabric(capsys, tmp_path):
    steps = listed(tmp_path)
    held = answer(capsys, steps, *MODEL, "--start", "c1,warm")
    assert (held["held"], held["time_exact_s"]) == (["c1", None], "3/12500")
    serial = answer(capsys, steps, *MODEL, "--serial")
    assert serial["compared"]["overlap"]["time_exact_s"] == "11/25000"
    assert serial["time_s"] >= 44e-5
    loose = answer(capsys, steps, *MODEL, "--no-barrier")
    assert loose["time_s"] < 44e-5
    slow = answer(capsys, steps, *MODEL, "--alpha", "10us")
    assert slow["time_exact_s"] == str(Fraction(44 + 4, 10**5))


def test_circuits_that_change_take_their_time(capsys, tmp_path):
    pairs = [[0, 1], [1, 0], [2, 3], [3, 2]]
    circuits = {"near": pairs, "half": [*pairs[:2], [2, 4], [4, 2]]}
    steps = [{"configuration": name, "size": "10MB"} for name in ("near", "half")]
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"configurations": circuits, "steps": steps}), encoding="utf-8")
    arguments = ["--planes", "1", "--bandwidth", "80Gb/s", "--delta", "100us"]
    found = answer(capsys, str(path), *arguments, "--delta-per-circuit", "10us")
    # A cold start makes four circuits, the change to the other configuration two.
    assert [step["dead_s"] for step in found["steps"]] == [14e-5, 12e-5]
    assert found["time_exact_s"] == str(Fraction(2 * 100 + 14 + 12, 10**5))


def test_more_configurations_than_planes_and_long_lists(capsys, tmp_path):
    steps = listed(tmp_path, [at % 5 for at in range(60)], [1 + at % 7 for at in range(60)])
    assert (
        main(
            ["planes", steps, *instead(MODEL, "--planes", "3"), "--no-barrier", "--method", "fast"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "more configurations are needed than the planes can hold" in out
    assert "... 28 more steps: --json FILE has them all." in out.splitlines()
    assert "above the best" in out


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([*FABRIC], "Missing option"),
        (["--planes", "2", "--delta", "1us"], "Missing option"),
        (instead(MODEL, "--planes", "0"), "'0' is not a whole number"),
        (instead(MODEL, "--planes", "17"), "17 planes: there must be 1 to 16"),
        ([*MODEL, "--delta-per-circuit", "1us"], "--delta-per-circuit needs to know the circuits"),
        ([*MODEL, "--start", "c1"], "--start names 1 configurations for 2 planes"),
        ([*MODEL, "--start", "c1,cold,warm"], "--start names 3 configurations for 2 planes"),
        ([*MODEL, "--start", "cold,warm"], "planes that hold nothing are cold or warm"),
        ([*MODEL, "--method", "best"], "'best' is not one of"),
        ([*MODEL, "--method", "labels", "--gap", "1%"], "are for --method auto or milp"),
        ([*MODEL, "--method", "labels", "--no-barrier"], "labels are for steps that a barrier"),
    ],
)
def test_what_is_refused(capsys, tmp_path, arguments, rule):
    assert main(["planes", listed(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert rule in error
    assert error.count("\n") == 1


def test_bad_files_are_named_with_their_line(capsys, tmp_path):
    path, out = tmp_path / "s.csv", tmp_path / "p.json"
    path.write_text("configuration,size\nring,4\n", encoding="utf-8")
    assert main(["planes", str(path), *MODEL, "--json", str(out)]) == 2
    assert "s.csv, line 2: size: '4' has no unit" in capsys.readouterr().err
    assert not out.exists()
    assert main(["planes", str(tmp_path / "none.csv"), *MODEL]) == 2
    assert "none.csv: no such file" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_in_a_kernel_is_a_ctrl_c(tmp_path):
    steps = listed(tmp_path, [at * at % 31 for at in range(900)], range(1, 901))
    four = instead(MODEL, "--planes", "4")
    script = (
        "import sys\n"
        "import ocs_codesign.circuits.planes.kernels as kernels\n"
        "tiers = kernels.tiers\n"
        "calls = []\n"
        "def told(*given):\n"
        "    calls.append(0)\n"
        "    if len(calls) == 5:\n"
        "        print('ready', flush=True)\n"
        "    return tiers(*given)\n"
        "kernels.tiers = told\n"
        "from ocs_codesign.faces.cli import main\n"
        f"sys.exit(main({['planes', steps, *four, '--plot', 'p.png']!r}))"
    )
    code, _, err = interrupted(script, tmp_path)
    assert (code, err) == (130, "Interrupted: nothing was written.")
    assert os.listdir(tmp_path) == ["steps.csv"]
