"""What runs on real processes need that can be said without them: shares, sizes, sentences."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from holders import all_are_gone, heard, held
from hypothesis import given
from hypothesis import strategies as st
from interrupts import LISTEN
from program_samples import designs

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.plans import (
    ADD,
    COPY,
    INPUT,
    NOP,
    OUTPUT,
    PUT,
    RECEIVE,
    SCRATCH,
    SEND,
    RankProgram,
)
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.run import launch as launching
from ocs_codesign.interop.run.engine import (
    EMPTY,
    MIXED,
    Data,
    Numbers,
    chunk_elements,
    input_and_output,
    piece_of_chunk,
)
from ocs_codesign.interop.run.launch import (
    RunJob,
    UnavailableError,
    check_available,
    command,
    launch,
    shares_of,
    steps_of_changes,
)
from ocs_codesign.schedules.classic.registry import CLASSIC


def empty(collective, ranks, chunks=1, *, in_place=False, scratch=0, **columns):
    columns = {name: [] for name in ("rank", "kind", "peer")} | columns
    return RankProgram(collective, ranks, chunks, in_place, [scratch] * ranks, columns)


def test_elements_are_cut_evenly():
    program = empty(Collective.ALLGATHER, 3, 2)
    assert chunk_elements(program, 12).tolist() == [2] * 6
    assert chunk_elements(program, 13).tolist() == [2, 2, 2, 2, 2, 3]
    assert chunk_elements(program, 2).tolist() == [0, 0, 1, 0, 0, 1]
    assert chunk_elements(program, 0).tolist() == [0] * 6
    exchange = empty(Collective.ALLTOALL, 2, 1)
    assert chunk_elements(exchange, 5).tolist() == [2, 3, 2, 3]
    for number in (-1, 2**31 + 1):
        with pytest.raises(ValueError, match=f"^{number} elements: from 0 to 2147483648"):
            list(shares_of(program, number))


NAMES = ("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "scatter", "gather")


@given(st.sampled_from(NAMES), st.integers(1, 6), st.integers(1, 4), st.integers(0, 200))
def test_what_ranks_hold_is_m(name, ranks, chunks, elements):
    """The buffer that is M has all elements, whatever they are cut into."""
    rooted = name in ("broadcast", "scatter", "gather")
    collective = Collective(name, root=ranks - 1 if rooted else None)
    program = empty(collective, ranks, chunks)
    sizes = chunk_elements(program, elements)
    assert sizes.max() - sizes.min() <= 1
    held = [input_and_output(program, rank) for rank in range(ranks)]
    at_root = held[ranks - 1][name in ("allgather", "broadcast", "gather")]
    assert sizes[at_root.chunk].sum() == elements
    for place in (each for both in held for each in both):
        assert place.slot.tolist() == list(range(len(place.chunk)))


def test_places_in_place():
    program = empty(Collective.ALLGATHER, 3, 2, in_place=True)
    first, last = input_and_output(program, 1)
    assert (first.buffer, first.slot.tolist(), first.chunk.tolist()) == (OUTPUT, [2, 3], [2, 3])
    assert (last.buffer, last.slot.tolist()) == (OUTPUT, list(range(6)))
    program = empty(Collective.REDUCE_SCATTER, 3, 1, in_place=True)
    first, last = input_and_output(program, 2)
    assert (last.buffer, last.slot.tolist(), last.chunk.tolist()) == (INPUT, [2], [2])
    leaf = empty(Collective("scatter", root=0), 3, 1, in_place=True)
    assert input_and_output(leaf, 1)[1].buffer == OUTPUT
    assert input_and_output(leaf, 0)[1].buffer == INPUT


def test_chunks_have_names():
    program = empty(Collective.ALLTOALL, 3, 2)
    assert piece_of_chunk(program.demands[0], 2, 9) == (1, 4, 1)


def pair(**more):
    """Two transfers from rank 0 to rank 1 over two channels, named in different orders."""
    columns = {
        "rank": [0, 0, 0, 1, 1, 1],
        "stream": [0, 1, 0, 0, 1, 1],
        "kind": [SEND, SEND, SEND, RECEIVE, RECEIVE, RECEIVE],
        "peer": [1, 1, 1, 0, 0, 0],
        "channel": [1, 0, 1, 0, 1, 1],
        "source_buffer": [INPUT] * 3 + [0] * 3,
        "source": [1, 0, 2, 0, 0, 0],
        "target_buffer": [0] * 3 + [OUTPUT] * 3,
        "target": [0, 0, 0, 0, 1, 2],
        "count": [1] * 6,
        "step": [1, 2, 3, 2, 1, 3],
        **more,
    }
    return RankProgram(
        Collective("broadcast", root=0), 2, 3, False, [0, 0], columns,
        [0, 0, 0, 0, 0, 1, 1], [3],
    )  # fmt: skip


def test_both_ends_number_transfers_alike():
    sender, receiver = shares_of(pair(), 3)
    assert sender.number.tolist() == [1, 0, 2]
    assert receiver.number.tolist() == [0, 1, 2]
    assert sender.transfers(SEND) == {1: {1: [1, 1], 0: [1]}}
    assert receiver.transfers(RECEIVE) == {0: {0: [1], 1: [1, 1]}}


def test_barriers_come_before_all_that_waits():
    """An operation is in no earlier epoch than what it waits for, whatever its step."""
    sender, receiver = shares_of(pair(), 3, (2, 3))
    assert sender.epoch.tolist() == [0, 1, 2]
    assert receiver.epoch.tolist() == [1, 1, 2]  # the second one needs the first
    assert receiver.num_epochs == 3
    assert receiver.num_waits.tolist() == [0, 1, 1]
    assert receiver.after.tolist() == [1, 2]


def test_ranks_meet_where_circuits_change():
    """In pauses, and where circuits go down and come up while others stay."""
    met = [steps_of_changes(made.program) for made in designs()]
    assert met[5] == (2, 3, 4)  # a direct all-to-all of five, one configuration a step
    assert met[3] == ()  # its circuits stay
    assert designs()[9].program.pauses.tolist() == []
    assert met[9] == (2, 3, 5, 6)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ({"kind": [PUT]}, "operation 0 is a put: MPI runs programs of sends and receives"),
        ({"kind": [SEND], "source": [2]}, "operation 0: its source ends at chunk 3 of a buffer of"),
        ({"kind": [RECEIVE], "target": [1], "target_buffer": [SCRATCH]}, "its target ends at"),
    ],
)
def test_what_cannot_be_run_is_said(columns, rule):
    program = empty(Collective.ALLREDUCE, 2, rank=[0], peer=[1], count=[1], **columns)
    with pytest.raises(ValueError, match=rule):
        list(shares_of(program, 8))
    with pytest.raises(ValueError, match=rule):
        launch([RunJob("x", program, 8)], 1.0)


def test_nops_have_no_buffers():
    program = empty(Collective.ALLREDUCE, 2, rank=[0], kind=[NOP], peer=[-1], source=[99])
    assert next(shares_of(program, 8)).num_operations == 1


def test_numbers_tell_what_came_from_where():
    columns = {"rank": [0, 0, 0], "kind": [COPY, ADD, ADD], "peer": [-1] * 3, "count": [1, 1, 2]}
    columns |= {"source": [0, 0, 0], "target_buffer": [SCRATCH] * 3, "target": [0, 0, 0]}
    program = empty(Collective.ALLREDUCE, 2, 1, scratch=2, **columns)
    share = next(shares_of(program, 3))
    numbers = Numbers.of(share)
    for row in range(3):
        numbers.put(row, numbers.taken(row), adds=row > 0)
    assert numbers.held.tolist() == [0, 1, EMPTY, EMPTY, 0, MIXED]
    assert [numbers.moved[row].tolist() for row in range(3)] == [[0], [0], [0, 1]]
    data = Data.of(share, numbers, np.array([5, 7, 9]), np.array([-1]))
    assert data.held.tolist() == [[5, -1], [7, 9], *[[-1, -1]] * 4]
    for row in range(3):
        data.put(row, data.taken(row), adds=row > 0)
    assert data.held[4:].tolist() == [[15, -1], [6, 8]]
    with pytest.raises(ValueError, match="3 elements came, but 1 when the program ran before"):
        data.put(0, np.zeros(3, dtype=np.int64), adds=False)


def test_shares_are_of_one_rank_each():
    program = lower(CLASSIC["ring"].messages("allreduce", 5))
    shares = list(shares_of(program, 17))
    assert sum(share.num_operations for share in shares) == program.num_operations
    for share in shares:
        rows = program.operations_of(share.rank)
        assert share.first == rows.start
        assert share.columns["source"].tolist() == program.source[rows].tolist()
        assert share.reference.sends.sum() == 17


@pytest.fixture
def fake_mpirun(tmp_path, monkeypatch):
    """An mpirun that says what it is told, beside an mpi4py that is here."""

    def write(does, version="mpirun (Open MPI) 4.1.4"):
        script = tmp_path / "mpirun"
        script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\n{does}\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(launching, "find_spec", lambda name: name)

    return write


def ring(ranks=2):
    return RunJob("ring", lower(CLASSIC["ring"].messages("allgather", ranks)), 8)


def test_a_missing_mpi_is_one_sentence(monkeypatch, tmp_path, capsys, fake_mpirun):
    monkeypatch.setattr(launching, "find_spec", {}.get)
    with pytest.raises(UnavailableError, match=r"^mpi4py is missing: pip install mpi4py"):
        check_available(launcher=False)
    monkeypatch.setattr(launching, "find_spec", lambda name: name)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["run", "Complete(3)"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "apt-get install openmpi-bin libopenmpi-dev" in told.err
    fake_mpirun("exit 1", "HYDRA build details: 4.0")
    with pytest.raises(UnavailableError, match="is not Open MPI's"):
        check_available()


def test_ranks_that_fail_are_one_sentence(fake_mpirun):
    fake_mpirun(
        "echo ------; echo There are not enough slots; echo 'Error: rank 1: no memory'; exit 9"
    )
    with pytest.raises(RuntimeError, match=r"^mpirun ended with code 9: Error: rank 1: no memory$"):
        launch([ring()], 1.0)
    fake_mpirun("exit 3")
    with pytest.raises(RuntimeError, match=r"^mpirun ended with code 3: it said nothing$"):
        launch([ring()], 1.0)
    with pytest.raises(ValueError, match=r"jobs of \[2, 3\] ranks"):
        launch([ring(2), ring(3)], 1.0)


@pytest.fixture
def reader(fake_mpirun, tmp_path):
    """Of a pipe that ranks hold which never end."""
    path = tmp_path / "held"
    fake_mpirun(f"exec 9>{path}; echo >&9; sleep 600 & sleep 600")
    with held(path) as reader:
        yield reader


def test_ranks_that_hang_are_stopped(reader, monkeypatch):
    """The time is over when they have begun."""

    def waited(process, *given, timeout=None):
        if timeout is None:
            return wait(process, *given)
        heard(reader)
        raise subprocess.TimeoutExpired(process.args, timeout)

    wait = subprocess.Popen.communicate
    monkeypatch.setattr(subprocess.Popen, "communicate", waited)
    with pytest.raises(RuntimeError, match=r"had not ended after 65\.3 s, and were stopped"):
        launch([ring()], 0.1)
    assert all_are_gone(reader)


STARTING = """
class Slow(subprocess.Popen):
    def __init__(self, words, **options):
        super().__init__(words, **options)
        if "-n" in words:
            wait_for_ctrl_c()
subprocess.Popen = Slow
"""


@pytest.mark.parametrize("moment", ["", STARTING], ids=["running", "starting"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_ranks(number, moment, reader):
    code = (
        f"{LISTEN}\nimport subprocess, sys\n{moment}\n"
        "from ocs_codesign.faces.cli import main\nfrom ocs_codesign.interop.run import launch\n"
        "launch.find_spec = lambda name: name\n"
        "sys.exit(main(['run', 'Complete(3)']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert heard(reader)  # one of them has begun
    process.send_signal(number)
    out, err = process.communicate()
    told = "Interrupted: nothing was written." if number == signal.SIGINT else ""
    assert (process.returncode, out, err.strip()) == (128 + number, "", told)
    assert all_are_gone(reader)


def test_ranks_leave_the_cores_to_each_other(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = command(12, Path("/nowhere"))
    assert words[:5] == ["mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    assert "--allow-run-as-root" not in words
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-run-as-root" in command(12, Path("/nowhere"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--message", "1MiB", "--elements", "7"], "give --message or --elements"),
        (["--ranks", "4"], "--ranks is 4, but Complete(3) is for 3 ranks"),
        (["--scheduler", "forest", "--collective", "scatter"], "makes allgather, reduce-scatter"),
        (["--collective", "broadcast", "--root", "3"], "root is 3: the ranks are 0 to 2"),
        (["--elements", "3000000000"], "3000000000: numbers go up to 2147483647"),
        (["--root", "1"], "--root is for broadcast, reduce, scatter, gather: allgather has none"),
        (["--option", "radix=3"], "--option is for classic algorithms"),
    ],
)
def test_bad_usage_is_one_sentence(words, told, capsys, fake_mpirun):
    fake_mpirun("exit 1")
    assert main(["run", "Complete(3)", *words]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert told in said.err


def test_many_ranks_are_only_started_when_they_are_asked_for(capsys, fake_mpirun):
    fake_mpirun("echo Error: $*; exit 1")
    assert main(["run", "Complete(65)", "-q"]) == 2
    told = "Error: 65 processes for Complete(65): --ranks 65 starts them\n"
    assert capsys.readouterr() == ("", told)
    assert main(["run", "Complete(65)", "--ranks", "65", "--time-limit", "1s"]) == 2
    assert " -n 65 " in capsys.readouterr().err
