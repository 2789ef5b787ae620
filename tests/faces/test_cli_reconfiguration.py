"""``frontier --delta``: tables, sentences, JSON, pictures, and what it refuses."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.faces.cli import main

WORKLOAD = ["--alpha", "1us", "--bandwidth", "100Gbps", "--message", "16MiB"]


def run(*arguments, nodes=8, degree=2, collective="alltoall", delta="10us"):
    return main(
        [
            *("frontier", "--nodes", str(nodes), "--degree", str(degree)),
            *("--collective", collective, "--delta", delta, *arguments),
        ]
    )


def answer(capsys, *arguments, **question):
    assert run(*arguments, "--json", "-", **question) == 0
    return json.loads(capsys.readouterr().out)


def test_all_to_all_says_from_when_it_pays(capsys):
    assert run("--delta", "25ms", *WORKLOAD) == 0
    out = capsys.readouterr().out
    assert "1 static and 3 that change circuits on the frontier" in out
    assert "DiC(8,{1,2}) → DiC(8,{3,4})" in out
    assert "at 10 us" in out
    assert "at 25 ms" in out
    assert "pays below a dead time of" in out
    assert "At a dead time of 10 us yes:" in out
    assert "At a dead time of 25 ms no:" in out
    assert "it pays for messages above" in out
    assert "tree" in out


def test_the_recipes_of_a_row(capsys):
    (row,) = [one for one in answer(capsys)["candidates"] if one["configurations"] == 2]
    assert run("--pick", "2") == 0
    assert capsys.readouterr().out.splitlines() == row["recipes"]
    assert run("--pick", "9") == 2
    assert "--pick is 9: the answer has 4 rows" in capsys.readouterr().err


def test_without_a_workload_it_answers_in_message_times(capsys):
    assert run() == 0
    out = capsys.readouterr().out
    assert "changing circuits pays below a dead time of 0.4167 M/B, with 2 configurations" in out
    assert "Give --alpha, --bandwidth and --message" in out


def test_json_of_all_to_all(capsys):
    found = answer(capsys, "--delta", "0s", *WORKLOAD)
    assert found["reconfiguration_s"] == [1e-5, 0]
    times = {one["configurations"]: Fraction(one["t_b"]) for one in found["candidates"]}
    assert times == {1: Fraction(5, 3), 2: Fraction(5, 4), 3: 1, 4: Fraction(7, 8)}
    for one in found["candidates"]:
        assert Fraction(one["tree_bound"]) <= Fraction(one["t_b_bound"]) <= Fraction(one["t_b"])
        assert one["gap"] == pytest.approx(
            float(Fraction(one["t_b"]) / Fraction(one["t_b_bound"]) - 1)
        )
        assert [len(times) for times in one["times_by_dead_time_s"]] == [2]
        assert len(one["recipes"]) == one["configurations"]
    assert found["candidates"][0]["maker"] == "static"
    assert found["break_even_s"] == [pytest.approx((5 / 3 - 5 / 4) * 2**24 / 12.5e9, rel=0.01)]
    first, free = found["verdicts"]
    assert first["pays"]
    assert free["pays"]
    assert free["configurations"] == 4
    assert first["pays_for_bytes"][0][1] is None
    assert first["time_s"] < first["static_time_s"]


def test_allreduce_prints_what_can_be_saved(capsys):
    question = {"nodes": 27, "degree": 2, "collective": "allreduce", "delta": "1us"}
    assert run(*WORKLOAD, **question) == 0
    out = capsys.readouterr().out
    assert "saves at most 2 (D - L) =" in out
    assert "an allgather takes 3 steps on any circuits" in out
    assert "a reduce-scatter and allgather over any circuits" in out
    assert "K3 then K3 then K3" in out
    assert "over tree" not in out
    assert "A fat tree of as many ports takes at least 2 steps, t_b 52/27" in out
    found = answer(capsys, *WORKLOAD, **question)
    assert found["fewest_allgather_steps"] == 3
    static = [one for one in found["candidates"] if one["configurations"] == 1]
    optimal = min(one["steps"] for one in static if Fraction(one["t_b"]) == Fraction(52, 27))
    assert found["most_steps_saved"] == optimal - 6


@pytest.mark.parametrize("collective", ["alltoall", "allreduce"])
def test_pictures(tmp_path, capsys, collective):
    for workload in ([], WORKLOAD, WORKLOAD):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.svg"
        assert run("--plot", str(path), *workload, collective=collective) == 0
    alone, one, again = (path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert one == again != alone
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--criteria", "joint"], "--delta excludes --criteria joint, --bidirectional and --all"),
        (["--delta", "-1us"], "'-1us' is not a time: it must be finite and not negative"),
        (["--alpha", "1us"], "are only given together"),
    ],
)
def test_refusals(capsys, arguments, sentence):
    question = arguments if isinstance(arguments, dict) else {}
    assert run(*([] if question else arguments), **question) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.out == ""


def test_a_limit_alone_is_refused(capsys):
    command = ["frontier", "--nodes", "8", "--degree", "2", "--max-configurations", "3"]
    assert main([*command, "--collective", "alltoall"]) == 2
    assert "only given with --delta" in capsys.readouterr().err
