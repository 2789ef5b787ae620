"""``build --scheduler exact`` and ``cost --exact``: proofs, verdicts, limits, interruptions."""

from __future__ import annotations

import json
import os
from fractions import Fraction

import pytest
from exact_commands import KAUTZ, LARGE, built, cost, points
from interrupts import interrupted

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.stepped import exact
from ocs_codesign.schedules.stepped import exact as exact_halves


class TestFrontier:
    def test_a_point_more_than_bfb_has(self, capsys):
        found = cost(capsys, KAUTZ)
        assert points(found) == [(2, "1", True), (3, "5/6", True)]
        assert found["bfb"] == {"steps": 2, "t_b": "1"}
        assert found["topology_bound"] == {"steps": 2, "t_b": "5/6"}
        assert found["num_chunks"] == found["degree"] == 2
        assert (found["complete"], found["stopped"]) == (True, None)
        assert all(one["on_frontier"] for one in found["points"])
        assert [one["t_b_bound_any_chunks"] for one in found["points"]] == ["1", "5/6"]
        assert found["points"][1]["solvers"] == ["highs"]

    def test_table(self, capsys):
        assert main(["cost", KAUTZ, "--exact"]) == 0
        out = capsys.readouterr().out
        assert "    3  5/6  0.833333    5/6              5/6  yes          optimal" in out
        assert "No number of steps takes less than t_b 5/6 (0.833333) here." in out

    def test_steps_that_gain_nothing_are_off_the_frontier(self, capsys):
        found = cost(capsys, KAUTZ, "--chunks", "1")
        assert points(found) == [(2, "1", True), (3, "1", True), (4, "1", True)]
        assert [one["on_frontier"] for one in found["points"]] == [True, False, False]
        assert [one["t_b_bound_any_chunks"] for one in found["points"]] == ["1", "5/6", "5/6"]
        assert main(["cost", KAUTZ, "--exact", "--chunks", "1", "--max-steps", "2"]) == 0
        assert "More than 2 steps were not tried" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("collective", "t_b"),
        [("reduce-scatter", ["1", "5/6"]), ("allreduce", ["2", "11/6", "5/3"])],
    )
    def test_other_collectives(self, capsys, collective, t_b):
        found = cost(capsys, KAUTZ, "--collective", collective)
        assert [one["t_b"] for one in found["points"]] == t_b

    def test_of_a_graph_file(self, capsys, tmp_path):
        path = tmp_path / "ring.edges"
        path.write_text("0 1\n1 2\n2 0\n", encoding="utf-8")
        found = cost(capsys, "--graph", str(path))
        assert (found["recipe"], found["graph"]) == (None, "ring.edges")
        assert points(found) == [(2, "2/3", True)]

    def test_too_few_steps_is_a_verdict(self, capsys):
        found = cost(capsys, KAUTZ, "--max-steps", "1", code=1)
        assert found["schedule"] is None
        assert found["status"].endswith("allgather takes at least 2 here")
        assert main(["cost", KAUTZ, "--exact", "--max-steps", "1"]) == 1
        assert capsys.readouterr().out == (
            "No schedule: 1 step is too few, allgather takes at least 2 here.\n"
        )


class TestBuild:
    def test_the_design_is_the_proven_best_and_verifies(self, capsys, tmp_path):
        found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3")
        assert found["cost"] == {"steps": 3, "t_b": "5/6", "t_b_float": 5 / 6}
        assert found["optimal"]
        assert found["t_b_bound"] == found["t_b_bound_any_chunks"] == "5/6"
        assert main(["verify", str(tmp_path / "d")]) == 0
        assert "3 steps, t_b 5/6" in capsys.readouterr().out

    def test_the_fewest_steps_by_default_and_the_proof_in_words(self, capsys, tmp_path):
        out = str(tmp_path / "d")
        assert main(["build", KAUTZ, "--scheduler", "exact", "--out", out]) == 0
        shown = capsys.readouterr().out
        assert "2 steps, t_b 1, verified" in shown
        assert "optimal: no schedule of 2 steps has less than t_b 1" in shown
        assert "exact, " in shown

    def test_chunks_that_cannot_meet_the_bound(self, capsys, tmp_path):
        found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--chunks", "3")
        assert (found["cost"]["t_b"], found["t_b_bound"]) == ("8/9", "8/9")
        assert (found["t_b_bound_any_chunks"], found["num_chunks"]) == ("5/6", 3)
        assert found["optimal"]

    def test_no_schedule_of_so_few_steps_is_a_verdict(self, capsys, tmp_path):
        found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "1", code=1)
        assert found["status"] == "no schedule: 1 step is too few, allgather takes at least 2 here"
        found = built(
            capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--collective", "allreduce", code=1
        )
        assert found["status"].endswith("allreduce takes at least 4 here")
        assert os.listdir(tmp_path) == []

    def test_out_of_time_the_best_found_is_written_with_its_bound(self, capsys, tmp_path):
        found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--time-limit", "0s")
        assert not found["optimal"]
        assert (found["cost"]["t_b"], found["t_b_bound"]) == ("1", "5/6")
        status = "no schedule of 3 steps and 2 chunks a shard has less than t_b 5/6 (gap 20.00%)"
        assert found["status"] == f"time limit: t_b 1 was found, {status}"
        record = json.loads((tmp_path / "d" / "design.json").read_text(encoding="utf-8"))
        assert status in record["schedule"]
        assert main(["verify", str(tmp_path / "d")]) == 0

    def test_a_gap_that_is_small_enough(self, capsys, tmp_path):
        for gap in ("0.25", "25%", ".25"):
            found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--gap", gap)
            assert found["status"].startswith("within the gap: t_b 1 was found")
        assert built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--gap", "1%")["optimal"]


class TestNothingComputedIsLost:
    def test_out_of_time_every_point_says_what_is_open(self, capsys):
        found = cost(capsys, "GeneralizedKautz(2, 12)", "--time-limit", "0s")
        assert [one["steps"] for one in found["points"]] == [3, 4, 5]
        assert found["complete"]
        for one in found["points"]:
            assert Fraction(one["t_b_bound"]) <= Fraction(one["t_b"])
            assert one["optimal"] == (one["t_b_bound"] == one["t_b"])
        assert main(["cost", "GeneralizedKautz(2, 12)", "--exact", "--time-limit", "0s"]) == 0
        assert "time limit, gap " in capsys.readouterr().out

    def test_too_large_beyond_some_steps(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setattr(exact_halves, "MAX_SENDS", 300)
        path = tmp_path / "found.json"
        assert main(["cost", KAUTZ, "--exact", "--json", str(path)]) == 2
        out, err = capsys.readouterr()
        assert "    2    1        1      1                1  yes          optimal" in out
        assert out.endswith("Not complete: stopped at 3 steps.\n")
        assert err.startswith("Error: stopped at 3 steps: 6 nodes, 12 links, 3 steps and 2 chunks")
        assert err.endswith("exact schedules take at most 300\n")
        found = json.loads(path.read_text(encoding="utf-8"))
        assert points(found) == [(2, "1", True)]
        assert not found["complete"]
        assert "at most 300" in found["stopped"]

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (KeyboardInterrupt(), 130, "Interrupted: what was found so far stands.\n"),
            (MemoryError(), 2, "Error: stopped at 3 steps: not enough memory\n"),
        ],
    )
    def test_stopped_in_between(self, capsys, monkeypatch, error, code, said):
        whole = exact.exact_answers

        def cut(*arguments):
            yield next(whole(*arguments))
            raise error

        monkeypatch.setattr(exact, "exact_answers", cut)
        assert main(["cost", KAUTZ, "--exact"]) == code
        out, err = capsys.readouterr()
        assert err == said
        assert "yes          optimal" in out
        assert out.endswith("Not complete: stopped at 3 steps.\n")

    @pytest.mark.parametrize(
        "arguments",
        [
            ["build", LARGE, "--scheduler", "exact", "--max-steps", "4", "--out", "d"],
            ["cost", LARGE, "--exact", "--json", "j"],
        ],
    )
    def test_ctrl_c_in_the_solver_leaves_nothing_half_written(self, tmp_path, arguments):
        script = (
            "import sys, highspy\nimport ocs_codesign.schedules.stepped.exact_program as search\n"
            "solve = search.solve\n"
            "def told(*given, **options):\n    print('ready', flush=True)\n"
            "    return solve(*given, **options)\n"
            "search.solve = told\n"
            f"from ocs_codesign.faces.cli import main\nsys.exit(main({arguments!r}))"
        )
        code, _, err = interrupted(script, tmp_path)
        assert (code, err) == (130, "Interrupted: nothing was written.")
        assert os.listdir(tmp_path) == []


REFUSED = [
    (["cost", KAUTZ, "--max-steps", "3"], "for --exact"),
    (["cost", KAUTZ, "--chunks", "3"], "for --exact"),
    (["cost", KAUTZ, "--exact", "--chunks", "0"], "'0' is not a whole number"),
    (["cost", KAUTZ, "--exact", "--max-steps", "x"], "'x' is not a whole number"),
    (["cost", KAUTZ, "--exact", "--collective", "alltoall"], "--exact is for allgather"),
    (["cost", KAUTZ, "--solver", "highs"], "are for --exact and --collective alltoall"),
    (["cost", KAUTZ, "--time-limit", "5s"], "nothing else is given to a solver"),
    (["cost", KAUTZ, "--exact", "--time-limit", "5"], "'5' has no unit"),
    (["cost", KAUTZ, "--exact", "--solver", "cplex"], "'cplex' is not one of"),
    (["cost", KAUTZ, "--exact", "--gap", "-1"], "'-1' is not a ratio such as 0.01 or 1%"),
    (["cost", KAUTZ, "--exact", "--gap", "1e"], "'1e' is not a ratio"),
    (["cost", KAUTZ, "--exact", "--fallback"], "name that one"),
    (["cost", KAUTZ, "--exact", "--fallback", "--solver", "highs"], "name that one"),
    (["cost", "GeneralizedKautz(4, 100)", "--exact"], "exact schedules take at most 100,000"),
    (["cost", "--graph", "split.edges", "--exact"], "not strongly connected"),
    (
        ["build", KAUTZ, "--max-steps", "3", "--out", "d"],
        "for --collective alltoall and --scheduler",
    ),
    (["build", KAUTZ, "--chunks", "3", "--out", "d"], "for --scheduler exact"),
    (["build", KAUTZ, "--gap", "1%", "--out", "d"], "nothing else is given to a solver"),
    (
        ["build", KAUTZ, "--scheduler", "exact", "--max-chunks", "3", "--out", "d"],
        "--max-chunks is for --collective alltoall",
    ),
    (
        ["build", KAUTZ, "--scheduler", "exact", "--collective", "alltoall", "--out", "d"],
        "not for alltoall",
    ),
    (
        ["build", KAUTZ, "--scheduler", "exact", "--chunks", "9999", "--out", "d"],
        "a product of 1,439,856: exact schedules take at most 100,000",
    ),
]


@pytest.mark.parametrize(("arguments", "rule"), REFUSED, ids=[" ".join(r[0]) for r in REFUSED])
def test_refused(capsys, monkeypatch, tmp_path, arguments, rule):
    (tmp_path / "split.edges").write_text("0 1\n1 0\n2 3\n3 2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert rule in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["split.edges"]
