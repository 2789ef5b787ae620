"""Traces of jobs: their steps, known answers, gaps that hide switches, refusals."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from trace_samples import ALTERNATING, OPTIONS, SECONDS, option

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.options import FabricOption, inside_bounds, recipe_option
from ocs_codesign.circuits.legs.plan import LegProblem, plan_legs
from ocs_codesign.circuits.legs.trace import MAX_JOBS, Job, Trace, plan_trace
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.verification.plans import check_plan

KNOWN = [(0, 840), (10, 890), (30, 990), (59, 1019), (60, 1020), (120, 1080)]
KNOWN += [(200, 1160), (1000, 1200)]


@pytest.mark.parametrize(("delta", "total"), KNOWN)
def test_known_answers(delta, total):
    plan = plan_trace(ALTERNATING, OPTIONS, SECONDS, Change(delta), start=0)
    assert plan.offline.total == total
    assert plan.offline.is_optimal
    assert check_plan(plan.offline) is None
    assert plan.break_even.total(delta) == total
    assert plan.pays == (delta < 240)


def test_known_break_even():
    plan = plan_trace(ALTERNATING, OPTIONS, SECONDS, Change(7), start=0)
    assert plan.break_even.factors == (30, 240)
    assert [(span.begin, span.end) for span in plan.paying] == [(0, 240)]
    assert plan.factor_s == 1
    assert plan.static.total == 1020 + 7
    assert plan.greedy.total == 840 + 5 * 7
    assert plan.online_ratio == plan.online.total / plan.offline.total


def slow_steps(trace):
    """Every collective of a trace with the gap before it, one by one."""
    after, steps = Fraction(0), []
    for _ in range(trace.repeat):
        for job in trace.jobs:
            for _ in range(job.count):
                steps.append((job.collective, job.message_bytes, after + job.gap_before_s))
                after = job.gap_after_s
    return steps


@pytest.mark.parametrize("seed", range(30))
def test_steps(seed):
    drawn = random.Random(seed)
    jobs = [
        Job(
            drawn.choice(WITHOUT_PARAMETERS),
            drawn.randint(0, 3),
            gap_before_s=drawn.randint(0, 2),
            gap_after_s=drawn.choice((0, 0.5)),
            count=drawn.randint(1, 4),
        )
        for _ in range(drawn.randint(1, 5))
    ]
    trace = Trace(jobs, drawn.randint(1, 4))
    steps = trace.legs()
    found = [steps.legs[row] for row in steps.rows]
    assert [(one.collective, one.message_bytes, one.gap_s) for one in found] == slow_steps(trace)
    assert len(found) == trace.num_jobs
    assert len(set(steps.legs)) == len(steps.legs) <= 2 * len(jobs) + 1
    last = trace.jobs[-1].gap_after_s
    assert trace.compute_s == sum(one.gap_s for one in found) + last


def test_gaps_hide_switches():
    jobs = [Job("allreduce", 1, gap_after_s=4), Job("alltoall", 1, gap_before_s=6, gap_after_s=90)]
    plan = plan_trace(Trace(jobs, 2), OPTIONS, SECONDS, Change(25), start=0)
    assert plan.offline.choice.tolist() == [0, 1, 0, 1]
    assert plan.offline.working == 560
    assert plan.offline.switching == 15 + 0 + 15
    assert plan.offline.hidden == 10 + 25 + 10
    runs = plan.offline.runs()
    assert [run.begin for run in runs] == [0, 100, 305, 495]
    assert [(run.switching, run.hidden, run.gap) for run in runs] == [
        (0, 0, 0),
        (15, 10, 10),
        (0, 25, 90),
        (15, 10, 10),
    ]
    assert runs[-1].end == plan.offline.total + plan.trace.compute_s - 90


def test_runs_span_the_whole_trace():
    trace = Trace([Job("allreduce", 1, gap_before_s=1, count=3), Job("alltoall", 1, count=9)], 5)
    plan = plan_trace(trace, OPTIONS, SECONDS, Change(50))
    for chosen in (plan.offline, plan.online, plan.static, plan.greedy):
        runs = chosen.runs()
        assert runs[0].first_step == 1
        assert runs[-1].last_step == trace.num_jobs
        assert all(a.last_step + 1 == b.first_step for a, b in pairwise(runs))
        assert runs[-1].end == chosen.total + trace.compute_s


def test_a_cold_start_pays_for_the_first_design():
    for cold, total in ((True, 890 + 10), (False, 890)):
        delta = Change(10, cold_start=cold)
        assert plan_trace(ALTERNATING, OPTIONS, SECONDS, delta).offline.total == total
    first_exchange = Trace([Job("alltoall", 1)])
    held = plan_trace(first_exchange, OPTIONS, SECONDS, Change(10), start=0)
    assert (held.offline.total, held.offline.num_switches) == (190, 1)


def test_times_of_recipes_and_circuits_changed():
    from ocs_codesign.graphs.text import parse

    texts = [f"DirectedCirculant(8, {offsets})" for offsets in ("(1, 3)", "(1, 2)", "(5, 7)")]
    options = [recipe_option(parse(text), WITHOUT_PARAMETERS) for text in texts]
    model = CostModel(1e-6, 1e9)
    trace = Trace([Job("allgather", 8000), Job("alltoall", 8000), Job("allreduce", 8000)])
    cost = Change(1e-6, 1e-7)
    plan = plan_trace(trace, options, model, cost)
    assert plan.problem.delta[0].tolist() == [0, Fraction(18, 10**7), Fraction(26, 10**7)]
    assert plan.problem.first.tolist() == [Fraction(26, 10**7)] * 3
    for row, demand in enumerate(plan.legs.legs):
        for at, one in enumerate(options):
            wanted = one.cost(demand.collective)
            time = Fraction(wanted.steps, 10**6) + wanted.t_b * Fraction(8000, 10**9)
            assert plan.problem.costs[row, at] == time
    same = LegProblem(plan.problem.costs, plan.problem.delta, first=plan.problem.first)
    assert plan_legs(same).total == plan.offline.total
    assert plan.factor_s == Fraction(1, 10**6)
    assert plan.break_even.total(1) == plan.offline.total
    assert plan.break_even.total(3) >= plan.offline.total


def test_many_jobs():
    trace = Trace([Job("allreduce", 1, gap_before_s=2, count=3), Job("alltoall", 1)], 2**16)
    plan = plan_trace(trace, OPTIONS, SECONDS, Change(20), start=0)
    assert plan.problem.num_steps == 2**18
    assert plan.offline.is_optimal
    each = 3 * 100 + 180 + 20 + (20 - 2)
    assert plan.offline.total == each * 2**16 - 18
    assert plan.break_even.complete


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Job("allsum", 1), "unknown collective 'allsum'"),
        (lambda: Job("allreduce", -1), "message_bytes is -1: it cannot be negative"),
        (lambda: Job("allreduce", float("nan")), "message_bytes is nan: it must be finite"),
        (lambda: Job("allreduce", 1, gap_before_s=-2), "gap_before_s is -2: it cannot be negative"),
        (lambda: Job("allreduce", 1, count=0), f"count is 0: it must be from 1 to {MAX_JOBS}"),
        (lambda: Job("allreduce", 1, count=True), "count is True: it must be a whole number"),
        (lambda: Trace([]), "the trace is empty"),
        (lambda: Trace([Job("allreduce", 1, count=MAX_JOBS)] * 2), "at most 1048576 are planned"),
        (lambda: FabricOption(" "), "a design needs a name"),
        (lambda: Change(-1), "fixed_s is -1: a time cannot be negative"),
    ],
)
def test_refused(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()


@pytest.mark.parametrize(
    ("options", "more", "rule"),
    [
        ([], {}, "there is no design to choose from"),
        ([option("T0", 1, None)], {}, "job 2 is alltoall, which none of the 1 designs can serve"),
        (OPTIONS, {"start": 2}, "start is 2"),
    ],
)
def test_plans_refused(options, more, rule):
    with pytest.raises(ValueError, match=rule):
        plan_trace(ALTERNATING, options, SECONDS, Change(1), **more)


def test_circuits_that_cannot_be_counted_are_refused():
    with pytest.raises(ValueError, match="T0 has no topology: its circuits cannot be counted"):
        plan_trace(ALTERNATING, OPTIONS, SECONDS, Change(1, 1), start=0)


def test_designs_that_serve_only_some_jobs():
    options = [option("gather", 100, None), option("exchange", None, 180)]
    plan = plan_trace(ALTERNATING, options, SECONDS, Change(1000), start=0)
    assert plan.offline.total == 840 + 5000
    assert plan.static is None
    assert plan.pays
    assert plan.online.total == plan.greedy.total == plan.offline.total
    assert [(span.begin, span.end) for span in plan.paying] == [(0, None)]


def test_inside_a_bandwidth_optimal_design():
    from ocs_codesign.graphs.text import parse

    model, delta = CostModel(1e-6, 1e9), Change(1e-5, 1e-7)
    best = recipe_option(parse("UniRing(1, 8)"), [Collective.ALLREDUCE])
    (found,) = inside_bounds([best], [Collective.ALLREDUCE], model, delta)
    assert (found.steps, found.saved_steps) == (14, 14 - 2 * 3)
    assert found.saved_s == Fraction(8, 10**6)
    assert found.dead_s == Fraction(101, 10**7)
    assert not found.can_gain
    cheap = Change(1e-6)
    assert inside_bounds([best], [Collective.ALLREDUCE], model, cheap)[0].can_gain
    other = recipe_option(parse("DeBruijn(2, 3)"), [Collective.ALLREDUCE])
    bare = FabricOption("x", Cost(1, Fraction(1)))
    assert inside_bounds([best], [Collective.ALLTOALL], model, delta) == ()
    assert inside_bounds([other, bare], WITHOUT_PARAMETERS, model, delta) == ()
