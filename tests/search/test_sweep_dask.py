"""A sweep on a real Dask cluster of two worker processes, one of them killed in the middle."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.design import Question, measure
from ocs_codesign.search.catalogue.entry import Provenance, as_entry
from ocs_codesign.search.catalogue.store import Catalogue

SIZES = ["--nodes", "6-7", "--degree", "2-3"]


def content(path):
    with Catalogue(path) as store:
        store.check()
        return list(store.all_entries())


SCHEDULER = """
import asyncio
from distributed import Scheduler

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=":0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(main())
"""


@contextmanager
def client_of(scheduler):
    from distributed import Client

    with Client(scheduler, timeout=600) as client:
        yield client


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler with two workers, started as their own processes."""
    here = {"stderr": subprocess.DEVNULL, "cwd": tmp_path}
    with ExitStack() as started:

        def start(*words):
            process = started.enter_context(
                subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, **here)
            )
            started.callback(process.kill)
            return process

        address = start("-c", SCHEDULER).stdout.readline().decode().strip()
        for _ in range(2):
            start("-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
                  "--host", "127.0.0.1", "--no-dashboard")  # fmt: skip
        with client_of(address) as client:
            client.wait_for_workers(2, timeout=600)
        yield address


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster's own libraries
def test_a_cluster_that_loses_a_worker_gives_the_same_catalogue(cluster, tmp_path, monkeypatch):
    def recorded(store, *given):
        answer = record(store, *given)
        if len(store.questions()) == 3 and pids:
            os.kill(pids.pop(), signal.SIGKILL)
            pids.clear()
        return answer

    local, remote = tmp_path / "local.sqlite", tmp_path / "remote.sqlite"
    assert main(["sweep", *SIZES, "--workers", "1", "--catalogue", str(local)]) == 0
    with client_of(cluster) as client:
        pids = list(client.run(os.getpid).values())
    assert len(set(pids)) == 2
    record = Catalogue.record
    monkeypatch.setattr(Catalogue, "record", recorded)
    assert main(["sweep", *SIZES, "--dask", cluster, "--catalogue", str(remote)]) == 0
    assert not pids
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
            ["sweep", "--nodes", "6", "--degree", "2", "--catalogue", "c.sqlite"],
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


def swept(scheduler, tmp_path):
    ask = ["sweep", *SIZES, "--dask", scheduler, "--catalogue", str(tmp_path / "c")]
    words = [sys.executable, "-m", "ocs_codesign", *ask]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.slow
def test_no_scheduler_there(tmp_path):
    with socket.socket() as nobody:  # has the port, and takes no client
        nobody.bind(("127.0.0.1", 0))
        assert "Error: " in swept(f"tcp://127.0.0.1:{nobody.getsockname()[1]}", tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster's own libraries
def test_a_scheduler_without_workers_is_said(cluster, tmp_path):
    with client_of(cluster) as client:
        client.retire_workers(list(client.scheduler_info()["workers"]))
    assert "has no workers: 'dask worker" in swept(cluster, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the cluster's own libraries
def test_improving_on_a_cluster(cluster, tmp_path):
    path, question = tmp_path / "c.sqlite", Question(19, 3)
    entry = as_entry(measure("GeneralizedKautz(3, 19)", "allreduce"))
    with Catalogue(path, writable=True) as store:
        store.record(question, [entry], Provenance("test", "0", 1, 0.0))
    ask = ["catalogue", "improve", "--catalogue", str(path), "--nodes", "19", "--degree", "3"]
    assert main([*ask, "--dask", cluster]) == 0
    with Catalogue(path) as store:
        store.check()
        entries = store.entries(question)
    assert entries[0] == entry
    assert min(one.allgather.t_b for one in entries) < entry.allgather.t_b
