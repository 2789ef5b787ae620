"""Machines as data, NCCL's model to the digit it prints, and curves through measured times."""

from __future__ import annotations

import json

import numpy as np
import pytest
from folders import DATA
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.machines.autoparallel import autoparallel_us
from ocs_codesign.core.machines.curves import (
    BANDS,
    by_band,
    fitted_law,
    intervals,
    left_out,
    table_us,
)
from ocs_codesign.core.machines.machine import (
    KINDS,
    machine_named,
    machine_of_accelerator,
    machine_text,
    machines,
    read_machine,
)
from ocs_codesign.core.machines.nccl import terms
from ocs_codesign.faces.cli import main

KNOWN = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
SMALL, _, LARGE = BANDS


def machine_of_graph(graph):
    return machine_named(graph.split("_")[0])


def test_nccl_expects_what_it_logs():
    """Latencies and rates of every algorithm and protocol, and none besides."""
    for graph, version, collective, ranks, nodes, wanted in KNOWN["nccl_terms"]:
        shape = machine_of_graph(graph).shape(ranks, nodes, with_nic=False)
        found = {"/".join(way): term for way, term in terms(shape, collective, version).items()}
        assert found.keys() == wanted.keys()
        for way, (latency, rate) in wanted.items():
            assert found[way] == (pytest.approx(latency, abs=6e-4), pytest.approx(rate, abs=6e-4))


def test_nccl_takes_what_it_logs():
    for graph, version, collective, ranks, nodes, size, time_us, *way in KNOWN["nccl_choice"]:
        machine = machine_of_graph(graph)
        (found,) = machine.library(collective, ranks, nodes, [size], version)
        assert found.seconds * 1e6 == pytest.approx(time_us, rel=1e-6, abs=6e-4)
        assert [found.algorithm, found.protocol] == way


def test_the_other_model_everywhere():
    for *case, size, time_us in KNOWN["fitted_model_grid"]:
        assert autoparallel_us(*case, size) == pytest.approx(time_us, rel=1e-5)


def test_every_number_has_its_source(tmp_path):
    assert len(machines()) >= 11
    for name, machine in machines().items():
        assert all(one.source and one.kind in KINDS for one in machine.numbers.values())
        file = tmp_path / f"{name}.json"
        file.write_text(machine_text(machine), encoding="utf-8")
        assert read_machine(file) == machine
        assert (machine.numbers["nic_us"].kind == "assumed") == ("uncalibrated" in machine.caveat)
    assert machine_of_accelerator("NVIDIA H200").name == "dgx-h100"
    assert machine_of_accelerator("Made Up GPU") is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"graphs": 1}, "graphs is 1: it is a map"),
        ({"curves": True}, "curves is True: it is a list"),
        ({"numbers": []}, "an object with texts and numbers"),
        ({"colour": "green"}, "'colour' is nothing that a machine has"),
        ({"protocols": ["one"]}, "launch_us has 3 values: there are 1 protocols"),
        ({"curves": [{"collective": "allreduce"}]}, "a curve has a collective"),
        ({"graphs": {"one_node": {"ring": [1, 0, 2]}}}, "ring has not channels and two rates"),
        ({"launch_us": {"value": "x"}}, "launch_us: a number is {value, source, kind}"),
        ({"nic_us": {"value": -1, "source": "me", "kind": "measured"}}, "nic_us: a value is -1"),
        ({"nic_us": {"value": 1, "source": "me", "kind": "felt"}}, "kind is 'felt'"),
    ],
)
def test_files_of_no_machine(change, sentence, tmp_path, capsys):
    record = machine_named("h100").record()
    for key, value in change.items():
        record["numbers" if key.endswith("_us") else key] = (
            {**record["numbers"], key: value} if key.endswith("_us") else value
        )
    file = tmp_path / "m.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    asked = ["library-time", "--machine", str(file), "--ranks", "8", "--message", "1KiB"]
    assert main(asked) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("h1000 8 1 1KiB", "did you mean h100"),
        ("mi300x 8 1 1KiB", "calibrate a log of it"),
        ("h100 12 5 1KiB", "every node has as many"),
        ("h100 16 1 1KiB", "has at most 8"),
        ("h100 8 1 0", "it has at least one"),
    ],
)
def test_library_time_refuses(asked, sentence, capsys):
    machine, ranks, nodes, size = asked.split()
    line = f"library-time --machine {machine} --ranks {ranks} --nodes {nodes} --message {size}"
    assert main(line.split()) == 2
    assert sentence in capsys.readouterr().err


def test_library_time_prints_rows(capsys):
    line = "library-time --machine h100 --ranks 16 --nodes 2 --message 1024,64MiB --nccl 2.27"
    assert main([*line.split(), "--json", "-"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["message_bytes"], row["algorithm"], row["protocol"]) for row in rows] == [
        (1024, "tree", "LL"),
        (2**26, "nvls_tree", "Simple"),
    ]
    assert rows[0]["seconds"] == pytest.approx(25.26864e-6, rel=1e-6)
    assert main([*line.replace("2.27", "autoparallel").split()]) == 0


def test_fits_as_published():
    for case in KNOWN["fits"]:
        law = fitted_law(case["rows"])
        wanted, truth = case["fitted"], case["truth"]
        assert law.latency_us == pytest.approx(wanted["L_us"], rel=3e-4)
        assert law.bandwidth_GBps == pytest.approx(wanted["B_GBps"], rel=8e-4)
        assert law.latency_us == pytest.approx(truth["L_us"], rel=0.06)
        assert law.bandwidth_GBps == pytest.approx(truth["B_GBps"], rel=0.03)


def made_up(seed, noise, outlier):
    """Sixteen laws as in a log of a cluster, and what one would measure."""
    random = np.random.default_rng(seed)
    truth = random.uniform(10, 130), random.uniform(0.004, 0.03), random.uniform(30, 480)
    size = 2.0 ** np.arange(10, 33)
    time = truth[0] + truth[1] * np.sqrt(size) + size / 1000 / truth[2]
    time *= 1 + noise * random.standard_normal(len(size))
    if outlier:
        time[random.integers(3, 18)] *= 1.6
    return truth, [(int(a), float(b)) for a, b in zip(size, time, strict=True)]


@pytest.mark.parametrize(
    ("noise", "outlier", "latency", "rate"), [(0.01, False, 0.02, 0.02), (0.01, True, 0.03, 0.03)]
)
def test_fits_find_what_was_made_up(noise, outlier, latency, rate):
    for seed in range(16):
        truth, points = made_up(seed, noise, outlier)
        law = fitted_law(points)
        assert law.latency_us == pytest.approx(truth[0], rel=latency)
        assert law.bandwidth_GBps == pytest.approx(truth[2], rel=rate)


def test_fits_under_much_noise():
    errors = []
    for seed in range(16):
        truth, points = made_up(seed, 0.05, outlier=False)
        law = fitted_law(points)
        errors.append((abs(law.bandwidth_GBps / truth[2] - 1), abs(law.root / truth[1] - 1)))
    rate, root = np.array(errors).T
    assert np.percentile(rate, 90) <= 0.09
    assert np.median(root) <= 0.3


def test_intervals_cover():
    covered = 0
    for seed in range(16):
        truth, points = made_up(seed, 0.03, outlier=False)
        limits = intervals(points, fitted_law(points), draws=200).values()
        covered += sum(
            low <= value <= high for value, (low, high) in zip(truth, limits, strict=True)
        )
    assert covered >= 43


def test_public_logs_with_sizes_left_out():
    """Every second row of the logs is here: with all of them curves do better."""
    errors = [
        error for log in KNOWN["logs"] if len(log["rows"]) >= 14 for error in left_out(log["rows"])
    ]
    found = by_band(errors)
    assert (found[SMALL]["median"], found[LARGE]["median"]) <= (0.03, 0.03)
    assert found[SMALL]["p90"] <= 0.17
    assert found[LARGE]["median"] <= 0.03
    assert found[LARGE]["p90"] <= 0.13


@given(st.dictionaries(st.integers(1, 2**40), st.floats(0.1, 1e9), min_size=2, max_size=30))
def test_curves_never_fall(points):
    sizes = np.geomspace(1, 2**42, 50)
    found = table_us(list(points.items()), sizes)
    assert (np.diff(found) >= -1e-9 * found[1:]).all()
    assert (found > 0).all()
