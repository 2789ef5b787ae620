"""How solves end early or elsewhere: time limits, stalls, licences, fallbacks, processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from folders import ROOT
from interrupts import interrupted
from lp_samples import INF, all_to_all, out_of_time, program

from ocs_codesign.core.lp import SOLVERS, Options, Status, highs, solve
from ocs_codesign.core.lp.program import FIRST_ORDER
from ocs_codesign.graphs.families.rings import BiRing, Hypercube
from ocs_codesign.graphs.families.shifts import DeBruijn

FREE_LICENCE = os.environ.get("GRB_LICENSE_FILE") is None


def test_every_status_is_a_sentence():
    assert all(len(status.value.split()) >= 5 for status in Status)


class TestTimeLimit:
    def test_simplex_keeps_its_basis_and_a_proven_bound(self):
        one = all_to_all(Hypercube(6).topology())  # seconds of simplex; the optimum is 32
        solution = out_of_time(one, "highs", "basis", method="simplex")
        assert solution.status is Status.TIME_LIMIT
        assert solution.bound is None or solution.bound <= 32 + 1e-6
        assert "time limit" in solution.message

    def test_interior_point_keeps_its_iterate(self):
        one = all_to_all(Hypercube(6).topology())
        solution = out_of_time(one, "highs", "values", method="ipx-no-crossover")
        assert solution.status is Status.TIME_LIMIT
        assert solution.violation == one.violation(solution.values)
        assert solution.relative_gap is None or solution.violation < 1e-5


class TestFirstOrder:
    def test_where_hipdlp_stalls_pdlp_goes_on(self):
        one = all_to_all(BiRing(2, 32).topology())
        solution = solve(one, "highs", Options("first-order"))
        assert solution.objective == pytest.approx(128, rel=1e-5)
        assert solution.message.startswith("highs, pdlp (")
        assert solution.method == "first-order"

    def test_a_time_limit_is_no_share_of_time(self, monkeypatch):
        limits, run = [], highs._run

        def noted(program, engine, options):
            limits.append(options.time_limit_s)
            return run(program, engine, options)

        monkeypatch.setattr(highs, "_run", noted)
        one = all_to_all(DeBruijn(2, 3).topology())
        free, limited = (
            solve(one, "highs", Options("first-order", time_limit_s=limit)) for limit in (None, 1e4)
        )
        assert limits[0] is None
        assert limits[1] > 9_999
        assert (free.message, free.objective) == (limited.message, limited.objective)

    def test_the_last_resort_is_interior_point(self, monkeypatch):
        *engines, last = highs.ENGINES[FIRST_ORDER]
        capped = [
            replace(e, settings=(("solver", e.name), ("pdlp_iteration_limit", 1))) for e in engines
        ]
        unknown = replace(engines[0], settings=(("solver", "no such engine"),))
        monkeypatch.setitem(highs.ENGINES, FIRST_ORDER, (unknown, *capped, last))
        solution = solve(all_to_all(DeBruijn(2, 3).topology()), "highs", Options("first-order"))
        assert solution.method == "ipx-no-crossover"
        assert solution.objective == pytest.approx(9)

    def test_an_iterate_outlives_an_engine_without_one(self, monkeypatch):
        hipdlp, pdlp, _ = highs.ENGINES[FIRST_ORDER]
        capped = [
            replace(e, settings=(("solver", e.name), ("pdlp_iteration_limit", 200)))
            for e in (pdlp, hipdlp)
        ]
        monkeypatch.setitem(highs.ENGINES, FIRST_ORDER, tuple(capped))
        one = all_to_all(Hypercube(4).topology())
        solution = solve(one, "highs", Options("first-order"))
        assert solution.status is Status.FAILED
        assert solution.objective == pytest.approx(8, rel=0.5)
        assert solution.message.startswith("highs, pdlp (")

    def test_an_old_gurobi_uses_the_barrier_and_says_so(self, monkeypatch):
        import gurobipy

        monkeypatch.setattr(gurobipy.gurobi, "version", lambda: (12, 0, 3))
        solution = solve(all_to_all(DeBruijn(2, 3).topology()), "gurobi", Options("first-order"))
        assert solution.method == "ipx-no-crossover"
        assert solution.objective == pytest.approx(9)


class TestLicence:
    size = 2500

    def big(self):
        return program(
            [1] * self.size, np.eye(self.size), [1] * self.size, [2] + [INF] * (self.size - 1)
        )

    @pytest.mark.skipif(not FREE_LICENCE, reason="a licence is installed")
    def test_too_small(self):
        solution = solve(self.big(), "gurobi")
        assert solution.status is Status.LICENCE_TOO_SMALL
        assert "2500 variables and 2501 constraints" in solution.message
        assert "takes 2000 variables and 2000 constraints" in solution.message

    @pytest.mark.skipif(not FREE_LICENCE, reason="a licence is installed")
    def test_fallback_solves_and_says_why(self):
        solution = solve(self.big(), "gurobi", Options(fallback="highs"))
        assert solution.solver == "highs"
        assert solution.objective == pytest.approx(self.size)
        assert "fallback, since gurobi: the solver's licence" in solution.message

    def test_fallback_is_not_for_other_ends(self):
        one = program([1], [[1]], [2], [1])
        solution = solve(one, "gurobi", Options(fallback="highs"))
        assert (solution.solver, solution.status) == ("gurobi", Status.INFEASIBLE)

    def test_fallback_for_an_option(self):
        one = program([1], [[1]], [2], [INF])
        solution = solve(one, "gurobi", Options("simplex", tolerance=1e-10, fallback="highs"))
        assert (solution.solver, solution.objective) == ("highs", 2.0)
        assert "Tol = 1e-10" in solution.message

    def test_none(self):
        solution = run_script(
            "print(s.solver, first.status.name, s.objective, first.message)",
            GRB_LICENSE_FILE="/nonexistent",
        )
        assert solution.startswith("highs NO_LICENCE 1.0 gurobi: the solver has no valid licence")

    @pytest.mark.parametrize(("solver", "package"), [("highs", "highspy"), ("gurobi", "gurobipy")])
    def test_not_installed(self, monkeypatch, solver, package):
        monkeypatch.setitem(sys.modules, package, None)
        one = program([1], [[1]], [2], [INF])
        solution = solve(one, solver)
        assert solution.status is Status.NOT_INSTALLED
        assert f"pip install {package}" in solution.message
        other = next(name for name in SOLVERS if name != solver)
        assert solve(one, solver, Options(fallback=other)).objective == 2


def run_script(end, **environment):
    """Solve x = 1 with gurobi, then with highs as its fallback, in a process of its own."""
    script = (
        "import os, numpy as np\n"
        "from ocs_codesign.core.lp import LinearProgram, Options, solve\n"
        "one = np.ones(1)\n"
        "p = LinearProgram(one, np.array([0, 1]), np.array([0]), one, one, one, one * 0, one)\n"
        "first = solve(p, 'gurobi')\n"
        "s = solve(p, 'gurobi', Options(fallback='highs'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script + end],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_solvers_print_no_banner():
    assert run_script("assert s.objective == solve(p).objective == 1.0") == ""


def test_a_process_forked_after_a_solve_can_solve():
    end = (
        "solve(p, 'highs', Options(threads=2))\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(0 if solve(p).objective == 1.0 else 1)\n"
        "print(os.waitpid(child, 0)[1])"
    )
    assert run_script(end) == "0\n"


def test_statuses_of_rare_ends():
    import gurobipy
    import highspy

    from ocs_codesign.core.lp import gurobi

    ends = highspy.HighsModelStatus
    assert highs._status(ends, ends.kMemoryLimit) is Status.MEMORY
    assert highs._status(ends, ends.kUnknown) is Status.FAILED
    assert gurobi._status(gurobipy.GRB, gurobipy.GRB.MEM_LIMIT) is Status.MEMORY
    error = gurobipy.GurobiError(gurobipy.GRB.Error.OUT_OF_MEMORY, "out of memory")
    one = program([1], [], [], [])
    assert gurobi._explained(gurobipy.GRB.Error, error, one, "simplex").status is Status.MEMORY


def test_arrays_that_highs_refuses():
    twice = replace(
        program([1, 1], [[1, 1]], [1], [1]), index=np.array([0, 0])
    )  # the same column twice in a row
    solution = solve(twice)
    assert solution.status is Status.FAILED
    assert "a column twice in a row" in solution.message


class TestCtrlC:
    @pytest.mark.parametrize(
        "engine", highs.ENGINES[FIRST_ORDER][::2], ids=lambda engine: engine.name
    )
    def test_ends_what_an_engine_does_not_hear(self, tmp_path, engine):
        script = (
            f"import sys, threading\nsys.path.insert(0, {str(ROOT / 'tests/samples')!r})\n"
            "from lp_samples import all_to_all\n"
            "from ocs_codesign.faces.cli import app, main\n"
            "from ocs_codesign.graphs.families.rings import Hypercube\n"
            "from ocs_codesign.core.lp import Options, highs\n"
            "def waiting(one):\n"
            "    threading.Timer(1, print, ('ready',), {'flush': True}).start()\n"
            "    wait(one)\n"
            "wait, highs._wait, highs.HEARS_WITHIN_S = highs._wait, waiting, 0.01\n"
            f"settings = *{engine.settings!r}, ('pdlp_iteration_limit', 10**8)\n"
            f"engine = highs._Engine('first-order', {engine.name!r}, settings)\n"
            "@app.command('solve')\n"
            "def solve():\n"
            "    program = all_to_all(Hypercube(7).topology())\n"
            "    highs._run(program, engine, Options(tolerance=1e-9)).taken()\n"
            "app.get_command = lambda *_: solve\n"
            "sys.exit(main(['solve']))\n"
        )
        code, out, err = interrupted(script, tmp_path)
        assert (code, out, err) == (130, "", "Interrupted: nothing was written.")
