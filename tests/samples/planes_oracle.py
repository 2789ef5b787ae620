"""Independent answers to small plane problems: all usages, timed by a linear program of its own."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
from scipy.optimize import linprog

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import plan_of_usage
from ocs_codesign.circuits.planes.problem import PlaneProblem

KNOWN = [
    ((1, 2, 2, 1), (4, 2, 2, 4), "0.2", "0.44"),
    ((1, 2, 2, 1), (16, 8, 8, 16), "0.2", "1.04"),
    ((1, 2, 2, 1), (16, 8, 8, 16), "0.5", "1.46"),
    ((1, 2, 3, 3, 2, 1), (4, 2, 1, 1, 2, 4), "0.2", "0.76"),
    ((1, 2, 2), (10, 1, 10), "0.2", "0.61"),
]
"""Configurations, MB a step, delta and the least total in ms: two planes of 50 GB/s, cold start."""


def listed(needed, megabytes, delta_ms):
    """A problem of KNOWN."""
    cost = Change(Fraction(delta_ms) / 1000)
    return PlaneProblem(needed, [10**6 * one for one in megabytes], 2, 50 * 10**9, cost)


def random_problem(rng, overlap=None, barrier=None, max_steps=4):
    """A small problem with whatever may be asked: latency, held configurations, circuits."""
    planes = rng.choice((1, 2, 2, 2, 3))
    steps = rng.randint(1, max_steps if planes < 3 else min(3, max_steps))
    kinds = rng.randint(1, 3)
    sets = [frozenset(rng.sample(range(8), rng.randint(1, 4))) for _ in range(kinds)]
    matrix = [[len(b - a) for b in sets] for a in (*sets, frozenset())]
    held = [rng.choice((None, *range(kinds))) for _ in range(planes)]
    return PlaneProblem(
        [rng.randrange(kinds) for _ in range(steps)],
        [rng.randint(1, 12) for _ in range(steps)],
        planes,
        rng.choice((1, 3)),
        Change(
            rng.choice((0, 1, Fraction(5, 2), 7)),
            rng.choice((0, 0, Fraction(1, 2))),
            cold_start=rng.random() < 0.6,
            overlap=rng.random() < 0.7 if overlap is None else overlap,
            barrier=rng.random() < 0.6 if barrier is None else barrier,
        ),
        latency_s=rng.choice((0, 0, Fraction(1, 4), 2)),
        held=held if rng.random() < 0.5 else None,
        changed_circuits=matrix if rng.random() < 0.4 else 1,
    )


def usages(problem):
    """All ways to say which planes serve which step."""
    planes = range(problem.num_planes)
    sets = list(chain.from_iterable(combinations(planes, many + 1) for many in planes))
    return product(sets, repeat=problem.num_steps)


def enumerated_s(problem):
    """The least total of all usages, timed as plans are; planes that are alike come in order.

    A beginning of a usage is left when its sends, latencies and dead times are too many to beat the
    best usage so far: with barriers a step that n planes serve lasts latency + send / n, and all
    planes together have as many times the total as there are planes.
    """
    planes, cost = range(problem.num_planes), problem.cost
    sets = [one for many in planes[::-1] for one in combinations(planes, many + 1)]
    each = [send / problem.num_planes + problem.latency_s for send in problem.send_s]
    best = plan_of_usage(problem, [planes] * problem.num_steps).total_s

    def is_first(chosen, history):
        others = set(planes) - set(chosen)
        return not any(a < b and history[a] == history[b] for a in others for b in chosen)

    def extend(usage, held, dead, busy, lasted):
        nonlocal best
        step = len(usage)
        rest = sum(each[step:]) if cost.barrier else sum(problem.send_s[step:]) / len(planes)
        bounds = [(busy + (dead if cost.overlap else 0)) / len(planes) + rest]
        if cost.barrier:
            bounds.append(lasted + rest + (0 if cost.overlap or not dead else cost.fixed_s))
        if max(bounds) >= best:
            return
        if step == problem.num_steps:
            best = min(best, plan_of_usage(problem, usage).total_s)
            return
        history = [(problem.held[plane], *(plane in one for one in usage)) for plane in planes]
        needed, send = problem.configurations[step], problem.send_s[step]
        for chosen in sets:
            if is_first(chosen, history):
                waits = sum(problem.dead_time_s(held[plane], needed) for plane in chosen)
                after = [needed if plane in chosen else held[plane] for plane in planes]
                work = busy + send + len(chosen) * problem.latency_s
                time = lasted + problem.latency_s + send / len(chosen)
                extend((*usage, chosen), after, dead + waits, work, time)

    extend((), list(problem.held), 0, 0, 0)
    return best


def least_with_overlap(problem, dead_s=None):
    """The least total of all usages; ``dead_s(history, step)`` before a plane serves a step."""

    def held_s(history, step):
        plane, served = history
        held = problem.configurations[served[-1]] if served else problem.held[plane]
        return problem.dead_time_s(held, problem.configurations[step])

    return min(_timed(problem, usage, dead_s or held_s) for usage in usages(problem))


def one_step_memory_s(problem):
    """The same where a plane pays if and only if the step before needs another configuration."""

    def dead_s(_, step):
        needed = problem.configurations
        changes = step == 0 or needed[step] != needed[step - 1]
        return problem.cost.dead_time_s(int(changes))

    return least_with_overlap(problem, dead_s)


def _timed(problem, usage, dead_s):
    """Columns: begin and end of every use, then the end of every step."""
    uses = [(step, plane) for step, planes in enumerate(usage) for plane in planes]
    steps, many = problem.num_steps, len(uses)
    at = {use: number for number, use in enumerate(uses)}
    rows, least = [], []

    def row(lower, **signs):
        rows.append(np.zeros(2 * many + steps))
        for sign, columns in signs.items():
            for column in columns:
                rows[-1][column] += 1.0 if sign == "plus" else -1.0
        least.append(float(lower))

    for step, plane in uses:
        use = at[step, plane]
        begin, end, done = use, many + use, 2 * many + step
        row(problem.latency_s, plus=[end], minus=[begin])
        row(0, plus=[done], minus=[end])
        if problem.cost.barrier and step:
            row(0, plus=[begin], minus=[done - 1])
        served = [one for one in range(step) if plane in usage[one]]
        dead = dead_s((plane, served), step)
        row(dead, plus=[begin], minus=[many + at[served[-1], plane]] if served else [])
    for step, planes in enumerate(usage):
        mine = [at[step, plane] for plane in planes]
        work = problem.send_s[step] + len(planes) * problem.latency_s
        row(work, plus=[many + one for one in mine], minus=mine)
    # The total is the last end of all: without barriers steps may end in any order.
    goal = np.zeros(2 * many + steps + 1)
    goal[-1] = 1.0
    matrix = np.hstack([np.array(rows), np.zeros((len(rows), 1))])
    ends = np.zeros((steps, len(goal)))
    ends[:, -1] = 1.0
    ends[np.arange(steps), 2 * many + np.arange(steps)] = -1.0
    found = linprog(goal, -np.vstack([matrix, ends]), -np.append(least, np.zeros(steps)))
    assert found.success, found.message
    return found.fun


def least_with_stops(problem):
    """The least total when the fabric stops: all ways to hold configurations in the steps.

    Without barriers this is for no latency: then the planes of a configuration share all the sends
    between two stops.
    """
    assert problem.cost.barrier or not problem.latency_s
    kinds = sorted({*problem.configurations, *problem.held} - {None})
    states = list(product((None, *kinds), repeat=problem.num_planes))

    def least(step, held, loads):
        if step == problem.num_steps:
            return max(loads.values(), default=Fraction(0))
        needed, totals = problem.configurations[step], []
        for state in states:
            pairs = list(zip(held, state, strict=True))
            if needed not in state or any(b is None is not a for a, b in pairs):
                continue
            changed = sum(_circuits(problem, a, b) for a, b in pairs if b is not None)
            mine = problem.send_s[step] / state.count(needed)
            if problem.cost.barrier or changed:
                since = {needed: mine + problem.latency_s}
                spent = problem.cost.dead_time_s(changed) + max(loads.values(), default=0)
            else:
                since, spent = {**loads, needed: loads.get(needed, 0) + mine}, 0
            totals.append(spent + least(step + 1, state, since))
        return min(totals)

    return least(0, problem.held, {})


def _circuits(problem, held, target):
    made = held is None and not problem.cost.cold_start
    return 0 if made else problem.circuits_changed(held, target)
