"""BFB schedules: integral, verified, and as good as the loads say."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from replay_oracle import is_valid, runs_correctly
from samples import loaded_topologies
from strategies import built, multigraphs, permutation_digraph, recipes, regular_multigraphs

from ocs_codesign.core.collective import GATHERING, Collective
from ocs_codesign.core.progress import heard_by
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.breadth_first.loads import bfb_loads, num_chunks_for
from ocs_codesign.verification.schedules import verify

module = importlib.import_module("ocs_codesign.schedules.breadth_first.assembly")


def check(topology: Topology, schedule: Schedule) -> None:
    """An allgather along shortest paths, with exactly the loads and fewest chunks."""
    loads = bfb_loads(topology)
    verdict = verify(schedule)
    assert verdict.ok
    assert verdict.max_loads == schedule.max_loads() == loads
    assert schedule.num_chunks == num_chunks_for(loads)
    assert schedule.topology is topology
    arrival = topology.distances()[schedule.root, topology.head[schedule.link]]
    assert (arrival == schedule.step).all()


@given(multigraphs())
def test_schedules_of_multigraphs(topology):
    schedule = bfb(topology)
    check(topology, schedule)
    assert is_valid(schedule)
    assert runs_correctly(schedule)


@given(regular_multigraphs())
def test_schedules_of_regular_multigraphs(topology):
    check(topology, bfb(topology))


@pytest.mark.parametrize("topology", loaded_topologies(), ids=repr)
@pytest.mark.parametrize("collective", GATHERING)
def test_all_collectives(topology, collective):
    schedule = bfb(topology, collective)
    assert schedule.collective == collective
    assert is_valid(schedule)
    assert runs_correctly(schedule)
    forth, back = bfb_loads(topology), bfb_loads(topology.transpose())[::-1]
    halves = {"allgather": forth, "reduce-scatter": back, "allreduce": back + forth}
    assert verify(schedule).max_loads == halves[collective.name]
    assert bfb(topology, collective.name) == schedule


@pytest.mark.slow
@given(recipes(max_nodes=100))
@settings(max_examples=150)
def test_few_sends(recipe):
    """Almost every shard comes over one link: a cut for each link and step at most."""
    topology = built(recipe)
    schedule = bfb(topology)
    check(topology, schedule)
    pairs = topology.num_nodes * (topology.num_nodes - 1)
    assert pairs <= schedule.num_sends <= pairs + schedule.num_steps * topology.num_links


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("GeneralizedKautz(4, 300)", 1.05),
        ("Line(Circulant(16, (3, 4)), 2)", 1.05),
        ("Power(DirectedCirculant(8, (1, 3)), 2)", 1.10),
    ],
)
def test_about_one_send_a_shard_and_receiver(text, most):
    topology = built(parse(text))
    sends = bfb(topology).num_sends
    assert sends <= most * topology.num_nodes * (topology.num_nodes - 1)


def test_large_irregular_multigraph():
    topology = permutation_digraph(200, 3, 11, chords=40)
    check(topology, bfb(topology))


def test_unequal_speeds_share_in_proportion():
    topology = Topology(3, [0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0], [1, 1, 1, 3, 3, 3])
    schedule = bfb(topology)
    check(topology, schedule)
    width = np.bincount(schedule.link, weights=schedule.hi - schedule.lo)
    assert (width[3:] == 3 * width[:3]).all()


def test_the_same_call_gives_the_same_bytes():
    topology = permutation_digraph(40, 4, 2)
    one, other = bfb(topology, "allreduce"), bfb(topology, "allreduce")
    assert one == other
    assert all(
        a.tobytes() == b.tobytes() for a, b in zip(one.columns(), other.columns(), strict=True)
    )


@pytest.mark.parametrize("collective", GATHERING)
def test_progress_grows_to_the_end(collective):
    heard: list[tuple[int, int]] = []
    with heard_by(lambda _, done, total: heard.append((done, total))):
        bfb(loaded_topologies()[3], collective)
    halves = 2 if collective == Collective.ALLREDUCE else 1
    assert heard == [(done, 12) for done in range(1, 13)] * halves


@pytest.mark.parametrize("collective", GATHERING)
def test_errors(collective, monkeypatch):
    with pytest.raises(ValueError, match="at least two nodes"):
        bfb(Topology(1, [0], [0]), collective)
    with pytest.raises(ValueError, match="not strongly connected"):
        bfb(Topology(3, [0, 1, 1], [1, 0, 2]), collective)
    monkeypatch.setattr(module, "MAX_SENDS", 8)
    with pytest.raises(ValueError, match="3 nodes has about 9 sends: at most 8 are built"):
        bfb(Topology(3, [0, 1, 2], [1, 2, 0]), collective)


def test_unknown_collective():
    with pytest.raises(ValueError, match="unknown collective 'broadcast'"):
        bfb(Topology(2, [0, 1], [1, 0]), "broadcast")
