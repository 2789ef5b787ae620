"""A sweep on a real Dask cluster of two worker processes, one of them killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search.catalogue.entry import Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue

SIZES = ["--nodes", "6-11", "--degrees", "2-4"]


def content(path):
    with Catalogue(path) as store:
        store.check()
        return list(store.all_entries())


def workers_of(scheduler: str) -> dict[str, int]:
    """Process id of every worker, by its address."""
    from distributed import Client

    with Client(scheduler, timeout="20s") as client:
        return client.run(os.getpid)


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler with two workers, started as their own processes."""
    port_file = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    place = ["--scheduler-file", str(port_file)]
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", *place, "--port", "0", *here],
            **quiet,
        )
    ]
    deadline = time.monotonic() + 30
    while not port_file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", *place, "--nthreads", "1"]
    started += [subprocess.Popen([*worker, "--no-nanny", *here], **quiet) for _ in range(2)]
    from json import loads

    address = loads(port_file.read_text())["address"]
    while len(workers_of(address)) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    yield address
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster's own libraries
def test_a_cluster_that_loses_a_worker_gives_the_same_catalogue(cluster, tmp_path):
    local, remote = tmp_path / "local.sqlite", tmp_path / "remote.sqlite"
    assert main(["sweep", *SIZES, "--workers", "1", "--catalogue", str(local)]) == 0
    pids = workers_of(cluster)
    assert len(set(pids.values())) == 2
    sweep = subprocess.Popen(
        [
            sys.executable, "-m", "ocs_codesign", "sweep", *SIZES,
            "--dask", cluster, "--catalogue", str(remote),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    answered = 0
    while answered < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
        if remote.exists():
            with Catalogue(remote) as store:
                answered = len(store.questions())
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    _, errors = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, errors.decode()
    assert answered < len(content(local))
    assert content(remote) == content(local)


class Lost:
    """A client whose one worker is gone by the time that it is counted, and comes again."""

    def __init__(self, *_place, **_limits):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def wait_for_workers(self, *_number, **_limits):
        pass

    def nthreads(self):
        return {}

    def get_executor(self):
        return ThreadPoolExecutor(1)


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "star(3, 1)", "--bandwidth", "1GB/s", "--message", "1KiB"],
        pytest.param(
            ["sweep", "--nodes", "6", "--degrees", "2", "--catalogue", "c.sqlite"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_worker_lost_while_starting_is_survived(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    distributed = SimpleNamespace(Client=Lost, KilledWorker=MemoryError)
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    assert main([*command, "--dask", "tcp://here:1"]) == 0
    there = capsys.readouterr().out
    assert main([part.replace("c.sqlite", "d.sqlite") for part in command]) == 0
    assert capsys.readouterr().out.replace("d.sqlite", "c.sqlite") == there


def test_workers_that_a_task_ends_are_a_sentence(tmp_path, monkeypatch, capsys):
    def died(*_arguments):
        raise MemoryError("killed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ocs_codesign.schedules.compare.comparison.play", died)
    distributed = SimpleNamespace(Client=Lost, KilledWorker=MemoryError)
    monkeypatch.setitem(sys.modules, "distributed", distributed)
    asked = ["compare", "star(3, 1)", "--bandwidth", "1GB/s", "--message", "1KiB"]
    assert main([*asked, "--dask", "tcp://here:1"]) == 2
    assert "ended one after another over the same task" in capsys.readouterr().err


@pytest.mark.slow
def test_no_scheduler_there(tmp_path):
    done = subprocess.run(
        [
            sys.executable, "-m", "ocs_codesign", "sweep", *SIZES,
            "--dask", "tcp://127.0.0.1:9", "--catalogue", str(tmp_path / "c"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_scheduler_without_workers_is_said(cluster, tmp_path):
    for pid in workers_of(cluster).values():
        os.kill(pid, signal.SIGKILL)
    done = subprocess.run(
        [
            sys.executable, "-m", "ocs_codesign", "sweep", *SIZES,
            "--dask", cluster, "--catalogue", str(tmp_path / "c"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "has no workers: 'dask worker" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster's own libraries
def test_improving_on_a_cluster(cluster, tmp_path):
    path, question = tmp_path / "c.sqlite", Question(67, 3)
    entry = as_entry(measure("GeneralizedKautz(3, 67)", "allreduce"))
    with Catalogue(path, writable=True) as store:
        store.record(question, [entry], Provenance("test", "0", 1, 0.0))
    ask = ["catalogue", "improve", "--catalogue", str(path), "--nodes", "67", "--degrees", "3"]
    assert main([*ask, "--dask", cluster]) == 0
    with Catalogue(path) as store:
        store.check()
        entries = store.entries(question)
    assert entries[0] == entry
    assert min(one.allgather.t_b for one in entries) < entry.allgather.t_b
