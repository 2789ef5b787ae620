"""Schedule: columns, order, what it refuses, and the ways to make another of it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import loaded_topologies
from strategies import built, multigraphs, recipes

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.verification.schedules import verify

RING = Topology(3, [0, 1, 2], [1, 2, 0])
GATHER = ([0, 1, 2, 0, 1, 2], [0] * 6, [2] * 6, [0, 1, 2, 1, 2, 0], [1, 1, 1, 2, 2, 2])


def ring(collective: Collective = Collective.ALLGATHER) -> Schedule:
    return Schedule(RING, collective, 2, *GATHER)


def test_sizes_and_text():
    schedule = ring()
    assert (schedule.num_sends, schedule.num_steps, schedule.num_chunks) == (6, 2, 2)
    text = "Schedule(allgather, 6 sends in 2 steps, 2 chunks a shard, "
    assert repr(schedule) == text + "Topology(3 nodes, 3 links, degree 1))"
    assert schedule.max_loads() == (Fraction(1), Fraction(1))


def test_columns_are_sorted_stably_by_step_and_link():
    columns = np.array(
        [(2, 0, 1, 1, 2), (0, 0, 2, 2, 1), (1, 0, 1, 0, 2), (2, 1, 2, 0, 2), (1, 0, 2, 0, 1)]
    ).T
    schedule = Schedule(RING, Collective.ALLGATHER, 2, *columns)
    assert schedule.step.tolist() == [1, 1, 2, 2, 2]
    assert schedule.link.tolist() == [0, 2, 0, 0, 1]
    assert schedule.root.tolist() == [1, 0, 1, 2, 2]
    assert schedule.lo.tolist() == [0, 0, 0, 1, 0]


def test_columns_are_int32_copies_and_read_only():
    step = np.array(GATHER[4])
    schedule = Schedule(RING, Collective.ALLGATHER, 2, *GATHER[:4], step)
    step[:] = 7
    assert schedule.step.tolist() == GATHER[4]
    for column in schedule.columns():
        assert column.dtype == np.int32
        assert not column.flags.writeable
    with pytest.raises(AttributeError):
        schedule.num_chunks = 4


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        (0, 3, "send 5: item is 3, but items are 0 to 2"),
        (1, 2, "send 5: lo is 2, but lo must be below hi"),
        (2, 3, "send 5: hi is 3, but item 2 has 2 chunks"),
        (2, 0, "send 5: lo is 0, but lo must be below hi"),
        (3, 3, "send 5: link is 3, but links are 0 to 2"),
        (4, 0, "send 5: step is 0, but steps count from 1"),
        (4, 2**24 + 1, "step is 16777217, but a schedule has at most 16777216 steps"),
        (0, -1, "column item must hold integers from 0"),
        (4, 2**31, "column step must hold integers from 0 to 2.31 - 1"),
        (3, 0.5, "column link must be a one-dimensional array of integers"),
        (3, "a", "column link must be a one-dimensional array of integers"),
    ],
)
def test_bad_values(place, value, rule):
    columns = [list(column) for column in GATHER]
    columns[place][-1] = value
    with pytest.raises(ValueError, match=rule):
        Schedule(RING, Collective.ALLGATHER, 2, *columns)


@pytest.mark.parametrize("chunks", [0, -1, 2**31, 1.5])
def test_bad_number_of_chunks(chunks):
    with pytest.raises(ValueError, match="num_chunks"):
        Schedule(RING, Collective.ALLGATHER, chunks, *[[]] * 5)


def test_bad_columns():
    with pytest.raises(ValueError, match="equally long"):
        Schedule(RING, Collective.ALLGATHER, 2, *GATHER[:4], GATHER[4][:-1])
    with pytest.raises(ValueError, match="one-dimensional"):
        Schedule(RING, Collective.ALLGATHER, 2, *([column] for column in GATHER))
    with pytest.raises(ValueError, match="phases are 0 and 1"):
        Schedule(RING, Collective.ALLREDUCE, 2, *GATHER, [0, 0, 0, 1, 1, 2])


@pytest.mark.parametrize("collective", GATHERING)
def test_only_an_allreduce_has_phases(collective):
    phases = () if collective == Collective.ALLREDUCE else ([0] * 6,)
    with pytest.raises(ValueError, match="an allreduce, and only an allreduce, has a phase"):
        Schedule(RING, collective, 2, *GATHER, *phases)


def test_equality():
    assert ring() == ring()
    assert ring() != ring(Collective.REDUCE_SCATTER)
    assert ring() != ring().with_chunks(4)
    assert ring() != "schedule"
    shuffled = [np.array(column)[[5, 3, 1, 0, 2, 4]] for column in GATHER]
    assert Schedule(RING, Collective.ALLGATHER, 2, *shuffled) == ring()
    with pytest.raises(TypeError):
        hash(ring())


def test_reversed_of_a_ring():
    scatter = ring().reversed()
    assert scatter.collective == Collective.REDUCE_SCATTER
    assert scatter.topology == RING.transpose()
    assert scatter.step.tolist() == [1, 1, 1, 2, 2, 2]
    assert scatter.root.tolist() == [2, 0, 1, 0, 1, 2]
    assert verify(scatter).ok


@given(multigraphs())
def test_reversing_twice(topology):
    for collective in GATHERING:
        schedule = bfb(topology, collective)
        back = schedule.reversed()
        assert back.reversed() == schedule
        assert verify(back).ok
        assert back.max_loads() == schedule.max_loads()[::-1]


def test_reversing_keeps_idle_steps():
    sends = [*GATHER[:4], [2 * step + 1 for step in GATHER[4]]]
    schedule = Schedule(RING, Collective.ALLGATHER, 2, *sends)
    assert schedule.reversed().max_loads() == (1, 0, 1)
    assert schedule.reversed().num_steps == 3
    assert Schedule(RING, Collective.ALLGATHER, 1, *[[]] * 5).reversed().num_sends == 0


@given(multigraphs())
def test_then_makes_an_allreduce(topology):
    scatter, gather = bfb(topology, "reduce-scatter"), bfb(topology)
    both = scatter.then(gather)
    assert both == bfb(topology, "allreduce")
    assert verify(both).ok
    assert both.max_loads() == scatter.max_loads() + gather.max_loads()
    assert both.num_chunks == np.lcm(scatter.num_chunks, gather.num_chunks)
    assert (both.phase == (both.step > scatter.num_steps)).all()


def test_then_refuses():
    scatter = ring(Collective.REDUCE_SCATTER)
    for first, second in ((ring(), ring()), (ring(), scatter), (scatter, scatter)):
        with pytest.raises(ValueError, match="a reduce-scatter and then an allgather"):
            first.then(second)
    other = Schedule(RING.transpose(), Collective.ALLGATHER, 2, *GATHER)
    with pytest.raises(ValueError, match="on the same topology"):
        scatter.then(other)


@given(multigraphs(), st.integers(1, 7))
def test_with_chunks(topology, factor):
    schedule = bfb(topology, "allreduce")
    finer = schedule.with_chunks(schedule.num_chunks * factor)
    assert finer.max_loads() == schedule.max_loads()
    assert verify(finer).ok
    assert finer.num_sends == schedule.num_sends


@pytest.mark.parametrize("chunks", [0, 1, 3, -2])
def test_with_chunks_refuses(chunks):
    with pytest.raises(ValueError, match="is not a multiple of 2 chunks"):
        ring().with_chunks(chunks)


def test_with_more_chunks_than_can_be_counted():
    with pytest.raises(ValueError, match=r"num_chunks|2\^31"):
        ring().with_chunks(2**32)


@given(st.data())
def test_on_links_of(data):
    topology = data.draw(multigraphs())
    order = np.array(data.draw(st.permutations(range(topology.num_links))))
    shuffled = Topology(
        topology.num_nodes, topology.tail[order], topology.head[order], topology.speeds()[order]
    )
    moved = bfb(topology).on_links_of(shuffled)
    assert moved.topology == shuffled
    assert verify(moved).ok
    assert moved.max_loads() == bfb(topology).max_loads()
    back = moved.on_links_of(topology)
    assert (np.sort(back.root) == np.sort(moved.root)).all()
    assert back.on_links_of(topology) == back


@pytest.mark.parametrize(
    "other",
    [
        RING.transpose(),
        Topology(3, [0, 1, 2, 0], [1, 2, 0, 1]),
        Topology(4, [0, 1, 2], [1, 2, 0]),
        Topology(3, [0, 1, 2], [1, 2, 0], [1, 1, 2]),
        Topology(3, [0, 1, 2], [1, 2, 1]),
    ],
)
def test_on_links_of_another_graph(other):
    with pytest.raises(ValueError, match="do not have the same links"):
        ring().on_links_of(other)


@pytest.mark.parametrize("topology", loaded_topologies(), ids=repr)
def test_max_loads_are_those_of_the_replay(topology):
    for collective in GATHERING:
        schedule = bfb(topology, collective)
        assert schedule.max_loads() == verify(schedule).max_loads


@given(recipes(max_nodes=60))
@settings(max_examples=100)
def test_mapped_schedules_reverse_twice(recipe):
    schedule = recipe.expansion_schedule("allreduce")
    assert schedule.topology == built(recipe)
    assert schedule.reversed().reversed() == schedule
    assert verify(schedule.reversed()).ok
