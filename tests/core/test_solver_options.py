"""How the choice of a solver and its limits reach every program, and what is left if they bite."""

from __future__ import annotations

import os
import signal
import threading
from fractions import Fraction

import pytest
from lp_samples import INF, program

from ocs_codesign.core.compute.symmetry import quotient
from ocs_codesign.core.lp import Options, SolverUnavailableError, Status, highs, solve
from ocs_codesign.core.lp.program import NOT_TAKEN, without_package, without_point
from ocs_codesign.graphs.families.rings import BiRing, Circulant, Torus
from ocs_codesign.graphs.families.shifts import GeneralizedKautz, Kautz
from ocs_codesign.schedules.paths import planes
from ocs_codesign.schedules.paths import tables as paths
from ocs_codesign.schedules.paths import throughput as large
from ocs_codesign.schedules.paths.channels import up_down_table
from ocs_codesign.schedules.paths.tables import disjoint_path_table, path_table
from ocs_codesign.schedules.paths.throughput import _suited, soft_throughput, throughput
from ocs_codesign.schedules.stepped import alltoall as stepped
from ocs_codesign.schedules.stepped import exact_program as exact_search
from ocs_codesign.schedules.stepped.alltoall import stepped_plan
from ocs_codesign.schedules.stepped.exact import exact_answers, exact_schedule, fractional_bound
from ocs_codesign.verification.schedules import verify

AT_ONCE = Options(time_limit_s=0.0)
GUROBI = Options(solver="gurobi")
LARGE = GeneralizedKautz(4, 27).topology()
free_licence = pytest.mark.skipif(
    os.environ.get("GRB_LICENSE_FILE") is not None, reason="a licence is installed"
)


def ended(status):
    """A stand-in for solve that always ends like this."""

    def end(_program, _solver=None, options=None):
        return without_point(status, options.solver, options.method, "a stand-in")

    return end


class TestSolve:
    def test_the_options_name_the_solver(self):
        one = program([1], [[1]], [2], [INF])
        assert solve(one).solver == solve(one, options=Options()).solver == "highs"
        assert solve(one, options=GUROBI).solver == "gurobi"
        assert solve(one, "highs", GUROBI).solver == "highs"
        with pytest.raises(ValueError, match="unknown solver 'cplex'"):
            solve(one, options=Options(solver="cplex"))

    @pytest.mark.parametrize("status", list(Status))
    def test_taken(self, status):
        solution = without_point(status, "gurobi", "auto", "a reason")
        if status is Status.INTERRUPTED:
            with pytest.raises(KeyboardInterrupt):
                solution.taken()
        elif status in NOT_TAKEN:
            with pytest.raises(SolverUnavailableError, match=f"gurobi: {status.value}: a reason"):
                solution.taken()
        else:
            assert solution.taken() is solution

    def test_ctrl_c_while_a_package_is_loaded_is_no_missing_package(self):
        broken = ImportError("initialization failed")
        assert without_package(broken, "highs", "auto", "highspy").status is Status.NOT_INSTALLED
        broken.__cause__ = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            without_package(broken, "highs", "auto", "highspy")

    def test_ctrl_c_while_a_solve_starts_waits_for_it(self, monkeypatch):
        import highspy

        start = highspy.Highs.startSolve

        def interrupted(solver):
            os.kill(os.getpid(), signal.SIGINT)
            return start(solver)

        monkeypatch.setattr(highspy.Highs, "startSolve", interrupted)
        usual = signal.getsignal(signal.SIGINT)
        solution = solve(program([1], [[1]], [2], [INF]))
        assert solution.status in (Status.INTERRUPTED, Status.OPTIMAL)
        assert signal.getsignal(signal.SIGINT) is usual

    def test_other_threads_get_no_ctrl_c(self):
        found = []
        one = program([1], [[1]], [2], [INF])
        thread = threading.Thread(target=lambda: found.append(solve(one).objective))
        thread.start()
        thread.join()
        assert found == [2.0]
        with highs._ctrl_c_later():
            pass


class TestExact:
    @pytest.mark.parametrize("solver", ["highs", "gurobi"])
    def test_every_solver_proves_the_same(self, solver):
        topology, options = GeneralizedKautz(2, 5).topology(), Options(solver=solver)
        answers = list(exact_answers(topology, 5, 2, options=options))
        costs = [answer.cost for answer in exact_answers(topology, 5, 2)]
        assert [answer.cost for answer in answers] == costs
        assert all(answer.is_optimal for answer in answers)
        assert answers[-1].solvers == (solver,)
        limits = [fractional_bound(topology, one.num_steps, options=options) for one in answers]
        assert limits == [one.limit for one in answers]

    def test_answers_come_one_by_one(self, monkeypatch):
        answers = exact_answers(Kautz(2, 1).topology(), 4, 1)
        assert next(answers).cost.t_b == 1
        monkeypatch.setattr(exact_search, "solve", ended(Status.LICENCE_TOO_SMALL))
        with pytest.raises(SolverUnavailableError, match="a stand-in"):
            next(answers)

    def test_bad_input_is_noticed_before_the_first_answer(self):
        with pytest.raises(ValueError, match="num_chunks is 0"):
            exact_answers(Kautz(2, 1).topology(), 4, 0)

    def test_the_limit_is_for_all_steps_together(self, monkeypatch):
        given = []
        real = exact_search.solve

        def told(*arguments, options):
            given.append(options.time_limit_s)
            return real(*arguments, options=options)

        monkeypatch.setattr(exact_search, "solve", told)
        list(exact_answers(Kautz(2, 1).topology(), 5, 1, options=Options(time_limit_s=40.0)))
        assert 0 < given[0] <= 10
        assert max(given) <= 40

    @pytest.mark.parametrize(
        ("status", "word"),
        [
            (Status.TIME_LIMIT, "time limit: "),
            (Status.MEMORY, "out of memory: "),
            (Status.FAILED, "the solver failed: "),
        ],
    )
    def test_what_stopped_the_search_is_said(self, monkeypatch, status, word):
        real = exact_search.solve

        def some(one, options):
            return (
                ended(status)(one, None, options)
                if one.is_mixed_integer
                else real(one, options=options)
            )

        monkeypatch.setattr(exact_search, "solve", some)
        answer = exact_schedule(Kautz(2, 1).topology(), 3, 2)
        assert answer.status.startswith(word)
        assert (answer.cost.t_b, answer.bound) == (1, Fraction(5, 6))
        assert verify(answer.schedule, answer.cost).ok

    def test_ctrl_c_ends_it(self, monkeypatch):
        monkeypatch.setattr(exact_search, "solve", ended(Status.INTERRUPTED))
        with pytest.raises(KeyboardInterrupt):
            exact_schedule(Kautz(2, 1).topology(), 3, 2)

    def test_a_gap_ends_it_with_what_is_close_enough(self):
        rough = exact_schedule(Kautz(2, 1).topology(), 3, 2, options=Options(relative_gap=0.25))
        assert rough.status.startswith("within the gap: t_b 1 was found")
        fine = exact_schedule(Kautz(2, 1).topology(), 3, 2, options=Options(relative_gap=0.1))
        assert fine.cost.t_b == Fraction(5, 6)


class TestAllToAll:
    @pytest.mark.parametrize(
        "topology", [Circulant(12, (2, 3)).topology(), GeneralizedKautz(3, 8).topology()]
    )
    def test_every_solver_proves_the_same(self, topology):
        assert throughput(topology, GUROBI).time == throughput(topology).time
        plans = [stepped_plan(topology, options=options) for options in (GUROBI, Options())]
        assert plans[0].bound == plans[1].bound

    @pytest.mark.parametrize(
        "topology", [LARGE, Circulant(12, (2, 3)).topology(), BiRing(2, 9).topology()]
    )
    def test_out_of_time_the_certificate_holds(self, topology):
        rough, best = throughput(topology, AT_ONCE), throughput(topology)
        assert rough.bound <= best.bound <= best.time <= rough.time
        assert rough.gap < 0.5

    def test_out_of_time_says_so(self):
        assert throughput(LARGE, AT_ONCE).proof == (
            "mirror descent; highs: the time limit was reached before optimality"
        )

    @pytest.mark.parametrize("make", [path_table, disjoint_path_table, up_down_table])
    def test_tables_out_of_time_are_tables(self, make):
        topology = Torus((3, 4)).topology()
        table, best = make(topology, options=AT_ONCE), make(topology)
        assert table.bound <= best.time
        assert best.bound <= table.time
        assert table.time <= 3 * best.time

    @pytest.mark.parametrize("status", [Status.MEMORY, Status.FAILED])
    def test_a_solver_that_leaves_nothing(self, monkeypatch, status):
        best = throughput(LARGE)
        for module in ("paths.throughput", "stepped.alltoall", "paths.tables"):
            monkeypatch.setattr(f"ocs_codesign.schedules.{module}.solve", ended(status))
        found = throughput(LARGE)
        assert found.proof == f"mirror descent; highs: {status.value}"
        assert found.bound <= best.time <= found.time
        for topology in (LARGE, BiRing(2, 5).topology()):
            plan = stepped_plan(topology)
            assert verify(plan.schedule, plan.cost).ok
            assert disjoint_path_table(topology).time >= throughput(topology).bound

    def test_ctrl_c_is_not_taken_for_a_limit(self, monkeypatch):
        for module in (stepped, paths, planes, large):
            monkeypatch.setattr(module, "solve", ended(Status.INTERRUPTED))
        for make in (stepped_plan, path_table, disjoint_path_table, throughput):
            with pytest.raises(KeyboardInterrupt):
                make(BiRing(2, 5).topology())

    @free_licence
    @pytest.mark.parametrize("make", [throughput, stepped_plan, path_table])
    def test_a_licence_that_is_too_small(self, make):
        with pytest.raises(SolverUnavailableError, match="does not allow a program of this size"):
            make(LARGE, options=GUROBI)
        assert make(LARGE, options=Options(solver="gurobi", fallback="highs")) is not None

    def test_too_large_without_a_solver(self, monkeypatch):
        monkeypatch.setattr(large, "MAX_ARCS", 1000)
        with pytest.raises(ValueError, match="hops: at most 1,000 are supported without more"):
            soft_throughput(quotient(LARGE))

    def test_a_smaller_gap_is_played_for_longer(self):
        whole = quotient(GeneralizedKautz(3, 20).topology())
        usual = soft_throughput(whole)
        fine = soft_throughput(whole, Options(relative_gap=1e-4))
        rough = soft_throughput(whole, Options(relative_gap=0.05))
        assert fine.gap < usual.gap <= rough.gap < Fraction(1, 10)

    @pytest.mark.parametrize(
        ("options", "method", "tolerance"),
        [
            (Options(), "first-order", 1e-5),
            (Options(relative_gap=1e-2), "first-order", 1e-3),
            (Options(relative_gap=0.5), "first-order", 1e-3),
            (Options(relative_gap=0.0), "first-order", 1e-7),
            (Options(tolerance=1e-4, relative_gap=1e-2), "first-order", 1e-4),
            (Options("simplex"), "simplex", None),
        ],
    )
    def test_the_gap_sets_the_tolerance(self, options, method, tolerance):
        suited = _suited(options, is_small=False)
        assert suited.method == method
        assert suited.tolerance == pytest.approx(tolerance)
        assert _suited(Options(), is_small=True).method == "ipx"
