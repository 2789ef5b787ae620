"""Logs of benchmarks in all layouts, what is refused of them, and the machines they make."""

from __future__ import annotations

import json
import random

import pytest
from folders import DATA

from ocs_codesign.core.machines.machine import machine_named, read_machine
from ocs_codesign.core.machines.nccl import library_times
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.calibrating import calibrated
from ocs_codesign.interop.hops import hops_of, hops_of_run
from ocs_codesign.interop.logs import LEAST_BYTES, BenchmarkRun, factor, parse_log

KNOWN = json.loads((DATA / "calibration.json").read_text(encoding="utf-8"))
OF_NCCL = [case for case in KNOWN["parsing"] if case["format"] == "nccl-tests"]
ONE = next(case for case in OF_NCCL if case["layout"] == "plain")
HEAD = ONE["text"].splitlines()[:18]


def row(size, time, bus, *, wrong="0"):
    return f"{size} {size // 4} float sum -1 {time} 0.00 {bus} {wrong}"


def log(*rows):
    return "\n".join([*HEAD, *rows])


@pytest.mark.parametrize("case", OF_NCCL, ids=lambda case: case["layout"])
@pytest.mark.parametrize("names_ranks", [True, False])
def test_layouts_of_nccl_tests(case, names_ranks):
    """The ranks are told from rates where the list of devices is cut."""
    lines = case["text"].splitlines()
    text = "\n".join(line for line in lines if names_ranks or "Rank" not in line)
    runs = parse_log(text, "a log")
    if "runs" in case:
        assert [len(run.rows) for run in runs] == case["runs"]
        return
    (run,) = runs
    assert (run.collective, run.ranks) == (case["collective"], case["ranks"])
    assert [list(each) for each in run.rows] == case["rows"]
    assert run.accelerator == ("Made Up GPU" if names_ranks else "")


def test_json_of_nccl_tests():
    sides = [
        {"time": time, "alg_bw": 0.1, "bus_bw": 1.75 * 1.024 / 12, "nwrong": 0.0}
        for time in (12.0,)
    ]
    record = {
        **{"version": 3, "args": ["./build/all_reduce_perf", "-b", "1K"], "nccl_version": 22705},
        "config": {"devices": [{"rank": 7, "hostname": "h0", "device_info": "NVIDIA H100"}]},
        "results": [{"size": 1024, "out_of_place": sides[0], "in_place": None}],
    }
    (run,) = parse_log(json.dumps(record), "a log")
    assert (run.collective, run.ranks, run.nodes, run.library) == ("allreduce", 8, 1, "2.27.5")
    assert run.rows == ((1024, 12.0),)


def test_other_programs():
    for case in KNOWN["parsing"]:
        if case["format"] == "nccl-tests":
            continue
        ranks = 8 if case["format"] == "osu" else None
        (run,) = parse_log(case["text"], "a log", ranks=ranks)
        answer = case["answer"]
        if isinstance(answer, list):
            rows = [(one["bytes"], one["time_us"]) for one in answer[0]["rows"] if one["bytes"]]
            assert (run.ranks, list(run.rows)) == (answer[0]["ranks"], rows)
        elif answer.get("kind") == "bw":
            ((size, time),) = run.rows
            assert size / time / 1000 == pytest.approx(answer["rows"][0]["GB/s"])
        else:
            rows = [(one["bytes"], one.get("value", one.get("time_us"))) for one in answer["rows"]]
            assert list(run.rows) == rows


def test_blocks_are_whole_buffers_to_us():
    text = "# OSU MPI Allgather Latency Test v7.3\n# Size  Avg Latency(us)\n1024 10.0\n2048 11.0\n"
    (run,) = parse_log(text, "a log", ranks=4)
    assert run.rows == ((4096, 10.0), (8192, 11.0))
    table = "| Size | busbw (GB/s) | algbw |\n|---|---|---|\n| 1 GiB | 175.0 | 100.0 |\n"
    ((size, time),) = parse_log(table, "a log", "allreduce", 8)[0].rows
    assert (size, time) == (2**30, pytest.approx(2**30 / 1e5, rel=1e-3))


@pytest.mark.parametrize(
    ("text", "asked", "sentence"),
    [
        *((case["text"], [], case["our_sentence"]) for case in KNOWN["refused"][1:]),
        ("", [], "no row of a benchmark"),
        (log(row(2**20, "20.0", "98.30", wrong="3")), [], "#wrong is 3"),
        (log(row(2**20, "0.00", "98.30")), [], "a time is not positive"),
        (log(row(32, "20.0", "0.00")), [], "no row of at least 64 bytes"),
        (ONE["text"], ["--collective", "allgather"], "it is of allreduce, and allgather"),
        (ONE["text"], ["--ranks", "8"], "it is of 16 ranks, and 8 are asked for"),
        (log(row(2**20, "20.0", "98.30")), [], "one size only, without a machine"),
        ("# OSU MPI Allreduce Latency Test\n8 1.0\n", [], "--ranks does"),
        (row(2**20, "20.0", "98.30"), [], "--collective does"),
        (row(2**20, "20.0", "98.30"), ["--collective", "reduce"], "--ranks says them"),
        (row(2**10, "20.0", "0.10"), ["--collective", "allreduce"], "cannot be told"),
        (log(row(8, "20.0", "98.30").replace("8", "²", 1)), [], "no row of"),
        ('{"results": 3}', [], "no list of results"),
    ],
)
def test_refusals(text, asked, sentence, tmp_path, capsys):
    file = tmp_path / "run.log"
    file.write_text(text, encoding="utf-8")
    assert main(["calibrate", str(file), *asked]) == 2
    err = capsys.readouterr().err
    assert sentence.removeprefix("no row of nccl-tests in it") in err
    assert err.count("\n") == 1


def test_a_machine_of_a_log(tmp_path, capsys, monkeypatch):
    """One floor places the fabric, and the file is what other commands take."""
    monkeypatch.chdir(tmp_path)
    assert main(["example", "."]) == 0
    capsys.readouterr()
    assert main(["calibrate", "nccl.log", "--out", "m.json", "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["collective"], answer["ranks"], answer["nodes"]) == ("allreduce", 16, 2)
    assert answer["busbw_GBps"] == pytest.approx(338.8, abs=0.1)
    assert answer["net_hop_us"] == pytest.approx(54, abs=0.6)
    low, high = answer["intervals"]["latency_us"]
    assert low <= answer["latency_us"] <= high
    assert {"median", "p90"} <= answer["left_out"]["from 16 MiB"].keys()
    machine = read_machine(tmp_path / "m.json")
    assert machine.number("nic_us") == pytest.approx(49, abs=0.6)
    assert not machine.caveat
    asked = "library-time --machine m.json --ranks 16 --nodes 2 --message 1KiB --json -"
    assert main(asked.split()) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["seconds"] == pytest.approx(125e-6, rel=0.02)


def runs_of_logs():
    for case in KNOWN["logs"]:
        rows = tuple((int(size), time) for size, time in case["rows"])
        yield (
            case["id"],
            BenchmarkRun(case["id"], case["collective"], case["ranks"], case["nodes"], rows),
        )


def test_one_floor_places_a_fabric():
    """Errors of NCCL's model to 64 KiB with the latency of NICs from one floor of the log."""
    errors = {}
    for name, run in runs_of_logs():
        if run.nodes == 2 and run.ranks == 16 and name.startswith(("h100", "b200", "a100_16")):
            (fit,) = calibrated([run], machine_named(name.split("_")[0])).fits
            if fit.model is not None:
                errors[name] = fit.model["median"]
    assert len(errors) >= 4
    assert max(errors.values()) <= 0.15


def test_few_sizes_take_the_prior():
    machine = machine_named("b200")
    full = dict(runs_of_logs())["b200_16_ar"]
    for number, method in ((1, "scaled"), (3, "line"), (5, "law"), (12, "table")):
        run = BenchmarkRun("log", "allreduce", 16, 2, full.rows[:number])
        (fit,) = calibrated([run], machine).fits
        assert fit.method == method
        assert fit.curve.us([full.rows[0][0]])[0] == pytest.approx(full.rows[0][1], rel=0.1)


@pytest.mark.parametrize(("ranks", "nodes"), [(4, 1), (8, 1), (12, 1), (16, 2), (64, 8)])
def test_runs_that_do_not_name_their_hosts_fill_them(ranks, nodes):
    run = BenchmarkRun("log", "allreduce", ranks, 0, dict(runs_of_logs())["b200_16_ar"].rows)
    (fit,) = calibrated([run], machine_named("b200")).fits
    assert fit.run.nodes == nodes
    (fit,) = calibrated([run], machine_named("b200"), nodes=3).fits
    assert fit.run.nodes == 3


def mutated(text, draw):
    """The log after a few accidents: characters, cells, lines changed, lost or doubled."""
    for _ in range(draw.randint(1, 4)):
        lines = text.split("\n")
        at = draw.randrange(len(lines))
        way = draw.randrange(5)
        if way == 0:
            place = draw.randrange(len(text) + 1)
            text = text[:place] + draw.choice("0123456789.-eENA|#{}[]: \n\0é") + text[place + 1 :]
            continue
        if way == 1:
            cells = lines[at].split(" ")
            cells[draw.randrange(len(cells))] = draw.choice(
                ["0", "-1", "nan", "inf", "1e400", "9" * 30, "N/A", "", "float", "0.0"]
            )
            lines[at] = " ".join(cells)
        elif way == 2:
            del lines[at]
        elif way == 3:
            lines.insert(draw.randrange(len(lines)), lines[at])
        else:
            lines = lines[: at + 1]
        text = "\n".join(lines)
    return text


def check_mutated(number, seed):
    """No log ends in anything but rows that keep the identity or a sentence."""
    draw = random.Random(seed)
    texts = [case["text"] for case in KNOWN["parsing"]]
    for _ in range(number):
        text = mutated(draw.choice(texts), draw)
        try:
            runs = parse_log(text, "a log", ranks=draw.choice([None, 8]))
        except ValueError:
            continue
        for run in runs:
            assert all(time > 0 for _, time in run.rows)
            if "busbw" in text and run.collective in ("allreduce", "alltoall"):
                assert all(size >= LEAST_BYTES for size, _ in run.rows)
            printed = {
                float(cell)
                for line in text.split("\n")
                for cell in line.split()
                if cell[:1].isdigit() and cell.replace(".", "", 1).isdigit()
            }
            if "Rank" in text:
                for size, time in run.rows:
                    bus = factor(run.collective, run.ranks) * size / time / 1000
                    assert min(abs(bus - cell) for cell in printed) <= 0.03 * bus + 0.02


def test_mutated_logs():
    check_mutated(300, 1)


@pytest.mark.slow
def test_ten_thousand_mutated_logs():
    check_mutated(10_000, 2)


@pytest.mark.parametrize(
    ("name", "kind", "without", "placed"),
    [
        ("b200_16_ar", "b200", -0.37, -0.01),
        ("h100_16_efa", "h100", -0.68, -0.19),
        ("h100_16_tcpxo", "h100", -0.81, -0.09),
        ("a100_16_efa", "a100", -0.86, -0.11),
    ],
)
def test_errors_of_nccls_model_as_published(name, kind, without, placed):
    """Mean errors to 64 KiB before and after one floor; half of the rows moves them by 5 points."""
    run = dict(runs_of_logs())[name]
    machine = calibrated([run], machine_named(kind)).machine
    rows = [row for row in run.rows if row[0] <= 2**16]
    for with_nic, published in ((False, without), (True, placed)):
        shape = machine.shape(run.ranks, run.nodes, with_nic=with_nic)
        told = library_times(shape, run.collective, [size for size, _ in rows])
        pairs = zip(told, rows, strict=True)
        error = sum(1e6 * time.seconds / us - 1 for time, (_, us) in pairs) / len(rows)
        assert error == pytest.approx(published, abs=0.05)


@pytest.mark.parametrize(
    ("kind", "floor", "hop"),
    [
        ("a100", 35.85, 10.4),
        ("b200", 39.96, 12.5),
        ("h200", 43.5, 14.3),
        ("h100", 65.0, 25.0),
        ("h100", 122.7, 53.9),
        ("mi300x", 218.8, 102.6),  # published 102, with the hop inside of another machine
    ],
)
def test_one_number_places_a_fabric(kind, floor, hop):
    """The hops between nodes that were published of six fabrics, each from its floor."""
    rows = ((1024, floor), (2048, floor))
    (fit,) = calibrated([BenchmarkRun("floor", "allreduce", 16, 2, rows)], machine_named(kind)).fits
    assert fit.net_hop_us == pytest.approx(hop, abs=0.06)


def test_a_log_left_out_is_told_by_the_other_logs():
    """Latencies carry over between collectives: within 15 % of small sizes, none looked at."""
    runs = dict(runs_of_logs())
    found = calibrated([runs["b200_16_ar"], runs["b200_16_rs"]], machine_named("b200"))
    errors = {fit.run.collective: fit.others["median"] for fit in found.fits}
    assert errors == {
        "allreduce": pytest.approx(0.08, abs=0.01),
        "reduce-scatter": pytest.approx(0.14, abs=0.01),
    }
    assert max(errors.values()) <= 0.15


def made_up_run(collective, nodes, ranks, truth, noise, seed):
    """A log of small sizes of a machine whose launch, hops and rate are known."""
    draw = random.Random(seed)
    (launch, inside, between), rows = truth, []
    hops = hops_of_run(BenchmarkRun("", collective, ranks, nodes, ()))
    for power in range(8, 17):
        us = launch + inside * hops[0] + between * hops[1]
        us += factor(collective, ranks) * 2**power / 1000 / 40
        rows.append((2**power, us * (1 + draw.gauss(0, noise))))
    return BenchmarkRun(f"{collective} of {ranks}", collective, ranks, nodes, tuple(rows))


SHAPES = [(1, 2), (1, 4), (1, 8), (2, 16), (4, 32), (8, 64)]


@pytest.mark.parametrize("collectives", [("allreduce",), ("allgather", "reduce-scatter")])
def test_several_numbers_of_ranks_tell_launch_and_hops(collectives):
    covered = 0
    for seed in range(8):
        truth = 6.0 + seed, 0.5 + seed / 8, 8.0 + 6 * seed
        runs = [
            made_up_run(collective, nodes, ranks, truth, 0.01, 100 * seed + at)
            for at, (nodes, ranks) in enumerate(SHAPES)
            for collective in collectives
        ]
        found = hops_of(runs, 6.6)
        assert not found.is_launch_given
        for value, known, close in zip(found[:3], truth, (0.05, 0.12, 0.03), strict=True):
            assert value == pytest.approx(known, rel=close)
        limits = found.intervals.values()
        covered += sum(
            low <= known <= high for known, (low, high) in zip(truth, limits, strict=True)
        )
    assert covered >= 19  # of 24 values, at 95 %


def test_what_ranks_do_not_tell_is_said():
    runs = dict(runs_of_logs())
    pair = [runs["h100_8_ar"], runs["h100_16_tcpxo"]]
    found = calibrated(pair, machine_named("h100"))
    assert found.hops.is_launch_given
    assert found.hops.inside_hop_us == pytest.approx(0.68, abs=0.01)  # NCCL's tables: 0.6
    assert found.hops.net_hop_us == pytest.approx(54, abs=0.3)
    assert found.not_identified[0].startswith("launch: hops grow alike in these logs")
    numbers = found.machine.numbers
    assert numbers["inside_latency_us"].each[0] == pytest.approx(0.38, abs=0.01)
    assert numbers["inside_latency_us"].each[1:] == (1.3, 2.4)
    assert numbers["library_nic_us"].each[0] == pytest.approx(49, abs=0.3)
    low, high = numbers["nic_us"].interval
    assert low <= numbers["nic_us"].each[0] <= high
    assert hops_of([runs["h100_8_ar"]], 6.6) is None
    assert hops_of([runs["b200_16_ar"], runs["b200_16_rs"]], 6.6) is None
    on_a_node = [made_up_run("allreduce", 1, ranks, (7, 1, 0), 0, 1) for ranks in (2, 4)]
    alone = calibrated(on_a_node, machine_named("h100"))
    assert alone.hops[:3] == (pytest.approx(7), pytest.approx(1), None)
    assert "net_hop_us: the ranks of these logs do not tell it" in alone.not_identified
    assert alone.machine.number("launch_us") == pytest.approx(7)
    rails = calibrated(pair, machine_named("roce-400g"))  # which has no links inside
    assert rails.hops.net_hop_us == pytest.approx(54, abs=0.3)
    assert "inside_latency_us" not in rails.machine.numbers
    # Hops inside and between that grow alike are not told apart, and a launch is not theirs.
    alike = [made_up_run("allreduce", *shape, (7, 1, 9), 0, 1) for shape in ((2, 16), (4, 60))]
    assert [hops_of_run(run) for run in alike] == [(14, 2), (28, 4)]
    assert hops_of(alike, 6.6)[:3] == (pytest.approx(7, rel=1e-3), None, None)
    uneven = BenchmarkRun("", "allreduce", 12, 5, ((1024, 30.0),))
    assert hops_of_run(uneven) is None
