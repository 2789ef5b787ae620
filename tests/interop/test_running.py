"""Designs on the ranks of PyTorch and JAX: the same answer as over MPI, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from click import Context
from execute_samples import PLANS
from runtime_samples import threaded

from ocs_codesign.faces.cli import app, main
from ocs_codesign.interop.run.engine import chunk_elements
from ocs_codesign.interop.run.performance import drawn
from ocs_codesign.interop.runtimes import starting
from ocs_codesign.interop.runtimes.registry import RUNTIMES
from ocs_codesign.interop.runtimes.running import RankData, job_of, outcome_of
from ocs_codesign.schedules.classic.registry import CLASSIC

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=11")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
SLOW = pytest.mark.slow


def jobs_of(ranks, names, *elements):
    """Samples whose circuits stay, as messages."""
    made = {name: PLANS[ranks][name]() for name in names}
    return [
        job_of(name, plan, each, (), 5)
        for name, (plan, barriers) in made.items()
        if not len(barriers)
        for each in elements
    ]


def threaded_run(job):
    """The outcome of ranks that are threads."""
    ranks = [RankData.of(job, rank) for rank in range(job.program.num_ranks)]
    outputs = [
        threaded(job.program, ranks[0].sizes, [rank.given(name) for rank in ranks])
        for name in ("int64", "float32")
    ]
    results = [each.result([got[each.rank] for got in outputs], (0.1, 0.2)) for each in ranks]
    return outcome_of(job, results, "queues", "torch")


def unequal(outcomes):
    return {
        each.job.name: [rank.difference for rank in each.ranks if rank.difference]
        for each in outcomes
        if not each.ok
    }


@pytest.mark.parametrize("ranks", [4, 5, 7, *(pytest.param(n, marks=SLOW) for n in (8, 9))])
def test_what_messages_bring_is_right(ranks):
    """Primes, damage, forests, switches, groups, unequal sizes, and what goes to each."""
    outcomes = [threaded_run(job) for job in jobs_of(ranks, PLANS[ranks], 3, 1009)]
    assert unequal(outcomes) == {}
    for each in outcomes:
        operations = sum(rank.num_operations for rank in each.ranks)
        assert operations == each.job.program.num_operations > 0


SOME = {
    7: ("Bruck all-to-all", "BFB allreduce of a prime"),
    8: ("greedy in uneven groups", "a forest over switches"),
    9: ("BFB on a damaged torus",),
}


@pytest.mark.runtimes
@pytest.mark.parametrize("ranks", SOME)
def test_the_same_on_torch(ranks):
    from ocs_codesign.interop.runtimes import torch_ranks

    jobs, store = jobs_of(ranks, SOME[ranks], 3, 1009), dist_store()

    def perform(rank):
        for at, job in enumerate(jobs):
            own = torch_ranks.JoinedRank(store(at), rank, ranks, timedelta(seconds=60))
            yield torch_ranks.WORKS["run"](own, (job, 60.0))

    with ThreadPoolExecutor(ranks) as pool:
        outcomes = list(pool.map(lambda rank: list(perform(rank)), range(ranks)))
    assert [unequal(each) for each in outcomes] == [{}] * ranks
    assert [each.job.name for each in outcomes[0]] == [job.name for job in jobs]


def dist_store():
    """A store in this process, with a part of its own by number."""
    import torch.distributed as dist

    store = dist.HashStore()
    return lambda at: dist.PrefixStore(str(at), store)


@pytest.mark.runtimes
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ranks", SOME)
def test_the_same_on_jax(ranks):
    import jax

    from ocs_codesign.interop.runtimes.jax_ranks import ran

    with jax.enable_x64(True):
        outcomes = [ran(job) for job in jobs_of(ranks, SOME[ranks][:1], 1009)]
    assert unequal(outcomes) == {}


def test_what_is_not_right_is_found():
    job = job_of("ring", CLASSIC["ring"].messages("allreduce", 4), 1009, (), 5)
    data = RankData.of(job, 2)
    wrong = [data.right(name) for name in ("int64", "float32")]
    total = sum(drawn(5, rank, 1009, "int64")[0] for rank in range(4))
    assert wrong[0].tolist() == total.tolist()
    wrong[1][1000] += 1
    found = data.result(wrong, (1.0, 1.0))
    assert not found.is_equal
    start = chunk_elements(job.program, 1009)[:3].sum()
    assert (found.difference.dtype, found.difference.chunk) == ("float32", 3)
    assert found.difference.element == 1000 - start


def test_choices_are_those_of_the_registry():
    (on,) = (each for each in app.get_command(Context(app), "run").params if "--on" in each.opts)
    assert list(on.type.choices) == list(RUNTIMES)  # help imports no runtime


@pytest.mark.parametrize("runtime", ["torch", "jax"])
def test_what_cannot_be_run_is_one_sentence(runtime, capsys, monkeypatch):
    words = ["run", "Complete(3)", "--on", runtime, "-q"]
    monkeypatch.setattr(starting, "find_spec", {}.get)
    assert main(words) == 2
    told = f"Error: {runtime} is missing: pip install 'ocs-codesign[{runtime}]'\n"
    assert capsys.readouterr().err == told
    monkeypatch.setattr(starting, "find_spec", lambda name: name)
    assert main([*words, "--in-place"]) == 2
    assert "--in-place is for --on mpi" in capsys.readouterr().err
    with pytest.raises(ValueError, match="circuits of d change while it runs"):
        job_of("d", None, 3, (2,), 0)


ANSWERS = (("torch", "PyTorch"), ("jax", "JAX"))


@pytest.mark.runtimes
@pytest.mark.parametrize(("runtime", "library"), ANSWERS)
@pytest.mark.parametrize(
    "words",
    [
        "Torus((2,2)) --collective broadcast --root 2 --elements 1001",
        pytest.param("Torus((2,2)) --collective allreduce --elements 3", marks=pytest.mark.long),
    ],
)
def test_the_command(runtime, library, words, tmp_path, capsys):
    file = tmp_path / "answer.json"
    assert main(["run", *words.split(), "--on", runtime, "--json", str(file)]) == 0
    assert capsys.readouterr().out.startswith("Equal: every rank has what numpy has, bit by bit.")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert (told["ok"], told["on"], told["ranks"]) == (True, runtime, 4)
    assert told["library"].startswith(library)
    assert [each["equal"] for each in told["results"]] == [True] * 4
    assert all(len(each["wall_s_not_network_time"]) == 2 for each in told["results"])


@pytest.mark.runtimes
@pytest.mark.parametrize(
    ("design", "code"), [("Complete(2)", 0), pytest.param("Complete(3)", 1, marks=pytest.mark.long)]
)
def test_under_torchrun(design, code):
    starter = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    words = ["-m", "ocs_codesign", "run", design, "--on", "torch", "--elements", "9"]
    done = subprocess.run(
        [*starter, *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code  # torchrun's own
    assert done.stdout.count("Equal: every rank has what numpy has") == 1 - code
    told = re.findall(r"^Error: (.*)", done.stderr, re.M)
    assert told == ["Complete(3) is for 3 ranks, but torchrun has 2"] * code


STOPPED = """
import signal, sys
from ocs_codesign.interop.runtimes import torch_ranks, torch_wire
wait = torch_wire.TorchWire.wait
def stop(self, started, peer, step):
    if self._group.rank() == 1 and step == 1:
        signal.pause()
    wait(self, started, peer, step)
torch_wire.TorchWire.wait = stop
sys.exit(torch_ranks.main(torch_ranks.Path(sys.argv[1])))
"""


@pytest.mark.runtimes
def test_a_rank_that_never_answers_is_said(monkeypatch, capsys):
    monkeypatch.setattr(
        starting, "_process", lambda _, place: [sys.executable, "-c", STOPPED, str(place)]
    )
    words = ["run", "Complete(4)", "--scheduler", "ring", "--on", "torch", "--time-limit", "4s"]
    assert main([*words, "-q"]) == 2
    told = capsys.readouterr().err
    # Those who wait for it say so; who waits for them, or has done its part, may be heard first.
    pattern = r"rank \d waits for rank \d, step \d of 3 of Complete\(4\): "
    pattern += "(nothing came in 4 s|the connection is gone)"
    pattern += r"|rank \d waits for all ranks to begin Complete\(4\): one of them does not come"
    assert re.fullmatch(f"Error: their process ended with code 1: Error: ({pattern})\n", told), told
