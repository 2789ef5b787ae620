"""Machines measured between ranks: groups of near ones, numbers by class, real processes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from click import Context
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.machines.machine import read_machine
from ocs_codesign.faces.cli import app, main
from ocs_codesign.interop.run.measuring import (
    LARGE_BYTES,
    Probes,
    groups_of,
    machine_of_probes,
    probe,
)
from ocs_codesign.interop.runtimes import starting
from ocs_codesign.interop.runtimes.registry import RUNTIMES


def probes_of_groups(group, noise, seed=1):
    """Pings of 1 us inside of groups and 10 us between, at 50 and 10 GB/s."""
    random = np.random.default_rng(seed)
    near = np.equal.outer(group, group)[:, :, None]
    ranks, size = len(group), (len(group), len(group), 20)
    jitter = random.uniform(1, 1 + noise, size)
    small = np.where(near, 1e-6, 1e-5) * jitter
    large = LARGE_BYTES / np.where(near, 50e9, 10e9) * jitter
    return Probes(small, large, np.full((ranks, 20), 1e-7), "a library")


@given(st.lists(st.integers(0, 3), min_size=3, max_size=12), st.floats(0, 0.3))
def test_groups_are_found_from_latencies(labels, noise):
    group = np.array(labels)
    probes = probes_of_groups(group, noise)
    found = groups_of(probes.latency_s)
    pairs = np.triu_indices(len(group), 1)
    same = (group[pairs[0]] == group[pairs[1]]).tolist()
    if len(set(same)) > 1:
        assert np.equal.outer(found, found)[pairs].tolist() == same
    else:
        assert set(found.tolist()) == {0}
    machine = machine_of_probes(probes)
    assert machine.classes == (("inside", "net") if len(set(same)) > 1 else ("net",))
    assert machine.number("overhead_us") == pytest.approx(0.1)
    if not all(same):
        slow = 10e0 if len(set(same)) > 1 or not any(same) else 1.0
        assert machine.number("net_latency_us") == pytest.approx(slow - 0.2, rel=0.4)
        assert machine.number("net_peak_GBps") == pytest.approx(10, rel=0.3)


def test_ranks_that_are_not_measured(capsys):
    assert main(["measure", "--ranks", "1"]) == 2
    assert "--ranks" in capsys.readouterr().err


def test_who_starts_ranks(capsys, monkeypatch):
    (on,) = (
        each for each in app.get_command(Context(app), "measure").params if each.name == "runtime"
    )
    measured = [name for name, each in RUNTIMES.items() if each.measured is not None]
    assert list(on.type.choices) == measured  # help imports no runtime
    for runtime, variables in (
        ("mpi", ("PMI_SIZE",)),
        ("torch", ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")),
    ):
        assert main(["measure", "--on", runtime]) == 2
        assert "give --ranks, the ranks to start, or start this with " in capsys.readouterr().err
        for name in variables:
            monkeypatch.setenv(name, "1")
        assert main(["measure", "--on", runtime, "--ranks", "2"]) == 2
        assert "has started this one" in capsys.readouterr().err
        for name in variables:
            monkeypatch.delenv(name)


def test_a_library_that_is_missing_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setattr(starting, "find_spec", {}.get)
    assert main(["measure", "--on", "torch", "--ranks", "2"]) == 2
    told = capsys.readouterr().err
    assert told == "Error: torch is missing: pip install 'ocs-codesign[torch]'\n"


class ThreadPings:
    """Ranks that are threads: a message waits in a queue."""

    protocol, library = "threads", "queues"

    def __init__(self, rank, size, queues, barrier, gathered):
        self.rank, self.size, self.queues = rank, size, queues
        self.barrier, self.gathered = barrier, gathered

    def room(self, num_bytes):
        return bytearray(num_bytes)

    def start(self, data, peer):
        self.queues[self.rank, peer].put(len(data))
        return SimpleNamespace(wait=lambda: None)

    def send(self, data, peer):
        self.start(data, peer)

    def receive(self, data, peer):
        assert self.queues[peer, self.rank].get(timeout=20) == len(data)

    def meet(self):
        self.barrier.wait(20)

    def largest(self, values):
        self.gathered[self.rank] = values
        self.meet()
        found = np.max([self.gathered[rank] for rank in range(self.size)], axis=0)
        self.meet()
        return found


def test_all_pairs_are_measured_on_any_wire():
    ranks, gathered = 3, {}
    queues = {(one, other): Queue() for one in range(ranks) for other in range(ranks)}
    barrier = Barrier(ranks)
    with ThreadPoolExecutor(ranks) as pool:
        wires = [ThreadPings(rank, ranks, queues, barrier, gathered) for rank in range(ranks)]
        found = list(pool.map(probe, wires))
    first = found[0]
    assert all((each.small == first.small).all() for each in found)
    apart = ~np.eye(ranks, dtype=bool)
    for pings in (first.small, first.large):
        assert (pings[apart] > 0).all()
        assert (pings == pings.transpose(1, 0, 2)).all()
    assert (first.sends > 0).all()
    assert machine_of_probes(first).protocols == ("threads",)
    with pytest.raises(ValueError, match="1 ranks: all pairs of 2 to 64 are measured"):
        probe(ThreadPings(0, 1, {}, None, {}))


@pytest.mark.parametrize(
    ("runtime", "protocol"),
    [
        pytest.param("mpi", "MPI", marks=pytest.mark.mpi),
        pytest.param("torch", "gloo", marks=pytest.mark.runtimes),
    ],
)
def test_ranks_of_this_machine(runtime, protocol, tmp_path, capsys):
    file = tmp_path / "here.json"
    words = ["measure", "--on", runtime, "--ranks", "3", "--out", str(file), "--json", "-"]
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert np.shape(answer["latency_us"]) == (3, 3)
    machine = read_machine(file)
    assert machine.protocols == (protocol,)
    assert machine.number("net_peak_GBps") > 0
    assert main(["compare", "star(3, 10)", "--bandwidth", "10GB/s", "--machine", str(file)]) == 0
