"""Sweeps: the same catalogue from any number of workers, after any interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ocs_codesign.core.collective import GATHERING
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search.bases import Effort
from ocs_codesign.search.catalogue.entry import find
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.frontiers import frontier
from ocs_codesign.search.pool import questions_behind
from ocs_codesign.search.sweep import sweep

LITTLE = Effort(work=2**11)
QUESTIONS = [Question(n, d, both) for n in (6, 9, 12) for d in (2, 3) for both in (False, True)]


def content(path):
    with Catalogue(path) as store:
        store.check()
        return list(store.all_entries())


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    path = tmp_path_factory.mktemp("sweep") / "serial.sqlite"
    answered = sweep(path, QUESTIONS, Here(), 1, command="test", effort=LITTLE)
    assert answered == len(questions_behind(QUESTIONS))
    return path


@pytest.mark.slow
def test_threads_give_the_same(serial, tmp_path):
    path = tmp_path / "threads.sqlite"
    with ThreadPoolExecutor(3) as executor:
        sweep(path, reversed(QUESTIONS), executor, 3, command="test", effort=LITTLE)
    assert content(path) == content(serial)


def test_entries_are_exact_and_as_good_as_the_finder(serial):
    with Catalogue(serial) as store:
        for question, entry in store.all_entries():
            candidate = measure(parse(entry.recipe))
            assert (candidate.cost_of("allgather"), candidate.cost_of("reduce-scatter")) == (
                entry.allgather,
                entry.reduce_scatter,
            )
            assert question.is_answered_by(candidate.recipe)
        for question in QUESTIONS:
            if question == Question(9, 3, True):
                assert store.entries(question) == ()
                continue
            for collective in GATHERING:
                answer = frontier(
                    question.num_nodes,
                    question.degree,
                    collective,
                    bidirectional=question.bidirectional,
                    effort=LITTLE,
                    fresh=True,
                )
                stored = [e.cost(collective) for e in find(store, question, collective).entries]
                for candidate in answer.candidates:
                    assert any(c == candidate.cost or c.dominates(candidate.cost) for c in stored)


@pytest.mark.slow
def test_resuming_does_only_what_is_missing(serial, tmp_path):
    path = tmp_path / "resumed.sqlite"
    first = sweep(path, QUESTIONS[:4], Here(), 1, command="test", effort=LITTLE)
    rest = sweep(path, QUESTIONS, Here(), 1, command="test", effort=LITTLE)
    assert first + rest == len(questions_behind(QUESTIONS))
    assert sweep(path, QUESTIONS, Here(), 1, command="test", effort=LITTLE) == 0
    assert content(path) == content(serial)


class Flaky(Here):
    """Loses the first tries of some tasks, as a cluster does when a worker dies."""

    def __init__(self, losses):
        self.losses = losses

    def submit(self, fn, /, *args, **kwargs):
        if self.losses:
            self.losses -= 1
            future = Future()
            future.set_exception(RuntimeError("the worker died"))
            return future
        return super().submit(fn, *args, **kwargs)


@pytest.mark.slow
def test_lost_tasks_are_tried_again(serial, tmp_path):
    path = tmp_path / "flaky.sqlite"
    sweep(path, QUESTIONS, Flaky(2), 1, command="test", effort=LITTLE)
    assert content(path) == content(serial)


def test_a_task_that_always_fails_ends_the_sweep(tmp_path):
    with pytest.raises(RuntimeError, match="cannot be answered: the worker died"):
        sweep(tmp_path / "c", QUESTIONS, Flaky(1000), 1, command="test", effort=LITTLE)


def command(path, *more):
    return [
        sys.executable, "-m", "ocs_codesign", "sweep", "--nodes", "4-6", "--degree", "2",
        "--links", "both", "--workers", "2", "--catalogue", str(path), *more,
    ]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The catalogue of an undisturbed sweep."""
    path = tmp_path_factory.mktemp("whole") / "whole.sqlite"
    subprocess.run(command(path), check=True, capture_output=True)
    return path


KILLED = """
import os, signal, sys
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.search.catalogue.store import Catalogue

def recorded(store, *given):
    answer = record(store, *given)
    if len(store.questions()) == 5:
        os.kill(os.getpid(), int(sys.argv[1]))
    return answer

signal.signal(signal.SIGINT, signal.default_int_handler)
record, Catalogue.record = Catalogue.record, recorded
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_killed_it_resumes(whole, tmp_path, sign):
    """It ends with its workers, which would hold the pipe of its errors."""
    broken = tmp_path / "broken.sqlite"
    python, _, _, *words = command(broken)
    process = subprocess.run(
        [python, "-c", KILLED, str(int(sign)), *words], capture_output=True, check=False
    )
    assert (b"the answers so far are kept" in process.stderr) == (sign is signal.SIGINT)
    assert process.returncode == (130 if sign is signal.SIGINT else -sign)
    with Catalogue(broken) as store:
        assert len(store.questions()) == 5
    subprocess.run(command(broken), check=True, capture_output=True)
    assert content(broken) == content(whole)


@pytest.mark.slow
def test_two_sweeps_at_once(whole, tmp_path):
    path = tmp_path / "shared.sqlite"
    both = [subprocess.Popen(command(path), stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert content(path) == content(whole)


def run(capsys, *arguments):
    code = main([*map(str, arguments), "--json", "-"])
    return code, json.loads(capsys.readouterr().out)


def test_commands(serial, tmp_path, capsys):
    here = ("--catalogue", serial)
    code, found = run(capsys, "catalogue", "find", "--nodes", 12, "--degree", 3, *here)
    assert code == 0
    assert found["exact"]
    assert [one["steps"] for one in found["candidates"]] == [2, 3]
    code, found = run(
        capsys, "catalogue", "find", "--nodes", 12, "--degree", 3, "--max-steps", 1, *here
    )
    assert (code, found["candidates"]) == (1, [])
    code, found = run(
        capsys, "catalogue", "find", "--nodes", 9, "--degree", 3, "--bidirectional", *here
    )
    assert (found["exact"], found["found_nodes"]) == (False, 12)
    code, shown = run(capsys, "catalogue", "show", "GeneralizedKautz( 3,12 )", *here)
    assert (code, shown["t_b"], shown["provenance"]["command"]) == (0, "1", "test")
    code, shown = run(capsys, "catalogue", "show", "Complete(40)", *here)
    assert (code, shown["found"]) == (1, False)
    code, verdict = run(capsys, "catalogue", "verify", "--sample", 5, *here)
    assert (code, verdict["ok"], verdict["sampled"]) == (0, True, 5)
    for kind in ("csv", "json"):
        out = tmp_path / f"all.{kind}"
        code, value = run(capsys, "catalogue", "export", "--format", kind, "--out", out, *here)
        assert code == 0
        assert out.stat().st_size > 100 * value["entries"] > 0
    assert len(json.loads((tmp_path / "all.json").read_text())) == value["entries"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "--nodes", "9-3", "--catalogue", "x"],
        ["sweep", "--nodes", "a", "--catalogue", "x"],
        ["sweep", "--nodes", "0-3", "--catalogue", "x"],
        ["sweep", "--nodes", "2-3"],
        ["sweep", "--nodes", "2-3", "--catalogue", "/nonexistent/x"],
        ["catalogue", "find", "--nodes", "1", "--degree", "2"],
        ["catalogue", "find", "--nodes", "8", "--degree", "2", "--max-t-b", "x"],
        ["catalogue", "find", "--nodes", "8", "--degree", "2", "--catalogue", "/etc/hosts"],
        ["catalogue", "show", "Foo(3)", "--catalogue", "nowhere"],
    ],
)
def test_bad_usage(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())
