"""The experiment with Pallas: known bits, what it compares, and what it says without JAX."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
import schedules_as_remote_dma as experiment
from folders import ROOT
from runtime_samples import bits, threaded

from ocs_codesign.interop.runtimes.traffic import traffic_of

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=11")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

SCRIPT = ROOT / "experiments" / "schedules_as_remote_dma.py"
TOPOLOGIES = [
    pytest.param(name, marks=[pytest.mark.long] * (name == experiment.DAMAGED))
    for name in experiment.TOPOLOGIES
]


@pytest.mark.runtimes
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_remote_dmas_have_the_bits_of_an_engine_of_threads(topology):
    usual = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--topology", topology],
        env={**usual, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["collective"] for row in rows] == list(experiment.COLLECTIVES)
    for row in rows:
        assert (row["topology"], row["races"], row["bits"]) == (topology, "False", "equal")
        traffic = traffic_of(experiment.scheduled(topology, row["collective"]))
        assert int(row["messages"]) == len(traffic.step)
        given = experiment.drawn(traffic, "float32")
        item = traffic.chunks_per_unit * experiment.WIDTH
        assert row["sha256_16"] == bits(threaded(traffic, item, [each.ravel() for each in given]))
        if row["collective"] == "allgather":
            assert row["sha256_16"] == sha256(8 * given.tobytes()).hexdigest()[:16]


@pytest.mark.runtimes
def test_sums_in_another_order_are_noticed(monkeypatch):
    """A rank of a Kautz digraph gets parts of a sum from two others in a step."""
    usual = experiment.tables_for

    def turned(traffic):
        tables, counts = usual(traffic)
        columns = (tables.comes, tables.adds, tables.copies)
        first = 0
        for _, messages in counts:
            part = slice(first, first + messages)
            for column in columns:
                column[:, part] = column[:, part][:, ::-1].copy()
            first += messages
        return tables, counts

    monkeypatch.setattr(experiment, "tables_for", turned)
    monkeypatch.setattr(experiment, "COLLECTIVES", ("reduce-scatter",))
    (row,) = experiment.rows_of(["GeneralizedKautz(2, 8)"])
    assert (row["races"], row["bits"]) == (False, "differ")


def test_the_damaged_torus_lacks_a_cable_both_ways():
    whole = experiment.parse("Torus((2, 4))").topology()
    torn = experiment.scheduled(experiment.DAMAGED, "allgather").topology

    def links(topology):
        return np.sort(topology.tail * 8 + topology.head).tolist()

    left = links(whole)
    left.remove(1)
    left.remove(8)
    assert links(torn) == left


def test_without_jax_it_says_what_to_install():
    code = (
        "import importlib.util, runpy, sys; importlib.util.find_spec = lambda *_: None;"
        f"sys.argv = ['x']; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "Error: jax is missing: pip install 'ocs-codesign[jax]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
