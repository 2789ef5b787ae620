"""ASTRA-sim: golden inputs, what it cannot take, and an adapter that believes no binary."""

from __future__ import annotations

import json
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from folders import DATA
from holders import all_are_gone, heard, held
from program_by_hand import gathering_program, ring_schedule
from simulate_samples import KNOWN, ROUTES

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.network import Network
from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.faces.cli import main
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.astra_sim import command, links_of, write_astra_sim
from ocs_codesign.interop.chakra.check import checked_graph, write_chakra
from ocs_codesign.interop.exports import exported
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.registry import Export
from ocs_codesign.interop.run import astra_sim
from ocs_codesign.interop.run.astra_sim import FAILED, RAN, SKIPPED, second_opinion
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build

GOLDEN = DATA / "golden"
MIB = 2**20
GIB = Fraction(2**30)


def ring(num_ranks: int = 4, **changes) -> Export:
    plan = ring_schedule(num_ranks)
    ends = plan.topology.tail, plan.topology.head
    network = Network(num_ranks, num_ranks, *ends, [50] * num_ranks, [500] * num_ranks)
    values = {"unit_Bps": GIB, "message_bytes": num_ranks * MIB, "network": network} | changes
    return Export(f"ring{num_ranks}", plan, gathering_program(plan), **values)


def test_the_golden_inputs():
    contents = write_astra_sim(ring())
    golden = {path.name: path.read_bytes() for path in GOLDEN.glob("*.et")}
    golden |= {name: (GOLDEN / name).read_bytes() for name in ("network.yml", "system.json")}
    golden["memory.json"] = (GOLDEN / "memory.json").read_bytes()
    assert {name: contents[name] for name in contents if name != "README.txt"} == golden
    readme = contents["README.txt"].decode()
    assert " ".join(command("AstraSim_Analytical_Congestion_Aware")) in readme
    assert "clock says 60,093." in readme


def test_chakra_alone_has_the_traces():
    assert set(write_chakra(ring())) == {f"ring4.{rank}.et" for rank in range(4)}
    with pytest.raises(ValueError, match="this format has sizes in bytes: --message"):
        write_chakra(ring(message_bytes=None))


def test_what_has_no_key_runs_in_the_place_of_an_allgather():
    line = Topology(3, [0, 1], [1, 2])
    columns = [0, 0], [0, 0], [1, 1], [0, 1], [1, 2]
    plan = Schedule(line, Collective("broadcast", 0), 1, *columns)
    network = Network(3, 3, line.tail, line.head, [1, 1], [0, 0])
    contents = write_astra_sim(Export("workload", plan, lower(plan), network, GIB, 10))
    assert json.loads(contents["system.json"])["all-gather-implementation-custom"] == ["schedule"]
    assert b"has no key for broadcast, root 0" in contents["README.txt"]
    assert {"schedule.2.et", "workload.2.et"} <= set(contents)


@pytest.mark.parametrize(
    ("name", "options", "collective", "ranks", "kind", "size", "ns"),
    [case for case in KNOWN if case[4] != "R" and case[3] <= 64],
)
def test_known_nanoseconds_of_exported_traces(name, options, collective, ranks, kind, size, ns):
    """What an unmodified ASTRA-sim said of transfers made otherwise is what our traces take."""
    messages = CLASSIC[name].messages(collective, ranks, **options)
    routes = ROUTES[kind](ranks)
    message_bytes = ranks * MIB if size is None else size
    export = exported(
        name, messages, routes.network, unit_Bps=GIB, message_bytes=message_bytes, in_place=False
    )
    links = links_of(export)
    assert links.topology == {"FC": "FullyConnected", "SW": "Switch"}[kind]
    # Additions to one slot keep their order here: of two at once, one waits for a nanosecond.
    late = links.clocked(checked_graph(export)).total_ticks - ns
    assert late in range(3) if name == "double-binary-tree" else late == 0


def test_a_switch_is_one():
    messages = CLASSIC["direct"].messages("allgather", 4)
    star = ROUTES["SW"](4).network
    export = exported("it", messages, star, unit_Bps=GIB, message_bytes=4 * MIB)
    assert write_astra_sim(export)["network.yml"].startswith(b"topology: [ Switch ]\n")
    # Three messages of every rank, one behind the other, the last of them over both links.
    assert second_opinion(export, None).own_ticks == 4 * 19_531 + 2 * 500


def network(tail, head, bandwidth=None, latency=None, nodes=4) -> Network:
    ones = [1] * len(tail)
    return Network(4, nodes, tail, head, bandwidth or ones, latency or ones)


OWN, NEXT = [0, 1, 2, 3], [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (network([*OWN, 4], [*NEXT, 0], nodes=6), "2 switches: ASTRA-sim has links between"),
        (network([*OWN, 4], [*NEXT, 0], nodes=5), "with a switch every rank has a link to it"),
        (network([], []), "rank 0 sends to 1, but the network has no link between"),
        (network([*OWN, 0], [*NEXT, 1]), "2 links from 0 to 1: ASTRA-sim has one a pair"),
        (network(OWN, NEXT, [1, 1, 2, 1]), "link 2 has a bandwidth of 2, link 0 of 1"),
        (network(OWN, NEXT, None, [1, 1, 1, 3]), "link 3 has a latency of 3, link 0 of 1"),
        (network(OWN[:3], NEXT[:3]), "rank 3 sends to 0, but the network has no link between"),
        (network(OWN, NEXT).changed(tick_s=Fraction(1, 10**10)), "a latency of 0.1 ns"),
    ],
)
def test_networks_that_astra_sim_does_not_have(given, rule):
    with pytest.raises(ValueError, match=rule):
        links_of(ring(network=given))
    with pytest.raises(ValueError, match="this format has bandwidths: --bandwidth"):
        links_of(ring(unit_Bps=None))


FINISHED = "[2026-01-01 00:00:00.000] [workload] [info] sys[{rank}] finished, {cycles} cycles, exposed communication {cycles} cycles."  # noqa: E501
READS = """
import pathlib, re, sys
given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
assert pathlib.Path(given["system-configuration"]).exists(), "no system"
assert pathlib.Path(given["remote-memory-configuration"]).exists(), "no memory"
text = pathlib.Path(given["network-configuration"]).read_text()
ranks = int(re.search(r"npus_count: . ([0-9]+)", text)[1])
for rank in range(ranks):
    assert pathlib.Path(f"{given['workload-configuration']}.{rank}.et").exists(), "no workload"
    assert list(pathlib.Path().glob(f"ring*.{rank}.et")), "no traces"
"""


def binary(tmp_path: Path, text: str) -> Path:
    """A script in the place of ASTRA-sim, which finds its inputs and then does as it is told."""
    path = tmp_path / "AstraSim"
    path.write_text(f"#!{sys.executable}\n{READS}line = {FINISHED!r}\n{text}\n")
    path.chmod(0o755)
    return path


ALL = "for rank in range(ranks): print(line.format(rank=rank, cycles={cycles}))"


def test_a_binary_that_agrees(tmp_path):
    opinion = second_opinion(ring(), binary(tmp_path, ALL.format(cycles="60093 - rank")))
    assert (opinion.run.status, opinion.run.reason) == (RAN, None)
    assert opinion.run.cycles == (60_093, 60_092, 60_091, 60_090)
    assert (opinion.own_ticks, opinion.difference, opinion.num_messages) == (60_093, 0, 12)


def test_iterations_are_understood(tmp_path):
    text = ALL.format(cycles="60100").replace(
        "print(line", 'print(line.replace("] fin", "] iteration 0 fin")'
    )
    assert second_opinion(ring(), binary(tmp_path, text)).difference == 7


FAILURES = {
    "exit code": (ALL.format(cycles=9) + "\nsys.exit(3)", "it ended with exit code 3: '.*sys.3."),
    "an error": ("raise SystemExit('custom collective aborts')", "exit code 1: 'custom collective"),
    "nothing": ("pass", "0 of 4 ranks finished, rank 0 did not"),
    "a rank missing": (
        "ranks = 3\n" + ALL.format(cycles=9),
        "3 of 4 ranks finished, rank 3 did not",
    ),
    "a rank twice": (ALL.format(cycles=9) + "\n" + ALL.format(cycles=9), "rank 0 says twice"),
    "a rank too many": ("ranks += 3\n" + ALL.format(cycles=9), "rank 6 finished, but there are 4"),
    "garbage": (
        "sys.stdout.buffer.write(bytes(range(256)) * 1000 + b'sys[x] finished, y cycles')",
        "0 of 4 ranks finished",
    ),
    "a signal": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "exit code -11"),
    "huge numbers": (
        "print('sys[0] finished, ' + '9' * 5000 + ' cycles')",
        "0 of 4 ranks finished, rank 0 did not",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_binaries_that_fail(case, tmp_path):
    text, reason = FAILURES[case]
    run = second_opinion(ring(), binary(tmp_path, text)).run
    assert (run.status, run.cycles, run.total) == (FAILED, (), None)
    with pytest.raises(ValueError, match=reason):
        raise ValueError(run.reason)


def test_a_binary_that_hangs_is_stopped_with_its_children(tmp_path, monkeypatch):
    """By a clock that stands until both have begun."""
    path = tmp_path / "held"
    text = f"import os\nos.system('exec 9>{path}; echo >&9; sleep 600 & sleep 600')"
    with held(path) as reader:
        times = (time() for time in (int, lambda: len(heard(reader))))
        monkeypatch.setattr(astra_sim, "time", SimpleNamespace(monotonic=times.__next__))
        run = second_opinion(ring(), binary(tmp_path, text), 0.3).run
        assert (run.status, run.reason) == (FAILED, "it was stopped after 0.3 s")
        assert all_are_gone(reader)


def test_a_binary_that_prints_for_ever_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(astra_sim, "MAX_OUTPUT_BYTES", 2**20)
    run = second_opinion(ring(), binary(tmp_path, "while True: print('x' * 10000)")).run
    assert (run.status, run.reason) == (FAILED, "it was stopped after 1 MiB of output")


def test_without_a_binary_it_is_skipped_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.delenv(astra_sim.VARIABLE, raising=False)
    assert "no binary of ASTRA-sim is named" in str(second_opinion(ring(), None).run.reason)
    missing = second_opinion(ring(), tmp_path / "none").run
    assert (missing.status, "there is no file" in str(missing.reason)) == (SKIPPED, True)
    plain = tmp_path / "plain"
    plain.write_text("no program")
    assert "cannot be run" in str(second_opinion(ring(), plain).run.reason)
    plain.chmod(0o755)
    empty = second_opinion(ring(), plain).run
    assert (empty.status, str(empty.reason).startswith("it cannot be run")) == (FAILED, True)
    monkeypatch.setenv(astra_sim.VARIABLE, str(binary(tmp_path, ALL.format(cycles=60_093))))
    assert second_opinion(ring(), None).difference == 0


ASK = ["--message", "4MiB", "--bandwidth", "400Gbps", "--latency", "500ns", "--json", "-"]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(astra_sim.VARIABLE, raising=False)
    assert main(["astra-sim", "UniRing(1,4)", *ASK]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["astra_sim_ns"], answer["difference_ns"]) == (
        SKIPPED,
        None,
        None,
    )
    # 3 steps of 1 MiB at 50 * 10^9 bytes a second, and 500 ns.
    assert answer["own_ns"] == 3 * (500 + 20_971)
    path = binary(tmp_path, ALL.format(cycles=64_413).replace("ring*", "*"))
    path.write_text(path.read_text().replace("ring*", "UniRing*"))
    assert main(["astra-sim", "UniRing(1,4)", "--astra-sim", str(path), *ASK]) == 0
    assert json.loads(capsys.readouterr().out)["difference_ns"] == 0
    path.write_text(path.read_text().replace("range(ranks): print", "range(2): print"))
    assert main(["astra-sim", "UniRing(1,4)", "--astra-sim", str(path), *ASK]) == 1
    assert "2 of 4 ranks finished" in json.loads(capsys.readouterr().out)["reason"]


def test_a_reduction_takes_its_additions():
    plan = build(parse("UniRing(1,4)"), "reduce-scatter").schedule
    ends = plan.topology.tail, plan.topology.head
    export = Export(
        *("rs", plan, lower(plan), Network(4, 4, *ends, [50] * 4, [500] * 4), GIB, 4 * MIB)
    )
    # The same ring, and the three additions of a nanosecond each.
    assert second_opinion(export, None).own_ticks == 60_093 + 3
    assert np.array_equal(plan.topology.tail, np.arange(4))
