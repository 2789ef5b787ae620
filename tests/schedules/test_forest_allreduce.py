"""Allreduces by forests: known rates are built, both halves share the links, and replays agree."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from forest_samples import KNOWN, known_network

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.networks.builders import direct, mesh, star
from ocs_codesign.core.networks.products import h100_rail
from ocs_codesign.core.networks.servers import boxes
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.forest.building import forests_of
from ocs_codesign.schedules.forest.optimum import optimum
from ocs_codesign.schedules.forest.pipeline import (
    FORESTS_OF_HALVES,
    SHARED_FORESTS,
    Pipeline,
    allreduce_at_once,
    allreduce_bound,
    allreduce_optimum,
    allreduce_pipelines,
    partition_bound,
)
from ocs_codesign.schedules.registry import Task, made_by
from ocs_codesign.verification import forests as rules
from ocs_codesign.verification.forests import check_forests
from ocs_codesign.verification.schedules import verify

FAST = sorted(
    n for n, facts in KNOWN.items() if "allreduce_lp" in facts and facts["num_ranks"] < 17
)


def built(network, collective=Collective.ALLREDUCE, num_parts=2):
    """The forests of both halves at once, checked; their pipeline reaches the rate, verified."""
    sized, found = allreduce_at_once(network, collective)
    made = forests_of(found)
    assert check_forests(made, found.inv_rate) is None
    assert [forest.is_sum for forest in made[:2]] == [True, False] or collective.groups
    pipeline = Pipeline(made, sized)
    schedule = pipeline.schedule(num_parts)
    assert schedule.steady_state_t_b() <= found.t_b
    verdict = verify(schedule, pipeline.cost(num_parts))
    assert verdict.ok, verdict.witness
    return found, pipeline


@pytest.mark.parametrize("name", FAST)
def test_known_rates_are_built(name):
    found, pipeline = built(known_network(name))
    assert found.algbw == Fraction(KNOWN[name]["allreduce_lp"]["algbw"])
    assert found.is_attained
    heights = [forest.height for forest in pipeline.forests]
    assert pipeline.num_steps == sum(heights)


def test_partitions_prove_it_without_a_program():
    """Boxes, tori and hypercubes do no more than their halves in turn; meshes may."""
    known = {
        name: facts["allreduce_lp"] for name, facts in KNOWN.items() if "allreduce_lp" in facts
    }
    proven = set()
    for name, facts in known.items():
        bound, rate = partition_bound(known_network(name)), Fraction(facts["algbw"])
        assert bound >= rate
        if bound == rate:
            proven.add(name)
        assert partition_bound(known_network(name, able=True)) in (None, bound)
    assert proven >= {"a100-1", "a100-4", "mi250-2", "mi250-4", "torus-8x8", "hc-4", "rr-32-4-s2"}
    big = boxes(8, 8, 300, 25, outer=2)
    assert allreduce_optimum(big) == Fraction(800, 7)
    assert partition_bound(Network(1, 1, [], [], [])) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a100-4", "dgx2-2", "mi250-2", "torus-8x8"])
def test_larger_rates_are_built(name):
    found, _ = built(known_network(name), num_parts=1)
    assert found.algbw == Fraction(KNOWN[name]["allreduce_lp"]["algbw"])


def test_unequal_roots_where_equal_ones_do_less():
    """One-way ring of widths 3, 1, 4, 1, 5: 2/3, with equal shards 5/8."""
    ring = known_network("uniring-5-3-1-4-1-5")
    collective, found = allreduce_at_once(ring)
    assert (collective.sizes, found.algbw) == ((0, 1, 1, 1, 1), Fraction(2, 3))
    fixed = Collective("allreduce", sizes=(1, 1, 1, 1, 1))
    same, equal = allreduce_at_once(ring, fixed)
    assert (same, equal.algbw, equal.is_attained) == (fixed, Fraction(5, 8), True)
    # More on one root than a schedule could count is not worth having.
    assert max(collective.sizes) == 1


def test_sizes_and_groups_are_kept():
    box = boxes(2, 4, 60, 10, outer=2)
    sized = Collective("allreduce", sizes=(1, 2, 0, 3, 1, 1, 2, 2))
    groups = Collective("allreduce", groups=[(0, 1, 4, 5), (2, 3, 6, 7)])
    for collective in (sized, groups):
        found, pipeline = built(box, collective)
        assert pipeline.collective == collective
        halves = allreduce_pipelines(box, collective)[0][FORESTS_OF_HALVES]
        assert found.t_b <= halves.schedule(1).steady_state_t_b()
    with pytest.raises(ValueError, match="no two halves"):
        allreduce_at_once(box, Collective.ALLGATHER)
    with pytest.raises(ValueError, match="at least two hosts"):
        allreduce_optimum(Network(1, 1, [], [], []))


def test_parts_follow_each_other_without_waiting():
    """The next part is summed up while one is copied: one step more a part, at the full rate."""
    _, pipeline = built(mesh((4, 4), 1))
    costs = [pipeline.cost(parts) for parts in (1, 2, 64, 1024)]
    steps = [cost.steps for cost in costs]
    assert steps == [steps[0] + more for more in (0, 1, 63, 1023)]
    limit = Fraction(4) / Fraction(8, 5)
    assert costs[0].t_b > costs[1].t_b > costs[2].t_b > costs[3].t_b > limit
    assert costs[3].t_b < limit * Fraction(102, 100)
    halves = [replace(Task(mesh((4, 4), 1).topology(), half), parts=64) for half in
              Collective.ALLREDUCE.halves()]  # fmt: skip
    one, two = (made_by("forest", task).schedule for task in halves)
    assert one.then(two).synchronous_cost().t_b > limit * Fraction(3, 2)


def test_the_better_one_is_built_and_named():
    """A mesh shares its links, a hypercube's halves are as good, and so are few trees."""
    grid = mesh((4, 4), 1)
    task = Task(grid.topology(), Collective.ALLREDUCE)
    made = made_by("forest", task)
    assert (made.maker, made.bound) == (SHARED_FORESTS, Fraction(5, 2))
    cost = verify(made.schedule).cost
    assert made.bound < cost.t_b < made.bound * Fraction(11, 10)
    box = known_network("hc-3")
    made = made_by("forest", Task(box.topology(), Collective.ALLREDUCE, network=box))
    assert (made.maker, made.bound) == (FORESTS_OF_HALVES, Fraction(7, 4))
    few = made_by("forest", replace(task, trees=1, parts=1))
    assert (few.maker, few.bound) == (FORESTS_OF_HALVES, Fraction(5, 2))
    assert verify(few.schedule).ok
    uneven = star(4, [10, 10, 10, 1])
    made = made_by("forest", Task(uneven.topology(), Collective.ALLREDUCE, network=uneven))
    # Links out are idle where links in are full: even forests of halves reach it when they overlap.
    assert (made.maker, made.bound) == (FORESTS_OF_HALVES, Fraction(10))
    assert made.schedule.steady_state_t_b() == 10


def test_links_that_both_halves_overload_are_found():
    """Each half alone is right, but together they are more than a link can carry."""
    _, found = allreduce_at_once(mesh((2, 3), 1))
    made = forests_of(found)
    assert check_forests(made, found.inv_rate) is None
    assert check_forests(made, found.inv_rate * Fraction(999, 1000)).rule == rules.OVERLOADED
    assert check_forests([*made, made[1]], found.inv_rate).rule == rules.OVERLOADED
    broken = replace(made[1], multiplicity=made[1].multiplicity + 1)
    assert check_forests([made[0], broken], found.inv_rate).rule == rules.NOT_WHOLE


def test_a_copy_before_its_sum_is_found():
    """The replay knows that a root copies out what was summed up, and no earlier."""
    _, pipeline = built(mesh((2, 2), 1))
    schedule = pipeline.schedule(2)
    early = np.where(schedule.phase == 1, 1, schedule.step)
    columns = (schedule.item, schedule.lo, schedule.hi, schedule.link, early, schedule.phase)
    wrong = type(schedule)(schedule.topology, schedule.collective, schedule.num_chunks, *columns)
    assert "does not hold this chunk" in verify(wrong).witness.rule


@pytest.mark.parametrize("text", ["DirectedCirculant(5, (1, 2))", "UniRing(1, 5)"])
def test_hosts_of_other_groups_pass_a_sum_once(text):
    network = direct(parse(text), 1)
    collective = Collective("allreduce", groups=((0, 2), (4, 1, 3)))
    task = Task(network.topology(), collective)
    assert verify(made_by("forest", task).schedule).ok
    _, found = allreduce_at_once(network, collective)
    shared = forests_of(found, None)
    twice = any(forest.is_sum and forest.passes_twice() for forest in shared)
    assert twice == (not verify(Pipeline(shared, collective).schedule(1)).ok)


TWO_PAIRS = Network(4, 4, [0, 1, 2, 3, 1, 2], [1, 0, 3, 2, 2, 1], [100] * 4 + [10] * 2, unit="GB/s")
ONE_WAY_IN = Network(3, 3, [0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2], [9, 9, 9, 1, 9, 1])


@pytest.mark.parametrize(
    ("network", "rate"),
    [
        (TWO_PAIRS, 10),
        (star(4, [10, 10, 10, 1]), 1),
        (ONE_WAY_IN, Fraction(19, 2)),
        (h100_rail(2), None),
    ],
)
def test_bounds_of_allreduces_hold_and_are_the_optimum_where_it_is_known(network, rate):
    halves = [optimum(network, half) for half in Collective.ALLREDUCE.halves()]
    bound, best = allreduce_bound(network, halves), allreduce_optimum(network)
    assert bound >= best
    assert rate in (None, bound)
    if rate is None:
        assert bound == best


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_allreduces_of_random_networks(seed):
    """Unequal links of hosts alone, some one way, are never bound below what forests reach."""
    draw = np.random.default_rng(seed)
    hosts = int(draw.integers(3, 7))
    ring = np.arange(hosts)
    more = draw.integers(0, hosts, (2, hosts))
    ends = np.column_stack([[ring, (ring + 1) % hosts], more[:, more[0] != more[1]]])
    network = Network(hosts, hosts, *ends, draw.integers(1, 9, ends.shape[1]))
    halves = [optimum(network, half) for half in Collective.ALLREDUCE.halves()]
    assert allreduce_bound(network, halves) >= allreduce_optimum(network)
