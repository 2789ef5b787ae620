"""Errors of a machine's clock, and choices that nothing but them decides."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from folders import DATA
from hypothesis import given
from hypothesis import strategies as st

from ocs_codesign.core.cost import Cost, CostModel
from ocs_codesign.core.machines.intervals import (
    BANDS,
    FASTER,
    MODEL_ERRORS,
    SCHEDULE_ERROR,
    SLOWER,
    TIE,
    curve_errors,
    model_errors,
    schedule_errors,
    tuned,
    verdict,
    widened,
)
from ocs_codesign.core.machines.machine import Number, machine_named, machine_of
from ocs_codesign.core.machines.nccl import terms
from ocs_codesign.interop import calibrating
from ocs_codesign.interop.logs import BenchmarkRun

KNOWN = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
H100 = machine_named("h100")
TIMES = st.floats(1e-6, 1.0)


def run_of(name):
    case = next(case for case in KNOWN["logs"] if case["id"] == name)
    rows = tuple((int(size), time) for size, time in case["rows"])
    return BenchmarkRun(name, case["collective"], case["ranks"], case["nodes"], rows)


@given(TIMES, TIMES, st.floats(0, 0.8), st.floats(0, 0.8))
def test_a_rival_is_faster_only_outside_both_intervals(mine, theirs, error, their_error):
    """Whatever is measured within both intervals, the verdict holds; in a tie it need not."""
    rival, incumbent = widened(mine, mine, error), widened(theirs, theirs, their_error)
    found = verdict(rival, incumbent)
    assert verdict(incumbent, rival) == {FASTER: SLOWER, SLOWER: FASTER, TIE: TIE}[found]
    overlap = max(rival[0], incumbent[0]) <= min(rival[1], incumbent[1])
    assert (found == TIE) == overlap
    assert rival[0] <= mine <= rival[1]
    if found == FASTER:
        assert mine < theirs


def test_errors_are_those_of_public_logs(monkeypatch):
    """What is stated covers the logs here, of which every second row is known."""
    monkeypatch.setattr(calibrating, "intervals", lambda *_args, **_options: {})
    errors = {}
    for case in KNOWN["logs"]:
        kind = {"h100": "h100", "a100": "a100", "b200": "b200"}.get(case["id"].split("_")[0])
        if kind is not None and case["collective"] != "alltoall":
            machine = calibrating.calibrated([run_of(case["id"])], machine_named(kind)).machine
            for band, error in model_errors(machine).items():
                errors.setdefault(band, []).append(error)
    for band in BANDS:
        assert sum(each <= MODEL_ERRORS[band] + 0.07 for each in errors[band]) >= 9
        assert max(errors[band]) > SCHEDULE_ERROR


def test_a_log_of_its_own_narrows_intervals():
    machine = calibrating.calibrated([run_of("h100_16_tcpxo")], H100).machine
    small, _, large = BANDS
    assert model_errors(machine)[small] < 0.2 < MODEL_ERRORS[small]
    assert schedule_errors(machine)[small] == SCHEDULE_ERROR
    assert curve_errors(machine.curves[0])[large] < 0.1
    (time,) = machine.clocked_library("allreduce", 16, 2, [1024], "2.30")
    low, high = machine.library_interval("allreduce", 16, 2, time, "2.30")
    assert low < time.seconds < high < 1.15 * low * 1.15
    (assumed,) = H100.clocked_library("allreduce", 16, 2, [1024], "2.30")
    low, high = H100.library_interval("allreduce", 16, 2, assumed, "2.30")
    assert low < time.seconds < high  # what is assumed allows for this fabric


def test_nccl_is_told_otherwise_only_beyond_doubt():
    """At its own latency of NICs nothing is; where they take milliseconds one hop less is."""
    sizes = [2**power for power in range(8, 31)]
    assert set(tuned(H100, "allreduce", 64, 8, sizes)) == {""}
    a100 = machine_named("a100")
    slow = replace(a100, numbers={**a100.numbers, "nic_us": Number(5000.0, "made up", "assumed")})
    told = dict(zip(sizes, tuned(slow, "allreduce", 64, 8, sizes), strict=True))
    assert {size: way for size, way in told.items() if way} == {2**30: "tree LL128"}
    assert tuned(machine_named("mi300x"), "allreduce", 16, 2, [64]) == ("",)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_steps_of_a_ring_take_what_nccl_says(ranks):
    """The cost model of a machine is its clock for what has one message a step."""
    model = H100.cost_model(Fraction(450 * 10**9), 1, "inside")
    cost = Cost(2 * (ranks - 1), Fraction(2 * (ranks - 1), ranks))
    offered = terms(H100.shape(ranks, 1, with_nic=False), "allreduce", "2.27")
    for size in (2**10, 2**20, 2**30):
        least = min(
            offered["ring", protocol][0] + size / 1000 / offered["ring", protocol][1]
            for protocol in H100.protocols
        )
        assert float(cost.time_s(model, size)) * 1e6 == pytest.approx(least, rel=1e-6)


@given(st.integers(0, 60), st.fractions(0, 4, max_denominator=50), st.integers(0, 2**31))
def test_a_cost_model_takes_the_fastest_protocol(steps, t_b, size):
    model = H100.cost_model(Fraction(50 * 10**9), 3)
    parts = [each.parts_s(steps, t_b, size) for each in model.protocols]
    assert model.time_s(steps, t_b, size) == min(map(sum, parts))
    assert len(model.protocols) == 3
    # The share that bounds of transfers take is below that of every protocol.
    bytes_s = model.parts_s(steps, t_b, size)[1]
    assert bytes_s * H100.least_of_rates <= min(each[1] for each in parts)
    assert model.faster(2).time_s(0, t_b, size) == model.time_s(0, t_b, size) / 2
    assert CostModel(1, 2).time_s(steps, t_b, size) == steps + t_b * size / 2


@pytest.mark.parametrize("interval", ["x", [1], [3, 1], [1, 2, 3], 7])
def test_intervals_of_files_are_pairs(interval):
    record = H100.record()
    nic = {**record["numbers"]["nic_us"], "interval": interval}
    record["numbers"] = {**record["numbers"], "nic_us": nic}
    record.pop("machine")
    with pytest.raises(ValueError, match="nic_us: an interval is two numbers, from and to"):
        machine_of("m", record)
