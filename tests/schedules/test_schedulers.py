"""The contract of the SCHEDULERS dict: any maker of schedules, on any topology, verified."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from replay_oracle import is_valid, runs_correctly
from samples import loaded_topologies

from ocs_codesign import verify
from ocs_codesign.core.bounds import topology_bound
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.compute import kernels
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import app, main
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.schedules.breadth_first.assembly import bfb
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.registry import SCHEDULERS, Made, Scheduler, Task, made_by
from ocs_codesign.verification.rank_programs import check_program

LARGE = 12
"""Nodes of a topology from which on exact schedules are not solved here."""


def check_contract(name: str) -> None:
    """What every scheduler must do, on every topology and every collective that it makes."""
    scheduler = SCHEDULERS[name]
    assert scheduler.description
    for collective in WITHOUT_PARAMETERS:
        if not scheduler.can_make(collective):
            with pytest.raises(ValueError, match=f"scheduler {name} makes"):
                made_by(name, Task(loaded_topologies()[0], collective))
            continue
        for topology in loaded_topologies():
            if scheduler.limit_s is None or topology.num_nodes < LARGE:
                _check_schedule(name, topology, collective)
        for impossible in (Topology(1, [], []), Topology(3, [0, 1, 1], [1, 0, 2])):
            with pytest.raises(ValueError, match=r"."):
                made_by(name, Task(impossible, collective))


def _check_schedule(name: str, topology: Topology, collective: Collective) -> None:
    made, again = (made_by(name, Task(topology, collective)) for _ in range(2))
    assert made.schedule is not None
    assert made.schedule == again.schedule
    assert made.schedule.topology == topology
    # An allreduce says nothing of its shards: a maker may choose their sizes.
    shards = made.schedule.collective.sizes if collective == Collective.ALLREDUCE else None
    assert made.schedule.collective == replace(collective, sizes=shards)
    verdict = verify(made.schedule)
    assert verdict.ok
    assert is_valid(made.schedule)
    assert runs_correctly(made.schedule)
    assert check_program(lower(made.schedule), fifo_depth=2).ok
    least = topology_bound(topology, collective)
    assert verdict.cost.steps >= least.steps
    # An allreduce that copies while it sums up is not bound by what its halves take in turn.
    in_turn = collective != Collective.ALLREDUCE or not made.maker.startswith("forests that share")
    assert verdict.cost.t_b >= max(least.t_b if in_turn else 0, made.bound or 0)


ON_ANY_GRAPH = [n for n, s in SCHEDULERS.items() if not (s.needs_recipe or s.is_classic)]


@pytest.mark.parametrize("name", sorted(ON_ANY_GRAPH))
def test_the_contract(name):
    check_contract(name)


@pytest.mark.parametrize("name", sorted(n for n, s in SCHEDULERS.items() if s.is_classic))
def test_classic_algorithms_make_a_right_schedule_or_say_why_not(name):
    """On a complete graph every message crosses one link; elsewhere it is as the topology is."""
    made, refusals = 0, []
    for topology in [*loaded_topologies(), parse("Complete(4)").topology()]:
        for collective in [c for c in WITHOUT_PARAMETERS if SCHEDULERS[name].can_make(c)]:
            try:
                made_by(name, Task(topology, collective))
            except ValueError as refusal:
                refusals.append(str(refusal))
                continue
            _check_schedule(name, topology, collective)
            made += 1
    assert all(re.search(r"no link|twice|equal numbers|takes", text) for text in refusals)
    whole_vector = ("recursive-doubling-full", "swing-full", "parameter-server")
    trees = [n for n, entry in CLASSIC.items() if "broadcast" in entry.makers]
    assert made or name in (*whole_vector, *trees)


@pytest.mark.parametrize("name", sorted(n for n, s in SCHEDULERS.items() if s.needs_recipe))
def test_recipes_are_needed(name):
    with pytest.raises(ValueError, match="needs a recipe"):
        made_by(name, Task(loaded_topologies()[0], Collective.ALLGATHER))


def test_an_unknown_scheduler():
    with pytest.raises(ValueError, match="scheduler is 'best effort': it must be one of bfb, "):
        build(parse("Complete(3)"), schedule="best effort")


def test_a_new_entry_works_everywhere(monkeypatch, tmp_path):
    def twice_as_long(task: Task) -> Made:
        """BFB with an empty step before every step."""
        made = bfb(task.topology, task.collective)
        columns = [made.item, made.lo, made.hi, made.link, 2 * made.step]
        slow = type(made)(made.topology, made.collective, made.num_chunks, *columns)
        return Made(slow, "toy")

    monkeypatch.setitem(SCHEDULERS, "toy", Scheduler("a toy", twice_as_long))
    check_contract("toy")
    assert build(parse("Kautz(2, 1)"), "allreduce", "toy").cost.steps == 8
    assert "toy" in CliRunner().invoke(app, ["build", "--help"]).output
    command = ["build", "Kautz(2, 1)", "--scheduler", "toy", "--out", str(tmp_path / "design")]
    assert main(command) == 0
    assert main(["verify", str(tmp_path / "design")]) == 0


def test_limits_are_heeded_or_refused(capsys, tmp_path):
    kautz = Task(parse("Kautz(2, 1)").topology(), Collective.ALLGATHER, steps=3, chunks=2)
    assert str(made_by("exact", kautz).bound) == "5/6"
    assert made_by("exact", replace(kautz, steps=1)).schedule is None
    assert main(["build", "Kautz(2, 1)", "--max-chunks", "3", "--out", str(tmp_path / "d")]) == 2
    assert "--max-chunks is for --collective alltoall" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bfb", "stepped"])
def test_loops_make_the_same_as_written_and_compiled(name, monkeypatch):
    topology = parse("GeneralizedKautz(3, 13)").topology()
    collective = Collective.ALLGATHER if name == "bfb" else Collective.ALLTOALL
    assert SCHEDULERS[name].can_make(collective)
    made = []
    for little in (10**9, 0):
        monkeypatch.setattr(kernels, "LITTLE_WORK", little)
        made.append(made_by(name, Task(topology, collective)).schedule)
    assert made[0] == made[1]
