"""Profiles by steps: kernels belong where they were launched, iterations are between their ends."""

from __future__ import annotations

import copy
import json

import pytest
from folders import DATA

from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.files.profile_steps import median_step, union
from ocs_codesign.jobs.files.profiler import profiled_job

FILES = DATA / "foreign"
CASES = json.loads((FILES / "profiles.json").read_text())
EVERY = [(case, rank) for case in CASES for rank in range(len(case["ranks"]))]


def profile(name: str, rank: int = 0) -> dict:
    return json.loads((FILES / f"{name}.rank{rank}.json").read_text())


@pytest.mark.parametrize(("case", "rank"), EVERY, ids=[f"{c['case']}-{r}" for c, r in EVERY])
def test_known_steps(case, rank):
    job, step = profiled_job(profile(case["case"], rank))
    known = next(one for one in case["ranks"][rank] if one["step"] == step.step)
    for name in ("busy", "compute", "collectives", "exposed"):
        assert getattr(step, f"{name}_s") * 1e6 == pytest.approx(known[f"{name}_us"])
    assert (step.kernels, step.collectives) == (known["kernels"], known["collectives"])
    if known["end_to_end_us"] is not None:
        assert step.period_s * 1e6 == pytest.approx(known["end_to_end_us"])
        assert step.idle_s == pytest.approx(step.period_s - step.busy_s)
    assert set(job.size_bytes[job.size_bytes > 0].tolist()) == {case["message_bytes"]}
    assert job.ranks.tolist() == [case["world"]]


def test_idle_is_a_node_of_its_own_and_all_of_an_iteration_is_there():
    job, step = profiled_job(profile("ddp_two_ranks"))
    labels = [job.labels[label] for label in job.label]
    ticks = {
        name: sum(int(job.ticks[at]) for at, one in enumerate(labels) if one == name)
        for name in ("idle", "computation")
    }
    assert ticks["computation"] == pytest.approx(step.compute_s * 1e9)
    assert 0 < ticks["idle"] <= step.idle_s * 1e9 + 1


def test_without_marks_all_kernels_are_one_step():
    whole = profile("ddp_two_ranks")
    whole["traceEvents"] = [one for one in whole["traceEvents"] if "Step" not in one["name"]]
    job, step = profiled_job(whole)
    assert (step.step, step.kernels, job.num_instances) == ("", 42, 12)


def test_a_kernel_of_a_later_time_is_of_the_step_that_launched_it():
    """Times alone would give the last steps fewer kernels than they have."""
    _, step = profiled_job(profile("launched_ahead"))
    assert step.kernels == 11


def test_what_no_operation_tells_is_refused():
    bare = profile("no_names")
    bare["traceEvents"] = [one for one in bare["traceEvents"] if one["name"][:5] != "nccl:"]
    with pytest.raises(ValueError, match="no operation nccl:"):
        profiled_job(bare)
    odd = copy.deepcopy(profile("no_names"))
    for event in odd["traceEvents"]:
        if event["name"] == "nccl:all_reduce":
            event["args"]["Input Dims"] = ["many"]
    with pytest.raises(ValueError, match="'Input Dims'"):
        profiled_job(odd)


def test_medians_and_unions():
    assert median_step({3: 10}) == (3, None)
    assert median_step({3: 10, 4: 30, 5: 45, 6: 100}) == (4, 10)
    assert union([]) == 0
    assert union([(0, 10), (2, 3), (20, 21)]) == 11


def test_the_command_says_what_was_measured(capsys):
    asked = ["iterate", str(FILES / "ddp_two_ranks.rank0.json"), *("--alpha", "5us")]
    assert main([*asked, "--bandwidth", "100GB/s", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["profile"]
    assert (told["step"], told["period_s"], told["kernels"]) == ("ProfilerStep#4", 0.001521, 14)
    assert main([*asked, "--bandwidth", "100GB/s"]) == 0
    assert "ProfilerStep#4, 2.1% idle of 1.521 ms" in capsys.readouterr().out


def exchange(**args):
    """A profile of rank 1 of 4 with one exchange of floats."""
    told = {
        **{"Collective name": "all_to_allv", "In msg nelems": 1200, "Out msg nelems": 600},
        **{"Group size": 4, "dtype": "Float", "Process Group Ranks": "[0, 1, 2, 3]"},
        **{"In split size": "[1, 5, 3, 3]", "Out split size": "[1, 0, 1, 0]"},
    }
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "ts": 0, "dur": 50}
    told = {key: value for key, value in (told | args).items() if value is not None}
    events = [{**kernel, "args": told}]
    return {"distributedInfo": {"rank": 1, "world_size": 4}, "traceEvents": events}


def sent_bytes(profile):
    job, _ = profiled_job(profile)
    return int(job.size_bytes.max())


def test_uneven_exchanges_have_the_bytes_that_leave_or_reach_a_rank():
    """7 of 12 rows leave it, 700 elements, as of an even exchange of 700 * 4 / 3."""
    assert sent_bytes(exchange()) == 934 * 4
    assert sent_bytes(exchange(**{"In split size": [0, 12, 0, 0]})) == 800 * 4
    at_home = {"In split size": "[0, 9, 0, 0]", "Out split size": "[0, 5, 0, 0]"}
    assert sent_bytes(exchange(**at_home)) == 0
    even = {"Collective name": "all_to_all", "In split size": "[]", "Out split size": None}
    assert sent_bytes(exchange(**even)) == 1200 * 4


@pytest.mark.parametrize(
    "args",
    [
        {"In split size": None},
        {"Out split size": "[]"},
        {"In split size": "[1, 5, ..., 3]"},
        {"In split size": "[1, 5, 6]"},
        {"In split size": "[1, 5, -3, 9]"},
        {"Process Group Ranks": "[0, 2, 3, 4]"},
    ],
)
def test_uneven_exchanges_without_sizes_are_refused(args):
    with pytest.raises(ValueError, match=r"an exchange of unequal parts: '.* split size'"):
        profiled_job(exchange(**args))


def test_kernels_that_are_no_collective_of_jobs_keep_their_time():
    one = profile("ddp_two_ranks")
    for event in one["traceEvents"]:
        args = event.get("args", {})
        if args.get("Collective name") is not None:
            args["Collective name"] = "send"
    job, step = profiled_job(one)
    assert job.size_bytes.max() <= 0
    ((name, seconds),) = step.as_measured
    assert (name, seconds) == ("send", pytest.approx(seconds))
    assert f"as long as measured: send ({seconds / step.period_s:.1%})" in step.text
    assert seconds > 0
