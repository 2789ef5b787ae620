"""``sequence`` and ``verify``: circuits that change, believed only when replayed."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest

from ocs_codesign.faces.cli import main
from ocs_codesign.schedules.files.designs import load_design
from ocs_codesign.verification.circuits import NO_TIME

RINGS = ["DirectedCirculant(8, (1,))", "DirectedCirculant(8, (3,))"]
SHIFTS = [f"DirectedCirculant(8, ({offset},))" for offset in range(1, 8)]
PAIRS = ["DirectedCirculant(8, (1, 3))", "DirectedCirculant(8, (3, 5))"]
TIME = ["--alpha", "1us", "--bandwidth", "80Gbps", "--message", "8MB", "--delta", "10us"]


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    return code, *capsys.readouterr()


def built(capsys, path, *arguments: str) -> dict:
    code, out, err = run(capsys, "sequence", *arguments, "--out", str(path), "--json", "-")
    assert (code, err) == (0, "")
    return json.loads(out)


def verified(capsys, path) -> dict:
    code, out, err = run(capsys, "verify", str(path), "--json", "-")
    assert err == ""
    answer = json.loads(out)
    assert code == (0 if answer["ok"] else 1)
    return answer


@pytest.mark.parametrize("collective", ["alltoall", "allgather", "reduce-scatter", "allreduce"])
def test_what_is_built_verifies(capsys, tmp_path, collective):
    path = tmp_path / "d"
    answer = built(capsys, path, *PAIRS, "--collective", collective)
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    assert {key: answer[key] for key in record} == record
    assert (answer["recipes"], answer["degree"], answer["planes"]) == (PAIRS, 2, 2)
    assert (answer["collective"], answer["time"]) == (collective, None)
    checked = verified(capsys, path)
    assert checked["ok"]
    for key in ("recipes", "recipe_of_step", "planes", "circuits", "configurations", "changes"):
        assert checked[key] == answer[key]
    assert checked["claimed"] == {"steps": answer["cost"]["steps"], "t_b": answer["cost"]["t_b"]}
    assert verified(capsys, path / "schedule.npz")["ok"]


def test_times(capsys, tmp_path):
    direct = [*SHIFTS, "--steps-each", "1"]
    more = ["--start", "warm", "--serial", "--delta-per-circuit", "1us"]
    warm = built(capsys, tmp_path / "warm", *direct, *TIME, *more)["time"]
    assert warm["dead_s"] == pytest.approx(6 * 18e-6)
    code, out, err = run(capsys, "sequence", *direct, *TIME, "--out", str(tmp_path / "table"))
    assert (code, err) == (0, "")
    assert "777 us: 7 us for steps, 700 us for transmission, 70 us waiting for circuits" in out


def test_tables(capsys, tmp_path):
    path = str(tmp_path / "d")
    code, out, err = run(capsys, "sequence", *PAIRS, "--out", path)
    assert (code, err) == (0, "")
    assert "nodes, planes     8, 2" in out
    assert "configurations    2\ncircuits changed  8 in all\nthe fabric stops  1 time\n" in out
    assert "no schedule over the same steps is better" in out
    assert out.count("while the fabric stops") == 1
    code, out, err = run(capsys, "verify", path)
    assert (code, err) == (0, "")
    assert out.startswith("Valid: every send was replayed over circuits that are up.\n")
    assert f"recipes           {', '.join(PAIRS)}" in out
    assert "claimed           the same" in out
    assert "largest load (pieces)" in out
    run(capsys, "sequence", *RINGS[:1], "--out", path)
    assert "circuits changed  none" in run(capsys, "verify", path)[1]
    direct = [f"DirectedCirculant(20, ({offset},))" for offset in range(1, 20)]
    command = ["sequence", *direct, "--steps-each", "1", "--out", path]
    assert "2 more changes" in run(capsys, *command)[1]


def change_arrays(path, **changes) -> None:
    with np.load(path / "schedule.npz") as archive:
        arrays = dict(archive)
    for name, change in changes.items():
        arrays[name] = change(arrays[name].copy())
    np.savez(path / "schedule.npz", **arrays)


def change_record(path, **changes) -> None:
    record = json.loads((path / "design.json").read_text(encoding="utf-8"))
    (path / "design.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


@pytest.fixture
def design(capsys, tmp_path):
    path = tmp_path / "design"
    built(capsys, path, *RINGS, "--steps-each", "4")
    return path


def test_a_tampered_table_is_found(capsys, design):
    honest = load_design(design)
    pause = int(honest.circuits.pauses[0])
    change_arrays(design, pauses=lambda pauses: pauses[:0])
    witness = verified(capsys, design)["witness"]
    assert (witness["rule"], witness["step"], witness["plane"]) == (NO_TIME, pause, 0)
    code, out, _ = run(capsys, "verify", str(design))
    assert code == 1
    ends = f"link {witness['link']} ({witness['tail']} -> {witness['head']}), "
    assert out == f"Not valid: step {pause}, {ends}node {witness['node']}, plane 0: {NO_TIME}.\n"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"cost": {"steps": 5, "t_b": "3/2", "t_b_float": 1.5}}, "the claimed cost is 5 steps"),
        ({"max_load_per_step": ["1"]}, "the claimed largest loads"),
        ({"changes": []}, "the claimed changes are not those of the circuits"),
        ({"configurations": 1}, "1 configurations are claimed, but 2 follow"),
        ({"t_b_bound": "2"}, "t_b is claimed to be at least 2, but is 7/4"),
        ({"recipe_of_step": [0, 1]}, "2 of 5 steps have a claimed recipe"),
        ({"recipe_of_step": [0, 0, 0, 0, 0]}, "step .: the links up are not those of Directed"),
        ({"recipes": RINGS[::-1]}, "step 1: the links up are not those of DirectedCirculant"),
        ({"recipes": ["Complete(3)", RINGS[1]]}, "step 1: the nodes or ports are not those"),
        ({"recipes": ["Complete(8)", RINGS[1]]}, "step 1: the nodes or ports are not those"),
    ],
)
def test_false_claims_are_found(capsys, design, changes, rule):
    change_record(design, **changes)
    code, out, err = run(capsys, "verify", str(design))
    assert (code, err) == (1, "")
    assert out.startswith("Not valid: ")
    assert re.search(rule, out)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([*RINGS, "--collective", "allgather", "--max-chunks", "2"], "is for --collective all"),
        ([*RINGS, "--collective", "allgather", "--gap", "1%"], "are for an all-to-all over"),
        ([*RINGS, "--steps-each", "2,x"], "write one number or several as in 2,3,1"),
        ([*RINGS, "--delta", "10us"], "a time needs --alpha, --bandwidth, --message and --delta"),
    ],
)
def test_bad_commands(capsys, tmp_path, arguments, rule):
    code, out, err = run(capsys, "sequence", *arguments, "--out", str(tmp_path / "d"))
    assert (code, out) == (2, "")
    assert rule in err
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == []


def test_a_design_is_no_stream(capsys, tmp_path):
    code, _, err = run(capsys, "sequence", *RINGS, "--out", "-")
    assert (code, "cannot go to standard output" in err) == (2, True)
    (tmp_path / "thesis.tex").write_text("42", encoding="utf-8")
    code, _, err = run(capsys, "sequence", *RINGS, "--out", str(tmp_path))
    assert (code, "holds other files" in err) == (2, True)
