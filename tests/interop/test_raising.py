"""Raising: a program back to a schedule, which the replay verifies and costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_samples import COLLECTIVES, DESIGNS, NETWORKS, classic, plan, switched
from program_by_hand import puts_round_the_ring
from strategies import recipes

from ocs_codesign.core.collective import CUSTOM, WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.demand import COPY, Demand
from ocs_codesign.core.plans import COLUMNS, RankProgram
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.lowering.raising import raised
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.verification.rank_programs import check_program
from ocs_codesign.verification.schedules import verify


def without_steps(program: RankProgram) -> RankProgram:
    """As most formats give it back."""
    named = program.demands[0] if program.collective.name == CUSTOM else program.collective
    columns = {name: getattr(program, name) for name in COLUMNS if name != "step"}
    return RankProgram(
        *(named, program.num_ranks, program.chunks_per_unit, program.in_place, program.scratch),
        *(columns, program.need_start, program.need),
    )


def sent(schedule: Schedule):
    """How often what goes from where to where, whatever the numbers of links."""
    topology, unit = schedule.topology, schedule.chunks_per_unit
    rows = []
    for item, lo, hi, link, step, *phase in zip(*schedule.columns(), strict=True):
        ends = int(topology.tail[link]), int(topology.head[link])
        chunks = range(int(lo), int(hi))
        rows += [(int(step), *ends, int(item), c / unit, *map(int, phase)) for c in chunks]
    return sorted(rows)


def check_raised(schedule, in_place=False):
    """It is the same schedule, but for links that nothing crosses and the order of links."""
    program = lower(schedule, in_place=in_place)
    again = raised(program)
    assert verify(again).ok
    assert sent(again) == sent(schedule)
    early = raised(without_steps(program))
    assert verify(early).ok
    assert early.num_steps <= schedule.num_steps
    assert check_program(lower(early, in_place=in_place)).ok


@pytest.mark.parametrize("design", DESIGNS[:4] + DESIGNS[5:9] + DESIGNS[12:14] + DESIGNS[-3:])
def test_designs(design):
    for collective in WITHOUT_PARAMETERS:
        check_raised(plan(design, collective))
        if collective.name != "alltoall":
            check_raised(plan(design, collective), in_place=True)


@pytest.mark.parametrize("collective", WITHOUT_PARAMETERS, ids=lambda collective: collective.text)
def test_many_chunks_are_raised_in_cells(collective):
    for design in ("UniRing(2, 3)", "DirectedCirculant(5, (1, 2))"):
        schedule = plan(design, collective)
        check_raised(schedule.with_chunks(24 * schedule.num_chunks))


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda collective: collective.text)
def test_collectives_with_roots_sizes_and_groups(collective):
    check_raised(plan("UniRing(1, 5)", collective, "greedy"))


@settings(max_examples=10)
@given(recipes(12), st.sampled_from(WITHOUT_PARAMETERS[:3]), st.booleans())
def test_any_recipe(recipe, collective, in_place):
    check_raised(bfb(recipe.topology(), collective), in_place)


def test_the_cost_is_that_of_the_schedule():
    for design in ("Torus((3, 3))", "Kautz(2, 2)", "UniRing(2, 3)"):
        schedule = plan(design, Collective.ALLREDUCE)
        again = raised(lower(schedule))
        assert again.synchronous_cost() == schedule.synchronous_cost()


def test_switches_are_gone():
    schedule = switched("able tree", Collective.ALLREDUCE, "greedy")
    again = raised(lower(schedule))
    assert again.topology.num_nodes == again.num_hosts == NETWORKS["able tree"].num_hosts
    assert verify(again).ok


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "double-binary-tree", "swing", "bruck"])
@pytest.mark.parametrize("ranks", [4, 5, 8])
def test_classic_algorithms(name, ranks):
    """In an allreduce of a vector the shards are as large as what is summed up at each rank."""
    messages = classic(name, "allreduce", ranks)
    program = lower(messages)
    schedule = raised(program)
    assert verify(schedule).ok
    assert schedule.num_steps == messages.num_steps
    assert raised(without_steps(program)).num_steps <= messages.num_steps


def test_puts_are_sends_of_steps():
    schedule = raised(puts_round_the_ring(5))
    assert verify(schedule).ok
    assert (schedule.num_steps, schedule.topology.num_links) == (4, 5)


def test_steps_that_break_what_is_needed_are_not_taken():
    program = lower(plan("UniRing(1, 4)", Collective.ALLGATHER), in_place=True)
    columns = {name: getattr(program, name) for name in COLUMNS}
    columns["step"] = np.ones(program.num_operations, dtype=int)
    at_once = RankProgram(
        *(program.collective, 4, 1, True, program.scratch, columns),
        *(program.need_start, program.need),
    )
    assert raised(at_once).num_steps == 3


def test_a_demand_without_a_name():
    pair = Topology(2, [0, 1], [1, 0])
    demand = Demand(2, [COPY], [0], [0, 1], [2], [0], [0, 1], [1], 2)
    schedule = Schedule(pair, demand, 2, [0, 0], [0, 1], [1, 2], [0, 0], [1, 2])
    again = raised(lower(schedule))
    assert again.demands == (demand,)
    assert sent(again) == sent(schedule)


def test_what_is_no_schedule():
    twice = lower(classic("recursive-doubling-full", "allreduce", 4))
    with pytest.raises(ValueError, match="what this program sends is no schedule: row 0, step 1"):
        raised(twice)
    with pytest.raises(ValueError, match="whole at several ranks of themselves"):
        raised(lower(classic("recursive-doubling-full", "allreduce", 6)))
    ring = lower(plan("UniRing(1, 4)", Collective.ALLGATHER), in_place=True)
    columns = {name: getattr(ring, name).copy() for name in COLUMNS}
    columns["target"][1] = 0
    wrong = RankProgram(
        *(ring.collective, 4, 1, True, ring.scratch, columns), *(ring.need_start, ring.need)
    )
    with pytest.raises(ValueError, match="only a program that is right can be raised: rank 0"):
        raised(wrong)


def test_sums_that_come_together_elsewhere_give_shards_their_sizes():
    """Two ranks sum up everything at rank 1: its shard is all, and the other's is none."""
    pair = Topology(2, [0, 1], [1, 0])
    sizes = replace(Collective.ALLREDUCE, sizes=(0, 2))
    columns = [1, 1], [0, 0], [2, 2], [0, 1], [1, 2]
    at_one = Schedule(pair, sizes, 2, *columns, [0, 1])
    assert verify(at_one).ok
    program = lower(at_one)
    columns = {name: getattr(program, name) for name in COLUMNS}
    equal = RankProgram(
        *(Collective.ALLREDUCE, 2, 1, False, program.scratch, columns),
        *(program.need_start, program.need),
    )
    assert check_program(equal).ok
    assert raised(equal).collective == sizes
