"""GOAL both ways: times of LogGOPSim, what is refused, what is written is read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from folders import DATA

from ocs_codesign.core.cost import CostModel
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.goal import checked_goal, load_goal_job, parse_goal
from ocs_codesign.jobs.files.job_files import GivenMachine, load_job
from ocs_codesign.jobs.issue import steady

FILES = DATA / "foreign"
LOGGOPSIM = {
    # Nanoseconds with L = 1000, G = 0.02, o = g = O = 0, and messages one after the other.
    "ring4": (65913, 3),
    "ring8_calc": (188797, 7),
    "a2a6": (7550, 5),
    "bcast8": (65913, 3),
    "bcast6": (64913, 3),
}


def period_ns(path: Path) -> float:
    job = load_job(path, GivenMachine(CostModel(1e-6, 50e9)))
    return float(steady(job.graph, job.discipline).period_s) * 1e9


@pytest.mark.parametrize("name", LOGGOPSIM)
def test_times_of_loggopsim(name):
    """It counts a byte less a message: (s - 1) G."""
    known, messages = LOGGOPSIM[name]
    assert known <= period_ns(FILES / f"{name}.goal") <= known + messages
    assert checked_goal(FILES / f"{name}.goal").witness is None


def test_comments_cpus_and_starts():
    text = """num_ranks 2 // two
/* a block
   of lines */
rank 1 {
r: recv 8b from 0 tag 3 cpu 0 nic 1
c: calc 100
d: calc 70 cpu 1
c requires r
d irequires c
}
rank 0 {
s: send 8b to 1 tag 3
}
"""
    graph = parse_goal(text.encode(), "x")
    assert graph.lane.tolist() == [0, 0, 0, 1]
    assert graph.waiting().tolist() == [2, 3]
    assert graph.wait.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "the file is empty|there is no rank"),
        ("rank 0 {\n}\n", "line 1: a file begins with num_ranks"),
        ("num_ranks 2\nrank 2 {\n}\n", "line 2: 'rank 2 {': here begins a rank below 2"),
        ("num_ranks 1\nrank 0 {\na: calc 5\n", "the file ends within a rank"),
        ("num_ranks 1\nrank 0 {\na: calc 5\na: calc 6\n}\n", "line 4: the label a is there twice"),
        ("num_ranks 1\nrank 0 {\na: calc 5\na requires b\n}\n", "line 4: b is no label of rank 0"),
        ("num_ranks 2\nrank 0 {\na: recv 5b from -1 tag -1\n}\n", "no wildcards"),
        ("num_ranks 2\nrank 0 {\na: sned 5b to 1\n}\n", "line 3: 'a: sned 5b to 1' is no send"),
        ("num_ranks 2\nrank 0 {\na: send 5b to 1 tag 0\n}\n", "to 1 with tag 0 has no receive"),
        (
            "num_ranks 2\nrank 0 {\na: send 5b to 1\n}\nrank 1 {\nb: recv 6b from 0\n}\n",
            "sends 5 bytes: its receive has 6",
        ),
        (
            "num_ranks 2\nrank 0 {\na: send 5b to 1 tag 99999999999999999999\n}\n",
            "another rank, no wildcards",
        ),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n",
            "waits for itself",
        ),
    ],
)
def test_bad_files(text, rule, tmp_path):
    path = tmp_path / "x.goal"
    path.write_text(text)
    with pytest.raises(ValueError, match=rule):
        load_goal_job(path)


@pytest.mark.parametrize("recipe", ["UniRing(1,5)", "Torus((3,3))", "Circulant(7, (2, 3))"])
@pytest.mark.parametrize("collective", ["allgather", "allreduce", "reduce-scatter"])
def test_what_is_written_is_read(recipe, collective, tmp_path, capsys):
    out = tmp_path / "out"
    export = ["export", recipe, "--collective", collective, "--format", "goal"]
    assert main([*export, "--message", "1MiB", "--out", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    (file,) = out.glob("*.goal")
    capsys.readouterr()
    assert main(["iterate", str(file), "--alpha", "1us", "--bandwidth", "50GB/s"]) == 0
    assert "GOAL" in capsys.readouterr().out


def test_the_ring_of_four_is_that_of_the_samples(tmp_path):
    out = tmp_path / "out"
    assert (
        main(["export", "UniRing(1,4)", "--format", "goal", "--message", "4MiB", "--out", str(out)])
        == 0
    )
    (file,) = out.glob("*.goal")
    assert period_ns(file) == period_ns(FILES / "ring4.goal")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGGOPSIM)
def test_mutated_files(name, tmp_path):
    lines = (FILES / f"{name}.goal").read_text().splitlines()
    rng = random.Random(name)
    path = tmp_path / "x.goal"
    for _ in range(800):
        spoiled = list(lines)
        at = rng.randrange(len(spoiled))
        kind = rng.randrange(3)
        if kind == 0:
            del spoiled[at]
        elif kind == 1:
            spoiled.insert(at, rng.choice(lines))
        else:
            spoiled[at] = spoiled[at].replace(rng.choice("0123456789"), rng.choice("019-x"))
        path.write_text("\n".join(spoiled))
        sentence = ""
        try:
            load_goal_job(path)
        except ValueError as error:
            sentence = str(error)
        assert "\n" not in sentence
