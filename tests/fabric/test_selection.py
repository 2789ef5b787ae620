"""Selection: times against brute force, switching, phases, and what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from ocs_codesign.circuits.legs import options as forests
from ocs_codesign.circuits.legs.options import FabricOption, recipe_options
from ocs_codesign.circuits.legs.trace import Job
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.cost import Cost
from ocs_codesign.fabric.files.fabric_files import parse_fabric
from ocs_codesign.fabric.selection.ranking import PlanKind, select
from ocs_codesign.fabric.selection.steps import AllowedChanges, Workload
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification.schedules import verify

ALPHA, BANDWIDTH = Fraction(1, 10**6), 125 * 10**8
NAMES = ("DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (1, 2))", "GeneralizedKautz(2, 8)")


def fabric(delta="10us", ports=8, hosts=8, profile="polatis-384", **more):
    switch = {"profile": profile, "ports": ports, "delta": delta}
    value = {
        "name": "small",
        "hosts": {"count": hosts},
        "planes": [{"count": 2, "switches": [switch]}],
        "alpha": "1us",
        "node_bandwidth": "100Gbps",
        "losses": {"connector_db": 0.25, "circulator_db": 0, "budget_db": 9},
        **more,
    }
    return parse_fabric(json.dumps(value).encode(), "small", is_json=True)


def mix(allowed, *jobs, repeat=1):
    named = tuple(replace(job, name=f"part {at}") for at, job in enumerate(jobs))
    return Workload("mix", named, repeat, allowed)


@pytest.fixture(scope="module")
def measured():
    return recipe_options([parse(name) for name in NAMES], WITHOUT_PARAMETERS)


def fakes(measured):
    """The measured topologies, each the best at something by given costs."""
    costs = [
        (Cost(3, Fraction(1, 2)), Cost(9, Fraction(8))),
        (Cost(9, Fraction(4)), Cost(1, Fraction(1))),
    ]
    return [
        FabricOption(one.name, gather, gather, exchange, one.topology)
        for one, (gather, exchange) in zip(measured[:2], costs, strict=True)
    ]


def time_of(option, job):
    cost = option.cost(job.collective)
    return ALPHA * cost.steps + cost.t_b * job.message_bytes / BANDWIDTH


def test_single_designs_by_hand(measured):
    jobs = (Job("alltoall", 2**20, count=3), Job("allreduce", 2**24))
    found = select(fabric(), mix(AllowedChanges.NONE, *jobs, repeat=2), measured)
    assert [plan.kind for plan in found.ranked] == [PlanKind.SINGLE] * 3
    first = Fraction(1, 10**5)  # every plane makes its circuits once, side by side
    expected = {
        option.name: first + 2 * (3 * time_of(option, jobs[0]) + time_of(option, jobs[1]))
        for option in measured
    }
    assert {plan.name: plan.total_s for plan in found.ranked} == expected
    totals = [plan.total_s for plan in found.ranked]
    assert totals == sorted(totals)
    winner = found.ranked[0]
    assert [one.count for one in winner.times] == [6, 2]
    assert winner.reconfiguration_s == first
    assert winner.num_changes == 0


@pytest.mark.parametrize("delta", ["1us", "2ms", "100ms"])
@pytest.mark.parametrize("gap_s", [0, Fraction(3, 1000)])
def test_switching_is_the_optimum_of_brute_force(measured, delta, gap_s, monkeypatch):
    monkeypatch.setattr(forests, "MAX_FOREST_HOSTS", 0)  # costs are made up, so no tree competes
    options = fakes(measured)
    jobs = (Job("alltoall", 10**7, count=2), Job("allreduce", 10**7, gap_before_s=gap_s, count=2))
    workload = mix(AllowedChanges.BETWEEN, *jobs, repeat=2)
    found = select(fabric(delta), workload, options)
    dead = {"1us": Fraction(1, 10**6), "2ms": Fraction(1, 500), "100ms": Fraction(1, 10)}[delta]
    steps = [job for _ in range(2) for job in jobs for _ in range(2)]
    best = min(
        sum(time_of(options[at], job) for at, job in zip(held, steps, strict=True))
        + dead  # the first configuration, before which there is no gap
        + sum(
            max(dead - step.gap_before_s, 0)
            for last, now, step in zip(held, held[1:], steps[1:], strict=False)
            if last != now
        )
        for held in product(range(2), repeat=len(steps))
    )
    assert found.ranked[0].total_s == best
    kind = PlanKind.SINGLE if delta == "100ms" else PlanKind.SWITCHING
    assert found.ranked[0].kind is kind


def test_circuits_that_stay_are_not_paid_for(measured):
    """What a circuit adds counts only circuits of the slowest plane that come."""
    switch = {"profile": "polatis-384", "ports": 8, "delta": "0s", "delta_per_circuit": "1us"}
    small = fabric(planes=[{"count": 2, "switches": [switch]}])
    jobs = (Job("alltoall", 10**7), Job("allreduce", 10**7))
    found = select(small, mix(AllowedChanges.BETWEEN, *jobs), fakes(measured))
    winner = found.ranked[0]
    assert winner.kind is PlanKind.SWITCHING
    assert winner.times[0].reconfiguration_s == Fraction(8, 10**6)
    assert 0 < winner.times[1].reconfiguration_s <= Fraction(8, 10**6)


def test_phases_win_when_changes_are_quick(measured):
    jobs = (Job("alltoall", 2**26, count=2), Job("alltoall", 1000), Job("allreduce", 2**20))
    found = select(fabric(), mix(AllowedChanges.INSIDE, *jobs), measured)
    winner = found.ranked[0]
    assert winner.kind is PlanKind.PHASED
    assert found.inside is not None
    assert found.inside.can_gain
    single = next(plan for plan in found.ranked if plan.kind is PlanKind.SINGLE)
    assert winner.total_s < single.total_s
    phases = sorted(one.phase for one in winner.times if one.part == 0)
    assert phases == list(range(1, len(phases) + 1))
    assert len(phases) >= 2
    assert [one.phase for one in winner.times if one.part == 1] == [0]  # too small to change for
    t_b = sum(one.cost.t_b for one in winner.times if one.part == 0)
    assert t_b < min(option.alltoall.t_b for option in measured)
    changes = Fraction(1, 10**5)
    assert winner.reconfiguration_s == changes * (winner.num_changes + 1)


def test_a_bound_spares_the_search_inside(measured):
    found = select(fabric("1s"), mix(AllowedChanges.INSIDE, Job("alltoall", 2**20)), measured)
    assert found.inside is not None
    assert not found.inside.can_gain
    assert found.inside.sequences == ()
    assert {plan.kind for plan in found.ranked} == {PlanKind.SINGLE}


def test_what_does_not_fit_is_excluded_and_why(measured):
    both = recipe_options([parse("Circulant(8, (1,))")], WITHOUT_PARAMETERS)
    workload = mix(AllowedChanges.NONE, Job("allreduce", 1))
    found = select(fabric(profile="palomar-136"), workload, [*measured, *both])
    assert [plan.name for plan in found.ranked] == ["Circulant(8, (1,))"]
    assert {one.name for one in found.excluded} == set(NAMES)
    assert {one.reason for one in found.excluded} == {"a link has no reverse"}
    nothing = select(fabric(ports=4), workload, measured)
    assert nothing.ranked == ()
    assert len(nothing.excluded) == 3
    assert all(one.sentence for one in nothing.excluded)


def test_bad_options(measured):
    workload = mix(AllowedChanges.NONE, Job("alltoall", 1))
    with pytest.raises(ValueError, match="no design"):
        select(fabric(), workload, [])
    with pytest.raises(ValueError, match="has no topology"):
        select(fabric(), workload, [FabricOption("bare", alltoall=Cost(1, Fraction(1)))])
    with pytest.raises(ValueError, match="8 nodes: the fabric has 6 working hosts"):
        select(fabric(hosts=6), workload, measured)
    with pytest.raises(ValueError, match="no cost of alltoall"):
        select(fabric(), workload, [FabricOption("half", topology=measured[0].topology)])


def test_forests_serve_where_cuts_allow_more(monkeypatch):
    """Large allreduces take the time of forests, small ones that of the design's own schedule."""
    recipe = parse(
        "Lift(Cyclic(1), ((4, 5), (0, 2), (6, 7), (5, 6), (1, 3), (2, 4), (0, 7), (1, 3)))"
    )
    (option,) = recipe_options([recipe], [Collective.ALLREDUCE])
    for size in (2**10, 2**30):
        workload = mix(AllowedChanges.NONE, Job("allreduce", size))
        (plan,) = select(fabric(), workload, [option]).ranked
        (time,) = plan.times
        own = option.cost(Collective.ALLREDUCE)
        if size == 2**10:
            assert (time.cost, time.forest_parts) == (own, ())
            continue
        made = [
            build_forest(recipe.topology(), half, parts)
            for half, parts in zip(Collective.ALLREDUCE.halves(), time.forest_parts, strict=True)
        ]
        assert time.cost in {first + second for first in made[0] for second in made[1]}
        assert time.cost.t_b < own.t_b
        monkeypatch.setattr(forests, "MAX_FOREST_HOSTS", 7)
        (without,) = select(fabric(), workload, [option]).ranked
        assert without.times[0].cost == own
        assert without.total_s > plan.total_s


def build_forest(topology, half, parts):
    """What the schedules of the forest of the optimum and of one tree a host cost, replayed."""
    costs = []
    for trees in (None, 1):
        made = made_by("forest", Task(topology, half, trees=trees, parts=parts or 1))
        verdict = verify(made.schedule)
        assert verdict.ok
        costs.append(verdict.cost)
    return costs


def test_designs_for_messages_are_compared_on_circuits_that_are_in_place(measured):
    """A first change of circuits of a second would leave all designs alike."""
    found = select(fabric("1s"), Workload.of([Collective.ALLREDUCE], 2**20), measured)
    assert [plan.reconfiguration_s for plan in found.ranked] == [0] * len(measured)
    for plan in found.ranked:
        job = Job("allreduce", 2**20)
        assert plan.total_s <= time_of(plan.options[0], job)
    again = select(fabric("1s"), mix(AllowedChanges.NONE, Job("allreduce", 2**20)), measured)
    for one, other in zip(found.ranked, again.ranked, strict=True):
        assert other.total_s == one.total_s + 1
