"""The contract of the SCHEDULERS dict: any maker of schedules, on any topology, verified."""

from __future__ import annotations

import pytest
from replay_oracle import is_valid, runs_correctly
from samples import loaded_topologies

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import GATHERING
from ocs_codesign.schedulers.bfb.assembly import bfb
from ocs_codesign.schedulers.registry import SCHEDULERS
from ocs_codesign.topology import Topology
from ocs_codesign.verification.schedules import verify

every_scheduler = pytest.mark.parametrize("name", sorted(SCHEDULERS))
every_collective = pytest.mark.parametrize("collective", GATHERING)


def test_bfb_is_one_of_them():
    assert SCHEDULERS["bfb"] is bfb
    assert all(scheduler.__doc__ for scheduler in SCHEDULERS.values())


@every_scheduler
@every_collective
@pytest.mark.parametrize("topology", loaded_topologies(), ids=repr)
def test_schedules_are_valid(name, collective, topology):
    schedule = SCHEDULERS[name](topology, collective)
    assert schedule.topology == topology
    assert schedule.collective == collective
    verdict = verify(schedule)
    assert verdict.ok
    assert is_valid(schedule)
    assert runs_correctly(schedule)
    least = topology_bound(topology, collective)
    assert verdict.cost.steps >= least.steps
    assert verdict.cost.t_b >= least.t_b


@every_scheduler
@every_collective
def test_the_same_call_gives_the_same_schedule(name, collective):
    topology = loaded_topologies()[-1]
    one, other = (SCHEDULERS[name](topology, collective) for _ in range(2))
    assert one == other


@every_scheduler
@every_collective
def test_impossible_topologies_are_refused(name, collective):
    for topology in (Topology(1, [], []), Topology(3, [0, 1, 1], [1, 0, 2])):
        with pytest.raises(ValueError, match=r"."):
            SCHEDULERS[name](topology, collective)
