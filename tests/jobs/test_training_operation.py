"""Months of a job: goodput against a drawn history, slow hosts, prices, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.files.job_cluster_files import parse_room
from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.training.constants import chip_named, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.operation import (
    Interruptions,
    RunningCosts,
    goodput,
    usd_a_million_tokens,
)
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.step import estimate_step

SMALL = Transformer(8, 4096, 32, 14336, 128256, 8192, 64, 8, gated=True, tied=False)
ROOM = Room(chip_named("h100"), 4, 8, 450e9, 50e9)
LLAMA = Transformer(126, 16384, 128, 53248, 128256, 8192, 2048, 8, gated=True, tied=False)
META = Interruptions(50677, 600.0, 2e12)
METHOD = Method(software_named("megatron"))


def step_of(room=ROOM, **more):
    return estimate_step(SMALL, Division(16, 2, zero=1, **more), room, METHOD)


def drawn_share(rate, useful_s, checkpoint_s, restart_s, segments):
    """Useful over all time, with interruptions drawn one after the other."""
    draws = np.random.default_rng(7)
    wall = 0.0
    for _ in range(segments):
        need = useful_s + checkpoint_s  # the first try starts without a restart
        while True:
            until = draws.exponential(1 / rate)
            if until >= need:
                wall += need
                break
            wall += until
            while (until := draws.exponential(1 / rate)) < restart_s:
                wall += until
            wall += restart_s
    return segments * useful_s / wall


@pytest.mark.parametrize("hours", [2.0, 8.0])
def test_goodput_is_that_of_a_drawn_history(hours):
    step = step_of()
    failures = Interruptions(hours, 40.0, 5e9, every_s=100.0)
    found = goodput(failures, step)
    rate = 32 / (hours * 3600)
    useful = found.checkpoint_every_s
    stored = 14 * step.model.num_parameters  # a weight in 2 bytes, it and two moments in 4
    assert found.checkpoint_s == pytest.approx(stored / 5e9)
    assert useful == pytest.approx(100.0, abs=step.seconds)
    drawn = drawn_share(rate, useful, found.checkpoint_s, 40.0, 4000)
    assert found.share == pytest.approx(drawn, rel=0.03)


def test_no_interval_of_checkpoints_is_better_than_the_one_chosen():
    step = step_of()
    for hours, storage in ((0.5, 1e9), (10.0, 1e10), (1e5, 1e11)):
        best = goodput(Interruptions(hours, 5.0, storage), step)
        for steps in range(1, 200):
            every_s = steps * step.seconds
            assert (
                goodput(Interruptions(hours, 5.0, storage, every_s=every_s), step).share
                <= best.share
            )


def test_llama_3_keeps_more_than_nine_tenths_of_its_time():
    """419 interruptions in 54 days, restarts of ten minutes: 90 % and more, as its report says."""
    room = Room(chip_named("h100"), 2048, 8, 450e9, 50e9, failures=META)
    step = estimate_step(LLAMA, Division(128, 8, 16, zero=1), room, METHOD)
    found = goodput(META, step)
    assert found.interruptions_a_day == pytest.approx(419 / 54, rel=1e-4)
    assert 0.9 < found.share < 0.95
    waits = META._replace(repair_s=86400.0)
    shares = [goodput(waits._replace(spares=spares), step).share for spares in (0, 4, 8, 16, 24)]
    assert shares == sorted(shares)
    assert shares[0] < 0.01
    assert shares[-1] == pytest.approx(found.share, rel=1e-4)


def test_slow_hosts_hold_up_every_step_and_are_named():
    even = step_of()
    slow = step_of(replace(ROOM, slow_speed=0.8))
    assert even.parts["stragglers"] == 0
    kernels = even.parts["forward"] + even.parts["backward"]
    assert slow.parts["stragglers"] == pytest.approx(0.25 * kernels)
    assert any("0.8 of the others' speed" in note for note in slow.notes)
    four = [
        estimate_step(SMALL, Division(4, 2, 4, zero=1), room, METHOD)
        for room in (ROOM, replace(ROOM, slow_speed=0.8))
    ]
    assert four[0].seconds < four[1].seconds < 1.25 * four[0].seconds


def test_prices_count_spares_and_idle_accelerators():
    costs = RunningCosts(2.0, 8766.0, 1.0)
    step = step_of(replace(ROOM, costs=costs))
    hour = 3600 * step.tokens_per_second_per_accelerator
    assert usd_a_million_tokens(costs, step, 1.0) == pytest.approx((2e6 / hour, 1e6 / hour))
    assert usd_a_million_tokens(costs, step, 0.5) == pytest.approx((4e6 / hour, 2e6 / hour))
    more = replace(ROOM, num_servers=7, failures=META._replace(spares=1))
    assert usd_a_million_tokens(costs, step_of(more), 1.0)[0] == pytest.approx(4e6 / hour)


CLUSTER = """
name: c
servers: {count: 6, accelerators: 8, scale_up: 450GB/s}
accelerator: {name: %s}
network: {bandwidth: 50GB/s}
failures: {accelerator_hours: 50000, restart: 300s, storage: %s, spares: %s}
slow: {speed: %s}
prices: {accelerator_hour: 2}
"""


def test_a_file_of_a_cluster_says_all_of_it(tmp_path, capsys):
    name, room = parse_room((CLUSTER % ("h100", "10GB/s", 2, 0.9)).encode(), "c.yaml")
    assert (name, room.num_servers, room.slow_speed) == ("c", 4, 0.9)
    assert room.failures == Interruptions(50000.0, 300.0, 1e10, spares=2)
    # One tier of packet switches: card, two transceivers, one port of 400 Gbit/s.
    (tmp_path / "c.yaml").write_text(CLUSTER % ("b200", "10GB/s", 2, 0.9))
    (tmp_path / "j.yaml").write_text(
        "name: j\nmodel: {kind: transformer, layers: 8, hidden: 4096, heads: 32, feed_forward: "
        "14336, vocabulary: 32000, sequence: 4096, batch: 32}\nparallel: {data: 32, zero: 3}\n"
    )
    words = ["iterate", str(tmp_path / "j.yaml"), str(tmp_path / "c.yaml")]
    assert main([*words, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["goodput"]["share"] < 1
    assert set(told["usd_a_million_tokens"]) == {"accelerators", "fabric"}
    assert told["parts"]["stragglers"] > 0
    assert told["fitted"] is False
    assert any("not fitted" in note for note in told["notes"])
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "goodput" in text
    assert "not fitted" in text


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (("h100", "0GB/s", 2, 0.9), "failures.storage: '0GB/s': a bandwidth must be positive"),
        (("h100", "1GB/s", 6, 0.9), "failures.spares is 6: there are 6 servers"),
        (("h100", "1GB/s", -1, 0.9), "failures.spares is -1"),
        (("h100", "1GB/s", 1, 0), "slow.speed is 0"),
        (("h100", "1GB/s", 1, 1.5), "slow.speed is 1.5"),
    ],
)
def test_clusters_that_cannot_be_are_refused_in_a_sentence(values, match):
    with pytest.raises(ValueError, match=match):
        parse_room((CLUSTER % values).encode(), "c.yaml")
