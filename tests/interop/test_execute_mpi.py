"""Programs on real processes: every rank against MPI's own collective, and what must not pass."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from execute_samples import IN_PLACE, PLANS, job, random_job, ring_by_hand, with_columns
from holders import all_are_gone, heard, held
from interrupts import LISTEN
from runtime_samples import CASES

from ocs_codesign.core.collective import MIRROR
from ocs_codesign.core.plans import NOP, RECEIVE, SEND, RankProgram
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.native import write_program_json
from ocs_codesign.interop.registry import FORMATS, Export, read_program, told_format
from ocs_codesign.interop.run.launch import RunJob, answer_of, command, launch

pytestmark = pytest.mark.mpi

LIMIT_S = 120.0


def unequal(outcomes):
    return {
        each.job.name: each.fault or [rank.difference for rank in each.ranks if rank.difference]
        for each in outcomes
        if not each.ok
    }


@pytest.mark.parametrize("ranks", PLANS)
def test_every_rank_has_what_mpi_has(ranks):
    """Elements that no number of chunks divides, and so few that most chunks are empty."""
    jobs = [job(ranks, name, 1009, seed=5) for name in PLANS[ranks]]
    jobs += [job(ranks, name, 3, seed=6) for name in PLANS[ranks]]
    jobs += [job(ranks, name, 10_080, in_place=True) for name in IN_PLACE.get(ranks, ())]
    outcomes = launch(jobs, LIMIT_S)
    assert unequal(outcomes) == {}
    assert [each.job.name for each in outcomes] == [each.name for each in jobs]
    assert sum(each.num_empty > 0 for each in outcomes) > len(outcomes) // 4
    for each in outcomes:
        sends = np.isin(each.job.program.kind, [SEND]).sum()
        assert sum(rank.num_messages for rank in each.ranks) == sends > 0


def test_random_networks_and_every_collective():
    jobs = [random_job(seed, collective) for seed in range(6) for collective in MIRROR]
    outcomes = launch(jobs, LIMIT_S)
    assert (len(outcomes), unequal(outcomes)) == (48, {})


def test_parts_are_even_or_not():
    ranks, name = 8, "ring allgather"
    outcomes = launch([job(ranks, name, elements) for elements in (64, 65, 0)], LIMIT_S)
    assert unequal(outcomes) == {}
    assert [each.call for each in outcomes] == ["MPI_Allgather", "MPI_Allgatherv", "MPI_Allgather"]
    assert {each.num_elements for each in outcomes[0].ranks} == {7 * 8}
    assert all("MPI" in each.library for each in outcomes)


def test_few_tags_are_enough():
    """Transfers whose numbers exceed the tags go over other communicators."""
    jobs = [job(4, name, 1009) for name in PLANS[4]]
    for tags in (1, 2, 5):
        assert unequal(launch(jobs, LIMIT_S, tags)) == {}


def test_other_seeds_are_other_data_and_the_same_seed_the_same():
    wrong = ring_by_hand(4, wrong_offset=True)
    jobs = [RunJob(f"{seed}", wrong, 64, seed=seed) for seed in (1, 1, 2)]
    firsts = [each.ranks[2].difference for each in launch(jobs, LIMIT_S)]
    assert firsts[0] == firsts[1] != firsts[2]


def test_a_wrong_offset_is_a_difference():
    program = ring_by_hand(4, wrong_offset=True)
    (outcome,) = launch([RunJob("wrong", program, 400)], LIMIT_S)
    assert not outcome.ok
    assert outcome.fault is None
    # Rank 1 sends shard 1 instead of 0 to rank 2, which sends it on to rank 3.
    assert [rank.is_equal for rank in outcome.ranks] == [True, True, False, False]
    difference = outcome.ranks[2].difference
    assert (difference.chunk, difference.element, difference.holds) == (0, 0, 1)
    assert (difference.dtype, difference.num_different) == ("int64", 100)
    assert difference.got != difference.wanted


def mutants(program, number=40):
    """Programs of which one operation reads, writes or adds at another place."""
    rng = np.random.default_rng(7)
    sizes = np.stack(program.buffer_sizes())
    for at in range(number):
        end = ("source", "target")[at % 2]
        kinds = {"source": (0, 3, 4), "target": (1, 2, 3, 4)}[end]
        row = int(rng.choice(np.flatnonzero(np.isin(program.kind, kinds))))
        size = sizes[getattr(program, f"{end}_buffer")[row], program.rank[row]]
        column = getattr(program, end).copy()
        room = int(size - program.count[row])
        if room < 1:
            continue
        column[row] = (column[row] + rng.integers(1, room + 1)) % (room + 1)
        yield f"{end} of {row}", with_columns(program, **{end: column})


def test_wrong_places_do_not_pass():
    """What the static interpreter refuses for its result differs here too."""
    from ocs_codesign.verification.rank_programs import check_program

    program = job(4, "BFB allreduce", 64).program
    wrong = [each for each in mutants(program) if not check_program(each[1]).ok]
    assert len(wrong) > 20
    outcomes = launch([RunJob(name, each, 65) for name, each in wrong], LIMIT_S)
    passed = [each.job.name for each in outcomes if each.ok]
    assert len(outcomes) == len(wrong)
    assert passed == []


def test_doubled_and_lost_sums_do_not_pass():
    program = job(4, "BFB allreduce", 64).program
    adds = np.flatnonzero(np.isin(program.kind, (2, 4)))
    spoilt = []
    for row in adds[:6].tolist():
        kind = program.kind.copy()
        kind[row] = {2: 1, 4: 5}[int(kind[row])]  # written over, or not done at all
        peer = np.where(kind == 5, -1, program.peer)
        spoilt.append(RunJob(str(row), with_columns(program, kind=kind, peer=peer), 65))
    assert [each.ok for each in launch(spoilt, LIMIT_S)] == [False] * len(spoilt)


def test_messages_that_do_not_meet_are_said_before_they_are_sent():
    program = ring_by_hand(4)
    row = int(np.flatnonzero(program.kind == RECEIVE)[-1])
    kind, peer = program.kind.copy(), program.peer.copy()
    kind[row], peer[row] = 5, -1
    lost = RunJob("lost", with_columns(program, kind=kind, peer=peer), 40)
    outcomes = launch([lost, RunJob("right", program, 40)], LIMIT_S)
    told = "rank 3: rank 2 sends it 3 messages over channel 0, but it receives 2 messages"
    assert (outcomes[0].ok, outcomes[0].fault) == (False, told)
    assert outcomes[1].ok  # nothing was under way


def test_a_deadlock_ends():
    jobs = [
        RunJob("stuck", ring_by_hand(4, deadlocks=True), 40),
        RunJob("after", ring_by_hand(4), 40),
    ]
    outcomes = launch(jobs, 1.5)
    assert len(outcomes) == 1
    told = "it waits for its receive from rank 3 (operation 1, channel 0, step 1) after 1.5 s"
    assert outcomes[0].fault == f"rank 0: {told}"
    assert all(rank.under_way for rank in outcomes[0].ranks)


def test_a_barrier_that_cannot_be_reached_ends_in_time():
    """A rank that has nothing to do before a barrier waits there for those that are stuck."""
    program = ring_by_hand(4, deadlocks=True)
    (outcome,) = launch([RunJob("stuck", program, 40, (2,))], 1.0)
    assert "it waits for its receive" in outcome.fault


@contextmanager
def stuck(directory, monkeypatch):
    """A command whose four ranks all wait, the pipe that they hold, and their processes."""
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = written(ring_by_hand(4, deadlocks=True), directory / "stuck.program.json")
    monkeypatch.setenv("HELD", str(directory / "held"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = (
        f"{LISTEN}\nimport sys\nfrom ocs_codesign.faces.cli import main\n"
        "from ocs_codesign.interop.run import launch\n"
        "command = launch.command\n"
        "launch.command = lambda ranks, directory: command(ranks, directory, 'stuck_rank')\n"
        f"sys.exit(main(['run', {path!r}, '--time-limit', '600s']))"
    )
    ends = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        held(directory / "held") as reader,
        subprocess.Popen([sys.executable, "-c", code], **ends) as process,
    ):
        said = b""
        while said.count(b"\n") < 4:
            said += heard(reader)
        yield process, reader, [int(each) for each in said.split()]


def test_a_rank_that_dies_is_one_sentence(tmp_path, monkeypatch):
    with stuck(tmp_path, monkeypatch) as (process, reader, ranks):
        os.kill(ranks[2], signal.SIGKILL)
        out, err = process.communicate()
        assert (process.returncode, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("Error: mpirun ended with code ")
        assert all_are_gone(reader)


def test_ctrl_c_leaves_no_rank(tmp_path, monkeypatch):
    with stuck(tmp_path, monkeypatch) as (process, reader, _):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        told = "Interrupted: nothing was written."
        assert (process.returncode, out, err.strip()) == (130, "", told)
        assert all_are_gone(reader)
    assert list(tmp_path.glob("ocs-codesign-*")) == []


def test_the_command(tmp_path, capsys):
    assert main(["build", "Torus((2,2))", "--collective", "allreduce", "--out", str(tmp_path / "d"),
                 "-q"]) == 0  # fmt: skip
    answer = tmp_path / "answer.json"
    words = ["run", str(tmp_path / "d"), "--ranks", "4", "--elements", "1001", "--json"]
    assert main([*words, str(answer)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Equal: every rank has what MPI_Allreduce has, bit by bit.\n")
    assert "which is no network time" in shown
    assert "Proves: the program ends under MPI's progress" in shown
    assert "Not proven: time, contention" in shown
    told = json.loads(answer.read_text(encoding="utf-8"))
    assert (told["ok"], told["ranks"], told["elements"]) == (True, 4, 1001)
    assert [each["equal"] for each in told["results"]] == [True] * 4
    assert not any("time" in key and "not_network" not in key for key in told)


def exported(form, directory):
    """A file of every readable format, as export writes it, of an allgather on four ranks."""
    (directory / "design").mkdir(parents=True)
    assert main(["build", "Torus((2,2))", "--out", str(directory / "design"), "-q"]) == 0
    words = ["export", str(directory / "design"), "--format", form, "--out", str(directory / "out")]
    assert main([*words, "--message", "4KiB", "-q"]) == 0
    files = sorted((directory / "out").iterdir(), key=lambda each: told_format(each) != form)
    return files[0] if files[0].name != "export.json" else files[1]


def test_programs_from_files_run_unmodified(tmp_path):
    readable = [name for name, each in FORMATS.items() if each.read and each.write]
    assert {"program-json", "program-npz", "json", "csv"} <= set(readable)
    jobs, refused = [], []
    for form in readable:
        given = read_program(exported(form, tmp_path / form), form)
        program = given if isinstance(given, RankProgram) else lower(given)
        one_sided = (program.kind > NOP).any()
        (refused if one_sided else jobs).append(RunJob(form, program, 101))
    for each in refused:
        with pytest.raises(ValueError, match="not of one-sided operations"):
            launch([each], LIMIT_S)
    assert unequal(launch(jobs, LIMIT_S)) == {}


def written(program, path):
    path.write_bytes(next(iter(write_program_json(Export("x", None, program, None)).values())))
    return str(path)


def test_a_program_from_a_file_that_is_wrong_has_exit_code_1(tmp_path, capsys):
    path = written(ring_by_hand(4, wrong_offset=True), tmp_path / "wrong.program.json")
    assert main(["run", path, "--elements", "40"]) == 1
    shown = capsys.readouterr().out
    told = "Different: 2 of 4 ranks do not have what MPI_Allgather has. First: rank 2"
    assert shown.startswith(told)
    assert "in element 0 of chunk 0 of item 0, where chunk 0 of item 1 has come" in shown
    path = written(ring_by_hand(4, deadlocks=True), tmp_path / "stuck.program.json")
    assert main(["run", path, "--time-limit", "1s"]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("Not run to its end: rank 0: it waits for its receive from rank 3")
    assert shown.count("\n") == 1


def test_under_mpirun(tmp_path):
    words = [*command(4, tmp_path)[:-4], sys.executable, "-m", "ocs_codesign", "run"]
    answer = tmp_path / "answer.json"
    right = [*words, "Torus((2,2))", "--scheduler", "swing", "--json", str(answer)]
    done = subprocess.run(right, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Equal: every rank has what MPI_Allgather has") == 1
    assert json.loads(answer.read_text(encoding="utf-8"))["of"] == "Torus((2,2))"
    for design, told in (("Torus((2,3))", "is for 6 ranks, but mpi has 4"), ("no", "no such file")):
        done = subprocess.run(
            [*words, design], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 2
        lines = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(lines) == 1
        assert told in lines[0].lower()


def test_books_circuits_and_the_example(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        "compare 'UniRing(1, 4)' --bandwidth 100Gbps --message 1KiB,1GiB --workers 1 --out book",
        "run book/book --message 1KiB",
        "run book/book --message 2MiB --in-place",
        "sequence 'DirectedCirculant(4,(1,))' 'DirectedCirculant(4,(2,))' --out circuits",
        "run circuits --elements 1001",
        "build 'Complete(3)' --collective allreduce --out design",
        "run design --ranks 3",
    ]
    for line in lines:
        assert main(shlex.split(line)) == 0, line
    shown = capsys.readouterr().out
    assert "barriers" in shown
    assert shown.count("Equal: every rank") == 4


def test_known_plans_have_the_known_bits(monkeypatch):
    """All of the values' hashes: those that threads, PyTorch and JAX have."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    found = answer_of(lambda place: command(11, place, "known_rank"), None, LIMIT_S)
    for name, case in CASES.items():
        runs = [*case["runs"], *case.get("uneven", ())]
        wanted = [run.get("sha256_16_of_all_ranks") or run["sha256_16_of_results"] for run in runs]
        assert [found[name, at] for at in range(len(runs))] == wanted, name
    assert len(found) == 114
