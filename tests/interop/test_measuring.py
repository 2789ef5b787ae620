"""Machines measured between ranks: groups of near ones, numbers by class, real processes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.machines.machine import read_machine
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.run.measuring import LARGE_BYTES, Probes, groups_of, machine_of_probes


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


@pytest.mark.mpi
def test_ranks_of_this_machine(tmp_path, capsys):
    file = tmp_path / "here.json"
    assert main(["measure", "--ranks", "3", "--out", str(file), "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert np.shape(answer["latency_us"]) == (3, 3)
    machine = read_machine(file)
    assert machine.protocols == ("MPI",)
    assert machine.number("net_peak_GBps") > 0
    assert main(["compare", "star(3, 10)", "--bandwidth", "10GB/s", "--machine", str(file)]) == 0
