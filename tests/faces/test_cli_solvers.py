"""The solver behind exact schedules on the command line: licences, fallbacks, the same proofs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from exact_commands import KAUTZ, LARGE, built, cost, points

from ocs_codesign.core.lp import SOLVERS as KNOWN
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.options import SOLVERS

free_licence = pytest.mark.skipif(
    os.environ.get("GRB_LICENSE_FILE") is not None, reason="a licence is installed"
)


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "ocs_codesign", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **environment},
    )


class TestSolvers:
    def test_the_choices_are_those_of_the_library(self):
        assert tuple(KNOWN) == SOLVERS

    def test_gurobi_gives_the_same_proof(self, capsys, tmp_path):
        found = built(capsys, tmp_path / "d", KAUTZ, "--max-steps", "3", "--solver", "gurobi")
        assert (found["cost"]["t_b"], found["optimal"]) == ("5/6", True)
        assert found["solvers"] == ["gurobi"]

    @free_licence
    def test_a_licence_that_is_too_small_is_one_sentence(self, capsys, tmp_path):
        command = ["build", LARGE, "--scheduler", "exact", "--solver", "Gurobi"]
        assert main([*command, "--out", str(tmp_path / "d")]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(
            "Error: gurobi: the solver's licence does not allow a program of this"
        )
        assert err.endswith("2000 constraints; with --fallback HiGHS solves it\n")
        assert err.count("\n") == 1
        assert os.listdir(tmp_path) == []

    @free_licence
    def test_highs_solves_instead_if_asked(self, capsys, tmp_path):
        arguments = ["--solver", "gurobi", "--fallback", "--time-limit", "0s"]
        found = built(capsys, tmp_path / "d", LARGE, *arguments)
        assert "highs" in found["solvers"]

    @free_licence
    def test_points_before_the_licence_is_too_small_are_printed(self, capsys):
        arguments = ["--chunks", "3", "--solver", "gurobi"]
        found = cost(capsys, "ModifiedDeBruijn(2, 4)", *arguments, code=2)
        assert points(found) == [(4, "5/4", True)]
        assert found["stopped"].startswith("gurobi: the solver's licence does not allow")
        assert found["stopped"].endswith("with --fallback HiGHS solves it")

    def test_no_licence_at_all(self, tmp_path):
        command = ["build", KAUTZ, "--scheduler", "exact", "--solver", "gurobi", "--out", "d"]
        done = run(*command, cwd=tmp_path, GRB_LICENSE_FILE="/nonexistent")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: gurobi: the solver has no valid licence")
        assert done.stderr.count("\n") == 1
        done = run(*command, "--fallback", cwd=tmp_path, GRB_LICENSE_FILE="/nonexistent")
        assert (done.returncode, done.stderr) == (0, "")

    def test_not_installed(self, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "gurobipy", None)
        command = ["cost", KAUTZ, "--exact", "--solver", "gurobi"]
        assert main(command) == 2
        assert "not installed: pip install gurobipy; with --fallback" in capsys.readouterr().err
        assert main([*command, "--fallback"]) == 0
